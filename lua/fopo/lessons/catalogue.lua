-- Lesson 3: the cost of a step as the catalogue grows.
return {
  name = "catalogue", title = "A million items", minutes = 5,
  about = "What a training step reads and how long it takes, from a thousand items to a million",
  source = [["Optimizing the Objective", "The Proposed Method" and RQ1]],
  sizes = {largest = {1000000, 100000}, users = {2000, 1000}},
  steps = {
    {
      title = "What a step reads",
      text = [[
A step takes 32 contexts and reads rows of the item embeddings, L numbers each. Per context:

    exact, REINFORCE   P rows       for Z, the sum over all items
    SNIS, uniform      S rows       the items that were drawn
    SNIS, mixture      S + K rows   and a search of the index

Here S = 1000, K = 256, L = 16, and first P = 10,000.]],
      code = [[
function world(P)
  local d = fopo.data.synthetic{users = $users, items = P, clusters = 100}
  local s = d:sessions{min_items = 10}
  local beta = fopo.embed.svd(s.train, {dim = 16, power_iterations = 2})
  local q = fopo.proposal.mixture{index = fopo.index.norm(beta), k = 256}
  return {
    pi = fopo.policy.linear{items = beta, theta = "identity"},
    x = s.train:contexts(beta), hits = fopo.reward.hits(s.train),
    pick = s.train:batch{size = 32, step = 0},
    reinforce = fopo.gradient.reinforce{samples = 1000},
    uniform = fopo.gradient.snis{samples = 1000},
    mixture = fopo.gradient.snis{samples = 1000, proposal = q}}
end
function milliseconds(w, g) -- the best of ten
  local best, stats = math.huge, nil
  for step = 1, 10 do
    local began = fopo.clock()
    stats = select(2, g:compute(w.pi, w.x, w.pick, w.hits, {step = step}))
    best = math.min(best, 1000 * (fopo.clock() - began))
  end
  return best, stats
end
function rows_read(w) -- by the mixture, for a context
  local about = w.mixture.proposal.index:about()
  return 1000 + 256 + about.scored / about.queries
end
w = world(10000)
ms = {milliseconds(w, w.reinforce), (milliseconds(w, w.uniform)),
      (milliseconds(w, w.mixture))}
fopo.plot.bars(ms, {"REINFORCE", "SNIS, uniform", "SNIS, mixture"},
               {title = "milliseconds of a step"})]],
      ask = {
        question = [[
At 10,000 items, how many times longer does a step of REINFORCE take than one of SNIS with uniform
draws?]],
        answer = "ms[1] / ms[2]", factor = 2, format = "%.0f",
      },
      after = [[
For each row that SNIS reads, REINFORCE reads {%d|10000 // w.uniform.samples}, and it takes an
exponential of each. The mixture also pays for a search: {%,d|rows_read(w) // 1} rows in all.]],
      claim = {"rows_read(w) > w.uniform.samples", "rows_read(w) < 10000"},
    },
    {
      title = "From a thousand to a million",
      text = [[
The same at other sizes. Both axes are logarithmic: a time that grows like P is a rising straight
line, and a time that does not depend on P is flat.]],
      code = [[
P, reinforce, uniform, mixture, rows = {}, {}, {}, {}, {}
n = 1000
while n <= $largest do
  w = world(n)
  P[#P + 1] = n
  reinforce[#P] = milliseconds(w, w.reinforce)
  uniform[#P] = milliseconds(w, w.uniform)
  mixture[#P], stats = milliseconds(w, w.mixture)
  rows[#P] = rows_read(w)
  n = n * 10
end
fopo.plot{{x = P, y = reinforce, name = "REINFORCE"},
          {x = P, y = uniform, name = "SNIS, uniform"},
          {x = P, y = mixture, name = "SNIS, mixture"},
          logx = true, logy = true, height = 11, xlabel = "P", ylabel = "ms"}]],
      ask = {
        question = [[
At $largest items, how many times longer does a step of REINFORCE take than one of the mixture?]],
        answer = "reinforce[#P] / mixture[#P]", factor = 2, format = "%.0f",
      },
      after = [[
From {%,d|P[2]} to {%,d|P[#P]} items, a step of REINFORCE takes {%.0f|reinforce[#P] / reinforce[2]}
times as long, one of uniform SNIS {%.1f|uniform[#P] / uniform[2]} times, one of the mixture
{%.1f|mixture[#P] / mixture[2]} times. At the end REINFORCE takes
{%.0f|reinforce[#P] / uniform[#P]} times as long as uniform draws and
{%.0f|reinforce[#P] / mixture[#P]} times as long as the mixture (RQ1). A step of SNIS never reads
most of the catalogue: the mixture, with its search, read {%,d|rows[#P] // 1} rows a context, and
REINFORCE all {%,d|P[#P]}.]],
      claim = {"rows[#P] < P[#P] / 5", "rows[#P] / P[#P] < rows[1] / P[1]"},
    },
    {
      title = "Where the time of the mixture goes",
      text = [[
A step of SNIS with the mixture searches the K best items, draws (propose), looks up rewards, and
sums the rows (gradient). The estimator says how long each took in its last step.]],
      code = [[
phases, share = {"search", "propose", "reward", "gradient"}, {}
for i, name in ipairs(phases) do share[i] = 1000 * stats.seconds[name] end
seen = (rows[#P] - 1256) / P[#P] -- of the catalogue, by the search
slowest = 1
for i = 2, 4 do if share[i] > share[slowest] then slowest = i end end
fopo.plot.bars(share, phases, {title = "milliseconds"})]],
      ask = {
        question = "Which takes longest at {%,d|P[#P]} items?",
        choices = {"search", "propose", "reward", "gradient"}, answer = "slowest",
      },
      after = [[
The index goes through the items by falling norm and stops when no other item can be among the K
best: it read {%.1f|100 * seen} % of them. A context may use its candidates again in later visits
(refresh = n), which saves most searches.]],
      claim = {"seen > 256 / P[#P] and seen < 0.2"},
    },
    {
      title = "What it means",
      text = [[
The paper trains for 50 passes over 500,000 users, 32 at a time, on a catalogue of 790,000
(Twitch). Take the times just measured at {%,d|P[#P]} items.]],
      code = [[
steps = 50 * 500000 / 32
hours = {}
for i, ms in ipairs{reinforce[#P], mixture[#P], uniform[#P]} do
  hours[i] = steps * ms / 1000 / 3600
end
fopo.plot.bars(hours, {"REINFORCE", "SNIS, mixture", "SNIS, uniform"},
               {title = "hours of training"})]],
      ask = {
        question = "How many hours does that take with REINFORCE on this machine?",
        answer = "hours[1]", factor = 2, format = "%.1f",
      },
      after = [[
{%,d|steps} steps: {%.3g|hours[1]} hours, or {%.2g|hours[2]} with the mixture. Uniform draws are
faster still, {%.2g|hours[3]} hours, but lesson 2 shows what they lose.]],
    },
  },
  exercises = {
    {
      text = [[
How many rows of the item embeddings does SNIS with the mixture read in a step of B contexts,
besides those of the search?]],
      code = [[
function rows_of(B, S, K)
  return ___
end]],
      answer = "B * (S + K)",
      claim = {"rows_of(32, 1000, 256) == 40192", "rows_of(1, 10, 0) == 10"},
      hint = "Every context has S draws and K candidates.",
      after = "P is not in it.",
    },
    {
      text = [[
A step takes ms milliseconds and B contexts. How many hours are `passes` passes over N contexts?]],
      code = [[
function hours_of(passes, N, B, ms)
  local n = passes * N / B -- steps
  return ___
end]],
      answer = "n * ms / 1000 / 3600",
      claim = {"math.abs(hours_of(50, 500000, 32, 36) - 7.8125) < 1e-9"},
      hint = "An hour has 3600 seconds, each of 1000 milliseconds.",
      after = [[
With the mixture, at {%,d|P[#P]} items: {%.2g|hours_of(50, 500000, 32, mixture[#P])} hours.]],
    },
  },
  try = {
    "keep = fopo.proposal.mixture{index = fopo.index.norm(w.pi:items()),",
    "                             k = 256, refresh = 10}",
    "milliseconds(w, fopo.gradient.snis{samples = 1000, proposal = keep})",
    "milliseconds(w, fopo.gradient.snis{samples = 10000})   -- ten times the draws",
  },
}
