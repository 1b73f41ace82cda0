-- Lesson 4: mistakes in the weights, their effect on learning, and the checks that find them.
return {
  name = "faults", title = "Wrong weights", minutes = 5,
  about = "Mistakes planted in SNIS: learning hides them, fopo.check turns red",
  source = [["The Proposed Method", Algorithm 1, the line of the weights]],
  sizes = {users = {3000, 1500}, steps = {400, 100}, repetitions = {100, 40}, turns = {400, 200},
           seeds = {3, 2}},
  steps = {
    {
      title = "All okay",
      text = [[
A mistake in a gradient estimator crashes nothing. So fopo.check compares it with numbers computed
another way: its mean over many draws with the exact gradient, its draws with the distribution that
they should have, and log q with the formula.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = 5000, clusters = 30}
s = d:sessions{min_items = 20, test = 0.3}
beta = fopo.embed.svd(s.train, {dim = 16})
ix = fopo.index.norm(beta)
pi = fopo.policy.linear{items = beta, theta = "identity"}
half = fopo.proposal.mixture{index = ix, k = 64, epsilon = 0.5}
function snis(q, fault)
  return fopo.gradient.snis{proposal = q, samples = 500, fault = fault}
end
function checked(g)
  return fopo.check{policy = pi, data = s.train, gradient = g, contexts = 2,
                    repetitions = $repetitions}
end
right = checked(snis(half))]],
      ask = {
        question = "The estimator is as the paper says. Will every check pass?",
        choices = {"yes", "no: SNIS has a bias, so its mean must be off"},
        answer = "right.ok and 1 or 2",
      },
      after = [[
SNIS has a bias of order 1 / S. The check removes it by comparing two sizes of S, and allows for
the rest: {%d|#right.rows} checks, and none is red.]],
      claim = {"right.ok"},
    },
    {
      title = "q forgotten",
      text = [[
Now a mistake that is easy to make: the weight without q.

    w_s = exp f_s / q_s    becomes    w_s = exp f_s

fopo can plant it: fault = "no_q".]],
      code = [[
no_q = checked(snis(half, "no_q"))
function failed(r, word) -- whether a check of that name is red
  for _, row in ipairs(r.rows) do
    local here = row.name:find("^" .. word)
    if here and row.status == "FAILED" then return true end
  end
  return false
end]],
      ask = {
        question = "Which check will turn red?",
        choices = {"the draws, against their distribution", "log q, against the formula",
                   "the mean, against the exact gradient", "none"},
        answer = [[failed(no_q, "draws") and 1 or failed(no_q, "log q") and 2 or
                   failed(no_q, "mean") and 3 or 4]],
      },
      after = [[
The draws are right, and so is log q: it is only not used. Items that q prefers are now counted too
often, and the mean is that of a different gradient.]],
      claim = {"not no_q.ok", [[failed(no_q, "mean")]], [[not failed(no_q, "draws")]]},
    },
    {
      title = "Would you have noticed?",
      text = [[
Learn with the right weights and with the wrong ones, $steps steps each. (fopo reminds you of the
planted fault on every run; nothing would remind you of your own mistake.)]],
      code = [[
function learn(g)
  local pi = fopo.policy.linear{items = beta, preset = "paper"}
  local t = fopo.trainer{policy = pi, data = s.train, gradient = g,
                         optim = fopo.optim.adam{lr = 5e-2}, valid = false}
  return t:run{steps = $steps, view = false}
end
good, bad = learn(snis(half)), learn(snis(half, "no_q"))
h, k = good.history, bad.history
fopo.plot{{x = h.step, y = h.reward, name = "right"},
          {x = k.step, y = k.reward, name = "q forgotten"},
          height = 9, xlabel = "step", ylabel = "reward"}
earned = {fopo.evaluate(good.policy, s.test).reward,
          fopo.evaluate(bad.policy, s.test).reward}
fopo.plot.bars(earned, {"right", "q forgotten"}, {title = "on the test"})]],
      ask = {
        question = "What will the run with wrong weights look like?",
        choices = {"it breaks: NaN, or no learning at all", "its reward falls",
                   "its reward rises, like any run's"},
        answer = "k.reward[#k.reward] ~= k.reward[#k.reward] and 1 or "
                 .. "k.reward[#k.reward] < k.reward[1] and 2 or 3",
      },
      after = [[
The curve rises from {%.2f|k.reward[1]} to {%.2f|k.reward[#k.reward]}, and the test gives
{%.3f|earned[2]} (right: {%.3f|earned[1]}). Without q the candidates count for more than pi gives
them, as if the policy were sharper. In this world that does no harm: good items are among them, and
the test only shows the best one. (The next steps have a world where it costs.) Even the reward of
the curve is computed with the wrong weights: at the start it shows {%.3f|k.reward[1]} instead of
{%.3f|h.reward[1]}. Only a comparison with independent numbers reveals the mistake.]],
      claim = {"k.reward[#k.reward] > k.reward[1]", "earned[2] > 0.9 * earned[1]",
               "k.reward[1] > 1.5 * h.reward[1]"},
    },
    {
      title = "A shop with best-sellers",
      text = [[
Another world is a shop of 2,000 items. The first 20 are best-sellers, with large embeddings; each
earns 0.15 with every user. The others belong to 20 tastes, 99 items each; an item
earns 1 with a user of its taste and nothing with the others. The best policy earns 1. At the start
all users have the same 20 candidates, the best-sellers. Half of the draws fall on them.]],
      code = [[
function taste(a) return a > 20 and (a - 21) // 99 + 1 end
goods = fopo.array.zeros(2000, 21):add(fopo.array.randn(2000, 21, 1), 0.1)
for a = 1, 2000 do -- column 1: what all like; 1 + j: what taste j likes
  local j = taste(a) and 1 + taste(a) or 1
  goods:set(a, j, goods:get(a, j) + (taste(a) and 1 or 2))
end
users = fopo.array.zeros(20, 21)
for n = 1, 20 do users:set(n, 1, 1); users:set(n, 1 + n, 1) end
function reward_of(pays) -- from pays(item, user)
  return fopo.reward.custom(function(ids, rows)
    local list, user = ids:totable(), rows:totable()[1]
    for b, row in ipairs(list) do
      for i, a in ipairs(row) do row[i] = pays(a, user[b]) end
    end
    return list
  end)
end
function in_shop(fault) -- a policy as at the start, and a gradient
  local q = fopo.proposal.mixture{index = fopo.index.norm(goods), k = 20,
                                  epsilon = 0.5}
  return fopo.policy.linear{items = goods, theta = "identity"},
         fopo.gradient.snis{proposal = q, samples = 100, fault = fault}
end
is_best_seller = reward_of(function(a) return a <= 20 and 1 or 0 end)
function counted(g, pi) -- the share of the best-sellers in the weights
  return select(2, g:compute(pi, users, nil, is_best_seller)).reward
end
new = in_shop()
shares = {counted(fopo.gradient.exact{}, new),
          counted(select(2, in_shop()), new),
          counted(select(2, in_shop("no_q")), new)}
fopo.plot.bars(shares, {"of pi", "right", "q forgotten"},
               {title = "share of the best-sellers"})]],
      ask = {
        question = [[
At the start the policy shows a best-seller in about 1 of 15 cases. What share of the weights do
they have without q, between 0 and 1?]],
        answer = "shares[3]", factor = 1.2, format = "%.2f",
      },
      after = [[
The policy gives them {%.3f|shares[1]}, and so do the right weights ({%.3f|shares[2]}, from 100
draws). Without q it is {%.2f|shares[3]}: that gradient mostly compares best-sellers with each
other.]],
      claim = {"math.abs(shares[2] - shares[1]) < 0.02", "shares[3] > 0.8"},
    },
    {
      title = "When it costs",
      text = [[
Learn in the shop with the right weights and with the wrong ones, $turns steps each, from $seeds
sets of draws. R is the exact expected reward of the policy.]],
      code = [[
sales = reward_of(function(a, user)
  return a <= 20 and 0.15 or taste(a) == user and 1 or 0
end)
truth = fopo.gradient.exact{}
function sell(fault, seed)
  local pi, g = in_shop(fault)
  local o, R = fopo.optim.sgd{lr = 2}, {}
  for step = 0, $turns do
    if step % 20 == 0 then
      R[#R + 1] = select(2, truth:compute(pi, users, nil, sales)).reward
    end
    local draws = {seed = seed, step = step}
    o:step(pi, (g:compute(pi, users, nil, sales, draws)))
  end
  return R
end
lowest, highest, x = 1, 0, {}
for seed = 1, $seeds do
  by_right, by_wrong = sell(nil, seed), sell("no_q", seed)
  lowest = math.min(lowest, by_right[#by_right])
  highest = math.max(highest, by_wrong[#by_wrong])
end
for i in ipairs(by_right) do x[i] = 20 * (i - 1) end
fopo.plot{{x = x, y = by_right, name = "right"},
          {x = x, y = by_wrong, name = "q forgotten"},
          height = 9, xlabel = "step", ylabel = "R"}]],
      ask = {
        question = "Where does the run without q end?",
        choices = {"near 1, as the other", "between the two", "near 0.15, the best-sellers"},
        answer = "highest > 0.9 * lowest and 1 or highest > 0.2 and 2 or 3",
      },
      after = [[
At {%.3f|by_wrong[#by_wrong]}, from {%.3f|by_wrong[1]}; the right weights reach
{%.3f|by_right[#by_right]}. The wrong gradient sees hardly anything but best-sellers, finds them
better than the little else that it sees, and pushes everyone to them, until nothing else is counted
at all. And its curve rises, as a good one does. In $seeds sets of draws the worst right run earns
{%.3f|lowest}, the best wrong one {%.3f|highest}.]],
      claim = {"lowest > 0.8", "highest < 0.2", "by_wrong[#by_wrong] > by_wrong[1]"},
    },
    {
      title = "The same mistake, unseen",
      text = [[
Again q is forgotten, but now the draws are uniform: q_s = 1 / P for every item.]],
      code = [[
blind = checked(snis(fopo.proposal.uniform(), "no_q"))]],
      ask = {
        question = "Will the check turn red?", choices = {"yes", "no"},
        answer = "blind.ok and 2 or 1",
      },
      after = [[
The weights are divided by their sum, so a constant q cancels and the mistake has no effect here. A
test of the simple case proves little: test a case in which the terms differ.]],
      claim = {"blind.ok"},
    },
    {
      title = "Another mistake, another check",
      text = [[
A classic: ids that begin at 1 in one place and at 0 in another. fault = "off_by_one" uses the item
after the one that was drawn, with the q of the one that was drawn.]],
      code = [[
shifted = checked(snis(half, "off_by_one"))]],
      ask = {
        question = "Which check will turn red?",
        choices = {"the draws, against their distribution",
                   "the mean, against the exact gradient", "both"},
        answer = [[failed(shifted, "draws") and failed(shifted, "mean") and 3 or
                   failed(shifted, "draws") and 1 or 2]],
      },
      after = [[
The draws have another distribution, and their counts show it at once. One kind of check is not
enough: each mistake is visible to some checks and hidden from others.]],
      claim = {"not shifted.ok", [[failed(shifted, "draws")]]},
    },
  },
  exercises = {
    {
      text = [[
Weights are computed in logarithms, lest exp f overflow. What is log w of a draw with score f and
log q = log_q?]],
      code = [[
function log_weight(f, log_q)
  return ___
end]],
      answer = "f - log_q",
      claim = {"log_weight(1, -2) == 3", "log_weight(-1, 0.5) == -1.5"},
      hint = [[w = exp f / q. (fault = "added_q" is this line with the other sign.)]],
      after = "One sign, and only a check tells.",
    },
    {
      text = [[
n estimates have the mean `mean` and the standard deviation sd. By how many standard errors of their
mean is it off the exact gradient?]],
      code = [[
function standard_errors(mean, exact, sd, n)
  return math.abs(mean - exact) / (___)
end]],
      answer = "sd / math.sqrt(n)",
      claim = {"math.abs(standard_errors(1.2, 1, 0.5, 25) - 2) < 1e-9",
               "math.abs(standard_errors(0, 1, 1, 1) - 1) < 1e-9"},
      hint = "The mean of four times as many estimates has half the error.",
      after = "More than 4 or so is no chance: so fopo.check turns red.",
    },
  },
  try = {
    "checked(snis(half, \"added_q\"))      -- log q with the wrong sign",
    "learn(snis(half, \"added_q\"))        -- and it learns",
    "fopo.check{}                        -- all estimators, on small data",
  },
}
