"""g-SpMM and g-SDDMM as rendered for a GPU, run by the emulation: the same cases as for the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite.expr import Operand, Side
from dglite.kernels.cuda.graph.sparse import bind_sddmm, bind_several, bind_spmm, team_of, widest_vector
from dglite.kernels.cuda.render import expression_text
from dglite.opspec import OPERATORS, Reducer
from tests import reference
from tests.kernels.cuda.emulated import GPU, LIMITS, needs_compiler, uploaded
from tests.kernels.sparse_cases import DTYPES, GRAPHS, IDS, TORCH, Coo, assert_close, expression, graph, operands
from tests.kernels.sparse_cases import SHAPES as NARROW
from tests.pairs import cases

OPS = ["copy_u", "copy_e", "u_add_e", "u_mul_e", "u_div_v", "e_sub_v"]
REDUCERS = ["sum", "mean", "max", "min"]
SHAPES = {**NARROW, "wide": ((640,), (640,))}


def with_ids(chosen: list[tuple]) -> list[tuple]:
    """Return the cases with int32 and int64 ids in turn: one axis less, and choosing takes a tenth of the time."""
    return [(*case[:3], IDS[i % 2], *case[3:]) for i, case in enumerate(chosen)]


SPMM = with_ids(cases(OPS, REDUCERS, DTYPES, list(SHAPES), GRAPHS, list(LIMITS)))
SDDMM = [
    case
    for case in with_ids(
        cases(["copy_u", "u_add_v", "u_mul_v", "e_sub_v"], [False, True], DTYPES, list(SHAPES), GRAPHS, list(LIMITS))
    )
    if not (case[1] and case[4] in ("one number", "zero width"))  # answered without a kernel
]

pytestmark = needs_compiler


def used_shapes(op: str, shape: str) -> tuple[tuple[int, ...], ...]:
    return SHAPES[shape][: 1 if op.startswith("copy") else 2]


def bound_spmm(case):
    op, reducer, dtype, index, shape, *_ = case
    return bind_spmm(expression(op), Reducer(reducer), dtype, index, used_shapes(op, shape))


def bound_sddmm(case):
    op, dot, dtype, index, shape, *_ = case
    return bind_sddmm(expression(op), dtype, index, used_shapes(op, shape), dot)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernels of all cases at once."""
    pairs = [(case, bound_spmm(case)) for case in SPMM] + [(case, bound_sddmm(case)) for case in SDDMM]
    GPU.prepare(
        bound.program([0] * 2, 0, len(graph(case[5]).src) / max(graph(case[5]).num_dst, 1))[1]
        for case, bound in pairs
        if bound.layout.width and len(graph(case[5]).src)
    )


def run(coo: Coo, index: str, dtype: str, values: list[np.ndarray], bound, out_shape, limit: str, **more):
    """Call a bound kernel on torch tensors of ``dtype``; return the result and the rounded operands as float64."""
    tensors = [torch.from_numpy(value).to(TORCH[dtype]).contiguous() for value in values]
    out = torch.full(out_shape, 99.0, dtype=TORCH[dtype])
    bound(uploaded(coo, index, limit), [tensor.data_ptr() for tensor in tensors], out.data_ptr(), GPU, **more)
    return out.double().numpy(), [tensor.double().numpy() for tensor in tensors]


@pytest.mark.parametrize(("op", "reducer", "dtype", "index", "shape", "kind", "limit"), SPMM)
def test_spmm_equals_the_oracle(op, reducer, dtype, index, shape, kind, limit):
    coo, bound = graph(kind), bound_spmm((op, reducer, dtype, index, shape))
    values = operands(expression(op), coo, SHAPES[shape])
    result, rounded = run(coo, index, dtype, values, bound, (coo.num_dst, *bound.layout.shape), limit)
    want = reference.spmm(expression(op), Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded)
    assert_close(result, want, dtype)


@pytest.mark.parametrize(("op", "dot", "dtype", "index", "shape", "kind", "limit"), SDDMM)
def test_sddmm_equals_the_oracle(op, dot, dtype, index, shape, kind, limit):
    coo, bound = graph(kind), bound_sddmm((op, dot, dtype, index, shape))
    values = operands(expression(op), coo, SHAPES[shape])
    feat = bound.layout.shape[:-1] + (1,) if dot else bound.layout.shape
    result, rounded = run(coo, index, dtype, values, bound, (len(coo.src), *feat), limit)
    assert_close(result, reference.sddmm(expression(op), coo.src, coo.dst, rounded, dot), dtype)


@pytest.mark.parametrize("index", IDS)
@pytest.mark.parametrize("reducer", ["max", "min"])
@pytest.mark.parametrize("limit", list(LIMITS))
@pytest.mark.parametrize(("kind", "width"), [("random", 20), ("star", 20), ("star", 1)])
def test_argmax_is_the_first_entries_with_the_extreme_value(kind, width, limit, reducer, index):
    coo, expr = graph(kind), expression("copy_u")
    values = [np.round(operands(expr, coo, ((width,),))[0])]  # many ties
    bound = bind_spmm(expr, Reducer(reducer), "float32", index, ((width,),), argmax=True)
    argmax = np.full((coo.num_dst, width), -9, index)
    out_shape = coo.num_dst, width
    result, _ = run(coo, index, "float32", values, bound, out_shape, limit, argmax=argmax.ctypes.data)
    indptr, indices, _ = coo.csc(index)
    for node in range(coo.num_dst):
        messages = values[0][indices[indptr[node] : indptr[node + 1]]]
        if not len(messages):
            assert (argmax[node] == -1).all()
            continue
        best = messages.argmax(0) if reducer == "max" else messages.argmin(0)
        assert (argmax[node] == indptr[node] + best).all()
        assert (result[node] == messages[best, np.arange(width)]).all()


@pytest.mark.parametrize("limit", list(LIMITS))
def test_several_reductions_are_the_same_as_one_each(limit):
    coo, message = graph("star"), expression("copy_u")
    values = operands(message, coo, ((20,),))
    parts = ((message, Reducer.MAX), (message * message, Reducer.MEAN), (message, Reducer.MIN))
    bound = bind_several(parts, "float32", "int32", ((20,),), argmax=True)
    argmax, alone = np.full((2, coo.num_dst, 20), -9, "int32"), np.full((2, coo.num_dst, 20), -8, "int32")
    shape = 3, coo.num_dst, 20
    result, _ = run(coo, "int32", "float32", values, bound, shape, limit, argmax=argmax.ctypes.data)
    for i, (expr, reducer) in enumerate(parts):
        assert_close(result[i], reference.spmm(expr, reducer, coo.src, coo.dst, coo.num_dst, values), "float32")
        if reducer.selects:
            single = bind_spmm(expr, reducer, "float32", "int32", ((20,),), argmax=True)
            into = alone[i // 2].ctypes.data
            run(coo, "int32", "float32", values, single, shape[1:], limit, argmax=into)
    np.testing.assert_array_equal(argmax, alone)


@pytest.mark.parametrize("limit", list(LIMITS))
@pytest.mark.parametrize(("dtype", "shapes"), [("bfloat16", ((8, 3), (8, 1))), ("float32", ((320,), (1,)))])
def test_several_reductions_are_one_pass(monkeypatch, dtype, shapes, limit):
    coo, product, launched = graph("random"), expression("u_mul_e"), []
    launch = GPU.launch
    monkeypatch.setattr(
        GPU, "launch", lambda program, name, *rest: launched.append(name) or launch(program, name, *rest)
    )
    values = operands(product, coo, shapes)
    # of one the operand of edges is no part
    parts = (
        (product, Reducer.SUM),
        (expression("copy_u"), Reducer.MIN),
        (product, Reducer.MAX),
        (product, Reducer.MEAN),
    )
    bound = bind_several(parts, dtype, "int64", shapes)
    result, rounded = run(coo, "int64", dtype, values, bound, (4, coo.num_dst, *bound.layout.shape), limit)
    assert launched in (["rows"], ["rows", "merge"])
    for actual, (expr, reducer) in zip(result, parts, strict=True):
        want = reference.spmm(expr, reducer, coo.src, coo.dst, coo.num_dst, rounded)
        assert_close(actual, np.broadcast_to(want, actual.shape), dtype)


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
def test_nan_and_infinity_come_through(reducer):
    coo = Coo(3, 2, np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]))
    values = [np.array([[1.0, np.nan], [2.0, 1.0], [np.inf, -np.inf]])]
    bound = bind_spmm(expression("copy_u"), Reducer(reducer), "float32", "int32", ((2,),))
    result, _ = run(coo, "int32", "float32", values, bound, (2, 2), "whole")
    want = reference.spmm(expression("copy_u"), Reducer(reducer), coo.src, coo.dst, 2, values)
    np.testing.assert_array_equal(result, want)


def test_every_operator_of_the_table_means_the_same():
    """One kernel for each operator that is a value, on positive numbers: the table's text is CUDA C++ too."""
    coo, x, y = graph("random"), Operand(Side.U, 0), Operand(Side.E, 1)
    for dtype in ("float32", "float64"):
        exprs = [x.call(name, y) if op.arity == 2 else x.call(name) for name, op in OPERATORS.items() if op.arity < 3]
        exprs = [e.call("where", x, y) if e.op.name in ("gt", "ge", "lt", "le", "eq", "ne") else e for e in exprs]
        exprs += [x.call("gt", 1.0).call("where", 0.1, float("inf")), (x * y + 0.25) / (x * y)]
        values = [np.abs(value) for value in operands(x * y, coo, ((3,), (3,)))]
        bounds = [bind_sddmm(e, dtype, "int32", ((3,), (3,)) if "e1" in str(e) else ((3,),)) for e in exprs]
        mean = len(coo.src) / coo.num_dst
        GPU.prepare(bound.program([0] * 2, 0, mean)[1] for bound in bounds)
        for expr, bound in zip(exprs, bounds, strict=True):
            given = values if "e1" in str(expr) else values[:1]
            result, rounded = run(coo, "int32", dtype, given, bound, (len(coo.src), 3), "whole")
            want = reference.sddmm(expr, coo.src, coo.dst, rounded)
            assert np.allclose(result, want, rtol=1e-5 if dtype == "float32" else 1e-12), str(expr)


@pytest.mark.parametrize("offset", [0, 1, 2, 4])
def test_tensors_that_begin_anywhere(offset):
    """Vectors are as wide as the addresses allow: the emulation refuses a load that is not aligned."""
    coo, expr = graph("random"), expression("copy_u")
    values = torch.arange(30 * 16 + 8, dtype=torch.float32)[offset : offset + 30 * 16].reshape(30, 16)
    out = torch.zeros(25, 16)
    bind_spmm(expr, Reducer.SUM, "float32", "int32", ((16,),))(
        uploaded(coo, "int32", "whole"), [values.data_ptr()], out.data_ptr(), GPU
    )
    want = reference.spmm(expr, Reducer.SUM, coo.src, coo.dst, 25, [values.double().numpy()])
    assert_close(out.double().numpy(), want, "float32")


@pytest.mark.parametrize(
    ("dtype", "run_length", "address", "vec"),
    [("float32", 8, 0, 4), ("float32", 6, 0, 2), ("float32", 8, 4, 1), ("float16", 64, 16, 8), ("float64", 7, 0, 1)],
)
def test_a_vector_is_as_wide_as_run_and_address_allow(dtype, run_length, address, vec):
    assert widest_vector(dtype, run_length, [address]) == vec


@pytest.mark.parametrize(
    ("vectors", "mean", "team"),
    [(1, 1.0, (1, 1, 1)), (1, 1000.0, (1, 32, 1)), (4, 20.0, (4, 4, 1)), (18, 9.0, (32, 1, 1)), (64, 9.0, (32, 1, 2))],
)
def test_narrow_rows_leave_lanes_to_the_entries(vectors, mean, team):
    assert team_of(vectors, mean) == team


def test_a_sum_with_a_product_is_one_operation_whatever_else_is_computed() -> None:
    u, v = Operand(Side.U, 0), Operand(Side.V, 1)
    product = u * v
    lines, values = expression_text((product + u, product - v, u - product, product))
    assert [line.partition(" = ")[2] for line in lines] == [
        "fma(u0, v1, u0);",
        "fma(u0, v1, -v1);",
        "fma(-u0, v1, u0);",
        "(u0 * v1);",
    ]
    assert values == ["t0", "t1", "t2", "t3"]
