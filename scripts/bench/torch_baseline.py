"""The methods of torch_methods.py, timed. Reads items.npy [P, L], contexts.npy [N, L], y_ids.npy
and y_counts.npy.

    torch_baseline.py FOLDER THREADS GRAPH LIMIT    on the CPU: candidates come from FAISS's graph
    torch_baseline.py FOLDER THREADS -              the same, in CPU time: from scoring every item
    torch_baseline.py FOLDER cuda SAMPLES           on a card: from scoring every item

GRAPH is where the HNSW graph is kept between runs; no more than LIMIT seconds go into it in one
run, and the next goes on with it. First "ready,<versions>" or "absent,<why>". Each line of standard
input is "METHOD STEPS [BATCH]"; the answer is "METHOD,STEPS,seconds a step,mean reward of the last
step", or "METHOD,absent,why".
Runs whose start is given: "start NAME THETA ORDER LR" begins one from the theta of a file; its
steps take the contexts, counted from 1, that the file ORDER names, BATCH a step (0: none); drawn
ones if ORDER is -. "continue NAME" makes the next steps be of that run, "save NAME PATH" writes its
theta. All are answered.
"""
import copy
import os
import sys
import time

import numpy as np

BATCH, SAMPLES = 32, 1000


def graph_of(items, path, limit):
    """The graph over all items, or as far as it went."""
    if os.path.exists(path):
        graph = faiss.read_index(path)
    else:
        graph = faiss.IndexHNSWFlat(items.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    start, before = time.perf_counter(), graph.ntotal
    while graph.ntotal < len(items) and time.perf_counter() - start < limit:
        graph.add(items[graph.ntotal:graph.ntotal + 10000])
    if graph.ntotal > before:
        faiss.write_index(graph, path + ".new")
        os.replace(path + ".new", path)
    return graph


def main():
    import torch_methods

    class Problem(torch_methods.Problem):
        """order [steps, BATCH]: contexts counted from 1, 0 for none; None: they are drawn."""
        order, step, graph = None, 0, None

        def rows(self, n):
            if self.order is None:
                return super().rows(n)
            rows = self.order[self.step]
            self.step += 1
            return rows[rows > 0] - 1

        def search(self, query):
            if exact:
                return torch.topk(query @ self.items.T, torch_methods.K, dim=1)
            scores, ids = map(torch.from_numpy, self.graph.search(query.numpy(), torch_methods.K))
            return scores.masked_fill_(ids < 0, -np.inf), ids  # the graph may find fewer

    def clock():
        if cuda:
            torch.cuda.synchronize()
        return time.process_time() if exact and not cuda else time.perf_counter()

    def why_not(method):
        if exact or method != "mixture":
            return None
        if faiss is None:
            return "python3-faiss is absent"
        if Problem.graph is None:
            Problem.graph = graph_of(now.items.numpy(), sys.argv[3], float(sys.argv[4]))
        if now.graph.ntotal < now.P:
            return f"its graph has {now.graph.ntotal} of {now.P} items so far"
        return None

    def steps_of(method, steps, batch=BATCH):
        why = why_not(method)
        try:
            start = clock()
            for _ in range(steps if why is None else 0):
                reward = torch_methods.METHODS[method](now, batch)
            seconds = (clock() - start) / steps
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            torch.cuda.empty_cache()
            why = "out of memory"
        if why is not None:
            return f"{method},absent,{why}"
        return f"{method},{steps},{seconds:.9g},{reward.item():.5f}"

    cuda = sys.argv[2] == "cuda"
    exact = cuda or sys.argv[3] == "-"
    if cuda:
        if not torch.cuda.is_available():
            return "torch sees no card"
        about, samples = torch.cuda.get_device_name(), int(sys.argv[3])
    else:
        torch.set_num_threads(int(sys.argv[2]))
        about, samples = f"faiss {faiss.__version__ if faiss else 'absent'}", SAMPLES
        if faiss is not None:
            faiss.omp_set_num_threads(int(sys.argv[2]))
    now, runs = Problem(sys.argv[1], samples, "cuda" if cuda else "cpu"), {}
    print(f"ready,torch {torch.__version__},{about}", flush=True)
    for line in sys.stdin:
        first, *words = line.split()
        if first == "start":
            name, theta, order, rate = words
            run = runs[name] = copy.copy(now)
            run.begin(torch.from_numpy(np.load(theta)).to(run.device), float(rate))
            run.order, run.step = None, 0
            if order != "-":
                run.order = torch.from_numpy(np.load(order).astype(np.int64)).reshape(-1, BATCH)
        elif first == "continue":
            now = runs[words[0]]
        elif first == "save":
            runs[words[0]].save(words[1])
        else:
            first = steps_of(first, *map(int, words))
        print(first, flush=True)
    return None


try:
    import torch
except ImportError:
    torch = None
try:
    import faiss
except ImportError:
    faiss = None
absent = "python3-torch" if torch is None else main()
if absent is not None:
    print(f"absent,{absent}", flush=True)
