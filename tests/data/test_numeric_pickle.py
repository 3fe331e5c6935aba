"""Pickles of numbers are read; whatever else a file holds is refused and nothing of it runs."""

from __future__ import annotations

import codecs
import collections
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dglite.data.numeric_pickle import CsrMatrix, read_numeric_pickle
from dglite.errors import DGLError


def _write(folder: Path, content: bytes) -> Path:
    path = folder / "content.pkl"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
        np.array([1.5, -2], dtype=">f4"),
        np.array([True, False]),
        np.zeros((0, 3), dtype=np.int64),
        np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
        np.arange(6)[::2],
    ],
    ids=["int", "fortran", "big-endian", "bool", "empty", "transposed", "strided"],
)
def test_arrays_come_back(tmp_path: Path, array: np.ndarray, protocol: int) -> None:
    result = read_numeric_pickle(_write(tmp_path, pickle.dumps(array, protocol)))
    assert np.array_equal(result, array)
    assert result.dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize("protocol", [2, 5])
def test_sparse_matrices_come_back(tmp_path: Path, protocol: int) -> None:
    matrix = csr_matrix(np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3]], dtype=np.float32))
    result = read_numeric_pickle(_write(tmp_path, pickle.dumps(matrix, protocol)))
    assert isinstance(result, CsrMatrix)
    assert np.array_equal(result.toarray(), matrix.toarray())


def test_dicts_and_lists_come_back(tmp_path: Path) -> None:
    graph = collections.defaultdict(list, {0: [1, 2], 1: [0]})
    assert read_numeric_pickle(_write(tmp_path, pickle.dumps(graph, 2))) == graph


def test_python_2_names_are_known(tmp_path: Path) -> None:
    raw = struct.pack("<2i", 5, -7)
    python2 = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02\x85"
        b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08"
        + raw
        + b"tb."
    )
    assert read_numeric_pickle(_write(tmp_path, python2)).tolist() == [5, -7]


class _Call:
    """Pickles as a call of ``function``."""

    def __init__(self, function: object, *args: object) -> None:
        self.call = (function, args)

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def _hostile(marker: Path) -> dict[str, bytes]:
    command = f"touch {marker}"
    objects = np.empty(1, dtype=object)
    objects[0] = _Call(os.system, command)
    buffer = np._core.numeric._frombuffer
    return {
        "os.system": pickle.dumps(_Call(os.system, command)),
        "eval": pickle.dumps(_Call(eval, f"open({str(marker)!r}, 'w')")),
        "nested": pickle.dumps({0: [_Call(os.system, command)]}),
        "object array": pickle.dumps(objects, 2),
        "objects from a buffer": pickle.dumps(
            _Call(np._core.numeric._frombuffer, b"x" * 8, np.dtype(object), (1,), "C")
        ),
        "a buffer of no bytes": pickle.dumps(_Call(buffer, [command], np.dtype("i8"), (1,), "C")),
        "getattr": b"cbuiltins\ngetattr\n(cos\nsystem\nS'x'\ntR.",
        "python 2": b"c__builtin__\neval\n(S'open(%r, \"w\")'\ntR." % str(marker).encode(),
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.tofile\x93.",
        "inherited": b"\x80\x02cnumpy\nndarray\nq\x00ccopy_reg\n_reconstructor\n(h\x00h\x00NtR.",
        "array function": b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
    }


@pytest.mark.parametrize("kind", list(_hostile(Path("x"))))
def test_nothing_that_a_file_names_runs(tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "ran"
    path = _write(tmp_path, _hostile(marker)[kind])
    with pytest.raises(DGLError, match=r"content\.pkl is not read: it holds"):
        read_numeric_pickle(path)
    assert not marker.exists()


def test_the_hostile_pickles_would_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    pickle.loads(_hostile(marker)["os.system"])
    assert marker.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([0, 9])}, "column numbers outside its shape"),
        ({"indices": np.array([0, -1])}, "column numbers outside its shape"),
        ({"indptr": np.array([0, 1, 5])}, "row pointers do not fit"),
        ({"indptr": np.array([0, 3, 2])}, "row pointers do not fit"),
        ({"_shape": (5, 3)}, "row pointers do not fit"),
        ({"data": "text"}, "not one-dimensional arrays"),
    ],
)
def test_a_matrix_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    matrix = csr_matrix(np.array([[0, 2, 0], [1, 0, 0]]))
    matrix.__dict__.update(change)
    with pytest.raises(DGLError, match=message):
        read_numeric_pickle(_write(tmp_path, pickle.dumps(matrix, 2)))


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps(np.arange(9), 2)[:-20]])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DGLError, match=r"content\.pkl is not read"):
        read_numeric_pickle(_write(tmp_path, content))


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_numeric_pickle(tmp_path / "absent")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_bytes_of_a_file_are_used_once(tmp_path: Path, protocol: int) -> None:
    raw = bytes(range(200)) * 100

    class Twin:
        def __reduce__(self):
            result = np.zeros(len(raw), np.uint8).__reduce__()
            return (*result[:2], (1, (len(raw),), np.dtype(np.uint8), False, raw))

    class Encoded:
        def __reduce__(self):
            return codecs.encode, (TEXT, "latin1")

    class Buffer:
        def __reduce__(self):
            return np._core.numeric._frombuffer, (raw, np.dtype(np.uint8), (len(raw),), "C")

    TEXT = raw.decode("latin1")
    for kind in (Twin, Encoded, Buffer):
        path = _write(tmp_path, pickle.dumps([kind() for _ in range(30)], protocol))
        assert path.stat().st_size < 3 * len(raw)
        with pytest.raises(DGLError, match="larger together than the file"):
            read_numeric_pickle(path)
