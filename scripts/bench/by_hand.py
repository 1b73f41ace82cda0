"""Steps as one writes them by hand, with the gradient in closed form: of the default estimator, a
head of the largest norms and a tail, both shared by the batch, in NumPy, in torch, and in torch
with autograd or torch.compile; and of REINFORCE in torch without autograd.

    by_hand.py FOLDER numpy|torch

FOLDER is as torch_baseline.py reads it. First "ready,<version>" or "absent,<why>". Each line of
standard input is "METHOD STEPS BATCH"; the answer is "METHOD,STEPS,CPU seconds a step,mean reward
of the last step", or "METHOD,absent,why", also of a compiler that takes too long. One thread.
"""
import signal
import sys
import time

import numpy as np

HEAD, TAIL, SAMPLES, RATE = 256, 256, 1000, 1e-4
PATIENCE = 60  # seconds for a compiler and its first steps


class Numbers:
    """What NumPy and torch step on; at(n): contexts, and of each item of Y whose it is."""
    def __init__(self, folder):
        def array(name):
            return np.load(f"{folder}/{name}.npy")
        self.items, self.contexts = (array(name).astype(np.float32)
                                     for name in ("items", "contexts"))
        self.ids, counts = (array(name).ravel().astype(np.int64)
                            for name in ("y_ids", "y_counts"))
        self.first, self.counts = np.append(0, np.cumsum(counts)), counts
        order = np.argsort(-np.linalg.norm(self.items, axis=1), kind="stable")
        self.others, self.place = order[HEAD:], np.full(len(order), -1)
        self.place[order[:HEAD]] = np.arange(HEAD)
        self.head, self.rng = self.items[order[:HEAD]], np.random.default_rng(1)
        L = self.items.shape[1]
        self.theta = (0.005 * self.rng.standard_normal((L, L))).astype(np.float32)
        self.m, self.v, self.t = np.zeros_like(self.theta), np.zeros_like(self.theta), 0

    def at(self, n):
        rows = self.rng.integers(len(self.contexts), size=n)
        counts = self.counts[rows]
        whose = np.repeat(np.arange(n), counts)
        ends = np.cumsum(counts)
        y = self.ids[np.arange(ends[-1]) - np.repeat(ends - counts - self.first[rows], counts)]
        return self.contexts[rows], y, whose

    def draw(self):
        return self.others[self.rng.integers(len(self.others), size=TAIL)]

    def same(self, tail, y, whose):
        """(context, draw) of each draw that is an item of Y of the context."""
        order = np.argsort(tail)
        low = np.searchsorted(tail[order], y)
        pairs = [(b, order[i]) for a, b, i in zip(y, whose, low)
                 if i < TAIL and tail[order[i]] == a]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def adam(p, G):
    p.t += 1
    p.m += 0.1 * (G - p.m)
    p.v += 0.001 * (G * G - p.v)
    p.theta += (RATE / (1 - 0.9 ** p.t)) * p.m / (np.sqrt(p.v / (1 - 0.999 ** p.t)) + 1e-8)


def numpy_head_tail(p, n):
    x, y, whose = p.at(n)
    q, tail = x @ p.theta, p.draw()
    rows = np.concatenate([p.head, p.items[tail]])
    f = q @ rows.T
    f[:, HEAD:] += np.log(len(p.others) / TAIL)
    out = p.place[y] < 0
    own, at, inside = y[out], whose[out], (whose[~out], p.place[y[~out]])
    own_rows = p.items[own]
    g = np.einsum("ij,ij->i", own_rows, q[at])
    shift = f.max(1)
    np.maximum.at(shift, at, g)
    w, u = np.exp(f - shift[:, None]), np.exp(g - shift[at])
    b, s = p.same(tail, own, at)
    w[b, HEAD + s] = 0
    owned = np.bincount(at, u, n)
    Z = w.sum(1) + owned
    R = (np.bincount(inside[0], w[inside], n) + owned) / Z
    c = w * (-R / Z)[:, None]
    c[inside] += w[inside] / Z[inside[0]]
    V = c.astype(np.float32) @ rows
    terms = (u * ((1 - R) / Z)[at])[:, None].astype(np.float32) * own_rows
    if len(at):
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        V[at[starts]] += np.add.reduceat(terms, starts)
    adam(p, (x.T @ V / n).astype(np.float32))
    return R.mean()


def torch_methods():
    import torch
    torch.set_num_threads(1)

    def tensors(p, n):
        """A step's numbers as tensors; what one would keep as such is made once."""
        if not hasattr(p, "of_torch"):
            p.of_torch = [torch.from_numpy(v) for v in (p.items, p.head, p.place, p.contexts)]
            p.parameter = torch.nn.Parameter(torch.from_numpy(p.theta))
            p.optimiser = torch.optim.Adam([p.parameter], lr=RATE)
        x, y, whose = (torch.from_numpy(v) for v in p.at(n))
        return x, y, whose, *p.of_torch

    def parts(p, n):
        x, y, whose, items, head, place, _ = tensors(p, n)
        drawn = p.draw()
        out = place[y] < 0
        same = torch.from_numpy(p.same(drawn, y[out].numpy(), whose[out].numpy()))
        rows = torch.cat([head, items[torch.from_numpy(drawn)]])
        inside = (whose[~out], place[y[~out]])
        return x, rows, items[y[out]], whose[out], inside, same, float(np.log(len(p.others) / TAIL))

    def estimate(theta, x, rows, own, at, inside, same, more):
        """The expected reward of each context."""
        q = x @ theta
        f = q @ rows.T
        f = torch.cat([f[:, :HEAD], f[:, HEAD:] + more], 1)
        f = f.index_put((same[0], HEAD + same[1]), torch.tensor(-torch.inf))
        g = (own * q[at]).sum(1)
        shift = f.detach().amax(1).scatter_reduce(0, at, g.detach(), "amax")
        w, u = (f - shift[:, None]).exp(), (g - shift[at]).exp()
        owned = torch.zeros(len(x)).index_add(0, at, u)
        hits = torch.zeros(len(x)).index_add(0, inside[0], w[inside])
        Z = w.sum(1) + owned
        return (hits + owned) / Z, w, u, Z

    def ascend(p, G):
        p.parameter.grad = -G
        p.optimiser.step()

    def closed(theta, x, rows, own, at, inside, same, more):
        R, w, u, Z = estimate(theta, x, rows, own, at, inside, same, more)
        c = w * (-R / Z)[:, None]
        c = c.index_put(inside, w[inside] / Z[inside[0]], accumulate=True)
        V = (c @ rows).index_add(0, at, (u * ((1 - R) / Z)[at])[:, None] * own)
        return x.T @ V / len(x), R.mean()

    @torch.no_grad()
    def by_hand(p, n, step=closed):
        numbers = parts(p, n)
        G, R = step(p.parameter, *numbers)
        ascend(p, G)
        return R.item()

    def autograd(p, n):
        numbers = parts(p, n)
        p.optimiser.zero_grad()
        R = estimate(p.parameter, *numbers)[0].mean()
        (-R).backward()
        p.optimiser.step()
        return R.item()

    faster = torch.compile(closed, dynamic=True)

    @torch.no_grad()
    def reinforce(p, n):
        x, y, whose, items, *_ = tensors(p, n)
        pi = torch.softmax(x @ p.parameter @ items.T, dim=1)
        ids = torch.multinomial(pi, SAMPLES, replacement=True)
        key = whose * len(items) + y
        key = key.sort().values
        mine = torch.arange(n)[:, None] * len(items) + ids
        places = torch.searchsorted(key, mine).clamp_(max=len(key) - 1)
        r = (key[places] == mine).float()
        c = (r - r.mean(dim=1, keepdim=True)) / (SAMPLES - 1)
        V = torch.bmm(c[:, None, :], items[ids]).squeeze(1)
        ascend(p, x.T @ V / n)
        return r.mean().item()

    return torch.__version__, {
        "head_tail": by_hand, "autograd": autograd, "reinforce": reinforce,
        "compiled": lambda p, n: by_hand(p, n, faster)}


def stalled(*_):
    raise TimeoutError(f"not compiled within {PATIENCE} s")


def main():
    if sys.argv[2] == "numpy":
        version, methods = np.__version__, {"head_tail": numpy_head_tail}
    else:
        version, methods = torch_methods()
    p = Numbers(sys.argv[1])
    print(f"ready,{sys.argv[2]} {version}", flush=True)
    for line in sys.stdin:
        method, steps, batch = line.split()
        signal.signal(signal.SIGALRM, stalled)
        signal.alarm(PATIENCE if method == "compiled" else 0)
        try:
            start = time.process_time()
            for _ in range(int(steps)):
                reward = methods[method](p, int(batch))
            seconds = (time.process_time() - start) / int(steps)
            signal.alarm(0)
            print(f"{method},{steps},{seconds:.9g},{reward:.5f}", flush=True)
        except Exception as error:  # a compiler that is absent or stalls, or memory
            signal.alarm(0)
            why = " ".join(str(error).split()).replace(",", ";")[:100]
            print(f"{method},absent,{type(error).__name__} {why}", flush=True)


try:
    main()
except ImportError as error:
    print(f"absent,{error.name or 'torch'}", flush=True)
