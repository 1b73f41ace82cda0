"""The study of estimators and of learning from logs (scripts/studies/ope.lua), small: every
estimator is in its table, bounds hold, and where little is explored IPS learns what is worse than
the logging policy and logarithmic smoothing what is better."""
import os
import re
import subprocess

from checks import check, finish, folder, FOPO

STUDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/studies/ope.lua")


def run(*options):
    done = subprocess.run([FOPO, STUDY, "quick", *options], cwd=folder, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    check("the study ends", done.returncode == 0, done.stdout, done.stderr)
    return done.stdout


def table(*options):
    rows = [re.split(r"\s{2,}", line.strip()) for line in run(*options).splitlines()]
    return {cells[0]: cells[1:] for cells in rows if len(cells) > 1}


rows = table("parts=judge")
for name in ("ips", "clipped_ips", "snips", "ix", "ls", "dm", "dr", "clipped_dr", "dros", "mips",
             "offcem", "SLOPE's choice"):
    check(name, 0 < float(rows[name][0].split(" ")[0]) < 1, rows)
for name in ("ix bound", "ls bound"):
    check(name + " holds", rows[name][0].startswith("4 of 4"), rows)
rows = table("parts=learn", "seeds=3", "events=2000", "epochs=60")
check("smoothing gains", rows["smoothing"][2] == "3 of 3", rows)
check("ips loses", rows["ips"][2] == "0 of 3" and float(rows["ips"][0]) < -0.1, rows)
shown = run("parts=obp")
if shown.startswith("skip: "):
    print(shown.strip())
else:
    off = [float(row.split()[-1]) for row in re.findall("(?:ips|dm|dr|dros) .*", shown)]
    check("the values of obp", len(off) == 5 and max(off) < 1e-6, shown)
finish()
