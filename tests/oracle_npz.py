"""NumPy and SciPy as judges of .npy and .npz. Called by test_npz.c and test_read.c:

    python3 tests/oracle_npz.py probe            0 where numpy and scipy are there
    python3 tests/oracle_npz.py arrays FOLDER    checks c_*.np[yz], writes py_*.np[yz]
    python3 tests/oracle_npz.py sparse FOLDER    checks cache.npz, writes sparse_*.npz
"""
import io
import os
import sys
import zipfile

import numpy as np
import scipy.sparse as sp


def check(condition, what):
    if not condition:
        sys.exit("oracle_npz.py: " + what)


def ramp(dtype, *shape):
    return np.arange(int(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)


KINDS = {"f4": 1.5, "f8": 0.25, "i4": -3, "i8": -(2**40), "u1": 2, "u4": 3 * 10**9, "u8": 2**63}


def check_arrays(folder):
    for name in ("c_stored.npz", "c_deflated.npz"):
        z = np.load(os.path.join(folder, name), allow_pickle=False)
        check(sorted(z.files) == sorted(list(KINDS) + ["b1", "text", "empty"]), name + ": members")
        for kind, first in KINDS.items():
            a = z[kind]
            check(a.dtype == np.dtype("<" + kind) and a.shape == (2, 3), f"{name}: form of {kind}")
            expected = np.array([first] * 6, dtype=kind) + np.arange(6).astype(kind)
            check((a.ravel() == expected).all(), f"{name}: {kind} is {a}")
        check(z["b1"].dtype == np.bool_ and list(z["b1"]) == [True, False, True], name + ": bools")
        check(z["text"].dtype.kind == "S" and z["text"].item() == b"csr", name + ": text")
        check(z["empty"].shape == (0,), name + ": empty")
        check(zipfile.ZipFile(os.path.join(folder, name)).testzip() is None, name + ": CRC")
    check((np.load(os.path.join(folder, "c_bare.npy")) == ramp("f4", 4, 5)).all(), "c_bare.npy")


def write_header_version(path, array, version):
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, version=version)


def write_arrays(folder):
    arrays = {}
    for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        arrays["little_" + kind] = ramp("<" + kind, 3, 4)
        arrays["big_" + kind] = ramp(">" + kind, 3, 4)
        arrays["columns_" + kind] = np.asfortranarray(ramp("<" + kind, 3, 4))
    arrays["b1"] = np.array([True, False, True])
    arrays["zero_d"] = np.float32(2.5)
    arrays["empty"] = np.zeros((0, 7), "f4")
    arrays["words"] = np.array([b"one", b"", b"three"])
    arrays["unicode"] = np.array(["z\u00e4hl", "\u03b8\u20ac\U0001f600", ""])
    arrays["big_unicode"] = np.array(["\u00e4b", "c"], dtype=">U2")
    arrays["negative_f2"] = np.array([-0.0, -1.5, 65504.0, 6e-8], "f2")
    arrays["negative_i1"] = np.array([-128, -1, 127], "i1")
    np.savez(os.path.join(folder, "py_stored.npz"), **arrays)
    np.savez_compressed(os.path.join(folder, "py_deflated.npz"), **arrays)
    np.savez_compressed(os.path.join(folder, "py_ones.npz"), ones=np.ones(3_000_000, "f4"))
    for version in ((1, 0), (2, 0), (3, 0)):
        write_header_version(os.path.join(folder, "py_v%d.npy" % version[0]), ramp("f4", 4, 5),
                             version)


def three_generations(matrix, folder):
    """The local headers of scipy's files on Windows and with older and newer Python."""
    plain = {"indices": matrix.indices, "indptr": matrix.indptr, "format": b"csr",
             "shape": np.array(matrix.shape), "data": matrix.data}
    for zip64 in (False, True):
        path = os.path.join(folder, "sparse_zip64_%d.npz" % zip64)
        with zipfile.ZipFile(path, "w") as z:
            for name, value in plain.items():
                f = io.BytesIO()
                np.lib.format.write_array(f, np.asanyarray(value), allow_pickle=False)
                with z.open(name + ".npy", "w", force_zip64=zip64) as member:
                    member.write(f.getvalue())
        if zip64:  # the newest form: sizes of 0xffffffff in the local header, truth in the extra
            data = bytearray(open(path, "rb").read())
            central = zipfile.ZipFile(path).start_dir
            for info in zipfile.ZipFile(path).infolist():
                at = info.header_offset
                data[at + 4] = 45
                data[at + 18:at + 26] = b"\xff" * 8
                data[central + 6] = 45
                central += 46 + len(info.filename) + len(info.extra)
            with open(os.path.join(folder, "sparse_zip64_2.npz"), "wb") as f:
                f.write(data)


def sparse(folder):
    m = sp.load_npz(os.path.join(folder, "cache.npz"))
    check(m.format == "csr" and m.shape == (3, 5), "cache.npz: form")
    expected = np.array([[1, 0, 2, 0, 0], [0, 0, 0, 0, 0], [0, 0.5, 0, 0, 4]])
    check(m.dtype == np.float32 and (m.toarray() == expected).all(), "cache.npz: values")
    m.check_format(full_check=True)
    ones = sp.load_npz(os.path.join(folder, "cache_ones.npz"))
    check((ones.toarray() == (expected != 0)).all(), "cache_ones.npz: values")
    for form in ("csr", "csc", "coo"):
        a = sp.csr_matrix(expected).asformat(form)
        for packed in (False, True):
            sp.save_npz(os.path.join(folder, "sparse_%s_%d.npz" % (form, packed)), a, packed)
    sp.save_npz(os.path.join(folder, "sparse_int8.npz"), sp.csr_matrix(expected.astype("i1")))
    sp.save_npz(os.path.join(folder, "sparse_bool.npz"), sp.csr_matrix(expected != 0))
    sp.save_npz(os.path.join(folder, "sparse_dia.npz"), sp.dia_matrix(expected))
    repeated = sp.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 2], [1, 1, 4])), shape=(3, 5))
    sp.save_npz(os.path.join(folder, "sparse_repeats.npz"), repeated)
    unsorted = sp.csr_matrix(expected)
    unsorted.indices = np.array([2, 0, 4, 1], "i4")
    unsorted.data = np.array([2, 1, 4, 0.5])
    sp.save_npz(os.path.join(folder, "sparse_unsorted.npz"), unsorted)
    nan = sp.csr_matrix(expected)
    nan.data[2] = np.nan
    sp.save_npz(os.path.join(folder, "sparse_nan.npz"), nan)
    three_generations(sp.csr_matrix(expected), folder)


if sys.argv[1] == "arrays":
    check_arrays(sys.argv[2])
    write_arrays(sys.argv[2])
elif sys.argv[1] == "sparse":
    sparse(sys.argv[2])
