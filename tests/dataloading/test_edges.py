"""Batches of edges: their graphs, what is left out of the blocks, negative pairs."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    DataLoader,
    EdgeDataLoader,
    NeighborSampler,
    Sampler,
    ShaDowKHopSampler,
    SpotTarget,
    as_edge_prediction_sampler,
    find_exclude_eids,
    negative_sampler,
)
from tests.dataloading.graphs import ring, shop


def two_ways():
    """Return a graph of 30 edges and, after them, their reverses, and the id of each edge's reverse."""
    g = ring(10)
    u, v = g.edges()
    return dglite.graph((torch.cat([u, v]), torch.cat([v, u]))), torch.cat([torch.arange(30, 60), torch.arange(30)])


def edges_of(block):
    return set(block.edata[dglite.EID].tolist())


@pytest.mark.parametrize("exclude", [None, "self", "reverse_id"])
@pytest.mark.parametrize("replace", [False, True])
def test_excluded_edges_never_appear(exclude, replace):
    g, reverse = two_ways()
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1 if not replace else 20, -1 if not replace else 20], replace=replace), exclude, reverse
    )
    for inputs, pairs, blocks in DataLoader(g, torch.arange(20), sampler, batch_size=4, shuffle=True, num_workers=2):
        seeds = pairs.edata[dglite.EID]
        hidden = {None: [], "self": seeds, "reverse_id": torch.cat([seeds, reverse[seeds]])}[exclude]
        seen = set().union(*map(edges_of, blocks))
        assert not seen & {int(edge) for edge in hidden}
        assert torch.equal(inputs, blocks[0].srcdata[dglite.NID])
        assert torch.equal(pairs.ndata[dglite.NID], blocks[-1].dstdata[dglite.NID])
        ends = [pairs.ndata[dglite.NID][end].tolist() for end in pairs.edges()]
        assert ends == [end.tolist() for end in g.find_edges(seeds)]
        if exclude is None and not replace:
            assert set(seeds.tolist()) <= seen


def test_reverse_types_and_several_types_of_seeds():
    g = shop()
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, -1]),
        exclude="reverse_types",
        reverse_etypes={"buys": "bought", "bought": "buys"},
        negative_sampler=negative_sampler.Uniform(2),
    )
    for inputs, pairs, negative, blocks in DataLoader(g, {"buys": [0, 1, 2], "follows": [3]}, sampler, batch_size=2):
        assert set(inputs) == {"user", "item"} and pairs.ntypes == negative.ntypes == g.ntypes
        seeds = {etype: pairs.edges[etype].data[dglite.EID].tolist() for etype in ("buys", "follows")}
        assert negative.num_edges("buys") == 2 * len(seeds["buys"]) and negative.num_edges("bought") == 0
        for ntype in g.ntypes:
            assert torch.equal(pairs.nodes[ntype].data[dglite.NID], negative.nodes[ntype].data[dglite.NID])
        for block in blocks:
            for etype, hidden in (("buys", "buys"), ("bought", "buys"), ("follows", "follows")):
                assert not set(block.edges[etype].data[dglite.EID].tolist()) & set(seeds[hidden])


def test_what_to_exclude():
    g, reverse = two_ways()
    seeds = torch.tensor([3, 1])
    assert find_exclude_eids(g, seeds, None) is None
    assert find_exclude_eids(g, seeds, "self").tolist() == [3, 1]
    assert find_exclude_eids(g, seeds, "reverse_id", reverse).tolist() == [3, 1, 33, 31]
    assert find_exclude_eids(g, seeds, lambda edges: edges + 1).tolist() == [4, 2]
    assert find_exclude_eids(g, seeds, torch.tensor([7])).tolist() == [7]
    h = shop()
    by_type = find_exclude_eids(h, {"buys": seeds}, "reverse_types", reverse_etypes={"buys": "bought"})
    assert {etype[1]: ids.tolist() for etype, ids in by_type.items()} == {"buys": [1, 3], "bought": [1, 3]}
    by_type = find_exclude_eids(h, {"buys": seeds}, "reverse_id", {"buys": torch.arange(6).flip(0)})
    assert by_type["user", "buys", "item"].tolist() == [3, 1, 2, 4]
    for exclude, options, match in (
        ("reverse_id", {}, "needs reverse_eids"),
        ("reverse_types", {}, "needs reverse_etypes"),
        ("reverse_id", {"reverse_eids": reverse[:2]}, "none for edge 3"),
    ):
        with pytest.raises(DGLError, match=match):
            find_exclude_eids(g, seeds, exclude, **options)
    with pytest.raises(DGLError, match="lacks edge types"):
        find_exclude_eids(h, {"buys": seeds}, "reverse_id", {"bought": reverse})
    with pytest.raises(ValueError, match="'reverse' is not understood"):
        find_exclude_eids(g, seeds, "reverse")


def test_spot_target_excludes_edges_at_nodes_of_low_degree():
    g = dglite.graph(([0, 1, 2, 3, 0], [3, 3, 3, 0, 1]))  # in-degrees 1, 1, 0, 3
    excluder = SpotTarget(g, "self", degree_threshold=2)
    assert excluder(torch.tensor([0, 3])).tolist() == [0, 3]
    assert SpotTarget(g, "self", degree_threshold=1)(torch.arange(5)).tolist() == [2]
    assert SpotTarget(g, "self", degree_threshold=0)(torch.arange(5)).tolist() == []


def test_negative_samplers():
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
    u, v = negative_sampler.PerSourceUniform(3)(g, torch.tensor([2, 0]))
    assert u.tolist() == [2, 2, 2, 0, 0, 0] and len(v) == 6 and set(v.tolist()) <= {0, 1, 2, 3}
    u, v = negative_sampler.GlobalUniform(2)(g, torch.tensor([2, 0]))
    assert len(u) == 4 and not g.has_edges_between(u, v).any() and (u != v).all()
    by_type = negative_sampler.Uniform(1)(shop(), {"buys": [0, 4]})
    assert by_type["user", "buys", "item"][0].tolist() == [0, 3]
    with pytest.raises(DGLError, match="dictionary by edge type"):
        negative_sampler.Uniform(1)(shop(), [0])
    with pytest.raises(DGLError, match=">= 0; got -1"):
        negative_sampler.Uniform(-1)


class ByDegree(negative_sampler._BaseNegativeSampler):
    """Draws destinations by in-degree, which it looked up by canonical edge type."""

    def __init__(self, g: dglite.DGLGraph) -> None:
        self.weights = {etype: g.in_degrees(etype=etype).float() for etype in g.canonical_etypes}

    def _generate(self, g, eids, canonical_etype):
        src, _ = g.find_edges(eids, etype=canonical_etype)
        return src, self.weights[canonical_etype].multinomial(len(src), replacement=True)


def test_a_sampler_of_ones_own_is_given_canonical_types():
    g = shop()
    pairs = ByDegree(g)(g, {"buys": [0, 4]})
    assert list(pairs) == [g.to_canonical_etype("buys")]
    assert pairs[g.to_canonical_etype("buys")][0].tolist() == g.find_edges([0, 4], etype="buys")[0].tolist()


def test_a_negative_sampler_of_ones_own():
    def next_node(g, edges):
        u, _ = g.find_edges(edges)
        return u, (u + 5) % g.num_nodes()

    g = ring()
    sampler = as_edge_prediction_sampler(NeighborSampler([1]), negative_sampler=next_node, prefetch_labels=["w"])
    (_, pairs, negative, _) = next(iter(DataLoader(g, [4, 7], sampler, batch_size=2)))
    ids = negative.ndata[dglite.NID]
    assert [ids[end].tolist() for end in negative.edges()] == [[4, 7], [9, 0]] and pairs.edata["w"].tolist() == [1, 1]
    wrong = as_edge_prediction_sampler(NeighborSampler([1]), negative_sampler=lambda g, edges: ([0], [0]))
    with pytest.raises(DGLError, match="return a dictionary by edge type"):
        list(DataLoader(shop(), {"buys": [0]}, wrong))


def test_subgraphs_for_edges_leave_them_out():
    g, reverse = two_ways()
    sampler = as_edge_prediction_sampler(ShaDowKHopSampler([-1]), "reverse_id", reverse)
    for _, pairs, subgraph in DataLoader(g, torch.arange(6), sampler, batch_size=2):
        seeds = pairs.edata[dglite.EID]
        assert not edges_of(subgraph) & {*seeds.tolist(), *reverse[seeds].tolist()} and subgraph.num_edges()


def test_seeds_and_samplers_that_do_not_fit():
    class OfNodes(Sampler):
        def sample(self, g, indices):
            return indices

    with pytest.raises(TypeError, match=r"OfNodes\.sample\(g, indices\) takes no edges to leave out"):
        as_edge_prediction_sampler(OfNodes())
    sampler = as_edge_prediction_sampler(NeighborSampler([1]))
    with pytest.raises(DGLError, match="99"):
        DataLoader(ring(), [99], sampler)
    with pytest.raises(DGLError, match="dictionary by edge type"):
        DataLoader(shop(), [0], sampler)


def test_blocks_of_another_graph():
    g, _ = two_ways()
    train = dglite.edge_subgraph(g, torch.arange(30), relabel_nodes=False)
    with pytest.warns(DeprecationWarning, match="EdgeDataLoader"):
        loader = EdgeDataLoader(g, torch.arange(30, 40), NeighborSampler([-1]), g_sampling=train, batch_size=5)
    for _, pairs, blocks in loader:
        assert pairs.edata[dglite.EID].min() >= 30 and max(edges_of(blocks[0])) < 30
