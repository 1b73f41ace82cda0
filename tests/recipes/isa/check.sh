# The new set can be chosen by its name, is known to fopo.isa, and agrees with the portable kernels:
# a walk through a graph scores by dot, and the gradient of learnt items is added up by axpy.
if ! grep -qw sse4_1 /proc/cpuinfo; then
  echo 'skip the instruction set: this CPU has no SSE4.1'
  exit 0
fi
for isa in portable sse4; do
  FOPO_ISA=$isa "$NEW" -e '
    local items, x = fopo.array.randn(500, 21, 1), fopo.array.randn(8, 21, 2)
    local ids, scores = fopo.index.hnsw(items, {deterministic = true}):search(x, 5)
    print(fopo.isa())
    for i = 1, 8 do print(ids:get(i, 1), ("%.4f"):format(scores:get(i, 1))) end
    local pi = fopo.policy.linear{items = items, theta = "identity", train_items = true}
    local reward = fopo.reward.custom(function(drawn)
      return fopo.array.randn(drawn.rows, drawn.cols, 3)
    end)
    local g = fopo.gradient.snis{samples = 50}
    local _, _, drawn, G = g:compute(pi, x, nil, reward, {seed = 1, step = 0})
    for i = 1, 8 do print(drawn:get(1, i), ("%.4f"):format(G:get(i, 1))) end' >"$TOP/$isa"
done
[ "$(head -n 1 "$TOP/sse4" | cut -f 1)" = sse4 ]
[ "$(tail -n +2 "$TOP/sse4")" = "$(tail -n +2 "$TOP/portable")" ]
FOPO_ISA=nonsense "$NEW" -v | grep -q ignored
