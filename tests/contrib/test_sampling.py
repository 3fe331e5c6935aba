"""Node flows of the classic sampler: layers of the sampled graph, and what is computed on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
import dglite.function as fn
from dglite import DGLError, NodeFlow
from dglite.contrib.sampling import NeighborSampler, random_walk

pytestmark = pytest.mark.filterwarnings("ignore:contrib.sampling:DeprecationWarning")


def ring(idtype=torch.int64):
    """Return edges i -> i + 1 and i -> i + 2 of eight nodes."""
    nodes = torch.arange(8, dtype=idtype)
    g = dglite.graph((nodes.repeat(2), torch.cat([(nodes + 1) % 8, (nodes + 2) % 8]).to(idtype)))
    g.ndata["h"], g.edata["w"] = torch.arange(8.0), torch.arange(16.0)
    return g


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("kind", "step"), [("in", -1), ("out", 1)])
def test_a_flow_of_all_neighbours(idtype, kind, step):
    g = ring(idtype)
    (flow,) = NeighborSampler(g, 5, num_hops=2, neighbor_type=kind, seed_nodes=[0])
    assert isinstance(flow, NodeFlow) and (flow.num_layers, flow.num_blocks) == (3, 2)
    assert flow.layer_parent_nid(-1).tolist() == [0] and flow.layer_parent_nid(0).dtype == idtype
    near = {step % 8, 2 * step % 8}
    assert set(flow.layer_parent_nid(1).tolist()) == near and flow.layer_size(1) == flow.block_size(1) == 2
    assert set(flow.layer_parent_nid(0).tolist()) == {(i + step * j) % 8 for i in near for j in (1, 2)}
    assert flow.layer_nid(1).tolist() == [3, 4] and flow.layer_nid(-1).tolist() == [5]
    assert flow.map_to_parent_nid([3, 5]).tolist() == [flow.layer_parent_nid(1)[0].item(), 0]
    assert flow.map_from_parent_nid(1, flow.layer_parent_nid(1)).tolist() == [3, 4]
    assert flow.map_from_parent_nid(-1, [0], remap_local=True).tolist() == [0]
    with pytest.raises(DGLError, match="not in layer 1"):
        flow.map_from_parent_nid(1, [4])
    assert flow.layer_in_degree(2).tolist() == [2] and flow.layer_in_degree(0).tolist() == [0, 0, 0]
    assert flow.layer_out_degree(1).tolist() == [1, 1] and flow.layer_out_degree(2).tolist() == [0]
    for block in range(2):
        src, dst, _ = (x.long() for x in flow.block_edges(block))
        ends = flow.layer_parent_nid(block)[src], flow.layer_parent_nid(block + 1)[dst]
        result = g.find_edges(flow.block_parent_eid(block))
        assert [x.tolist() for x in ends] == [x.tolist() for x in (result if kind == "in" else result[::-1])]


def test_computation_on_a_flow():
    g = ring()
    (flow,) = NeighborSampler(g, 8, num_hops=2, seed_nodes=[0])
    assert not flow.layers[0].data
    flow.copy_from_parent()
    assert torch.equal(flow.layers[1].data["h"], flow.layer_parent_nid(1).float())
    assert torch.equal(flow.blocks[0].data["w"], flow.block_parent_eid(0).float())
    flow.apply_layer(0, lambda nodes: {"h": nodes.data["h"] * 10})
    flow.apply_block(0, lambda edges: {"w": edges.data["w"] * 0 + 1})
    assert flow.blocks[0].data["w"].tolist() == [1] * 4
    flow.prop_flow(fn.copy_u("h", "m"), [fn.sum("m", "h"), fn.mean("m", "h")])
    # Nodes 7 and 6 get 6 + 5 and 5 + 4, times ten; node 0 their mean.
    assert flow.layers[-1].data["h"].tolist() == [(110 + 90) / 2]
    flow.block_compute(1, fn.copy_u("h", "m"), fn.sum("m", "z"), lambda nodes: {"z": nodes.data["z"] + 1}, v=[0])
    flow.apply_layer(-1, lambda nodes: {"z": nodes.data["z"] * 2})
    assert flow.layers[2].data["z"].tolist() == [402]
    flow.copy_to_parent([None, None, ["z"]], None)
    assert g.ndata["z"].tolist() == [402] + [0] * 7 and g.ndata["h"][6] == 6


def test_names_and_loops():
    g = ring()
    (flow,) = NeighborSampler(g, 8, 1, seed_nodes=[3, 4], add_self_loop=True)
    assert flow.block_size(0) == 4 and flow.block_parent_eid(0)[2:].tolist() == [-1, -1]
    flow.copy_from_parent([["h"], None])
    assert "h" in flow.layers[0].data and not flow.layers[1].data and not flow.blocks[0].data
    with pytest.raises(DGLError, match="for 3 layers or blocks, but there are 2"):
        flow.copy_from_parent([None] * 3)
    flow.blocks[0].data["s"] = torch.arange(4.0)
    flow.copy_to_parent(None, [["s"]])
    assert g.edata["s"].sum() == 1


def test_batches():
    g = ring()
    sampler = NeighborSampler(g, 3, 2, shuffle=True)
    dglite.seed(4)
    first = [flow.layer_parent_nid(-1).tolist() for flow in sampler]
    dglite.seed(4)
    assert first == [flow.layer_parent_nid(-1).tolist() for flow in sampler]
    assert list(map(len, first)) == [3, 3, 2] and len(sampler) == 3
    assert sorted(np.concatenate(first).tolist()) == list(range(8))


def test_what_it_does_not_take():
    with pytest.warns(DeprecationWarning, match="sample_neighbors"), pytest.raises(DGLError, match="one type"):
        NeighborSampler(dglite.heterograph({("a", "x", "b"): ([0], [0])}), 1)
    with pytest.raises(DGLError, match="neighbor_type='both'"):
        NeighborSampler(ring(), 1, neighbor_type="both")


def test_walks_by_seed_and_number():
    g = dglite.graph(([0, 1, 2], [1, 2, 3]))
    assert random_walk(g, [2, 0], 2, 2).tolist() == [[[2, 3, -1]] * 2, [[0, 1, 2]] * 2]
    assert random_walk(g, torch.tensor([], dtype=torch.int64), 3, 1).shape == (0, 3, 2)
