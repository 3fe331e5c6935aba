"""Samplers of blocks: what a block is, what is drawn, what is gathered with it."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    BlockSampler,
    CapSampler,
    DataLoader,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    Sampler,
    ShaDowKHopSampler,
)
from tests.dataloading.graphs import check_blocks, plain, ring, shop

SAMPLERS = {
    "neighbors": NeighborSampler([2, 1]),
    "weights": NeighborSampler([2, 2], prob="w"),
    "replace": NeighborSampler([4, 4], replace=True),
    "full": MultiLayerFullNeighborSampler(2),
    "labor": LaborSampler([2, 2]),
    "labor by importance": LaborSampler([2, 2], importance_sampling=1, layer_dependency=True, batch_dependency=3),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_blocks_are_of_the_graph_and_feed_each_other(name):
    g = ring()
    for batch in DataLoader(g, [1, 5, 7, 2, 9], SAMPLERS[name], batch_size=2):
        check_blocks(g, *batch)
        assert len(batch[2]) == 2


def test_blocks_of_several_types():
    g = shop()
    fanouts = [{"buys": 1, "bought": 2, "follows": 0}, {"buys": 0, "bought": 1, "follows": 1}]
    for sampler in (NeighborSampler(fanouts), MultiLayerFullNeighborSampler(2), LaborSampler([1, 2])):
        results = []
        for inputs, outputs, blocks in DataLoader(g, {"user": [0, 3], "item": [2]}, sampler, batch_size=2):
            check_blocks(g, inputs, outputs, blocks)
            results.append(outputs)
        assert plain(results) == [{"user": [0, 3]}, {"item": [2]}]
    blocks = NeighborSampler(fanouts).sample(g, {"user": [0, 3]})[2]
    assert [blocks[1].num_edges(etype) for etype in ("buys", "bought", "follows")] == [0, 2, 2]
    assert blocks[0].num_edges("follows") == 0 and blocks[0].num_edges("buys") > 0


def test_fan_outs_are_first_layer_first():
    blocks = NeighborSampler([1, 3]).sample(ring(), [0, 6])[2]
    assert blocks[1].num_edges() == 6 and blocks[0].num_edges() == blocks[0].num_dst_nodes()
    assert MultiLayerNeighborSampler is NeighborSampler


def test_out_edges():
    g = ring(12, 1)
    (batch,) = DataLoader(g, [3, 4], NeighborSampler([-1], edge_dir="out"), batch_size=2, num_workers=1)
    inputs, outputs, (block,) = batch
    u, v = (inputs[end].tolist() for end in block.edges())
    assert sorted(zip(u, v, strict=True)) == [(3, 4), (3, 5), (4, 5), (4, 6)] and outputs.tolist() == [3, 4]


def test_masked_edges_are_not_drawn():
    g = ring()
    g.edata["open"] = torch.arange(g.num_edges()) % 2 == 0
    blocks = NeighborSampler([-1, -1], mask="open").sample(g, torch.arange(12))[2]
    assert all((block.edata[dglite.EID] % 2 == 0).all() and block.num_edges() for block in blocks)


def test_features_to_prefetch_are_gathered_by_the_sampler():
    g = shop()
    sampler = NeighborSampler(
        [-1, -1], prefetch_node_feats={"user": ["x"]}, prefetch_labels={"item": ["z"]}, prefetch_edge_feats=None
    )
    inputs, _, blocks = sampler.sample(g, {"item": [1, 2]})
    columns = blocks[0].node_frames[g.ntypes.index("user")]._columns
    assert torch.is_tensor(columns["x"]) and torch.equal(columns["x"], inputs["user"].float())
    assert blocks[-1].dstnodes["item"].data["z"].tolist() == [1.0, 2.0]
    edges = NeighborSampler([1], prefetch_edge_feats=["e"], prefetch_node_feats=["x"], prefetch_labels=["y"])
    _, _, (block,) = edges.sample(ring(), [4])
    assert torch.is_tensor(block.edge_frames[0]._columns["e"])
    assert torch.equal(block.edata["e"], block.edata[dglite.EID].float()) and block.dstdata["y"].tolist() == [1]


def test_features_that_cannot_be_prefetched():
    g = shop()
    for names, match in (
        ({"item": ["x"]}, r"'x' cannot be prefetched: the source nodes of type 'item' have"),
        (["x"], "as a dictionary by type"),
        ("x", r"write \['x'\]"),
    ):
        loader = DataLoader(g, {"user": [0, 1]}, NeighborSampler([1], prefetch_node_feats=names), num_workers=1)
        with pytest.raises(DGLError, match=match):
            list(loader)


def test_a_sampler_of_ones_own_prefetches_by_dgls_functions():
    class Mine(BlockSampler):
        def sample_blocks(self, g, seed_nodes, exclude_eids=None):
            return NeighborSampler([1]).sample_blocks(g, seed_nodes, exclude_eids)

    class Induced(Sampler):
        def sample(self, g, indices):
            subgraph = g.subgraph(indices)
            dglite.dataloading.set_node_lazy_features(subgraph, ["x"])
            return subgraph

    g = ring()
    (batch,) = DataLoader(g, [3, 4], Mine(prefetch_node_feats=["x"]), batch_size=2)
    assert torch.is_tensor(batch[2][0].node_frames[0]._columns["x"])
    (subgraph,) = DataLoader(g, [3, 4], Induced(), batch_size=2)
    assert subgraph.ndata["x"].tolist() == [[6.0, 7.0], [8.0, 9.0]]
    with pytest.raises(NotImplementedError, match="BlockSampler must define sample_blocks"):
        next(iter(DataLoader(g, [3], BlockSampler())))

    class Classic(BlockSampler):
        def sample_frontier(self, block_id, g, seed_nodes):
            return dglite.in_subgraph(g, seed_nodes)

    with pytest.raises(NotImplementedError, match="call sample_frontier for each layer, and to_block"):
        next(iter(DataLoader(g, [3], Classic(2))))


def test_labor_shares_neighbours_across_batches_by_dependency():
    g = dglite.rand_graph(300, 9000)

    def drawn(**options):
        dglite.seed(3)
        loader = DataLoader(g, torch.zeros(4, dtype=torch.int64), LaborSampler([5], **options), num_workers=2)
        return [set(inputs.tolist()) for inputs, _, _ in loader]

    alone, slow = drawn(), drawn(batch_dependency=1000)
    assert len(set().union(*slow)) < len(set().union(*alone))
    sampler, other = LaborSampler([5]), LaborSampler([5])
    sampler.set_seed(7), other.set_seed(7)
    assert plain(sampler.sample(g, [0, 1])) == plain(other.sample(g, [0, 1]))


def test_what_does_not_fit():
    g = shop()
    for sampler, indices, match in (
        (NeighborSampler([{"buys": 1}]), {"user": [0]}, "no number for the edge types"),
        (NeighborSampler([-2]), {"user": [0]}, "fan-out of layer 0 must be an integer"),
        (NeighborSampler([1], prob="no"), {"user": [0]}, "'no' is not an edge feature"),
        (NeighborSampler([1]), {"user": [4]}, "4"),
        (NeighborSampler([1]), {"visitor": [0]}, "visitor"),
        (NeighborSampler([1]), [0], "dictionary by node type"),
    ):
        with pytest.raises((DGLError, KeyError), match=match):
            DataLoader(g, indices, sampler)
    for bad in (float("nan"), -1.0):
        g = ring()
        g.edata["w"] = torch.full((g.num_edges(),), bad)
        with pytest.raises(DGLError, match="negative, infinite or NaN") as raised:
            list(DataLoader(g, [7, 8], NeighborSampler([1], prob="w"), batch_size=2, num_workers=1))
        assert "batch 0 of epoch 0: indices [7, 8]" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match="prob or mask, not both"):
        NeighborSampler([1], prob="w", mask="w")
    with pytest.raises(DGLError, match="fanouts is empty"):
        NeighborSampler([])
    for result in (NeighborSampler, LaborSampler, ShaDowKHopSampler, lambda fanouts: CapSampler(fanouts, 3, False)):
        for fanouts in (3, {"buys": 1}, "3"):
            with pytest.raises(DGLError, match=r"fanouts must be a list of one fan-out for each .*; got "):
                result(fanouts)
    with pytest.raises(DGLError, match="num_layers must be an integer"):
        MultiLayerFullNeighborSampler(0)
    with pytest.raises(DGLError, match="reverse"):
        LaborSampler([1], edge_dir="out")
    with pytest.raises(DGLError, match="edge_dir='up'"):
        NeighborSampler([1], edge_dir="up")
