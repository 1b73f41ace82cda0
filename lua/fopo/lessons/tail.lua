-- Lesson 9: the default estimator, which enumerates a head of items and samples the others.
return {
  name = "tail", title = "Head and tail", minutes = 5,
  about = "The default estimator and its noise",
  source = [["The Proposed Method" (the covariance gradient); head and tail is ours]],
  sizes = {users = {6000, 1500}, items = {20000, 5000}, steps = {300, 200}, repeats = {40, 20}},
  steps = {
    {
      title = "Where the mass is",
      text = [[
An embedding has a few items of large norm and many of small norm. A score h . beta is at most
|h| |beta|, so the items of large norm are those that can have much of the policy's mass, whatever
the context is. Sort the items by norm, and add up the policy's mass from the top: before it has
learnt, and after $steps steps.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = $items,
                        clusters = 60}
s = d:sessions{min_items = 20, test = 0.3}
beta = fopo.embed.svd(s.train, {dim = 16})
hits = fopo.reward.hits(s.train)
pick = s.train:batch{size = 32, step = 0}
x = s.train:contexts(beta)
function new()
  return fopo.policy.linear{items = beta, preset = "paper"}
end
function learn(g)
  local t = fopo.trainer{policy = new(), data = s.train,
    gradient = g, optim = fopo.optim.adam{lr = 5e-2},
    valid = false}
  return t:run{steps = $steps, view = false}
end
function mass_of(pi, H)
  local g = fopo.gradient.head_tail{head = H, tail = 16}
  local _, stats = g:compute(pi, x, pick, hits)
  return stats.head_mass
end
early = new()
late = learn(fopo.gradient.head_tail{}).policy
sizes, flat, sharp = {16, 64, 256, 1024, 4096}, {}, {}
for i, H in ipairs(sizes) do
  flat[i], sharp[i] = mass_of(early, H), mass_of(late, H)
end
fopo.plot{{x = sizes, y = sharp, name = "after learning"},
          {x = sizes, y = flat, name = "before"},
          logx = true, height = 9, xlabel = "H",
          ylabel = "mass"}]],
      ask = {
        question = [[
The 256 largest of $items norms are {%.1f|25600 / $items} % of the items. What share of the mass, 0
to 1, have they after learning?]],
        answer = "sharp[3]", factor = 1.4, format = "%.2f",
      },
      after = [[
{%.2f|sharp[3]}, and {%.2f|flat[3]} before. So a head for all contexts needs no search: it is the
same H items, whose rows lie together.]],
      claim = {"sharp[3] > 0.5", "flat[3] < 0.2", "sharp[5] > sharp[1]"},
    },
    {
      title = "The head in full",
      text = [[
Head and tail takes the H items as they are and draws U of the M = P - H others, each of which
stands for M / U of them:

    w = exp f                in the head
    w = M / U exp f          in the tail
    v = sum_s wbar_s (r_s - rbar) beta_s

That is SNIS, but nothing is left to chance in the head. What is the error of one estimate, as a
share of the exact gradient? SNIS has 500 draws here, head and tail H = 256 and U = 64.]],
      code = [[
function judge(g, pi)
  local exact = fopo.gradient.exact{}
  exact = exact:compute(pi, x, pick, hits)
  local sum = 0
  for i = 1, $repeats do
    local G = g:compute(pi, x, pick, hits, {step = i})
    sum = sum + G:add(exact, -1):norm() ^ 2
  end
  return math.sqrt(sum / $repeats) / exact:norm()
end
ix = fopo.index.norm(beta)
mix = fopo.proposal.mixture{index = ix, k = 256}
names = {"uniform", "mixture", "head and tail"}
three = {fopo.gradient.snis{samples = 500},
         fopo.gradient.snis{samples = 500, proposal = mix},
         fopo.gradient.head_tail{head = 256, tail = 64}}
off = {}
for i, g in ipairs(three) do off[i] = judge(g, late) end
fopo.plot.bars(off, names, {title = "error, after learning"})]],
      ask = {
        question = "Which one is nearest to the exact gradient?",
        choices = {"SNIS with uniform draws", "SNIS with the mixture", "head and tail"},
        answer = "off[3] < math.min(off[1], off[2]) and 3 or off[2] < off[1] and 2 or 1",
      },
      after = [[
Head and tail, with an error of {%.3f|off[3]}; the mixture has {%.3f|off[2]}, uniform draws
{%.2f|off[1]}. The mixture draws its candidates again and again, which tells nothing new.]],
      claim = {"off[3] < 0.5 * off[2]", "off[2] < off[1]"},
    },
    {
      title = "Before it has learnt",
      text = [[
Before learning the head holds {%.2f|flat[3]} of the mass. So nearly all of it is left to the draws
of the tail, and one would expect the noise of uniform draws.]],
      code = [[
off_early = {}
for i, g in ipairs(three) do off_early[i] = judge(g, early) end
fopo.plot.bars({{y = off_early, name = "before"},
                {y = off, name = "after"}}, names)]],
      ask = {
        question = "Where is the error of head and tail, before learning?",
        choices = {"as large as that of uniform draws", "half of it", "less than a tenth of it"},
        answer = "off_early[3] > 0.75 * off_early[1] and 1 or "
                 .. "off_early[3] > 0.1 * off_early[1] and 2 or 3",
      },
      after = [[
{%.3f|off_early[3]}, against {%.2f|off_early[1]}. The reward is 0 but for the few items of Y, and
whether one of them is drawn at all was most of the noise. With a head for all contexts, head and
tail takes the items of Y in full, too; draws are there for Z alone, and Z is a sum of many like
terms.]],
      claim = {"off_early[3] < 0.1 * off_early[1]"},
    },
    {
      title = "More draws, or a larger head",
      text = [[
Here is the error after learning as U grows, with H = 256 and with H = 1024.]],
      code = [[
draws, small, large = {4, 16, 64, 256, 1024}, {}, {}
for i, U in ipairs(draws) do
  small[i] = judge(fopo.gradient.head_tail{head = 256,
                                           tail = U}, late)
  large[i] = judge(fopo.gradient.head_tail{head = 1024,
                                           tail = U}, late)
end
all = judge(fopo.gradient.head_tail{head = 256,
                                    tail = $items - 256}, late)
fopo.plot{{x = draws, y = small, name = "H = 256"},
          {x = draws, y = large, name = "H = 1024"},
          logx = true, logy = true, height = 7,
          xlabel = "U", ylabel = "error"}]],
      ask = {
        question = [[
From H = 256 and U = 16 on: which helps more, a head four times as large, or sixteen times the
draws?]],
        choices = {"the larger head", "more draws", "both do the same"},
        answer = "large[2] < 0.8 * small[4] and 1 or large[2] > 1.25 * small[4] and 2 or 3",
      },
      after = [[
The head: it divides the error by {%.0f|small[2] / large[2]}, the draws by
{%.1f|small[2] / small[4]}. What is left of the mass behind the 256 lies in the next few hundred
items, and a draw seldom meets them. Only with U = M is no error left ({%.0e|all}): one item is
drawn in each of U equal strips of the tail, so that each is taken once.]],
      claim = {"large[2] < 0.5 * small[4]", "all < 1e-3 * small[2]", "all < 1e-4"},
    },
    {
      title = "The default",
      text = [[
With head = "auto", the default of a trainer, H follows from the mass as the policy learns. Learn
from the same start with it and with 500 uniform draws a context.]],
      code = [[
default = learn(fopo.gradient.head_tail{})
by_draws = learn(three[1])
h = default.history
fopo.plot{{x = h.step, y = h.head_mass, name = "head_mass"},
          height = 6, xlabel = "step"}
earned = {fopo.evaluate(default.policy, s.test).reward,
          fopo.evaluate(by_draws.policy, s.test).reward}
fopo.plot.bars(earned, {"head and tail", "uniform"},
               {title = "reward on the test"})]],
      ask = {
        question = "What share of the mass, 0 to 1, does its head hold in the end?",
        answer = "h.head_mass[#h.head_mass]", factor = 1.2, format = "%.2f",
      },
      after = [[
{%.2f|h.head_mass[#h.head_mass]}, from {%.2f|h.head_mass[1]} in the first record. (Uniform draws
learn, too: noise averages out over many steps.) Look at this column of a run. A head that holds
little is a policy that is still flat, or an embedding whose norms tell nothing.]],
      claim = {"earned[1] > 0.9 * earned[2]", "h.head_mass[#h.head_mass] > 0.5",
               "h.head_mass[#h.head_mass] > h.head_mass[1]"},
    },
  },
  exercises = {
    {
      text = [[
P items, H of them in the head, U draws in the tail. What is the weight of a draw of the tail with
score f?]],
      code = [[
function tail_weight(f, P, H, U)
  return ___
end]],
      answer = "(P - H) / U * math.exp(f)",
      claim = {"tail_weight(0, 1000, 200, 80) == 10",
               "math.abs(tail_weight(1, 20, 10, 10) - math.exp(1)) < 1e-9"},
      hint = "A draw stands for M / U items, and M = P - H.",
      after = "If all of the tail is drawn, a draw stands for itself.",
    },
    {
      text = [[
Choose H yourself: with 16 draws in the tail, the policy that has learnt should be estimated with an
error below 0.01. Half of the items are too many.]],
      code = [[
H = ___
mine_off = judge(fopo.gradient.head_tail{head = H, tail = 16},
                 late)]],
      answer = "2000",
      claim = {"H <= $items / 2", "mine_off < 0.01"},
      hint = "The error was {%.3f|mine_off} with H = {%d|H // 1}, of $items items.",
      after = "H = {%d|H // 1} holds {%.2f|mass_of(late, H // 1)} of the mass.",
    },
  },
  try = {
    "default.gradient",
    "explain(default)",
    "judge(fopo.gradient.head_tail{index = ix, k = 256}, early)  -- why so much?",
    "help\"gradient.head_tail\"",
  },
}
