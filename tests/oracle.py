"""What the tests against NumPy share: NumPy, or a skip by name; the folder that they work in; the
program's output; the lists of sessions."""
import os
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait take the time of other tests

try:
    import numpy as np
except ImportError:
    print("skip: numpy is not here")
    sys.exit(77)

from checks import check, folder, FOPO

os.chdir(folder)

WRITE_LISTS = """
local function write_lists(sessions, path)
  local f = io.open(path, "w")
  for n = 1, sessions.n do
    for _, side in ipairs{"x", "y"} do
      f:write(table.concat(sessions[side](sessions, n):totable()[1], " "), "\\n")
    end
  end
  f:close()
end
"""


def run(code):
    """What a script prints, which may call write_lists(sessions, path)."""
    done = subprocess.run([FOPO, "-e", WRITE_LISTS + code], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300)
    check("fopo ends", done.returncode == 0, done.stdout, done.stderr)
    return done.stdout


def read_lists(path):
    """X and Y, a list of ids from 0 for each session."""
    lines = [[int(word) - 1 for word in line.split()] for line in open(path)]
    return lines[0::2], lines[1::2]


def ones(lists, P):
    """[N, P], 1 at the ids of each list."""
    m = np.zeros((len(lists), P))
    for n, ids in enumerate(lists):
        m[n, ids] = 1
    return m
