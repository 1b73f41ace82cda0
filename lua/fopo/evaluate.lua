-- fopo.evaluate: how good the recommendations of a policy or a baseline are, on sessions that it
-- was not trained on.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local lists = require "fopo.base.lists"
local paired = require "fopo.base.paired"
local provenance = require "fopo.base.provenance"
local proportion = require "fopo.base.proportion"
local seen = require "fopo.base.seen"
local sealed = require "fopo.base.sealed"
local text = require "fopo.base.text"
local norms = require "fopo.run.norms"

local STANDARD = {1, 5, 20} -- k, if left out
local MULTIPLY_ADDS = 1e10  -- that an expected reward may cost if expected_contexts is left out
local FEWEST = 100          -- contexts of an expected reward all the same

-- Means with an interval; value: of evaluations by value.
local measures = {"hit", "precision", "recall", "ndcg", "value", "seen"}
local titles = {hit = "hit", precision = "precision", recall = "recall", ndcg = "NDCG",
                value = "value", seen = "seen before"}

-- ---- printing

local function interval(value, low, high)
  return ("%.4f (%.4f - %.4f)"):format(value, low, high)
end

-- What the rewards are called: values where items differ in what a hit on them is worth.
local function title(e) return e.valued and "value" or "reward" end

local function head_line(e)
  local what = title(e)
  local expected = e.expected and (", expected %s %.4f"):format(what, e.expected) or ""
  return ("evaluation: %s %.4f%s, %s contexts, X %s"):format(what, e.reward, expected,
    text.count(e.contexts), e.exclude == "seen" and "left out" or "kept in")
end

-- One row for each measure, one column for each k; three of them fit into 80 columns.
local function measure_table(e)
  local rows = {{""}}
  for _, k in ipairs(e.k) do rows[1][#rows[1] + 1] = "k = " .. k end
  for _, name in ipairs(measures) do
    local row, found = {titles[name]}, e[name]
    for _, k in ipairs(found and e.k or {}) do
      row[#row + 1] = ("%.4f (%.3f-%.3f)"):format(found[k], e.interval[name][k][1],
                                                  e.interval[name][k][2])
    end
    if found and (name ~= "seen" or e.exclude == "none") then rows[#rows + 1] = row end
  end
  local row = {"distinct items"}
  for _, k in ipairs(e.k) do
    row[#row + 1] = ("%s (%.3g %%)"):format(text.count(e.items[k]), 100 * e.coverage[k])
  end
  rows[#rows + 1] = row
  row = {"Gini"}
  for _, k in ipairs(e.k) do row[#row + 1] = ("%.4f"):format(e.gini[k]) end
  rows[#rows + 1] = row
  return text.table(rows)
end

local function expected_line(e)
  local items = e.effective and (e.effective < 100 and ("%.3g"):format(e.effective)
                                 or text.count(e.effective + 0.5))
  local among = items and ", in effect one of " .. items or ""
  local over = e.expected_contexts < e.contexts and
    ("; over %s contexts"):format(text.count(e.expected_contexts)) or ""
  return ("expected %s %s: %s%s%s"):format(title(e),
    interval(e.expected, e.expected_low, e.expected_high),
    e.valued and "what an item drawn from pi earns" or "an item drawn from pi is in Y", among, over)
end

local function describe(e)
  local name = e.exclude == "none" and not e.valued and "R_test, reward" or title(e)
  local lines = {head_line(e), measure_table(e),
    text.page(("%s %s: %s, the items taken next"):format(name, interval(e.reward, e.low, e.high),
      e.valued and "what the best item is worth where it is in Y" or "the best item is in Y"),
      "  ")}
  if e.expected then lines[#lines + 1] = text.page(expected_line(e), "  ") end
  if e.slate then
    lines[#lines + 1] = ("slates of %d by %s: %.4f, as drawn %.4f"):format(e.slate.k,
      e.slate.measure, e.slate.reward, e.slate.expected)
  end
  if e.index then
    lines[#lines + 1] = title(e) .. " via the index "
                        .. interval(e.index.reward, e.index.low, e.index.high)
  end
  if e.note then lines[#lines + 1] = text.page("note: " .. e.note, "  ") end
  return table.concat(lines, "\n")
end

local meta = sealed.kind({__name = "fopo.evaluation", __tostring = describe, describe = describe}, {
  what = "evaluation", letter = "e",
  remedy = "it was measured; fopo.evaluate(pi, sessions, {...}) measures anew",
  known = {"expected", "expected_se", "expected_contexts", "expected_low",
           "expected_high", "effective", "likelihood", "likelihood_se", "index", "reward_index",
           "value", "slate", "note"},
})

-- ---- measuring

-- The wanted numbers k, ascending and each once; 1 among them for the reward.
local function wanted(k, P)
  local given = type(k) == "number" and {k} or k or STANDARD
  local list, known = {}, {}
  for _, n in ipairs(given) do
    if math.type(n) ~= "integer" or n < 1 then
      define.fail("fopo.evaluate: k holds %s; it is a list of integers from 1 on, as {1, 5, 20}",
                  tostring(n))
    end
    if k and n > P then
      define.fail("fopo.evaluate: k is %d but there are %d items; use k <= %d", n, P, P)
    end
    if n <= P and not known[n] then
      list[#list + 1], known[n] = n, true
    end
  end
  if #list == 0 then define.fail("fopo.evaluate: k is an empty list; give {1, 5, 20} or 10") end
  table.sort(list)
  local measured = {table.unpack(list)}
  if not known[1] then table.insert(measured, 1, 1) end
  return list, measured
end

-- The fields of an evaluation, from the measures at each k; those at k = 1 come first.
local function fields_of(found, shown, valued)
  local first, used = found[1], {}
  local reward = valued and first.value or first.hit
  local e = {k = shown, interval = {}, items = {}, coverage = {}, gini = {}, hits = first.hits,
             unanswered = first.unanswered, distinct = first.distinct, reward = reward[1],
             low = reward[2], high = reward[3], valued = valued}
  for _, name in ipairs(measures) do
    if name ~= "value" or valued then
      e[name], e.interval[name], used[#used + 1] = {}, {}, name
    end
  end
  local is_shown = {}
  for _, k in ipairs(shown) do is_shown[k] = true end
  for _, m in ipairs(found) do
    if is_shown[m.k] then
      for _, name in ipairs(used) do
        e[name][m.k] = m[name][1]
        e.interval[name][m.k] = {m[name][2], m[name][3]}
      end
      e.items[m.k], e.coverage[m.k], e.gini[m.k] = m.distinct, m.coverage, m.gini
    end
  end
  return e
end

local function measured(who, sessions, shown, ks, o)
  local start = native.clock()
  local ids = lists.of(who, sessions, {k = ks[#ks], exclude = o.exclude, index = o.index,
                                       contexts = o.contexts})
  local e = fields_of(native.measure_lists(ids, sessions, ks, o.reward), shown,
                      o.reward ~= nil and o.reward.valued)
  e.seconds, e.contexts, e.exclude = native.clock() - start, sessions.n, o.exclude
  local made = sealed.new(meta, e)
  paired.remember(made, ids, sessions, o.reward)
  return made
end

-- How many contexts an expected reward is summed over, if there are more.
local function how_many(pi, o)
  return o.expected_contexts
         or math.tointeger(math.max(FEWEST, MULTIPLY_ADDS // (pi.n_items * pi.dim)))
end

local function add_expected(e, who, sessions, o)
  local unseen, found = o.exclude == "seen"
  if define.kind(who) == "baseline" then
    found = native.baseline_expected(who, sessions, unseen, o.reward)
  else
    found = native.evaluate_expected(who, o.contexts or cache.contexts(sessions, who), sessions,
                                     how_many(who, o), unseen, o.reward)
  end
  if not found then return end
  e.expected, e.expected_se, e.expected_contexts = found.reward, found.se, found.contexts
  e.expected_low, e.expected_high = proportion.normal(found.reward, found.se,
                                                      e.valued and math.huge)
  e.effective = found.effective
  e.note = norms.began_unknown(who, found.effective)
  e.likelihood, e.likelihood_se = found.likelihood, found.likelihood_se
end

-- The chance that place j of a slate is looked at.
local function discount(g, j)
  return g.discount > 0 and g.discount ^ (j - 1) or 1 / math.log(1 + j, 2)
end

-- The reward of one slate by the measure of g: ids [N, k] of which row n; Y, an item to true, of
-- which `most` may be shown.
local function reward_of(g, ids, n, Y, most)
  local best, sum, ideal = 0, 0, 0
  for j = 1, g.k do
    local hit, d = Y[ids:get(n, j)] and 1 or 0, g.measure == "sum" and 1 or discount(g, j)
    best, sum = math.max(best, hit), sum + d * hit
    if j <= most then ideal = ideal + d end
  end
  if g.measure == "hit" then return best end
  return g.measure == "ndcg" and ideal > 0 and sum / ideal or sum
end

-- The mean reward of the slates that one serves, of the k best items.
local function served(who, sessions, g)
  local ids, total = lists.of(who, sessions, {k = g.k, exclude = "none"}), 0
  for n = 1, sessions.n do
    local Y, most, y, x = {}, 0, sessions:y(n), sessions:x(n)
    for i = 1, y.cols do Y[y:get(1, i)] = true end
    for i = 1, who.seen == "mask" and x.cols or 0 do Y[x:get(1, i)] = nil end
    for _ in pairs(Y) do most = most + 1 end
    total = total + reward_of(g, ids, n, Y, most)
  end
  return total / sessions.n
end

-- The reward of slates as they are served, and as the gradient g draws them.
local function slates_of(who, sessions, g)
  if not native.gradient_common(g, "slates") then
    define.fail("fopo.evaluate: slate is a gradient %s; give fopo.gradient.slate or plackett_luce",
                native.gradient_common(g, "kind"))
  end
  local _, drawn = g:compute(who, sessions, nil, native.reward_hits(sessions))
  return {k = g.k, measure = g.measure, reward = served(who, sessions, g), expected = drawn.reward}
end

return define.fn{
  name = "fopo.evaluate", returns = "table",
  args = {{"pi", "policy|baseline", nil, "the policy, or a baseline"},
          {"sessions", "sessions", nil, "as s.test"}},
  options = {
    {"k", "table|integer", nil, "how many items are recommended: a number, or a list as "
     .. "{1, 5, 20}, which it is if left out"},
    seen.option("seen, the default: items of X, which the user has already taken, are not "
                .. "recommended; none: they are, as in the paper's R_test"),
    {"reward", "reward", nil, "of hits, fopo.reward.hits(s.train, {value = ...}): by its values; "
     .. "each hit is worth 1 if left out"},
    {"index", "index", nil, "also recommend through it, as a server would"},
    {"contexts", "array", nil, "[N, D], one row a session; those of training if left out"},
    {"expected", "boolean", true, "whether the expected reward is computed too: it costs a product "
     .. "of a context with every item"},
    {"slate", "gradient", nil, "of slates, fopo.gradient.slate or plackett_luce: also their "
     .. "reward, of hits that are worth 1"},
    {"expected_contexts", "integer", nil, "over at most so many contexts, evenly spread; if left "
     .. "out, all, or as many as take a second or so", min = 1},
  },
  text = [[
Two rewards, which may disagree. "reward" is greedy: the share of contexts whose best item is in Y,
the items that the user took next. "expected reward" is the mean over contexts of the sum over Y of
pi(a | x): the chance that an item drawn from the softmax is in Y, which is what training raises.
Both are of what one serves: the items of X, which the user has, are neither recommended nor drawn.
With exclude = "none" they are, and earn nothing: that is the paper's R_test, the reward of a policy
with seen = "keep" (one that masks X leaves X out all the same). Where the sessions say that an item
of X may be right (seen = "keep" of the split), "none" is the default. e.exclude says which it was.
The result prints as a table and is one:

  e.reward, e.low, e.high       reward with its 95 % Wilson interval; e.hits of e.contexts
  e.expected, e.expected_se     expected reward and its standard error; e.expected_low,
                                e.expected_high, e.expected_contexts. Of one context the error is
                                unknown: infinite, and the interval is 0 to 1
  e.effective                   items among which the softmax chooses in effect: the median of
                                1 / sum of pi^2
  e.likelihood                  mean over contexts of the mean over Y of log pi(a | x), over the
                                same contexts but those without Y, and its error, e.likelihood_se;
                                nil of a baseline
  e.hit[k]                      share of contexts with an item of Y among the first k
  e.precision[k], e.recall[k]   how many of the k are in Y, divided by k, by the size of Y
  e.ndcg[k]                     the same with 1 / log2(1 + rank) for each, over the best possible
  e.seen[k]                     share of the recommended items that are in X: seen before; 0 where
                                X is left out
  e.items[k], e.coverage[k]     different items recommended, and their share of the catalogue;
                                e.distinct is e.items[1]
  e.gini[k]                     of how often each item is recommended: 0 all equally, 1 one item
  e.interval.recall[k]          {low, high}: 95 %, Wilson's for hit, the normal one for means
  e.slate                       with slate = g: {k, measure, reward, expected}, the reward of the
                                slates of the k best items, and the mean of those that g draws
  e.note                        a sentence where the softmax is nearly uniform because the policy
                                has the defaults of items whose sessions are not known; else nil
  e.seconds, e.unanswered       of search and measures; contexts without a recommendation

With reward = a reward of hits that has values (e.valued), both rewards are values: "value" is the
mean over contexts of what the best item is worth where it is in Y, "expected value" the mean of the
sum over Y of value times pi, both with the normal interval. The likelihood weighs the items of Y by
value, e.ndcg counts a hit's value for 1 and compares with the best list by value, and e.value[k] is
the mean of what the hits among the first k are worth; the other measures count hits.

Search is exact, over the whole catalogue. With an index there are e.reward_index, and e.index with
all of these through it but the expected reward, which needs no search. A baseline (fopo.baseline)
takes the same options, but no index and no contexts.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
items = fopo.embed.svd(s.train, {dim = 8})
e = fopo.evaluate(fopo.policy.linear{items = items, theta = "identity"}, s.test)
assert(e.reward >= e.low and e.reward <= e.high and e.hit[1] == e.reward)
assert(e.hit[5] <= e.hit[20] and e.recall[5] <= e.recall[20])
print(e)]],
  call = function(who, sessions, o)
    if define.kind(who) == "baseline" and (o.index or o.contexts) then
      define.fail("fopo.evaluate: a baseline is evaluated without %s; leave it out",
                  o.index and "an index" or "contexts")
    end
    local shown, ks = wanted(o.k, sessions.n_items)
    o.exclude = seen.left_out(o.exclude, sessions, who)
    local exact = measured(who, sessions, shown, ks,
                           {exclude = o.exclude, contexts = o.contexts, reward = o.reward})
    local e = sealed.behind(exact)
    if o.expected then add_expected(e, who, sessions, o) end
    if o.slate then e.slate = slates_of(who, sessions, o.slate) end
    if o.index then
      e.index = measured(who, sessions, shown, ks, o)
      e.reward_index = e.index.reward
    end
    if define.kind(who) == "policy" then provenance.measured(who, exact, sessions) end
    return exact
  end,
}
