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


def philox(seed, stream, step, row, index):
    """[.., 4] words of Philox4x32-10 (Salmon et al. 2011) for coordinates that broadcast."""
    c = [np.uint64(v) if np.isscalar(v) else np.asarray(v, np.uint64)
         for v in (index, row, step, stream)]
    k, low = [seed & 0xFFFFFFFF, seed >> 32], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & low,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(np.broadcast_arrays(*c), -1)


def below(n, words, seed, step, row, index):
    """Uniform below n from words, without the few that would favour a number (Lemire 2019): those
    are drawn again from stream 2 with the draw's own index."""
    product, retry = words * np.uint64(n), 0
    while (bad := (product & np.uint64(0xFFFFFFFF)) < 2 ** 32 % n).any():
        again = philox(seed, 2 + (retry << 8), step, row, index)[..., 0] * np.uint64(n)
        product, retry = np.where(bad, again, product), retry + 1
    return (product >> np.uint64(32)).astype(np.int64)


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
