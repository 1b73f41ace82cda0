"""What the tests in Python share: the program, a folder that is removed at the end, a check that
says what it saw, what failed so far, published data sets, in the folder of FOPO_TEST_DATA, whether
what was printed is what a document shows, and whether this kernel can hold the border of --safe."""
import atexit
import ctypes
import os
import re
import shutil
import struct
import sys
import tempfile

FOPO = os.path.abspath(os.environ.get("FOPO", "./fopo"))
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, ignore_errors=True)
failures = []


def check(name, condition, *seen):
    if not condition:
        failures.append(name)
        print("not so:", name, *seen, sep="\n")


def real_file(name):
    """The path of FOPO_TEST_DATA/name; or None, and tests/run.sh counts the line "absent"."""
    path = os.path.abspath(os.path.join(os.environ.get("FOPO_TEST_DATA", ""), name))
    if "FOPO_TEST_DATA" in os.environ and os.path.exists(path):
        return path
    print("absent:", name)
    return None


NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?(?![\w])")


def said(lines):
    """Lines without what differs between machines: the time, the rate, the threads, the CPU."""
    out = []
    for line in lines:
        if re.fullmatch(r"\([\d.]+ m?s\)", line):
            continue  # only what took long has one
        line = re.sub(r"[\d,]+/s", "RATE", line)
        line = re.sub(r"(?<![\d.])[\d.]+ m?s\b", "TIME", line)
        line = re.sub(r"-{3,}", "---", line)  # as wide as the column
        line = re.sub(r"fopo [\d.]+, \w+, \d+ threads?\.", "fopo VERSION", line)
        out.append(re.sub(r" +", " ", line.rstrip()))
    return out


def same(shown, wanted):
    """Whether two lines agree: words and whole numbers exactly, others to 1 %, or to two units of
    the last digit. The last bits of a sum depend on the CPU's instructions and on BLAS."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", wanted):
        return False
    for a, b in zip(NUMBER.findall(shown), NUMBER.findall(wanted)):
        if a == b:
            continue
        if "." not in b:
            return False
        unit = 10.0 ** -len(b.split("e")[0].split(".")[1])
        if abs(float(a) - float(b)) > max(0.01 * abs(float(b)), 2 * unit):
            return False
    return True


LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1) > 0  # its version


def without_landlock():
    """For preexec_fn: the kernel that the program sees has no Landlock (a filter of seccomp)."""
    load, equal, leave = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 0), (equal, 0, 1, 444), (leave, 0, 0, 0x00050000 | 38),  # ENOSYS
            (leave, 0, 0, 0x7fff0000)]
    rows = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code),
                                                      ctypes.addressof(rows)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0


def finish():
    """The test is over: its exit status."""
    sys.exit(1 if failures else 0)
