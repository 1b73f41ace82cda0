-- Lesson 11: policies over lists of items, by perturbed queries and by Plackett and Luce.
return {
  name = "slates", title = "Lists of items", minutes = 6,
  about = "Perturbed queries beside Plackett-Luce",
  source = [[what followed it: Sakhi, Rohde and Chopin, TMLR 2023]],
  sizes = {users = {3000, 1200}, steps = {150, 80}, repeats = {20, 10}},
  steps = {
    {
      title = "The list is what is shown",
      text = [[
A page shows k items, not one. What it earns is a number of the whole list: whether any item of it
is in Y (hit), how many are (sum), or a sum in which later places count for less (dcg, ndcg). The k
best items of a policy are a list; here k = 5. (The temperature is low, as of a policy that has
learnt for long.)]],
      code = [[
d = fopo.data.synthetic{users = $users, items = 2000,
                        clusters = 40, tastes = 3}
s = d:sessions{min_items = 12, test = 0.3}
beta = fopo.embed.svd(s.train, {dim = 16})
hits = fopo.reward.hits(s.train)
pick = s.train:batch{size = 32, step = 0}
function new(T)
  return fopo.policy.linear{items = beta, theta = "identity",
    contexts = "unit", temperature = T or "auto"}
end
function perturbed(k, measure, sigma)
  return fopo.gradient.slate{k = k, samples = 20,
    sigma = sigma or 0.1, measure = measure}
end
pi = new(0.15)
one = fopo.evaluate(pi, s.test, {k = 1, slate = perturbed(1)})
five = fopo.evaluate(pi, s.test, {k = 1, slate = perturbed(5)})
fopo.plot.bars({one.slate.reward, five.slate.reward},
               {"first item", "any of five"},
               {title = "share of the users with a hit"})]],
      ask = {
        question = [[
The first item alone is in Y for about half of the users. For which share, between 0 and 1, is any
of the first five?]],
        answer = "five.slate.reward", factor = 1.2, format = "%.2f",
      },
      after = [[
{%.2f|five.slate.reward}, and {%.2f|one.slate.reward} for the first alone: less than five times as
much, because the five are alike. A reward of a list is not a sum over what its items earn alone.]],
      claim = {"five.slate.reward > one.slate.reward", "five.slate.reward < 5 * one.slate.reward"},
    },
    {
      title = "Two policies over lists",
      text = [[
To learn, lists must vary. Plackett and Luce draw the first item from pi, the second from pi without
the first, and so on; the gradient is that of the log-probability of the list. The other way is to
perturb the query, and to take the k best:

    list = k best of (h(x) + sigma e) . beta,   e normal
    gradient = mean of (R - mean R) e / sigma,  through h

There is no sum over items in it, and no probability of a list. How noisy are the two? For lists of
two: the spread of one estimate from 20 lists a context, over the size of the mean one.]],
      code = [[
function luce(k, measure)
  return fopo.gradient.plackett_luce{k = k, samples = 20,
                                     measure = measure}
end
function noise(g)
  local list, mean = {}, nil
  for i = 1, $repeats do
    list[i] = g:compute(pi, s.train, pick, hits, {step = i})
    mean = mean or list[i]:copy():scale(0)
    mean:add(list[i], 1 / $repeats)
  end
  local sum = 0
  for _, G in ipairs(list) do
    sum = sum + G:add(mean, -1):norm() ^ 2
  end
  return math.sqrt(sum / $repeats) / mean:norm()
end
ks, by_e, by_pl = {2, 5, 10, 20, 40}, {}, {}
by_e[1], by_pl[1] = noise(perturbed(2, "sum")),
                    noise(luce(2, "sum"))
fopo.plot.bars({by_e[1], by_pl[1]},
               {"perturbed", "Plackett-Luce"},
               {title = "noise at k = 2"})]],
      ask = {
        question = "Which one is noisier for lists of two?",
        choices = {"perturbed queries", "Plackett-Luce"},
        answer = "by_e[1] > by_pl[1] and 1 or 2",
      },
      after = [[
Perturbed queries, {%.2f|by_e[1]} against {%.2f|by_pl[1]}: their noise goes with the {%d|beta.cols}
numbers of a query, all of which are perturbed.]],
      claim = {"by_e[1] > by_pl[1]"},
    },
    {
      title = "Longer lists",
      text = [[
The log-probability of a list is a sum over its k places. Now k = 5, 10, 20 and 40.]],
      code = [[
for i = 2, #ks do
  by_e[i] = noise(perturbed(ks[i], "sum"))
  by_pl[i] = noise(luce(ks[i], "sum"))
end
fopo.plot{{x = ks, y = by_e, name = "perturbed"},
          {x = ks, y = by_pl, name = "Plackett-Luce"},
          logx = true, height = 7, xlabel = "k",
          ylabel = "noise"}]],
      ask = {
        question = "And for lists of 40?",
        choices = {"perturbed queries are noisier", "Plackett-Luce is noisier"},
        answer = "by_e[5] > by_pl[5] and 1 or 2",
      },
      after = [[
Plackett-Luce: its noise went from {%.2f|by_pl[1]} to {%.2f|by_pl[5]}, as every place adds its own,
and the more so the sharper the policy is: towards the end little is left to draw from. That of
perturbed queries went from {%.2f|by_e[1]} to {%.2f|by_e[5]}; k is not in it.]],
      claim = {"by_pl[5] > by_e[5]", "by_pl[5] > 2 * by_pl[1]", "by_e[5] < 1.5 * by_e[1]"},
    },
    {
      title = "How far to perturb",
      text = [[
sigma is how far the query is moved. A larger one makes lists more unlike, and the gradient has less
noise; but it is the gradient of a policy that shows these lists.]],
      code = [[
length = pi:theta():norm() / math.sqrt(beta.cols)
sigmas, spread, drawn = {0.03, 0.1, 0.3, 1}, {}, {}
for i, sigma in ipairs(sigmas) do
  local g = perturbed(5, "sum", sigma)
  spread[i] = noise(g)
  drawn[i] = fopo.evaluate(pi, s.test,
                           {k = 1, slate = g}).slate.expected
end
fopo.plot{{x = sigmas, y = spread, name = "noise"},
          {x = sigmas, y = drawn, name = "hits of 5, drawn"},
          logx = true, height = 7, xlabel = "sigma"}]],
      ask = {
        question = "How many of the hits that lists of sigma = 0.03 have are left at sigma = 1?",
        choices = {"nearly all", "more than half", "less than half"},
        answer = "drawn[4] > 0.9 * drawn[1] and 1 or drawn[4] > 0.5 * drawn[1] and 2 or 3",
      },
      after = [[
{%.2f|drawn[4]} of {%.2f|drawn[1]}. The query has a length of about {%.1f|length}, and 16 numbers of
deviation 1 have one of 4: little of it is left. The noise fell from {%.2f|spread[1]} to
{%.2f|spread[4]}. Between the two lies a sigma that both can live with, a tenth of the query's
length or so.]],
      claim = {"drawn[4] < 0.8 * drawn[1]", "spread[4] < spread[1]"},
    },
    {
      title = "Learning lists",
      text = [[
Learn for $steps steps from the same start: for single items by the exact gradient, and for lists of
five by both ways. The measure is the number of hits among the five best items on the test.]],
      code = [[
function learn(g)
  local t = fopo.trainer{policy = new(), data = s.train,
    gradient = g, optim = fopo.optim.adam{lr = 3e-2},
    valid = false}
  return t:run{steps = $steps, view = false}.policy
end
function hits_of(who)
  local o = {k = 1, slate = perturbed(5, "sum")}
  return fopo.evaluate(who, s.test, o).slate.reward
end
ways = {"start", "single items", "Plackett-Luce", "perturbed"}
listed = learn(perturbed(5, "sum"))
found = {hits_of(pi), hits_of(learn(fopo.gradient.exact{})),
         hits_of(learn(luce(5, "sum"))), hits_of(listed)}
fopo.plot.bars(found, ways, {title = "hits among five"})]],
      ask = {
        question = "Which one finds most?",
        choices = {"that for single items", "Plackett-Luce", "perturbed queries"},
        answer = "found[4] > math.max(found[2], found[3]) and 3 or found[3] > found[2] and 2 or 1",
      },
      after = [[
Perturbed queries find {%.2f|found[4]}, Plackett-Luce {%.2f|found[3]}, the policy for single items
{%.2f|found[2]}, the start {%.2f|found[1]}. Where single items are rewarded, one good first item is
all that a policy learns to find; what stands behind it is by-product. What a step costs is another
matter: Plackett-Luce reads all P items a context, perturbed queries search 20 times.]],
      claim = {"found[4] > found[2]", "found[4] > found[1]"},
    },
  },
  exercises = {
    {
      text = [[
The probability of a list under Plackett-Luce, by the probabilities p[1], p[2], ... of the items:
place after place, the next item among those that are left.]],
      code = [[
function chance(list, p)
  local product, taken = 1, 0
  for _, a in ipairs(list) do
    product = product * ___
    taken = taken + p[a]
  end
  return product
end]],
      answer = "p[a] / (1 - taken)",
      claim = {"math.abs(chance({1, 2}, {0.5, 0.3, 0.2}) - 0.3) < 1e-9",
               "math.abs(chance({3, 1, 2}, {0.5, 0.3, 0.2}) - 0.125) < 1e-9"},
      hint = "After items of 0.5 in all, an item of 0.3 has 0.3 of the 0.5 that are left.",
      after = "The last item of all has a probability of 1: nothing else is left.",
    },
    {
      text = [[
The dcg of a list: r[j] is the reward of the item in place j, and a place counts for 1, 0.63, 0.5,
0.43, ...]],
      code = [[
function dcg(r)
  local sum = 0
  for j, v in ipairs(r) do
    sum = sum + ___
  end
  return sum
end]],
      answer = "v / math.log(1 + j, 2)",
      claim = {"math.abs(dcg{1, 0, 0} - 1) < 1e-9", "math.abs(dcg{0, 0, 2} - 1) < 1e-9",
               "math.abs(dcg{1, 1} - 1 - 1 / math.log(3, 2)) < 1e-9"},
      hint = "Place 3 counts for half of place 1: 1 / log2(1 + j).",
      after = "measure = \"dcg\" asks for it, and discount changes what a place counts for.",
    },
  },
  try = {
    "noise(perturbed(5, \"ndcg\"))",
    "noise(fopo.gradient.slate{k = 5, samples = 200, measure = \"sum\"})",
    "listed:recommend({items = {3, 14}}, 5)",
    "help\"gradient.slate\"",
  },
}
