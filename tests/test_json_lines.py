"""JSON lines of interactions against Python's json: values of every kind, escapes, absent keys,
blank lines, gzip, many blocks; what is refused, with its line."""
import gzip
import json
import os
import random
import subprocess
import sys
from collections import defaultdict

from checks import check, finish, folder, FOPO


LIST = r"""
local d = fopo.data.read(arg[1], assert(load("return " .. arg[2]))())
print(d.format, d.skipped, d.no_times or "")
for u = 1, d.n_users do
  local items, values, times = d:row(u)
  for i, item in ipairs(items:totable()[1]) do
    print(("%s\t%s\t%.9g\t%s"):format(d:user_name(u), d:item_name(item),
          values and values[i] or 1, times and ("%.17g"):format(times[i]) or ""))
  end
end
"""
script = os.path.join(folder, "list.lua")
with open(script, "w") as f:
    f.write('local fopo = require "fopo"\n' + LIST)


def write(name, text):
    path = os.path.join(folder, name)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, options="{}", **env):
    """format, skipped, {(user, item): (value, time)}; or the sentence of an error."""
    done = subprocess.run([FOPO, script, path, options], capture_output=True, text=True,
                          errors="replace", timeout=60, cwd=folder, env={**os.environ, **env})
    if done.returncode != 0:
        return done.stderr.split("\n")[0]
    head, *rows = done.stdout.rstrip("\n").split("\n")
    form, skipped, _ = head.split("\t")
    pairs = {}
    for row in rows:
        user, item, value, time = row.split("\t")
        pairs[user, item] = float(value), float(time) if time else None
    return form, int(skipped), pairs


def expected(lines, user, item, value=None, time=None, keep=lambda o: True):
    """The same by Python's json: repeats are summed, the earliest time is kept."""
    sums, times, skipped = defaultdict(float), {}, 0
    for line in lines:
        if not line.strip():
            continue
        o = json.loads(line)
        if not keep(o):
            skipped += 1
            continue
        pair = str(o[user]).strip(" \t"), str(o[item]).strip(" \t")
        sums[pair] += float(o[value]) if value else 1.0
        if time:
            times[pair] = min(times.get(pair, 1e300), float(o[time]))
    return skipped, {p: (v, times.get(p)) for p, v in sums.items()}


def same(name, got, form, want):
    check(name, isinstance(got, tuple) and got[0] == form and got[1] == want[0]
          and got[2] == want[1], str(got)[:500], form, str(want)[:500])


# every kind of value, with keys in any order, keys that are not used, and blank lines
rng = random.Random(3)
texts = ["a", "zoë", "\U0001f600 b",
         "quote\"d", "back\\slash", "l/s", "tab\tin", " padded ", "日本"]
lines = []
for i in range(4000):
    o = {"UserKey": rng.choice([rng.randrange(60), "u%d" % rng.randrange(9), rng.choice(texts)]),
         "item_id": rng.choice([rng.randrange(40), str(rng.randrange(40)), rng.choice(texts)]),
         "rating": rng.choice([1, 2.5, 0.125, "3", 1e2]), "timestamp": 1.5e9 + rng.randrange(1000),
         "more": rng.choice([None, True, [1, {"x": [2]}], {"user": {"id": 7}}, "x" * 50])}
    keys = list(o)
    rng.shuffle(keys)
    if rng.random() < 0.3:
        keys.remove("more")
    lines.append(json.dumps({k: o[k] for k in keys}, ensure_ascii=rng.random() < 0.5,
                            separators=rng.choice([(",", ":"), (", ", ": ")])))
    if rng.random() < 0.02:
        lines.append(rng.choice(["", "  ", "\t"]))
options = '{user = "UserKey"}'
plain = [line for line in lines if "\\t" not in line]  # a tab would end a field of the list below
want = expected(plain, "UserKey", "item_id", "rating", "timestamp")
same("values of every kind", read(write("a.json", "\n".join(plain)), options), "json", want)
same("with CR LF", read(write("b.json", "\r\n".join(plain) + "\r\n"), options), "json", want)
same("gzipped", read(write("a.json.gz", "\n".join(plain) + "\n"), options), "json", want)
marked = write("c.json", b"\xef\xbb\xbf" + "\n".join(plain).encode())
same("a byte order mark", read(marked, options), "json", want)
same("one thread", read(write("a.json", "\n".join(plain)), options, FOPO_THREADS="1"), "json", want)
same("seven threads", read(write("a.json", "\n".join(plain)), options, FOPO_THREADS="7"), "json",
     want)
same("without values and times",
     read(os.path.join(folder, "a.json"), '{user = "userkey", value = "", time = false}'), "json",
     expected(plain, "UserKey", "item_id"))

# what numbers and texts mean
odd = [r'{"u": "\ud83d\ude00\u00e9", "i": 1, "use": 9, "r": 1}',
       r'{"u": "x", "i": 1, "r": 2, "u": "y"}',  # of a key that stands twice the last counts
       r'{"\u0075": 99999999999999999999, "i": 18446744073709551616, "r": 1E2, "z": NaN}',
       r'{"u": "a\/b\\c\"d", "i": 2.50, "r": 0.5e-0, "z": [-Infinity, -0.0, []]}',
       "{\"u\": \"%s\", \"i\": 3, \"r\": 1}" % "\u07ff\u0800\uffff\U00010000\U0010ffff",
       '{"u": "deep", "i": 4, "r": 1, "z": %s1%s}' % ("[" * 60, "]" * 60)]
want = expected(odd, "u", "i", "r")
want[1]["a/b\\c\"d", "2.50"] = want[1].pop(('a/b\\c"d', "2.5"))  # as it is written
got = read(write("odd.json", "\n".join(odd)), '{user = "u", item = "i", value = "r"}')
same("numbers and texts", got, "json", want)
half = read(write("half.json", r'{"user": "\ud83dx", "item": -0}'), '{value = ""}')
same("half a surrogate, and a minus", half, "json", (0, {("\ufffdx", "0"): (1.0, None)}))

# more than one block of text, and integers that become texts late in the file
many = [json.dumps({"user": i % 5000, "item": (i * 7919) % 3000, "pad": "y" * 60})
        for i in range(40000)]
many.append('{"user": "late", "item": "9007199254740993", "pad": 0}')
same("many blocks", read(write("many.json", "\n".join(many))), "json",
     expected(many, "user", "item"))

# GoodReads by genre: read, not only shelved; ratings where they are asked for
books = [json.dumps({"user_id": "%032x" % rng.randrange(50), "book_id": str(rng.randrange(99)),
                     "review_id": "r%d" % i, "is_read": rng.random() < 0.6,
                     "rating": rng.randrange(6), "date_added": "Wed May 09 09:33:44 -0700 2007"})
         for i in range(2000)]
path = write("goodreads_interactions_poetry.json.gz", "\n".join(books))
same("GoodReads", read(path), "goodreads",
     expected(books, "user_id", "book_id", keep=lambda o: o["is_read"]))
same("GoodReads' ratings", read(path, '{value = "rating", where = "rating>=1"}'), "goodreads",
     expected(books, "user_id", "book_id", "rating",
              keep=lambda o: o["is_read"] and o["rating"] >= 1))
same("a boolean in a condition",
     read(path, '{format = "json", value = "", where = "is_read=false"}'), "json",
     expected(books, "user_id", "book_id", keep=lambda o: not o["is_read"]))
same("as pairs", read(path, '{format = "pairs", value = ""}'), "pairs",
     expected(books, "user_id", "book_id"))

# Amazon's keys are known
amazon = [json.dumps({"reviewerID": "A%d" % (i % 7), "asin": "B%d" % (i % 11),
                      "overall": i % 5 + 1.0, "unixReviewTime": 1300000000 + i, "helpful": [i, 2]})
          for i in range(300)]
same("Amazon", read(write("amazon.json", "\n".join(amazon))), "json",
     expected(amazon, "reviewerID", "asin", "overall", "unixReviewTime"))


# ---- what is refused ----

def refused(name, text, *parts, options="{}"):
    said = read(write(name, text), options)
    check(name, isinstance(said, str) and all(part in said for part in parts), said, parts)


good = '{"user": 1, "item": 2, "rating": 3}\n'
refused("nested.json", good + '{"user": {"id": 1}, "item": 2, "rating": 3}\n', "line 2, user:",
        "is an object here")
refused("list.json", good + '{"user": 1, "item": [2], "rating": 3}\n', "line 2, item:",
        "is a list here")
refused("boolean.json", good + '{"user": true, "item": 2, "rating": 3}\n', "line 2, user:", "no id")
refused("null.json", good + "\n" + '{"user": null, "item": 2, "rating": 1}\n', "line 3, user:",
        "is missing")
refused("absent.json", good + '{"user": 4, "item": 2}\n', "line 2, rating:", "is empty")
refused("value.json", good + '{"user": 4, "item": 2, "rating": "good"}\n', "line 2, rating: 'good'",
        "is not a number")
refused("cut.json", good + '{"user": 4, "item"\n', "line 2:", "not valid JSON")
refused("comma.json", good + '{"user": 4, "item": 5,}\n', "line 2: '}'", "not valid JSON")
refused("behind.json", good + '{"user": 4, "item": 5} 6\n', "line 2: '6'", "not valid JSON")
refused("csv.json", good + "4,5,6\n", "line 2:", "not valid JSON")
refused("utf8.json", good.encode() + b'{"user": "\xff", "item": 5}\n', "line 2:", "utf-8")
refused("single.json", good + "{'user': 4}\n", "line 2: ''user': 4", "not valid JSON")
refused("deep.json", good + '{"user": 4, "item": 5, "z": %s}' % ("[" * 70 + "]" * 70), "line 2:",
        "nested more than 64")
none = [b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"', b"01", b"1.", b".5",
        b"+1", b"-", b"1e", b"nul", b"True", rb'"\x"', b'"a', rb'"\u12g4"', b'"\t"', b"[1 2]",
        b"[1,]", b"{1: 2}", b"nan", b"'a'", b"", b'"\\']
text = b"".join(b'{"user": 4, "item": 5, "rating": 1, "z": %s}\n' % value for value in none)
same("what is no value", read(write("none.json", good.encode() + text), "{skip_errors = true}"),
     "json", (len(none), {("1", "2"): (3.0, None)}))
refused("spread.json", '{\n  "user": 1,\n  "item": 2\n}\n', "line 1:", "one whole object a line",
        "jq -c .")
refused("array.json", '[{"user": 1, "item": 2}]\n', "one JSON list", "jq -c '.[]'")
refused("keys.json", '{"UserKey": 1, "Thing": 2}\n', "no column is known as the user",
        "UserKey, Thing")
refused("column.json", good, 'value = "stars"', "it has 3 columns: user, item, rating",
        options='{value = "stars"}')
refused("dsjson.json", '{"_label_cost": -1, "c": {}}\n', "fopo.data.logs")
refused("named.json", "1,2\n", "does not hold JSON lines", options='{format = "json"}')
refused("control.json", good + r'{"user": "a\u0000b", "item": 1, "rating": 1}' + "\n",
        "line 2, user:", "control character")
bad = good + '{"user": {}, "item": 2, "rating": 3}\n{broken\n' + good
same("malformed rows are counted", read(write("bad.json", bad), "{skip_errors = true}"), "json",
     (2, {("1", "2"): (6.0, None)}))
refused("bad.json", bad, "2 malformed rows, max_errors is 1",
        options="{skip_errors = true, max_errors = 1}")

# recommendations for all users of a file read it some users at a time
stream = subprocess.run([FOPO, "-e", r"""
local f = io.open("all.json", "w")
for u = 1, 30 do
  for i = 1, 12 do
    f:write(('{"item": "i%d", "user": "u%d"}\n'):format((u * 5 + i * 3) % 40, u))
  end
end
f:close()
d = fopo.data.read("all.json")
s = d:sessions{min_items = 5, valid = 0, test = 0.2}
pi = fopo.policy.linear{items = fopo.embed.svd(s.train, {dim = 4}), data = s.train}
done = pi:recommend_file("all.json", "out.csv", {n = 3})
local n = 0
for line in io.lines("out.csv") do n = n + 1 end
print(n > 30)
"""], capture_output=True, text=True, cwd=folder)
check("recommend_file", stream.stdout.endswith("true\n"), stream)

finish()
