"""``dgl.backend`` against NumPy, and its graph operations against sums over edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite.compat import backend as F
from dglite.compat.ndarray import NDArray, array, cpu
from dglite.errors import DGLError

X = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]], dtype=np.float32)
IDS = np.array([3, 0, 3, 1])


@pytest.mark.parametrize(
    "ours, expected",
    [
        (lambda x: F.sum(x, 1), X.sum(1)),
        (lambda x: F.sum(x, 0, keepdims=True), X.sum(0, keepdims=True)),
        (lambda x: F.mean(x, 0), X.mean(0)),
        (lambda x: F.max(x, 1), X.max(1)),
        (lambda x: F.min(x, 0), X.min(0)),
        (lambda x: F.reduce_sum(x), X.sum()),
        (lambda x: F.reduce_mean(x), X.mean()),
        (lambda x: F.reduce_max(x), X.max()),
        (lambda x: F.reduce_min(x), X.min()),
        (lambda x: F.cumsum(x, 1), X.cumsum(1)),
        (lambda x: F.exp(x), np.exp(X)),
        (lambda x: F.sqrt(F.clamp(x, 0, 3)), np.sqrt(X.clip(0, 3))),
        (lambda x: F.softmax(x), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        (lambda x: F.softmax(x, 0), np.exp(X) / np.exp(X).sum(0, keepdims=True)),
        (lambda x: F.argsort(x, 1, False), X.argsort(1)),
        (lambda x: F.argsort(x, 1, True), (-X).argsort(1)),
        (lambda x: F.topk(x, 2, 1), -np.sort(-X, 1)[:, :2]),
        (lambda x: F.topk(x, 2, 1, descending=False), np.sort(X, 1)[:, :2]),
        (lambda x: F.argtopk(x, 2, 1), (-X).argsort(1)[:, :2]),
        (lambda x: F.cat([x, x], 1), np.concatenate([X, X], 1)),
        (lambda x: F.stack([x, x], 1), np.stack([X, X], 1)),
        (lambda x: F.split(x, [1, 2], 1)[1], X[:, 1:]),
        (lambda x: F.repeat(x, 2, 1), X.repeat(2, 1)),
        (lambda x: F.repeat(x, torch.tensor([2, 1]), 0), X.repeat([2, 1], 0)),
        (lambda x: F.gather_row(x, torch.tensor([1, 1, 0], dtype=torch.int32)), X[[1, 1, 0]]),
        (lambda x: F.narrow_row(x, 1, 2), X[1:2]),
        (lambda x: F.slice_axis(x, 1, 1, 3), X[:, 1:3]),
        (lambda x: F.take(x, torch.tensor([[2, 0], [1, 1]]), 1), X[:, [[2, 0], [1, 1]]]),
        (lambda x: F.take(x, torch.tensor([[2]]), -1), X[:, [[2]]]),
        (lambda x: F.boolean_mask(x, torch.tensor([0, 1])), X[1:]),
        (lambda x: F.scatter_row(x, torch.tensor([1]), torch.ones(1, 3)), [X[0], [1, 1, 1]]),
        (lambda x: F.squeeze(F.unsqueeze(x, 1), 1), X),
        (lambda x: F.reshape(x, (3, 2)), X.reshape(3, 2)),
        (lambda x: F.swapaxes(x, 0, 1), X.T),
        (lambda x: F.zeros_like(x), np.zeros_like(X)),
        (lambda x: F.replace_inf_with_zero(x / torch.tensor([1.0, 0.0, 1.0])), X * [1, 0, 1]),
        (lambda x: F.equal(x, x.abs()), abs(X) == X),
        (lambda x: F.logical_and(x > 0, F.logical_not(x > 2)), (X > 0) & ~(X > 2)),
        (lambda x: F.clone(x), X),
        (lambda x: F.astype(x, F.int64), X.astype(np.int64)),
        (lambda x: F.inverse(x[:, :2]), np.linalg.inv(X[:, :2])),
        (lambda x: F.count_nonzero(x > 0), 4),
    ],
)
def test_tensor_functions(ours, expected) -> None:
    x = torch.tensor(X)
    np.testing.assert_allclose(ours(x), expected, rtol=1e-5)
    np.testing.assert_array_equal(x, X)


def test_functions_of_ids() -> None:
    ids = torch.tensor(IDS)
    values, inverse, counts = F.unique(ids, return_inverse=True, return_counts=True)
    assert values.tolist() == [0, 1, 3] and inverse.tolist() == [2, 0, 2, 1] and counts.tolist() == [1, 1, 2]
    assert F.unique(torch.tensor([True, False, True])).tolist() == [0, 1]
    ordered, positions = F.sort_1d(ids)
    assert ordered.tolist() == sorted(IDS) and ids[positions].tolist() == ordered.tolist()
    assert F.nonzero_1d(ids).tolist() == [0, 2, 3] and F.nonzero_1d(ids[1:2]).shape == (0,)
    assert F.floor_div(ids, 2).tolist() == [1, 0, 1, 0]
    assert F.arange(2, 5, F.int32, F.cpu()).tolist() == [2, 3, 4] and F.full_1d(2, 7, F.int64, "cpu").tolist() == [7, 7]
    assert sorted(F.rand_shuffle(ids).tolist()) == sorted(IDS)


def test_writes_in_place() -> None:
    data = torch.zeros(3, 2)
    F.scatter_row_inplace(data, torch.tensor([2]), torch.ones(1, 2))
    F.index_add_inplace(data, torch.tensor([0, 0]), torch.ones(2, 2))
    assert data.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    "data, dtype, expected",
    [
        (2, None, torch.tensor([2])),
        ([1, 2], F.float32, torch.tensor([1.0, 2.0])),
        (np.array([1.5]), None, torch.tensor([1.5], dtype=torch.float64)),
        ([torch.tensor(1), torch.tensor(2)], None, torch.tensor([1, 2])),
        (torch.tensor([1]), F.int32, torch.tensor([1], dtype=torch.int32)),
    ],
)
def test_tensors_are_made(data, dtype, expected) -> None:
    result = F.tensor(data, dtype)
    assert result.dtype == expected.dtype and result.tolist() == expected.tolist()
    assert F.tensor(result) is result


def test_facts_and_devices() -> None:
    x = F.ones((2, 3), F.float16, F.cpu())
    assert (F.is_tensor(x), F.shape(x), F.ndim(x), F.dtype(x)) == (True, (2, 3), 2, F.float16)
    assert not F.is_tensor(X) and F.reverse_data_type_dict[F.dtype(x)] == "float16" and F.backend_name == "pytorch"
    assert F.context(x) == F.cpu() == F.to_backend_ctx(cpu()) and F.copy_to(x, F.cpu()) is x
    assert (F.device_type("cuda:1"), F.device_id("cuda:1"), F.device_id(F.cpu())) == ("cuda", 1, 0)
    assert not F.is_pinned(x) and F.as_scalar(x[0, 0]) == 1 and F.empty((2, 0), F.bool, "cpu").shape == (2, 0)
    assert F.is_enabled("gspmm") and not F.is_enabled("nothing") and F.get_preferred_backend() == "pytorch"
    F.load_backend("pytorch")
    F.sync()
    with pytest.raises(ImportError, match="to use mxnet, set DGLITE_BACKEND"):
        F.load_backend("mxnet")


def test_random_tensors_stay_in_their_range() -> None:
    torch.manual_seed(0)
    drawn, whole = F.uniform((100,), F.float64, "cpu", -1, 2), F.randint((100,), F.int32, "cpu", 3, 5)
    assert drawn.min() >= -1 and drawn.max() < 2 and drawn.std() > 0.5
    assert set(whole.tolist()) == {3, 4} and whole.dtype is torch.int32


def test_memory_is_shared() -> None:
    x = torch.zeros(3)
    F.zerocopy_to_numpy(x)[0] = 1
    F.zerocopy_from_dlpack(F.zerocopy_to_dlpack(x))[1] = 2
    cover = F.zerocopy_to_dgl_ndarray(x)
    F.zerocopy_from_dgl_ndarray(cover)[2] = 3
    assert x.tolist() == [1, 2, 3] and cover.asnumpy().tolist() == [1, 2, 3]
    assert (cover.shape, cover.dtype, cover.ctx, len(cover)) == ((3,), "float32", cpu(), 3)
    given = np.zeros(2)
    F.zerocopy_from_numpy(given)[0] = 5
    assert given[0] == 5 and isinstance(array(given), NDArray)
    array(given).data[0] = 6
    assert given[0] == 5


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("force_format", [False, True])
def test_sparse_matrices(force_format: bool) -> None:
    values, rows, columns = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    dense = [[0, 0, 1], [2, 3, 0]]
    coo, order = F.sparse_matrix(values, ("coo", torch.stack([rows, columns])), (2, 3))
    assert F.asnumpy(coo).tolist() == dense and order is None
    assert F.sparse_matrix_indices(coo)[1].tolist() == [rows.tolist(), columns.tolist()]
    indptr = torch.tensor([0, 1, 3])
    csr, _ = F.sparse_matrix(values, ("csr", columns, indptr), (2, 3), force_format)
    assert F.asnumpy(csr).tolist() == dense
    assert F.sparse_matrix_indices(csr)[0] == ("csr" if force_format else "coo") and F.get_preferred_sparse_format()
    with pytest.raises(TypeError, match="'csc'"):
        F.sparse_matrix(values, ("csc", columns, indptr), (2, 3))


@pytest.mark.parametrize("lengths, l_min", [([2, 0, 1], None), ([2, 0, 1], 4), ([3], 1), ([0, 0], None)])
def test_padding_and_packing(lengths: list[int], l_min: int | None) -> None:
    rows = torch.arange(2 * sum(lengths), dtype=torch.float32).reshape(-1, 2).requires_grad_()
    padded = F.pad_packed_tensor(rows, torch.tensor(lengths), -1, l_min)
    longest = max(*lengths, l_min or 0, 0)
    expected = np.full((len(lengths), longest, 2), -1.0)
    for i, part in enumerate(np.split(rows.detach().numpy(), np.cumsum(lengths)[:-1])):
        expected[i, : len(part)] = part
    np.testing.assert_array_equal(padded.detach(), expected)
    assert F.pack_padded_tensor(padded, lengths).tolist() == rows.tolist()
    F.pack_padded_tensor(padded, lengths).sum().backward()
    assert F.grad(rows).tolist() == np.ones_like(expected, shape=rows.shape).tolist()


def test_gradients() -> None:
    x = F.attach_grad(torch.ones(2))
    assert F.is_no_grad(x) and F.is_recording()
    with F.record_grad():
        y = x * 3
    F.backward(y)
    assert F.grad(x).tolist() == [3, 3] and not F.is_no_grad(x)
    assert F.is_no_grad(F.attach_grad(x))
    F.backward(x * 2, torch.tensor([1.0, 5.0]))
    assert F.grad(x).tolist() == [2, 10]
    with F.no_grad():
        assert not F.is_recording() and not (x * 2).requires_grad
    assert F.attach_grad(y).is_leaf


# -- graphs ------------------------------------------------------------------------------------------------------------
def _rows_and_matrices() -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(0)
    return torch.tensor(generator.normal(size=(5, 3))), torch.tensor(generator.normal(size=(4, 3, 2)))


def test_products_by_groups() -> None:
    rows, matrices = _rows_and_matrices()
    expected = np.stack([rows[i] @ matrices[r] for i, r in enumerate([1, 1, 0, 3, 1])])
    np.testing.assert_allclose(F.gather_mm(rows, matrices, idx_B=torch.tensor([1, 1, 0, 3, 1])), expected)
    np.testing.assert_allclose(
        F.gather_mm(rows, matrices, torch.tensor([4, 0]), torch.tensor([2, 3])),
        np.stack([rows[4] @ matrices[2], rows[0] @ matrices[3]]),
    )
    expected = np.stack([rows[i] @ matrices[i] for i in range(4)])
    np.testing.assert_allclose(F.gather_mm(rows[:4], matrices), expected)
    np.testing.assert_allclose(
        F.segment_mm(rows, matrices, torch.tensor([2, 0, 1, 2])),
        np.stack([rows[i] @ matrices[r] for i, r in enumerate([0, 0, 2, 3, 3])]),
    )
    with pytest.raises(DGLError, match="must match"):
        F.segment_mm(rows, matrices, torch.tensor([2, 0, 1, 1]))


def test_segments_and_scattering() -> None:
    x = torch.arange(8.0).reshape(4, 2).requires_grad_()
    assert F.segment_reduce("sum", x, torch.tensor([0, 3, 3, 4])).tolist() == [[6, 9], [0, 0], [6, 7]]
    added = F.scatter_add(x, torch.tensor([2, 0, 2, 2]), 4)
    assert added.tolist() == [[2, 3], [0, 0], [10, 13], [0, 0]]
    added[2].sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("num_vtypes", [1, 2])
def test_weighted_adjacency_matrices(num_vtypes: int) -> None:
    a, b = dglite.graph(([0, 2, 1], [1, 0, 1]), num_nodes=3), dglite.graph(([1, 0], [2, 2]), num_nodes=3)
    wa, wb = torch.tensor([2.0, 3.0, 4.0], requires_grad=True), torch.tensor([5.0, 6.0])
    dense_a, dense_b = np.zeros((3, 3)), np.zeros((3, 3))
    dense_a[[0, 2, 1], [1, 0, 1]], dense_b[[1, 0], [2, 2]] = [2, 3, 4], [5, 6]

    def dense(g: dglite.DGLGraph, weights: torch.Tensor) -> np.ndarray:
        result = np.zeros((g.num_src_nodes(), g.num_dst_nodes()))
        result[tuple(ends.numpy() for ends in g.edges())] = weights.detach()
        return result

    product, weights = F.csrmm(a, wa, b, wb, num_vtypes)
    np.testing.assert_allclose(dense(product, weights), dense_a @ dense_b)
    assert len(product.ntypes) == num_vtypes
    total, weights = F.csrsum([a, b], [wa, wb])
    np.testing.assert_allclose(dense(total, weights), dense_a + dense_b)
    masked = F.csrmask(a, wa, dglite.graph(([0, 0, 2], [1, 0, 0]), num_nodes=3))
    assert masked.tolist() == [2, 0, 3]
    masked.sum().backward()
    assert wa.grad.tolist() == [1, 1, 0]


@pytest.fixture
def two_relations() -> dglite.DGLGraph:
    return dglite.heterograph(
        {("a", "r", "b"): ([0, 1, 1], [0, 0, 2]), ("b", "s", "b"): ([0, 3, 2], [2, 0, 3]), ("b", "t", "a"): ([0], [1])},
        {"a": 2, "b": 5},
    )


@pytest.mark.parametrize("reduce_op, initial", [("sum", 0), ("max", -np.inf), ("min", np.inf)])
def test_relations_are_reduced_together(two_relations: dglite.DGLGraph, reduce_op: str, initial: float) -> None:
    g = two_relations
    generator = np.random.default_rng(1)
    nodes = [torch.tensor(generator.normal(size=(g.num_nodes(t), 2)), requires_grad=True) for t in g.ntypes]
    edges = [torch.tensor(generator.normal(size=(g.num_edges(t), 1))) for t in g.canonical_etypes]
    result = F.gspmm_hetero(g, "mul", reduce_op, 2, *nodes, *edges[:2], None)  # relation t sends nothing
    assert result[0] is None
    expected = np.full((5, 2), float(initial))
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[reduce_op]
    for i, (src_type, _, _) in enumerate(g.canonical_etypes[:2]):
        src, dst = g.edges(etype=g.canonical_etypes[i])
        x = nodes[g.ntypes.index(src_type)].detach()
        for e, (u, v) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            expected[v] = combine(expected[v], (x[u] * edges[i][e]).numpy())
    expected[[1, 4]] = 0
    np.testing.assert_allclose(result[g.ntypes.index("b")].detach(), expected)
    F.reduce_sum(result[g.ntypes.index("b")]).backward()
    assert all(torch.isfinite(x.grad).all() for x in nodes)


def test_only_these_reductions_go_over_relations(two_relations: dglite.DGLGraph) -> None:
    with pytest.raises(DGLError, match="'mean' over several relations"):
        F.gspmm_hetero(two_relations, "copy_lhs", "mean", 2, torch.ones(2, 1), torch.ones(5, 1))


def test_edges_of_all_relations(two_relations: dglite.DGLGraph) -> None:
    g = two_relations
    nodes = [torch.arange(float(g.num_nodes(ntype)))[:, None] for ntype in g.ntypes]
    result = F.gsddmm_hetero(g, "add", 2, "u", "v", *nodes, *nodes)
    for values, etype in zip(result, g.canonical_etypes, strict=True):
        src, dst = g.edges(etype=etype)
        assert values.flatten().tolist() == (src + dst).tolist()
    assert F.gsddmm_hetero(g, "copy_lhs", 2, "u", "v", nodes[0], None)[1] is None


@pytest.mark.parametrize("norm_by", ["dst", "src"])
def test_softmax_over_all_relations(two_relations: dglite.DGLGraph, norm_by: str) -> None:
    g = two_relations
    generator = np.random.default_rng(2)
    scores = [torch.tensor(generator.normal(size=g.num_edges(etype)) * 50, requires_grad=True) for etype in g.etypes]
    weights = F.edge_softmax_hetero(g, dglite.ALL, norm_by, *scores)
    nodes = [
        (etype[2] if norm_by == "dst" else etype[0], node)
        for etype in g.canonical_etypes
        for node in g.edges(etype=etype)[norm_by == "dst"].tolist()
    ]
    flat = np.concatenate([score.detach() for score in scores])
    expected = np.zeros_like(flat)
    for owner in set(nodes):
        of = [i for i, node in enumerate(nodes) if node == owner]
        exponents = np.exp(flat[of] - flat[of].max())
        expected[of] = exponents / exponents.sum()
    np.testing.assert_allclose(np.concatenate([w.detach() for w in weights]), expected)
    with pytest.raises(DGLError, match="all edges"):
        F.edge_softmax_hetero(g, [0], norm_by, *scores)


def test_gradients_of_the_softmax_over_relations(two_relations: dglite.DGLGraph) -> None:
    scores = [torch.randn(two_relations.num_edges(t), dtype=torch.float64, requires_grad=True) for t in ("r", "s", "t")]

    def weights(*scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.edge_softmax_hetero(two_relations, dglite.ALL, "dst", *scores)

    assert torch.autograd.gradcheck(weights, scores, fast_mode=True)


def test_every_listed_name_is_there() -> None:
    assert all(name in vars(F) for name in F.__all__)
    assert len(F.__all__) == len(set(F.__all__))
    for name, dtype in F.data_type_dict.items():
        assert getattr(F, name) is dtype
