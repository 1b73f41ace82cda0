"""The three methods of torch_baseline.py on a card, as one would write them with PyTorch: the
candidates of the mixture come from scoring every item there and torch.topk.

    torch_gpu.py FOLDER [SAMPLES]

reads items.npy [P, L], contexts.npy [N, L], y_ids.npy and y_counts.npy. First "ready,<torch and
card>" or "absent,<why>"; each line of input is "METHOD BATCH STEPS" and is answered by
"METHOD,STEPS,seconds a step,mean reward of the last step". "start THETA RATE" begins a training
from the theta of a file, "save THETA" writes it; both are answered.
"""
import sys
import time

SAMPLES = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
K, EPSILON, LEARNING_RATE = 256, 0.8, 1e-4


class Problem:
    def __init__(self, folder):
        def array(name):
            return torch.from_numpy(np.load(f"{folder}/{name}.npy").astype(np.float32))
        self.items, self.contexts = array("items").cuda(), array("contexts").cuda()
        self.P, self.L = self.items.shape
        ids = np.load(f"{folder}/y_ids.npy").ravel().astype(np.int64)
        counts = np.load(f"{folder}/y_counts.npy").ravel().astype(np.int64)
        Y = np.full((len(counts), counts.max()), self.P, dtype=np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        Y[rows, np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)] = ids
        Y.sort(axis=1)
        self.Y = torch.from_numpy(Y).cuda()
        torch.manual_seed(1)
        self.theta = torch.nn.Parameter(0.005 * torch.randn(self.L, self.L, device="cuda"))
        self.optimiser = torch.optim.Adam([self.theta], lr=LEARNING_RATE)

    def start(self, path, rate):
        self.theta = torch.nn.Parameter(torch.from_numpy(np.load(path)).cuda())
        self.optimiser = torch.optim.Adam([self.theta], lr=float(rate))

    def save(self, path):
        np.save(path, self.theta.detach().cpu().numpy())

    def batch(self, n):
        rows = torch.randint(len(self.contexts), (n,), device="cuda")
        return self.contexts[rows], self.Y[rows]

    def ascend(self, objective):
        self.optimiser.zero_grad()
        (-objective.sum(dim=1).mean()).backward()
        self.optimiser.step()


def found(sorted_rows, ids):
    places = torch.searchsorted(sorted_rows, ids).clamp_(max=sorted_rows.shape[1] - 1)
    return places, sorted_rows.gather(1, places) == ids


def reinforce(problem, n):
    x, Y = problem.batch(n)
    log_pi = torch.log_softmax(x @ problem.theta @ problem.items.T, dim=1)
    with torch.no_grad():
        # multinomial takes 2^24 categories at most
        ids = torch.multinomial(log_pi.exp(), SAMPLES, replacement=True)
        r = found(Y, ids)[1].float()
        advantage = (r - r.mean(dim=1, keepdim=True)) / (SAMPLES - 1)
    problem.ascend(advantage * log_pi.gather(1, ids))
    return r


def covariance_step(problem, x, Y, ids, log_q):
    query = x @ problem.theta
    f = torch.bmm(problem.items[ids], query.unsqueeze(2)).squeeze(2)
    with torch.no_grad():
        wbar = torch.softmax(f - log_q, dim=1)
        r = found(Y, ids)[1].float()
        rbar = (wbar * r).sum(dim=1, keepdim=True)
    problem.ascend(wbar * (r - rbar) * f)
    return rbar


def uniform(problem, n):
    x, Y = problem.batch(n)
    return covariance_step(problem, x, Y, torch.randint(problem.P, (n, SAMPLES), device="cuda"),
                           0.0)


def mixture(problem, n):
    x, Y = problem.batch(n)
    with torch.no_grad():
        scores, candidates = torch.topk(x @ problem.theta @ problem.items.T, K, dim=1)
        candidates, order = candidates.sort(dim=1)
        kappa = torch.softmax(scores.gather(1, order), dim=1)
        from_kappa = candidates.gather(1, torch.multinomial(kappa, SAMPLES, replacement=True))
        from_all = torch.randint(problem.P, (n, SAMPLES), device="cuda")
        ids = torch.where(torch.rand(n, SAMPLES, device="cuda") < EPSILON, from_all, from_kappa)
        places, inside = found(candidates, ids)
        q = EPSILON / problem.P + (1 - EPSILON) * kappa.gather(1, places) * inside
    return covariance_step(problem, x, Y, ids, q.log())


METHODS = {"reinforce": reinforce, "uniform": uniform, "mixture": mixture}


def main():
    problem = Problem(sys.argv[1])
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
                reward = METHODS[method](problem, int(batch))
            torch.cuda.synchronize()
            seconds = (time.perf_counter() - start) / int(steps)
            print(f"{method},{steps},{seconds:.9g},{reward.mean().item():.5f}", flush=True)
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
