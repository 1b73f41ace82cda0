-- Lesson 1: the gradient of a policy over ten arms, exact and by two estimators.
return {
  name = "arms", title = "Ten arms", minutes = 5,
  about = "The exact gradient, REINFORCE and SNIS side by side: their draws, bias and noise",
  source = [["Optimizing the Objective" and "The Proposed Method"]],
  sizes = {repeats = {1000, 300}, most = {320, 80}, steps = {150, 100}},
  steps = {
    {
      title = "A policy",
      text = [[
At each turn a policy shows one of ten arms. Arm a has a score f_a, is shown with probability
pi(a), and then pays r_a. On average the policy earns R:

    pi(a) = exp f_a / Z,    Z = sum_b exp f_b,    R = sum_a pi(a) r_a

Learning changes the scores so that R grows. Here the scores are themselves the parameters theta:
the context x is the number 1, and the items are the ten unit vectors.]],
      code = [[
pays   = {0.10, 0.25, 0.15, 0.40, 0.30, 0.20, 0.95, 0.35, 0.60, 0.05}
scores = {1.5, 1.0, 0.5, 1.2, 0.0, 0.8, -0.5, 0.3, 0.2, 1.8}
unit = fopo.array.zeros(10, 10)
for a = 1, 10 do unit:set(a, a, 1) end
theta = fopo.array.from{scores}
pi = fopo.policy.linear{items = unit, theta = theta, context_dim = 1}
x = fopo.array.from{{1}}

Z, earned, blind, prob = 0, 0, 0, {}
for a = 1, 10 do Z = Z + math.exp(scores[a]) end
for a = 1, 10 do
  prob[a] = math.exp(scores[a]) / Z
  earned, blind = earned + prob[a] * pays[a], blind + pays[a] / 10
end
fopo.plot.bars({{y = prob, name = "pi(a)"}, {y = pays, name = "r_a"}})]],
      ask = {
        question = "Does this policy earn more than one that shows all arms equally often?",
        choices = {"more", "less"}, answer = "earned > blind and 1 or 2",
      },
      after = [[
It earns R = {%.3f|earned}; showing all arms equally often earns {%.3f|blind}. The policy prefers
arm 10, which pays least, and shows arm 7, which pays most, in {%.1f|100 * prob[7]} % of the
cases.]],
      claim = {"earned < blind"},
    },
    {
      title = "The exact gradient",
      text = [[
How does R change when score f_a grows a little? With ten arms the answer is a short sum:

    dR / df_a = pi(a) (r_a - R)

the covariance of the reward with the score (the paper, "The Proposed Method").]],
      code = [[
pay = fopo.reward.custom(function(ids) -- the arms drawn, to what they pay
  local row = {}
  for s = 1, ids.cols do row[s] = pays[ids:get(1, s)] end
  return {row}
end)
exact = fopo.gradient.exact{}:compute(pi, x, nil, pay)
most = 1
for a = 2, 10 do
  if exact:get(1, a) > exact:get(1, most) then most = a end
end
fopo.plot.bars(exact)]],
      ask = {
        question = "Which arm's score does the gradient raise most?",
        choices = {"arm 10, which is shown most often", "arm 7, which pays most",
                   "arm 4, which is shown often and pays {%.2f|pays[4]}"},
        answer = "({[10] = 1, [7] = 2, [4] = 3})[most]",
      },
      after = [[
The gradient is what an arm pays beyond R = {%.3f|earned}, times how often it is shown. Arm 7 pays
most but is hardly ever shown, so its score moves only by {%.3f|exact:get(1, 7)}; that of arm 4
moves by {%.3f|exact:get(1, 4)}. The ten numbers sum to 0: raising all scores alike changes
nothing.]],
      claim = {"most == 4", "math.abs(exact:sum()) < 1e-6",
               "math.abs(exact:get(1, 7) - prob[7] * (pays[7] - earned)) < 1e-6"},
    },
    {
      title = "REINFORCE",
      text = [[
With a million arms that sum is too long. REINFORCE draws S arms from the policy and takes the mean
of r_s (e_s - pi), where e_s is 1 at the arm that was drawn and 0 elsewhere. Here are two estimates
from 20 draws each, beside the exact gradient.]],
      code = [[
function estimate(g, step)
  return g:compute(pi, x, nil, pay, {seed = 1, step = step})
end
reinforce = fopo.gradient.reinforce{samples = 20}
one, two = estimate(reinforce, 1), estimate(reinforce, 2)
wrong = 0
for a = 1, 10 do
  if one:get(1, a) * exact:get(1, a) < 0 then wrong = wrong + 1 end
end
fopo.plot.bars({{y = exact, name = "exact"}, {y = one, name = "REINFORCE"},
                {y = two, name = "again"}})]],
      ask = {
        question = "In how many of the ten arms will the first estimate have the wrong sign?",
        answer = "wrong", factor = 1.5, format = "%d",
      },
      after = [[
An estimate is right on average, but a single one is mostly noise. And nothing is saved yet: a draw
from pi needs Z, a sum over all arms.]],
      claim = {"wrong > 0"},
    },
    {
      title = "SNIS",
      text = [[
Self-normalised importance sampling draws from another distribution q, which is cheap. Here q shows
all arms equally often. Weights correct for the difference between pi and q:

    w_s = exp f_s / q_s,    wbar_s = w_s / sum w,    rbar = sum_s wbar_s r_s
    gradient = sum_s wbar_s (r_s - rbar) e_s

Only the scores of the arms that were drawn are needed, never Z: the weights are divided by their
own sum (the paper, Algorithm 1).]],
      code = [[
snis = fopo.gradient.snis{samples = 20, proposal = fopo.proposal.uniform()}
weighted, stats = estimate(snis, 1)
fopo.plot.bars({{y = exact, name = "exact"}, {y = one, name = "REINFORCE"},
                {y = weighted, name = "SNIS"}})]],
      ask = {
        question = [[
Some of the 20 weights are large, others hardly count. How many draws from pi itself would be as
good? (the effective sample size, (sum w)^2 / sum w^2)]],
        answer = "stats.ess", factor = 1.3, format = "%.1f",
      },
      after = [[
20 uniform draws are worth {%.1f|stats.ess} draws from the policy. That is the price of not knowing
Z. The more pi differs from q, the higher it is: lesson 2 is about that.]],
      claim = {"stats.ess > 1 and stats.ess < 20"},
    },
    {
      title = "Again and again",
      text = [[
One estimate shows only luck. So take each estimator $repeats times, with different draws each
time. The distance of their mean from the exact gradient is the bias; the typical distance of one
estimate is its error. "REINFORCE, mean" first subtracts the mean reward of the draws.]],
      code = [[
function judge(g, n)
  local mean, squares = fopo.array.zeros(1, 10), 0
  for i = 1, n do
    local e = estimate(g, i)
    mean:add(e, 1 / n)
    squares = squares + e:add(exact, -1):norm() ^ 2 / n
  end
  return {bias = mean:add(exact, -1):norm(), error = math.sqrt(squares)}
end
centred = fopo.gradient.reinforce{samples = 20, baseline = "mean"}
plain, with_mean = judge(reinforce, $repeats), judge(centred, $repeats)
snis_20 = judge(snis, $repeats)
off = {plain.error, with_mean.error, snis_20.error}
bias = {plain.bias, with_mean.bias, snis_20.bias}
fopo.plot.bars({{y = off, name = "error"}, {y = bias, name = "bias"}},
               {"REINFORCE", "REINFORCE, mean", "SNIS"})]],
      ask = {
        question = "Which one has the largest error?",
        choices = {"REINFORCE", "REINFORCE with the mean subtracted",
                   "SNIS, which draws uniformly"},
        answer = "plain.error > math.max(with_mean.error, snis_20.error) and 1 or "
                 .. "with_mean.error > snis_20.error and 2 or 3",
      },
      after = [[
Subtracting the mean reward costs nothing and divides the error of REINFORCE by
{%.1f|plain.error / with_mean.error}. SNIS subtracts it anyway. But the mean of SNIS is off by
{%.4f|snis_20.bias}, {%.0f|snis_20.bias / (snis_20.error / $repeats ^ 0.5)} times what chance
explains: weights that are divided by their own sum make a bias.]],
      claim = {"plain.error > with_mean.error and plain.error > snis_20.error",
               "snis_20.bias > 3 * snis_20.error / $repeats ^ 0.5",
               "plain.bias < 5 * plain.error / $repeats ^ 0.5"},
    },
    {
      title = "More draws",
      text = [[
The bias and the error of SNIS shrink with more draws, but not equally fast. Both axes are
logarithmic, so a power of S is a straight line.]],
      code = [[
S, errors, biases = {}, {}, {}
n = 5
while n <= $most do
  local j = judge(fopo.gradient.snis{samples = n}, $repeats)
  S[#S + 1], errors[#S + 1], biases[#S + 1] = n, j.error, j.bias
  n = n * 4
end
ratio, bias_ratio = errors[1] / errors[2], biases[1] / biases[2]
fopo.plot{{x = S, y = errors, name = "error"},
          {x = S, y = biases, name = "bias"},
          logx = true, logy = true, height = 10, xlabel = "S"}]],
      ask = {
        question = "With four times as many draws, what is left of the error of an estimate?",
        choices = {"half of it", "a quarter of it", "a sixteenth of it"},
        answer = "ratio < 2.8 and 1 or ratio < 8 and 2 or 3",
      },
      after = [[
From S = {%d|S[1]} to {%d|S[2]} the error was divided by {%.1f|ratio} (it goes with 1 / sqrt S) and
the bias by {%.1f|bias_ratio} (it goes with 1 / S). So with many draws the bias is the smaller
worry: at S = {%d|S[#S]} it is {%.0f|100 * biases[#S] / errors[#S]} % of the error.]],
      claim = {"ratio > 1.6 and ratio < 2.5", "bias_ratio > 2.5",
               "biases[#S] / errors[#S] < biases[1] / errors[1]"},
    },
    {
      title = "Learning",
      text = [[
Does it matter? Follow each gradient for $steps steps, from the same start, with 20 draws a step,
and see what the policy earns.]],
      code = [[
function learn(g)
  local start, R = fopo.array.from{scores}, {}
  local pi = fopo.policy.linear{items = unit, theta = start, context_dim = 1}
  local o, truth = fopo.optim.sgd{lr = 2}, fopo.gradient.exact{}
  for step = 1, $steps do
    local G = g:compute(pi, x, nil, pay, {seed = 1, step = step})
    o:step(pi, G)
    R[step] = select(2, truth:compute(pi, x, nil, pay)).reward
  end
  return R
end
climb = learn(fopo.gradient.exact{})
by_reinforce, by_snis = learn(reinforce), learn(snis)
fopo.plot{{y = climb, name = "exact"},
          {y = by_reinforce, name = "REINFORCE"},
          {y = by_snis, name = "SNIS"}, height = 10, ylabel = "R"}]],
      ask = {
        question = "Where does SNIS end, with its bias?",
        choices = {"clearly below the exact gradient", "about as high as the exact gradient"},
        answer = "by_snis[#by_snis] < climb[#climb] - 0.05 and 1 or 2",
      },
      after = [[
From {%.3f|earned}, the exact gradient climbs to {%.3f|climb[#climb]}, REINFORCE to
{%.3f|by_reinforce[#by_reinforce]}, SNIS to {%.3f|by_snis[#by_snis]}. The noise averages out over
many steps, and the bias is small. What remains is the cost of a step: REINFORCE reads all arms,
SNIS {%d|snis.samples}, whatever their number. Lesson 3 measures that.]],
      claim = {"climb[#climb] > earned + 0.2", "by_snis[#by_snis] > earned + 0.2",
               "by_reinforce[#by_reinforce] > earned + 0.2"},
    },
  },
  exercises = {
    {
      text = [[
The gradient of step 2 from the numbers of step 1: how fast does R change with the score of arm
a?]],
      code = [[
function slope(a)
  return ___
end]],
      answer = "prob[a] * (pays[a] - earned)",
      claim = {"math.abs(slope(7) - exact:get(1, 7)) < 1e-6",
               "math.abs(slope(10) - exact:get(1, 10)) < 1e-6"},
      hint = "How often the arm is shown, prob[a], counts, and what it pays beyond R, earned.",
      after = "An arm that pays less than {%.3f|earned} is lowered.",
    },
    {
      text = [[
A draw from q has the score f and was drawn with probability q. What is its weight in SNIS?]],
      code = [[
function weight(f, q)
  return ___
end]],
      answer = "math.exp(f) / q",
      claim = {"math.abs(weight(0, 0.1) - 10) < 1e-9",
               "math.abs(weight(1, 0.5) - 2 * math.exp(1)) < 1e-9"},
      hint = "Half as likely in q is twice the weight, and Z is not needed.",
      after = "Were q = pi, all weights would be Z: equal.",
    },
  },
  try = {
    "scores[7] = -1            -- arm 7 is shown even less in the beginning:",
    "climb, by_snis = learn(fopo.gradient.exact{}), learn(snis)  -- who is stuck?",
    "fopo.plot{{y = climb, name = \"exact\"}, {y = by_snis, name = \"SNIS\"}}",
    "judge(fopo.gradient.snis{samples = 500}, 200)",
    "help(gradient.snis)",
  },
}
