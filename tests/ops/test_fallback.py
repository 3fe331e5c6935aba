"""Operations made of the tensor library's own: values against the oracle, gradients by finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from dglite.expr import Operand, Side
from dglite.ops import core, fallback
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.sparse_cases import assert_close, expression, graph, operands

GRAPHS = ["random", "star", "no edges", "no nodes", "one edge"]


def relation(kind: str) -> Adjacency:
    coo = graph(kind)
    return Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize(("op", "shapes"), [("copy_u", ((3,),)), ("u_mul_e", ((2, 3), (2, 1))), ("e_sub_v", ((), ()))])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_spmm_equals_the_oracle(dtype, op, shapes, reducer, kind):
    coo, expr = graph(kind), expression(op)
    xs = [torch.from_numpy(value).to(getattr(torch, dtype)) for value in operands(expr, coo, shapes)]
    result = fallback.spmm(relation(kind), expr, Reducer(reducer), xs)
    rounded = [x.double().numpy() for x in xs]
    want = reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded)
    assert_close(result.double().numpy(), want, dtype)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("dot", [False, True])
def test_sddmm_and_softmax_equal_the_oracle(dot, kind):
    coo, expr = graph(kind), expression("u_mul_v")
    values = operands(expr, coo, ((2, 3), (3,)))
    result = fallback.sddmm(relation(kind), expr, [torch.from_numpy(value) for value in values], dot)
    assert_close(result.numpy(), reference.sddmm(expr, coo.src, coo.dst, values, dot), "float64")
    logits = np.random.default_rng(0).normal(size=(len(coo.src), 2))
    weights = fallback.edge_softmax(relation(kind), torch.from_numpy(logits))
    assert_close(weights.numpy(), reference.edge_softmax(coo.dst, logits), "float64")


def test_gradients():
    adj = Adjacency.from_coo(3, 3, np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]))
    x, e = (torch.rand(rows, 2, dtype=torch.float64, requires_grad=True) for rows in (3, 4))
    product = Operand(Side.U, 0) * Operand(Side.E, 1)
    for reducer in (Reducer.SUM, Reducer.MEAN, Reducer.MAX):
        assert gradcheck(lambda *xs, how=reducer: fallback.spmm(adj, product, how, xs), (x, e), fast_mode=True)
    assert gradcheck(lambda logits: fallback.edge_softmax(adj, logits), (e,), fast_mode=True)


def test_operations_take_it_where_kernels_are_lacking(monkeypatch):
    """Everything that calls a kernel goes this way where none can be started, attention with the same dropout."""
    adj = relation("random")
    x = torch.rand(30, 2, 4, dtype=torch.float64)
    left, right = torch.rand(30, 2, dtype=torch.float64), torch.rand(25, 2, dtype=torch.float64)
    how = core.Attention(core.Score.ADDITIVE, dropout=0.3, seed=5)
    want = core.attention(adj, how, x, (left, right))
    monkeypatch.setattr(fallback, "lacks_kernels", lambda tensor: True)
    monkeypatch.setattr("dglite.ops.run.device_of", None)
    torch.testing.assert_close(core.attention(adj, how, x, (left, right)), want)


def test_the_warning_comes_once(monkeypatch):
    monkeypatch.setattr(fallback, "_WARNED", [])
    there = torch.zeros(2, device="meta")  # it stands for a device without kernels
    with pytest.warns(RuntimeWarning, match="no kernels for meta devices, so operations on meta are"):
        assert fallback.lacks_kernels(there)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fallback.lacks_kernels(there) and not fallback.lacks_kernels(torch.zeros(2))
