"""The documents: the manual is up to date and well formed, and links and paths lead somewhere."""
import glob
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from checks import check, finish, FOPO

VOID = {"meta", "br", "hr", "img", "link", "input"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Page(html.parser.HTMLParser):
    """Finds elements that are not closed in order, and collects ids and links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.ids, self.links = [], [], [], []
        self.feed(text)
        self.faults += ["not closed: " + tag for tag in self.open]

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src"):
                self.links.append(value)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.faults.append("line %d: </%s> closes %s" % (self.getpos()[0], tag, self.open[-1:]))


def manual_is_up_to_date(folder):
    made = subprocess.run([FOPO, "scripts/tools/manual.lua", folder], text=True,
                          capture_output=True, timeout=60)
    check("the manual can be made", made.returncode == 0, made.stderr)
    names = sorted(os.listdir(folder))
    check("it has three forms", names == ["fopo.1", "manual.html", "manual.md"], names)
    check("docs/manual.md is up to date: run make doc",
          read("docs/manual.md") == read(folder + "/manual.md"))


def gpu_table_is_up_to_date():
    made = subprocess.run([FOPO, "scripts/bench/gpu_model.lua"], text=True, capture_output=True,
                          timeout=60)
    rows = made.stdout.splitlines()
    check("the model of a step has its rows", made.returncode == 0 and len(rows) == 2 + 10 * 6 + 2,
          made.stderr, len(rows))
    check("docs/gpu.md has the table of scripts/bench/gpu_model.lua",
          made.stdout in read("docs/gpu.md"))


def paper_report_is_up_to_date():
    """docs/paper has what the report says of results.csv and served.csv, and its figures."""
    page = read("docs/paper/README.md")
    figures = re.findall(r"^!\[.*\]\((.*)\.svg\)$", page, re.M)
    check("the report shows its figures", 5 <= len(figures) <= 10, figures)
    for figure in figures:
        xml.etree.ElementTree.parse("docs/paper/%s.svg" % figure)
    if shutil.which("gnuplot") is None:
        print("skip the paper's report: gnuplot is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([FOPO, "scripts/paper/report.lua", "docs/paper", "to=" + folder,
                               "notes=docs/paper/notes.md", "served=docs/paper/served.csv",
                               "figures=" + ",".join(figures)],
                              text=True, capture_output=True, timeout=120)
        check("the report can be made", made.returncode == 0, made.stderr)
        for name in ("README.md", "results.md", "results.csv", "verdicts.csv"):
            check("docs/paper/%s is up to date: run scripts/paper/report.lua" % name,
                  read("docs/paper/" + name) == read(os.path.join(folder, name)))


def pictures_are_up_to_date():
    """README's: what is served by the tables, the view from the runs that are kept, and a lesson as
    it is on a terminal now."""
    with tempfile.TemporaryDirectory() as folder:
        made = [subprocess.run(command + [folder], text=True, capture_output=True, timeout=120)
                for command in ([FOPO, "scripts/tools/pictures.lua"],
                                [sys.executable, "scripts/tools/lesson_picture.py"])]
        check("the pictures can be made", not any(one.returncode for one in made),
              *[one.stderr for one in made])
        names = sorted(os.listdir(folder))
        check("three pictures for each theme", len(names) == 6, names)
        for name in names:
            check("docs/%s is up to date: run make pictures" % name,
                  read("docs/" + name) == read(os.path.join(folder, name)))
            check("README shows docs/" + name, "docs/" + name in read("README.md"))
            xml.etree.ElementTree.parse("docs/" + name) # an error, if it is not well formed
    for run in ("head_tail", "reinforce"):
        last = read("docs/pictures/%s/history.jsonl" % run).rstrip().split("\n")[-1]
        took = "takes %.1f s" % float(re.search(r'"seconds": ([\d.]+)', last).group(1))
        check("README says how long the run of %s took" % run, took in read("README.md"), took)


def man_page_is_clean(path):
    for command in (["groff", "-ww", "-man", "-Tutf8", path], ["man", "--warnings", "-l", path]):
        if shutil.which(command[0]) is None:
            print("skip the man page by %s: it is not here" % command[0])
            continue
        done = subprocess.run(command, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
        check(command[0] + " reads the man page", done.returncode == 0 and done.stderr == "",
              done.stderr)
        check(command[0] + " shows the options", "--no-init" in done.stdout)


def man_page_has_sentences(page):
    """Each function is told by a sentence that is whole."""
    told = re.findall(r"^\.TP\n\.B ([^\n]*)\n([^\n]*)$", page.split(".SH FUNCTIONS")[1]
                      .split(".SH THE PROMPT")[0], re.M)
    check("the man page tells of the functions", len(told) > 150, len(told))
    for name, text in told:
        whole = text.endswith(".") and text.count("(") == text.count(")")
        check("a whole sentence on " + name, whole or text.startswith("{{"), text)


def page_can_be_searched(text):
    """The script asks nobody else, and every entry is one that it looks through; each task of
    docs/tasks.md has its functions."""
    script = re.search(r"<script>\n(.*?)</script>", text, re.S).group(1)
    check("the script asks no network", not re.search(r"https?:|fetch|XMLHttp|import", script))
    for name in set(re.findall(r'getElementById\("(\w+)"\)', script)):
        check("the page has what the script fills", 'id="%s"' % name in text, name)
    entries = len(re.findall(r'<section id="[\w-]+"><h3>', text))
    check("every entry is a section", entries == text.count("<h3>") > 150, entries)
    tasks = text.split("<p>By task</p>")[1].split("</nav>")[0]
    for title, name in (("I have a CSV", "data.read"), ("I want to serve it", "policy:save"),
                        ("It does not learn", "explain")):
        part = tasks.split("<summary>%s</summary>" % title)[1].split("</details>")[0]
        check("the task %s has %s" % (title, name), ">%s</a>" % name in part, part)


def variables_are_in_the_manual(page):
    for path in glob.glob("src/**/*.c*", recursive=True):
        for name in re.findall(r'getenv\("(\w+)"\)', read(path)):
            check("%s reads %s, the manual does not name it" % (path, name),
                  name in page or name == "HOME")


def page_is_well_formed(text):
    page = Page(text)
    check("the page is well formed", not page.faults, page.faults[:5])
    check("the page has each id once", len(page.ids) == len(set(page.ids)))
    lost = [link for link in page.links if link[0] != "#" or link[1:] not in page.ids]
    check("the page has no link to elsewhere and none to nowhere", not lost, lost[:5])
    check("a fault is seen", Page("<p><b>x</p>").faults)


def version_is_one():
    """What names the version of fopo names that of src/bind/bind.h, the newest of the changelog."""
    version = re.search(r'FOPO_VERSION "([\d.]+)"', read("src/bind/bind.h")).group(1)
    for path, pattern in (("README.md", r"(?m)^fopo ([\d.]+), "),
                          ("CHANGELOG.md", r"\n## \[(\d[\d.]*)\]"),
                          ("docs/systems.md", r"fopo-([\d.]+)\.tar"),
                          ("scripts/packaging/conda/recipe.yaml", r'version: "([\d.]+)"')):
        found = re.search(pattern, read(path)).group(1)
        check("%s has version %s, not %s" % (path, version, found), found == version)


def python_is_chosen():
    """Whatever calls Python calls the one that $PYTHON names."""
    for path in ["Makefile"] + sum((glob.glob(folder + "/**/*.*", recursive=True) for folder in
                                    ("lua", "scripts", "tests", "datasets")), []):
        if path.endswith((".md", ".py", ".csv")) or not os.path.isfile(path):
            continue
        for line in open(path, encoding="utf-8", errors="replace"):
            comment = re.match(r"\s*(#|--|/?\*) ", line)
            check("%s calls python3: %s" % (path, line.strip()),
                  comment or "PYTHON" in line or not re.search(r"\bpython3(?!-)", line))


def exists(path):
    """Whether a path of a document is there; it may hold * and one {a,b}."""
    braces = re.search(r"\{([^}]*)\}", path)
    if braces:
        return all(exists(path[:braces.start()] + part + path[braces.end():])
                   for part in braces.group(1).split(","))
    return bool(glob.glob(path))


def documents():
    return [path for path in sorted(sum(map(glob.glob, ("*.md", "docs/*.md", "datasets/*.md")), []))
            if path != "docs/manual.md"]


def names_are_in_the_source():
    """What the documents call fopo_... or FOPO_... is in the source, or in a recipe."""
    source = "".join(read(path) for folder in ("src", "tests/recipes") for path in
                     glob.glob(folder + "/**/*.*", recursive=True) if os.path.isfile(path))
    source += "".join(map(read, ["Makefile", "tests/run.sh", *glob.glob("tests/recipes/*/[lr]*")]))
    for document in documents():
        for name in set(re.findall(r"\b(?:fopo|FOPO)_\w+", read(document))):
            check("%s: no %s in the source" % (document, name), name in source)


def readme_leads_everywhere():
    for path in glob.glob("docs/*.md") + glob.glob("*.md"):
        check("README.md links to " + path, "](%s)" % path in read("README.md") or
              path == "README.md")


def paths_lead_somewhere():
    for document in documents():
        text = read(document)
        anchors = set(re.findall(r'id="([^"]+)"', text))
        for heading in re.findall(r"^#+ (.*)", text, re.M):
            anchors.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            if ":" in link:
                continue
            where = os.path.join(os.path.dirname(document), file) if file else document
            check("%s: the link %s" % (document, link), os.path.exists(where) and
                  (file != "" or anchor in anchors))
        if document == "CHANGELOG.md":
            continue # it may name what is gone
        for path in re.findall(r"`((?:src|lua|scripts|tests|docs|datasets)/[^`\s]*)`", text):
            examples = glob.glob("tests/recipes/*/" + path)
            check("%s: the path %s" % (document, path),
                  "NAME" in path or exists(path.split(":")[0]) or examples)


with tempfile.TemporaryDirectory() as manual:
    manual_is_up_to_date(manual)
    man_page_is_clean(manual + "/fopo.1")
    variables_are_in_the_manual(read(manual + "/fopo.1"))
    man_page_has_sentences(read(manual + "/fopo.1"))
    page_is_well_formed(read(manual + "/manual.html"))
    page_can_be_searched(read(manual + "/manual.html"))
gpu_table_is_up_to_date()
paper_report_is_up_to_date()
pictures_are_up_to_date()
names_are_in_the_source()
paths_lead_somewhere()
readme_leads_everywhere()
version_is_one()
python_is_chosen()
finish()
