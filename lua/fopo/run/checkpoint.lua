-- The checkpoint that a run keeps: written every so many seconds, and at the run's end, also if
-- Ctrl-C or a signal that ends the program (SIGTERM, SIGHUP, SIGXCPU) brings that about. A
-- checkpoint that cannot be written is said and tried again; the training goes on. Of several
-- processes the first one writes it, and tells the others (run/run.lua). Signals wait for it on all
-- of them: one that ended alone would be missed by the others.
local native = require "fopo.native"
local lock = require "fopo.run.lock"
local term = require "fopo.term"

local checkpoint = {}
checkpoint.__index = checkpoint

checkpoint.options = {
  {"checkpoint", "string", nil, "an .npz that t:save writes every so often, at the end, and when "
   .. "Ctrl-C or a signal stops the run (fopo --checkpoint PATH: for every run that names none); "
   .. "t:resume goes on from it"},
  {"every_seconds", "number", 600, "seconds between two writings of the checkpoint", above = 0},
}

-- The checkpoint of a run of t with these options; nil if it keeps none.
function checkpoint.open(t, o)
  local path = o.checkpoint or term.checkpoint()
  if not path then return nil end
  local held = native.ranks() == 0 and lock.take(path .. ".lock", "the checkpoint " .. path,
    "name another one, or end that run") or nil
  term.defer(1) -- signals wait for it
  return setmetatable({t = t, path = path, lock = held, every = o.every_seconds,
                       last = native.clock(), alone = select(2, native.ranks()) == 1}, checkpoint)
end

-- Seconds until it is due.
function checkpoint:left() return math.max(0.01, self.last + self.every - native.clock()) end

function checkpoint:due() return native.clock() >= self.last + self.every end

local function say(...) io.stderr:write("fopo: ", string.format(...), "\n") end

-- The same reason, though its numbers differ: how much is free, which process had the file.
local function same(one, other) return one and one:gsub("%d", "") == other:gsub("%d", "") end

-- Writes it, unless it is of this step already; `ended`: the run is at its end, with the parameters
-- that are kept. An interruption that is under way waits.
function checkpoint:save(ended)
  if self.ended or self.step == self.t.step and not ended then return end
  self.ended = ended
  local ok, why = term.saving(function() self.t:save(self.path) end)
  self.last = native.clock()
  if ok then
    self.step = self.t.step
  elseif not same(self.said, why) then
    self.said = why
    local here = native.ranks_about()
    say("no checkpoint at step %d%s: %s; the training goes on without", self.t.step,
        self.alone and "" or (" by rank %d (%s)"):format(here.rank, here.host), why)
  end
end

function checkpoint:close()
  if self.closed then return end
  self.closed = true
  if self.alone then self:save(true) end
  if self.lock then self.lock:release() end
  term.defer(-1)
  if term.ending() and self.step == self.t.step then
    say("%s is the checkpoint of step %d; t:resume(%q) goes on from there", self.path, self.step,
        self.path)
  end
end

return checkpoint
