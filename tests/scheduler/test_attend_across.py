"""Rule 5 across calls: attention written in steps, as in DGL's GATConv, is one kernel unless something reads a step."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dglite
import dglite.function as fn
from dglite.backend import active
from dglite.backend.torch_deferred import DeferredTensor
from dglite.nn.functional import edge_softmax
from dglite.ops import attention as fused
from dglite.ops import scores
from tests.versions import defers_scores

pytestmark = defers_scores


@pytest.fixture
def always(monkeypatch):
    """Let the small graphs of these tests take the way of large ones."""
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)


@pytest.fixture
def runs(monkeypatch, always):
    """Count the attentions that ran as one kernel."""
    results = []

    class Counted(fused.FusedAttention):
        def forward(self, *inputs):
            results.append(self.options)
            return super().forward(*inputs)

    monkeypatch.setattr(fused, "FusedAttention", Counted)
    return results


def graph_with(feat, dtype=torch.float64):
    """Return a graph with a node that receives nothing, parallel edges and a self-loop, and its columns."""
    torch.manual_seed(0)
    g = dglite.graph(([0, 0, 1, 2, 2, 3, 3, 1], [1, 1, 2, 2, 3, 3, 1, 2]))
    score = (*feat[:-1], 1)
    columns = {"ft": torch.randn(4, *feat), "el": torch.randn(4, *score), "er": torch.randn(4, *score)}
    columns = {name: x.to(dtype).requires_grad_() for name, x in columns.items()}
    g.ndata.update(columns)
    return g, columns


def in_steps(g, slope=0.2, dropout=0.0, training=True):
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    e = F.leaky_relu(g.edata.pop("e"), slope)
    g.edata["a"] = F.dropout(edge_softmax(g, e), dropout, training)
    g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    return g.ndata["out"]


def by_hand(g, columns, slope=0.2):
    """Return the attention's result, node by node."""
    src, dst = g.edges()
    e = F.leaky_relu(columns["el"][src] + columns["er"][dst], slope)
    rows = []
    for v in range(g.num_nodes()):
        mine = torch.nonzero(dst == v).flatten()
        rows.append((torch.softmax(e[mine], 0) * columns["ft"][src[mine]]).sum(0))
    return torch.stack(rows)


def gradients(result, columns):
    weights = torch.cos(torch.arange(result.numel(), dtype=result.dtype)).reshape(result.shape)
    return torch.autograd.grad((result * weights).sum(), list(columns.values()))


def agree(result, expected, **how):
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, **how)


@pytest.mark.parametrize("feat", [(5,), (2, 3)])
@pytest.mark.parametrize("slope", [0.2, 1.0])
def test_steps_are_one_kernel(runs, feat, slope):
    g, columns = graph_with(feat)
    result = in_steps(g, slope)
    torch.testing.assert_close(result, by_hand(g, columns, slope))
    agree(gradients(result, columns), gradients(by_hand(g, columns, slope), columns))
    assert [how.slope for how in runs] == [slope]
    assert type(g.edata["a"]) is DeferredTensor and active.recipe_of(g.edata["a"]) is not None


def test_a_recorded_function_may_give_the_scores(runs):
    g, columns = graph_with((2, 3))
    g.apply_edges(lambda edges: {"e": F.leaky_relu(edges.src["el"] + edges.dst["er"], 0.1)})
    g.edata["a"] = edge_softmax(g, g.edata["e"])
    g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    torch.testing.assert_close(g.ndata["out"], by_hand(g, columns, 0.1))
    assert len(runs) == 1


PLUS = {
    "first": lambda e, w: e + w,
    "second": lambda e, w: w + e,
    "function": torch.add,
    "method": lambda e, w: w.add(e),
}


@pytest.mark.parametrize("plus", PLUS)
@pytest.mark.parametrize("feat", [(5,), (2, 3)])
def test_a_term_of_the_edge_is_added_inside(runs, plus, feat):
    g, columns = graph_with(feat)
    columns["w"] = torch.randn(8, *feat[:-1], 1, dtype=torch.float64, requires_grad=True)
    results = []
    for wait in (True, False):
        g.apply_edges(fn.u_add_v("el", "er", "e"))
        e = g.edata["e"] if wait else g.edata["e"].clone()
        e = PLUS[plus](e, columns["w"])
        assert (type(e) is DeferredTensor) == wait
        g.edata["a"] = F.dropout(edge_softmax(g, F.leaky_relu(e, 0.2)), 0.0)
        g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
        result = g.ndata["out"]
        results.append((result, g.edata["a"] + 0, *gradients(result, columns)))
    agree(*results)
    assert [how.edges for how in runs] == [True]


def test_a_recorded_function_may_add_a_term_of_the_edge(runs):
    g, columns = graph_with((2, 3))
    columns["w"] = g.edata["w"] = torch.randn(8, 2, 1, dtype=torch.float64, requires_grad=True)
    scored = lambda edges: {"e": F.leaky_relu(edges.src["el"] + edges.data["w"] + edges.dst["er"], 0.1)}  # noqa: E731
    assert "leave scores for later" in str(dglite.explain(g, scored))
    g.apply_edges(scored)
    g.edata["a"] = edge_softmax(g, g.edata["e"])
    g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    src, dst = g.edges()
    a = edge_softmax(g, F.leaky_relu(columns["el"][src] + columns["w"] + columns["er"][dst], 0.1))
    expected = torch.zeros(4, 2, 3, dtype=torch.float64).index_add(0, dst, a * columns["ft"][src])
    torch.testing.assert_close(g.ndata["out"], expected)
    agree(gradients(g.ndata["out"], columns), gradients(expected, columns))
    assert [how.edges for how in runs] == [True]


OTHERS = {
    "a number": lambda e: e + 2,
    "one for all heads": lambda e: e + torch.ones(8, 1, 1, dtype=torch.float64),
    "another dtype": lambda e: e + torch.ones(8, 2, 1),
    "more of it": lambda e: torch.add(e, torch.ones(8, 2, 1, dtype=torch.float64), alpha=2),
    "itself": lambda e: e + e,
    "twice": lambda e: e + torch.ones(8, 2, 1, dtype=torch.float64) + torch.full((8, 2, 1), 2.0, dtype=torch.float64),
    "after the slope": lambda e: F.leaky_relu(e, 0.2) + torch.ones(8, 2, 1, dtype=torch.float64),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_sums_are_those_of_values(always, other):
    g, columns = graph_with((2, 3))
    results = []
    for wait in (True, False):
        g.apply_edges(fn.u_add_v("el", "er", "e"))
        e = OTHERS[other](g.edata["e"] if wait else g.edata["e"].clone())
        assert type(e) is torch.Tensor
        ends = [columns["el"], columns["er"]]
        results.append((e, *torch.autograd.grad((e * e).sum(), ends)))
    agree(*results)


def test_a_sum_that_is_written_into_a_tensor_has_values(always):
    g, _ = graph_with((2, 3))
    term, out = torch.ones(8, 2, 1, dtype=torch.float64), torch.empty(8, 2, 1, dtype=torch.float64)
    with torch.no_grad():
        g.apply_edges(fn.u_add_v("el", "er", "e"))
        expected = g.edata["e"].clone() + 1
        g.apply_edges(fn.u_add_v("el", "er", "e"))
        torch.add(g.edata["e"], term, out=out)
    torch.testing.assert_close(out, expected)


def test_a_term_that_changes_after_the_sum_does_not_change_it(always):
    g, _ = graph_with((2, 3))
    term = torch.randn(8, 2, 1, dtype=torch.float64)
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    expected = g.edata["e"].clone() + term
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    e = g.edata["e"] + term
    term.zero_()
    torch.testing.assert_close(e + 0, expected)


def test_blocks(runs):
    torch.manual_seed(0)
    block = dglite.create_block(([0, 1, 2, 3, 3], [0, 0, 1, 1, 1]), num_src_nodes=4, num_dst_nodes=3)
    block.srcdata["el"], block.dstdata["er"] = torch.randn(4, 2, 1), torch.randn(3, 2, 1)
    block.srcdata["ft"] = torch.randn(4, 2, 3)
    block.apply_edges(fn.u_add_v("el", "er", "e"))
    block.edata["a"] = edge_softmax(block, F.leaky_relu(block.edata["e"], 0.2))
    block.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    assert len(runs) == 1
    weights = block.edata["a"] + 0
    src, dst = block.edges()
    expected = torch.zeros(3, 2, 3).index_add(0, dst, weights * block.srcdata["ft"][src])
    torch.testing.assert_close(block.dstdata["out"], expected)


def test_dropout_is_drawn_once(runs):
    g, columns = graph_with((2, 3))
    torch.manual_seed(1)
    result = in_steps(g, dropout=0.4)
    assert len(runs) == 1 and runs[0].dropout == 0.4
    weights = g.edata["a"] * 1.0  # what was applied
    assert type(weights) is torch.Tensor and (weights == 0).any()
    src, dst = g.edges()
    expected = torch.zeros(4, 2, 3, dtype=torch.float64).index_add(0, dst, weights * columns["ft"][src])
    torch.testing.assert_close(result, expected)
    agree(gradients(result, columns), gradients(expected, columns))
    torch.manual_seed(1)
    torch.testing.assert_close(in_steps(graph_with((2, 3))[0], dropout=0.0), in_steps(g, dropout=0.4, training=False))


READERS = {
    "exp": lambda e: e.exp(),
    "operator": lambda e: 2 * e,
    "item": lambda e: e[0, 0].item() + e,
    "numpy": lambda e: e + torch.from_numpy(e.detach().numpy()),
    "view": lambda e: e.view(-1, 2).reshape(8, 2, 1),
    "cat": lambda e: torch.cat([e, e])[:8],
    "in place": lambda e: e.mul_(2),
    "inplace leaky": lambda e: F.leaky_relu(e, 0.2, inplace=True),
    "clone": lambda e: e.clone(),
    "twice leaky": lambda e: F.leaky_relu(F.leaky_relu(e, 0.2), 0.2),
    "dropped scores": lambda e: F.dropout(e, 0.0) + 1,
    "to": lambda e: e.to(torch.float64).float().double(),
    "function": lambda e: torch.special.expit(e),
    "list": lambda e: torch.tensor(e.tolist()) + e,
    "array": lambda e: torch.from_numpy(np.asarray(e.detach()) + 1) * e,
    "indexed": lambda e: torch.index_select(e, 0, torch.arange(8)),
}


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_a_step_gets_values(always, reader):
    read = READERS[reader]
    results = []
    for wait in (True, False):
        g, columns = graph_with((2, 3))
        g.apply_edges(fn.u_add_v("el", "er", "e"))
        e = g.edata["e"]
        assert type(e) is DeferredTensor
        if not wait:
            e = e.clone()
        result = read(e)
        a = edge_softmax(g, result)
        g.update_all(lambda edges, a=a: {"m": edges.src["ft"] * a}, fn.sum("m", "out"))
        results.append((result, g.ndata["out"], *gradients(g.ndata["out"], columns)))
    agree(results[0], results[1], check_dtype=True)


class Doubled(torch.autograd.Function):
    """A user's own function, which torch hands the tensor itself."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_custom_function_gets_values_and_gives_a_gradient(always):
    g, columns = graph_with((2, 3))
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    result = Doubled.apply(g.edata["e"])
    src, dst = g.edges()
    expected = 2 * (columns["el"][src] + columns["er"][dst])
    torch.testing.assert_close(result, expected)
    ends = [columns["el"], columns["er"]]
    agree(torch.autograd.grad(result.square().sum(), ends), torch.autograd.grad(expected.square().sum(), ends))


def test_values_that_were_changed_in_place_are_the_ones_used(runs):
    g, columns = graph_with((2, 3))
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    with torch.no_grad():
        g.edata["a"] = edge_softmax(g, g.edata["e"])
        g.edata["a"].mul_(0.5)
        g.update_all(fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    torch.testing.assert_close(g.ndata["out"], 0.5 * by_hand(g, columns, 1.0).detach())
    assert not runs


def test_other_structures_and_shapes_are_computed_as_they_are(runs):
    g, _ = graph_with((2, 3))
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    other = dglite.graph((g.edges()[1], g.edges()[0]))
    torch.testing.assert_close(edge_softmax(other, g.edata["e"]), edge_softmax(other, g.edata["e"] + 0))
    a = g.edata["a"] = edge_softmax(g, g.edata["e"])
    g.ndata["wide"] = torch.randn(4, 5, 2, 3, dtype=torch.float64)
    g.update_all(fn.u_mul_e("wide", "a", "m"), fn.sum("m", "out"))
    g.update_all(fn.u_mul_e("ft", "a", "m"), fn.max("m", "largest"))
    src, dst = g.edges()
    expected = torch.zeros(4, 5, 2, 3, dtype=torch.float64).index_add(0, dst, (a + 0)[:, None] * g.ndata["wide"][src])
    torch.testing.assert_close(g.ndata["out"], expected)
    assert not runs and g.ndata["largest"].shape == (4, 2, 3)


def test_small_scores_are_computed_at_once():
    g, _ = graph_with((2, 3))
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    assert type(g.edata["e"]) is torch.Tensor


def test_facts_cost_no_values_and_copies_are_ordinary(always):
    g, _ = graph_with((2, 3))
    g.apply_edges(fn.u_add_v("el", "er", "e"))
    e = g.edata["e"]
    assert (tuple(e.shape), e.dtype, e.requires_grad, e.ndim, len(e), e.size(0)) == (
        (8, 2, 1),
        torch.float64,
        True,
        3,
        8,
        8,
    )
    assert isinstance(e, torch.Tensor) and type(e) is DeferredTensor
    with torch.no_grad():
        plain = e.detach()
        for copied in (copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
            assert type(copied) is torch.Tensor
            torch.testing.assert_close(copied, plain)
    assert "tensor(" in repr(e)


def test_a_plan_says_that_it_is_attention(always):
    g, _ = graph_with((2, 3))
    assert "leave scores for later" in str(dglite.explain(g, fn.u_add_v("el", "er", "e")))
    in_steps(g)
    shown = dglite.explain(g, fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    assert "attention" in [line.kernel for line in shown.lines]
    g.edata["a"] + 0
    shown = dglite.explain(g, fn.u_mul_e("ft", "a", "m"), fn.sum("m", "out"))
    assert "attention" not in [line.kernel for line in shown.lines]


def test_nothing_of_edges_and_heads_is_alive(runs):
    """A model of layers like DGL's: weights are never computed, in training neither."""
    g, _ = graph_with((2, 3), torch.float32)
    loss = in_steps(g, dropout=0.3).square().sum()
    loss.backward()
    assert type(g.edata["a"]) is DeferredTensor and g.edata["a"].deferred.computed is None and len(runs) == 1
