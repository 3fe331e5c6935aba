"""g-SpMM and g-SDDMM kernels against the oracle: operators x reducers x dtypes x ids x shapes x graphs x threads."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from dglite.expr import Operand, Side
from dglite.kernels.cpu.graph import sparse
from dglite.kernels.cpu.graph.sparse import bind_epilogue, bind_sddmm, bind_several, bind_spmm
from dglite.kernels.cpu.run import launch, parts
from dglite.kernels.spec import REDUCED
from dglite.kernels.words import EDGE_LIST
from dglite.opspec import Reducer
from tests import reference
from tests.kernels.sparse_cases import (
    DTYPES,
    GRAPHS,
    IDS,
    SHAPES,
    TORCH,
    Coo,
    assert_close,
    expression,
    graph,
    operands,
)
from tests.pairs import cases

OPS = ["copy_u", "copy_e", "u_add_e", "u_sub_e", "u_mul_e", "u_div_e", "u_mul_v", "e_sub_v"]
REDUCERS = ["sum", "mean", "max", "min"]


@pytest.fixture(autouse=True)
def threads_for_small_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Go parallel from the first element on, and cut rows of few entries, so that small graphs have merges."""
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    monkeypatch.setattr(sparse, "PARALLEL_FROM", 1)
    monkeypatch.setattr(parts, "ROW_PART", 1)
    monkeypatch.setattr(parts, "ENTRIES", 5)
    parts.part_memory.cache_clear()
    yield
    parts.part_memory.cache_clear()


def run(coo: Coo, index: str, dtype: str, values: list[np.ndarray], bound, out_shape, threads: int, **more):
    """Call a bound kernel on torch tensors of ``dtype``; return the result as float64."""
    tensors = [torch.from_numpy(value).to(TORCH[dtype]).contiguous() for value in values]
    indptr, indices, edge_ids = coo.csc(index)
    words = array("q", (indptr.ctypes.data, indices.ctypes.data, edge_ids.ctypes.data, coo.num_dst, len(coo.src)))
    out = torch.full(out_shape, 99.0, dtype=TORCH[dtype])
    bound(words, [tensor.data_ptr() for tensor in tensors], out.data_ptr(), threads, **more)
    return out.double().numpy(), [tensor.double().numpy() for tensor in tensors]


@pytest.mark.parametrize(
    ("op", "reducer", "dtype", "index", "shape", "kind", "threads"),
    cases(OPS, REDUCERS, DTYPES, IDS, list(SHAPES), GRAPHS, [1, 2]),
)
def test_spmm_equals_the_oracle(op, reducer, dtype, index, shape, kind, threads):
    expr, coo = expression(op), graph(kind)
    values = operands(expr, coo, SHAPES[shape])
    bound = bind_spmm(expr, Reducer(reducer), dtype, index, tuple(value.shape[1:] for value in values))
    result, rounded = run(coo, index, dtype, values, bound, (coo.num_dst, *bound.layout.shape), threads)
    want = reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded)
    assert_close(result, want, dtype)


@pytest.mark.parametrize(
    ("op", "dot", "dtype", "index", "shape", "kind", "threads"),
    [
        case
        for case in cases(
            ["copy_u", "u_add_v", "u_mul_v", "u_div_e", "e_sub_v"],
            [False, True],
            DTYPES,
            IDS,
            list(SHAPES),
            GRAPHS,
            [1, 2],
        )
        if not (case[1] and case[4] in ("one number", "zero width"))  # answered without a kernel
    ],
)
def test_sddmm_equals_the_oracle(op, dot, dtype, index, shape, kind, threads):
    expr, coo = expression(op), graph(kind)
    values = operands(expr, coo, SHAPES[shape])
    bound = bind_sddmm(expr, dtype, index, tuple(value.shape[1:] for value in values), dot)
    feat = bound.layout.shape[:-1] + (1,) if dot else bound.layout.shape
    result, rounded = run(coo, index, dtype, values, bound, (len(coo.src), *feat), threads)
    assert_close(result, reference.sddmm(expr, coo.src, coo.dst, rounded, dot), dtype)


@pytest.mark.parametrize("index", IDS)
@pytest.mark.parametrize("reducer", ["max", "min"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["random", "star"])
def test_argmax_is_the_first_entries_with_the_extreme_value(kind, threads, reducer, index):
    coo, expr = graph(kind), expression("copy_u")
    values = [np.round(operands(expr, coo, ((20,),))[0])]  # many ties
    bound = bind_spmm(expr, Reducer(reducer), "float32", index, ((20,),), argmax=True)
    argmax = np.full((coo.num_dst, 20), -9, index)
    result, _ = run(coo, index, "float32", values, bound, (coo.num_dst, 20), threads, argmax=argmax.ctypes.data)
    indptr, indices, _ = coo.csc(index)
    for node in range(coo.num_dst):
        messages = values[0][indices[indptr[node] : indptr[node + 1]]]
        if not len(messages):
            assert (argmax[node] == -1).all()
            continue
        best = messages.argmax(0) if reducer == "max" else messages.argmin(0)
        assert (argmax[node] == indptr[node] + best).all()
        assert (result[node] == messages[best, np.arange(20)]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reducer", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", ["random", "star"])
def test_any_number_of_tasks_gives_the_same_bits(kind, reducer, dtype):
    coo, expr = graph(kind), expression("u_mul_e")
    values = operands(expr, coo, ((20,), (1,)))
    bound = bind_spmm(expr, Reducer(reducer), dtype, "int32", ((20,), (1,)))
    results = [run(coo, "int32", dtype, values, bound, (coo.num_dst, 20), threads)[0] for threads in (1, 2, 3, 50)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_parts_are_fewer_where_their_results_would_not_fit(reducer, monkeypatch):
    coo, expr, entries = graph("star"), expression("copy_u"), 9
    values = operands(expr, coo, ((20,),))
    most = len(coo.src) * 20 * 4 // entries
    monkeypatch.setattr(parts, "MOST_BYTES", most)
    for tasks in (2, 9, 1000):
        few, words, size = parts.part_memory(tasks, len(coo.src), 20, 80, False)
        assert words[0] >= entries and few <= max(tasks, len(coo.src) // entries + 1)
        assert 8 * size <= 3 * most + 1000
    bound = bind_spmm(expr, Reducer(reducer), "float32", "int64", ((20,),))
    runs = [run(coo, "int64", "float32", values, bound, (coo.num_dst, 20), threads) for threads in (1, 2, 9)]
    assert_close(
        runs[0][0], reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, runs[0][1]), "float32"
    )
    assert all((result == runs[0][0]).all() for result, _ in runs)


@pytest.mark.parametrize("largest", [1 << 22, 120])
@pytest.mark.parametrize("threads", [1, 2, 9])
def test_an_epilogue_gets_each_row_once_all_its_parts_are_there(threads, largest, monkeypatch):
    monkeypatch.setattr(parts, "LARGEST", largest)
    monkeypatch.setattr(parts, "MOST_PARTS", 4)
    coo, expr = graph("star"), expression("copy_u")
    x, bias = operands(expr, coo, ((20,),))[0], np.random.default_rng(0).random((1, 20))
    bound = bind_epilogue(expr, Reducer.MEAN, (REDUCED + Operand(Side.G, 1)) * 2.0, "float64", "int32", ((20,), (20,)))
    result, _ = run(coo, "int32", "float64", [x, bias], bound, (coo.num_dst, 20), threads)
    want = 2 * (reference.spmm(expr, Reducer.MEAN, coo.src, coo.dst, coo.num_dst, [x]) + bias)
    assert_close(result, want, "float64")


SEVERAL = {
    "mean max": ["mean m", "max m"],
    "all of one": ["sum m", "mean m", "sum m * m", "max m", "min m"],
    "extrema": ["min m", "max -m"],
    "of two messages": ["max m", "sum u0", "min m * m"],
}


def several(op: str, names: list[str]):
    """Return the reductions of functions of the message ``op``."""
    result = {"m": (m := expression(op)), "m * m": m * m, "-m": -m, "u0": Operand(Side.U, 0)}
    return tuple((result[name.partition(" ")[2]], Reducer(name.partition(" ")[0])) for name in names)


@pytest.mark.parametrize(
    ("names", "op", "dtype", "index", "shape", "kind", "threads"),
    cases(list(SEVERAL), ["copy_u", "u_add_e", "u_mul_v"], DTYPES, IDS, list(SHAPES), GRAPHS, [1, 2]),
)
def test_several_reductions_in_one_pass_equal_one_each(names, op, dtype, index, shape, kind, threads):
    """Against the oracle; and the argmax are those of a kernel for each, with rows cut between tasks too."""
    coo, expr, parts = graph(kind), expression(op), several(op, SEVERAL[names])
    values = operands(expr, coo, SHAPES[shape])
    shapes = tuple(value.shape[1:] for value in values)
    bound = bind_several(parts, dtype, index, shapes, argmax=True)
    feat = bound.layout.shape
    selecting = [part for part in parts if part[1].selects]
    argmax = np.full((len(selecting), coo.num_dst, *feat), -9, index)
    result, rounded = run(
        coo, index, dtype, values, bound, (len(parts), coo.num_dst, *feat), threads, argmax=argmax.ctypes.data
    )
    for actual, (part, reducer) in zip(result, parts, strict=True):
        want = reference.spmm(part, reducer, coo.src, coo.dst, coo.num_dst, rounded)
        assert_close(actual, np.broadcast_to(want, actual.shape), dtype)
    for actual, (part, reducer) in zip(argmax, selecting, strict=True):
        alone = np.full((coo.num_dst, *feat), -9, index)
        single = bind_spmm(part, reducer, dtype, index, shapes, argmax=True)
        run(coo, index, dtype, values, single, (coo.num_dst, *feat), 1, argmax=alone.ctypes.data)
        np.testing.assert_array_equal(actual, alone)


@pytest.mark.parametrize("width", [1, 2, 5, 16, 31, 64, 77, 130])
def test_several_reductions_at_any_width(width):
    coo, parts = graph("star"), several("u_add_v", SEVERAL["all of one"])
    values = operands(expression("u_add_v"), coo, ((width,), (width,)))
    bound = bind_several(parts, "float32", "int32", ((width,), (width,)))
    result, rounded = run(coo, "int32", "float32", values, bound, (len(parts), coo.num_dst, width), 2)
    for actual, (part, reducer) in zip(result, parts, strict=True):
        assert_close(actual, reference.spmm(part, reducer, coo.src, coo.dst, coo.num_dst, rounded), "float32")


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
def test_nan_and_infinity_come_through(reducer):
    coo = Coo(3, 2, np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]))
    values = [np.array([[1.0, np.nan], [2.0, 1.0], [np.inf, -np.inf]])]
    expr = expression("copy_u")
    bound = bind_spmm(expr, Reducer(reducer), "float32", "int32", ((2,),))
    result, _ = run(coo, "int32", "float32", values, bound, (2, 2), 1)
    want = reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, 2, values)
    np.testing.assert_array_equal(result, want)


def test_the_comparison_fails_on_a_wrong_answer():
    with pytest.raises(AssertionError, match="off by"):
        assert_close(np.ones(3), np.array([1.0, 1.0, 1.1]), "float32")
    with pytest.raises(AssertionError, match="shape"):
        assert_close(np.ones(3), np.ones((3, 1)), "float32")
    with pytest.raises(AssertionError, match="NaN"):
        assert_close(np.array([np.nan]), np.ones(1), "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(16,), (48,), (2, 32), (100,), (3, 8), (1,)])
@pytest.mark.parametrize("in_order", [False, True])
def test_rows_that_go_past_the_caches_are_the_same(monkeypatch, in_order, shape, dtype):
    """Rows whose size is no multiple of a cache line's do not go that way; nor does a result that is not aligned."""
    coo, expr = graph("random"), expression("u_add_v")
    values = operands(expr, coo, (shape, shape))
    bound = bind_sddmm(expr, dtype, "int64", (shape, shape))
    arrays = np.asarray(coo.dst, np.int64), np.asarray(coo.src, np.int64)

    def results(offset):
        tensors = [torch.from_numpy(value).to(TORCH[dtype]).contiguous() for value in values]
        memory = torch.full((coo.src.size * int(np.prod(shape)) + 64,), 99.0, dtype=TORCH[dtype])
        first = -memory.data_ptr() % 64 // memory.itemsize + offset
        indptr, indices, edge_ids = coo.csc("int64")
        words = [indptr.ctypes.data, indices.ctypes.data, edge_ids.ctypes.data, coo.num_dst, len(coo.src)]
        if in_order:
            words = [arrays[0].ctypes.data, arrays[1].ctypes.data, 0, EDGE_LIST, len(coo.src)]
        out = memory[first:].data_ptr()
        used = bound.fitted(words, out).spec
        bound(array("q", words), [tensor.data_ptr() for tensor in tensors], out, 2)
        return used.nontemporal, memory[first:-64]

    (plain, want), (unaligned, other) = results(0), results(1)
    monkeypatch.setattr(sparse, "NONTEMPORAL_FROM", 1)
    (past_caches, actual), (never, shifted) = results(0), results(1)
    size = shape[-1] * TORCH[dtype].itemsize if len(shape) == 1 else np.prod(shape) * TORCH[dtype].itemsize
    assert (plain, unaligned, never) == (False, False, False) and past_caches == (size % 64 == 0)
    assert torch.equal(want, actual) and torch.equal(other, shifted)
    assert want[: len(coo.src)].isfinite().all() and not (want[: len(coo.src)] == 99).all()
