-- What is recommended to each session: the same question to a policy and to a baseline.
local native = require "fopo.native"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local seen = require "fopo.base.seen"
local lists = {}

-- ids, scores [N, o.k], the best items first: of `who` for the sessions. o.exclude = "none" keeps
-- the items of X in. For a policy o.index (exact search if nil) and o.contexts (those of the
-- sessions if nil).
function lists.of(who, sessions, o)
  local unseen = seen.left_out(o.exclude, sessions, who) == "seen"
  if define.kind(who) == "baseline" then
    return native.baseline_best(who, sessions, o.k, unseen, o.left_out)
  end
  local x = o.contexts or cache.contexts(sessions, who)
  local index = o.index or cache.exact_of(who)
  if unseen then
    return native.recommend(who, x, index, o.k, {seen = sessions, may_be_short = true})
  end
  return who:best(x, {index = index, k = o.k})
end

return lists
