"""The methods of torch_methods.py on the CPU, where the candidates of the mixture come from FAISS's
graph. Reads items.npy [P, L], contexts.npy [N, L], y_ids.npy and y_counts.npy.

    torch_baseline.py FOLDER THREADS GRAPH LIMIT

GRAPH is where the HNSW graph is kept between runs; no more than LIMIT seconds go into it in one
run, and the next goes on with it. Each line of standard input is "METHOD STEPS";
the answer is "METHOD,STEPS,seconds a step,mean reward of the last step", or "METHOD,absent,why".
Runs whose start and contexts are given: "start NAME THETA ORDER LR" begins one from the theta of a
file; its steps take the contexts, counted from 1, that ORDER names, BATCH a step (0: none).
"continue NAME" makes the next steps be of that run, "save NAME PATH" writes its theta. All are
answered.
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
            scores, ids = map(torch.from_numpy, self.graph.search(query.numpy(), torch_methods.K))
            return scores.masked_fill_(ids < 0, -np.inf), ids  # the graph may find fewer

    def steps_of(method, steps):
        if method == "mixture" and Problem.graph is None:
            if faiss is None:
                return f"{method},absent,python3-faiss is absent"
            Problem.graph = graph_of(now.items.numpy(), graph_path, limit)
        if method == "mixture" and now.graph.ntotal < now.P:
            return f"{method},absent,its graph has {now.graph.ntotal} of {now.P} items so far"
        start = time.perf_counter()
        for _ in range(steps):
            reward = torch_methods.METHODS[method](now, BATCH).item()
        seconds = (time.perf_counter() - start) / steps
        return f"{method},{steps},{seconds:.9g},{reward:.5f}"

    threads, graph_path, limit = int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    torch.set_num_threads(threads)
    if faiss is not None:
        faiss.omp_set_num_threads(threads)
    now, runs = Problem(sys.argv[1], SAMPLES, "cpu"), {}
    print(f"ready,torch {torch.__version__},faiss {faiss.__version__ if faiss else 'absent'}",
          flush=True)
    for line in sys.stdin:
        first, *words = line.split()
        if first == "start":
            name, theta, order, rate = words
            runs[name] = copy.copy(now)
            runs[name].begin(torch.from_numpy(np.load(theta)), float(rate))
            order = np.load(order).astype(np.int64)
            runs[name].order, runs[name].step = torch.from_numpy(order).reshape(-1, BATCH), 0
        elif first == "continue":
            now = runs[words[0]]
        elif first == "save":
            runs[words[0]].save(words[1])
        else:
            first = steps_of(first, int(words[0]))
        print(first, flush=True)


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
