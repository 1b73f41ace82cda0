"""Lines and branches of src/ that the tests have reached, by gcov: a table by folder, the files of
WANTED, and for files named on the command line every line with a branch that was not taken.

A branch is one way out of a condition, as the compiler sees it. gcov also counts every call that
may throw an exception of C++ as a branch, one way on and one to the handler: both ways are left
out, as no condition of the source is behind them.

usage: coverage.py BUILD_FOLDER [src/FILE ...]"""
import collections
import glob
import json
import os
import subprocess
import sys

# Files whose faults lose data: the goal is 95 % of their branches.
WANTED = ["src/core/replace.c", "src/core/npy.c", "src/core/npz.c",
          "src/mips/index_hnsw.cc", "src/data/text.c",
          "src/data/read/table.c", "src/data/read/table_read.c", "src/data/read/table_chunks.c",
          "src/data/read/npz.c", "src/data/read/mtx.c",
          "src/data/logs/vw.c", "src/data/json_walk.c", "src/data/logs/dsjson.c",
          "src/train/checkpoint.c", "src/train/checkpoint_save.c", "src/train/checkpoint_resume.c"]
LEAST = 95.0


def reports(out):
    """What gcov says of each object: its files."""
    notes = sorted(glob.glob(out + "/src/**/*.gcda", recursive=True))
    for first in range(0, len(notes), 40):
        command = ["gcov", "--json-format", "--stdout", "--branch-probabilities"]
        said = subprocess.run(command + notes[first:first + 40], capture_output=True, text=True,
                              check=True)
        for line in said.stdout.split("\n"):
            if line.startswith("{"):
                yield from json.loads(line)["files"]


def conditions(branches):
    """The branches without the pairs of calls that may throw."""
    throws = [branch["throw"] for branch in branches] + [False]
    return [b for i, b in enumerate(branches) if not throws[i] and not throws[i + 1]]


class File:
    def __init__(self):
        self.lines, self.branches = {}, collections.defaultdict(dict)

    def add(self, file):
        seen = collections.Counter()
        for line in file["lines"]:
            n = line["line_number"]
            self.lines[n] = self.lines.get(n, 0) + line["count"]
            for branch in conditions(line["branches"]):
                key = line.get("function_name", ""), seen[n]
                seen[n] += 1
                self.branches[n][key] = self.branches[n].get(key, 0) + branch["count"]

    def figures(self):
        """lines, those reached, branches, those taken"""
        taken = [count > 0 for line in self.branches.values() for count in line.values()]
        return (len(self.lines), sum(c > 0 for c in self.lines.values()), len(taken), sum(taken))


def share(part, all_of):
    return 100.0 * part / all_of if all_of else 100.0


def row(name, figures):
    lines, reached, branches, taken = figures
    print("%-34s %7d %7.1f %% %8d %7.1f %%" % (name, lines, share(reached, lines), branches,
                                               share(taken, branches)))


def main(out, asked):
    files = collections.defaultdict(File)
    for file in reports(out):
        name = os.path.relpath(os.path.join(os.getcwd(), file["file"]))
        if name.startswith("src/") and not name.endswith(".h"):
            files[name].add(file)
    if not files:
        print("%s holds no counts: make coverage" % out)
        return 1
    folders = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, file in files.items():
        for top in (name.split("/")[1], "all"):
            folders[top] = [a + b for a, b in zip(folders[top], file.figures())]
    print("%-34s %7s %9s %8s %9s" % ("", "lines", "reached", "branches", "taken"))
    for name in sorted(folders, key=lambda n: (n == "all", n)):
        row(name, folders[name])
    print()
    for name in WANTED:
        row(name, files[name].figures())
    for name in asked:
        print("\n%s: not taken" % name)
        with open(name, encoding="utf-8") as f:
            text = f.read().split("\n")
        for n, branches in sorted(files[name].branches.items()):
            missed = sum(count == 0 for count in branches.values())
            if missed:
                print("%6d  %d of %d  %s" % (n, missed, len(branches), text[n - 1].strip()))
    below = [name for name in WANTED if share(*files[name].figures()[:1:-1]) < LEAST]
    if below:
        print("\nbelow %.0f %% of the branches: %s" % (LEAST, " ".join(below)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
