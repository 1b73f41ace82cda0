"""The code in the documents. README's session is typed at a terminal and pasted as it stands, and
what comes must be what README shows. Every other block of code is run as well: a block of Lua as it
stands, the others as RUN says; NOT_RUN has the reasons."""
import os
import re
import subprocess
import sys
import tempfile

from checks import check, finish, folder, FOPO, said, same
from terminal import Program

PYTHON = sys.executable
TREE = os.getcwd()
PROMPT = "fopo>"

# What a newcomer's folder has: the program and the files of the repository, but nothing is written
# among them.
for name in ("datasets", "scripts", "docs"):
    os.symlink(os.path.join(TREE, name), os.path.join(folder, name))
os.symlink(FOPO, os.path.join(folder, "fopo"))
os.chdir(folder)


def read(path):
    with open(os.path.join(TREE, path), encoding="utf-8") as f:
        return f.read()


def blocks(document):
    """[(heading, number below it, language, text)] of the fenced blocks of a document."""
    found, heading, lines = [], "", iter(read(document).split("\n"))
    for line in lines:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("```"):
            text = "".join(iter_until_fence(lines))
            number = sum(one[0] == heading for one in found)
            found.append((heading, number, line[3:], text))
    return found


def iter_until_fence(lines):
    for line in lines:
        if line == "```":
            return
        yield line + "\n"


def run(command, **env):
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env})


def ran(name, command, *wanted):
    """Runs a command; it must succeed and print what is wanted."""
    done = run(command)
    check(name, done.returncode == 0 and all(w in done.stdout for w in wanted), command,
          done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


def lua(name, before, code, after=""):
    return ran(name, [FOPO, "--no-init", "-e", before + "\n" + code + "\n" + after])


# ---- README's session

def compare(what, shown, wanted):
    shown, wanted = said(shown), said(wanted)
    check(what, len(shown) == len(wanted) and all(map(same, shown, wanted)),
          *["%s\n  README: %s" % pair for pair in zip(shown, wanted) if not same(*pair)][:5],
          "\n".join(shown))


def turns(session):
    """[(what is typed, [the lines that come])]; the first is the start of the program."""
    out = []
    for line in session.rstrip("\n").split("\n"):
        if line.startswith(("$ ", PROMPT + " ")):
            out.append((line.split(" ", 1)[1], []))
        else:
            out[-1][1].append(line)
    return out


def program(**env):
    home = tempfile.mkdtemp()
    return Program(["./fopo"], rows=200, cols=80, HOME=home, XDG_CONFIG_HOME=home,
                   INPUTRC="/dev/null", FOPO_HISTORY="/dev/null", **env)


def last_line(p):
    return p.screen.text().rstrip().split("\n")[-1]


def session_is_typed(session):
    p = program()
    check("the prompt", p.wait(lambda _: last_line(p) == PROMPT), p.screen.text())
    lines = p.screen.text().rstrip().split("\n")[:-1]
    for typed, wanted in turns(session):
        if typed == "./fopo":
            compare("the beginning of the session", lines, wanted)
            continue
        p.screen.resize(200, 80)
        p.send(typed + "\r")
        p.wait(lambda text: text.startswith(typed) and last_line(p) == PROMPT, 60)
        compare("what comes after %r" % typed, p.screen.text().rstrip().split("\n")[1:-1], wanted)
    p.send("\x04")
    check("its end", p.ended() == 0)
    p.close()


def session_is_pasted(session):
    """With its prompts and its output, as text. The portable kernels give it too."""
    p = program(FOPO_ISA="portable")
    p.wait(lambda _: last_line(p) == PROMPT)
    p.send("\x1b[200~" + session.rstrip("\n") + "\x1b[201~\r")
    p.wait(lambda text: "left out, as output)" in text and last_line(p) == PROMPT, 120)
    text = p.screen.text()
    wanted = session[session.index(PROMPT):].rstrip("\n").split("\n")
    shown = text[text.rindex(wanted[0]):].rstrip().split("\n")
    check("what is left out is said", "lines without a prompt left out" in shown[-2], text)
    compare("what comes of the pasted session", shown[:-2], wanted)  # then the prompt
    p.close()


def readme_session():
    text = next(b[3] for b in blocks("README.md") if b[3].startswith("$ ./fopo"))
    check("README's session is long enough to be one", len(turns(text)) > 8)
    session_is_typed(text)
    check("a changed number is seen", not same("reward 0.3892", "reward 0.3992"))
    check("a changed count is seen", not same("332 train", "333 train"))
    check("a changed word is seen", not same("reward 0.3892", "rewards 0.3892"))
    os.remove(os.path.join(folder, "policy.npz"))
    session_is_pasted(text)
    check("the policy is saved", os.path.exists(os.path.join(folder, "policy.npz")))


def readme_numpy(code, wanted):
    """The policy of the session, in NumPy."""
    if run([PYTHON, "-c", "import numpy"]).returncode != 0:
        print("skip the policy in NumPy: %s has no numpy" % PYTHON)
        return
    shown = ran("README's NumPy", [PYTHON, "-c", code]).rstrip().split("\n")
    compare("what README's NumPy prints", shown, wanted.rstrip().split("\n"))
    session = next(b[3] for b in blocks("README.md") if b[3].startswith("$ ./fopo"))
    check("it is what the session recommends",
          all(re.search(r"(?m)^ .* %s +%s " % tuple(line.split()), session)
              for line in wanted.rstrip().split("\n")), wanted)


# ---- the other blocks

def make_targets(text):
    """Lines of make: the targets exist. What they do is what all other tests are about."""
    rules = set(re.findall(r"(?m)^([a-z-]+):", read("Makefile")))
    for line in text.split("\n"):
        words = line.split("#")[0].split()
        if "make" in words:
            for word in words[words.index("make") + 1:]:
                check("make %s of a document" % word, "=" in word or word in rules)


def packages(text, which):
    listed = re.search(r"(?ms)^%s='\n(.*?)'" % which, read("scripts/tools/setup.sh")).group(1)
    names = [line.split()[0] for line in listed.split("\n") if line]
    check("README's packages are those of scripts/tools/setup.sh", text.split() == names,
          " ".join(names))


def demo_table(text):
    """A measurement of 20 seconds; test_surface.lua runs the script on a small world."""
    demo = read("scripts/examples/demo.lua")
    for line in text.split("\n")[4:-1]:
        name = re.split("  +", line)[0]
        check("make demo has a row %s" % name, '"%s"' % name in demo)


def in_recipes(text):
    """docs/extending.md shows what tests/recipes holds, and test_recipes.sh builds that, or what
    scripts/examples/methods holds, which tests/lua/test_own.lua runs."""
    lines = [re.sub(r"[ \\]+", " ", line).strip() for line in text.split("\n") if line.strip()]
    folders = [os.path.join(TREE, f) for f in ("tests/recipes", "scripts/examples/methods")]
    for path, _, files in (found for folder in folders for found in os.walk(folder)):
        for name in files:
            have = re.sub(r"[ \\]+", " ", read(os.path.join(path, name)))
            if all(line in have for line in lines):
                return
    check("a recipe or an example of methods holds what docs/extending.md shows", False, text)


NAMES = """
f = io.open("named.csv", "w")
f:write("user,item\\n")
for line in io.lines("datasets/sample.csv") do
  f:write((line:gsub("user001", "ann"):gsub("item012", "Alien"):gsub("item274", "Brazil")), "\\n")
end
f:close()
s = data.read("named.csv"):sessions{min_items = 10, valid = 0.01}
beta = embed.svd(s.train, {dim = 8})
graph = index.hnsw(beta)
t = trainer{policy = policy.linear{items = beta}, data = s.train}
t:run{steps = 20, view = false, every = 100}
pi = t.policy
"""


def serving(text):
    """At the prompt values print themselves; here each line is an expression that must be one."""
    code = re.sub(r"(?m)^(pi:.*)$", r"print(\1)", re.sub(r" *--.*", "", text))
    out = lua("docs/serving.md, at the prompt", NAMES, code,
              "r = pi:recommend(7, 5) print(r[1].item, r[1].name, r[1].score, r[1].probability)")
    check("it prints tables", out.count("rank  item") >= 5 and "contribution" in out, out)


def provenance(text):
    lua("a policy", NAMES, "", 'evaluate(pi, s.test); pi:save("policy.npz")')
    ran("docs/serving.md, the file", ["bash", "-ec", text], "named.csv", "trained: 20 steps",
        "reward 0.")


def new_rows(text):
    out = lua("docs/serving.md, new rows", NAMES + """
f = io.open("new-rows.csv", "w")
f:write("user,item\\nann,Casablanca\\nuser002,Casablanca\\nzoe,Alien\\n")
f:close()
os.execute("cp named.csv policy-data.csv")
""", text, 'print(note) print(#again:recommend("zoe", 5), again:similar("Casablanca", 3))')
    check("new rows are folded in", "items 1 are new" in out and "by the cosine" in out, out)


def recommend_file(text):
    lua("a policy and users", NAMES, "",
        'pi:save("policy.npz") os.rename("named.csv", "users.csv")')
    ran("docs/serving.md, from the shell", ["bash", "-ec", text], "")
    check("a CSV for all users", os.path.getsize(os.path.join(folder, "out.csv")) > 1000)


def numpy_recipe(text):
    """The file of the step before; $PYTHON stands for python3."""
    if run([PYTHON, "-c", "import numpy"]).returncode == 0:
        ran("docs/serving.md, NumPy", ["bash", "-ec", text.replace("python3", PYTHON)], "ann,1,")


def server_recipe(text):
    if run([PYTHON, "-c", "import numpy"]).returncode == 0:
        ran("docs/serving.md, a server", ["bash", "-ec", text.replace("python3", PYTHON)],
            '{"best": [{"item": ', '"unknown": 0}')


def paper_data(text):
    """full_a.csv.gz is Twitch's; here it is a made file of its form."""
    lua("docs: data of Twitch's form", """
f = io.popen("gzip -1 > full_a.csv.gz", "w")
for u = 1, 1300 do
  for j = 1, 21 do
    f:write(("%d,%d,streamer%d,1,2\\n"):format(u, u * j, (u + j * j * 17) % 1500))
  end
end
f:close()""", text, 'assert(items.cols == 1000 and s.train.n == 1040)')


def shared_out(text):
    """One rank has all contexts; test_ranks.py shares them out to several."""
    lua("docs/ranks.md, contexts shared out", """
s = fopo.data.synthetic{users = 300, items = 4000, seed = 1}:sessions{}
items = fopo.embed.svd(s.train, {dim = 8})""", text,
        "t:run{steps = 2, view = false}\nassert(t.data.here == s.train.n)")


def data_shared_out(text):
    """One rank has all users; test_ranks.py shares them out to several."""
    lua("docs/ranks.md, data shared out", """
local made = fopo.data.synthetic{users = 300, items = 4000, seed = 1}
local days = {io.open("monday.csv", "w"), io.open("tuesday.csv", "w")}
for day = 1, 2 do
  days[day]:write("user,item\\n")
  for u = day, 300, 2 do
    for _, i in ipairs(made:row(u):totable()[1]) do days[day]:write(u, ",", i, "\\n") end
  end
  days[day]:close()
end""", text, "assert(d.n_users == 300 and d.here == 300 and t.data.here == s.train.n)")


def dealt_out(text):
    """One rank holds all of the catalogue; test_ranks.py deals it out to several."""
    lua("docs/ranks.md, a catalogue dealt out", """
s = fopo.data.synthetic{users = 300, items = 4000, seed = 1}:sessions{}
items = fopo.embed.svd(s.train, {dim = 8})""", text, "t:run{steps = 2, view = false}")


def features(text):
    """Each of the 95 rows has a command or a reason. What is Lua works after the start, one line
    after the other; targets of make, tests and scripts are there."""
    rows = re.findall(r"(?m)^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", read("docs/features.md"))
    check("docs/features.md has its rows", [int(row[0]) for row in rows] == list(range(1, 96)),
          [row[0] for row in rows])
    lines = []
    for number, _, command in rows:
        if command.startswith("left out: "):
            continue
        codes = re.findall(r"`([^`]+)`", command)
        check("a command in row %s of docs/features.md" % number, codes, command)
        for code in codes:
            test = re.fullmatch(r"make test T=(\w+)", code)
            if test:
                check("row %s: %s" % (number, code), any(os.path.exists(os.path.join(
                    TREE, path % test.group(1))) for path in ("tests/%s.py", "tests/c/%s.c")))
            elif code.startswith("make"):
                make_targets(code)
            elif not code.startswith(("!", ":", "./fopo ")):  # tests type them; a path is looked up
                lines.append(code)
    lua("docs/features.md", text, "\n".join(lines))


def the_script(text):
    ran("docs/tasks.md, " + text.split()[1], ["bash", "-ec", text])


def tasks_are_a_screen():
    """Each task is read without turning a page."""
    for task in re.split(r"\n## ", read("docs/tasks.md"))[1:]:
        check("docs/tasks.md is a screen: " + task.split("\n")[0], task.count("\n") <= 24)


RUN = {
    ("README.md", "Build it and try it", 0): make_targets,
    ("README.md", "Build it and try it", 1):
        lambda text: ran("README's quickstart", ["bash", "-ec", text.rstrip() + " 8 5"],
                         "SNIS, mixture", "items for user user", "rank  item"),
    ("README.md", "A session", 0): lambda text: None,  # readme_session
    ("README.md", "The policy in NumPy", 0):
        lambda text: readme_numpy(text, blocks_below("README.md", "The policy in NumPy")[1]),
    ("README.md", "The policy in NumPy", 1): lambda text: None,  # compared there
    ("README.md", "The four estimators", 0): demo_table,
    ("README.md", "Other systems", 0): lambda text: packages(text, "build"),
    ("README.md", "Other systems", 1): lambda text: packages(text, "tests"),
    ("CONTRIBUTING.md", "Build and test", 0): make_targets,
    ("docs/serving.md", "At the prompt", 0): serving,
    ("docs/serving.md", "The file of a policy", 0): provenance,
    ("docs/serving.md", "New rows", 0): new_rows,
    ("docs/serving.md", "All users, from the shell", 0): recommend_file,
    ("docs/serving.md", "In NumPy", 0): numpy_recipe,
    ("docs/serving.md", "A server", 0): server_recipe,
    ("docs/serving.md", "With hnswlib", 0):
        lambda text: lua("docs/serving.md, hnswlib", NAMES, text),
    ("docs/ranks.md", "A catalogue dealt out", 0): dealt_out,
    ("docs/ranks.md", "Contexts shared out", 0): shared_out,
    ("docs/ranks.md", "Data shared out", 0): data_shared_out,
    ("docs/features.md", "What is there, and what is not", 0): features,
    ("docs/tasks.md", "I want to compare with EASE and others", 0): the_script,
    ("docs/tasks.md", "I want to serve it", 1): the_script,
    ("docs/tasks.md", "I have several machines", 0): make_targets,
    ("docs/tasks.md", "I want the paper's experiments", 0): make_targets,
    ("datasets/README.md", "Data", 0): paper_data,
}
NOT_RUN = {
    "docs/defaults.md": "minutes, on files of others; test_served.py runs the script",
    "docs/speed.md": "minutes on a quiet machine, with PyTorch, FAISS and data sets of others",
    ("docs/slates.md", "What they earn over time", 0): "minutes: a study",
    ("docs/slates.md", "GoodReads at 1 %, and Twitch and MovieLens at full size", 0):
        "minutes: a study",
    ("docs/ranks.md", "How it ends", 0): "tests/ranks_hosts.py gives mpirun the same",
    ("docs/gpu.md", "Trying it on a machine", 0): "a machine with a card; nightly/bare",
    ("docs/gpu.md", "The first minutes", 0): "a machine with a card; nightly/lease rehearses it",
    ("docs/gpu.md", "The first minutes", 1): "its result",
    ("docs/gpu.md", "A head in bfloat16", 0): "a study of half a minute",
    ("docs/gpu.md", "What a step should take", 0): "test_docs.py compares its table",
    ("docs/ranks.md", "Starting", 0): "several machines; test_ranks.py starts ranks on this one",
}


def blocks_below(document, heading):
    return [text for h, _, _, text in blocks(document) if h == heading]


def documents():
    return ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "datasets/README.md"] + [
        "docs/" + name for name in sorted(os.listdir("docs"))
        if name.endswith(".md") and name != "manual.md"]  # its examples: test_surface.lua


def every_block():
    seen = set()
    for document in documents():
        for heading, number, language, text in blocks(document):
            key = (document, heading, number)
            seen.add(key)
            if document == "docs/extending.md":
                in_recipes(text)
            elif document not in NOT_RUN and key not in NOT_RUN:
                name = "%s, %s: block %d" % (document, heading, number + 1)
                known = key in RUN or language == "lua"
                check(name + " is neither run nor named in tests/test_snippets.py", known, text)
                if key in RUN:
                    RUN[key](text)
                elif language == "lua":  # complete as it stands
                    lua(name, "", text)
            for path in re.findall(r"\bscripts/[\w/]+\.\w+", text):
                check("%s: %s" % (document, path), os.path.exists(path))
    named = set(RUN) | {key for key in NOT_RUN if isinstance(key, tuple)}
    check("every block that is named is there", seen >= named, named - seen)


def names_in_the_text():
    """What the text calls module.function or object:method exists."""
    modules = "array|baseline|data|embed|experiment|gradient|index|optim|ope|policy|proposal|" \
              "report|reward|schedule|view"
    functions, methods = set(), set()
    for document in documents():
        if document == "docs/extending.md":
            continue  # it names what its recipes add
        for code in re.findall(r"`([^`\n]+)`", read(document)):
            functions |= {"fopo." + name for name in re.findall(
                r"(?<![\w/.:-])(?:fopo\.)?((?:%s)\.[a-z]\w*)" % modules, code)}
            functions |= set(re.findall(r"(?<![\w/.-])fopo\.[a-z]\w*", code))
            methods |= set(re.findall(
                r"\b(?:pi|t|d|s|ix|e|g|o|job|world|policy|baseline):([a-z]\w*)", code))
    files = ("lua", "csv", "npz", "npy", "so")
    functions = {name for name in functions if name.split(".")[-1] not in files}
    code = "for name in (%r):gmatch'%%S+' do local ok, f = pcall(load('return ' .. name)) " \
           "if not ok or f == nil then print(name) end end " % " ".join(sorted(functions))
    code += "local known = {} for name in pairs(require 'fopo.base.define'.entries) do " \
            "known[name:match':(.*)$' or ''] = true end for name in (%r):gmatch'%%S+' do " \
            "if not known[name] then print(':' .. name) end end" % " ".join(sorted(methods))
    unknown = lua("names", "", code)
    check("what the documents name exists", unknown == "", unknown)
    check("there are names", len(functions) > 30 and len(methods) > 10, functions, methods)


def calls_in_the_text():
    """Whole calls of a method in the text, such as `t:run{epochs = 20}`, can be made."""
    text = "".join(read(document) for document in documents() if document != "CHANGELOG.md")
    calls = set(re.findall(
        r"`((?:job = )?(?:t|pi|s|d):\w+(?:\{[^.}`\n]*\}|\(\"[^\"`\n]*\"\)))`", text))
    check("there are calls", len(calls) > 4, calls)
    out = lua("the calls of the text", NAMES, "d = data.read('named.csv') job = nil\n" + "\n".join(
        sorted(calls, key=lambda call: (call[:3] == "job", call))), "job:wait() print(t.step)")
    check("they train", re.search(r"\n[1-9]\d\d+\n$", out), out)


readme_session()
every_block()
tasks_are_a_screen()
calls_in_the_text()
names_in_the_text()
finish()
