"""Every operation of arrays that help knows, against NumPy: drawn shapes, also empty ones, values
with NaN and infinities, rows, columns and numbers that stand for arrays, ids, draws by Philox. An
operation without a case here fails by name. Skipped without numpy."""
import itertools

from checks import check, failures, finish
from oracle import np, philox, run

r = np.random.default_rng(11)
SIDES = (("rows", 1), ("columns", 0))


def drawn(shape, special):
    a = (r.integers(-40, 41, shape) / 8).astype(np.float32)
    kind = r.integers(0, 24, shape)
    for k, v in enumerate((np.nan, np.inf, -np.inf, 0.0, -0.0) if special else ()):
        a[kind == k] = v
    return a


def worlds():
    """Operands: a [m, n], its like b, a row, a column, factors, weights, ids, and a number."""
    shapes = [(1, 1), (1, 7), (7, 1), (3, 5), (40, 3), (2, 2049), (300, 3), (1, 3000), (0, 4)]
    shapes += [tuple(r.integers(1, 60, 2)) for _ in range(5)]
    for (m, n), special in itertools.product(shapes, (False, True)):
        sizes = {"a": (m, n), "b": (m, n), "row": (1, n), "column": (m, 1), "right": (n, 4),
                 "under": (m, 4), "more": (3, n), "beside": (m, 2)}
        w = {name: drawn(shape, special) for name, shape in sizes.items()}
        ties = r.integers(-2, 3, (m, n)).astype(np.float32)  # many are equal
        weights = r.integers(0, 5, (m, n)).astype(np.float32)
        weights[:, 0] += 1
        w |= {"ties": ties, "weights": weights,
              "rows": r.integers(0, max(m, 1), (1, 6 if m > 0 else 0)),
              "places": r.integers(0, n, (m, 5)), "some": r.integers(0, n, (1, 4)),
              "to": r.integers(0, 3, (1, m))}
        w["k"] = int(r.integers(1, n + 1))
        w["i"], w["j"] = (1, 1) if m == 0 else sorted(int(v) for v in r.integers(1, m + 1, 2))
        w["p"], w["q"] = sorted(int(v) for v in r.integers(1, n + 1, 2))
        yield w


# ---- the definitions ----

def order(a, side, descending):
    """Places in order, NaN as the largest, equal ones as they stand."""
    key = np.where(np.isnan(a), np.inf, a).astype(float)
    nan = np.isnan(a)
    key, nan = (-key, ~nan) if descending else (key, nan)
    return np.lexsort((key, nan), axis=side)


def reduced(f):
    """f of all elements, of each row and of each column, where there are any."""
    return lambda w: [f(w["a"].astype(float), side) for side in (None, 1, 0)]


def logsumexp(a, side):
    top = a.max(axis=side, keepdims=True)
    held = np.where(np.isfinite(top), top, 0)
    return np.log(np.exp(a - held).sum(axis=side, keepdims=True)) + held


def softmax(a, side):
    e = np.exp(a - a.max(axis=side, keepdims=True))
    return e / e.sum(axis=side, keepdims=True)


def argmax(w):
    a, nan = w["a"], np.isnan(w["a"])  # the first NaN, if there is one
    by_row = np.where(nan.any(axis=1, keepdims=True), nan, a).argmax(1)
    by_column = np.where(nan.any(axis=0), nan, a).argmax(0)
    i, j = divmod(int((nan if nan.any() else a).argmax()), a.shape[1])
    return [np.float32(i + 1), np.float32(j + 1), by_row[:, None], by_column[None, :]]


def words(count, seed, stream, step, row):
    blocks = np.arange((count + 3) // 4)
    return philox(seed, stream, step, row, blocks).reshape(-1)[:count].astype(np.uint64)


def unit(v):
    return (v.astype(float) + 0.5) / 2 ** 32


def normals(count, seed, step):
    u = unit(words(count + -count % 4, seed, 4, 0, step)).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log(u[:, 0])), 2 * np.pi * u[:, 1]
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), 1).reshape(-1)[:count]


def draws(w):
    ids = np.zeros((len(w["weights"]), 9), int)
    for i, row in enumerate(w["weights"].astype(float)):
        target = unit(words(9, 5, 16, 3, i)) * row.sum()
        ids[i] = np.searchsorted(np.cumsum(row), target, side="right")
    return ids


def scatter(w):
    to = np.ones((3, w["a"].shape[1]))
    np.add.at(to, w["to"][0], w["a"].astype(float))
    return to


def broadcast(f):
    """f of two arrays, and where a row, a column or a number stands for one, on either side."""
    def all_of(w):
        a, b, number = w["a"], w["b"], np.float32(1.25)
        pairs = [(a, b), (a, w["row"]), (a, w["column"]), (w["row"], w["column"]), (a, number)]
        return [f(x, y) for x, y in pairs]
    return all_of


PAIRS = ("a, b", "a, row", "a, column", "row, column", "a, 1.25")


def pairs(code):
    return ", ".join("(function(x, y) return %s end)(%s)" % (code, p) for p in PAIRS)


def sides(name):
    return f"a:{name}(), a:{name}('rows'), a:{name}('columns')"


# name: (Lua, NumPy, the relative tolerance)
CASES = {
    "fopo.array.zeros": ("array.zeros(a.rows, a.cols)", lambda w: np.zeros(w["a"].shape),
                         0),
    "fopo.array.eye": ("array.eye(k)", lambda w: np.eye(w["k"]), 0),
    "fopo.array.linspace": ("array.linspace(0.25, -2.5, k + 2)",
                            lambda w: np.linspace(0.25, -2.5, w["k"] + 2)[None, :], 1e-6),
    "fopo.array.randn": ("array.randn(a.rows, a.cols, 9, 1.5, 2)", lambda w: (1.5 * normals(
        w["a"].size, 9, 2)).reshape(w["a"].shape), 1e-6),
    "fopo.array.uniform": ("array.uniform(a.rows, a.cols, 7, 1)", lambda w: ((words(
        w["a"].size, 7, 16, 0, 1) // 512 + 0.5) / 2 ** 23).reshape(w["a"].shape), 0),
    "fopo.array.concat": (
        "array.concat{a, more}, array.concat({a, beside}, 'columns'), array.concat{rows, rows}",
        lambda w: [np.vstack((w["a"], w["more"])), np.hstack((w["a"], w["beside"])),
                   np.vstack((w["rows"], w["rows"]))], 0),
    "fopo.array.from": ("a.rows > 0 and array.from(a:totable()) or a", lambda w: w["a"], 0),
    "fopo.array.ids": ("array.ids(list(rows))", lambda w: w["rows"], 0),
    "fopo.array.load": ("a, rows", lambda w: [w["a"], w["rows"]], 0),  # as all operands came
    "array:get": ("filled(a)", lambda w: w["a"], 0),
    "array:set": ("filled(a)", lambda w: w["a"], 0),
    "array:rows_of": ("a:rows_of(rows)", lambda w: w["a"][w["rows"][0]], 0),
    "array:copy": ("changed(a:copy(), a)", lambda w: w["a"], 0),
    "array:matmul": ("a:matmul(right), a:matmul(under, true), under:matmul(right, false, true), "
                     "right:matmul(a, true, true)", lambda w: [
                         w["a"].astype(float) @ w["right"], w["a"].astype(float).T @ w["under"],
                         w["under"].astype(float) @ w["right"].T,
                         w["right"].astype(float).T @ w["a"].T], 1e-6),
    "array:add": ("a:copy():add(b, 0.5), a:copy():add(b)",
                  lambda w: [w["a"] + np.float32(0.5) * w["b"], w["a"] + w["b"]], 0),
    "array:scale": ("a:copy():scale(-0.3)", lambda w: w["a"] * np.float32(-0.3), 0),
    "array:operators": (
        ", ".join(pairs(op) for op in ("x + y", "x - y", "x * y", "x / y", "y - x", "y / x"))
        + ", -a, #a, a.rows > 0 and a[1] or row, a:abs() ^ 0.5, a ^ 2, 2 ^ a",
        lambda w: [v for f in (np.add, np.subtract, np.multiply, np.divide, lambda x, y: y - x,
                               lambda x, y: y / x) for v in broadcast(f)(w)]
        + [-w["a"], np.float32(len(w["a"])), w["a"][:1] if len(w["a"]) else w["row"],
           np.abs(w["a"]) ** 0.5, w["a"] ** 2, 2 ** w["a"]], 1e-6),
    "array:exp": ("a:exp()", lambda w: np.exp(w["a"].astype(float)), 1e-6),
    "array:log": ("a:log()", lambda w: np.log(w["a"].astype(float)), 1e-6),
    "array:sqrt": ("a:sqrt()", lambda w: np.sqrt(w["a"]), 0),
    "array:abs": ("a:abs()", lambda w: np.abs(w["a"]), 0),
    "array:clip": ("a:clip(-1, 2), a:clip(row, column)", lambda w: [
        np.clip(w["a"], -1, 2), np.where(w["a"] < w["row"], w["row"], np.where(
            w["a"] > w["column"], w["column"], w["a"]))], 0),
    "array:where": ("a:lt(0):where(b, row), a:where(1, column)", lambda w: [
        np.where(w["a"] < 0, w["b"], w["row"]), np.where(w["a"] != 0, 1, w["column"])], 0),
    "array:sum": (sides("sum"), reduced(lambda a, s: a.sum(axis=s, keepdims=True)), 1e-7),
    "array:mean": (sides("mean"), reduced(lambda a, s: a.mean(axis=s, keepdims=True)), 1e-7),
    "array:norm": (sides("norm"), reduced(
        lambda a, s: np.sqrt((a * a).sum(axis=s, keepdims=True))), 1e-6),
    "array:min": (sides("min"), reduced(lambda a, s: a.min(axis=s, keepdims=True)), 0),
    "array:max": (sides("max"), reduced(lambda a, s: a.max(axis=s, keepdims=True)), 0),
    "array:logsumexp": (sides("logsumexp"), reduced(logsumexp), 1e-6),
    "array:argmax": ("pack(a:argmax()), a:argmax('rows'), a:argmax('columns')", argmax, 0),
    "array:softmax": ("a:softmax('rows'), a:softmax('columns')",
                      lambda w: [softmax(w["a"].astype(float), s) for _, s in SIDES], 1e-6),
    "array:cumsum": ("a:cumsum('rows'), a:cumsum('columns')",
                     lambda w: [w["a"].astype(float).cumsum(s) for _, s in SIDES], 1e-7),
    "array:transpose": ("a:transpose(), rows:transpose()",
                        lambda w: [w["a"].T, w["rows"].T], 0),
    "array:reshape": ("a:reshape(a.cols, a.rows)",
                      lambda w: w["a"].reshape(w["a"].shape[::-1]), 0),
    "array:slice": ("a:slice(i, j), a:slice(i)",
                    lambda w: [w["a"][w["i"] - 1:w["j"]], w["a"][w["i"] - 1:]], 0),
    "array:columns": ("a:columns(p, q), a:columns(q)",
                      lambda w: [w["a"][:, w["p"] - 1:w["q"]], w["a"][:, w["q"] - 1:]], 0),
    "array:gather": ("a:gather(places), a:gather(some)", lambda w: [
        np.take_along_axis(w["a"], w["places"], 1), w["a"][:, w["some"][0]]], 0),
    "array:scatter_add": ("(array.zeros(3, a.cols) + 1):scatter_add(to, a)", scatter, 1e-6),
    "array:outer": ("beside:outer(row)",
                    lambda w: np.outer(w["beside"].reshape(-1), w["row"].reshape(-1)), 0),
    "array:top": ("pack(ties:top(k)), pack(a:top(k))", lambda w: [
        v[:, :w["k"]] for a in (w["ties"], w["a"]) for p in (order(a, 1, True),)
        for v in (np.take_along_axis(a, p, 1), p)], 0),
    "array:sort": ("pack(a:sort('rows')), pack(ties:sort('columns'))", lambda w: [
        v for a, s in ((w["a"], 1), (w["ties"], 0)) for p in (order(a, s, False),)
        for v in (np.take_along_axis(a, p, s), p)], 0),
    "array:draw": ("weights:draw(9, 5, 3)", draws, 0),
    "array:near": ("bit(a:near(a)), bit(a:near(a + 1, 1.5)), bit(a:near(row))", lambda w: [
        np.float32(not np.isnan(w["a"]).any()), np.float32(not np.isnan(w["a"]).any()),
        np.float32(w["a"].shape == w["row"].shape and bool((w["a"] == w["row"]).all()))], 0),
    "array:finite": ("bit(a:finite())", lambda w: np.float32(np.isfinite(w["a"]).all()), 0),
}
for one, ufunc in (("maximum", np.maximum), ("minimum", np.minimum), ("lt", np.less),
                   ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
                   ("eq", np.equal), ("ne", np.not_equal)):
    CASES["array:" + one] = (pairs("x:%s(y)" % one), broadcast(ufunc), 0)

# Sums, whose terms may cancel: the tolerance is of the sum of their sizes.
SUMS = {"array:sum", "array:mean", "array:cumsum", "array:matmul", "array:scatter_add"}
# What is no operation, or has its own test: tests/lua/test_arrays.lua, test_files.py.
OTHERS = {"array:save", "array:totable", "array:histogram"}
# Of a matrix without rows there is nothing to take the largest of.
NEED_ROWS = {"array:min", "array:max", "array:mean", "array:argmax", "array:logsumexp",
             "array:softmax", "array:near", "array:draw", "array:slice"}

LUA = """
local array, define = require "fopo.array", require "fopo.base.define"
local out, cases = nil, {}
local put
function put(v)
  if type(v) == "table" then return put(v[1]), put(v[2]) end
  if type(v) == "number" then v = array.from{{v}} end
  if v.kind == "ids" then
    local numbers = array.zeros(v.rows, v.cols)
    for i = 1, v.rows do for j = 1, v.cols do numbers:set(i, j, v:get(i, j) - 1) end end
    v = numbers
  end
  io.write(" ", v.rows, " ", v.cols)
  out[#out + 1] = v:reshape(1, v.rows * v.cols)
end
local function bit(yes) return yes and 1 or 0 end
local function list(ids) return ids:totable()[1] or {} end
local function filled(a)
  local b = array.zeros(a.rows, a.cols)
  for i = 1, a.rows do for j = 1, a.cols do b:set(i, j, a:get(i, j)) end end
  return b
end
local function changed(made, a)
  made:scale(7)
  return a
end
local function pack(...) return {...} end
for _, name in ipairs(define.order) do
  if name:find("^array:") or name:find("^fopo%%.array%%.") then print("help", name) end
end
%s
for n = 0, %d do
  local w = {}
  out = {}
  for name in ("%s"):gmatch("%%w+") do w[name] = array.load(n .. "_" .. name .. ".npy") end
  for name in ("%s"):gmatch("%%w+") do
    w[name] = array.load(n .. "_" .. name .. ".npy", {ids = true})
  end
  for name, value in io.open(n .. "_numbers"):read("a"):gmatch("(%%w+)=(%%d+)") do
    w[name] = math.tointeger(value)
  end
  for k, case in ipairs(cases) do
    if w.a.rows > 0 or not case.needs_rows then
      io.write("case ", n, " ", k - 1)
      case.run(w)
      print()
    end
  end
  array.concat(out, "columns"):save("out_" .. n .. ".npy")
end
"""


def close(found, wanted, tolerance, sizes):
    """Equal, or off by the tolerance of what is wanted or of the sizes of its terms."""
    wanted, sizes = np.asarray(wanted, float), np.asarray(sizes, float)
    if found.shape != wanted.shape:
        return False
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    off = np.abs(found - wanted) <= tolerance * np.maximum(np.abs(wanted), sizes)
    return bool((same | off).all())


def results(code, w):
    """What NumPy has for it, arrays of two dimensions; and the sizes of the terms of sums."""
    f, parts = CASES[code][1], [w, {k: np.abs(v) for k, v in w.items()}]
    both = []
    for part in parts if code in SUMS else parts[:1]:
        v = f(part)
        both.append([np.atleast_2d(x) for x in (v if isinstance(v, list) else [v])])
    return both[0], both[-1] if code in SUMS else [0.0] * len(both[0])


all_worlds = list(worlds())
kinds = {True: [], False: []}  # of operands: ids, or numbers
for n, w in enumerate(all_worlds):
    numbers = []
    for name, v in w.items():
        if isinstance(v, int):
            numbers.append("%s=%d" % (name, v))
            continue
        np.save("%d_%s.npy" % (n, name), v)
        if n == 0:
            kinds[v.dtype.kind == "i"].append(name)
    with open("%d_numbers" % n, "w") as file:
        file.write(" ".join(numbers))
names, operands = list(CASES), sorted(all_worlds[0])
text = "\n".join(
    "cases[#cases + 1] = {needs_rows = %s, run = function(w)\n  local %s = %s\n"
    "  for _, v in ipairs{%s} do put(v) end\nend}" % (
        str(name in NEED_ROWS).lower(), ", ".join(operands),
        ", ".join("w." + v for v in operands), CASES[name][0]) for name in names)
said = run(LUA % (text, len(all_worlds) - 1, " ".join(kinds[False]), " ".join(kinds[True])))
if failures:
    finish()
helped = {line.split("\t")[1] for line in said.splitlines() if line.startswith("help")}
check("every operation of help has a case", helped == set(CASES) | OTHERS,
      helped ^ (set(CASES) | OTHERS))
found, at, asked = {}, {}, 0
np.seterr(all="ignore")
for line in said.splitlines():
    if not line.startswith("case"):
        continue
    n, k, *shapes = [int(v) for v in line.split()[1:]]
    if n not in found:
        found[n], at[n] = np.load("out_%d.npy" % n)[0], 0
    wanted, sizes = results(names[k], all_worlds[n])
    made = []
    for rows, cols in zip(shapes[::2], shapes[1::2]):
        made.append(found[n][at[n]:at[n] + rows * cols].reshape(rows, cols))
        at[n] += rows * cols
    check("%s gives as many" % names[k], len(made) == len(wanted), len(made), len(wanted))
    for part, (m, v, size) in enumerate(zip(made, wanted, sizes)):
        asked += 1
        check("%s, part %d of world %d, %s" % (names[k], part, n, all_worlds[n]["a"].shape),
              close(m, v, CASES[names[k]][2], size), m, np.asarray(v))
check("enough was asked", asked > 28 * 90, asked)
finish()
