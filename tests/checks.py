"""What the tests in Python share: the program, a folder that is removed at the end, a check that
says what it saw, what failed so far, and published data sets, in the folder of FOPO_TEST_DATA."""
import atexit
import os
import shutil
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


def finish():
    """The test is over: its exit status."""
    sys.exit(1 if failures else 0)
