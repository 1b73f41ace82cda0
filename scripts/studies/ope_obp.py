"""Values of the Open Bandit Pipeline's estimators (obp, Saito, Aihara, Matsutani and Narita 2021),
for scripts/studies/ope.lua: of each folder named, whose arrays that script has written, a line of
ips, snips, dm, dr and dros. Exits with 77 where obp is not installed."""
import os
import sys

import numpy as np

try:
    import obp
    from obp.ope import (DirectMethod, DoublyRobust, DoublyRobustWithShrinkage,
                         InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting)
except ImportError as why:
    print("obp cannot be imported:", why)
    sys.exit(77)

print("obp", obp.__version__)
for folder in sys.argv[1:]:
    pi, model, action, reward, pscore, more = (
        np.load(os.path.join(folder, name + ".npy"))
        for name in ("pi", "model", "action", "reward", "pscore", "more"))
    log = {"action": action.ravel().astype(int), "reward": reward.ravel().astype(float),
           "pscore": pscore.ravel().astype(float), "position": np.zeros(action.size, int),
           "action_dist": pi.astype(float)[:, :, None]}
    modelled = {"estimated_rewards_by_reg_model": model.astype(float)[:, :, None]}
    print(InverseProbabilityWeighting().estimate_policy_value(**log),
          SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**log),
          DirectMethod().estimate_policy_value(**log, **modelled),
          DoublyRobust().estimate_policy_value(**log, **modelled),
          DoublyRobustWithShrinkage(lambda_=float(more[0, 0])).estimate_policy_value(
              **log, **modelled))
