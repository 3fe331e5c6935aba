"""The oracle on cases small enough to check by hand."""

from __future__ import annotations

import numpy as np

from dglite.expr import Operand, Side
from dglite.opspec import Reducer
from tests import reference

SRC, DST = np.array([0, 1, 1]), np.array([2, 2, 0])
U0, E1, V0 = Operand(Side.U, 0), Operand(Side.E, 1), Operand(Side.V, 0)


def test_spmm_by_hand():
    x, w = np.array([[1.0], [2.0], [4.0]]), np.array([10.0, 100.0, 1000.0])
    result = reference.spmm(U0 * E1, Reducer.SUM, SRC, DST, 3, (x, w))
    np.testing.assert_array_equal(result, [[2000.0], [0.0], [210.0]])
    assert reference.spmm(U0, Reducer.MEAN, SRC, DST, 3, (x,))[2, 0] == 1.5
    assert reference.spmm(U0, Reducer.PROD, SRC, DST, 3, (x,))[2, 0] == 2.0


def test_sddmm_by_hand():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(reference.sddmm(V0, SRC, DST, (x,)), x[DST])
    assert reference.sddmm(U0, SRC, DST, (x,), dot=True)[0, 0] == 3.0


def test_segments_and_softmax_by_hand():
    values = np.array([1.0, 3.0, 5.0])
    result = reference.segment_reduce(Reducer.MAX, np.array([0, 2, 2, 3]), values)
    np.testing.assert_array_equal(result, [3.0, 0.0, 5.0])
    weights = reference.edge_softmax(DST, np.zeros(3))
    np.testing.assert_array_equal(weights, [0.5, 0.5, 1.0])
