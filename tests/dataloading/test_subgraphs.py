"""Samplers that give subgraphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    CapSampler,
    ClusterGCNSampler,
    DataLoader,
    NeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
)
from dglite.dataloading import subgraph_samplers as module
from tests.dataloading.graphs import plain, ring, shop


def check_induced(g, subgraph):
    """Assert that a subgraph has all edges between its nodes, and no others."""
    nodes = subgraph.ndata[dglite.NID]
    u, v = g.edges()
    inside = torch.isin(u, nodes) & torch.isin(v, nodes)
    assert sorted(subgraph.edata[dglite.EID].tolist()) == inside.nonzero().flatten().tolist()
    assert torch.equal(subgraph.ndata["x"], g.ndata["x"][nodes])


@pytest.mark.parametrize(("mode", "budget"), [("node", 6), ("edge", 4), ("walk", (2, 3))])
def test_saint(mode, budget):
    g = ring(40)
    sampler = SAINTSampler(mode, budget, prefetch_ndata=["x"], prefetch_edata=["e"])

    def drawn(num_workers):
        dglite.seed(2)
        return list(DataLoader(g, range(5), sampler, num_workers=num_workers))

    result = drawn(0)
    for subgraph in result:
        check_induced(g, subgraph)
        most = {"node": 6, "edge": 8, "walk": 8}[mode]
        assert 0 < subgraph.num_nodes() <= most and torch.is_tensor(subgraph.edge_frames[0]._columns["e"])
    assert plain(result) == plain(drawn(2))


def test_saint_draws_by_degree():
    g = dglite.graph(([0] * 98 + [1, 2], [1] * 98 + [2, 0]))
    dglite.seed(0)
    first = [SAINTSampler("node", 1).sample(g).ndata[dglite.NID].item() for _ in range(300)]
    assert 270 < first.count(0) < 300  # of 100 out-edges 98 are node 0's
    hub = dglite.graph(([0, 1, 2, 3, 3], [4, 4, 4, 4, 5]))  # 1/4 + 1 for edges 0 to 2, 1/4 + 1/2 and 1 + 1/2 for 3, 4
    sampler = SAINTSampler("edge", 1)
    drawn = [tuple(sampler.sample(hub).ndata[dglite.NID].tolist()) for _ in range(2000)]
    shares = [drawn.count(pair) / 2000 for pair in ((0, 4), (3, 4), (3, 5))]
    np.testing.assert_allclose(shares, np.array([1.25, 0.75, 1.5]) / 6, atol=0.04)


def test_saint_keeps_probabilities_for_the_graph_that_they_are_of():
    sampler, small, large = SAINTSampler("node", 50), ring(4), ring(40)
    assert sampler.sample(small).num_nodes() == 4 and sampler.sample(large).num_nodes() > 4
    assert sampler.sample(small).num_nodes() == 4


def test_shadow():
    g = ring(40)
    sampler = ShaDowKHopSampler([2, 1], prefetch_node_feats=["x"])
    for nodes, seeds, subgraph in DataLoader(g, range(10), sampler, batch_size=3, shuffle=True):
        assert torch.equal(nodes[: len(seeds)], seeds) and torch.equal(nodes, subgraph.ndata[dglite.NID])
        check_induced(g, subgraph)
    nodes, _, subgraph = ShaDowKHopSampler([-1]).sample(shop(), {"item": [1]})
    assert plain(nodes) == {"item": [1], "user": [0, 1]} and subgraph.num_edges("buys") == 2
    with pytest.raises(DGLError, match="hop 1"):
        DataLoader(g, [0], ShaDowKHopSampler([1, -3]))


def many_types():
    """Return a graph in which 40 users, 10 items and 2 shops lead to user 0."""
    zeros = torch.zeros
    return dglite.heterograph(
        {
            (ntype, "to", "user"): (torch.arange(count), zeros(count, dtype=torch.int64))
            for ntype, count in (("user", 40), ("item", 10), ("shop", 2))
        }
    )


@pytest.mark.parametrize("num_workers", [0, 2])
def test_capped(num_workers):
    g = ring(40, 6)
    sampler = CapSampler([4, 3], 5, False, prefetch_node_feats=["x"])
    loader = DataLoader(g, range(20), sampler, batch_size=4, shuffle=True, num_workers=num_workers)
    for nodes, seeds, subgraph in loader:
        assert torch.equal(nodes[:4], seeds) and torch.equal(nodes, subgraph.ndata[dglite.NID])
        assert 4 <= len(nodes) <= 4 + 2 * 5 and len(nodes.unique()) == len(nodes)
        check_induced(g, subgraph)
    nodes, _, subgraph = CapSampler([-1], 100, False).sample(g, torch.tensor([7]), [6])
    assert nodes.tolist() == [7, *range(6)] and 6 not in subgraph.edata[dglite.EID]


def test_each_type_has_its_share_of_a_hop():
    g = many_types()

    def drawn(*options):
        nodes, _, _ = CapSampler([-1], *options).sample(g, {"user": torch.tensor([0])})
        return [len(nodes["user"]), len(nodes["item"]), len(nodes["shop"])]

    dglite.seed(0)
    counts = torch.tensor([drawn(26, False) for _ in range(50)])
    assert (counts[:, 1:] == torch.tensor([5, 1])).all() and set(counts[:, 0].tolist()) == {20, 21}  # the seed itself
    rare = torch.tensor([drawn(26, True) for _ in range(50)]).double().mean(0)
    assert rare[1] > 7 and rare[2] == 2 and drawn(1000, False) == [40, 10, 2]


def test_a_hop_that_reaches_nothing():
    nodes, _, subgraph = CapSampler([2, 2], 3, True).sample(many_types(), {"shop": torch.tensor([1])})
    assert plain(nodes) == {"shop": [1]} and subgraph.num_edges() == 0
    for fanouts, k, match in (([], 3, "fanouts is empty"), ([1], 0, "fixed_k must be")):
        with pytest.raises(DGLError, match=match):
            CapSampler(fanouts, k, False)
    with pytest.raises(DGLError, match="hop 0"):
        DataLoader(ring(), [0], CapSampler([-2], 3, False))


def test_cluster_gcn(tmp_path, monkeypatch):
    g, path = ring(12), tmp_path / "parts"
    monkeypatch.setattr(
        module, "metis_partition_assignment", lambda g, k, *_: torch.arange(g.num_nodes()) * k // g.num_nodes()
    )
    sampler = ClusterGCNSampler(g, 4, path, prefetch_ndata=["x"])
    assert sampler.partition_offset.tolist() == [0, 3, 6, 9, 12] and len(sampler.partition_node_ids) == 12
    seen = []
    for subgraph in DataLoader(g, torch.arange(4), sampler, batch_size=2, shuffle=True):
        check_induced(g, subgraph)
        seen += subgraph.ndata[dglite.NID].tolist()
    assert sorted(seen) == list(range(12))
    monkeypatch.setattr(module, "metis_partition_assignment", None)
    again = ClusterGCNSampler(g, 4, path)
    assert plain(again.sample(g, [1, 2])) == plain(sampler.sample(g, [1, 2]))
    for graph, k, match in ((g, 3, "has 4 parts"), (ring(10), 4, "of 12 nodes")):
        with pytest.raises(DGLError, match=match):
            ClusterGCNSampler(graph, k, path)
    with pytest.raises(DGLError, match="4"):
        DataLoader(g, range(5), sampler)
    for content in (b"", b"no parts"):
        path.write_bytes(content)
        with pytest.raises(DGLError, match="not a file of parts"):
            ClusterGCNSampler(g, 4, path)


def test_what_does_not_fit():
    for mode, budget, match in (
        ("nodes", 3, "'node', 'edge' or 'walk'"),
        ("walk", 3, "a pair"),
        ("node", 0, "above 0"),
    ):
        with pytest.raises(DGLError, match=match):
            SAINTSampler(mode, budget)
    with pytest.raises(DGLError, match="to_homogeneous"):
        SAINTSampler("node", 3).sample(shop())
    with pytest.raises(DGLError, match="no nodes to draw"):
        SAINTSampler("node", 3).sample(dglite.graph(([], [])))
    with pytest.raises(DGLError, match="no nodes to walk from"):
        SAINTSampler("walk", (3, 3)).sample(dglite.graph(([], [])))
    assert NeighborSampler([1]).output_device is None
