-- fopo.report: aligned tables, and the table of a race.
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local report = {}

report.table = define.fn{
  name = "fopo.report.table", returns = "string",
  args = {{"rows", "table", nil, "lists of strings; the first is the head"}},
  text = "Rows as aligned text; columns of numbers are set to the right.",
  example = "print(fopo.report.table{{\"method\", \"ms\"}, {\"snis\", \"1.2\"}})",
  call = text.table,
}

-- Milliseconds of a training step.
local function step_ms(t) return 1e3 * t.seconds / t.step end

report.runs = define.fn{
  name = "fopo.report.runs", returns = "string",
  args = {{"runs", "table", nil, "list of {name=, trainer=, evaluation=}; the first is the base"}},
  text = [[One line for each run: the test reward by true argmax with its 95 % interval, the reward
through the index, milliseconds a step, and the speed-up of a step over the first run. A run without
a trainer (an upper bound, the start) shows its reward only.]],
  call = function(runs)
    local rows, base = {{"method", "reward", "95 % interval", "via index", "ms/step", "speed-up"}}
    for _, run in ipairs(runs) do
      local e, t = run.evaluation, run.trainer
      base = base or t
      rows[#rows + 1] = {
        run.name, ("%.4f"):format(e.reward),
        e.low and ("%.4f - %.4f"):format(e.low, e.high) or "",
        e.reward_index and ("%.4f"):format(e.reward_index) or "",
        t and ("%.3f"):format(step_ms(t)) or "",
        t and ("%.1f x"):format(step_ms(base) / step_ms(t)) or "",
      }
    end
    return text.table(rows)
  end,
}

return report
