-- Lesson 10: what goes wrong where a policy is learnt from the log of another one, and pessimism.
return {
  name = "learning", title = "Learning from logs", minutes = 7,
  about = "SNIPS, coverage, pessimism, feedback",
  source = [[the Introduction (IPS and its variance); pessimism: Sakhi et al., NeurIPS 2024]],
  sizes = {worlds = {20, 8}, shows = {20000, 5000}},
  steps = {
    {
      title = "A ratio",
      text = [[
Lesson 6 judged policies by IPS, the mean of w r with w = pi / p. Here is a log of a system that
shows its favourites and explores in 5 % of the events. SNIPS divides by the sum of the weights
instead of their number:

    IPS = sum w r / n,      SNIPS = sum w r / sum w

so it is a mean of rewards, and stays between the smallest and the largest of them. The errors of
both, over $worlds logs of 1,000 events:]],
      code = [[
P = 50
function world(seed)
  return fopo.data.synthetic_logs{n = 2000, actions = P, dim = 8,
    k = 20, epsilon = 0.05, skill = 0.8, sharpness = 3,
    bias = -2, slope = 2, seed = seed}
end
names, errors = {"ips", "snips"}, {0, 0}
for seed = 1, $worlds do
  local lg, truth = world(seed)
  local pi = fopo.policy.linear{items = lg:items(),
                                theta = "identity"}
  local e = fopo.ope(pi, lg:split{}, {estimators = names,
                                      bootstrap = 0})
  local value = truth:value(pi)
  for i, name in ipairs(names) do
    local off = e[name].value - value
    errors[i] = errors[i] + off ^ 2 / $worlds
  end
end
for i = 1, 2 do errors[i] = math.sqrt(errors[i]) end
fopo.plot.bars(errors, {"IPS", "SNIPS"}, {title = "error"})]],
      ask = {
        question = "Which one has the smaller error?", choices = {"IPS", "SNIPS"},
        answer = "errors[1] < errors[2] and 1 or 2",
      },
      after = [[
SNIPS, {%.3f|errors[2]} against {%.3f|errors[1]}: a log that by luck has too much weight has it
above and below the line. The price is a bias of order 1 / n.]],
      claim = {"errors[2] < errors[1]"},
    },
    {
      title = "Too good",
      text = [[
Now learn from one half of such a log: raise IPS, as fopo.reward.ips does, with a free vector for
each action. A reward is 0 or 1.]],
      code = [[
lg, truth = world(1)
train, held = lg:split{train = 0.5}
fresh = truth:contexts(2000, 7)
system = truth:logging(fresh)
function learn(reward, objective)
  local pi = fopo.policy.linear{
    items = fopo.array.eye(P), context_dim = lg.dim,
    theta = fopo.array.zeros(lg.dim, P)}
  local g = fopo.gradient.exact{objective = objective}
  local t = fopo.trainer{policy = pi, data = train,
    reward = reward, gradient = g, batch = 250,
    optim = fopo.optim.adam{lr = 0.05}}
  t:run{epochs = 60, view = false}
  return pi
end
function earns(pi)
  return truth:value(pi, {contexts = fresh})
end
function judged(pi, part)
  return fopo.ope(pi, part, {bootstrap = 0,
    estimators = {"ips", "snips", "ls"}})
end
greedy = learn(fopo.reward.ips{logs = train})
own = judged(greedy, train)
fopo.plot.bars({system, earns(greedy)},
               {"the system", "learnt by IPS"},
               {title = "earned, by the truth"})]],
      ask = {
        question = "What does IPS say that the learnt policy earns, on the events it learnt from?",
        answer = "own.ips.value", factor = 2, format = "%.1f",
      },
      after = [[
{%.1f|own.ips.value}, and no policy can earn more than 1. It earns {%.2f|earns(greedy)}, less than
the system, {%.2f|system}. Where the log was lucky with an action that it hardly shows, w is large,
and that is where this policy went: its weights have a mean of {%.1f|own.mean_weight} instead of 1.
SNIPS says {%.2f|own.snips.value}: it is not impossible, and no less wrong.]],
      claim = {"own.ips.value > 1.5", "earns(greedy) < system - 0.05", "own.mean_weight > 2",
               "own.snips.value > earns(greedy) + 0.2"},
    },
    {
      title = "What the log never showed",
      text = [[
An estimate can only be as good as what the log covers. Take a catalogue of 500 actions, a log of
1,000 events with 5 % of exploration, and a policy that shows all actions equally often. e.unshown
is the share of the policy on actions that are in no event.]],
      code = [[
wide = fopo.data.synthetic_logs{n = 1000, actions = 500,
  dim = 8, k = 20, epsilon = 0.05, skill = 0.8, seed = 1}
anything = fopo.policy.linear{items = wide:items(),
  theta = fopo.array.zeros(8, 8)}
seen_by = fopo.ope(anything, wide, {bootstrap = 0})
fopo.plot.bars({1 - seen_by.unshown, seen_by.unshown},
               {"in the log", "in no event"})]],
      ask = {
        question = "Which share, between 0 and 1?",
        answer = "seen_by.unshown", factor = 1.4, format = "%.2f",
      },
      after = [[
{%.2f|seen_by.unshown}. What these actions earn, no weight can say: only a model, or groups of
actions of which some are shown (mips). fopo.ope names the share in a warning, and explain(t) says
it of a policy that is learnt from a log.]],
      claim = {"seen_by.unshown > 0.1", "#seen_by.warnings > 0"},
    },
    {
      title = "Pessimism",
      text = [[
Count an event for less the more it weighs. Logarithmic smoothing raises, instead of the mean of
w r,

    mean of log(1 + lambda w r) / lambda

which is never above it. And on events that were not learnt from it comes with a lower bound that
holds with 95 %, whatever the log covers.]],
      code = [[
careful = learn(fopo.reward.ips{logs = train, smoothing = 1},
                "smoothed")
other = judged(careful, held)
three = {system, earns(greedy), earns(careful)}
fopo.plot.bars(three, {"the system", "IPS", "smoothing"},
               {title = "earned, by the truth"})
print(("bound %.3f"):format(other.ls.bound))]],
      ask = {
        question = "Where does smoothing end?",
        choices = {"below the policy of IPS", "between it and the system", "above the system"},
        answer = "three[3] < three[2] and 1 or three[3] < three[1] and 2 or 3",
      },
      after = [[
At {%.3f|three[3]}; the system earns {%.3f|three[1]}. And one may know it before showing it to
anybody: by the other half of the log it earns at least {%.2f|other.ls.bound}. On the half that was
learnt from the bound does not hold.]],
      claim = {"three[3] > three[2] + 0.05", "three[3] > three[1]",
               "other.ls.bound < three[3]"},
    },
    {
      title = "Tomorrow's log",
      text = [[
What a system shows is what its next log can tell. Suppose 10 items that are all equally good: each
is clicked in 3 of 10 cases. A system shows an item as often as it was clicked before, by the share
of its clicks, $shows times.]],
      code = [[
function loop(explore)
  local clicks, shows, total = {}, {}, 10
  local draw = fopo.array.uniform($shows, 3, 1):totable()
  for a = 1, 10 do clicks[a], shows[a] = 1, 0 end
  for _, u in ipairs(draw) do
    local a, left = 1, u[1] * total
    if u[2] < explore then a = 1 + math.floor(10 * u[1])
    else
      while left >= clicks[a] do
        left, a = left - clicks[a], a + 1
      end
    end
    shows[a] = shows[a] + 1
    if u[3] < 0.3 then
      clicks[a], total = clicks[a] + 1, total + 1
    end
  end
  return clicks, shows
end
clicks, shows = loop(0)
rates, most = {}, 1
for a = 1, 10 do
  rates[a] = (clicks[a] - 1) / shows[a]
  if shows[a] > shows[most] then most = a end
end
times = shows[most] / ($shows / 10)
fopo.plot.bars(clicks, nil, {title = "clicks"})]],
      ask = {
        question = [[
How many times as often as the average item is the most popular one shown in the end?]],
        answer = "times", factor = 1.5, format = "%.1f",
      },
      after = [[
{%.1f|times} times as often, for no merit of its own: early clicks bring shows,
and shows bring clicks. This is popularity bias. The log knows better: clicks by shows,
{%.2f|rates[most]} for the most popular item, are what IPS computes, since p is how often it was
shown. But that needs p to be kept, and every item to be shown: exploration is what tomorrow's
policy learns from.]],
      claim = {"times > 2", "math.abs(rates[most] - 0.3) < 0.1"},
    },
  },
  exercises = {
    {
      text = [[
SNIPS of events with weights w[1], w[2], ... and rewards r[1], r[2], ...]],
      code = [[
function snips(w, r)
  local weight, earned = 0, 0
  for i in ipairs(w) do
    weight, earned = weight + w[i], earned + w[i] * r[i]
  end
  return ___
end]],
      answer = "earned / weight",
      claim = {"snips({2, 2}, {1, 0}) == 0.5", "math.abs(snips({1, 2, 5}, {1, 1, 1}) - 1) < 1e-9"},
      hint = "If every reward is 1, SNIPS is 1, whatever the weights are.",
      after = "IPS of rewards that are all 1 is the mean weight.",
    },
    {
      text = [[
What an event of weight w and reward r adds to logarithmic smoothing.]],
      code = [[
function smoothed(w, r, lambda)
  return ___
end]],
      answer = "math.log(1 + lambda * w * r) / lambda",
      claim = {"math.abs(smoothed(3, 1, 1) - math.log(4)) < 1e-9",
               "math.abs(smoothed(2, 1, 1e-6) - 2) < 1e-3", "smoothed(9, 0, 0.5) == 0"},
      hint = "For a small lambda it is w r, and it is less for a larger one.",
      after = "An event of weight 1000 counts for {%.1f|smoothed(1000, 1, 1)} at lambda = 1.",
    },
  },
  try = {
    "c, n = loop(0.2)                     -- a fifth of the shows uniform",
    "fopo.plot.bars(n)",
    "earns(learn(fopo.reward.ips{logs = train, clip = 0.02}))",
    "earns(learn(fopo.reward.ips{logs = train}, \"snips\"))",
    "ope(train:constant(), held)          -- one action for everybody",
    "help\"reward.ips\"",
  },
}
