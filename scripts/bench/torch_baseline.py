"""The three methods of the paper as one would write them from its text, with PyTorch's autograd and
FAISS's graph: REINFORCE with a mean baseline, and the covariance gradient with a uniform and with a
mixture proposal. Reads items.npy [P, L], contexts.npy [N, L], y_ids.npy and y_counts.npy.

    torch_baseline.py FOLDER THREADS GRAPH LIMIT

GRAPH is where the HNSW graph is kept between runs; no more than LIMIT seconds go into it in one
run, and the next goes on with it. Each line of standard input is "METHOD STEPS";
the answer is "METHOD,STEPS,seconds a step,mean reward of the last step", or "METHOD,absent,why".
Runs whose start and contexts are given: "start NAME THETA ORDER LR" begins one from the theta of a
file; its steps take the contexts, counted from 1, that ORDER names, BATCH a step (0: none).
"continue NAME" makes the next steps be of that run, "save NAME PATH" writes its theta. All are
answered.
"""
import os
import sys
import time

import numpy as np

BATCH, SAMPLES, K, EPSILON, LEARNING_RATE = 32, 1000, 256, 0.8, 1e-4


class Run:
    """order [steps, BATCH]: contexts counted from 1, 0 for none; None: they are drawn."""
    def __init__(self, theta, order, learning_rate):
        self.theta = torch.nn.Parameter(theta)
        self.optimiser = torch.optim.Adam([self.theta], lr=learning_rate)
        self.order, self.step = order, 0

    def rows(self, n):
        if self.order is None:
            return torch.randint(n, (BATCH,))
        rows = self.order[self.step]
        self.step += 1
        return rows[rows > 0] - 1


class Problem:
    def __init__(self, folder):
        self.items = torch.from_numpy(np.load(f"{folder}/items.npy"))
        self.contexts = torch.from_numpy(np.load(f"{folder}/contexts.npy"))
        self.P, self.L = self.items.shape
        self.Y = padded(np.load(f"{folder}/y_ids.npy"), np.load(f"{folder}/y_counts.npy"), self.P)
        self.runs = {}
        torch.manual_seed(1)
        self.run = Run(0.005 * torch.randn(self.L, self.L), None, LEARNING_RATE)

    def batch(self):
        rows = self.run.rows(len(self.contexts))
        return self.contexts[rows], self.Y[rows]

    def ascend(self, objective):
        """objective [B, S]: its sum over the draws is to grow."""
        self.run.optimiser.zero_grad()
        loss = -objective.sum(dim=1).mean()
        loss.backward()
        self.run.optimiser.step()


def padded(ids, counts, nothing):
    """[N, longest] sorted ids of each Y, filled up with an id that no item has."""
    ids, counts = ids.ravel().astype(np.int64), counts.ravel().astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
    Y = np.full((len(counts), counts.max()), nothing, dtype=np.int64)
    Y[rows, places] = ids
    Y.sort(axis=1)
    return torch.from_numpy(Y)


def found(sorted_rows, ids):
    """Where ids [B, S] stand in sorted_rows [B, M], and whether they do."""
    places = torch.searchsorted(sorted_rows, ids).clamp_(max=sorted_rows.shape[1] - 1)
    return places, sorted_rows.gather(1, places) == ids


def rewards(Y, ids):
    return found(Y, ids)[1].float()


def reinforce(problem):
    x, Y = problem.batch()
    scores = x @ problem.run.theta @ problem.items.T
    log_pi = torch.log_softmax(scores, dim=1)
    with torch.no_grad():
        ids = torch.multinomial(log_pi.exp(), SAMPLES, replacement=True)
        r = rewards(Y, ids)
        advantage = (r - r.mean(dim=1, keepdim=True)) / (SAMPLES - 1)
    problem.ascend(advantage * log_pi.gather(1, ids))
    return r.mean().item()


def covariance_step(problem, x, Y, ids, log_q):
    """Algorithm 1: the sum of wbar (r - rbar) times the gradient of f."""
    query = x @ problem.run.theta
    f = torch.bmm(problem.items[ids], query.unsqueeze(2)).squeeze(2)
    with torch.no_grad():
        wbar = torch.softmax(f - log_q, dim=1)
        r = rewards(Y, ids)
        rbar = (wbar * r).sum(dim=1, keepdim=True)
    problem.ascend(wbar * (r - rbar) * f)
    return rbar.mean().item()


def uniform(problem):
    x, Y = problem.batch()
    ids = torch.randint(problem.P, (len(x), SAMPLES))
    return covariance_step(problem, x, Y, ids, 0.0)


def mixture(problem):
    x, Y = problem.batch()
    with torch.no_grad():
        query = x @ problem.run.theta
        scores, candidates = problem.graph.search(query.numpy(), K)
        candidates, order = torch.from_numpy(candidates).sort(dim=1)
        kappa = torch.softmax(torch.from_numpy(scores).gather(1, order), dim=1)
        kappa = torch.where(candidates >= 0, kappa, torch.zeros(()))  # the graph may find fewer
        from_kappa = candidates.gather(1, torch.multinomial(kappa, SAMPLES, replacement=True))
        from_all = torch.randint(problem.P, (len(x), SAMPLES))
        ids = torch.where(torch.rand(len(x), SAMPLES) < EPSILON, from_all, from_kappa)
        places, inside = found(candidates, ids)
        q = EPSILON / problem.P + (1 - EPSILON) * kappa.gather(1, places) * inside
    return covariance_step(problem, x, Y, ids, q.log())


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


METHODS = {"reinforce": reinforce, "uniform": uniform, "mixture": mixture}


def answer(problem, method, steps, graph_path, limit):
    if method == "mixture" and not hasattr(problem, "graph"):
        if faiss is None:
            return f"{method},absent,python3-faiss is absent"
        problem.graph = graph_of(problem.items.numpy(), graph_path, limit)
    if method == "mixture" and problem.graph.ntotal < problem.P:
        return f"{method},absent,its graph has {problem.graph.ntotal} of {problem.P} items so far"
    start = time.perf_counter()
    for _ in range(steps):
        reward = METHODS[method](problem)
    seconds = (time.perf_counter() - start) / steps
    return f"{method},{steps},{seconds:.9g},{reward:.5f}"


def start(problem, name, theta, order, learning_rate):
    order = torch.from_numpy(np.load(order).astype(np.int64)).reshape(-1, BATCH)
    problem.runs[name] = Run(torch.from_numpy(np.load(theta)), order, float(learning_rate))


def proceed(problem, name):
    problem.run = problem.runs[name]


def save(problem, name, path):
    np.save(path, problem.runs[name].theta.detach().numpy())


COMMANDS = {"start": start, "continue": proceed, "save": save}



def main():
    folder, threads, graph_path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    limit = float(sys.argv[4])
    torch.set_num_threads(threads)
    if faiss is not None:
        faiss.omp_set_num_threads(threads)
    problem = Problem(folder)
    print(f"ready,torch {torch.__version__},faiss {faiss.__version__ if faiss else 'absent'}",
          flush=True)
    for line in sys.stdin:
        first, *words = line.split()
        if first in COMMANDS:
            COMMANDS[first](problem, *words)
            print(first, flush=True)
        else:
            print(answer(problem, first, int(words[0]), graph_path, limit), flush=True)


try:
    import torch
except ImportError:
    torch = None
try:
    import faiss
except ImportError:
    faiss = None
if torch is None:
    print("absent,python3-torch", flush=True)
else:
    main()
