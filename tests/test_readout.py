"""Readouts of a batch equal what torch computes graph by graph, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph

SIZES = [(3, 4), (0, 0), (1, 0), (5, 7)]


def batched(dtype: torch.dtype = torch.float64, shape: tuple[int, ...] = (3,)) -> DGLGraph:
    torch.manual_seed(0)
    graphs = []
    for nodes, edges in SIZES:
        ends = torch.randint(max(nodes, 1), (2, edges))
        g = dglite.graph((ends[0], ends[1]), num_nodes=nodes)
        g.ndata["h"], g.edata["h"] = torch.randn(nodes, *shape).to(dtype), torch.randn(edges, *shape).to(dtype)
        one = (1,) * len(shape)
        g.ndata["w"], g.edata["w"] = torch.rand(nodes, *one).to(dtype), torch.rand(edges, *one).to(dtype)
        graphs.append(g)
    return dglite.batch(graphs)


def oracle(x: Tensor, sizes: list[int], op: str) -> Tensor:
    rows = []
    for part in x.split(sizes):
        if len(part):
            rows.append({"sum": part.sum, "mean": part.mean, "max": part.amax, "min": part.amin}[op](0))
        else:
            rows.append(part.sum(0))
    return torch.stack(rows)


KINDS = {
    "nodes": (dglite.readout_nodes, lambda g: g.ndata, [n for n, _ in SIZES]),
    "edges": (dglite.readout_edges, lambda g: g.edata, [e for _, e in SIZES]),
}


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 1, 1)])
def test_a_weight_of_one_number_a_row_is_of_the_row(shape: tuple[int, ...]) -> None:
    g = dglite.batch([dglite.rand_graph(3, 2), dglite.rand_graph(1, 0)])
    g.ndata["h"], g.ndata["w"] = torch.ones(4, 4), torch.arange(4.0).reshape(shape)  # as many columns as rows
    assert dglite.sum_nodes(g, "h", "w").tolist() == [[3.0] * 4, [3.0] * 4]
    g.ndata["h"] = torch.ones(4)
    assert dglite.max_nodes(g, "h", "w").tolist() == [2.0, 3.0]


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_readout_equals_torch(kind: str, op: str, weight: str | None, dtype: torch.dtype) -> None:
    g = batched(dtype)
    readout, data, sizes = KINDS[kind]
    x = data(g)["h"] * data(g)["w"] if weight else data(g)["h"]
    result = readout(g, "h", weight, op=op)
    assert result.dtype == dtype
    expected = oracle(x.double(), sizes, op).to(dtype)
    torch.testing.assert_close(
        result, expected, rtol=2e-2 if dtype.itemsize == 2 else None, atol=2e-2 if dtype.itemsize == 2 else None
    )
    if op != "min":
        torch.testing.assert_close(getattr(dglite, f"{op}_{kind}")(g, "h", weight), result)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_readout_has_two_derivatives(op: str) -> None:
    g = batched()

    def readout(x: Tensor, w: Tensor) -> Tensor:
        g.ndata["h"], g.ndata["w"] = x, w
        return dglite.readout_nodes(g, "h", "w", op=op)

    inputs = tuple(g.ndata[name].clone().requires_grad_() for name in ("h", "w"))
    assert torch.autograd.gradcheck(readout, inputs, fast_mode=True) and torch.autograd.gradgradcheck(
        readout, inputs, fast_mode=True
    )


@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_softmax_is_over_each_graph(kind: str) -> None:
    g = batched()
    data, sizes = KINDS[kind][1](g), KINDS[kind][2]
    softmax = getattr(dglite, f"softmax_{kind}")
    expected = torch.cat([part.softmax(0) for part in data["h"].split(sizes)])
    torch.testing.assert_close(softmax(g, "h"), expected)

    def run(x: Tensor) -> Tensor:
        data["h"] = x
        return softmax(g, "h")

    x = data["h"].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, x, fast_mode=True) and torch.autograd.gradgradcheck(run, x, fast_mode=True)


@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_broadcast_repeats_each_graphs_feature(kind: str) -> None:
    g, sizes = batched(), KINDS[kind][2]
    broadcast = getattr(dglite, f"broadcast_{kind}")
    x = torch.randn(len(SIZES), 2, 3, dtype=torch.float64, requires_grad=True)
    expected = x.repeat_interleave(torch.tensor(sizes), dim=0)
    torch.testing.assert_close(broadcast(g, x), expected)
    assert torch.autograd.gradcheck(lambda y: broadcast(g, y), x, fast_mode=True)
    with pytest.raises(DGLError, match="expected 4 rows, one per graph"):
        broadcast(g, x[:3])


def test_a_single_graphs_feature_may_lack_its_first_axis() -> None:
    g = dglite.graph(([0], [1]))
    assert dglite.broadcast_nodes(g, torch.ones(1, 3)).shape == (2, 3)
    with pytest.warns(dglite.DGLWarning, match="give it as"):
        assert dglite.broadcast_nodes(g, torch.ones(3)).shape == (2, 3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from([None, 0, -1]),
    st.integers(0, 9),
)
def test_topk_equals_torch(sizes: list[int], k: int, descending: bool, sortby: int | None, seed: int) -> None:
    torch.manual_seed(seed)
    g = dglite.batch([dglite.graph(([], []), num_nodes=n) for n in sizes])
    x = torch.randn(sum(sizes), 3, requires_grad=True)
    g.ndata["h"] = x
    values, numbers = dglite.topk_nodes(g, "h", k, descending=descending, sortby=sortby)
    assert values.shape == (len(sizes), k, 3) and numbers.shape == (
        (len(sizes), k, 3) if sortby is None else (len(sizes), k)
    )
    for i, part in enumerate(x.split(sizes)):
        n = min(k, len(part))
        if sortby is None:
            expected, order = part.sort(0, descending=descending)
        else:
            order = part[:, sortby].sort(0, descending=descending)[1]
            expected = part[order]
        assert values[i, :n].tolist() == expected[:n].tolist() and numbers[i, :n].tolist() == order[:n].tolist()
        assert not values[i, n:].any()
        assert all((numbers[i, j] == j).all() for j in range(n, k))
    values.sum().backward()
    assert x.grad is not None and x.grad.sum() == sum(min(k, n) for n in sizes) * 3


def test_the_classic_name_of_what_rows_are_ranked_by() -> None:
    g = dglite.graph(([0], [1]))
    g.ndata["h"], g.edata["w"] = torch.tensor([[1.0, 5.0], [2.0, 3.0]]), torch.tensor([[1.0, 5.0]])
    with pytest.warns(DeprecationWarning, match="use sortby=") as caught:
        assert dglite.topk_nodes(g, "h", 2, idx=1)[1].tolist() == [[0, 1]]
        assert dglite.topk_edges(g, "w", 1, idx=0)[1].tolist() == [[0]]
    assert {warning.filename for warning in caught} == {__file__}


def test_topk_of_edges_of_one_dimension_with_ties() -> None:
    g = dglite.graph(([0, 0, 1], [1, 1, 0]))
    g.edata["w"] = torch.tensor([2, 2, 1])
    values, numbers = dglite.topk_edges(g, "w", 2)
    assert values.tolist() == [[2, 2]] and numbers.tolist() == [[0, 1]] and values.dtype == torch.int64
    values, numbers = dglite.topk_edges(g, "w", 2, descending=False)
    assert values.tolist() == [[1, 2]] and numbers.tolist() == [[2, 0]]


def test_several_types_are_read_out_by_type() -> None:
    parts = []
    for games in (1, 2):
        g = dglite.heterograph({("user", "plays", "game"): ([0, 1], [0, 0])}, {"user": 2, "game": games})
        g.nodes["game"].data["h"], g.edata["w"] = torch.ones(games), torch.ones(2)
        parts.append(g)
    g = dglite.batch(parts)
    assert dglite.sum_nodes(g, "h", ntype="game").tolist() == [1, 2]
    assert dglite.sum_edges(g, "w", etype="plays").tolist() == [2, 2] == dglite.sum_edges(g, "w").tolist()
    with pytest.raises(DGLError, match="name one of"):
        dglite.sum_nodes(g, "h")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: dglite.readout_nodes(g, "h", op="median"), DGLError, "no readout 'median'; expected one of sum"),
        (lambda g: dglite.sum_nodes(g, "x"), KeyError, "no feature 'x'"),
        (lambda g: dglite.topk_nodes(g, "h", 0), DGLError, "k must be an integer >= 1, got 0"),
        (lambda g: dglite.topk_nodes(g, "h", 1, sortby=3), DGLError, "sortby=3 needs a feature"),
    ],
)
def test_what_cannot_be_read_out_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(batched())
