"""What the parts of make nightly in Python share: how often something was tried, how often it
failed, the time that is left, and the last line that tests/nightly.sh reads."""
import random
import sys
import time


class Proof:
    def __init__(self, promise, seconds=7200.0, seed=1):
        self.promise, self.tries, self.failures = promise, 0, 0
        self.begun, self.seconds = time.monotonic(), seconds
        self.random = random.Random(seed)

    def until(self, share):
        """The moment at which this share of the time is over."""
        return self.begun + share * self.seconds

    def tried(self, name, condition, *seen):
        """Counts one try; says what was seen if it failed."""
        self.tries += 1
        if not condition:
            self.failures += 1
            print("not so:", name, *seen, sep="\n", flush=True)
        return condition

    def end(self):
        if not self.tries:
            print("nothing was tried in %d s" % self.seconds)
            sys.exit(77)
        print("%s | %d | %d" % (self.promise, self.tries, self.failures))
        sys.exit(1 if self.failures else 0)


def nightly(promise):
    """The proof of a part, by its arguments: seconds and a seed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    return Proof(promise, seconds, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
