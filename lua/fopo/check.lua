-- fopo.check: is what this program computes right? On any policy and data, or on small data that
-- it makes. This file has the options and the report; the measurements are in fopo/check/.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local checks = require "fopo.check.checks"
local gradient = require "fopo.gradient"
local index = require "fopo.index"
local proposal = require "fopo.proposal"
local sealed = require "fopo.base.sealed"
local term = require "fopo.term"
local text = require "fopo.base.text"

local report = {__name = "fopo.check"}

local function is_log(data) return define.kind(data) == "logs" end

-- The data and the policy if none are given: few items, so that the exact gradient is cheap, and a
-- policy that is neither uniform nor concentrated, so that the weights vary.
local function small_world(o)
  local d = require("fopo.data").synthetic{users = 400, items = 1500, clusters = 15,
                                           seed = o.seed}
  o.data = d:sessions{min_items = 10, seed = o.seed}.train
end

local function small_policy(o)
  local items = is_log(o.data) and o.data:items()
                or require("fopo.embed").svd(o.data, {dim = 12, seed = o.seed})
  o.policy = require("fopo.policy").linear{items = items, theta = "identity"}
end

-- Every kind of estimator, over the given index or an exact one.
local function all_gradients(o)
  if o.policy.scores_lists then return {gradient.sparse{}} end
  local items, fault = o.policy:items(), o.fault
  local ix = o.index or index.norm(items)
  local k = math.max(1, math.min(64, items.rows // 4))
  local function mixture(epsilon, draws)
    return gradient.snis{fault = fault, proposal = proposal.mixture{index = ix, k = k,
                         epsilon = epsilon, draws = draws}}
  end
  local list = {gradient.reinforce{}, gradient.reinforce{baseline = "mean"},
                gradient.snis{fault = fault}, mixture(0.5, "iid"), mixture(0.8, "stratified"),
                gradient.head_tail{index = ix, k = k, tail = math.min(256, items.rows - k)},
                gradient.head_tail{head = 3 * k, tail = math.min(256, items.rows - 3 * k)}}
  if not o.policy.train_items then
    list[#list + 1] = gradient.slate{index = ix, k = math.min(5, k), samples = 20,
                                     measure = "sum"}
  end
  return list
end

-- A copy to measure, because the user's own may be in use and has a state. An adaptive proposal is
-- measured at its present epsilon or at 0.5, whichever is more: then fewer draws are enough to see
-- the tail. Candidates that follow from the mass of a batch are those of an exact index here.
local function copy(g, o)
  local q = native.gradient_common(g, "proposal")
  if not q or q.kind == "uniform" or q.kind == "custom" then return g:copy(q) end
  local ix = q.index
  if not ix or ix.budget == "auto" then
    o.exact = o.exact or index.norm(o.policy:items())
    ix = o.exact
  end
  local adaptive = q.kind == "adaptive"
  return g:copy(proposal.mixture{index = ix, k = g.k, refresh = not adaptive and q.refresh or 1,
                                 epsilon = adaptive and math.max(g.epsilon, 0.5) or q.epsilon,
                                 draws = q.draws or "iid"})
end

local function list_of(o)
  if o.gradient == nil then return all_gradients(o) end
  local list, given = {}, o.gradient
  if define.kind(given) == "gradient" then given = {given} end
  for i, g in ipairs(given) do
    if define.kind(g) ~= "gradient" then
      define.fail("fopo.check: gradient %d of the list is %s", i, define.kind(g))
    end
    list[i] = copy(g, o)
  end
  if #list == 0 then define.fail("fopo.check: the list of gradients is empty") end
  return list
end

-- `n` numbers from 1 to `most`, evenly spread; the seed chooses the first one.
local function spread_rows(n, most, seed)
  local rows = {}
  n = math.min(n, most)
  for i = 0, n - 1 do rows[i + 1] = (seed + i * most // n) % most + 1 end
  return rows
end

-- ---- the report

local function red(s) return term.colour() and "\27[31m" .. s .. "\27[0m" or s end

local function add(r, name, measured, bound, status)
  r.rows[#r.rows + 1] = {name = name, measured = measured, bound = bound, status = status}
  if status == "FAILED" then
    r.ok = false
    r.first = r.first or name
  end
end

function report.describe(r)
  if r.ok then
    return ("check: all okay, %d checks in %s"):format(#r.rows, text.seconds(r.seconds))
  end
  return ("check: FAILED first at %s, %d checks in %s"):format(r.first, #r.rows,
                                                              text.seconds(r.seconds))
end

report.__tostring = report.describe
sealed.kind(report, {
  what = "report of fopo.check", letter = "r",
  remedy = "it says what was measured; fopo.check{...} measures anew", known = {"first"},
})

local function marked(status) return status == "FAILED" and red(status) or status end

local BLANK = (" "):rep(9) -- as wide as "FAILED   "

local function behind(s)
  return (text.fill(s, term.width() - #BLANK, ""):gsub("\n", "\n" .. BLANK))
end

-- For a terminal that is too narrow for the table: one line a check, and the figures of those that
-- failed.
local function print_lines(r)
  for _, row in ipairs(r.rows) do
    if row.status ~= "skipped" then
      print(("%s%s  %s"):format(marked(row.status), (" "):rep(7 - #row.status), behind(row.name)))
    end
    if row.status == "FAILED" then
      print(BLANK .. behind(row.measured))
      if row.bound ~= "" then print(BLANK .. behind("bound: " .. row.bound)) end
    end
  end
end

local function print_report(r)
  local rows, skipped = {{"check", "measured", "bound", "result"}}, {}
  for _, row in ipairs(r.rows) do
    if row.status == "skipped" then
      local why = ("skipped: %s: %s"):format(row.name, row.measured)
      skipped[#skipped + 1] = text.page(why, "  ")
    else
      rows[#rows + 1] = {row.name, row.measured, row.bound, row.status}
    end
  end
  local shown = text.table(rows)
  if term.is_tty() and term.width() < text.width(shown:match("%-[^\n]*")) then
    print_lines(r)
  else
    print((shown:gsub("FAILED", marked)))
  end
  for _, line in ipairs(skipped) do print(line) end
  local first = not r.ok and text.page("not okay: " .. r.first, "  "):gsub("^not okay:", red)
  print("\n" .. (first or "all okay"))
end

-- ---- the call

-- The objective of the gradients and its title: one for all, with which they are compared.
local function objective_of(gradients)
  local common = native.gradient_common
  local objective = common(gradients[1], "objective")
  local title = common(gradients[1], "objective_title")
  for i, g in ipairs(gradients) do
    if common(g, "objective") ~= objective then
      define.fail("fopo.check: gradient %d is of the %s, gradient 1 of the %s; check one objective "
                  .. "at a time", i, common(g, "objective_title"), title)
    end
  end
  return common(gradients[1], "own_objective") or objective, title
end

local function context_of(o, r)
  local c = {pi = o.policy, gradients = list_of(o), seed = o.seed, samples = o.samples,
             repetitions = o.repetitions, recall = o.recall, index = o.index}
  c.objective, c.title = objective_of(c.gradients)
  if not o.x and not o.data then
    define.fail("fopo.check needs data, or x and reward, besides the policy")
  elseif not o.reward and not o.data then
    define.fail("fopo.check needs a reward if x is given without data")
  end
  c.x = o.x or is_log(o.data) and o.data:contexts() or cache.contexts(o.data, c.pi)
  c.reward = o.reward or is_log(o.data) and native.reward_ips(o.data)
             or native.reward_hits(o.data)
  local masks = c.pi.seen == "mask" and define.kind(o.data) == "sessions" and o.data
  -- The options of an estimate, and the sessions first .. last (only `first` if left out) of those
  -- that are measured: nil unless the policy needs them.
  function c.with(options)
    options.sessions = masks or nil
    return options
  end
  function c.seen(first, last)
    if not masks then return nil end
    local lists = {}
    for i = first, last or first do
      lists[#lists + 1] = masks:x(c.rows[i]):totable()[1] or {}
    end
    return native.histories_from(lists, c.pi.n_items)
  end
  -- The items that are masked in the i-th context that is measured, as a set.
  function c.masked(i)
    local set = {}
    for _, id in ipairs(masks and masks:x(c.rows[i]):totable()[1] or {}) do set[id] = true end
    return set
  end
  c.rows = spread_rows(o.contexts, c.x.rows, o.seed)
  c.picked = c.x:rows_of(c.rows)
  c.many = c.x:rows_of(spread_rows(50, c.x.rows, o.seed))
  c.oracle = native.index_exact(c.pi:items())
  function c.add(name, measured, bound, ok)
    add(r, name, measured, bound, ok and "okay" or "FAILED")
  end
  function c.skip(name, why) add(r, name, why, "", "skipped") end
  return c
end

return define.fn{
  name = "fopo.check", returns = "table",
  options = {
    {"policy", "policy", nil, "the policy; if left out, one over embeddings of the sessions or "
     .. "over the items of the log"},
    {"data", "sessions|logs", nil, "as s.train, or a bandit log; small data if left out"},
    {"x", "array", nil, "[N, D] contexts; those of the data if left out"},
    {"reward", "reward", nil, "the reward; if left out, hits on sessions or ips on a log"},
    {"gradient", "gradient|table", nil, "an estimator or a list of them; all kinds if left out"},
    {"index", "index", nil, "for the estimators that are made here; it is checked too"},
    {"contexts", "integer", 4, "contexts that are measured", min = 1},
    {"samples", "integer", 500, "S of the self-normalised estimators, and 4 S", min = 2},
    {"repetitions", "integer", 200, "estimates in a mean", min = 30},
    {"recall", "number", 0, "the least recall of an approximate index", min = 0, max = 1},
    {"seed", "integer", 1, "of the contexts, directions and draws", min = 0},
    {"fault", "string", "none", "planted in the snis estimators that are made here",
     one_of = {"none", "no_q", "added_q", "off_by_one"}},
    {"print", "boolean", true, "print the table"},
    {"exit", "boolean", false, "leave the program with status 1 if a check fails"},
  },
  text = [[Checks the computations that learning rests on, each against a number found another way:
- the exact gradient against central differences of its objective in double, along the
  gradient itself, gradients of random rewards and a random direction; the gradient of the items if
  they are learnt;
- the draws of each estimator against the distribution they should have, by chi-square on a few
  contexts;
- log q against the formula, also for uniform draws that are candidates, and its sum over all items;
- the mean of each estimator over many draws against the exact gradient, in standard errors. The
  bias of SNIS, of order 1 / S, is removed by two sizes, (4 d(4S) - d(S)) / 3, and 4 / n of that
  bias is allowed for the rest, where n = S / sum_a pi_a^2 / q_a is the number of draws of the
  policy that S draws of q are worth. S is doubled until n is 25; draws of a tail are as many as
  that takes. (With epsilon = 0 items outside the candidates are never drawn, a bias that no S
  cures: the check fails.)
- the gradient of slates against central differences of their expected reward, by the same draws of
  slates on both sides (two steps, whose first error is taken off), in standard errors;
- the index against exact search (the recall of an approximate one is reported, see the option);
- 1 thread against 2, and the CPU against a GPU if there is one.
Prints a table and "all okay", or the first check that failed. Returns {ok, rows, first, seconds};
rows have name, measured, bound and status ("okay", "FAILED" or "skipped"). A check that cannot be
made is skipped by name, such as that of a policy so certain that its gradient is less than the
rounding of float32. The reward must give the same value whenever it is asked. Copies of the
gradients are measured; an adaptive proposal at its present epsilon or 0.5, whichever is more. Cost:
passes over the whole catalogue for the exact gradient and REINFORCE, with fewer repetitions on
large catalogues.
Lesson: fopo.check{fault = "no_q"} fails; help"fopo.gradient.snis" describes the faults.]],
  example = [[r = fopo.check{contexts = 2, repetitions = 40, print = false}
assert(r.ok, r.first)
r = fopo.check{contexts = 2, repetitions = 40, fault = "no_q", print = false}
assert(not r.ok and r.first:find("mean of snis"))]],
  call = function(o)
    local start = native.clock()
    local r = {ok = true, rows = {}, seconds = 0}
    if not o.policy and not o.data then small_world(o) end
    if not o.policy then small_policy(o) end
    if o.policy.scores_lists then o.data = o.policy:training() or o.data end
    local c = context_of(o, r)
    for _, check in ipairs(checks) do check(c) end
    r.seconds = native.clock() - start
    if o.print then print_report(r) end
    if o.exit and not r.ok then os.exit(1) end
    return sealed.new(report, r)
  end,
}
