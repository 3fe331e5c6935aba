"""Parts of sparse matrices, against dense torch; random parts against their distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.autograd import gradcheck

import dglite
from dglite import DGLError
from dglite.sparse import spmatrix
from tests.sparse.cases import CASES, dense, matrix, places


@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_rows_and_columns_by_number(name, dim, values):
    A = matrix(name, values)
    size = A.shape[dim]
    for index in (
        torch.arange(size).flip(0),
        torch.tensor([0, size - 1, 0] if size else []).long(),
        torch.tensor([]).long(),
    ):
        B = A.index_select(dim, index)
        torch.testing.assert_close(dense(B), dense(A).index_select(dim, index))
        order = B.row if dim == 0 else B.col
        assert (order[1:] >= order[:-1]).all()
        if B.nnz:
            assert gradcheck(
                lambda val, index=index: A.like(val).index_select(dim, index).val,
                (A.val.requires_grad_(),),
                fast_mode=True,
            )


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_rows_and_columns_by_range(name, dim):
    A = matrix(name)
    for index in (slice(None), slice(1, 3), slice(1, None), slice(-2, None), slice(0, 100), slice(2, 1)):
        expected = dense(A)[index] if dim == 0 else dense(A)[:, index]
        torch.testing.assert_close(dense(A.range_select(dim, index)), expected)


def test_the_documented_selections():
    A = spmatrix(torch.tensor([[0, 1, 1, 2, 3, 4], [0, 2, 4, 3, 5, 0]]), torch.arange(6))
    for B, where, values, shape in (
        (A.index_select(0, torch.tensor([0, 1, 4])), [[0, 1, 1, 2], [0, 2, 4, 0]], [0, 1, 2, 5], (3, 6)),
        (A.index_select(1, torch.tensor([0, 4, 5])), [[0, 4, 1, 3], [0, 0, 1, 2]], [0, 5, 2, 4], (5, 3)),
        (A.range_select(0, slice(1, 3)), [[0, 0, 1], [2, 4, 3]], [1, 2, 3], (2, 6)),
        (A.range_select(1, slice(3, 6)), [[2, 1, 3], [0, 1, 2]], [3, 2, 4], (5, 3)),
    ):
        assert (places(B), B.val.tolist(), B.shape) == (where, values, shape)


def test_what_cannot_be_selected_is_named():
    A = matrix("plain")
    for call in (A.index_select, A.range_select):
        with pytest.raises(ValueError, match="0 or 1"):
            call(2, torch.tensor([0]))
        with pytest.raises(TypeError, match="unsupported input type"):
            call(0, [0])
    with pytest.raises(NotImplementedError, match="step"):
        A.range_select(0, slice(0, 3, 2))
    with pytest.raises(DGLError, match="row id 3"):
        A.index_select(0, torch.tensor([3]))
    with pytest.raises(DGLError, match="column id 4"):
        A.index_select(1, torch.tensor([4]))


# -- chance ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_samples_are_entries(name, dim, replace, bias):
    A = matrix(name)
    val = torch.arange(A.nnz, dtype=torch.float64)  # the first entry has weight 0
    A = A.like(val)
    for fanout in (0, 1, 2, 9):
        for ids in (None, torch.arange(A.shape[dim]).flip(0)):
            B = A.sample(dim, fanout, ids, replace, bias)
            chosen = torch.arange(A.shape[dim]) if ids is None else ids
            assert B.shape == ((len(chosen), A.shape[1]) if dim == 0 else (A.shape[0], len(chosen)))
            entry = B.val.long()
            near, far = (B.row, B.col) if dim == 0 else (B.col, B.row)
            own, other = (A.row, A.col) if dim == 0 else (A.col, A.row)
            assert torch.equal(own[entry], chosen[near])
            assert torch.equal(other[entry], far)
            drawable = (val > 0) if bias else torch.ones(A.nnz, dtype=torch.bool)
            degrees = torch.bincount(own[drawable], minlength=A.shape[dim])[chosen]
            expected = (degrees > 0) * fanout if replace else degrees.clamp(max=fanout)
            assert torch.equal(torch.bincount(near, minlength=len(chosen)), expected)
            if not replace:
                assert len(entry.unique()) == len(entry)
            assert drawable[entry].all()


def test_samples_follow_the_seed():
    A = spmatrix(torch.randint(0, 50, (2, 2000)), torch.arange(2000.0), (50, 50))
    drawn = []
    for _ in range(2):
        dglite.seed(5)
        drawn.append([A.sample(0, 3, None, replace, bias).val for replace in (False, True) for bias in (False, True)])
    assert all(torch.equal(x, y) for x, y in zip(*drawn, strict=True))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_samples_have_their_distribution(replace, bias):
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    rows = 20_000
    row, col = torch.arange(rows).repeat_interleave(4), torch.arange(4).repeat(rows)
    dglite.seed(3)
    drawn = spmatrix(torch.stack([row, col]), weights.repeat(rows), (rows, 4)).sample(0, 1, None, replace, bias)
    expected = (weights.double() / 10 if bias else torch.full((4,), 0.25).double()).numpy() * rows
    assert chisquare(np.bincount(drawn.col.numpy(), minlength=4), expected).pvalue > 1e-3


def test_two_draws_without_replacement_have_their_distribution():
    weights, rows = np.array([1.0, 2.0, 5.0]), 20_000
    row, col = torch.arange(rows).repeat_interleave(3), torch.arange(3).repeat(rows)
    dglite.seed(4)
    A = spmatrix(torch.stack([row, col]), torch.tensor(weights).repeat(rows), (rows, 3))
    pairs = A.sample(0, 2, bias=True).col.reshape(rows, 2).numpy()
    left_out = 3 - pairs.sum(1)
    p = weights / weights.sum()
    missing = [
        sum(p[a] * p[b] / (1 - p[a]) for a, b in ((i, j), (j, i)))
        for i, j in ((1, 2), (0, 2), (0, 1))
    ]  # fmt: skip
    assert chisquare(np.bincount(left_out, minlength=3), np.array(missing) * rows).pvalue > 1e-3


def test_what_cannot_be_sampled_is_named():
    A = matrix("plain")
    for call, message in (
        (lambda: A.sample(0, -1), "fanout must be an integer >= 0"),
        (lambda: A.sample(0, 1, torch.tensor([7])), "row id 7"),
        (lambda: (-A).sample(0, 1, bias=True), "not negative"),
        (lambda: matrix("plain", (2,)).sample(0, 1, bias=True), "cannot be weights"),
    ):
        with pytest.raises(DGLError, match=message):
            call()
    with pytest.raises(ValueError, match="0 or 1"):
        A.sample(3, 1)


# -- compaction --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("leading", [None, "some"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_compact(name, dim, leading):
    A = matrix(name, (2,))
    size = A.shape[dim]
    first = torch.tensor([size - 1, 0][: min(size, 2)]).long() if leading else None
    B, old = A.compact(dim, first)
    torch.testing.assert_close(dense(B), dense(A).index_select(dim, old))
    present = set((A.row if dim == 0 else A.col).tolist())
    head = [] if first is None else first.tolist()
    assert old.tolist() == head + sorted(present - set(head))
    assert B.val is A.val


def test_the_documented_compaction():
    A = spmatrix(torch.tensor([[0, 2], [1, 2]]))
    B, old = A.compact(0)
    assert (B.to_dense().tolist(), old.tolist()) == ([[0, 1, 0], [0, 0, 1]], [0, 2])
    B, old = A.compact(0, [1, 2])
    assert (B.to_dense().tolist(), old.tolist()) == ([[0, 0, 0], [0, 0, 1], [0, 1, 0]], [1, 2, 0])
    with pytest.raises(DGLError, match="twice"):
        A.compact(0, [1, 1])
    with pytest.raises(ValueError, match="0 or 1"):
        A.compact(2)
