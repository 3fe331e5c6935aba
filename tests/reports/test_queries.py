"""Reports of questions to a graph: ids of edges, degrees, dtypes of ids, ids that do not exist."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from tests.reports.cases import ids, pairs, report

IDTYPES = [torch.int32, torch.int64]


@report("dmlc/dgl#1356", "edge_ids gives a tensor, whether or not edges are repeated")
def test_ids_of_edges() -> None:
    g = dglite.graph(([0, 1, 2, 3, 1], [2, 5, 7, 8, 5]))
    assert g.edge_ids([3, 0, 2], [8, 2, 7]).tolist() == [3, 0, 2]
    assert g.is_multigraph and g.edge_ids([3, 0, 2], [8, 2, 7]).tolist() == [3, 0, 2]


@report("dmlc/dgl#754", "edge_ids of one direction gives the ids of that direction")
def test_ids_of_one_direction() -> None:
    g = dglite.graph(([15, 60, 60, 60], [60, 15, 15, 3]), num_nodes=61)
    src, dst, eids = g.edge_ids([60], [15], return_uv=True)
    assert (src.tolist(), dst.tolist(), eids.tolist()) == ([60, 60], [15, 15], [1, 2])
    assert g.in_degrees(60) == 1 and g.out_degrees(60) == 3


@report("dmlc/dgl#216", "edge_ids of nodes that do not exist crashed the process")
@pytest.mark.parametrize("node", [7, -1])
def test_ids_of_nodes_that_do_not_exist(node: int) -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    for query in (
        lambda: g.edge_ids([node], [0]),
        lambda: g.has_edges_between([node], [0]),
        lambda: g.in_degrees([node]),
        lambda: g.out_edges([node]),
        lambda: g.subgraph([node]),
    ):
        with pytest.raises(dglite.DGLError, match=str(node)):
            query()


@report("dmlc/dgl#7434", "where several edges do not exist, the error names one")
def test_edges_that_do_not_exist() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    with pytest.raises(dglite.DGLError, match=r"1.*0"):
        g.edge_ids([0, 1, 2], [1, 0, 1])
    assert g.has_edges_between([0, 1, 2], [1, 0, 1]).tolist() == [True, False, False]


@report("dmlc/dgl#2128", "out_edges of no nodes failed")
@pytest.mark.parametrize("idtype", IDTYPES)
def test_edges_of_no_nodes(idtype: torch.dtype) -> None:
    g = dglite.graph(([0, 1], [1, 2]), idtype=idtype)
    none = torch.tensor([], dtype=idtype)
    for query in (g.out_edges, g.in_edges):
        src, dst = query(none)
        assert src.dtype == dst.dtype == idtype and src.shape == dst.shape == (0,)
    assert g.in_degrees(none).shape == g.has_nodes(none).shape == (0,)


@report("dmlc/dgl#3613", "negative ids, as of an overflow, were noticed late and by a strange error")
def test_negative_ids_are_refused() -> None:
    overflowed = np.array([2**31 + 5], dtype=np.int64).astype(np.int32)
    with pytest.raises(dglite.DGLError, match="-2147483643"):
        dglite.heterograph({("a", "r", "b"): (torch.from_numpy(overflowed), ids(0, dtype=torch.int32))})


@report("dmlc/dgl#7850", "more ids than int32 has are an error, and do not wrap around")
def test_ids_beyond_int32_are_refused() -> None:
    with pytest.raises(dglite.DGLError, match="int32"):
        dglite.graph((ids(0), ids(2**31 + 1)), idtype=torch.int32)
    g = dglite.graph((ids(0), ids(1)), num_nodes=2**31 + 5)
    with pytest.raises(dglite.DGLError, match="int32"):
        g.int()


@report("dmlc/dgl#4239", "lists and tensors without ids, of any dtype, make a graph without edges")
def test_no_ids_of_any_dtype() -> None:
    for none in ([], torch.tensor([]), torch.tensor([], dtype=torch.int32), np.array([])):
        g = dglite.heterograph({("a", "r", "b"): (none, none)}, num_nodes_dict={"a": 2, "b": 1})
        assert g.num_edges("r") == 0 and g.num_nodes("a") == 2


@report("dmlc/dgl#3866", "a graph with int32 ids took no int64 seeds of its own loader", also="dmlc/dgl#3878")
def test_loader_of_a_graph_with_int32_ids() -> None:
    g = dglite.heterograph({("u", "r", "v"): ([0, 1, 2], [0, 0, 1]), ("v", "s", "u"): ([0, 1], [0, 2])}).int()
    seeds = {"v": ids(0, 1, dtype=torch.int32), "u": ids(2, dtype=torch.int32)}
    loader = dglite.dataloading.DataLoader(g, seeds, dglite.dataloading.NeighborSampler([5, 5]), batch_size=2)
    batches = list(loader)
    assert all(block.idtype == torch.int32 for *_, blocks in batches for block in blocks)
    seen = [(ntype, node) for _, output, _ in batches for ntype, nodes in output.items() for node in nodes.tolist()]
    assert sorted(seen) == [("u", 2), ("v", 0), ("v", 1)]


@report("dmlc/dgl#1467", "the dtype of ids stays that of the graph")
@pytest.mark.parametrize("idtype", IDTYPES)
def test_dtype_of_ids(idtype: torch.dtype) -> None:
    g = dglite.graph(([0, 1, 1], [1, 2, 2]), idtype=idtype)
    derived = [
        g.reverse(),
        dglite.to_simple(g),
        dglite.add_self_loop(g),
        dglite.batch([g, g]),
        g.subgraph([1, 2]),
        dglite.to_block(g),
        dglite.line_graph(g),
        dglite.compact_graphs(g),
    ]
    assert all(other.idtype == idtype and other.edges()[0].dtype == idtype for other in derived)


@report("dmlc/dgl#1081", "reversing a graph, also one read from a file, keeps each edge's features")
def test_features_of_reversed_edges(tmp_path: object) -> None:
    g = dglite.graph(([1, 0, 2], [0, 1, 0]))
    g.edata["e"] = torch.tensor([[0.0, 1, 0], [1, 1, 1], [1, 0, 1]])
    path = f"{tmp_path}/graph.bin"
    dglite.save_graphs(path, [g])
    (loaded,), _ = dglite.load_graphs(path)
    for graph in (g, loaded):
        backward = dglite.reverse(graph, copy_edata=True)
        again = dglite.reverse(backward, copy_edata=True)
        assert pairs(backward) == [(0, 1), (1, 0), (0, 2)] and pairs(again) == pairs(g)
        eids = backward.edge_ids([1, 0, 0], [0, 1, 2])
        assert backward.edata["e"][eids].tolist() == [[1, 1, 1], [0, 1, 0], [1, 0, 1]]


@report("dmlc/dgl#1615", "a list of pairs in which node 0 has no edge")
def test_graph_in_which_node_0_has_no_edge() -> None:
    g = dglite.graph([(1, 2), (2, 3)])
    assert g.num_nodes() == 4 and g.in_degrees().tolist() == [0, 0, 1, 1] and g.out_degrees().tolist() == [0, 1, 1, 0]


@report("dmlc/dgl#2600", "features of repeated edges are joined by their sum or mean", also="dmlc/dgl#2623")
@pytest.mark.parametrize(("aggregator", "expected"), [("sum", [5, 2]), ("mean", [2.5, 2])])
def test_features_of_repeated_edges(aggregator: str, expected: list[float]) -> None:
    g = dglite.graph(([0, 1, 0], [1, 2, 1]))
    g.edata["w"] = torch.tensor([1.0, 2.0, 4.0])
    simple, mapping = dglite.to_simple(
        g, return_counts="n", writeback_mapping=True, copy_edata=True, aggregator=aggregator
    )
    assert pairs(simple) == [(0, 1), (1, 2)] and simple.edata["n"].tolist() == [2, 1]
    assert simple.edata["w"].tolist() == expected and mapping.tolist() == [0, 1, 0]


@report("dmlc/dgl#1633", "edges ordered by source, then destination")
def test_edges_in_order_of_their_ends() -> None:
    g = dglite.graph(([0, 1, 0, 0, 2], [2, 2, 1, 1, 1]))
    src, dst, eids = g.edges(form="all", order="srcdst")
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (0, 1), (0, 2), (1, 2), (2, 1)]
    assert sorted(eids[:2].tolist()) == [2, 3] and eids[2:].tolist() == [0, 1, 4]
