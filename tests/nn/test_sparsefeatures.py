"""Sparse features against the same features dense."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import dglite
from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import FeatureDropout, GraphConv, SAGEConv, SparseFeatures, SparseLinear, sparsefeatures
from dglite.nn.sparsefeatures import as_features
from tests.nn import dense

ROWS, COLUMNS = 5, 7


def _matrix(rows: int = ROWS, dtype: Any = np.float64) -> scipy.sparse.csr_array:
    """Return a matrix with an empty row, an empty column and, in one row, unsorted columns."""
    indptr = np.array([0, 3, 3, 4, 6, 8])[: rows + 1]
    indices = np.array([6, 0, 2, 1, 1, 4, 2, 6])[: indptr[-1]]
    data = np.array([0.5, -1.0, 2.0, 3.0, 1.5, -0.5, 0.25, 4.0])[: indptr[-1]].astype(dtype)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(rows, COLUMNS))


def _torch_csr(m: Any) -> torch.Tensor:
    with warnings.catch_warnings():  # torch says that its CSR tensors are in beta state
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(
            torch.from_numpy(m.indptr).long(), torch.from_numpy(m.indices).long(), torch.from_numpy(m.data), m.shape
        )


def _uncoalesced(m: Any) -> torch.Tensor:
    """Return the matrix as COO with every value in two halves, the entries from last to first."""
    coo = m.tocoo()
    index = torch.from_numpy(np.stack([np.tile(coo.row, 2), np.tile(coo.col, 2)])[:, ::-1].copy()).long()
    return torch.sparse_coo_tensor(index, torch.from_numpy(np.tile(coo.data / 2, 2)[::-1].copy()), m.shape)


FORMATS: dict[str, Callable[[Any], Any]] = {
    "scipy csr array": lambda m: m,
    "scipy csr matrix": scipy.sparse.csr_matrix,
    "scipy coo": lambda m: m.tocoo(),
    "scipy csc": lambda m: m.tocsc(),
    "scipy lil": lambda m: m.tolil(),
    "scipy dok": lambda m: m.todok(),
    "torch csr": _torch_csr,
    "torch coo": lambda m: _torch_csr(m).to_sparse_coo(),
    "torch uncoalesced coo": _uncoalesced,
    "sparse features": SparseFeatures,
}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_product_is_that_of_the_dense_matrix(kind: str) -> None:
    m, weight = _matrix(), dense.double(COLUMNS, 3)
    x = as_features(FORMATS[kind](m))
    assert isinstance(x, SparseFeatures) and x.shape == (ROWS, COLUMNS) and x.ndim == 2 and x.dtype is torch.float64
    torch.testing.assert_close(x @ weight, torch.from_numpy(m.toarray()) @ weight)
    assert torch.autograd.gradcheck(lambda w: x @ w, (weight,), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda w: x @ w, (weight,), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    m = _matrix()
    x = SparseFeatures(_torch_csr(m)).with_values(torch.from_numpy(m.data).to(dtype))
    weight = torch.randn(COLUMNS, 3, dtype=dtype)
    expected = torch.from_numpy(m.toarray()).to(dtype).double() @ weight.double()
    torch.testing.assert_close((x @ weight).double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("layout", ["csr", "coo", "uncoalesced"])
def test_the_values_of_a_torch_matrix_get_their_gradient(layout: str) -> None:
    m = _matrix()
    x = {"csr": _torch_csr, "coo": lambda m: _torch_csr(m).to_sparse_coo(), "uncoalesced": _uncoalesced}[layout](m)
    x.requires_grad_()
    weight = dense.double(COLUMNS, 3)
    outer = torch.randn(ROWS, 3, dtype=torch.float64)
    ((as_features(x) @ weight) * outer).sum().backward()
    at_entries = torch.from_numpy((m.toarray() != 0).astype(np.float64))
    torch.testing.assert_close(x.grad.to_dense(), (outer @ weight.t()).detach() * at_entries)


def test_values_are_differentiated_exactly() -> None:
    x, weight = SparseFeatures(_matrix()), dense.double(COLUMNS, 3)
    values = x.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, w: x.with_values(v) @ w, (values, weight), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda v, w: x.with_values(v) @ w, (values, weight), fast_mode=True)


@pytest.mark.parametrize("kind", ["scipy csr array", "torch csr", "torch coo", "torch uncoalesced coo"])
def test_a_structure_is_made_once_and_dies_with_its_matrix(kind: str) -> None:
    x = FORMATS[kind](_matrix())
    known = len(sparsefeatures._KNOWN)
    first = as_features(x)  # its values may be a view of the matrix
    assert as_features(x).structure is first.structure and len(sparsefeatures._KNOWN) == known + 1
    del x, first
    gc.collect()
    assert len(sparsefeatures._KNOWN) == known


def _write_values(x: Any) -> None:
    x.data[:] = 1.0


def _replace_values(x: Any) -> None:
    x.data = x.data * 3


def _sort(x: Any) -> None:
    x.sort_indices()


def _move_an_entry(x: Any) -> None:
    x.indices[0] = 5


def _drop_zeros(x: Any) -> None:
    x.data[2] = 0
    x.eliminate_zeros()


def _insert(x: Any) -> None:
    x[1, 1] = 9.0


@pytest.mark.parametrize("change", [_write_values, _replace_values, _sort, _move_an_entry, _drop_zeros, _insert])
def test_a_scipy_matrix_that_was_written_to_is_read_afresh(change: Callable[[Any], None]) -> None:
    x, weight = _matrix(), dense.double(COLUMNS, 3)
    as_features(x) @ weight
    change(x)
    torch.testing.assert_close(as_features(x) @ weight, torch.from_numpy(x.toarray()) @ weight)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_a_torch_matrix_that_was_written_to_is_read_afresh(layout: str) -> None:
    x, weight = _torch_csr(_matrix()), dense.double(COLUMNS, 3)
    x = x if layout == "csr" else x.to_sparse_coo()
    as_features(x) @ weight
    (x.values() if layout == "csr" else x._values()).mul_(3)
    torch.testing.assert_close(as_features(x) @ weight, x.to_dense() @ weight)
    (x.col_indices() if layout == "csr" else x._indices()[1])[0] = 5
    torch.testing.assert_close(as_features(x) @ weight, x.to_dense() @ weight)


def test_a_read_only_scipy_matrix_serves() -> None:
    x, weight = _matrix(), dense.double(COLUMNS, 3)
    x.data.flags.writeable = False
    torch.testing.assert_close(as_features(x) @ weight, torch.from_numpy(x.toarray()) @ weight)


@pytest.mark.parametrize("kind", ["scipy csr array", "torch uncoalesced coo"])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 9])
def test_the_first_rows(kind: str, count: int) -> None:
    m, weight = _matrix(), dense.double(COLUMNS, 3)
    x = as_features(FORMATS[kind](m))
    head = x[:count]
    assert head.shape == (min(count, ROWS), COLUMNS)
    torch.testing.assert_close(head @ weight, (torch.from_numpy(m.toarray()) @ weight)[:count])
    values = x.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: x.with_values(v)[:count] @ weight.detach(), (values,), fast_mode=True)


def test_other_rows_are_refused() -> None:
    x = SparseFeatures(_matrix())
    for rows in (slice(1, 3), slice(None, None, 2), slice(None, -1), 2):
        with pytest.raises(DGLError, match="only their first rows"):
            x[rows]


def test_a_matrix_without_entries() -> None:
    x, weight = as_features(scipy.sparse.csr_array((3, 4))), dense.double(4, 2)
    assert torch.equal(x @ weight, torch.zeros(3, 2, dtype=torch.float64))
    (x @ weight).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(4, 2, dtype=torch.float64))
    assert (as_features(scipy.sparse.csr_array((0, 4))) @ weight).shape == (0, 2)


def test_it_can_be_copied_and_pickled() -> None:
    x, weight = SparseFeatures(_matrix()), dense.double(COLUMNS, 3)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert torch.equal(other @ weight, x @ weight)
    assert repr(x) == "SparseFeatures(shape=(5, 7), stored=8, dtype=torch.float64)"


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (_matrix(dtype=np.int64), r"values of dtype int64; expected one of float32.*astype\('float32'\)"),
        (_matrix(dtype=np.complex128), "values of dtype complex128"),
        (_torch_csr(_matrix()).to(torch.bool), "values of dtype bool"),
        (torch.ones(2, 3), "got Tensor; expected a SciPy sparse matrix or a torch sparse tensor"),
        ([[1.0]], "got list"),
        (_torch_csr(_matrix()).to_sparse_csc(), r"layout torch.sparse_csc; expected torch.sparse_csr"),
        (torch.ones(2, 3, 4).to_sparse(2), r"shape \(2, 3, 4\); expected \(rows, columns\)"),
        (torch.ones(3).to_sparse(), r"shape \(3,\); expected \(rows, columns\)"),
        (scipy.sparse.coo_array(np.ones(3)), r"shape \(3,\); expected \(rows, columns\)"),
    ],
)
def test_what_is_no_matrix_of_features_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        SparseFeatures(matrix)


# -- SparseLinear and FeatureDropout -----------------------------------------------------------------------------------
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_sparse_linear_is_a_linear(kind: str, bias: bool) -> None:
    m = _matrix()
    layer = SparseLinear(COLUMNS, 3, bias=bias).double()
    linear = torch.nn.Linear(COLUMNS, 3, bias=bias).double()
    layer.load_state_dict(linear.state_dict())
    x = torch.from_numpy(m.toarray())
    outer = torch.randn(ROWS, 3, dtype=torch.float64)
    for features in (FORMATS[kind](m), x):
        layer.zero_grad()
        linear.zero_grad()
        torch.testing.assert_close(layer(features), linear(x))
        (layer(features) * outer).sum().backward()
        (linear(x) * outer).sum().backward()
        for ours, theirs in zip(layer.parameters(), linear.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)


def test_dropout_drops_and_scales_stored_values() -> None:
    m = scipy.sparse.random_array((100, 100), density=0.3, random_state=0) + scipy.sparse.eye_array(100)
    drop = FeatureDropout(0.25)
    x = drop(m)
    before, after = torch.from_numpy(m.tocsr().data), x.values
    kept = after != 0
    assert 0.7 < kept.double().mean() < 0.8
    torch.testing.assert_close(after[kept], before[kept] / 0.75)
    assert not torch.equal(drop(m).values, after)
    assert torch.equal(drop.eval()(m).values, before)
    values = x.values.requires_grad_()
    drop.train()(x.with_values(values)).values.sum().backward()
    assert set(values.grad.unique().tolist()) == {0.0, 1 / 0.75}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout_of_dense_features(p: float, dtype: torch.dtype) -> None:
    x = torch.ones(200, 200, dtype=dtype, requires_grad=True)
    y = FeatureDropout(p)(x)
    assert y.dtype is dtype and abs((y == 0).double().mean().item() - p) < 0.02
    scale = torch.tensor(1 / (1 - p) if p < 1 else 0.0, dtype=dtype)
    assert set(y.detach().unique().tolist()) <= {0.0, scale.item()}
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert FeatureDropout(p).eval()(x) is x


def test_dropout_in_place() -> None:
    x = torch.ones(100)
    assert FeatureDropout(0.5, inplace=True)(x) is x and set(x.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize(
    ("layer", "features", "message"),
    [
        (SparseLinear(6, 3), _matrix(dtype=np.float32), r"\(5, 7\) cannot be multiplied .* \(6, 3\); expected 7 rows"),
        (SparseLinear(7, 3), _matrix(), "dtypes float32 and float64; convert"),
        (SparseLinear(7, 3), _matrix(dtype=np.int32), "values of dtype int32"),
    ],
)
def test_features_that_a_layer_cannot_take_are_refused(layer: SparseLinear, features: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        layer(features)


# -- graph layers ------------------------------------------------------------------------------------------------------
GRAPHS = [dense.graph, dense.block, dense.bipartite]
LAYERS: dict[str, Callable[[], torch.nn.Module]] = {
    "GraphConv": lambda: GraphConv(COLUMNS, 3),
    "widening GraphConv": lambda: GraphConv(COLUMNS, 9, norm="right"),
    "SAGEConv mean": lambda: SAGEConv(COLUMNS, 3, "mean"),
    "widening SAGEConv mean": lambda: SAGEConv(COLUMNS, 9, "mean"),
    "SAGEConv gcn": lambda: SAGEConv(COLUMNS, 3, "gcn"),
    "widening SAGEConv gcn": lambda: SAGEConv(COLUMNS, 9, "gcn"),
    "SAGEConv pool": lambda: SAGEConv(COLUMNS, 3, "pool"),
}


def _inputs(g: DGLGraph, paired: bool) -> tuple[Any, Any]:
    """Return features as a layer on ``g`` takes them, sparse and dense."""
    source = _matrix(g.num_src_nodes())
    as_dense = torch.from_numpy(source.toarray())
    if not paired:
        return source, as_dense
    destination = _matrix(g.num_dst_nodes())
    return (source, destination), (as_dense, torch.from_numpy(destination.toarray()))


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_a_layer_gives_what_dense_features_give(make: Callable[[], DGLGraph], layer: str, weighted: bool) -> None:
    g, module = make(), LAYERS[layer]().double()
    weight = dense.positive(g.num_edges()) if weighted else None
    sparse, full = _inputs(g, paired=make is dense.bipartite)
    expected = module(g, full, edge_weight=weight)
    outer = torch.randn_like(expected)
    target = torch.autograd.grad((expected * outer).sum(), list(module.parameters()))
    result = module(g, sparse, edge_weight=weight)
    torch.testing.assert_close(result, expected)
    grads = torch.autograd.grad((result * outer).sum(), list(module.parameters()))
    for ours, theirs in zip(grads, target, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("aggregator", ["mean", "gcn", "pool"])
def test_one_side_may_be_sparse(aggregator: str) -> None:
    g, layer = dense.bipartite(), SAGEConv(COLUMNS, 9, aggregator).double()
    (source, destination), (full_source, full_destination) = _inputs(g, paired=True)
    expected = layer(g, (full_source, full_destination))
    torch.testing.assert_close(layer(g, (source, full_destination)), expected)
    torch.testing.assert_close(layer(g, (full_source, destination)), expected)


def test_a_layer_drops_stored_values() -> None:
    g, layer = dense.graph(), SAGEConv(COLUMNS, 3, "mean", feat_drop=0.5).double()
    x = _matrix(4)
    torch.manual_seed(0)
    result = layer(g, x)
    torch.manual_seed(0)
    dropped = FeatureDropout(0.5)(x)
    torch.testing.assert_close(result, layer.eval()(g, dropped))


def test_what_cannot_read_sparse_features_says_so() -> None:
    g, x = dense.graph(), _matrix(4, np.float32)
    with pytest.raises(DGLError, match=r'aggregator_type="lstm" reads whole rows.*SparseLinear'):
        SAGEConv(COLUMNS, 3, "lstm")(g, x)
    with pytest.raises(DGLError, match="a GraphConv without a weight reads whole rows"):
        GraphConv(COLUMNS, COLUMNS, weight=False)(g, x)
    with pytest.raises(DGLError, match=r"shape \(5, 7\) was given for 4 source nodes"):
        GraphConv(COLUMNS, 3)(g, _matrix(5, np.float32))
    with pytest.raises(DGLError, match=r"GraphConv: feat has shape .4, 7.; expected"):
        GraphConv(6, 3)(g, x)


def test_a_weight_given_to_the_call_multiplies_sparse_features() -> None:
    g, x, weight = dense.graph(), _matrix(4), dense.double(COLUMNS, 3)
    layer = GraphConv(COLUMNS, 3, weight=False).double()
    torch.testing.assert_close(layer(g, x, weight=weight), layer(g, torch.from_numpy(x.toarray()), weight=weight))


def test_no_dense_matrix_is_made() -> None:
    """A million columns squared would be 4 TB; 100,000 rows of them 400 GB."""
    size = 1_000_000
    rows = np.arange(100_000)
    x = scipy.sparse.csr_array((np.ones(len(rows), np.float32), (rows, rows * 7 % size)), shape=(len(rows), size))
    g = dglite.graph((rows, rows))
    layer = GraphConv(size, 2)
    layer(g, FeatureDropout(0.5)(x)).sum().backward()
    assert layer.weight.grad.shape == (size, 2)
