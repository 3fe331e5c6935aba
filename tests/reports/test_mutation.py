"""Reports of graphs that are changed: nodes and edges added or removed, edges reversed, self-loops."""

from __future__ import annotations

import pytest
import torch

import dglite
import dglite.function as fn
from tests.reports.cases import ids, pairs, report


@report("dmlc/dgl#2528", "adding nodes or edges with data to a type without any erased the other columns")
def test_new_rows_of_an_empty_type() -> None:
    g = dglite.graph(([], []))
    g.ndata["x"], g.ndata["y"] = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    g.edata["w"], g.edata["v"] = torch.zeros(0, 2), torch.zeros(0)
    g.add_nodes(1, {"y": ids(7)})
    g.add_edges([0], [0], {"v": torch.tensor([3.0])})
    assert {name: g.ndata[name].tolist() for name in g.ndata} == {"x": [0.0], "y": [7]}
    assert {name: g.edata[name].tolist() for name in g.edata} == {"w": [[0.0, 0.0]], "v": [3.0]}


@report("dmlc/dgl#1476", "adding no edges failed")
@pytest.mark.parametrize("nothing", [[], torch.tensor([], dtype=torch.int64)], ids=["list", "tensor"])
def test_adding_no_edges(nothing: object) -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.edata["w"] = torch.tensor([5.0, 6.0])
    g.add_edges(nothing, nothing)
    assert pairs(g) == [(0, 1), (1, 2)] and g.num_nodes() == 3 and g.edata["w"].tolist() == [5.0, 6.0]


@report("dmlc/dgl#2764", "remove_nodes changed the order of the edges that stayed")
def test_removing_nodes_keeps_the_order_of_edges() -> None:
    g = dglite.graph(([3, 0, 2, 3, 1], [0, 3, 3, 1, 2]))
    g.edata["old"] = torch.arange(5)
    g.remove_nodes([1])
    assert g.edata["old"].tolist() == [0, 1, 2]
    assert pairs(g) == [(2, 0), (0, 2), (1, 2)]


@report("dmlc/dgl#4789", "ids stored by a second removal: they are those before it", also="dmlc/dgl#7930")
def test_ids_of_two_removals() -> None:
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 4]))
    g.remove_nodes([0], store_ids=True)
    assert g.ndata[dglite.NID].tolist() == [1, 2, 3, 4] and g.edata[dglite.EID].tolist() == [1, 2, 3]
    g.remove_nodes([0], store_ids=True)
    assert g.ndata[dglite.NID].tolist() == [1, 2, 3] and g.edata[dglite.EID].tolist() == [1, 2]


@report("dmlc/dgl#1287", "node features could not be set after edges were removed")
def test_features_after_removing_edges() -> None:
    g = dglite.graph(([0, 2, 3, 1, 1], [1, 0, 3, 1, 0]), num_nodes=5)
    g.edata["h"] = torch.arange(15.0).view(5, 3)
    g.remove_edges([0, 1])
    g.ndata["x"] = torch.ones(5, 6)
    assert pairs(g) == [(3, 3), (1, 1), (1, 0)] and g.ndata["x"].shape == (5, 6)
    assert torch.equal(g.edata["h"], torch.arange(6.0, 15.0).view(3, 3))


@report("dmlc/dgl#1384", "removing no edges crashed")
def test_removing_nothing() -> None:
    g = dglite.graph(([0, 1], [1, 0]))
    g.remove_edges(torch.tensor([], dtype=torch.int64))
    g.remove_nodes(torch.tensor([], dtype=torch.int64))
    assert pairs(g) == [(0, 1), (1, 0)] and g.num_nodes() == 2


@report("dmlc/dgl#1978", "ids of edges follow the order in which they were added")
def test_edge_ids_follow_additions() -> None:
    g = dglite.graph(([], []), num_nodes=10)
    g.add_edges([0] * 5, [0, 1, 2, 3, 4])
    g.add_edges([0] * 5, [9, 8, 7, 6, 5])
    assert [tensor.tolist() for tensor in g.find_edges([8, 0])] == [[0, 0], [6, 0]]


@report("dmlc/dgl#1960", "add_reverse_edges crashed where nodes have no edges")
def test_reverse_edges_beside_isolated_nodes() -> None:
    g = dglite.graph(([0, 1, 3, 1], [1, 2, 0, 2]), num_nodes=6)
    g.ndata["h"], g.edata["h"] = torch.arange(6.0), torch.tensor([3.0, 4.0, 5.0, 6.0])
    both = dglite.add_reverse_edges(g, copy_ndata=True, copy_edata=True)
    assert pairs(both) == [(0, 1), (1, 2), (3, 0), (1, 2), (1, 0), (2, 1), (0, 3), (2, 1)]
    assert both.num_nodes() == 6 and both.ndata["h"].tolist() == [0, 1, 2, 3, 4, 5]
    assert both.edata["h"].tolist() == [3, 4, 5, 6] * 2


@report("dmlc/dgl#3630", "to_bidirected refused multigraphs")
def test_bidirected_multigraph() -> None:
    g = dglite.graph(([0, 0, 2, 2, 1, 0], [1, 1, 2, 2, 0, 2]))
    both = dglite.to_bidirected(g)
    assert sorted(pairs(both)) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 2)]


@report("pyg-team/pytorch_geometric#3265", "both directions of graphs with 2 edges, or as many edges as nodes")
@pytest.mark.parametrize("num_edges", [2, 5])
def test_both_directions_of_small_graphs(num_edges: int) -> None:
    src = torch.arange(num_edges)
    g = dglite.graph((src, (src + 1) % 5), num_nodes=5)
    g.ndata["x"] = torch.tensor([1.0, 3.0, 5.0, 7.0, 9.0])
    both = dglite.to_bidirected(g, copy_ndata=True)
    assert set(pairs(both)) == set(pairs(g)) | {(v, u) for u, v in pairs(g)} and both.num_edges() == 2 * num_edges
    assert both.ndata["x"].tolist() == [1, 3, 5, 7, 9]


@report("dmlc/dgl#2223", "apply_nodes failed where the new feature has another size")
def test_applied_features_may_change_their_size() -> None:
    g = dglite.graph(([0], [1]))
    g.ndata["h"] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    g.apply_nodes(lambda nodes: {"h": torch.cat([nodes.data["h"], nodes.data["h"]], 1)})
    assert g.ndata["h"].tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]]


@report("dmlc/dgl#4653", "changing a graph in local_scope damaged the graph outside")
def test_mutation_in_a_local_scope_is_undone() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"], g.edata["w"] = torch.arange(3.0), torch.tensor([1.0, 2.0])
    with g.local_scope():
        g.add_nodes(2)
        g.add_edges([3], [4])
        g.remove_edges([0])
        g.ndata["h"] = torch.zeros(5)
    assert pairs(g) == [(0, 1), (1, 2)] and g.num_nodes() == 3
    assert g.ndata["h"].tolist() == [0, 1, 2] and g.edata["w"].tolist() == [1, 2]
    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
    assert g.ndata["h"].tolist() == [0, 0, 2]


@report("dmlc/dgl#4261", "features of new self-loops: a number, and reductions of the in-edges")
@pytest.mark.parametrize(
    ("fill", "expected"),
    [(9.0, [9, 9, 9]), ("sum", [0, 1, 5]), ("mean", [0, 1, 2.5]), ("max", [0, 1, 3]), ("min", [0, 1, 2])],
)
def test_features_of_self_loops(fill: object, expected: list[float]) -> None:
    g = dglite.graph(([0, 0, 1], [1, 2, 2]))
    g.edata["w"] = torch.tensor([1.0, 2.0, 3.0])
    looped = dglite.add_self_loop(g, fill_data=fill)
    assert pairs(looped) == [(0, 1), (0, 2), (1, 2), (0, 0), (1, 1), (2, 2)]
    assert looped.edata["w"].tolist() == [1, 2, 3, *expected]


@report("dmlc/dgl#482", "nodes with a self-loop got a second one in normalised layers")
def test_one_self_loop_per_node() -> None:
    g = dglite.graph(([0, 0, 1, 0], [0, 1, 1, 0]))
    looped = dglite.add_self_loop(dglite.remove_self_loop(g))
    assert pairs(looped) == [(0, 1), (0, 0), (1, 1)]


@report("dmlc/dgl#1427", "edges of khop_graph pointed backwards")
def test_direction_of_two_hops() -> None:
    assert pairs(dglite.khop_graph(dglite.graph(([0, 1], [1, 2])), 2)) == [(0, 2)]


@report("dmlc/dgl#2174", "a line graph that shares features did not see changes in place")
def test_line_graph_shares_features() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    g.edata["h"] = torch.tensor([1.0, 2.0, 3.0])
    line = dglite.line_graph(g, shared=True)
    assert pairs(line) == [(0, 1), (1, 2), (2, 0)]
    g.edata["h"][1] = 20
    assert line.ndata["h"].tolist() == [1, 20, 3]


@report("dmlc/dgl#1743", "changing a feature in place changed the graph it was copied from", also="dmlc/dgl#1475")
def test_batches_of_one_are_copies() -> None:
    g = dglite.graph(([0], [1]))
    g.ndata["h"] = torch.tensor([1.0, 2.0])
    batched = dglite.batch([g])
    batched.ndata["h"][0] = 100
    batched.ndata["new"] = torch.zeros(2)
    (part,) = dglite.unbatch(batched)
    part.ndata["h"] += 1
    assert g.ndata["h"].tolist() == [1, 2] and list(g.ndata) == ["h"]


@report("dmlc/dgl#1118", "heterogeneous graphs can be changed, one type at a time")
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_mutation_of_one_type(idtype: torch.dtype) -> None:
    g = dglite.heterograph({("u", "r", "v"): ([0, 1, 2], [0, 1, 0]), ("v", "s", "v"): ([0, 1], [1, 0])}, idtype=idtype)
    g.nodes["v"].data["h"], g.edges["r"].data["w"] = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 5.0, 6.0])
    g.add_nodes(1, ntype="v")
    g.add_edges([0], [2], etype="r")
    g.remove_nodes([1], ntype="u")
    assert pairs(g, "r") == [(0, 0), (1, 0), (0, 2)] and pairs(g, "s") == [(0, 1), (1, 0)]
    assert g.idtype == idtype and g.num_nodes("u") == 2
    assert g.nodes["v"].data["h"].tolist() == [1, 2, 0] and g.edges["r"].data["w"].tolist() == [4, 6, 0]


@report("dmlc/dgl#1190", "fewer nodes than the edges name")
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_too_few_nodes_are_refused(idtype: torch.dtype) -> None:
    with pytest.raises(dglite.DGLError, match=r"num_nodes.*3|3.*num_nodes"):
        dglite.graph(([0, 5], [1, 2]), num_nodes=3, idtype=idtype)
