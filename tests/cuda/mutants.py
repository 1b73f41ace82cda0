"""Faults put into a copy of the kernels, one at a time, and who notices them.

usage: mutants.py [--seconds N] [--seed N] [--only KIND,KIND] [--files NAME,NAME] [--list]
                  [--skip N]

Each barrier, fence and wait is taken away, each mask loses a lane, each bound moves by one, each
rounding for an alignment goes. Three judges run the tests of the changed file:
  watch      the build in which each access is watched (races.cc), one schedule
  schedules  the plain emulation, in three schedules that a seed draws
  ascending  the plain emulation, threads and blocks in ascending order
A judge says "told" if the emulation ended the program with a sentence, "answer" if a test's result
was wrong, "hung" if it took too long, "-" if nothing was noticed. The last line counts them; a
mutant that no judge noticed fails the run, unless tests/cuda/needless.txt has it with a reason.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CUDA = "src/device/cuda"
OUT = os.path.join(TOP, "build/release")
COPY = os.path.join(TOP, "build/mutants")
WATCH = "-fsanitize=thread,alignment,bounds,shift,integer-divide-by-zero"

# What is changed: kind, the text, what stands there instead.
CHANGES = [
    ("barrier", r"__syncthreads\(\);", ";"),
    ("barrier", r"__syncwarp\([^;]*\);", ";"),
    ("fence", r"__threadfence\(\);", ";"),
    ("fence", r"\bwait_for\(.*\);", ";"),
    ("barrier", r"wait_copies<\d>\(\);", ";"),
    ("mask", r"0xffffffffu", "0x7fffffffu"),
    ("align", r"all % 16 == 0 \? 16 : all % 8 == 0 \? 8 : ", "all % 4 == 0 ? 16 : "),
    ("align", r"\(most \+ 3\) / 4 \* 4", "most"),
    ("align", r"\+ 3\) / 4 \* 4", "+ 0)"),
    ("align", r"\+ 255\) / 256 \* 256", "+ 3) / 4 * 4"),
    ("align", r"rounded_up\(k\.H, FOPO_ROWS_PAD\)", "k.H"),
    ("align", r"rounded_up\(ceil_div\(k\.H, wanted\), CHUNK_STEP\)", "ceil_div(k.H, wanted)"),
    ("bound", r"(?<=if \(i )>=(?= (n|B|k\.B|B \* \w+|k\.B \* [\w.]+)\b)", ">"),
    ("bound", r"(?<=if \(j )>=(?= cols)", ">"),
    ("bound", r"(?<=if \(i )<(?= n\b)", "<="),
    ("bound", r"(?<=; [isjwgb] )<(?=[^;]+; [isjwgb] \+= (blockDim\.x|WARP|step|THREADS))", "<="),
    ("bound", r"(?<=; at )<(?= end; at \+=)", "<="),
    ("bound", r"(?<=if \(at )>=(?= n\))", ">"),
    ("bound", r"(?<=\bat )<(?= L\b)", "<="),
    ("bound", r"(?<=item_of\(i\) )<(?= items)", "<="),
    ("bound", r"(?<=query_of\(i\) )<(?= queries)", "<="),
    ("bound", r"(?<= \? row )<(?= items)", "<="),
    ("bound", r"(?<=\bi )<(?= w\.ld_half &&)", "<="),
    ("bound", r"(?<=if \(place )<(?= CAPACITY)", "<="),
    ("bound", r"(?<=if \(place )>=(?= LIST)", ">"),
    ("bound", r"(?<=[ (]j )<(?= count &&)", "<="),
    ("bound", r"(?<== place )<(?= end \?)", "<="),
    ("bound", r"(?<=if \(b )>=(?= w\.B\))", ">"),
]

# The tests of a file: patterns of test_cuda; b: of test_cuda_bounds; r: of test_cuda_runs; s: of
# test_sparse_scores.
TESTS = {
    "norm_search.cu": ["test_topk_by_norm", "test_topk_screened", "test_topk_stops_alone",
                       "test_topk_rising_norms", "test_topk_recorded"],
    "norm_tile.cuh": ["test_topk_by_norm", "test_topk_screened", "test_topk_stops_alone"],
    "topk.cuh": ["test_topk_by_norm", "test_topk_screened", "test_topk_prefix",
                 "test_topk_rising"],
    "search.cu": ["test_topk_stops", "test_topk_prefix", "test_topk_rising", "test_topk",
                  "s:test_topk"],
    "slate.cu": ["test_slates"],
    "items.cu": ["test_items"],
    "draw.cu": ["test_draw_uniform", "test_mixture", "test_tail", "test_draw_others"],
    "head.cu": ["test_pack_head", "test_snis_head_edges", "test_snis_head_peaked",
                "test_snis_head", "s:test_head"],
    "snis.cu": ["test_snis_edges", "test_snis_drawn", "test_snis_extremes", "b:test_lengths",
                "test_snis", "test_snis_head_edges"],
    "snis.cuh": ["test_snis_edges", "b:test_lengths"],
    "snis_block.cuh": ["test_snis_edges", "test_snis_drawn", "test_snis_extremes", "b:test_lengths",
                       "test_snis", "r:test_persistent"],
    "persistent.cu": ["r:test_persistent"],
    "small_step.cuh": ["test_outer_totals", "r:test_persistent"],
    "snis_long.cu": ["test_snis_edges", "test_snis_head_edges", "b:test_lengths", "test_snis"],
    "team.cuh": ["test_snis_edges", "b:test_lengths", "test_snis"],
    "begin.cu": ["test_start_batch", "test_head_recorded", "b:test_lengths"],
    "gradient.cu": ["test_outer_totals", "test_totals", "test_head_recorded"],
    "graph.cu": ["test_head_recorded"],
    "pack.cu": ["test_pack_head"],
    "draw.cuh": ["test_draw_uniform", "test_mixture", "test_tail", "test_draw_others",
                 "test_snis_drawn"],
    "reward.cuh": ["test_rewards", "test_snis_drawn"],
    "stats.cuh": ["test_stats", "test_snis_drawn"],
    "block.cuh": ["test_stats", "test_totals", "test_outer_totals", "test_tail", "test_snis_edges",
                  "test_snis_drawn", "test_mixture", "test_topk_stops", "test_snis_head_edges",
                  "test_policy_peaked", "test_topk", "test_topk_by_norm"],
    "step.cu": ["test_sets", "test_stats", "test_totals"],
    "policy.cu": ["test_policy_peaked", "test_policy", "test_items", "s:test_policy"],
    "dense.cu": ["test_products", "test_network", "test_totals", "test_optimisers"],
    "reward.cu": ["test_rewards", "test_scores"],
    "estimate.cu": ["test_reinforce", "b:test_lengths"],
    "targets.cu": ["s:test_targets", "s:test_objectives"],
    "rows.cuh": ["b:test_lengths", "test_scores", "test_topk_screened"],
    "cuda.cuh": ["test_stats", "test_totals", "test_reinforce", "test_tail", "test_snis_edges",
                 "test_mixture", "test_topk_stops", "test_snis_head_edges", "test_policy_peaked",
                 "test_topk"],
}
JUDGES = [("watch", "races", (1,)), ("schedules", "emulated", (1, 2, 3)),
          ("ascending", "emulated", (0,))]


def function_at(lines, at):
    """The name of the function in which a line stands."""
    for i in range(at, -1, -1):
        found = re.search(r"(\w+)\(", lines[i])
        if found and lines[i][:1] not in " }/#*":
            return found.group(1)
    return "?"


def mutants():
    found = []
    for name in sorted(os.listdir(os.path.join(TOP, CUDA))):
        if not name.endswith((".cu", ".cuh")):
            continue
        lines = open(os.path.join(TOP, CUDA, name)).read().split("\n")
        taken = set()
        for kind, pattern, instead in CHANGES:
            for at, line in enumerate(lines):
                if line.lstrip().startswith(("*", "/*")):
                    continue
                for hit in re.finditer(pattern, line):
                    if (at, hit.start()) in taken:
                        continue
                    taken.add((at, hit.start()))
                    found.append({"kind": kind, "file": name, "line": at + 1,
                                  "where": function_at(lines, at), "was": line.strip(),
                                  "text": line[:hit.start()] + instead + line[hit.end():]})
    return found


def needless():
    """[(file, function, text, reason)]"""
    rows = []
    for line in open(os.path.join(HERE, "needless.txt")):
        words = [w.strip() for w in line.split("|")]
        if len(words) == 4 and not line.startswith("#"):
            rows.append(tuple(words))
    return rows


def reason_of(mutant, rows):
    for file, where, text, reason in rows:
        if mutant["file"] == file and mutant["where"] == where and text in mutant["was"]:
            return reason
    return None


def includes(name, header):
    """Whether a file of the kernels includes the header, at first or second hand."""
    text = open(os.path.join(TOP, CUDA, name)).read()
    parts = re.findall(r'#include "device/cuda/(\w+\.cuh)"', text)
    return name == header or any(includes(part, header) for part in parts)


def compile_mutant(mutant, kind):
    """The object of `kind` with the mutant; None if it does not compile."""
    abi = open(os.path.join(OUT, "device_abi")).read().strip()
    names = [n for n in os.listdir(os.path.join(TOP, CUDA)) if n.endswith(".cu")]
    fresh = [name for name in names if includes(name, mutant["file"])]
    objects = []
    running = []
    for name in names:
        done = os.path.join(OUT, kind, CUDA, name + ".o")
        if name in fresh:
            done = os.path.join(COPY, kind + "." + name + ".o")
            command = ["g++", "-std=c++20", "-O1", "-g1", "-ffp-contract=off", "-fno-math-errno",
                       "-fopenmp", "-I" + COPY, "-Isrc", "-Itests/cuda", "-D_GNU_SOURCE",
                       "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-w",
                       f"-DFOPO_DEVICE_ABI={abi}u", "-x", "c++", "-c", "-o", done,
                       os.path.join(COPY, "device/cuda", name)]
            if kind == "races":
                command.insert(3, WATCH)
            running.append(subprocess.Popen(command, cwd=TOP, stderr=subprocess.DEVNULL))
            if len(running) % 2 == 0 and any(p.wait() != 0 for p in running[-2:]):
                return None
        objects.append(done)
    if any(p.wait() != 0 for p in running):
        return None
    parts = os.path.join(OUT, kind, "tests/cuda")
    objects += [os.path.join(parts, n + ".o") for n in os.listdir(HERE)
                if n.endswith(".cc") and (kind == "races" or n not in ("races.cc", "watch.cc"))]
    whole = os.path.join(COPY, kind + ".so")
    subprocess.run(["g++", "-shared", "-fopenmp", "-o", whole, *objects, "-lopenblas"], cwd=TOP,
                   check=True)
    return whole


PROGRAMS = {"b:": "test_cuda_bounds", "r:": "test_cuda_runs", "s:": "test_sparse_scores"}


def judge(whole, seeds, tests):
    for seed in seeds:
        for test in tests:
            program = PROGRAMS.get(test[:2], "test_cuda")
            environment = dict(os.environ, FOPO_TEST_OBJECT=whole, FOPO_EMULATION_SEED=str(seed))
            try:
                ran = subprocess.run([os.path.join(OUT, program), test.split(":")[-1]],
                                     env=environment, capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return "hung"
            if "emulated GPU: " in ran.stderr:
                return "told"
            if ran.returncode != 0:
                return "answer"
    return "-"


def try_mutant(mutant):
    shutil.rmtree(COPY, ignore_errors=True)
    folder = os.path.join(COPY, "device/cuda")
    shutil.copytree(os.path.join(TOP, CUDA), folder)
    path = os.path.join(folder, mutant["file"])
    lines = open(path).read().split("\n")
    lines[mutant["line"] - 1] = mutant["text"]
    open(path, "w").write("\n".join(lines))
    verdicts, built = [], {}
    for _, kind, seeds in JUDGES:
        if kind not in built:
            built[kind] = compile_mutant(mutant, kind)
        if built[kind] is None:
            return None
        verdicts.append(judge(built[kind], seeds, TESTS.get(mutant["file"], ["*"])))
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--files", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--skip", type=int, default=0, help="mutants at the beginning")
    chosen = parser.parse_args()
    begun, rows = time.monotonic(), needless()
    todo = [m for m in mutants() if (not chosen.only or m["kind"] in chosen.only.split(","))
            and (not chosen.files or m["file"] in chosen.files.split(","))]
    if chosen.list:
        for m in todo:
            print(f"{m['kind']:8} {m['file']}:{m['line']} {m['where']}: {m['was']}")
        return 0
    random.Random(chosen.seed).shuffle(todo)
    todo = todo[chosen.skip:]
    tried, missed, told = 0, 0, {name: 0 for name, _, _ in JUDGES}
    sound = {}  # by file: whether the kernels as they are pass its tests
    print(f"{'kind':8} {'place':32} " + " ".join(f"{name:9}" for name, _, _ in JUDGES))
    for m in todo:
        if tried > 0 and time.monotonic() - begun > chosen.seconds:
            break
        if m["file"] not in sound:
            whole = os.path.join(OUT, "emulated/fopo_cuda.so")
            sound[m["file"]] = judge(whole, (0,), TESTS.get(m["file"], ["*"])) == "-"
        if not sound[m["file"]]:
            print(f"{m['file']}: its tests fail without a fault; run make test-programs first")
            return 1
        verdicts = try_mutant(m)
        if verdicts is None:
            continue
        tried += 1
        for (name, _, _), verdict in zip(JUDGES, verdicts):
            told[name] += verdict != "-"
        line = f"{m['kind']:8} {m['file'] + ':' + str(m['line']) + ' ' + m['where']:32} "
        line += " ".join(f"{v:9}" for v in verdicts)
        if all(v == "-" for v in verdicts):
            reason = reason_of(m, rows)
            missed += reason is None
            line += "  " + (reason or "NOT NOTICED: " + m["was"])
        print(line, flush=True)
    by = ", ".join(f"{n} noticed by {name}" for name, n in told.items())
    print(f"{tried} mutants, {by}, {missed} not noticed and not known as needless")
    return 1 if missed or tried == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
