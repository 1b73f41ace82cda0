-- Lesson 7: what is between a policy and a recommendation.
return {
  name = "recommend", title = "From a policy to a recommendation", minutes = 6,
  about = "Items that were seen, items that everybody takes, two rewards and the temperature",
  source = [["Parametrizing the Policy" (the softmax and its argmax), R_test]],
  sizes = {users = {8000, 2500}, items = {5000, 2000}, steps = {400, 150}},
  steps = {
    {
      title = "The best items of a user",
      text = [[
A policy is trained on the first half of what users took, X, to find the second half, Y. Then
users of the test come: the items in X make the context, and the items of largest score are
recommended.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = $items, clusters = 80}
s = d:sessions{min_items = 10, test = 0.2}
beta = fopo.embed.svd(s.train, {dim = 16})
function learn(seen)
  local pi = fopo.policy.linear{items = beta, seen = seen,
                                theta = "identity",
                                contexts = "unit", temperature = "auto"}
  local t = fopo.trainer{policy = pi, data = s.train, batch = 64,
                         gradient = fopo.gradient.exact{},
                         optim = fopo.optim.adam{lr = 3e-3}}
  t:run{steps = $steps, view = false}
  return pi
end
pi = learn("keep")
user = {items = s.test:x(28)}
print(pi:recommend(user, 5, {exclude = "none", names = false}))
open = fopo.evaluate(pi, s.test, {k = {1, 5}, exclude = "none"})]],
      ask = {
        question = [[
Nothing is left out here. Of the first five items, which share (0 to 1) had the users taken
already, on average?]],
        answer = "open.seen[5]", factor = 1.5, format = "%.2f",
      },
      after = [[
{%.0f|100 * open.seen[5]} % of them: the items of X lie nearest to a context that is made of them.
Such a recommendation is right about the taste, and of no use to a user who wants something
new. The paper's R_test measures policies so: {%.3f|open.reward} here.]],
      claim = {"open.seen[5] > 0.05"},
    },
    {
      title = "What was seen is left out",
      text = [[
pi:recommend leaves out what the user took, unless exclude = "none", and fopo.evaluate measures what
is served so. The search then asks the index for more items, so that nothing is missed. A policy may
also leave these items out while it learns: unless seen = "keep", one that is made for sessions
gives them no probability.]],
      code = [[
print(pi:recommend(user, 5, {names = false}))
new = fopo.evaluate(pi, s.test, {k = {1, 5}})
masked = fopo.evaluate(learn("mask"), s.test, {k = {1, 5}})
fopo.plot.bars({open.reward, new.reward, masked.reward},
               {"all items", "unseen items", "learnt without them"},
               {title = "test reward"})]],
      ask = {
        question = "What does leaving them out do to the reward, 1 if the best item is in Y?",
        choices = {"it falls: good items are lost", "nothing", "it rises"},
        answer = "new.reward < open.reward and 1 or new.reward == open.reward and 2 or 3",
      },
      after = [[
From {%.3f|open.reward} to {%.3f|new.reward}: no item of X is in Y, so each one that is recommended
is a chance given away. The policy that left them out while it learnt earns {%.3f|masked.reward},
and its expected reward is {%.3f|masked.expected} instead of {%.3f|new.expected}: it did not spend
its training on items that nobody is shown.]],
      claim = {"new.reward > open.reward", "new.seen[5] == 0",
               "masked.expected > 0.95 * new.expected"},
    },
    {
      title = "What one would try first",
      text = [[
Is that good? The cheapest recommender shows everybody the items that most users take (those that
the user has not seen). Item-kNN shows items that the same users take as those in X. Neither needs
any training.]],
      code = [[
function unseen(who)
  return fopo.evaluate(who, s.test, {k = {1, 5}})
end
popular = unseen(fopo.baseline.popular{data = s.train})
knn = unseen(fopo.baseline.item_knn{data = s.train})
start = unseen(fopo.baseline.identity{items = beta, contexts = "unit"})
fopo.plot.bars({popular.reward, knn.reward, start.reward,
                new.reward},
               {"most popular", "item-kNN", "not trained", "trained"},
               {title = "test reward"})]],
      ask = {
        question = [[
The policy recommends {%,d|new.items[1]} different items as the first one to {%,d|s.test.n} users.
How many does "most popular" recommend?]],
        answer = "popular.items[1]", factor = 2, format = "%,d",
      },
      after = [[
{%,d|popular.items[1]}: the most popular item, and the next ones for those who had it. It earns
{%.3f|popular.reward}, the policy {%.3f|new.reward}, and {%.3f|start.reward} before its training:
here the embeddings do most of it. Item-kNN earns {%.3f|knn.reward}: weights between items say more
than 16 numbers an item. What one would try first belongs in every table, of what is served;
fopo.policy.auto measures it, and trains such weights.]],
      claim = {"new.reward > popular.reward", "knn.reward > new.reward + 0.1",
               "popular.items[1] < new.items[1]"},
    },
    {
      title = "Two rewards",
      text = [[
The reward so far is greedy: it asks whether the best item is in Y. Training raises another one, the
expected reward: the chance that an item drawn from the softmax is in Y. The temperature T divides
every score. Here it is changed, and theta is not.]],
      code = [[
function at(T)
  local other = fopo.policy.linear{items = beta, theta = pi:theta(),
                                   contexts = "unit", temperature = T}
  return fopo.evaluate(other, s.test, {k = 1})
end
factors, greedy, expected = {1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16}, {}, {}
for i, f in ipairs(factors) do
  local e = at(f * pi.temperature)
  greedy[i], expected[i] = e.reward, e.expected
end
fopo.plot{{x = factors, y = greedy, name = "reward"},
          {x = factors, y = expected, name = "expected reward"},
          logx = true, height = 11, xlabel = "T, times that of the policy"}]],
      ask = {
        question = "What does a temperature 16 times as high change?",
        choices = {"the reward falls", "the expected reward falls", "both fall"},
        answer = "greedy[7] < greedy[4] - 0.02 and (expected[7] < 0.9 * expected[4] and 3 or 1) "
                 .. "or 2",
      },
      after = [[
The order of the items is the same at every temperature, and so is the reward. The expected reward
falls from {%.3f|expected[4]} to {%.4f|expected[7]}, nearly that of a uniform choice. As T falls it
nears the reward, {%.3f|greedy[1]}: at T / 16 it is {%.3f|expected[1]}. If the two rewards are far
apart, look at the temperature first.]],
      claim = {"math.abs(greedy[7] - greedy[1]) < 0.01", "expected[7] < 0.5 * expected[4]",
               "math.abs(expected[1] - greedy[1]) < 0.1 * greedy[1]"},
    },
    {
      title = "Why this item?",
      text = [[
The score of an item is linear in the context, and the context is made of the items in X. So each of
these adds a part of the score.]],
      code = [[
best = pi:recommend(user, 1, {names = false})[1]
why = pi:explain(user, best.item)
sum, half, n = 0, 0, 0
for _, part in ipairs(why) do
  sum = sum + part.contribution
  if half < 0.5 then half, n = half + part.share, n + 1 end
end
contributions = {}
for i, part in ipairs(why) do contributions[i] = part.contribution end
fopo.plot.bars(contributions, nil, {title = "of each item of X"})]],
      ask = {
        question = [[
This user took {%d|s.test:x(28).cols} items. How many of them make up half of the score of item
{%d|pi:recommend(user, 1)[1].item}?]],
        answer = "n", factor = 1.5, format = "%d",
      },
      after = [[
{%d|n} of {%d|#why}; the others add less, or count against the item. The parts sum to
{%.3f|sum}, the score. pi:save writes what another program needs to say the same.]],
      claim = {"math.abs(sum - why.score) < 1e-3 * math.abs(why.score)", "n < #why"},
    },
  },
  exercises = {
    {
      text = [[
The probability of item a by its scores f[1], f[2], ... and the temperature T.]],
      code = [[
function softmax(f, a, T)
  local Z = 0
  for _, score in ipairs(f) do Z = Z + ___ end
  return math.exp(f[a] / T) / Z
end]],
      answer = "math.exp(score / T)",
      claim = {"math.abs(softmax({1, 2, 3}, 1, 2) + softmax({1, 2, 3}, 2, 2) "
               .. "+ softmax({1, 2, 3}, 3, 2) - 1) < 1e-9",
               "math.abs(softmax({0, 0}, 1, 5) - 0.5) < 1e-9"},
      hint = "The probabilities of all items add up to 1.",
      after = "As T falls, the item of largest score gets all of it.",
    },
    {
      text = [[
Measure R_test, as the paper does: items of X may be recommended.]],
      code = [[
r_test = fopo.evaluate(pi, s.test, {k = 1, exclude = ___}).reward]],
      answer = [["none"]],
      claim = {"r_test == open.reward"},
      hint = [[exclude says which items are left out: "seen" or "none".]],
      after = "{%.3f|r_test}; what is served earns {%.3f|new.reward}.",
    },
  },
  try = {
    "pi:recommend({items = {3, 14}}, 5)",
    "pi:recommend(user, 5, {exclude = {\"seen\", best.item}})",
    "best, rows = fopo.policy.auto{data = s.train, starts = {\"cosine\"}}",
    "why",
    "help\"policy:recommend\"",
    "help\"policy:save\"",
  },
}
