"""What ptxas says of each kernel, against what is kept in tests/cuda/resources.txt.

usage: resources.py BUILD_FOLDER [--update]

A kernel must not spill registers, must fit into 48 KiB of shared memory that is not asked for by
name, and must be able to start with the threads that it is launched with. It may take at most 8
registers, and no byte of shared memory or of a stack, more than the file says. CUB's own kernels
are left out. Architectures: sm_80 and sm_90, by the files *.cu.ptxas that the build leaves.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, "resources.txt")
ARCHES = ("sm_80", "sm_90")
NUMBERS = ("registers", "shared", "stack", "spills")
REGISTERS = 65536  # of a multiprocessor, and of a block


def reports(out):
    """{(kernel, arch): numbers} of all logs of ptxas."""
    found, entry = {}, None
    for path in sorted(glob.glob(out + "/src/device/cuda/*.cu.ptxas")):
        for line in open(path):
            begun = re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line)
            if begun:
                entry = found.setdefault(begun.groups(), dict.fromkeys(NUMBERS, 0))
            for pattern, key in (("(\\d+) bytes stack frame", "stack"),
                                 ("(\\d+) bytes spill stores", "spills"),
                                 ("(\\d+) bytes spill loads", "spills"),
                                 ("Used (\\d+) registers", "registers"),
                                 ("(\\d+) bytes smem", "shared")):
                number = re.search(pattern, line)
                if number and entry is not None:
                    entry[key] = max(entry[key], int(number.group(1)))
    names = sorted({name for name, _ in found})
    short = subprocess.run(["c++filt", "-p", *names], capture_output=True, text=True).stdout
    plain = dict(zip(names, (s.replace("gpu::", "") for s in short.splitlines())))
    return {(plain[name], arch): x for (name, arch), x in found.items()
            if arch in ARCHES and not plain[name].startswith("cub::")}


def read_kept():
    kept = {}
    for line in open(KEPT):
        words = line.rstrip("\n").split(None, 4)
        if len(words) == 5 and not line.startswith("#"):
            arch, registers, shared, stack, name = words
            kept[name, arch] = {"registers": int(registers), "shared": int(shared),
                                "stack": int(stack)}
    return kept


def write_kept(now):
    with open(KEPT, "w") as file:
        file.write("# arch, registers, bytes of shared memory, of stack, kernel:\n"
                   "# tests/cuda/resources.py BUILD_FOLDER --update\n")
        for (name, arch), x in sorted(now.items()):
            file.write(f"{arch} {x['registers']:3} {x['shared']:6} {x['stack']:3} {name}\n")


def threads_of():
    """The largest block that a kernel is launched with; 256 if no number stands there."""
    most = {}
    for path in glob.glob(HERE + "/../../src/device/cuda/*.cu"):
        for number, name in re.findall(r"launch\([^;]*?, (\d+), [^,;]*,\s*(\w+_kernel)",
                                       open(path).read()):
            most[name] = max(most.get(name, 256), int(number))
    return most


def complaints(now, kept):
    threads = threads_of()
    for (name, arch), x in sorted(now.items()):
        block = threads.get(re.sub(r"<.*", "", name), 256)
        registers = -(-x["registers"] // 8) * 8  # given by eights
        if x["spills"] > 0:
            yield f"{name} at {arch} spills {x['spills']} bytes of registers"
        if registers * block > REGISTERS:
            yield f"{name} at {arch} cannot start: {block} threads of {registers} registers"
        if x["shared"] > 48 << 10:
            yield f"{name} at {arch} has {x['shared']} bytes of shared memory, above 48 KiB"
        old = kept.get((name, arch))
        if old is None:
            continue
        for key, more in (("registers", 8), ("shared", 0), ("stack", 0)):
            if x[key] > old[key] + more:
                yield (f"{name} at {arch} takes {x[key]} of {key}, {old[key]} are kept; if it "
                       "must, run tests/cuda/resources.py with --update")


def main():
    out = sys.argv[1]
    now = reports(out)
    if not now:
        print(f"no log of ptxas in {out}: it was built without nvcc")
        return 77
    if "--update" in sys.argv:
        write_kept(now)
        return 0
    kept = read_kept()
    wrong = list(complaints(now, kept))
    print("\n".join(wrong))
    fresh = sorted({name for name, arch in now if (name, arch) not in kept})
    print(f"{len(now)} reports of {len({n for n, _ in now})} kernels, {len(fresh)} not kept yet")
    # the check is checked: a kernel that spills, one that cannot start, one that grew
    name, arch = next(iter(now))
    for key, value in (("spills", 8), ("registers", 300), ("shared", 60000), ("stack", 999)):
        if not list(complaints({(name, arch): {**now[name, arch], key: value}}, now)):
            wrong.append(key)
            print(f"a kernel with {value} of {key} was not noticed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
