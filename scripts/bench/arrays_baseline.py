"""Operations of arrays in NumPy, timed on one thread.

    arrays_baseline.py

First "ready,<version>" or "absent,<why>". Each line of standard input is "ROWS COLS REPEATS CODE";
the answer is the seconds of the CPU that one evaluation of CODE takes. It may name a, b
[ROWS, COLS], row [1, COLS], column [ROWS, 1] and index, COLS // 10 columns.
"""
import sys
import time


def main():
    try:
        import numpy as np
    except ImportError:
        print("absent,numpy is not here", flush=True)
        return
    print("ready," + np.__version__, flush=True)
    now, names = None, {}
    for line in sys.stdin:
        rows, cols, repeats, code = line.split(maxsplit=3)
        shape, repeats = (int(rows), int(cols)), int(repeats)
        if shape != now:
            now, rng = shape, np.random.default_rng(1)
            a, b = (rng.random(shape, dtype=np.float32) + np.float32(0.5) for _ in range(2))
            names = {"np": np, "a": a, "b": b, "row": b[:1].copy(), "column": b[:, :1].copy(),
                     "index": rng.integers(0, shape[1], max(1, shape[1] // 10))}
        function = eval("lambda: " + code, names)
        function()
        start = time.process_time()
        for _ in range(repeats):
            function()
        print((time.process_time() - start) / max(1, repeats), flush=True)


main()
