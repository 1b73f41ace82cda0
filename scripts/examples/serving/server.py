"""Serves a saved policy: a line with the names of items in, a line of JSON out.

    python3 server.py POLICY            lines from standard input, answers to standard output
    python3 server.py POLICY SOCKET     the same for each who connects to this Unix socket

A line is what a user took, names with tabs between, or {"items": [..], "n": 5}. The answer is
{"best": [{"item", "score", "probability"}, ..], "unknown": names that the policy does not know}, or
{"error": why}. A file that takes the policy's place is read before the next line is answered; if it
cannot be, the old policy goes on, and "reload" says why.
"""
import json
import os
import socketserver
import sys

from policy import Policy


class Server:
    def __init__(self, path):
        self.path, self.stamp, self.trouble = path, None, None
        self.reload()
        if self.trouble:
            sys.exit(self.trouble)

    def reload(self):
        try:
            found = os.stat(self.path)
            stamp = found.st_mtime_ns, found.st_ino, found.st_size
            if stamp != self.stamp:
                self.stamp, self.trouble = stamp, None
                self.policy = Policy(self.path)
        except Exception as why:
            self.trouble = "%s: %s" % (self.path, why)

    def recommend(self, line):
        asked = json.loads(line) if line.startswith("{") else {"items": line.split("\t")}
        names = [str(name) for name in asked["items"] if name != ""]
        ids = self.policy.ids(names)
        best = self.policy.best(ids, int(asked.get("n", 10))) if ids else []
        return {"best": [{"item": self.policy.names[a], "score": float(s), "probability": float(p)}
                         for a, s, p in best], "unknown": len(names) - len(ids)}

    def answer(self, line):
        self.reload()
        try:
            out = self.recommend(line.rstrip("\r\n"))
        except Exception as why:
            out = {"error": "%s: %s" % (type(why).__name__, why)}
        if self.trouble:
            out["reload"] = self.trouble
        return json.dumps(out)


def listen(server, path):
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(server.answer(line.decode()).encode() + b"\n")

    if os.path.exists(path):
        os.remove(path)  # of a server that is gone
    with socketserver.ThreadingUnixStreamServer(path, Handler) as s:
        s.daemon_threads = True
        s.serve_forever()


if __name__ == "__main__":
    server = Server(sys.argv[1])
    if len(sys.argv) > 2:
        listen(server, sys.argv[2])
    for line in sys.stdin:
        print(server.answer(line), flush=True)
