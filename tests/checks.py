"""What the tests in Python share: a check that says what it saw, and what failed so far."""
failures = []


def check(name, condition, *seen):
    if not condition:
        failures.append(name)
        print("not so:", name, *seen, sep="\n")
