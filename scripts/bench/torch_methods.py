"""The three methods of the paper as one would write them from its text, with PyTorch's autograd, on
any device: REINFORCE with a mean baseline, and the covariance gradient with a uniform and with a
mixture proposal.

A problem has items [P, L], contexts [N, L], Y (padded), theta and its optimiser, samples, rows(n),
which chooses contexts, and search(query), the scores and ids [B, K] of candidates. A method makes a
step of about n contexts and returns the mean reward of its draws.
"""
import numpy as np
import torch

K, EPSILON, LEARNING_RATE = 256, 0.8, 1e-4
PLACES = 10  # of a slate


class Problem:
    def __init__(self, folder, samples, device):
        def array(name):
            return torch.from_numpy(np.load(f"{folder}/{name}.npy").astype(np.float32)).to(device)
        self.items, self.contexts = array("items"), array("contexts")
        self.P, self.L = self.items.shape
        self.samples, self.device = samples, device
        self.Y = padded(np.load(f"{folder}/y_ids.npy"), np.load(f"{folder}/y_counts.npy"),
                        self.P).to(device)
        torch.manual_seed(1)
        self.begin(0.005 * torch.randn(self.L, self.L, device=device), LEARNING_RATE)

    def begin(self, theta, rate):
        self.theta = torch.nn.Parameter(theta)
        self.optimiser = torch.optim.Adam([self.theta], lr=rate)

    def batch(self, n):
        rows = self.rows(n)
        return self.contexts[rows], self.Y[rows]

    def rows(self, n):
        return torch.randint(len(self.contexts), (n,), device=self.device)

    def uniform_ids(self, n):
        return torch.randint(self.P, (n, self.samples), device=self.device)

    def ascend(self, objective):
        """objective [B, S]: its sum over the draws is to grow."""
        self.optimiser.zero_grad()
        (-objective.sum(dim=1).mean()).backward()
        self.optimiser.step()

    def save(self, path):
        np.save(path, self.theta.detach().cpu().numpy())


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


def reinforce(problem, n):
    x, Y = problem.batch(n)
    log_pi = torch.log_softmax(x @ problem.theta @ problem.items.T, dim=1)
    with torch.no_grad():
        # multinomial takes 2^24 categories at most
        ids = torch.multinomial(log_pi.exp(), problem.samples, replacement=True)
        r = found(Y, ids)[1].float()
        advantage = (r - r.mean(dim=1, keepdim=True)) / (problem.samples - 1)
    problem.ascend(advantage * log_pi.gather(1, ids))
    return r.mean()


def covariance_step(problem, x, Y, ids, log_q):
    """Algorithm 1: the sum of wbar (r - rbar) times the gradient of f."""
    query = x @ problem.theta
    f = torch.bmm(problem.items[ids], query.unsqueeze(2)).squeeze(2)
    with torch.no_grad():
        wbar = torch.softmax(f - log_q, dim=1)
        r = found(Y, ids)[1].float()
        rbar = (wbar * r).sum(dim=1, keepdim=True)
    problem.ascend(wbar * (r - rbar) * f)
    return rbar.mean()


def uniform(problem, n):
    x, Y = problem.batch(n)
    return covariance_step(problem, x, Y, problem.uniform_ids(len(x)), 0.0)


def mixture(problem, n):
    x, Y = problem.batch(n)
    with torch.no_grad():
        scores, candidates = problem.search(x @ problem.theta)
        candidates, order = candidates.sort(dim=1)
        kappa = torch.softmax(scores.gather(1, order), dim=1)
        draws = torch.multinomial(kappa, problem.samples, replacement=True)
        chance = torch.rand(len(x), problem.samples, device=problem.device)
        ids = torch.where(chance < EPSILON, problem.uniform_ids(len(x)),
                          candidates.gather(1, draws))
        places, inside = found(candidates, ids)
        q = EPSILON / problem.P + (1 - EPSILON) * kappa.gather(1, places) * inside
    return covariance_step(problem, x, Y, ids, q.log())


def plackett_luce(problem, n):
    """Slates of PLACES items, samples / PLACES of them: the largest scores with Gumbel noise over
    all items. REINFORCE on log P(slate) with the mean as baseline; a context at a time, as the
    noise of a whole batch takes 4 n P samples / PLACES bytes."""
    problem.optimiser.zero_grad()
    S, mean = problem.samples // PLACES, 0.0
    for x, Y in zip(*problem.batch(n)):
        f = x @ problem.theta @ problem.items.T
        with torch.no_grad():
            noise = torch.empty(S, problem.P, device=problem.device).exponential_().log_()
            ids = torch.topk(f - noise, PLACES, dim=1).indices
            R = found(Y.repeat(S, 1), ids)[1].any(dim=1).float()
            advantage = (R - R.mean()) / (S - 1)
        chosen = f[ids]
        taken = chosen.exp().cumsum(dim=1) - chosen.exp()
        log_P = (chosen - (f.exp().sum() - taken).log()).sum(dim=1)
        (-(advantage * log_P).sum() / n).backward()
        mean += R.mean() / n
    problem.optimiser.step()
    return mean


METHODS = {"reinforce": reinforce, "uniform": uniform, "mixture": mixture,
           "plackett_luce": plackett_luce}
