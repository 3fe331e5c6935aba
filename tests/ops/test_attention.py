"""Attention in one kernel: values against the oracle, gradients and second gradients by finite differences."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import dglite
from dglite import ops
from dglite.errors import DGLError
from dglite.kernels.cpu.run import launch
from dglite.ops import attention as module
from dglite.ops import core
from dglite.structure import Adjacency
from dglite.structure.compressed import Compressed
from tests import reference
from tests.kernels.attention_cases import tensors
from tests.kernels.sparse_cases import Coo, assert_close, graph
from tests.pairs import cases, turns

SCORES = ["additive", "gatv2", "dot", "projected"]
EDGE_SCORES = ["additive+edge", "projected+edge", "additive+edge+feat", "projected+edge+feat"]
SLOPE, SCALE, SEED = 0.2, 0.7, 11
SHAPES = [(1, 7), (8, 8), (2, 70), *([(3, 5), (12, 2)] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]
"""Heads and features. Most tests below share (2, 3): each further pair is compiled for."""


@pytest.fixture(autouse=True)
def threads_for_small_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)


def small(square: bool = False) -> tuple[Adjacency, np.ndarray, np.ndarray]:
    """Return a multigraph with self-loops, parallel edges and nodes without edges on either side."""
    src, dst = np.array([0, 1, 1, 2, 2, 2, 4, 0]), np.array([0, 0, 0, 2, 3, 3, 1, 3])
    return Adjacency.from_coo(6, 6 if square else 5, src, dst), src, dst


def attention(score: str, dropout: float = 0.0, slope: float = SLOPE, seed: int | None = SEED) -> core.Attention:
    """Return how to attend."""
    score, *parts = score.split("+")
    kind = {"additive": "ADDITIVE", "projected": "ADDITIVE", "gatv2": "GATV2", "dot": "DOT"}[score]
    flags = {"projected": score == "projected", "edges": "edge" in parts, "edge_features": "feat" in parts}
    return core.Attention(core.Score[kind], slope, SCALE, dropout, seed, **flags)


def attend(score: str, adj: Adjacency, xs, dropout: float = 0.0, slope: float = SLOPE, seed: int | None = SEED):
    """Return the attention of ``xs`` as :func:`tensors` orders them; what is of edges joins what is of nodes."""
    how = attention(score, dropout, slope, seed)
    count = len(how.operands)
    given = adj, how, xs[0], xs[1:count], xs[count] if len(xs) > count else None
    return torch.cat(core.attention_with_edges(*given), -1) if how.edge_features else core.attention(*given)


def composed(score: str, adj: Adjacency, xs, dropout: float = 0.0):
    """Return the same by smaller operations, one after the other."""
    result = module.composed(adj, attention(score, dropout), xs)
    if not score.endswith("feat"):
        return result
    size = adj.num_dst * xs[0][0].numel()
    parts = result[:size].reshape(adj.num_dst, *xs[0].shape[1:]), result[size:].reshape(adj.num_dst, xs[0].shape[1], -1)
    return torch.cat(parts, -1)


def expected(score: str, src, dst, num_dst: int, xs, dropout: float = 0.0, slope: float = SLOPE) -> np.ndarray:
    """Return the same by the oracle."""
    x, *others = [value.detach().double().numpy() for value in xs]
    score, *parts = score.split("+")
    of_edges = [others.pop(2) for _ in parts]
    if score == "dot":
        scores = SCALE * (x[src] * others[0][dst]).sum(-1)
    elif score == "gatv2":
        scores = (others[1] * reference.leaky_relu(x[src] + others[0][dst], slope)).sum(-1)
    else:
        sides = [(x * side).sum(-1) for side in others[:2]] if score == "projected" else others
        scores = reference.leaky_relu(sides[0][src] + sides[1][dst] + (of_edges[0] if parts else 0), slope)
    factors = reference.dropout_multipliers(np.arange(len(src)), x.shape[1], dropout, SEED)
    if len(others) > (1 if score == "dot" else 2):
        factors = factors * others[-1][:, None]
    result = reference.attention(scores, src, dst, num_dst, x, factors)
    if "feat" not in parts:
        return result
    features = np.repeat(of_edges[1][:, None], x.shape[1], 1)
    numbers = np.arange(len(src))
    return np.concatenate([result, reference.attention(scores, numbers, dst, num_dst, features, factors)], -1)


@pytest.mark.parametrize(
    ("score", "dtype", "shape", "kind", "dropout", "weighted", "grad", "threads"),
    cases(
        SCORES + EDGE_SCORES,
        ["float32", "float64", "float16", "bfloat16"],
        SHAPES,
        ["random", "star", "no edges", "no nodes", "one edge"],
        [0.0, 0.4],
        [False, True],
        [False, True],
        [1, 2],
    ),
)
def test_value_equals_the_oracle(score, dtype, shape, kind, dropout, weighted, grad, threads):
    coo = graph(kind)
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)
    xs = [x.detach().to(getattr(torch, dtype)).requires_grad_(grad) for x in tensors(score, adj, *shape, weighted)]
    want = expected(score, coo.src, coo.dst, coo.num_dst, xs, dropout)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        result = attend(score, adj, xs, dropout)
    finally:
        torch.set_num_threads(before)
    assert result.dtype == xs[0].dtype and result.requires_grad == grad
    assert_close(result.detach().double().numpy(), want, dtype)


@pytest.mark.parametrize(
    ("score", "dtype", "shape", "kind"),
    turns(SCORES + EDGE_SCORES, ["float32", "bfloat16"], [(8, 8), (2, 70)], ["random", "star"]),
)
def test_gradients_in_lower_precision(score, dtype, shape, kind):
    """Held against the composition's in float64 on the same, rounded values."""
    coo = graph(kind)
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)
    rounded = [(x.detach() / 2).to(getattr(torch, dtype)) for x in tensors(score, adj, *shape, True)]
    results = []
    for values, run in ((rounded, attend), ([x.double() for x in rounded], composed)):
        xs = [x.clone().requires_grad_() for x in values]
        result = run(score, adj, xs, 0.3)
        weight = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.dtype)
        results.append(torch.autograd.grad(result, xs, weight))
    for actual, want in zip(*results, strict=True):
        assert actual.dtype == getattr(torch, dtype)
        scale = max(1.0, float(want.abs().max()))
        assert float((actual.double() - want).abs().max()) <= (6e-2 if dtype == "bfloat16" else 1e-4) * scale


@pytest.mark.parametrize(
    ("score", "shape", "dropout", "weighted", "square"),
    [
        *cases(SCORES + EDGE_SCORES, [(2, 3)], [0.0, 0.4], [False, True], [False, True]),
        *turns(SCORES + EDGE_SCORES, [(5, 1), (4, 2)], [0.4, 0.0, 0.4], [True, False, False], [False]),
    ],
)
def test_gradients(score, shape, dropout, weighted, square):
    adj, _, _ = small(square)
    xs = tensors(score, adj, *shape, weighted)
    assert gradcheck(lambda *xs: attend(score, adj, xs, dropout), xs, fast_mode=True)


@pytest.mark.parametrize(("score", "dropout", "weighted"), cases(SCORES + EDGE_SCORES, [0.0, 0.4], [False, True]))
def test_second_gradients(score, dropout, weighted):
    adj, _, _ = small()
    xs = tensors(score, adj, 2, 3, weighted)
    assert gradgradcheck(lambda *xs: attend(score, adj, xs, dropout), xs, fast_mode=True)


@pytest.mark.parametrize("score", SCORES + EDGE_SCORES)
def test_rows_longer_than_a_tile(score):
    """Maxima run from tile to tile; the largest scores stand at the end, the start or in between."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, 700), np.repeat([0, 1, 2], [500, 199, 1])
    adj = Adjacency.from_coo(50, 4, src, dst)
    xs = [(x.detach() * 3).requires_grad_() for x in tensors(score, adj, 2, 3, True)]
    assert_close(attend(score, adj, xs, 0.2).detach().numpy(), expected(score, src, dst, 4, xs, 0.2), "float64")
    grads = torch.autograd.grad(attend(score, adj, xs, 0.2).sin().sum(), xs)
    want = torch.autograd.grad(composed(score, adj, xs, 0.2).sin().sum(), xs)
    torch.testing.assert_close(grads, want)


@pytest.mark.parametrize("width", [1, 150])
def test_edge_features_narrow_and_wide(width):
    adj, _, _ = small()
    xs = [*tensors("additive+edge", adj, 2, 3), torch.randn(8, width, dtype=torch.float64, requires_grad=True)]
    results = [run("additive+edge+feat", adj, xs, 0.3) for run in (attend, composed)]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*[torch.autograd.grad(result.sin().sum(), xs) for result in results])


@pytest.mark.parametrize("slope", [-0.5, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("score", ["additive", "gatv2"])
def test_any_slope(score, slope):
    adj, src, dst = small()
    xs = tensors(score, adj, 2, 3)
    assert_close(
        attend(score, adj, xs, slope=slope).detach().numpy(), expected(score, src, dst, 5, xs, slope=slope), "float64"
    )
    assert gradcheck(lambda *xs: attend(score, adj, xs, slope=slope), xs, fast_mode=True)


def test_some_inputs_without_gradient():
    adj, _, _ = small()
    for score in SCORES + EDGE_SCORES:
        xs = tensors(score, adj, 2, 3, True)
        whole = torch.autograd.grad(attend(score, adj, xs).sin().sum(), xs)
        for i, want in enumerate(whole):
            alone = [x.detach().requires_grad_(i == j) for j, x in enumerate(xs)]
            (result,) = torch.autograd.grad(attend(score, adj, alone).sin().sum(), [alone[i]])
            torch.testing.assert_close(result, want)


@pytest.mark.parametrize("score", SCORES + EDGE_SCORES)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_edge_ids_in_order_and_out_of_order_and_wide_ids(score, index):
    """The same edges stored by destination, shuffled, or with 64-bit ids inside give the same, dropout included."""
    coo = graph("random")
    order = np.argsort(coo.dst, kind="stable")
    src, dst = coo.src[order], coo.dst[order]
    ordered = Adjacency.from_coo(coo.num_src, coo.num_dst, src, dst)
    indptr = np.searchsorted(dst, np.arange(coo.num_dst + 1))
    stored = Adjacency(coo.num_src, coo.num_dst, len(src))
    stored.index_dtype = np.dtype(index)
    stored._csc = Compressed(indptr.astype(index), src.astype(index), np.arange(len(src)).astype(index))
    xs = tensors(score, ordered, 2, 3, True)
    results = [attend(score, adj, xs, 0.3) for adj in (ordered, stored)]
    torch.testing.assert_close(results[0], results[1])
    grads = [torch.autograd.grad(result.sin().sum(), xs) for result in results]
    torch.testing.assert_close(grads[0], grads[1])


def test_dropout_follows_edges_not_their_order_in_memory():
    """An edge keeps its dropout in a graph whose rows hold its neighbours in another order."""
    edges = np.array([3, 1, 2, 0])
    one = Adjacency.from_csc(4, 1, np.array([0, 4]), np.arange(4), np.arange(4))
    two = Adjacency.from_csc(4, 1, np.array([0, 4]), edges, edges)
    x = torch.randn(4, 8, 3, dtype=torch.float64)
    el, er = torch.randn(4, 8, dtype=torch.float64), torch.randn(1, 8, dtype=torch.float64)
    results = [ops.gat_attention(adj, el, er, x, dropout=0.5, seed=1) for adj in (one, two)]
    torch.testing.assert_close(results[0], results[1])


def test_manual_seed_repeats_the_dropout():
    adj, _, _ = small()
    x, el, er = tensors("additive", adj, 2, 3)
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(ops.gat_attention(adj, el, er, x, dropout=0.5))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_everything_dropped_gives_zeros():
    adj, _, _ = small()
    xs = tensors("dot", adj, 2, 3)
    result = attend("dot", adj, xs, 1.0)
    assert not result.any()
    assert not any(grad.any() for grad in torch.autograd.grad(result.sum(), xs))


def test_large_and_masked_scores():
    """Scores do not overflow, and minus infinity leaves an edge out, in the first tile of a long row too."""
    adj = Adjacency.from_coo(200, 1, np.arange(200), np.zeros(200, np.int64))
    x, er = torch.randn(200, 1, 4, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    el = torch.full((200, 1), -torch.inf, dtype=torch.float64)
    el[150], el[151] = 1e30, -1e30
    torch.testing.assert_close(ops.gat_attention(adj, el, er, x)[0], x[150])


@pytest.mark.parametrize("score", SCORES + EDGE_SCORES)
def test_more_heads_than_kernels_are_made_for_are_composed(score, monkeypatch):
    adj, src, dst = small()
    xs = tensors(score, adj, module.MOST_HEADS + 1, 2)
    monkeypatch.setattr(module, "FusedAttention", None)
    assert_close(attend(score, adj, xs, 0.3).detach().numpy(), expected(score, src, dst, 5, xs, 0.3), "float64")


def test_several_axes_of_heads():
    adj, _, _ = small()
    xs = tensors("gatv2", adj, 6, 3)
    wide = [x.reshape(*x.shape[:-2], 2, 3, 3) for x in xs]
    torch.testing.assert_close(attend("gatv2", adj, wide).reshape(5, 6, 3), attend("gatv2", adj, xs))
    x, el, er = tensors("additive", adj, 6, 3)
    wide = [x.reshape(6, 2, 3, 3), el.reshape(6, 2, 3, 1), er.reshape(5, 2, 3, 1)]
    torch.testing.assert_close(attend("additive", adj, wide).reshape(5, 6, 3), attend("additive", adj, (x, el, er)))


@pytest.mark.parametrize("score", SCORES + EDGE_SCORES)
def test_weights_as_applied(score):
    adj, src, dst = small()
    xs = tensors(score, adj, 2, 3, True)
    how = attention(score, 0.4)
    count = len(how.operands)
    weights = core.attention_weights(adj, how, xs[0], xs[1:count], xs[count])
    assert weights.shape == (8, 2, 1)
    summed = xs[0][src]
    if how.edge_features:
        summed = torch.cat([summed, xs[count - 1][:, None].expand(8, 2, 3)], -1)
    result = torch.zeros(5, *summed.shape[1:], dtype=torch.float64).index_add(0, torch.tensor(dst), weights * summed)
    torch.testing.assert_close(result, attend(score, adj, xs, 0.4))


def test_nothing_keeps_results_alive(monkeypatch):
    """The operation must not hold its own result: the two would keep each other alive for ever."""
    seen = []

    class Seen(module.FusedAttention):
        def __init__(self, *given):
            super().__init__(*given)
            seen.append(weakref.ref(self))

    monkeypatch.setattr(module, "FusedAttention", Seen)
    adj, _, _ = small()
    gc.disable()
    try:
        for score in SCORES + EDGE_SCORES:
            result = attend(score, adj, tensors(score, adj, 2, 3))
            result.sum().backward()
            assert seen[-1]() is not None
            del result
            assert seen[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feat": torch.ones(4, 2, 3)}, "expected 6 rows, one per source node"),
        ({"er": torch.ones(6, 2)}, "expected 5 rows, one per destination node"),
        ({"el": torch.ones(6, 3)}, r"got \(3,\) for each source node, with \(2,\) heads of 3; expected \(2,\)"),
        ({"el": torch.ones(6, 2, dtype=torch.float64)}, "dtypes float32 and float64"),
        ({"feat": torch.ones(6)}, r"expected \(num_src, \*heads, d\)"),
        ({"feat": torch.ones(6, 3)}, r"expected \(num_src, \*heads, d\)"),
        ({"ee": torch.ones(7, 2)}, "expected 8 rows, one per edge"),
        ({"ee": torch.ones(8, 3)}, r"got \(3,\) for each edge, with \(2,\) heads of 3; expected \(2,\)"),
        ({"edge_weight": torch.ones(8, 2)}, "expected one number per edge"),
        ({"edge_weight": torch.ones(7)}, "expected 8 rows, one per edge"),
        ({"dropout": 1.5}, "got dropout=1.5; expected a probability"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    adj, _, _ = small()
    given = {"el": torch.ones(6, 2), "er": torch.ones(5, 2), "feat": torch.ones(6, 2, 3), **change}
    with pytest.raises(DGLError, match=message):
        ops.gat_attention(adj, **given)


def test_vectors_and_features_that_do_not_fit_are_refused():
    adj, _, _ = small()
    with pytest.raises(DGLError, match="got attn of shape"):
        ops.gatv2_attention(adj, torch.ones(6, 2, 3), torch.ones(5, 2, 3), torch.ones(2, 4))
    with pytest.raises(DGLError, match="for each destination node"):
        ops.dot_attention(adj, torch.ones(6, 2, 3), torch.ones(5, 2, 4))
    more = Adjacency.from_coo(2, 3, np.array([0]), np.array([1]))
    with pytest.raises(DGLError, match="3 destinations are not among 2 sources"):
        attend("projected", more, [torch.ones(2, 2, 3), torch.ones(2, 3), torch.ones(2, 3)])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (torch.ones(7, 4), "expected 8 rows, one per edge"),
        (torch.ones(8, 2, 4), r"got edge features of shape \(8, 2, 4\); expected \(num_edges, f\)"),
    ],
)
def test_edge_features_that_do_not_fit_are_refused(features, message):
    adj, _, _ = small()
    operands = torch.ones(6, 2), torch.ones(5, 2), torch.ones(8, 2), features
    with pytest.raises(DGLError, match=message):
        core.attention_with_edges(adj, attention("additive+edge+feat"), torch.ones(6, 2, 3), operands)


def test_public_names_take_graphs():
    coo: Coo = graph("random")
    g = dglite.heterograph({("a", "to", "b"): (coo.src, coo.dst)}, {"a": coo.num_src, "b": coo.num_dst})
    adj = g.adjacency()
    x, right, attn = tensors("gatv2", adj, 2, 3)
    torch.testing.assert_close(ops.gatv2_attention(g, x, right, attn, SLOPE), attend("gatv2", adj, (x, right, attn)))
    torch.testing.assert_close(ops.dot_attention(g, x, right, SCALE), attend("dot", adj, (x, right)))
    x, el, er, ee = tensors("additive+edge", adj, 2, 3)
    torch.testing.assert_close(ops.gat_attention(g, el, er, x, ee=ee), attend("additive+edge", adj, (x, el, er, ee)))
