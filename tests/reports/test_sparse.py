"""Reports of sparse matrices and of grouped products."""

from __future__ import annotations

import pytest
import torch

import dglite.sparse as sp
from dglite import ops
from dglite.nn import NodeEmbedding
from dglite.optim import SparseAdagrad
from tests.reports.cases import ids, report


@report("dmlc/dgl#5071", "entries given twice are added up", also="dmlc/dgl#5072 jax-ml/jax#8888")
def test_entries_given_twice() -> None:
    matrix = sp.spmatrix(torch.tensor([[0, 1, 0], [1, 0, 1]]), torch.tensor([1.0, 2.0, 4.0]), (2, 3))
    assert matrix.has_duplicate() and matrix.to_dense().tolist() == [[0, 5, 0], [2, 0, 0]]
    once = matrix.coalesce()
    assert not once.has_duplicate() and once.nnz == 2 and once.to_dense().tolist() == [[0, 5, 0], [2, 0, 0]]
    x = torch.tensor([[1.0], [10.0], [100.0]])
    assert (matrix @ x).tolist() == (once @ x).tolist() == [[50], [2]]


@report("pytorch/pytorch#6219", "a transposed matrix was multiplied as if its rows were sorted")
def test_product_of_a_transposed_matrix() -> None:
    matrix = sp.spmatrix(torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([1.0, 2.0, 3.0]), (3, 3)).coalesce()
    assert (matrix.T @ torch.tensor([[1.0], [10.0], [100.0]])).tolist() == [[300], [20], [1]]
    assert matrix.T.to_dense().tolist() == [[0, 0, 3], [0, 2, 0], [1, 0, 0]]


@report("pytorch/pytorch#90516", "products entry by entry, of matrices with other entries")
def test_products_entry_by_entry() -> None:
    a = torch.tensor([[1.0, 2, 0], [0, 0, 3]])
    b = torch.tensor([[5.0, 0, 7], [0, 0, 11]])
    left, right = (sp.spmatrix(x.nonzero().T, x[x != 0], (2, 3)) for x in (a, b))
    assert torch.equal((left * right).to_dense(), a * b)
    assert torch.equal((left + right).to_dense(), a + b)


@report("facebookresearch/xformers#1125", "row pointers of matrices with more rows than columns, and fewer")
@pytest.mark.parametrize("shape", [(5, 2), (2, 5)])
def test_row_pointers_of_oblong_matrices(shape: tuple[int, int]) -> None:
    x = torch.zeros(shape)
    x[1, 0], x[1, 1], x[0, 1] = 3, 4, 2
    matrix = sp.spmatrix(x.nonzero().T, x[x != 0], shape)
    indptr, indices, where = matrix.csr()
    assert indptr.tolist() == [0, 1, 3, *[3] * (shape[0] - 2)] and indices.tolist() == [1, 0, 1]
    values = matrix.val if where is None else matrix.val[where]
    assert values.tolist() == [2, 3, 4]
    indptr, _, _ = matrix.csc()
    assert indptr.tolist() == [0, 1, 3, *[3] * (shape[1] - 2)]


@report("dmlc/dgl#3641", "gradients of products with a matrix per row", also="dmlc/dgl#7889")
def test_gradients_of_gathered_products() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, requires_grad=True)
    matrices = torch.randn(4, 3, 2, requires_grad=True)
    kind = ids(2, 0, 2, 3, 2)  # matrix 1 is not used: its gradient is 0
    result, expected = ops.gather_mm(x, matrices, idx_b=kind), torch.einsum("ni,nio->no", x, matrices[kind])
    torch.testing.assert_close(result, expected)
    scale = torch.randn(5, 2)
    torch.testing.assert_close(
        torch.autograd.grad((result * scale).sum(), [x, matrices]),
        torch.autograd.grad((expected * scale).sum(), [x, matrices]),
    )


@report("dmlc/dgl#3737", "segments must cover the rows; those without rows have gradient 0")
def test_gradients_of_segment_products() -> None:
    torch.manual_seed(0)
    x, matrices = torch.randn(5, 3, requires_grad=True), torch.randn(4, 3, 2, requires_grad=True)
    result = ops.segment_mm(x, matrices, ids(2, 0, 3, 0))
    expected = torch.cat([x[:2] @ matrices[0], x[2:] @ matrices[2]])
    torch.testing.assert_close(result, expected)
    grads = torch.autograd.grad(result.square().sum(), [x, matrices])
    torch.testing.assert_close(grads, torch.autograd.grad(expected.square().sum(), [x, matrices]))
    with pytest.raises(Exception, match="5"):
        ops.segment_mm(x, matrices, ids(2, 0, 2, 0))


@report("dmlc/dgl#2596", "of embeddings read twice in a step, one reading was lost", also="dmlc/dgl#2856")
def test_embeddings_read_twice() -> None:
    start = torch.arange(8.0).view(4, 2)
    table = NodeEmbedding(4, 2, "read twice", init_func=lambda x: x.copy_(start))
    optimizer = SparseAdagrad([table], lr=0.5, eps=0.0)
    expected, squares = start.clone(), torch.zeros(4, 2)
    for rows, more in ((ids(0, 2, 2), ids(2, 1)), (ids(1, 0), ids(0, 0))):
        loss = 2 * table(rows).sum() + 5 * table(more).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for row in range(4):  # the mean over the readings of a row, as DGL's documentation has it
            grads = [2.0] * int((rows == row).sum()) + [5.0] * int((more == row).sum())
            if grads:
                grad = sum(grads) / len(grads)
                squares[row] += grad**2
                expected[row] -= 0.5 * grad / squares[row].sqrt()
    torch.testing.assert_close(table.weight.detach(), expected)
    assert torch.equal(table.weight[3], start[3])  # never read
