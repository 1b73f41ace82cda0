-- fopo.glossary: what the words mean. docs/design.md has the same list, and a test compares them.
local define = require "fopo.base.define"
local page = require "fopo.view.page"
local term = require "fopo.term"
local text = require "fopo.base.text"

-- "word: meaning", going on in lines that are indented.
local list = [[
absorb: to add a part's rewards to the gradient: combine, then G += X^T V
adaptive proposal: a mixture whose epsilon follows the share of pi outside the candidates
action: an item, in the language of bandit logs; also a change made by hand during a run, kept in
    `t.actions`
attach: to let a gradient use a candidate cache that another object owns
automatic index: the norm index of a gradient whose user named none, searched among as many norms as
    hold the mass
baseline: a recommender to compare a policy with, `fopo.baseline`; of REINFORCE, a number subtracted
    from rewards to lower the variance
batch: the contexts of one step, B of them
bind: to make the data that a gradient reads resident on its device
block: parameters that are learnt or fixed together, at one learning rate: the items, or a named
    part of theta (`pi.learn`); elsewhere a stretch of work or of memory
Bloom filter: a bit set that says "certainly not a candidate" for most items, so that few are looked
    up
budget: the number of items, of largest norm, that a norm index may look at
candidate: one of the K items that the index returned for a context
candidate cache: the candidates of every context, kept from visit to visit
catalogue: the P items
checkpoint: a file from which a run goes on to the same bits
combine: an estimator's second half: from draws and rewards to V
commit: to let a whole step count: cached sets age, an adaptive epsilon moves
context: one row of the data that the policy acts on: a session or an event
covariance gradient: the paper's estimator, c_s = wbar_s (r_s - rbar); `gradient.snis`
coverage: which actions a log shows, and how often, of those that a policy takes: what its estimates
    rest on
CUDA graph: a recorded sequence of GPU work that is launched with one call
device: what the operations of a step run on: the CPU or a GPU
direct model: an estimate of the reward by a model that was fitted to a log
doubly robust: a direct model, corrected by the logged reward with an importance weight
draw: a sampled item; also an estimator's first half: from queries to ids and log q
epsilon (eps): the uniform share of a mixture
ess: effective sample size, 1 / sum wbar^2: how many equal weights the weights are worth
estimator: a way to compute the gradient: exact, reinforce, snis, head and tail
expected reward: the mean over contexts of E_pi r: with hits, the chance that an item drawn from the
    softmax is in Y; what training raises
expired: said of a cached set that has served its visits
floor: a score below which an item cannot be one of the k best of a query
golden file: a screen, saved as text, that a test compares with
gradient: G, of the shape of theta; also the object that computes it
head: items that are enumerated and not sampled: the K candidates of a context, or a shared head
head and tail: the estimator that enumerates some items and samples the others
HNSW: a layered graph for approximate nearest neighbours, used for inner products
hit: a reward of 1 if the item is in the held-out half of the session
index: an object that finds the items of largest inner product
IPS: inverse propensity score: the logged reward divided by the probability of the logged action
job: a run that a thread of its own advances
K, k: the number of candidates
kappa: the softmax over the candidates alone
kernel: an inner loop over numbers, in one version for each instruction set; on the GPU, a function
    launched there
log: a bandit log: contexts, actions, rewards, propensities; also the files of a run
MIPS: maximum inner product search
mixture: the proposal eps uniform + (1 - eps) kappa
must_sync: true if a step has to be known to be whole before the next may be queued
norm order: the items by descending norm
objective: what a gradient is of: the expected reward, the log-likelihood, the smoothed or the log
    of the expected reward, or self-normalised IPS
OPE: off-policy evaluation: the worth of a policy from another policy's log
pane: a rectangle of the live view
panel: up to 32 queries, transposed, that are multiplied with items at once
part: the contexts of a batch that are worked on at once, so that memory is bounded
pessimism: to choose or learn a policy by what it earns at least, so that an action that the log
    hardly shows counts for less
piece: a share of a part: the host searches for one while the GPU works on another
plan: what batches share: who searches, among how many norms, H, how they are cut, their memory
phase: one of the five parts of a step's time: search, propose, reward, gradient, update
policy: the softmax over the catalogue, with its parameters theta
popularity bias: what was shown often is rewarded often, and looks good for that alone
prefilter: a first scoring in 8 or 16 bits, with a bound, before float32
prefix: the items of largest norm: those that a norm index packs, or that a hybrid searches exactly
probe: a look at a few contexts that keeps nothing: the share of pi in the candidates, or how many
    norms hold it
propensity: the probability with which the logged action was chosen
proposal: the distribution q that snis draws from
query: h(x), the vector that is compared with the items
rank: one of several processes that train together; also a place in an order
R_test: the paper's reward of an evaluation: items of X may be recommended (`exclude = "none"`)
recall: the share of the true top K that an index returns
mask: scores of -infinity: the items of X, which a policy with seen = "mask" gives no probability
mass: the sum of exp(f) over some items; the share of the whole sum is their probability
mass of an answer: the sum of exp(score) over it, as a share of that over the true top K: what
    matters of candidates
record: a row of `t.history`; also a CUDA graph of a step
refresh: how many visits a cached set serves
replay: to launch a recorded step again; also to repeat a run's changes by hand
resplit: to draw X and Y of sessions anew in each epoch of a training; of those in order prefixes
reward: r(a, x), what is maximised; of an evaluation, the greedy one: the share of contexts whose
    best item is in Y, X left out
rollback: to undo queued steps that did not happen
row: a context's place in the data; a line of a matrix; an entry of a table
session: one user's items, split into X (seen) and Y (held out)
shared head: the H items of largest norm, enumerated in every context
slate: a list of k items that is drawn and rewarded as a whole
slice: a number of steps made by one call of C
SNIPS: self-normalised IPS
SNIS: self-normalised importance sampling
statistic: a number of a step that is averaged into records
stratified: exactly round(eps S) uniform draws, instead of a coin for each
stream: an independent sequence of random numbers; on the GPU, a queue of work
tail: the items that are not candidates; U of them are drawn
temperature: T, by which every score is divided
tile: the block of a matrix that a kernel or an AMX register holds
totals: the sums of statistics that add up on a GPU while the host goes on
value: what a hit on an item earns, 1 unless `fopo.reward.hits{value = ...}` says more; with values,
    what rewards are called
visit: one use of a context in a batch
warp: 32 threads of a GPU that run together
weight: exp(f) / q of a draw; normalised: divided by their sum
]]

local words, meanings = {}, {} -- in the order of the list
for entry in list:gsub("\n +", " "):gmatch("[^\n]+") do
  words[#words + 1], meanings[#words + 1] = entry:match("^(.-): (.*)$")
end

-- The ways in which a word is looked up: "K, k" by either, "epsilon (eps)" by either.
local function names_of(word)
  local names = {word}
  for one in word:gmatch("[^,()]+") do names[#names + 1] = one:match("^%s*(.-)%s*$") end
  return names
end

local function plain(s) return (s:lower():gsub("[%s_-]+", " ")) end

local function same(a, b) return plain(a) == plain(b) end

-- The place of a word in the list: by one of its names, or by what its meaning begins with.
local function place_of(word)
  for i, known in ipairs(words) do
    for _, name in ipairs(names_of(known)) do
      if same(name, word) then return i end
    end
  end
  for i, meaning in ipairs(meanings) do
    if #word > 3 and same(meaning:sub(1, #word), word) and not meaning:find("^%w", #word + 1) then
      return i
    end
  end
end

local function entry_text(i)
  return text.fill(words[i] .. ": " .. meanings[i]:gsub("`", ""),
                   math.max(40, math.min(100, term.width())), "  ")
end

local glossary = {words = words, meanings = meanings}

-- The text for a word, or nil.
function glossary.find(word)
  local i = place_of(word)
  return i and entry_text(i)
end

-- The known word that is nearest to this one, or nil.
function glossary.nearest(word) return define.nearest(word, words) end

glossary.print = define.fn{
  name = "fopo.glossary",
  args = {{"word", "string", nil, "a word, or several; lists them all if left out",
           optional = true}},
  text = [[Says what a word means, such as ess or effective sample size. ?ess does the same at the
prompt.]],
  example = [[fopo.glossary("effective sample size")]],
  call = function(word)
    if not word then
      return page.out(text.fill(table.concat(words, ", "), math.min(100, term.width()) - 1, "")
                      .. "\n?word says what it means.")
    end
    local found = glossary.find(word)
    if not found then
      define.fail("the glossary has no word %q%s; fopo.glossary() lists them", word,
                  define.meant(word, words))
    end
    print(found)
  end,
}

return glossary
