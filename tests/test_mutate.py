"""The list of deliberate faults: every entry applies, and what is wrong with an entry is said. The
machinery, on a small tree of its own: a fault is noticed, another lives, and nothing of the tree
changes."""
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
from checks import check, failures  # noqa: E402

# ---- the list ----
faults = mutate.read_lists(os.path.join(mutate.TREE, "tests/mutate"))
said = mutate.complaints(faults, mutate.TREE)
check("every fault applies", not said, *said)
check("at least 120 faults", len(faults) >= 120, len(faults))
folders = {f["file"].split("/")[1] for f in faults}
wanted = {name for name in os.listdir(os.path.join(mutate.TREE, "src"))
          if os.path.isdir(os.path.join(mutate.TREE, "src", name))}
check("faults in every folder of src", wanted <= folders, sorted(wanted - folders))
lives = [f["name"] for f in faults if f["lives"]]
check("one in twenty may live", 20 * len(lives) <= len(faults), lives)

# ---- entries that are wrong, and a small tree ----
top = tempfile.mkdtemp()
tree = os.path.join(top, "tree")


def write(path, text):
    path = os.path.join(tree, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def entry(name="a", file="src/a.c", breaks="something", near="test_a", old="x + 1", new="x + 2"):
    return "= %s %s %s\nbreaks %s\n- %s\n+ %s\n" % (name, file, near, breaks, old, new)


def called(*arguments):
    """Its exit status and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = mutate.main([*arguments, "--tree", tree])
    return status, out.getvalue()


write("src/a.c", "int next(int x) { return x + 1; }\nint twice(int x) { return 2 * x; }\n"
      "int unused(int x) { return x - 1; }\n")
write("tests/c/test_a.c", "")
for text, wanted in ((entry(old="x + 7"), "found 0 times"), (entry(old="return"), "found 3 times"),
                     (entry(new="x + 1"), "changes nothing"),
                     (entry(near="test_b"), "no test test_b"),
                     (entry(breaks=""), "has no breaks"), (entry() + entry(), "there twice"),
                     (entry(file="src/b.c"), "src/b.c"), ("= a\nat src/a.c\n", "a line is none of"),
                     ("- x\n", "before the first fault")):
    write("tests/mutate/list.txt", text)
    status, out = called("check")
    check("said: " + wanted, status == 1 and wanted in out, out)

write("tests/mutate/list.txt", entry() + entry("b", old="2 * x", new="3 * x")
      + entry("c", old="x - 1", new="x - 2") + entry("d", old="x - 1", new="x - 3")
      + "lives nobody calls it\n" + entry("e", old="2 * x", new="2 * x; for (;;)"))
# test_a calls next, test_b calls both, and waits for ever where the loop is
write("Makefile", """OUT := build/release
all test-programs: $(OUT)/test_a $(OUT)/test_b
.SECONDARY:
$(OUT)/%.o: %.c
	mkdir -p $(@D); cp $< $@
$(OUT)/test_%: $(OUT)/src/a.o
	case $* in a) echo 'grep -q "x + 1" $<' ;; b) echo '! grep -q "for" $< || sleep 60' ; \\
	  echo 'grep -q "2 [*] x" $<' ;; esac > $@; chmod +x $@
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
subprocess.run(["git", "init", "-q", tree], check=True)
sources = {path: open(os.path.join(tree, path)).read() for path in ("src/a.c", "tests/run.sh")}
status, out = called("run", "--limit", "26")
lines = {line.split()[0]: line for line in out.split("\n") if line.startswith("  ")}
check("the nearest notices", "noticed by test_a" in lines["a"], out)
check("a distant one notices", "noticed by test_b" in lines["b"], out)
check("one lives", "LIVES, 2 tests asked" in lines["c"] and status == 1, out)
check("one lives with a reason", "nobody calls it" in lines["d"], out)
check("a test that hangs notices", "noticed by test_b" in lines["e"], out)
check("the sum", "5 of 5 faults tried, 3 noticed, 2 live, 1 of these without a reason" in out, out)
status, out = called("run", "a")
check("what is known is not run again", "(known)" in out and status == 0, out)
write("tests/c/test_b.c", "/* another */")
status, out = called("run", "a", "c", "--nightly")
check("other tests: what lives is", out.count("(known)") == 1 and status == 1
      and out.endswith("noticed by a test | 2 | 1\n"), out)
write("tests/c/test_a.c", "/* skipped */")
makefile = open(os.path.join(tree, "Makefile")).read()
write("Makefile", makefile.replace("""echo 'grep -q "x + 1" $<'""", "echo exit 77"))
status, out = called("run", "c", "--again")
check("a nearest test that is skipped", "not decided" in out
      and "0 of 1 faults tried" in out, out)
write("Makefile", makefile)
write("tests/c/test_a.c", "/* fails without a fault, too */")
write("Makefile", makefile.replace("x + 1", "x + 0"))
status, out = called("run", "a", "--again")
check("a test that fails in any case", status == 1 and "test_a fails without a fault" in out, out)
check("the tree is as it was", all(open(os.path.join(tree, path)).read() == text
                                   for path, text in sources.items()))
check("the copy too", open(os.path.join(tree, "build/mutate/tree/src/a.c")).read()
      == sources["src/a.c"])
write("src/a.c", sources["src/a.c"].replace("x + 1", "x+1"))
status, out = called("run", "a")
check("an entry that no longer applies", status == 1 and "found 0 times" in out, out)

shutil.rmtree(top)
sys.exit(1 if failures else 0)
