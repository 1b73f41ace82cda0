"""The policy as a PyTorch module, to go on training it or to serve it on a GPU.

    python3 torch_policy.py POLICY USERS [N]
"""
import sys

import numpy as np
import torch
from policy import Policy, read_users, write


class TorchPolicy(torch.nn.Module):
    """forward(x [N, D]) gives the log-probabilities [N, P] of all items; taken: N lists of items
    that have none, which a policy needs that masks what was seen."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.from_numpy(W)) for W, _ in policy.layers)
        self.biases = torch.nn.ParameterList(
            torch.nn.Parameter(torch.as_tensor(b, dtype=torch.float32)) for _, b in policy.layers)
        self.register_buffer("items", torch.from_numpy(policy.items))

    def scores(self, x):
        act = torch.tanh if self.policy.activation == "tanh" else torch.relu
        for i, (W, b) in enumerate(zip(self.weights, self.biases)):
            x = x @ W + b
            if i + 1 < len(self.weights):
                x = act(x)
        return x @ self.items.T / self.policy.temperature

    def forward(self, x, taken=()):
        f = self.scores(x)
        for row, ids in enumerate(taken):
            f[row, ids] = -torch.inf
        return torch.log_softmax(f, dim=1)


if __name__ == "__main__":
    policy = Policy(sys.argv[1])
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    users = read_users(sys.argv[2], policy)
    model = TorchPolicy(policy).to("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.from_numpy(np.stack([policy.context(ids) for ids in users.values()]))
    with torch.no_grad():
        x = x.to(model.items.device)
        scores = model.scores(x)
        logs = model(x, [list(set(ids)) for ids in users.values()] if policy.masks else ())
    lists = {}
    for row, (user, ids) in enumerate(users.items()):
        left = scores[row].clone()
        left[list(set(ids))] = -torch.inf
        best, items = left.topk(n)
        lists[user] = [(int(a), float(s), float(logs[row, a].exp())) for s, a in zip(best, items)]
    write(policy, lists)
