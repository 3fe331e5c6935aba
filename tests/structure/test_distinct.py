"""Sets of ids agree with Python's sets, whether ids are few or many, sorted, hashed or marked."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from dglite.kernels import density
from dglite.structure.distinct import Positions, contains, distinct, numbered, renumbered, renumbered_ends
from dglite.structure.lookups import SortedPairs

PACKAGE = Path(__file__).parents[2] / "dglite"
CASES = [(0, 10), (1, 1), (7, 5), (300, 20), (300, 10**9), (3000, 500), (3000, 10**6), (3000, 10**13)]


def some(size: int, count: int, dtype: type = np.int64) -> np.ndarray:
    return np.random.default_rng(size).integers(0, count, size).astype(dtype)


@pytest.mark.parametrize(("size", "count"), CASES)
def test_distinct_values(size, count):
    ids = some(size, count)
    ids[::3] = ids[: len(ids[::3])]
    ascending = sorted(set(ids.tolist()))
    for x in (ids, ids[::-1]):
        assert distinct(x).tolist() == ascending
        values, places = numbered(x)
        assert values.tolist() == ascending and values[places].tolist() == x.tolist()
    listed, places = renumbered(ids, count)
    assert listed.tolist() == list(dict.fromkeys(ids.tolist())) and listed[places].tolist() == ids.tolist()
    assert distinct(ids).dtype == ids.dtype == listed.dtype


def test_distinct_values_of_other_kinds():
    assert distinct(np.array(["b", "a", "b"])).tolist() == ["a", "b"]
    assert distinct(np.array([2.5, -1.0, 2.5])).tolist() == [-1.0, 2.5]
    many = np.tile(np.array([3, -5, 3]), 400)
    assert distinct(many).tolist() == [-5, 3] and numbered(many)[0].tolist() == [-5, 3]


@pytest.mark.parametrize(("size", "count"), CASES)
@pytest.mark.parametrize("number", [0, 1, 40, 2000])
def test_membership(size, count, number):
    ids, target = some(size, count), some(number, 2 * count)
    ids[::2] = np.resize(target, len(ids[::2])) if number else ids[::2]
    expected = [i in set(target.tolist()) for i in ids.tolist()]
    assert contains(target, ids).tolist() == expected
    assert contains(target, -1 - ids).tolist() == [False] * size


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("size", "count"), [(0, 3), (0, 10**8), (5, 9), (5, 10**8), (2000, 5000), (2000, 10**8)])
def test_positions(size, count, dtype):
    ids = distinct(some(size, count))
    ids = np.random.default_rng(0).permutation(ids)
    asked = np.concatenate([ids[::2], some(1000, count)]).astype(dtype)
    places = {node: i for i, node in enumerate(ids.tolist())}
    positions = Positions(ids, count, np.dtype(dtype))
    assert positions.find(asked).tolist() == [places.get(node, -1) for node in asked.tolist()]
    assert (positions.table is None) == density.few_among(len(ids), count)


def test_ends_are_numbered_by_appearance():
    pairs = [(np.array([9, 4]), np.array([4, 9])), (np.array([1]), np.array([7]))]
    nodes, ends = renumbered_ends(pairs, [(0, 0), (1, 0)], [np.array([5]), np.array([], np.int64)], [10, 2])
    assert [x.tolist() for x in nodes] == [[5, 9, 4, 7], [1]]
    assert [[x.tolist() for x in pair] for pair in ends] == [[[1, 2], [2, 1]], [[0], [3]]]


@pytest.mark.parametrize("count", [3, 1000, 10**7, 10**12, 1 << 48])
@pytest.mark.parametrize("size", [0, 1, 50, 2000])
def test_sorted_pairs(size, count):
    rng = np.random.default_rng(size)
    nodes = rng.integers(0, count, 30)
    src, dst = rng.choice(nodes, size), rng.choice(nodes, size)
    pairs = SortedPairs(src, dst, count, count)
    expected = sorted(zip(src.tolist(), dst.tolist(), range(size), strict=True))
    assert list(zip(pairs.src.tolist(), pairs.dst.tolist(), pairs.edge_ids.tolist(), strict=True)) == expected
    u, v = (np.concatenate([rng.choice(nodes, 100), rng.integers(0, count, 100)]) for _ in range(2))
    first, last = pairs.ranges(u, v)
    for a, b, lo, hi in zip(u.tolist(), v.tolist(), first, last, strict=True):
        assert pairs.edge_ids[lo:hi].tolist() == [i for x, y, i in expected if (x, y) == (a, b)]
    ends = [edge[:2] for edge in expected]
    assert pairs.first_of_each().tolist() == [i == 0 or ends[i] != ends[i - 1] for i in range(size)]


SETS = {"setdiff1d", "union1d", "intersect1d", "isin", "in1d", "setxor1d", "unique_values"}


def hashing_calls(tree: ast.AST) -> list[int]:
    """Return the lines with calls of NumPy's set functions that hash."""
    lines = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "numpy")):
            continue
        names = {keyword.arg for keyword in node.keywords}
        sorts = node.func.attr == "unique" and any(name and name.startswith("return_") for name in names)
        if (node.func.attr == "unique" and not sorts) or (node.func.attr in SETS and "assume_unique" not in names):
            lines.append(node.lineno)
    return lines


def test_numpys_hashing_functions_are_not_called():
    calls = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line in hashing_calls(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not calls, f"np.unique without return_* hashes; use structure.distinct: {calls}"


def test_a_hashing_call_is_found():
    source = "np.unique(x)\nnp.unique(x, return_inverse=True)\nnp.isin(a, b)\nnp.intersect1d(a, b, assume_unique=True)"
    assert hashing_calls(ast.parse(source)) == [1, 3]
