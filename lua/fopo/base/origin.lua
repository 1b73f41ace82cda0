-- What objects were made of: sessions of a dataset, embeddings of sessions. Weak keys: an entry
-- lives as long as the object that was made.
--
--   origin.set(s.train, {dataset = d, split = s})       by d:sessions
--   origin.set(items, {sessions = s.train})             by fopo.embed.svd
local origin = {}

local known = setmetatable({}, {__mode = "k"})

function origin.set(made, from) known[made] = from end

-- The table given to origin.set; empty if the object was made of nothing that is known.
function origin.of(made) return known[made] or {} end

-- The sessions that these items were embedded from, or nil.
function origin.sessions(items) return origin.of(items).sessions end

-- The dataset that these sessions, or the sessions behind these items, come from; or nil.
function origin.dataset(made)
  local from = origin.of(made)
  return from.dataset or from.sessions and origin.of(from.sessions).dataset
end

return origin
