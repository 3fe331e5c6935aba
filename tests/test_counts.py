"""What is no count and no id is refused by name, at every door, and nothing has changed after it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError, DGLGraph, sampling, sparse
from dglite import function as fn
from dglite.contrib.sampling import NeighborSampler
from dglite.data.utils import idx2mask
from dglite.io import load_graphs, save_graphs
from dglite.structure.ids import LARGEST_COUNT, count_of, number_of

BAD: dict[str, Any] = {
    "a fraction": 2.5,
    "a whole float": 2.0,
    "nan": math.nan,
    "infinity": math.inf,
    "a text": "2",
    "a dictionary": {"a": 1},
    "an object": object(),
    "a tensor of a fraction": torch.tensor(0.5),
    "NumPy's fraction": np.float32(1.5),
    "an enormous number": 10**30,
}
BAD_COUNTS = BAD | {"truth": True, "a negative number": -2, "a list": [2], "a tensor": torch.tensor([1, 2])}
BAD_IDS = BAD | {"a list of fractions": [0.5], "a negative id": -1, "an id too large": 99, "a mask too short": [True]}


def graph() -> DGLGraph:
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 0]), num_nodes=5)
    g.ndata["x"], g.edata["x"] = torch.arange(5.0), torch.arange(4.0)
    return g


def three() -> DGLGraph:
    return dglite.batch([graph(), graph(), graph()])


def both_ways() -> DGLGraph:
    return dglite.heterograph({("a", "ab", "b"): ([0, 1], [0, 1]), ("b", "ba", "a"): ([0, 1], [1, 0])})


def walker(g: DGLGraph, **counts: Any) -> DGLGraph:
    given = {"num_traversals": 2, "termination_prob": 0.5, "num_random_walks": 3, "num_neighbors": 2} | counts
    return sampling.PinSAGESampler(g, "a", "b", **given)([0, 1])


HALVES, POINTS = [0, 0, 0, 1, 1], torch.rand(5, 2)
ENTRY = sparse.spmatrix(torch.tensor([[0], [1]]), shape=(3, 3))

COUNTS: dict[str, Callable[[Any], Any]] = {
    "graph(num_nodes)": lambda n: dglite.graph(([0], [1]), num_nodes=n),
    "heterograph(num_nodes_dict)": lambda n: dglite.heterograph({("a", "x", "b"): ([0], [1])}, {"a": n, "b": 5}),
    "create_block(num_src_nodes)": lambda n: dglite.create_block({("a", "x", "b"): ([0], [1])}, {"a": n}, {"b": 2}),
    "create_block(num_dst_nodes)": lambda n: dglite.create_block({("a", "x", "b"): ([0], [1])}, {"a": 2}, {"b": n}),
    "rand_graph(num_nodes)": lambda n: dglite.rand_graph(n, 3),
    "rand_graph(num_edges)": lambda n: dglite.rand_graph(4, n),
    "rand_bipartite(num_src_nodes)": lambda n: dglite.rand_bipartite("a", "x", "b", n, 3, 2),
    "rand_bipartite(num_dst_nodes)": lambda n: dglite.rand_bipartite("a", "x", "b", 3, n, 2),
    "rand_bipartite(num_edges)": lambda n: dglite.rand_bipartite("a", "x", "b", 3, 3, n),
    "rand_power_law_graph(num_nodes)": lambda n: dglite.rand_power_law_graph(n, 4),
    "rand_power_law_graph(num_edges)": lambda n: dglite.rand_power_law_graph(4, n),
    "rand_power_law_graph(num_communities)": lambda n: dglite.rand_power_law_graph(4, 4, num_communities=n),
    "add_nodes": lambda n: dglite.add_nodes(graph(), n),
    "slice_batch": lambda n: refuse() if n is BAD_COUNTS["a negative number"] else dglite.slice_batch(three(), n),
    "sample_neighbors": lambda n: sampling.sample_neighbors(graph(), [0, 1], n),
    "sample_labors": lambda n: sampling.sample_labors(graph(), [0, 1], n),
    "select_topk": lambda n: sampling.select_topk(graph(), n, "x"),
    "random_walk(length)": lambda n: sampling.random_walk(graph(), [0], length=n),
    "node2vec_random_walk": lambda n: sampling.node2vec_random_walk(graph(), [0], 1, 1, n),
    "global_uniform_negative_sampling": lambda n: sampling.global_uniform_negative_sampling(graph(), n),
    "PinSAGESampler(num_traversals)": lambda n: walker(both_ways(), num_traversals=n),
    "PinSAGESampler(num_random_walks)": lambda n: walker(both_ways(), num_random_walks=n),
    "PinSAGESampler(num_neighbors)": lambda n: walker(both_ways(), num_neighbors=n),
    "NeighborSampler(batch_size)": lambda n: NeighborSampler(graph(), n),
    "NeighborSampler(expand_factor)": lambda n: NeighborSampler(graph(), 2, n),
    "NeighborSampler(num_hops)": lambda n: NeighborSampler(graph(), 2, 2, n),
    "knn_graph": lambda n: dglite.knn_graph(POINTS, n),
    "segmented_knn_graph": lambda n: dglite.segmented_knn_graph(POINTS, n, [2, 3]),
    "khop_in_subgraph": lambda n: dglite.khop_in_subgraph(graph(), 0, n),
    "khop_out_subgraph": lambda n: dglite.khop_out_subgraph(graph(), 0, n),
    "khop_graph": lambda n: dglite.khop_graph(graph(), n),
    "khop_adj": lambda n: dglite.khop_adj(graph(), n),
    "partition_graph_with_halo": lambda n: dglite.partition_graph_with_halo(graph(), HALVES, n),
    "topk_nodes": lambda n: dglite.topk_nodes(graph(), "x", n),
    "topk_edges": lambda n: dglite.topk_edges(graph(), "x", n),
    "random_walk_pe": lambda n: dglite.random_walk_pe(graph(), n),
    "lap_pe": lambda n: dglite.lap_pe(graph(), n),
    "svd_pe": lambda n: dglite.svd_pe(graph(), n),
    "sparse.identity": lambda n: sparse.identity((n, n)),
    "sparse.identity(d)": lambda n: sparse.identity((2, 2), d=n),
    "sparse.sample": lambda n: ENTRY.sample(0, n),
    "idx2mask": lambda n: idx2mask([0, 1], n),
}


def refuse() -> None:
    raise DGLError("counted from the end")


@pytest.mark.filterwarnings("ignore:contrib.sampling")
def taken(bad: dict[str, Any], call: Callable[[Any], Any], message: str = "") -> list[str]:
    """Return which values ``call`` does not refuse, or refuses with another message."""
    results = []
    for kind, value in bad.items():
        try:
            call(value)
        except DGLError as error:
            if re.search(message, str(error)):
                continue
        results.append(kind)
    return results


@pytest.mark.parametrize("door", COUNTS)
def test_what_is_no_count_is_refused(door: str) -> None:
    assert not taken(BAD_COUNTS, COUNTS[door], r"got|from the end|edge type 'a' does not exist")


@pytest.mark.filterwarnings("ignore:contrib.sampling")
@pytest.mark.parametrize("door", COUNTS)
def test_counts_are_integers_of_any_library(door: str) -> None:
    results = [COUNTS[door](two) for two in (2, np.int32(2), torch.tensor(2))]
    sizes = [(type(x), x.num_nodes() if isinstance(x, DGLGraph) else None) for x in results]
    assert sizes == sizes[:1] * 3


copied, summed = fn.copy_e("x", "m"), fn.sum("m", "h")
IDS: dict[str, Callable[[DGLGraph, Any], Any]] = {
    "in_degrees": lambda g, i: g.in_degrees(i),
    "out_degrees": lambda g, i: g.out_degrees(i),
    "predecessors": lambda g, i: g.predecessors(i),
    "successors": lambda g, i: g.successors(i),
    "has_edges_between": lambda g, i: g.has_edges_between(i, 1),
    "edge_ids": lambda g, i: g.edge_ids(i, 1),
    "find_edges": lambda g, i: g.find_edges(i),
    "in_edges": lambda g, i: g.in_edges(i),
    "out_edges": lambda g, i: g.out_edges(i),
    "remove_nodes": lambda g, i: g.remove_nodes(i),
    "remove_edges": lambda g, i: g.remove_edges(i),
    "add_edges": lambda g, i: g.add_edges(i, 1) if not (type(i) is int and i == 99) else refuse(),
    "node_subgraph": lambda g, i: dglite.node_subgraph(g, i),
    "edge_subgraph": lambda g, i: dglite.edge_subgraph(g, i),
    "in_subgraph": lambda g, i: dglite.in_subgraph(g, i),
    "out_subgraph": lambda g, i: dglite.out_subgraph(g, i),
    "khop_in_subgraph": lambda g, i: dglite.khop_in_subgraph(g, i, 1),
    "to_block": lambda g, i: dglite.to_block(g, i),
    "compact_graphs": lambda g, i: dglite.compact_graphs(g, i),
    "sample_neighbors": lambda g, i: sampling.sample_neighbors(g, i, 2),
    "random_walk": lambda g, i: sampling.random_walk(g, i, length=2),
    "bfs_nodes_generator": lambda g, i: list(dglite.bfs_nodes_generator(g, i)),
    "shortest_dist": lambda g, i: dglite.shortest_dist(g, i),
    "pull": lambda g, i: g.pull(i, copied, summed),
    "push": lambda g, i: g.push(i, copied, summed),
    "send_and_recv": lambda g, i: g.send_and_recv(i, copied, summed),
    "apply_nodes": lambda g, i: g.apply_nodes(lambda nodes: {"z": nodes.data["x"]}, i),
    "apply_edges": lambda g, i: g.apply_edges(lambda edges: {"z": edges.data["x"]}, i),
    "nodes[...]": lambda g, i: g.nodes[i].data["x"],
    "edges[...]": lambda g, i: g.edges[i].data["x"],
}


@pytest.mark.parametrize("door", IDS)
def test_what_is_no_id_is_refused(door: str) -> None:
    g = graph()
    assert not taken(BAD_IDS, lambda value: IDS[door](g, value))
    assert (g.num_nodes(), g.num_edges(), set(g.ndata), set(g.edata)) == (5, 4, {"x"}, {"x"})
    assert torch.equal(g.ndata["x"], torch.arange(5.0)) and torch.equal(g.edata["x"], torch.arange(4.0))


def test_graphs_that_cannot_be_added_to_stay_as_they_were() -> None:
    g = graph()
    assert not taken(BAD_COUNTS, g.add_nodes, "number of nodes to add")
    assert g.num_nodes() == 5 and g.ndata["x"].shape == (5,)


def test_graphs_of_a_file_are_asked_for_by_number(tmp_path: Path) -> None:
    save_graphs(tmp_path / "g", [graph(), graph()])
    for bad in (np.array([1.5]), [0.5], [True], 1.0, ["1"], [2], [-1], {"a": 1}, [None]):
        with pytest.raises(DGLError):
            load_graphs(tmp_path / "g", bad)
    for good in ([1], (np.int32(1),), torch.tensor([1]), 1, range(1, 2)):
        assert len(load_graphs(tmp_path / "g", good)[0]) == 1


def test_one_node_is_asked_for_by_in() -> None:
    g = graph()
    assert 4 in g and 5 not in g and -1 not in g and torch.tensor(4) in g
    for bad in (0.5, "0", [1, 2], None):
        with pytest.raises(DGLError):
            bad in g  # noqa: B015


def test_types_that_have_no_hash_do_not_exist() -> None:
    g = graph()
    for ask in (g.num_nodes, g.num_edges, g.get_etype_id, g.in_degrees, g.num_src_nodes):
        with pytest.raises(DGLError):
            ask({})


def test_nodes_whose_number_64_bits_do_not_hold() -> None:
    for ids in ([2**62], [2**48]):
        with pytest.raises(DGLError, match="2\\*\\*48"):
            dglite.graph((ids, [0]))
        with pytest.raises(DGLError, match="2\\*\\*48"):
            graph().add_edges(ids, 0)


def test_enormous_hop_counts_end_where_nothing_is_left_to_find() -> None:
    g, hops = graph(), 10**12
    assert dglite.partition_graph_with_halo(g, HALVES, hops)[0][0].num_nodes() == 4
    assert dglite.khop_in_subgraph(g, 0, hops)[0].num_nodes() == 4
    assert dglite.khop_graph(g, hops).num_edges() == 4  # a circle, walked round
    with pytest.raises(DGLError, match="paths of length 100, too many"):
        dglite.khop_graph(dglite.graph(([0, 0, 1, 1], [0, 1, 0, 1])), 100)
    assert walker(both_ways(), num_neighbors=10**12).num_edges() <= 4
    for walk in (
        lambda: sampling.random_walk(g, [0], length=10**12),
        lambda: walker(both_ways(), num_traversals=10**12),
    ):
        with pytest.raises(DGLError, match=r"steps are too long|lower num_random_walks"):
            walk()
    with pytest.raises(DGLError, match="part 1000000000 is given"):
        dglite.partition_graph_with_halo(g, [0, 0, 0, 0, 10**9], 1)


def test_the_helpers_name_what_came() -> None:
    with pytest.raises(DGLError, match=r"k must be an integer >= 1 \(or so\), got 0\.5"):
        count_of(0.5, "k", 1, remark=" (or so)")
    with pytest.raises(DGLError, match=f"n must be at most {LARGEST_COUNT}, got"):
        count_of(LARGEST_COUNT + 1, "n")
    assert number_of(np.float32(0.5), "p", 0, 1) == 0.5
    for bad in (math.nan, "x", None, [1, 2], 1.5):
        with pytest.raises(DGLError, match="p must be a number from 0 to 1, got"):
            number_of(bad, "p", 0, 1)
