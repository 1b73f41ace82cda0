"""Deliberate faults: where a source can be changed, what is spared, and the machinery on a small
tree of its own: which tests execute a line, a fault is noticed, another lives, and nothing of the
tree changes."""
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutate"))
import mutate  # noqa: E402
import operators  # noqa: E402
from checks import check, failures  # noqa: E402

missing = [name for name in ("git", "gcc", "gcov", "make") if shutil.which(name) is None]
if missing:
    print("skip: a fault is drawn, built and counted by what is not here: " + " ".join(missing))
    sys.exit(77)

# ---- the operators ----
TEXT = """/* a + b */
#define N 3
static const char *say(int n) { return "n - 1"; }  // x * y
int f(const int *x, int n) {
  int sum = 0;
  if (n == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "%d < 1", n + 1);
  for (int i = 1; i < n; i++) sum += x[i] * 2;
  g(sum);
  n = n < sum ? n : sum;
  return a && b ? sum - n : n;
}
"""
places = [(kind, TEXT[at:at + length].strip(), new)
          for kind, at, length, new in operators.found(TEXT)]
check("the places", sorted(places) == sorted([
    ("statement dropped", "int sum = 0;", "")][1:] + [
    ("constant", "0", "1"), ("constant", "1", "2"), ("comparison", "<", "<="),
    ("sign", "+=", "-="), ("sign", "*", "/"), ("constant", "2", "3"),
    ("statement dropped", "g(sum);", ""), ("statement dropped", "n = n < sum ? n : sum;", ""),
    ("logic", "&&", "||"), ("sign", "-", "+")]), places)
check("terms are dropped", [p for p in operators.found("x = a + b.c[i] - d(e);\n")
                            if p[0] == "term dropped"] == [("term dropped", 14, 7, "")])
check("constants", [operators.larger(n) for n in ("0", "7", "0.5", "0.0", "1e-4")] ==
      ["1", "8", "0.55", "0.5", "0.00011000000000000002"])

# ---- the tree ----
said = mutate.complaints(mutate.TREE)
check("what lives still stands in its file", not said, *said)
paths = mutate.sources(mutate.TREE)
folders = {path.split("/")[1] for path in paths}
wanted = {name for name in os.listdir(os.path.join(mutate.TREE, "src"))
          if os.path.isdir(os.path.join(mutate.TREE, "src", name))}
check("every folder of src", wanted <= folders, sorted(wanted - folders))
fault = mutate.faults_of(mutate.TREE, "src/judge/measures.c")[0]
text = mutate.read(mutate.TREE, "src/judge/measures.c")
check("a fault changes its line alone", [fault["text"]] == [
    a.strip() for a, b in zip(text.split("\n"), mutate.mutated(text, fault).split("\n")) if a != b])
# ---- lines of survivors.txt that are wrong, and a small tree ----
top = tempfile.mkdtemp()
tree = os.path.join(top, "tree")


def write(path, text):
    path = os.path.join(tree, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def called(*arguments):
    """Its exit status and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = mutate.main([*arguments, "--tree", tree])
    return status, out.getvalue()


SOURCE = """extern int y, z, w;
int next(int x) { return x + y; }
int twice(int x) { return z * x; }
int unused(int x) { return x - w; }
int never(int x) { return x * y; }
struct narrow { _Bool one : 1; };
"""
write("src/judge/a.c", SOURCE)
for i in range(10):
    write("src/judge/empty%d.c" % i, "")
write("tests/c/test_a.c", "int y = 1, z, w, next(int);\nint main(void) { return next(3) != 4; }\n")
TEST_B = """int y, z = 2, w = 0, twice(int), unused(int);
int main(void) {
  while (twice(2) != 4) {
  }
  return unused(3) != 3;
}
"""
write("tests/c/test_b.c", TEST_B)
subprocess.run(["git", "init", "-q", tree], check=True)
for text, wanted in (("src/judge/a.c | sign: + -> - | no | x\n", "has no fault"),
                     ("src/judge/b.c | sign: + -> - | no | x\n", "src/judge/b.c"),
                     ("src/judge/a.c | sign | no\n", "not file | fault")):
    write("tests/mutate/survivors.txt", text)
    status, out = called("check")
    check("said: " + wanted, status == 1 and wanted in out, out)
write("tests/mutate/survivors.txt", "# none\n")
status, out = called("list", "judge/a.c")
check("the places of a file", status == 0 and out.split() == ["src/judge/a.c", "7"], out)
status, out = called("list", "nowhere")
check("a folder that is not there", status == 1 and "src/ has no nowhere" in out, out)

# test_a calls next; test_b calls twice, for ever where that is wrong, and unused
MAKEFILE = """OUT := build/release
FLAGS_release := -O0
all test-programs: $(OUT)/src/judge/a.o $(OUT)/test_a $(OUT)/test_b
$(OUT)/%.o: %.c
	mkdir -p $(@D); gcc $(FLAGS_release) -MMD -c -o $@ $<
$(OUT)/test_%: tests/c/test_%.c $(OUT)/src/judge/a.o
	gcc $(FLAGS_release) -o $@ $^
"""
write("Makefile", MAKEFILE)
write("tests/run.sh", """cd "$(dirname "$0")/.."; out=$1; shift; passed=0 failed=0
for t; do
  if timeout ${FOPO_TEST_LIMIT:-9} "$out/$t"; then echo "  ok    $t  0.5 s"; passed=$((passed + 1))
  else echo "  FAIL  $t  0.5 s"; failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
""")
mutate.HANGS = 1
sources = {path: open(os.path.join(tree, path)).read()
           for path in ("src/judge/a.c", "tests/run.sh")}
seconds_of = mutate.Map.seconds_of
mutate.Map.seconds_of = lambda self, test, until: \
    seconds_of(self, test, until if test == "test_a" else 0)
status, out = called("map")
check("a map that is not ready is no result", status == 77 and
      out.endswith("1 of 2 tests were run with counts; the others the next time\n"), out)
mutate.Map.seconds_of = seconds_of
status, out = called("run")
check("the next time goes on with it", "  1 tests are run with counts" in out, out)
lines = [line for line in out.split("\n") if " s  " in line]
for n, count, wanted in ((2, 2, "noticed by test_a"), (3, 1, "noticed by test_b"),
                         (4, 2, "LIVES, 1 of 1 tests asked"), (5, 1, "LIVES, not executed")):
    check("line %d: %s" % (n, wanted), sum("judge/a.c:%d " % n in line and wanted in line
                                           for line in lines) == count, out)
check("what is no program is not tried", status == 1 and
      "all           6 drawn,    3 noticed,   0 change nothing,   3 live" in out, out)
status, out = called("run", "judge", "--count", "1", "--seed", "2")
check("what is known is not run again", out.count("(known)") == 1, out)
write("tests/c/test_b.c", TEST_B + "/* another */")
status, out = called("run", "--nightly")
check("other tests: what lives is", out.count("(known)") == 3 and status == 1
      and out.endswith("a test notices 95 % | 6 | 3\n"), out)
write("src/judge/a.c", SOURCE + "\n")
status, out = called("run", "--without", "test_a")
check("of a file that has changed every test that executes it is asked", "tests are run" not in out
      and "judge/a.c:5 " in out and out.count("LIVES, 1 of 1") == 5, out)
write("tests/mutate/survivors.txt", "".join(
    "src/judge/a.c | %s | %s | once\n" % f for f in (
        ("sign: - -> +", "int unused(int x) { return x - w; }"),
        ("term dropped: - w -> nothing", "int unused(int x) { return x - w; }"),
        ("sign: * -> /", "int never(int x) { return x * y; }"))))
status, out = called("run")
check("what is known to live", status == 0 and
      "6 drawn,    3 noticed,   3 change nothing,   0 live" in out, out)
write("src/judge/a.c", SOURCE)
os.remove(os.path.join(tree, "build/mutate/results.jsonl"))
write("tests/c/test_a.c", "int y, z, w, next(int);\nint main(void) { return next(3) != 4; }\n")
status, out = called("run")
check("a test that fails in any case", status == 1 and "test_a fails without a fault" in out, out)
check("the tree is as it was", all(open(os.path.join(tree, path)).read() == text
                                   for path, text in sources.items()))
check("the copy too", open(os.path.join(tree, "build/mutate/tree/src/judge/a.c")).read() == SOURCE)

shutil.rmtree(top)
sys.exit(1 if failures else 0)
