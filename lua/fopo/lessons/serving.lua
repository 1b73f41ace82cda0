-- Lesson 5: a good policy that is served through a bad index.
return {
  name = "serving", title = "A bad index", minutes = 6,
  about = "The same policy earns less when it is served through an index that misses items",
  source = [["Parametrizing the Policy" (the argmax), R_test in "Experimental Results"]],
  sizes = {users = {8000, 2500}, items = {20000, 8000}, steps = {300, 100}},
  steps = {
    {
      title = "A policy to serve",
      text = [[
After learning, the policy shows the item of largest score, argmax_a h(x)^T beta_a. Over a million
items that is a search (MIPS, maximum inner product search), and an index makes it fast. First train
a policy, and measure what it earns with exact search.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = $items, clusters = 100}
s = d:sessions{min_items = 20, test = 0.3}
beta = fopo.embed.svd(s.train, {dim = 32, scale = "none"})
norm = fopo.index.norm(beta)
pi = fopo.policy.linear{items = beta, theta = "identity"}
g = fopo.gradient.head_tail{index = norm, k = 256, tail = 64}
t = fopo.trainer{policy = pi, data = s.train, gradient = g,
                 optim = fopo.optim.adam{lr = 5e-2}, valid = false}
t:run{steps = $steps, view = false}
Q = pi:queries(s.test:contexts(beta))
function judged(ix)
  return ix:recall(Q, 1, {policy = pi, sessions = s.test})
end
function build(M, care)
  return fopo.index.hnsw(beta, {M = M, ef_construction = care, ef = 1,
                                deterministic = true})
end
poor = build(4, 10)
first = judged(poor)
fopo.plot.bars({first.reward_exact, first.reward_index},
               {"exact search", "poor graph"}, {title = "test reward"})]],
      ask = {
        question = [[
The poor graph (HNSW with 4 links an item, searched as narrowly as possible) finds the best item
for few users. Which share of the reward is left?]],
        answer = "first.reward_index / first.reward_exact", factor = 1.3, format = "%.2f",
      },
      after = [[
The same policy earns {%.3f|first.reward_exact} by exact search and {%.3f|first.reward_index}
through this graph: the loss is {%.3f|first.reward_lost}, with a 95 % interval from
{%.3f|first.lost_low} to {%.3f|first.lost_high}. The graph found the best item for
{%.0f|100 * first.recall} % of the users, and for the others a different item, which may also
earn.]],
      claim = {"first.lost_low > 0", "first.recall < 0.7"},
    },
    {
      title = "Search harder, or build better",
      text = [[
ef is the breadth of a search: the number of candidates that it keeps on its way through the graph.
A better graph has more links and is built with a broader search. Here are both, at several ef.]],
      code = [[
better = build(16, 100)
efs = {1, 4, 16, 64, 256}
function sweep(ix)
  local r = {reward = {}, recall = {}, ms = {}}
  for i, ef in ipairs(efs) do
    ix.ef = ef
    local j = judged(ix)
    r.reward[i], r.recall[i] = j.reward_index, j.recall
    r.ms[i] = j.ms_per_query
  end
  return r
end
by_poor, by_better, line = sweep(poor), sweep(better), {}
for i in ipairs(efs) do line[i] = first.reward_exact end
fopo.plot{{x = efs, y = line, name = "exact search"},
          {x = efs, y = by_poor.reward, name = "poor graph"},
          {x = efs, y = by_better.reward, name = "better graph"},
          logx = true, height = 11, xlabel = "ef", ylabel = "reward"}]],
      ask = {
        question = "Can a broad search (ef = 256) make up for the poor graph?",
        choices = {"fully: it earns as much as exact search", "in part", "not at all"},
        answer = "by_poor.reward[5] > 0.98 * first.reward_exact and 1 or "
                 .. "by_poor.reward[5] > 1.05 * by_poor.reward[1] and 2 or 3",
      },
      after = [[
With ef = 256 the poor graph earns {%.3f|by_poor.reward[5]} and the better one
{%.3f|by_better.reward[5]}, of {%.3f|first.reward_exact}. An item to which no link leads is never
found, however broad the search.]],
      claim = {"by_better.reward[5] > by_poor.reward[5]", "by_poor.reward[5] > by_poor.reward[1]",
               "by_better.recall[5] > 0.95"},
    },
    {
      title = "Why",
      text = [[
The inner product is not a metric. Items of large norm attract the links of all others, and items of
small norm get none, so they can never be found. Embeddings from an SVD have a few large norms and
many small ones.]],
      code = [[
norms = {}
for i, row in ipairs(beta:totable()) do
  local sum = 0
  for j = 1, #row do sum = sum + row[j] ^ 2 end
  norms[i] = 1000 * math.sqrt(sum)
end
reached, reached_better = poor:about().reachable, better:about().reachable
fopo.plot.histogram(norms, {bins = 10, title = "items by norm, times 1000"})]],
      ask = {
        question = "How many of the $items items can the poor graph reach at all?",
        answer = "reached", factor = 1.5, format = "%,d",
      },
      after = [[
The poor graph reaches {%,d|reached} of $items items, the better one {%,d|reached_better}, and yet
the better one earned {%.3f|by_better.reward[5]}: the best items have large norms. That is why an
index must be judged by real queries.]],
      claim = {"reached < 0.6 * $items", "reached_better > reached"},
    },
    {
      title = "Recall is not reward",
      text = [[
Recall is the share of users for whom the best item is found. Each point is one graph at one ef: its
recall, and the share of the reward that is left.]],
      code = [[
recall, kept = {}, {}
for _, r in ipairs{by_poor, by_better} do
  for i in ipairs(efs) do
    recall[#recall + 1] = r.recall[i]
    kept[#kept + 1] = r.reward[i] / first.reward_exact
  end
end
fopo.plot{{x = recall, y = kept, name = "reward kept", style = "points"},
          {x = {0, 1}, y = {0, 1}, name = "equal shares"},
          height = 11, xlabel = "recall"}]],
      ask = {
        question = [[
The poor graph with ef = 1 has a recall of {%.2f|first.recall}. Where will its point lie?]],
        choices = {"above the line: it keeps more reward than its recall", "on the line",
                   "below the line"},
        answer = "kept[1] > recall[1] + 0.05 and 1 or kept[1] > recall[1] - 0.05 and 2 or 3",
      },
      after = [[
It keeps {%.0f|100 * kept[1]} % of the reward at a recall of {%.0f|100 * recall[1]} %. A
second-best item often earns too, so recall overstates the loss; and a recall of 0.9 does not say
what happens to the other users. ix:recall with a policy and sessions measures the reward itself,
with an interval.]],
      claim = {"kept[1] > recall[1]"},
    },
    {
      title = "An exact index that is fast",
      text = [[
Large norms can also help: go through the items by falling norm, and stop when even a perfect
direction could not reach the best score found so far (|q| |beta| bounds every score).]],
      code = [[
exact = judged(norm)
print(("norm:   recall %.3f, reward %.3f %.4f ms"):format(
  exact.recall, exact.reward_index, exact.ms_per_query))
print(("better: recall %.3f, reward %.3f %.4f ms"):format(
  by_better.recall[5], by_better.reward[5], by_better.ms[5]))]],
      ask = {
        question = "Which share of the $items items, between 0 and 1, does it score for a query?",
        answer = "exact.scored", factor = 2, format = "%.3f",
      },
      after = [[
It scores {%.1f|100 * exact.scored} % of the items, takes no time to build, and its answer is
exact. On other embeddings a graph may win: fopo.index.auto measures and says why it chose.]],
      claim = {"exact.recall == 1", "exact.scored < 0.5"},
    },
  },
  exercises = {
    {
      text = [[
The recall at K = 1: for which share of the users is the item that was found the best one?]],
      code = [[
function recall_of(found, best) -- lists: an item for each user
  local n = 0
  for u in ipairs(best) do
    if ___ then n = n + 1 end
  end
  return n / #best
end]],
      answer = "found[u] == best[u]",
      claim = {"recall_of({4, 2, 9, 1}, {4, 2, 8, 7}) == 0.5", "recall_of({1}, {1}) == 1"},
      hint = "u is a user; found[u] and best[u] are items.",
      after = "What the other items earn is not in it.",
    },
    {
      text = [[
The norm index goes through items by falling norm. A query has norm q, the next item norm b, and
the best score so far is `best`. When may it stop?]],
      code = [[
function may_stop(q, b, best)
  return ___
end]],
      answer = "q * b <= best",
      claim = {"may_stop(2, 3, 7)", "not may_stop(2, 4, 7)", "not may_stop(1, 4, 3)"},
      hint = "An inner product is at most the product of the norms.",
      after = "All items behind it have smaller norms, so none of them can be better.",
    },
  },
  try = {
    "auto = fopo.index.auto(beta, {queries = Q, k = 1})",
    "auto",
    "fopo.evaluate(pi, s.test, {index = poor})",
    "help\"index:recall\"",
  },
}
