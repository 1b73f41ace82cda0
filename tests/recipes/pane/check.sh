# The pane is on the screen of a run.
"$NEW" -e '
  local s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
  local items = fopo.embed.svd(s.train, {dim = 8})
  local t = fopo.trainer{policy = fopo.policy.linear{items = items}, data = s.train,
                         gradient = fopo.gradient.snis{samples = 50}}
  print(fopo.view.text(t:run{steps = 20, view = false}))' >"$TOP/screen"
grep -q '^ even [0-9]* %' "$TOP/screen"

# So is it on that of made-up figures.
"$NEW" -e '
  local v = require("fopo.term").view{}
  v:set{ess = 30, samples = 100}
  v:resize(24, 80)
  print((v:render("text")))' | grep -q '^ even 30 %'
