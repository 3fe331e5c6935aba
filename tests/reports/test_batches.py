"""Reports of batches: joined, changed, cut into parts, and taken apart again."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.graph import DGLGraph
from tests.reports.cases import ids, pairs, report


def chain(*weights: float) -> DGLGraph:
    """Return a path with a node for each weight, kept as "h"; edges have their number as "e"."""
    n = len(weights)
    g = dglite.graph((torch.arange(n - 1), torch.arange(1, n)), num_nodes=n)
    g.ndata["h"], g.edata["e"] = torch.tensor(weights), torch.arange(n - 1)
    return g


@report("dmlc/dgl#2310", "after a removal, a batch could not be taken apart")
def test_unbatch_after_removals() -> None:
    batched = dglite.batch([chain(1.0, 2.0), chain(3.0, 4.0, 5.0), chain(6.0, 7.0)])
    batched.remove_edges([1])
    assert [pairs(g) for g in dglite.unbatch(batched)] == [[(0, 1)], [(1, 2)], [(0, 1)]]
    batched.remove_nodes([0, 3])
    assert batched.batch_num_nodes().tolist() == [1, 2, 2] and batched.batch_num_edges().tolist() == [0, 0, 1]
    assert [g.ndata["h"].tolist() for g in dglite.unbatch(batched)] == [[2], [3, 5], [6, 7]]


@report("dmlc/dgl#2409", "graphs of which some lost no edges could not be batched")
def test_batch_after_removing_nothing_from_some() -> None:
    graphs = [chain(1.0, 2.0, 3.0), chain(4.0, 5.0, 6.0)]
    for g, eids in zip(graphs, ([1], []), strict=True):
        g.remove_edges(torch.tensor(eids, dtype=torch.int64))
    batched = dglite.batch(graphs)
    assert pairs(batched) == [(0, 1), (3, 4), (4, 5)]
    assert batched.edata["e"].tolist() == [0, 0, 1]


@report("dmlc/dgl#2422", "a subgraph of a batch is one graph", also="dmlc/dgl#1865 dmlc/dgl#2506")
def test_subgraph_of_a_batch() -> None:
    batched = dglite.batch([chain(1.0, 2.0), chain(3.0, 4.0, 5.0)])
    part = dglite.node_subgraph(batched, [1, 2, 4])
    assert part.batch_size == 1 and dglite.sum_nodes(part, "h").tolist() == [10]
    part.set_batch_num_nodes(ids(1, 2))
    part.set_batch_num_edges(ids(0, 0))
    assert dglite.sum_nodes(part, "h").tolist() == [2, 8]
    typed = dglite.batch([dglite.heterograph({("a", "r", "a"): ([0], [1]), ("a", "s", "b"): ([0], [0])})] * 3)
    assert dglite.node_type_subgraph(typed, ["a"]).num_nodes() == 6


@report("dmlc/dgl#1483", "a batch of one graph was that graph itself")
def test_batch_of_one() -> None:
    g = chain(1.0, 2.0)
    batched = dglite.batch([g])
    assert batched is not g and batched.batch_num_nodes().tolist() == [2] and batched.batch_size == 1
    again = dglite.batch([batched, batched])
    assert again.batch_size == 2 and again.batch_num_nodes().tolist() == [2, 2]


@report("dmlc/dgl#62", "graphs without edges could not be batched")
def test_batch_of_graphs_without_edges() -> None:
    batched = dglite.batch([dglite.graph(([], []), num_nodes=2), dglite.graph(([0], [0])), dglite.graph(([], []))])
    assert pairs(batched) == [(2, 2)]
    assert batched.batch_num_nodes().tolist() == [2, 1, 0] and batched.batch_num_edges().tolist() == [0, 1, 0]
    assert [g.num_nodes() for g in dglite.unbatch(batched)] == [2, 1, 0]


@report("dmlc/dgl#169", "nodes of a batch without features were counted as none")
def test_batch_without_features() -> None:
    batched = dglite.batch([dglite.graph(([0], [1])), dglite.graph(([0, 1], [1, 2]))])
    batched.ndata["h"] = torch.ones(5)
    assert batched.num_nodes() == 5 and dglite.sum_nodes(batched, "h").tolist() == [2, 3]


@report("dmlc/dgl#134", "a batch of graphs without cycles was reported to have one")
def test_topological_order_of_a_batch() -> None:
    trees = [dglite.graph(([1, 2, 3], [0, 0, 1])), dglite.graph(([2, 1], [1, 0])), dglite.graph(([], []), num_nodes=1)]
    levels = [sorted(level.tolist()) for level in dglite.topological_nodes_generator(dglite.batch(trees))]
    assert levels == [[2, 3, 6, 7], [1, 5], [0, 4]]


@report("dmlc/dgl#3022", "graphs of other edge types were batched silently")
def test_batch_of_other_types_is_refused() -> None:
    graphs = [dglite.heterograph({("a", name, "b"): ([0], [0])}) for name in "rs"]
    with pytest.raises(dglite.DGLError, match=r"types|relations"):
        dglite.batch(graphs)


@report("dmlc/dgl#1837", "batches of blocks cannot be made")
def test_batch_of_blocks_is_refused() -> None:
    block = dglite.to_block(chain(1.0, 2.0))
    with pytest.raises(dglite.DGLError, match="block"):
        dglite.batch([block, block])


@report("schmidt-ju/scene#1", "columns of other dtypes: the error says which", also="SpaceLearner/SessionRec-pytorch#1")
def test_batch_of_other_dtypes_is_refused() -> None:
    first, second = chain(1.0, 2.0), chain(3.0, 4.0)
    second.ndata["h"] = second.ndata["h"].to(torch.int32)
    with pytest.raises(dglite.DGLError, match=r"h.*int32|int32.*h"):
        dglite.batch([first, second])


@report("pyg-team/pytorch_geometric#8439", "counts of a batch did not follow a subgraph")
def test_counts_after_removing_every_other_node() -> None:
    batched = dglite.batch([chain(*range(10)), chain(*range(10))])
    batched.remove_nodes(torch.arange(1, 20, 2))
    assert batched.batch_num_nodes().tolist() == [5, 5]
    assert [g.ndata["h"].tolist() for g in dglite.unbatch(batched)] == [[0, 2, 4, 6, 8]] * 2


@report("dmlc/dgl#4184", "merge adds edges and keeps one set of nodes")
def test_merged_graphs() -> None:
    g, h = dglite.graph((ids(0, 1), ids(2, 3))), dglite.graph((ids(1, 2), ids(0, 4)))
    g.ndata["x"], h.ndata["x"] = torch.zeros(4), torch.ones(5)
    merged = dglite.merge([g, h])
    assert pairs(merged) == [(0, 2), (1, 3), (1, 0), (2, 4)] and merged.num_nodes() == 5
    assert merged.ndata["x"].tolist() == [1] * 5


@report("dmlc/dgl#3843", "new edges end the batch, unless counts are set again")
def test_edges_added_to_a_batch() -> None:
    batched = dglite.batch([chain(1.0, 2.0), chain(3.0, 4.0)])
    batched.add_edges([1], [0])
    assert pairs(batched) == [(0, 1), (2, 3), (1, 0)] and batched.edata["e"].tolist() == [0, 0, 0]
    assert batched.num_nodes() == 4 and int(batched.batch_num_edges().sum()) == 3


@report("dmlc/dgl#7498", "counts set by hand must add up")
def test_counts_that_do_not_add_up_are_refused() -> None:
    g = chain(1.0, 2.0, 3.0)
    with pytest.raises(dglite.DGLError):
        g.set_batch_num_nodes(ids(1, 1))
    g.set_batch_num_nodes(ids(1, 2))
    g.set_batch_num_edges(ids(0, 2))
    g.edata["w"] = torch.tensor([3.0, 4.0])
    assert dglite.sum_nodes(g, "h").tolist() == [1, 5] and dglite.sum_edges(g, "w").tolist() == [0, 7]


@report("dmlc/dgl#3348", "many small graphs: each is its own again")
def test_many_graphs() -> None:
    sizes = [number % 4 for number in range(2000)]
    graphs = [dglite.graph((torch.arange(n), torch.arange(n)), num_nodes=n) for n in sizes]
    batched = dglite.batch(graphs)
    batched.ndata["h"] = torch.ones(batched.num_nodes())
    assert dglite.sum_nodes(batched, "h").tolist() == sizes
    assert [g.num_edges() for g in dglite.unbatch(batched)] == sizes
