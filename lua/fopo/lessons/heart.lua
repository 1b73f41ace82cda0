-- Lesson 8: three ways in which a policy learns its training sessions by heart, and what tells.
return {
  name = "heart", title = "Learnt by heart", minutes = 6,
  about = "No mask, the same X and Y in every pass, a start that knows its users: what tells",
  source = [["Experimental Results" (X and Y of a session); the mask and the rest are ours]],
  sizes = {users = {2500, 2000}, passes = {20, 10}},
  steps = {
    {
      title = "What is served",
      text = [[
A session is divided at random into X, which the policy sees, and Y, which it should find. Users are
not shown what they have already taken, so a policy is judged without the items of X, unless exclude
= "none". Here are sessions of some twenty items, a policy that nobody has trained, and item-kNN,
which is what one would try first.]],
      code = [[
d = fopo.data.synthetic{users = $users, items = 3000, clusters = 60,
                        tastes = 3, mean_items = 20, noise = 0.1}
s = d:sessions{min_items = 10, valid = 0.3, test = 0.2}
beta = fopo.embed.svd(s.train, {dim = 32})
function served(who, part)
  local o = {k = 1, expected = false}
  return fopo.evaluate(who, part or s.valid, o).reward
end
start = fopo.policy.linear{items = beta, seen = "keep"}
plain = fopo.evaluate(start, s.valid, {k = 1, exclude = "none"})
before = served(start)
knn = served(fopo.baseline.item_knn{data = s.train})
fopo.plot.bars({plain.reward, before, knn},
               {"all items", "without X", "item-kNN, without X"},
               {title = "reward on validation"})]],
      ask = {
        question = [[
For which share of the users, between 0 and 1, is the best item of the whole catalogue one that they
have already?]],
        answer = "plain.seen[1]", factor = 1.3, format = "%.2f",
      },
      after = [[
For {%.0f|100 * plain.seen[1]} % of them: what fits a user best is what was taken. Such an item is
not in Y, so it counts as a miss. Without the items of X the same policy earns {%.3f|before} instead
of {%.3f|plain.reward}.]],
      claim = {"plain.seen[1] > 0.2", "before > 1.3 * plain.reward"},
    },
    {
      title = "No mask",
      text = [[
The first fault: train with the items of X among the others (seen = "keep"), serve without them.
With a mask, the default, they have no probability in training either. Both runs are validated as
they are served, once a pass, and keep what they end with.]],
      code = [[
function learn(pi, optim, resplit)
  local t = fopo.trainer{policy = pi, data = s.train,
                         optim = optim, resplit = resplit}
  t:run{epochs = $passes, every = t.steps_per_epoch, keep_best = false,
        view = false}
  return t.history
end
function linear(seen)
  local pi = fopo.policy.linear{items = beta, seen = seen}
  return learn(pi, fopo.optim.adam{lr = 3e-2})
end
no_mask, masked = linear("keep"), linear("mask")
n = #masked.valid
fopo.plot{{y = masked.valid, name = "mask"},
          {y = no_mask.valid, name = "no mask"},
          height = 9, xlabel = "pass", ylabel = "served"}]],
      ask = {
        question = "The start is served at {%.3f|before}. Where does the run without a mask end?",
        choices = {"above its start", "below its start"},
        answer = "no_mask.valid[n] > before and 1 or 2",
      },
      after = [[
At {%.3f|no_mask.valid[n]}, with a mask at {%.3f|masked.valid[n]}. The reward of training rises in
both. Without a mask it rises because the policy unlearns to show X: it moves away from what users
like, and that is lost where X is left out anyway.]],
      claim = {"no_mask.valid[n] < before - 0.02", "masked.valid[n] > no_mask.valid[n] + 0.03",
               "no_mask.reward[n] > no_mask.reward[1]"},
    },
    {
      title = "The same halves in every pass",
      text = [[
The second fault: X and Y are the same halves of a session in every pass (resplit = false). Else a
trainer divides each session anew in every pass, so that no Y can be learnt by heart. This policy
learns its items too: {%,d|beta.rows * beta.cols} numbers, room enough to learn by heart. The mask
is there in both runs.]],
      code = [[
function with_items(resplit)
  local pi = fopo.policy.linear{items = beta, seen = "mask",
                                train_items = true}
  return learn(pi, fopo.optim.adam{lr = 1e-2}, resplit)
end
anew, same = with_items(true), with_items(false)
function gap(h) return h.reward[n] - h.valid[n] end
fopo.plot{{y = anew.reward, name = "training, anew"},
          {y = same.reward, name = "training, same"},
          {y = anew.valid, name = "validation, anew"},
          {y = same.valid, name = "validation, same"}, height = 11,
          xlabel = "pass"}]],
      ask = {
        question = "Which of the two ends with the higher reward in training?",
        choices = {"the one whose sessions are divided anew", "the one whose halves stay"},
        answer = "anew.reward[n] > same.reward[n] and 1 or 2",
      },
      after = [[
The halves that stay: {%.3f|same.reward[n]} against {%.3f|anew.reward[n]}. On validation it is the
other way round, {%.3f|same.valid[n]} against {%.3f|anew.valid[n]}. The gap between training and
validation is {%.2f|gap(same)} instead of {%.2f|gap(anew)}: that much more was learnt by heart.
(Some gap is left, because the items were embedded from the same sessions.)]],
      claim = {"same.reward[n] > anew.reward[n] + 0.03", "same.valid[n] < anew.valid[n]",
               "gap(same) > gap(anew) + 0.05"},
    },
    {
      title = "A start that knows its users",
      text = [[
The third fault is the most expensive one. A policy of neighbours has weights between items, here
similarities counted from the training sessions, and learns three scalars. Two items of one session
are similar already because this session was counted. So training has to see the weights that are
left without the user at hand; held = 0 switches that off. What is served has the same weights in
both.]],
      code = [[
function by_neighbours(held)
  local pi = fopo.policy.neighbours{data = s.train, start = "cosine",
                                    held = held}
  return pi, learn(pi, fopo.optim.adagrad{lr = 0.05})
end
fitted, left_out = by_neighbours(2000)
knows, known = by_neighbours(0)
fopo.plot{{y = left_out.reward, name = "training, left out"},
          {y = known.reward, name = "training, held = 0"},
          {y = left_out.valid, name = "validation, left out"},
          {y = known.valid, name = "validation, held = 0"}, height = 11,
          xlabel = "pass"}]],
      ask = {
        question = [[
Both start as item-kNN, at {%.3f|knn} on validation. Where does the one whose start knows its users
end there?]],
        answer = "known.valid[n]", factor = 1.25, format = "%.2f",
      },
      after = [[
At {%.3f|known.valid[n]}, while its training reward says {%.2f|known.reward[n]}; the other
one goes from {%.3f|knn} to {%.3f|left_out.valid[n]}. Rare items are those whose similarity owes
most to the user at hand, so the scalars learn to trust rare items: c1 is
{%.2f|knows:parameters().c1:get(1, 1)} instead of {%.2f|fitted:parameters().c1:get(1, 1)}. The sign
of the fault is a gap that is there before anything was learnt.]],
      claim = {"known.reward[1] > left_out.reward[1] + 0.1", "known.valid[n] < knn - 0.1",
               "left_out.valid[n] > knn",
               "knows:parameters().c1:get(1, 1) < fitted:parameters().c1:get(1, 1)"},
    },
    {
      title = "Three faults, one habit",
      text = [[
Here is every run: the gap between its last reward in training and the one on validation, and how
far validation has come from the start.]],
      code = [[
runs = {{"no mask", no_mask, before}, {"mask", masked, before},
        {"same halves", same, before}, {"halves anew", anew, before},
        {"knows its users", known, knn}, {"user left out", left_out, knn}}
gaps, gains, names = {}, {}, {}
for i, run in ipairs(runs) do
  local h = run[2]
  names[i], gaps[i], gains[i] = run[1], gap(h), h.valid[n] - run[3]
end
fopo.plot.bars({{y = gaps, name = "gap"},
                {y = gains, name = "from the start"}}, names)
earned = served(fitted, s.test)
tried = served(fopo.baseline.item_knn{data = s.train}, s.test)]],
      ask = {
        question = "Which fault does the gap not show?",
        choices = {"no mask", "the same halves", "a start that knows its users"},
        answer = "gaps[1] < gaps[2] and 1 or gaps[3] < gaps[4] and 2 or 3",
      },
      after = [[
Without a mask training is the harder task, so the gap is even smaller; only the validation as one
serves, beside that of the start, tells. So look at both. fopo.trainer does: it validates before the
first step, ends with the best parameters (keep_best, which was off here), and says so if these are
those of the start. On the test part, which was not touched so far, the policy that left its users
out earns {%.3f|earned} and item-kNN {%.3f|tried}.]],
      claim = {"gaps[1] < gaps[2]", "gaps[3] > gaps[4]", "gaps[5] > gaps[6] + 0.2",
               "gains[6] > 0", "earned > tried"},
    },
  },
  exercises = {
    {
      text = [[
The sign of the third fault: the gap between training and validation before anything was learnt. h
is a history, as `known` and left_out.]],
      code = [[
function first_gap(h)
  return ___
end]],
      answer = "h.reward[1] - h.valid[1]",
      claim = {"first_gap{reward = {0.5, 0}, valid = {0.25, 0}} == 0.25",
               "first_gap(known) > first_gap(left_out)"},
      hint = "h.reward[1] is the first record's reward in training.",
      after = "{%.3f|first_gap(known)}, and {%.3f|first_gap(left_out)} where the user is left out.",
    },
    {
      text = [[
keep_best: which record's parameters does a run end with, given its rewards on validation?]],
      code = [[
function kept_record(valid)
  local best = 1
  for i = 2, #valid do
    if ___ then best = i end
  end
  return best
end]],
      answer = "valid[i] > valid[best]",
      claim = {"kept_record{0.1, 0.3, 0.2} == 2", "kept_record{0.4, 0.3, 0.2} == 1",
               "kept_record{0.1, 0.3, 0.2, 0.5} == 4"},
      hint = "The best so far is valid[best].",
      after = [[
Without a mask it would have kept record {%d|kept_record(no_mask.valid)} of {%d|n}.]],
    },
  },
  try = {
    "pi = fopo.policy.linear{items = beta, seen = \"keep\"}",
    "t = fopo.trainer{policy = pi, data = s.train, exclude = \"seen\"}",
    "t:run{epochs = 5, view = false} -- with keep_best: what does it say?",
    "fitted:recommend({items = {3, 14}}, 5)",
    "help\"policy.neighbours\"",
  },
}
