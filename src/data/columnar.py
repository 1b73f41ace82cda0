"""Sends the columns of Parquet or Arrow files to fopo, in binary blocks, with pyarrow.

usage: parquet|ipc WANTED FROM TO PATH ...: the files are one table, of which those row groups are
sent whose place is in FROM .. TO - 1. File by file, of n groups over b bytes group i has the place
i b / n; an Arrow file has one. WANTED: the names of the columns that
matter, without case, blanks, - and _, between commas, and ?time for columns that hold times under
another name; "" and fewer than two names that are there: all columns. Times become seconds since
1970 UTC, true and false 1 and 0. Lists, structures and the like are left out, unless they are
wanted: then the sentence says what the column holds.

Output, little-endian: 8 bytes that name the format; int64 bytes, and so much text, the header of a
CSV file; then blocks: int64 bytes of all that follows, int64 rows n, and for each column int64
kind, int64 1 if uint8 [n] follow, padded to 8 bytes, that are 0 where the field is missing, and of
kind 0 int64 [n], kind 1 float64 [n], kind 2 int64 [n + 1] starts and the text, padded."""
import os
import sys

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
except ImportError:
    sys.exit("such files are read with pyarrow, which this Python does not have: pip install "
             "pyarrow, or let PYTHON name another")

T = pa.types
ROWS = 1 << 16  # of a block


def simple(name):
    return "".join(c for c in name.lower() if c not in "_- \t\"'")


def content(t):
    return t.value_type if T.is_dictionary(t) else t


def is_time(t):
    return T.is_timestamp(t) or T.is_date(t)


def is_text(t):
    return T.is_string(t) or T.is_large_string(t) or T.is_binary(t) or T.is_large_binary(t)


def is_plain(t):
    t = content(t)
    numbers = T.is_integer(t) or T.is_floating(t) or T.is_decimal(t) or T.is_boolean(t)
    return is_text(t) or numbers or is_time(t) or T.is_null(t)


def wanted_columns(schema, wanted):
    named = [f for f in schema if simple(f.name) in wanted]
    for f in named:
        if not is_plain(f.type):
            sys.exit(f"column {f.name} holds {f.type}, which is no id, number or time")
    if len(named) < 2:
        return [f.name for f in schema if is_plain(f.type)]
    return [f.name for f in schema if f in named or ("?time" in wanted and is_time(f.type))]


def padded(array):
    data = np.ascontiguousarray(array).tobytes()
    return data + bytes(-len(data) % 8)


def seconds(column):
    micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    whole = pc.divide(micros, 1000000)
    if pc.all(pc.equal(pc.multiply(whole, 1000000), micros)).as_py() is False:
        return pc.divide(micros.cast(pa.float64()), 1e6)
    return whole


def as_numbers(column):
    """int64 or float64; or, of integers beyond 2^63, text."""
    if is_time(column.type):
        column = seconds(column)
    if T.is_floating(column.type) or T.is_decimal(column.type) or T.is_null(column.type):
        return column.cast(pa.float64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.string())


def packed(column):
    """The column as the bytes of a block."""
    column = column.cast(content(column.type))
    if not is_text(column.type):
        column = as_numbers(column)
    missing = column.null_count > 0
    valid = padded(column.is_valid().cast(pa.uint8()).to_numpy()) if missing else b""
    if is_text(column.type):
        column = column.cast(pa.large_string()).fill_null("")
        starts = np.frombuffer(column.buffers()[1], np.int64)[column.offset:][:len(column) + 1]
        text = column.buffers()[2]
        text = b"" if text is None else memoryview(text)[starts[0]:starts[-1]]
        kind, data = 2, padded(starts - starts[0]) + padded(np.frombuffer(text, np.uint8))
    else:
        kind = 1 if T.is_floating(column.type) else 0
        data = padded((column.fill_null(0) if missing else column).to_numpy())
    return np.int64([kind, missing]).tobytes() + valid + data


def stretch(data, form, begin, end):
    """The table of the row groups whose place is in begin .. end - 1."""
    kept, at = [], 0
    for file in data.get_fragments():
        groups = list(file.split_by_row_group()) if form == "parquet" else [file]
        size = os.path.getsize(file.path)
        kept += [group for i, group in enumerate(groups)
                 if begin <= at + i * size // len(groups) < end]
        at += size
    return ds.FileSystemDataset(kept, data.schema, data.format)


def main(form, wanted, begin, end, *paths):
    data = ds.dataset(list(paths), format=form)
    if (begin, end) != ("0", str(2**64 - 1)):
        data = stretch(data, form, int(begin), int(end))
    names = wanted_columns(data.schema, set(wanted.split(",")))
    out = sys.stdout.buffer
    head = (",".join('"' + n.replace('"', '""') + '"' for n in names) + "\n").encode()
    out.write(b"\x02fopocol" + np.int64(len(head)).tobytes() + head)
    for batch in data.scanner(columns=names, batch_size=ROWS).to_batches():
        columns = [packed(column) for column in batch.columns]
        sizes = np.int64([8 + sum(map(len, columns)), batch.num_rows])
        out.writelines([sizes.tobytes(), *columns])
    out.flush()


try:
    main(*sys.argv[1:])
except (BrokenPipeError, KeyboardInterrupt):
    sys.exit(1)
except Exception as error:
    sys.exit(" ".join(str(error).split()))
