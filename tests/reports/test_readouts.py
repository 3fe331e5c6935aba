"""Reports of readouts, poolings and segments, above all of graphs and segments without rows."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import nn
from dglite.graph import DGLGraph
from tests.reports.cases import ids, report


def batch_of(*sizes: int) -> DGLGraph:
    """Return a batch of graphs with self-loops, and h = 1, 2, 3, ... on nodes and edges."""
    batched = dglite.batch([dglite.graph((torch.arange(n), torch.arange(n)), num_nodes=n) for n in sizes])
    batched.ndata["h"] = batched.edata["h"] = torch.arange(1.0, sum(sizes) + 1)[:, None]
    return batched


@report("pyg-team/pytorch_geometric#1824", "a graph without nodes at the end got no row in the readout")
@pytest.mark.parametrize(
    ("op", "expected"), [("max", [0, 2, 0]), ("min", [0, 1, 0]), ("sum", [0, 3, 0]), ("mean", [0, 1.5, 0])]
)
def test_readout_of_graphs_without_nodes(op: str, expected: list[float]) -> None:
    batched = batch_of(0, 2, 0)
    assert dglite.readout_nodes(batched, "h", op=op).flatten().tolist() == expected
    assert dglite.readout_edges(batched, "h", op=op).flatten().tolist() == expected


@report("dmlc/dgl#761", "readouts of no nodes were -inf, and their gradients NaN")
def test_gradient_of_max_with_graphs_without_nodes() -> None:
    batched = batch_of(0, 2, 0)
    batched.ndata["h"] = x = torch.tensor([[1.0], [5.0]], requires_grad=True)
    dglite.max_nodes(batched, "h").sum().backward()
    assert x.grad is not None and x.grad.flatten().tolist() == [0, 1]


@report("dmlc/dgl#2228", "segments without rows at the end")
@pytest.mark.parametrize(
    ("reducer", "expected"),
    [("sum", [3, 0, 3, 0, 0]), ("mean", [1.5, 0, 3, 0, 0]), ("max", [2, 0, 3, 0, 0]), ("min", [1, 0, 3, 0, 0])],
)
def test_segments_without_rows(reducer: str, expected: list[float]) -> None:
    values = torch.tensor([1.0, 2.0, 3.0])
    result = dglite.ops.segment_reduce(ids(2, 0, 1, 0, 0), values, reducer)
    assert result.tolist() == expected


@report("dmlc/dgl#2610", "gradients of segments without rows")
@pytest.mark.parametrize(
    ("reducer", "expected"), [("sum", [1, 1, 5]), ("mean", [0.5, 0.5, 5]), ("max", [0, 1, 5]), ("min", [1, 0, 5])]
)
def test_gradient_of_segments_without_rows(reducer: str, expected: list[float]) -> None:
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = dglite.ops.segment_reduce(ids(0, 2, 1, 0), values, reducer)
    (result * torch.tensor([7.0, 1.0, 5.0, 11.0])).sum().backward()
    assert values.grad is not None and values.grad.tolist() == expected


@report("pyg-team/pytorch_geometric#2895", "poolings of a batch whose last or first graph has no nodes")
@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.SumPooling(), [[0], [3], [0]]),
        (nn.AvgPooling(), [[0], [1.5], [0]]),
        (nn.MaxPooling(), [[0], [2], [0]]),
        (nn.SortPooling(2), [[0, 0], [2, 1], [0, 0]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pooling_of_graphs_without_nodes(layer: torch.nn.Module, expected: list[list[float]]) -> None:
    batched = batch_of(0, 2, 0)
    assert layer(batched, batched.ndata["h"]).tolist() == expected


@report("dmlc/dgl#669", "attention pooling normalises weights in each graph of a batch")
def test_attention_pooling() -> None:
    batched = batch_of(2, 0, 1)
    gate = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(gate.weight)
    pooled = nn.GlobalAttentionPooling(gate)(batched, batched.ndata["h"])
    first = torch.softmax(torch.tensor([1.0, 2.0]), 0) @ torch.tensor([1.0, 2.0])
    torch.testing.assert_close(pooled, torch.tensor([[first], [0.0], [3.0]]))


@report("dmlc/dgl#2657", "set transformers gave NaN on batches, and where a graph has no nodes")
def test_set_transformer_of_sets_of_other_sizes() -> None:
    torch.manual_seed(0)
    encoder, decoder = nn.SetTransformerEncoder(4, 2, 2, 8), nn.SetTransformerDecoder(4, 2, 2, 8, 1, 2)
    sets = [torch.randn(n, 4) for n in (3, 1, 5)]

    def encode(*rows: torch.Tensor) -> torch.Tensor:
        batched = batch_of(*map(len, rows))
        return decoder(batched, encoder(batched, torch.cat(rows)))

    together = encode(sets[0], torch.zeros(0, 4), *sets[1:])
    assert torch.isfinite(together).all()
    for number, rows in zip((0, 2, 3), sets, strict=True):  # a graph's code does not depend on its neighbours
        torch.testing.assert_close(together[number], encode(rows)[0])


@report("dmlc/dgl#1836", "values of each graph are copied to its nodes and edges, where it has any")
def test_broadcast() -> None:
    batched = batch_of(2, 0, 1)
    values = torch.tensor([[1.0], [2.0], [3.0]])
    assert dglite.broadcast_nodes(batched, values).flatten().tolist() == [1, 1, 3]
    assert dglite.broadcast_edges(batched, values).flatten().tolist() == [1, 1, 3]


@report("pyg-team/pytorch_geometric#2274", "one graph's large values spoilt the softmax of others")
def test_softmax_of_each_graph() -> None:
    batched = batch_of(2, 0, 2)
    batched.ndata["s"] = torch.tensor([1.0, -1.0, float("-inf"), 50.0])
    expected = torch.cat([torch.softmax(torch.tensor([1.0, -1.0]), 0), torch.tensor([0.0, 1.0])])
    torch.testing.assert_close(dglite.softmax_nodes(batched, "s"), expected)


@report("dmlc/dgl#4674", "float16 sums of many rows stay near the exact sum")
def test_half_sums() -> None:
    rows = torch.full((13_000, 1), 0.125, dtype=torch.float16)
    total = dglite.ops.segment_reduce(ids(13_000), rows, "sum")
    assert total.dtype == torch.float16 and abs(float(total) - 1625) <= 1
