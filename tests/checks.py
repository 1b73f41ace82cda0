"""What the tests in Python share: a check that says what it saw, and what failed so far; and published
data sets, in the folder that the environment variable FOPO_TEST_DATA names."""
import os

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
