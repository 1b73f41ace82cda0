"""Deliberate faults: where a source can be changed, what is spared, and the machinery on a small
tree of its own: a fault is noticed, another lives, and nothing of the tree changes."""
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

if shutil.which("git") is None:
    print("skip: the list of sources is that of git, which is not here")
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
  return a && b ? sum - n : n;
}
"""
places = [(kind, TEXT[at:at + length].strip(), new)
          for kind, at, length, new in operators.found(TEXT)]
check("the places", sorted(places) == sorted([
    ("statement dropped", "int sum = 0;", "")][1:] + [
    ("constant", "0", "1"), ("constant", "1", "2"), ("comparison", "<", "<="),
    ("sign", "+=", "-="), ("sign", "*", "/"), ("constant", "2", "3"),
    ("statement dropped", "g(sum);", ""), ("logic", "&&", "||"), ("sign", "-", "+")]), places)
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
tests = mutate.tests_of(mutate.TREE)
check("the nearest tests", mutate.near(fault, tests, ["test_ope"])[:2] ==
      ["test_ope", "test_measures"])
check("every nearest test is there", not [t for near in mutate.NEAR.values() for t in near.split()
                                          if t not in tests])

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


SOURCE = "int next(int x) { return x + y; }\nint twice(int x) { return z * x; }\n" \
         "int unused(int x) { return x - w; }\n"
write("src/judge/a.c", SOURCE)
write("tests/c/test_a.c", "")
subprocess.run(["git", "init", "-q", tree], check=True)
for text, wanted in (("src/judge/a.c | sign | no | x\n", "has no fault"),
                     ("src/judge/b.c | sign | no | x\n", "src/judge/b.c"),
                     ("src/judge/a.c | sign | no\n", "not file | operator")):
    write("tests/mutate/survivors.txt", text)
    status, out = called("check")
    check("said: " + wanted, status == 1 and wanted in out, out)
write("tests/mutate/survivors.txt", "# none\n")
status, out = called("list", "judge")
check("the places of a file", status == 0 and out.split() == ["src/judge/a.c", "5"], out)
status, out = called("list", "nowhere")
check("a folder that is not there", status == 1 and "src/ has no folder nowhere" in out, out)

# test_a calls next, test_b calls both and waits for ever where z is divided; "return x;" is no
# program
write("Makefile", """OUT := build/release
all test-programs: $(OUT)/test_a $(OUT)/test_b
.SECONDARY:
$(OUT)/%.o: %.c
	mkdir -p $(@D); ! grep -q "return x;" $< && cp $< $@
$(OUT)/test_%: $(OUT)/src/judge/a.o
	case $* in a) echo 'grep -q "x + y" $<' ;; b) echo '! grep -q "z / x" $< || sleep 60' ; \\
	  echo 'grep -q "z [*] x" $<' ;; esac > $@; chmod +x $@
""")
write("tests/c/test_b.c", "")
write("tests/run.sh", """cd "$(dirname "$0")/.."; out=$1; shift; passed=0 failed=0 skipped=0
for t; do
  timeout ${FOPO_TEST_LIMIT:-9} sh "$out/$t"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) echo "  FAIL  $t"; failed=$((failed + 1)) ;;
  esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
""")
sources = {path: open(os.path.join(tree, path)).read()
           for path in ("src/judge/a.c", "tests/run.sh")}
status, out = called("run", "--limit", "26")
lines = {line.split(":")[1][0]: line for line in out.split("\n") if " s  " in line}
check("the nearest notices", "noticed by test_a" in lines["1"], out)
check("a distant one that hangs notices", "noticed by test_b" in lines["2"], out)
check("one lives", "LIVES, 2 tests asked" in lines["3"] and status == 1 and
      "lives: judge/a.c:3 sign: - -> +" in out, out)
check("what is no program is not tried", "3 faults tried, 2 noticed, 1 live" in out, out)
status, out = called("run", "judge", "--count", "1", "--seed", "2")
check("what is known is not run again", out.count("(known)") == 1, out)
write("tests/c/test_b.c", "/* another */")
status, out = called("run", "--nightly")
check("other tests: what lives is", out.count("(known)") == 2 and status == 1
      and out.endswith("a test notices 95 % | 3 | 1\n"), out)
write("tests/mutate/survivors.txt",
      "src/judge/a.c | sign | int unused(int x) { return x - w; } | nobody calls it\n")
status, out = called("run")
check("what is known to live is not drawn", status == 0 and "2 faults tried, 2 noticed" in out, out)
makefile = open(os.path.join(tree, "Makefile")).read()
write("src/judge/a.c", SOURCE + "\n")
os.remove(os.path.join(tree, "build/mutate/results.jsonl"))
write("tests/mutate/survivors.txt",
      open(os.path.join(tree, "tests/mutate/survivors.txt")).read() +
      "src/judge/a.c | sign | int twice(int x) { return z * x; } | for this one run\n")
write("Makefile", makefile.replace("""echo 'grep -q "x + y" $<'""", "echo exit 77"))
status, out = called("run", "--limit", "26")
check("a nearest test that is skipped decides nothing", "0 faults tried" in out and
      "not decided" in out, out)
write("Makefile", makefile.replace("x + y", "x + nothing"))
write("tests/c/test_a.c", "/* fails without a fault, too */")
status, out = called("run")
check("a test that fails in any case", status == 1 and "test_a fails without a fault" in out, out)
write("src/judge/a.c", SOURCE)
check("the tree is as it was", all(open(os.path.join(tree, path)).read() == text
                                   for path, text in sources.items()))
check("the copy too", open(os.path.join(tree, "build/mutate/tree/src/judge/a.c")).read()
      == SOURCE + "\n")

shutil.rmtree(top)
sys.exit(1 if failures else 0)
