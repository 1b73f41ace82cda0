-- Lesson 6: the value of a policy from logs of another one that explores less and less.
return {
  name = "logs", title = "Logs that hardly explore", minutes = 7,
  about = "IPS, clipped IPS and doubly robust estimates, as the propensities in the log shrink",
  source = [[the Introduction (IPS, its clipping, DR)]],
  sizes = {events = {2000, 1000}, worlds = {20, 8}},
  steps = {
    {
      title = "What would another policy have earned?",
      text = [[
Each event of a log has the action that was shown, its probability p_i (the propensity) and its
reward r_i. What would another policy pi have earned? IPS weighs each event by how much more likely
pi is to take the action:

    IPS = mean of w_i r_i,    w_i = pi(a_i | x_i) / p_i

This log comes from a synthetic world, in which the true value is known. Here the actions were
uniform: 1 of 200, each with p = 0.005.]],
      code = [[
function world(eps, seed)
  return fopo.data.synthetic_logs{n = $events, actions = 200, dim = 8, k = 20,
                                  epsilon = eps, seed = seed}
end
lg, truth = world(1, 1)
pi = fopo.policy.linear{items = lg:items(), theta = "identity"}
value = truth:value(pi)
e = fopo.ope(pi, lg, {estimators = {"ips"}, bootstrap = 0})
fopo.plot.bars({lg.mean_reward, e.ips.value, value},
               {"earned in the log", "IPS", "the truth"})]],
      ask = {
        question = [[
An event counts if pi likes the action that was shown. How many of the $events count, in effect?
(the effective sample size, (sum w)^2 / sum w^2)]],
        answer = "e.ess", factor = 2, format = "%.0f",
      },
      after = [[
pi earns {%.3f|value}, and IPS says {%.3f|e.ips.value} -+ {%.3f|1.96 * e.ips.se}, from events of a
policy that earned {%.3f|lg.mean_reward}. But its weights differ much: {%,d|lg.n} events are worth
{%.0f|e.ess}.]],
      claim = {"value > lg.mean_reward", "e.ess < lg.n",
               "math.abs(e.ips.value - value) < 5 * e.ips.se"},
    },
    {
      title = "One log is luck",
      text = [[
So take $worlds worlds and a log from each: the mean difference from the truth is the bias of an
estimator, the typical difference its error. Besides IPS there are

    clipped IPS   w_i = pi / max(tau, p_i): no weight above 1 / tau
    DR            a model of the reward, and IPS on the errors of the model
    clipped DR    both]],
      code = [[
names = {"ips", "clipped_ips", "dr", "clipped_dr"}
function judge(eps, clip)
  local out = {}
  for _, name in ipairs(names) do out[name] = {bias = 0, error = 0} end
  for seed = 1, $worlds do
    local lg, truth = world(eps, seed)
    local pi = fopo.policy.linear{items = lg:items(), theta = "identity"}
    local v = truth:value(pi)
    local e = fopo.ope(pi, lg, {estimators = names, clip = clip,
                                model = "ridge", bootstrap = 0})
    for _, name in ipairs(names) do
      local off = e[name].value - v
      out[name].bias = out[name].bias + off / $worlds
      out[name].error = out[name].error + off ^ 2 / $worlds
    end
  end
  for _, name in ipairs(names) do out[name].error = out[name].error ^ 0.5 end
  return out
end
uniform, errors = judge(1, 0.005), {}
for k, name in ipairs(names) do errors[k] = uniform[name].error end
fopo.plot.bars(errors, names, {title = "error, uniform log"})]],
      ask = {
        question = [[
The log is uniform, and tau = 0.005 is its propensity. What does clipping change?]],
        choices = {"nothing", "it makes the error smaller", "it makes the error larger"},
        answer = "math.abs(errors[1] - errors[2]) < 1e-6 and 1 or errors[2] < errors[1] and 2 or 3",
      },
      after = [[
No propensity is below tau, so there is nothing to clip. The model still helps: DR has an error of
{%.3f|errors[3]}, IPS one of {%.3f|errors[1]}.]],
      claim = {"math.abs(errors[1] - errors[2]) < 1e-6", "errors[3] < errors[1]"},
    },
    {
      title = "Less exploration",
      text = [[
Real systems explore little: a share eps of the events is uniform, the rest shows the 20 best by
the system's own ranking. Propensities outside these 20 are then eps / 200. How do the errors grow
as eps falls from 1 to 0.01?]],
      code = [[
shares, results, lines = {1, 0.3, 0.1, 0.03, 0.01}, {}, {}
for i, eps in ipairs(shares) do results[i] = judge(eps, 0.005) end
for k, name in ipairs(names) do
  lines[k] = {x = shares, y = {}, name = name}
  for i, r in ipairs(results) do lines[k].y[i] = r[name].error end
end
lines.logx, lines.logy, lines.height = true, true, 11
lines.xlabel, lines.ylabel = "eps", "error"
fopo.plot(lines)
last, best = results[#results], 1
for k, name in ipairs(names) do
  if last[name].error < lines[best].y[#results] then best = k end
end]],
      ask = {
        question = "Which one has the smallest error at eps = 0.01?",
        choices = {"IPS: it has no bias", "clipped IPS: its weights are bounded",
                   "DR: a model, and IPS on its errors", "clipped DR: both"},
        answer = "best",
      },
      after = [[
IPS has no bias, but at eps = 0.01 a single event may weigh 1 / p = {%,d|200 / 0.01}: its error
grows from {%.3f|results[1].ips.error} to {%.3f|last.ips.error}. DR applies the weights only to the
errors of its model, and clipped DR also bounds them: {%.3f|last.clipped_dr.error}.]],
      claim = {"last.ips.error > 1.5 * results[1].ips.error",
               "last.clipped_dr.error < last.ips.error"},
    },
    {
      title = "Bias or noise",
      text = [[
Clipping replaces every p below tau by tau (here tau = 0.005), so that no weight is above 1 / tau.
What does it cost? Here is the bias of each estimator, its mean difference from the truth, at
eps = 0.01.]],
      code = [[
bias, total = {}, {}
for k, name in ipairs(names) do
  bias[k], total[k] = last[name].bias, last[name].error
end
share = math.abs(bias[2]) / total[2]
fopo.plot.bars({{y = bias, name = "bias"},
                {y = total, name = "error"}}, names)]],
      ask = {
        question = "How large a part of clipped IPS's error is bias (0: none, 1: all of it)?",
        answer = "share", factor = 1.3, format = "%.2f",
      },
      after = [[
Nearly all of it: events that pi likes and the log hardly shows count less than they should, so
clipped IPS is too low by {%.3f|-bias[2]} of about {%.2f|value}. It has little noise, and is wrong.
Clipped DR has its model for these events: its bias is {%.3f|bias[4]}.]],
      claim = {"bias[2] < 0", "share > 0.7", "math.abs(bias[4]) < math.abs(bias[2])"},
    },
    {
      title = "How much to clip",
      text = [[
A small tau leaves noise, a large one adds bias. Here is clipped IPS at eps = 0.01 with several tau;
the first one, 0.00005, is the least propensity in the log and clips nothing.]],
      code = [[
taus, clipped, biases = {5e-5, 2e-4, 5e-4, 2e-3, 5e-3, 2e-2}, {}, {}
for i, tau in ipairs(taus) do
  local r = judge(0.01, tau).clipped_ips
  clipped[i], biases[i] = r.error, math.abs(r.bias)
end
least = 1
for i = 2, #taus do if clipped[i] < clipped[least] then least = i end end
fopo.plot{{x = taus, y = clipped, name = "error"},
          {x = taus, y = biases, name = "bias"},
          logx = true, height = 10, xlabel = "tau"}]],
      ask = {
        question = "Where is the error smallest?",
        choices = {"at the smallest tau", "in between", "at the largest tau"},
        answer = "least == 1 and 1 or least == #taus and 3 or 2",
      },
      after = [[
The bias grows with tau, from {%.3f|biases[1]} to {%.3f|biases[#biases]}; the noise falls. The
smallest error, {%.3f|clipped[least]}, is at tau = {%g|taus[least]}. With a real log the truth is
not known, so neither is the best tau: try several.]],
      claim = {"biases[#taus] > 0.9 * clipped[#taus]", "biases[1] < 0.7 * clipped[1]"},
    },
    {
      title = "What the log itself shows",
      text = [[
Without the truth there are still signs: the effective sample size of the weights, the largest
weight, and their mean, which should be 1. fopo.ope warns you when they are bad.]],
      code = [[
thin = world(0.01, 1)
told = fopo.ope(pi, thin, {estimators = {"ips"}, bootstrap = 0})
print(told)]],
      ask = {
        question = "At eps = 0.01, how many events are the {%,d|lg.n} of this log worth?",
        answer = "told.ess", factor = 2, format = "%.0f",
      },
      after = [[
{%.0f|told.ess}, whereas the uniform log of the first step had {%.0f|e.ess}. An interval from so few
events is not reliable. A log that explores is worth more than any estimator.]],
      claim = {"told.ess < 0.5 * e.ess"},
    },
  },
  exercises = {
    {
      text = [[
The weight of an event in clipped IPS: the policy gives the action pi_a, the log gave it p.]],
      code = [[
function clipped_weight(pi_a, p, tau)
  return ___
end]],
      answer = "pi_a / math.max(tau, p)",
      claim = {"math.abs(clipped_weight(0.5, 0.1, 0.01) - 5) < 1e-9",
               "math.abs(clipped_weight(0.5, 0.001, 0.01) - 50) < 1e-9"},
      hint = "A propensity below tau counts as tau.",
      after = "No weight is above 1 / tau.",
    },
    {
      text = [[
What an event adds to DR: the model expects `expects` of the policy in this context, and `model` of
the action that was shown. The event has the weight w and the reward r.]],
      code = [[
function dr_term(expects, model, w, r)
  return ___
end]],
      answer = "expects + w * (r - model)",
      claim = {"dr_term(0.3, 0.2, 5, 0.2) == 0.3",
               "math.abs(dr_term(0.3, 0.2, 2, 1) - 1.9) < 1e-9"},
      hint = "A model that is right about the action needs no correction.",
      after = "The weights multiply the model's errors alone.",
    },
  },
  try = {
    "fopo.ope(pi, thin, {clip = 0.005, model = \"ridge\"})    -- all of them",
    "truth:value(pi, {how = \"argmax\"})   -- always the best item instead",
    "rw = fopo.reward.doubly_robust{logs = thin, clip = 0.005}  -- to learn",
    "learner = fopo.policy.linear{items = thin:items()}",
    "t = fopo.trainer{policy = learner, data = thin, reward = rw, gradient =",
    "                 fopo.gradient.exact{}, optim = fopo.optim.adam{lr = 0.05}}",
    "t:run{steps = 200, view = false}",
    "truth:value(learner)",
  },
}
