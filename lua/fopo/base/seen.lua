-- What users took before: whether these items, X of a session, are left out of what is recommended.
-- By default they are, as one serves; but of sessions whose Y has items of X (seen = "keep" of a
-- split), where to recommend them is right.
local define = require "fopo.base.define"
local seen = {}

-- The option of those who judge: text says of what.
function seen.option(text)
  return {"exclude", "string", nil, text, one_of = {"seen", "none"}}
end

-- Whether a policy that is made for these sessions masks X if nobody says it: where X is known.
function seen.default_of(sessions)
  return sessions and not sessions.keeps_seen and "known" or "keep"
end

-- "seen" or "none": what is left out of recommendations to the sessions, where the option is
-- `exclude` (nil: the default). A policy that masks X leaves X out itself.
function seen.left_out(exclude, sessions, who)
  if define.kind(who) == "policy" and who.seen == "mask" then return "seen" end
  return exclude or (sessions.keeps_seen and "none" or "seen")
end

return seen
