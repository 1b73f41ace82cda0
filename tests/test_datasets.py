"""The scripts of datasets/, with a server on this machine instead of the addresses that they know:
a file comes whole or not at all, what was fetched is not fetched again, and each failure is one
sentence."""
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

from checks import check, failures

here = pathlib.Path(__file__).resolve().parent.parent / "datasets"
top = pathlib.Path(tempfile.mkdtemp())
served = top / "served"
asked = []  # (path, the Range of the request)


class Files(http.server.SimpleHTTPRequestHandler):
    """Files of `served`; goes on in the middle if `ranges`, as large servers do."""
    ranges = True

    def __init__(self, *of):
        super().__init__(*of, directory=str(served))

    def do_GET(self):
        wanted = self.headers.get("Range", "")
        asked.append((self.path, wanted))
        path = served / self.path.lstrip("/")
        if not (self.ranges and wanted and path.exists()):
            return super().do_GET()
        start, data = int(wanted[len("bytes="):].rstrip("-")), path.read_bytes()
        if start >= len(data):
            return self.send_error(416)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])

    def log_message(self, *_):
        pass


def run(script, *words, mirror, path=None):
    env = dict(os.environ, MIRROR=mirror, PATH=path or os.environ["PATH"])
    env.update({"no_proxy": "*", "NO_PROXY": "*"})
    done = subprocess.run(["/bin/sh", str(script), *map(str, words)], env=env, text=True,
                          capture_output=True, cwd=top, timeout=60)
    own = [l for l in done.stderr.splitlines() if l.startswith(("toy:", "twitch:", "goodreads:",
           "gowalla:", "amazon-book:", "yelp2018:", "ml-", "movielens:", "lightgcn:"))]
    return done.returncode, done.stdout, "\n".join(own)


def tools(*names):
    """A folder of commands with no others, for PATH."""
    folder = top / "-".join(("bin", *names))
    folder.mkdir()
    for tool in ("sh", "cat", "wc", "tr", "cut", "mkdir", "mv", "rm", "gzip", "sha256sum",
                 "sha1sum", "md5sum", "dirname", *names):
        os.symlink(shutil.which(tool), folder / tool)
    return str(folder)


content = b"user,item\n" + b"".join(b"%d,%d\n" % (i, i * i % 97) for i in range(50000))
git_id = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
toy = top / "toy.sh"
toy.write_text(f"""set -eu
name=toy
. {here}/fetch.sh
note 'For tests.'
fetch toy.csv http://nowhere.invalid/toy.csv rows:50001 md5:{hashlib.md5(content).hexdigest()} \\
  sha256:{hashlib.sha256(content).hexdigest()} git:{git_id}
""")


def fetches_whole(mirror, tool):
    data = top / f"data-{tool}"
    bins = tools(tool)
    status, out, err = run(toy, data, mirror=mirror, path=bins)
    check(f"{tool}: fetched", status == 0 and (data / "toy.csv").read_bytes() == content, out, err)
    check(f"{tool}: the licence comes first", out.startswith("For tests."), out)
    check(f"{tool}: nothing else is left", os.listdir(data) == ["toy.csv"], os.listdir(data))
    before = len(asked)
    status, out, err = run(toy, data, mirror=mirror, path=bins)
    check(f"{tool}: not fetched again", status == 0 and len(asked) == before, out, err)


def goes_on(mirror, tool):
    data = top / f"half-{tool}"
    data.mkdir()
    (data / "toy.csv.part").write_bytes(content[:200000])
    bins = str(top / f"bin-{tool}")
    del asked[:]
    status, out, err = run(toy, data, mirror=mirror, path=bins)
    check(f"{tool}: goes on", status == 0 and (data / "toy.csv").read_bytes() == content, out, err)
    check(f"{tool}: from the middle", asked[-1][1] == ("bytes=200000-"), asked)


def starts_again(mirror, tool):
    """A server that cannot go on in the middle."""
    Files.ranges = False
    data = top / f"again-{tool}"
    data.mkdir()
    (data / "toy.csv.part").write_bytes(content[:200000])
    status, out, err = run(toy, data, mirror=mirror, path=str(top / f"bin-{tool}"))
    check(f"{tool}: starts again", status == 0 and (data / "toy.csv").read_bytes() == content, out,
          err)
    Files.ranges = True


def refuses_what_is_wrong(mirror):
    (served / "toy.csv").write_bytes(content.replace(b"7,49\n", b"7,48\n", 1))
    data = top / "wrong"
    status, _, err = run(toy, data, mirror=mirror)
    check("a wrong checksum fails", status == 1 and "has md5" in err and "not the file" in err, err)
    check("one sentence", err.count("\n") == 0, err)
    check("nothing is kept of it", os.listdir(data) == [], os.listdir(data))
    (data / "toy.csv").write_bytes(content[:-3])
    (served / "toy.csv").write_bytes(content)
    status, _, err = run(toy, data, mirror=mirror)
    check("a wrong file that is there is kept", status == 1 and "remove it" in err
          and (data / "toy.csv").read_bytes() == content[:-3], err)


real = [("twitch.sh",), ("twitch.sh", "size=100k"), ("goodreads.sh",),
        ("lightgcn.sh", "set=gowalla"), ("lightgcn.sh", "set=amazon-book"),
        ("lightgcn.sh", "set=yelp2018"), ("movielens.sh",), ("movielens.sh", "set=ml-1m")]


def real_sets_fail_clearly(mirror):
    for script, *words in real:
        data = top / "real"
        status, out, err = run(here / script, data, *words, mirror="http://127.0.0.1:1")
        check(f"{script} {words}: no network", status == 1 and "is there a network?" in err
              and err.count("\n") == 0 and "\n\nfetching" in out, out, err)
        status, out, err = run(here / script, data, *words, mirror=mirror)
        check(f"{script} {words}: 404", status == 1 and "does not give it" in err, out, err)
    for name in ("full_a.csv.gz", "goodreads_interactions.csv", "train.txt", "ml-25m.zip"):
        (served / name).write_bytes(b"<html>moved</html>\n")
    for script in ("twitch.sh", "goodreads.sh", "lightgcn.sh", "movielens.sh"):
        status, out, err = run(here / script, top / "html", mirror=mirror)
        check(f"{script}: a page instead", status == 1 and "not the file" in err, out, err)
    for script in ("twitch.sh", "goodreads.sh", "lightgcn.sh", "movielens.sh"):
        status, out, err = run(here / script, top / "html", "set=unknown", mirror=mirror)
        check(f"{script}: unknown word", status == 1 and "unknown" in err, out, err)
    status, out, err = run(here / "twitch.sh", top / "none", mirror=mirror, path=tools())
    check("neither curl nor wget", status == 1 and "neither curl nor wget" in err, out, err)


def main():
    have = [tool for tool in ("curl", "wget") if shutil.which(tool)]
    if not have:
        print("skipped: neither curl nor wget is installed")
        sys.exit(77)
    served.mkdir()
    (served / "toy.csv").write_bytes(content)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    mirror = f"http://127.0.0.1:{server.server_port}"
    try:
        for tool in have:
            fetches_whole(mirror, tool)
            goes_on(mirror, tool)
            starts_again(mirror, tool)
        refuses_what_is_wrong(mirror)
        real_sets_fail_clearly(mirror)
    finally:
        server.shutdown()
        shutil.rmtree(top)
    sys.exit(bool(failures))


main()
