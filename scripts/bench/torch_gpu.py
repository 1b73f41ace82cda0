"""The methods of torch_methods.py on a card, where the candidates of the mixture come from scoring
every item and torch.topk.

    torch_gpu.py FOLDER [SAMPLES]

reads items.npy [P, L], contexts.npy [N, L], y_ids.npy and y_counts.npy. First "ready,<torch and
card>" or "absent,<why>"; each line of input is "METHOD BATCH STEPS" and is answered by
"METHOD,STEPS,seconds a step,mean reward of the last step". "start THETA RATE" begins a training
from the theta of a file, "save THETA" writes it; both are answered.
"""
import sys
import time


def main():
    import torch_methods

    class Problem(torch_methods.Problem):
        def search(self, query):
            return torch.topk(query @ self.items.T, torch_methods.K, dim=1)

        def start(self, path, rate):
            self.begin(torch.from_numpy(np.load(path)).cuda(), float(rate))

    problem = Problem(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000, "cuda")
    print(f"ready,torch {torch.__version__},{torch.cuda.get_device_name()}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] in ("start", "save"):
            getattr(problem, words[0])(*words[1:])
            print(words[0], flush=True)
            continue
        method, batch, steps = words
        try:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(int(steps)):
                reward = torch_methods.METHODS[method](problem, int(batch))
            torch.cuda.synchronize()
            seconds = (time.perf_counter() - start) / int(steps)
            print(f"{method},{steps},{seconds:.9g},{reward.item():.5f}", flush=True)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            print(f"{method},absent,out of memory", flush=True)


try:
    import numpy as np
    import torch
    why = None if torch.cuda.is_available() else "torch sees no card"
except ImportError as error:
    why = str(error)
if why is not None:
    print(f"absent,{why}", flush=True)
else:
    main()
