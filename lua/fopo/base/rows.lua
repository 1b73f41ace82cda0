-- Declarations from the tables of C: options that are rows become those of define.fn.
local native = require "fopo.native"
local rows = {}

-- {name =, type =, default =, text =, min =, ...} of each option as {name, type, default, text,
-- ...}. An option "integer|string" is how often candidates are refreshed.
function rows.specs(options)
  local specs = {}
  for i, option in ipairs(options) do
    local spec = {option.name, option.type, option.default, option.text, min = option.min,
                  above = option.above, max = option.max, below = option.below,
                  one_of = option.one_of, required = option.required}
    if option.type == "integer" and option.one_of then spec[2] = "integer|string" end
    if option.type == "integer|string" then
      spec[3], spec.min, spec.one_of = 1, 1, {"once"}
    end
    specs[i] = spec
  end
  return specs
end

-- The names of the options of all rows that may be changed between two steps: those that are
-- numbers, then those that may be a word instead.
function rows.settable(list)
  local names, found = {}, {}
  for _, words in ipairs{false, true} do
    for _, row in ipairs(list) do
      for _, option in ipairs(row.options) do
        local wanted = option.settable and (option.one_of ~= nil) == words
        if wanted and not found[option.name] then
          names[#names + 1], found[option.name] = option.name, true
        end
      end
    end
  end
  return names
end

-- What g:set takes: epsilon and k of a proposal, and the options of the estimators.
function rows.of_gradients()
  local names = {"epsilon", "k"}
  for _, name in ipairs(rows.settable(native.gradients())) do
    if name ~= "epsilon" and name ~= "k" then names[#names + 1] = name end
  end
  return names
end

-- The names of rows, and "NAME: text; ..": for an option that takes one of them.
function rows.names(list)
  local names, texts = {}, {}
  for i, row in ipairs(list) do
    names[i], texts[i] = row.name, ("%s: %s"):format(row.name, row.text)
  end
  return names, table.concat(texts, "; ")
end

return rows
