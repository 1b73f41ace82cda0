"""Writes Parquet or Arrow files to standard output as CSV, for fopo, with pyarrow.

usage: parquet|ipc WANTED PATH ...: the files are one table. WANTED: the names of the columns that
matter, without case, blanks, - and _, between commas; "" and fewer than two of them: all columns.
Times become seconds since 1970 UTC, true and false 1 and 0. Lists, structures and the like are left
out, unless they are wanted: then the sentence says what the column holds."""
import collections
import concurrent.futures
import os
import sys

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as csv
    import pyarrow.dataset as ds
except ImportError:
    sys.exit("such files are read with pyarrow, which python3 does not find: pip install pyarrow")

T = pa.types
ROWS = 1 << 17  # of a block


def simple(name):
    return "".join(c for c in name.lower() if c not in "_- \t\"'")


def content(t):
    return t.value_type if T.is_dictionary(t) else t


def is_time(t):
    return T.is_timestamp(t) or T.is_date(t)


def is_plain(t):
    t = content(t)
    texts = T.is_string(t) or T.is_large_string(t) or T.is_binary(t) or T.is_large_binary(t)
    numbers = T.is_integer(t) or T.is_floating(t) or T.is_decimal(t) or T.is_boolean(t)
    return texts or numbers or is_time(t) or T.is_null(t)


def wanted_columns(schema, wanted):
    named = [f for f in schema if simple(f.name) in wanted]
    for f in named:
        if not is_plain(f.type):
            sys.exit(f"column {f.name} holds {f.type}, which is no id, number or time")
    if len(named) < 2:
        return [f.name for f in schema if is_plain(f.type)]
    # times of another name are noticed by the reader
    return [f.name for f in schema if f in named or is_time(f.type)]


def as_text(column):
    """The column as it stands in the CSV."""
    t = content(column.type)
    if t != column.type:
        column = column.cast(t)
    if T.is_boolean(t):
        return column.cast(pa.int8())
    if T.is_binary(t) or T.is_large_binary(t):
        return column.cast(pa.string())
    if is_time(t):
        micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        seconds = pc.divide(micros, 1000000)
        if pc.all(pc.equal(pc.multiply(seconds, 1000000), micros)).as_py() is False:
            seconds = pc.divide(micros.cast(pa.float64()), 1e6)
        return seconds
    return column


def text_of(batch):
    """Quotes cost the reader time: only a block that needs them has them."""
    batch = pa.record_batch([as_text(c) for c in batch.columns], batch.schema.names)
    for style in ("none", "needed"):
        sink = pa.BufferOutputStream()
        try:
            csv.write_csv(batch, sink, csv.WriteOptions(include_header=False, quoting_style=style))
            return sink.getvalue()
        except pa.ArrowInvalid:
            if style == "needed":
                raise


def main(form, wanted, *paths):
    data = ds.dataset(list(paths), format=form)
    names = wanted_columns(data.schema, set(wanted.split(",")))
    out = sys.stdout.buffer
    out.write((",".join('"' + n.replace('"', '""') + '"' for n in names) + "\n").encode())
    threads = min(os.cpu_count() or 1, 8)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        texts = collections.deque()
        for batch in data.scanner(columns=names, batch_size=ROWS).to_batches():
            texts.append(pool.submit(text_of, batch))
            if len(texts) > threads:
                out.write(texts.popleft().result())
        for text in texts:
            out.write(text.result())
    out.flush()


try:
    main(*sys.argv[1:])
except (BrokenPipeError, KeyboardInterrupt):
    sys.exit(1)
except Exception as error:
    sys.exit(" ".join(str(error).split()))
