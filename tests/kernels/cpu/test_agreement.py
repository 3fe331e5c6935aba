"""All kernels of one expression agree to the last bit, whatever else they compute and in however many lanes."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from dglite.expr import Constant, Expr, Operand, Side
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
WIDTHS = range(1, 131) if FULL else [1, 2, 3, 7, 33, 64, 67, 129]
U, V, E = Operand(Side.U, 0), Operand(Side.V, 1), Operand(Side.E, 2)
MESSAGE = U * 0.3 + V * E - (U * 0.1 - V).call("exp") * U
"""Sums of products, which a CPU may round once or twice."""


def operands(width: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randn(20, 130, generator=generator, dtype=torch.float64) for _ in range(3)]
    return [x[:, :width].to(dtype).contiguous() for x in rows]


def adjacency() -> Adjacency:
    ends = np.random.default_rng(1).integers(0, 20, (2, 20))
    return Adjacency.from_coo(20, 20, *ends)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_column_does_not_depend_on_how_many_there_are(width: int, dtype: torch.dtype) -> None:
    adj = adjacency()
    whole, part = (core.sddmm(adj, MESSAGE, operands(w, dtype)) for w in (130, width))
    torch.testing.assert_close(part, whole[:, :width], rtol=0, atol=0)
    for reducer in (Reducer.SUM, Reducer.MEAN):
        whole, part = (core.spmm(adj, MESSAGE, reducer, operands(w, dtype)) for w in (130, width))
        torch.testing.assert_close(part, whole[:, :width], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("message", [MESSAGE, U * 0.3 + V], ids=str)
def test_the_maximum_is_one_of_the_messages(message: Expr, width: int, dtype: torch.dtype) -> None:
    adj, rows = adjacency(), operands(width, dtype)
    top = core.spmm(adj, message, Reducer.MAX, rows)
    attains = message.call("eq", Operand(Side.V, 3))
    ones = attains.call("where", Constant(1.0), Constant(0.0))
    received = torch.from_numpy(adj.in_degrees() > 0)
    assert (core.spmm(adj, ones, Reducer.SUM, [*rows, top])[received] >= 1).all()
    # The message is also computed for its own sake, and its product with 0.3 with it.
    more = attains.call("where", message + U * 0.3, Constant(-np.inf))
    again = core.sddmm(adj, U * 0.3 + message, rows)
    highest = core.spmm(adj, more, Reducer.MAX, [*rows, top])[received]
    assert torch.isfinite(highest).all() and torch.isin(highest, again).all()
