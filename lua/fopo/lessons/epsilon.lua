-- Lesson 2: the effect of the share of uniform draws, and what the effective sample size shows.
return {
  name = "epsilon", title = "Where to draw from", minutes = 8,
  about = "The mixture of uniform draws and the K best: eps of 1, 0.8, 0.5 and 0, early and late",
  source = [["The Proposed Method" (q_{K,eps}) and RQ2]],
  sizes = {users = {8000, 6000}, items = {100000, 50000}, dim = {32, 16}, steps = {300, 200},
           repeats = {20, 10}},
  steps = {
    {
      title = "A catalogue, and an untrained policy",
      text = [[
Users like some clusters of items. Half of a user's items, X, make the context; an item of the
other half, Y, earns 1 when it is shown. Items are embedded by an SVD, and an index finds the K
items of largest score. The policy starts as the paper's, with a small random theta. SNIS draws
from

    q_{K,eps}(a) = eps / P + (1 - eps) kappa(a),   kappa: pi among the K best

With eps = 1 it is uniform and needs no index.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = $items, clusters = 100}
s = d:sessions{min_items = 20, test = 0.3}
beta = fopo.embed.svd(s.train, {dim = $dim})
ix = fopo.index.norm(beta)
hits = fopo.reward.hits(s.train)
pick = s.train:batch{size = 64, step = 0}
x = s.train:contexts(beta)
early = fopo.policy.linear{items = beta, preset = "paper"}
function mixture(eps)
  local q = fopo.proposal.mixture{index = ix, k = 256, epsilon = eps}
  return fopo.gradient.snis{proposal = q, samples = 1000}
end
start = select(2, mixture(0.5):compute(early, x, pick, hits))]],
      ask = {
        question = [[
What share of the policy's mass, between 0 and 1, lies in the 256 best of $items items?]],
        answer = "start.head_mass", factor = 3, format = "%.4f",
      },
      after = [[
An untrained policy is nearly uniform: the 256 best are {%.2f|25600 / $items} % of the items and
have {%.2f|100 * start.head_mass} % of the mass.]],
      claim = {"start.head_mass < 0.2"},
    },
    {
      title = "The effective sample size, early",
      text = [[
The weights w_s = exp f_s / q_s show how well q fits pi. If all are equal, 1000 draws count as
1000; if one draw has nearly all the weight, they count as 1:

    ESS = (sum w)^2 / sum w^2]],
      code = [[
epsilons = {1, 0.8, 0.5, 0}
function sizes_of(pi)
  local ess, largest = {}, {}
  for i, eps in ipairs(epsilons) do
    local _, stats = mixture(eps):compute(pi, x, pick, hits)
    ess[i], largest[i] = stats.ess, stats.max_weight
  end
  return ess, largest
end
ess_early, largest_early = sizes_of(early)
fopo.plot.bars(ess_early, {"eps 1", "eps 0.8", "eps 0.5", "eps 0"})]],
      ask = {
        question = "With eps = 0.5, half of the 1000 draws fall on 256 items. What is their ESS?",
        answer = "ess_early[3]", factor = 1.3, format = "%.0f",
      },
      after = [[
Half of the draws fall on items that have little mass, and hardly count. Uniform draws fit a policy
that is nearly uniform: {%.0f|ess_early[1]} of 1000. And eps = 0 shows a perfect
{%.0f|ess_early[4]}. Remember that number.]],
      claim = {"ess_early[1] > 900", "ess_early[3] < 700", "ess_early[4] > 999"},
    },
    {
      title = "And late",
      text = [[
Now let the policy learn for $steps steps, and measure again.]],
      code = [[
function learn(g)
  local pi = fopo.policy.linear{items = beta, preset = "paper"}
  local t = fopo.trainer{policy = pi, data = s.train, gradient = g,
                         optim = fopo.optim.adam{lr = 5e-2}, valid = false}
  return t:run{steps = $steps, view = false}
end
late = learn(mixture(0.8)).policy
ess_late, largest_late = sizes_of(late)
lowest = 1
for i = 2, 4 do if ess_late[i] < ess_late[lowest] then lowest = i end end
fopo.plot.bars({{y = ess_early, name = "ESS early"},
                {y = ess_late, name = "ESS late"}},
               {"eps 1", "eps 0.8", "eps 0.5", "eps 0"})]],
      ask = {
        question = "Which eps has the lowest ESS now?",
        choices = {"eps 1", "eps 0.8", "eps 0.5", "eps 0"}, answer = "lowest",
      },
      after = [[
A policy that has learnt puts its mass on few items. Uniform draws miss them: 1000 of them are
worth {%.0f|ess_late[1]}, and in some context a single draw has {%.0f|100 * largest_late[1]} % of
the weight. The candidates are where the mass is: with eps = 0.5 the ESS is {%.0f|ess_late[3]}. So
the best eps moves from 1 to 0 as the policy learns (RQ2).]],
      claim = {"lowest == 1", "ess_late[1] < 0.5 * ess_early[1]", "ess_late[3] > 400"},
    },
    {
      title = "What the ESS does not see",
      text = [[
With eps = 0 the ESS is {%.0f|ess_early[4]} early and {%.0f|ess_late[4]} late. Is eps = 0 the best
choice, then? Compare with the exact gradient: here is the distance of the mean of $repeats
estimates from it, as a share of its norm.]],
      code = [[
function bias_of(g, pi)
  local exact = fopo.gradient.exact{}:compute(pi, x, pick, hits)
  local mean = fopo.array.zeros(exact.rows, exact.cols)
  for i = 1, $repeats do
    mean:add(g:compute(pi, x, pick, hits, {step = i}), 1 / $repeats)
  end
  return mean:add(exact, -1):norm() / exact:norm()
end
bias_early, bias_late = {}, {}
for i, eps in ipairs(epsilons) do
  bias_early[i] = bias_of(mixture(eps), early)
  bias_late[i] = bias_of(mixture(eps), late)
end
fopo.plot.bars({{y = bias_early, name = "early"},
                {y = bias_late, name = "late"}},
               {"eps 1", "eps 0.8", "eps 0.5", "eps 0"})]],
      ask = {
        question = "How far off is the mean with eps = 0, early?",
        choices = {"less than a tenth of the gradient", "about as much as the gradient itself",
                   "several times as much"},
        answer = "bias_early[4] < 0.1 and 1 or bias_early[4] < 2 and 2 or 3",
      },
      after = [[
With eps = 0, items outside the 256 are never drawn, and no number of draws cures that: the mean is
off by {%.0f|bias_early[4]} times the gradient. The weights are all equal because they only see the
items that were drawn. A high ESS is a good sign only if q can draw every item. (The early bars of
the others are noise: the gradient is tiny then, and $repeats estimates are few.)]],
      claim = {"bias_early[4] > 3 * math.max(bias_early[1], bias_early[2], bias_early[3])"},
    },
    {
      title = "Learning with each",
      text = [[
Train four policies from the same start, $steps steps each. The plots show the ESS on the way and
the reward on the test as the paper measures it, R_test: items of X may be recommended.]],
      code = [[
function r_test(pi)
  return fopo.evaluate(pi, s.test, {exclude = "none"}).reward
end
curves, earned = {logy = true, height = 9, ylabel = "ESS"}, {}
for i, eps in ipairs(epsilons) do
  local t = learn(mixture(eps))
  local h = t.history
  earned[i] = r_test(t.policy)
  if eps == 0.8 then mass = h.head_mass[#h.head_mass] end
  curves[i] = {x = h.step, y = h.ess, name = "eps " .. eps}
end
fopo.plot(curves)
fopo.plot.bars(earned, {"eps 1", "eps 0.8", "eps 0.5", "eps 0"},
               {title = "R_test"})
least = 1
for i = 2, 4 do if earned[i] < earned[least] then least = i end end]],
      ask = {
        question = "Which one earns least on the test?",
        choices = {"eps 1", "eps 0.8", "eps 0.5", "eps 0"}, answer = "least",
      },
      after = [[
Uniform draws fit the policy less and less as it learns. eps = 0 follows a different gradient, that
of a policy that shows only its 256 best. In this world that costs nothing: it earns
{%.3f|earned[4]}, and eps = 0.8 earns {%.3f|earned[2]}. Its candidates are searched anew at every
step, and items of a cluster lie together, so what is learnt of 256 items holds for their
neighbours, too. Once the policy has learnt, the 256 best have {%.0f|100 * mass} % of its mass:
little is left out, and no draw is spent elsewhere. The paper found 0.8 best on Twitch and 0.5 on
GoodReads (RQ2).]],
      claim = {"least == 1", "earned[4] > 0.95 * earned[2]", "mass > 0.8"},
    },
    {
      title = "When eps = 0 fails",
      text = [[
256 candidates cover this world well. Take fewer of them, 16 and then 2, and train with eps = 0.8
and with eps = 0 again. The ESS of eps = 0 stays perfect.]],
      code = [[
function earns(eps, k)
  local q = fopo.proposal.mixture{index = ix, k = k, epsilon = eps}
  local t = learn(fopo.gradient.snis{proposal = q, samples = 1000})
  local ess = t.history.ess
  return r_test(t.policy), ess[#ess]
end
by_mixture = {earned[2], (earns(0.8, 16)), (earns(0.8, 2))}
by_head = {earned[4], (earns(0, 16))}
by_head[3], perfect = earns(0, 2)
fopo.plot.bars({{y = by_mixture, name = "eps 0.8"},
                {y = by_head, name = "eps 0"}},
               {"K 256", "K 16", "K 2"}, {title = "R_test"})]],
      ask = {
        question = "With 2 candidates, what is left of eps = 0's lead?",
        choices = {"it still earns more than eps = 0.8", "both earn about the same",
                   "it earns much less"},
        answer = "by_head[3] > 1.1 * by_mixture[3] and 1 or "
                 .. "by_head[3] > 0.8 * by_mixture[3] and 2 or 3",
      },
      after = [[
{%.3f|by_head[3]} against {%.3f|by_mixture[3]}, with an ESS of {%.0f|perfect} of 1000. eps = 0
compares an item only with the other candidates. With two of them it learns which of the two is
better, and never that a third would earn more. A few uniform draws are the way in for every other
item; and since they have their density in the weights, the mean stays right.]],
      claim = {"by_head[3] < 0.7 * by_mixture[3]", "perfect > 999"},
    },
  },
  exercises = {
    {
      text = [[
The effective sample size of a list of weights, as in step 2.]],
      code = [[
function worth(weights)
  local sum, squares = 0, 0
  for _, w in ipairs(weights) do
    sum, squares = sum + w, squares + w * w
  end
  return ___
end]],
      answer = "sum ^ 2 / squares",
      claim = {"math.abs(worth{1, 1, 1, 1} - 4) < 1e-9", "math.abs(worth{9, 0, 0} - 1) < 1e-9",
               "math.abs(worth{3, 1} - 1.6) < 1e-9"},
      hint = "Four equal weights are worth 4, whatever they are; one weight alone is worth 1.",
      after = "Weights of 3 and 1 are worth 1.6 draws.",
    },
    {
      text = [[
An item has the share kappa among the K candidates (0 if it is none of them). With which probability
does the mixture draw it, of P items?]],
      code = [[
function density(eps, kappa, P)
  return ___
end]],
      answer = "eps / P + (1 - eps) * kappa",
      claim = {"math.abs(density(1, 0.5, 100) - 0.01) < 1e-9",
               "math.abs(density(0, 0.5, 100) - 0.5) < 1e-9",
               "math.abs(density(0.5, 0.2, 100) - 0.105) < 1e-9"},
      hint = "A candidate is reached in two ways: by the uniform share and among the K.",
      after = "Only with eps = 0 are there items that it never draws.",
    },
  },
  try = {
    "follow = fopo.proposal.adaptive{index = ix, k = 256}   -- eps follows pi",
    "t = learn(fopo.gradient.snis{proposal = follow})",
    "fopo.plot{x = t.history.step, y = t.history.epsilon, ylabel = \"eps\"}",
    "r_test(t.policy)",
    "help(proposal.adaptive)",
  },
}
