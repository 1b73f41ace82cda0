"""Every kind of work on a GPU, emulated: it does what the CPU does, or is refused by a sentence
that names it; docs/gpu.md has the table."""
import os
import subprocess

from checks import check, finish, FOPO

PART = os.path.join(os.path.dirname(os.path.realpath(FOPO)), "emulated/fopo_cuda.so")
if not os.path.exists(PART):
    print("skip the work on a GPU: %s is absent" % PART)
else:
    made = subprocess.run([FOPO, "tests/gpu_types.lua"], text=True, capture_output=True,
                          env={**os.environ, "FOPO_CUDA": PART}, timeout=300)
    rows = made.stdout.splitlines()[2:]
    check("all kinds are tried", made.returncode == 0 and len(rows) >= 30, made.stderr, len(rows))
    wrong = [row for row in rows if "| yes" not in row and "| no: " not in row]
    check("a GPU does as the CPU does, or refuses", wrong == [], wrong)
    refused = [row for row in rows if "| no: " in row]
    check("a refusal has a remedy", all("use " in row for row in refused), refused)
    with open("docs/gpu.md", encoding="utf-8") as page:
        check("docs/gpu.md has the table of tests/gpu_types.lua", made.stdout in page.read(),
              made.stdout)
finish()
