"""Graphs whose edges are on a device: made, changed and taken apart there, as on the CPU and without copies to it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
import dglite.function as fn
from dglite import DGLError, nn
from dglite.dataloading import NeighborSampler
from tests.fake_device.device import DEVICE, limited_memory, recorded

NODES, EDGES, WIDTH = 21, 600, 4
SMALL = 64
"""Bytes of what may be copied to the host: counts and answers, no ids."""


def ends(device: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return edges of which a third enters one node, and none the last."""
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(NODES - 1, (EDGES,), generator=generator) for _ in range(2))
    dst[:400] = 3
    return src.to(device, dtype), dst.to(device, dtype)


def make(device: str, dtype: torch.dtype = torch.int64, moved: bool = False) -> dglite.DGLGraph:
    """Return a graph with features on a device: of edges that are there, or ``moved`` there."""
    edges = ends("cpu" if moved else device, dtype)
    g = dglite.graph(edges, num_nodes=NODES).to(device)
    g.ndata["h"] = torch.arange(NODES * WIDTH).reshape(NODES, WIDTH).to(device)
    g.edata["w"] = torch.arange(EDGES).to(device)
    return g


def types(device: str) -> dglite.DGLGraph:
    u, v = (torch.arange(12) * step % size for step, size in ((5, 10), (7, 8)))
    u, v = u.to(device), v.to(device)
    relations = {("a", "to", "b"): (u, v), ("b", "of", "a"): (v, u), ("a", "in", "a"): (u, u.flip(0))}
    return dglite.heterograph(relations, num_nodes_dict={"a": 10, "b": 8})


def contents(g: Any) -> Any:
    """Return everything that a graph, or each of several, has."""
    if isinstance(g, tuple | list):
        return [contents(x) for x in g]
    if isinstance(g, torch.Tensor):
        return g
    edges = [g.edges(form="all", etype=etype) for etype in g.canonical_etypes]
    nodes = [dict(frame or {}) for frame in g.node_frames]
    return [edges, nodes, [dict(frame or {}) for frame in g.edge_frames], [len(x) for x in nodes], g.batch_size]


def on_host(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.cpu()
    if isinstance(x, dict):
        return {name: on_host(value) for name, value in x.items()}
    return [on_host(value) for value in x] if isinstance(x, tuple | list) else x


def few(*numbers: int) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.tensor(numbers).to(device)


OF_GRAPH: dict[str, Callable[[dglite.DGLGraph, str], Any]] = {
    "edges": lambda g, device: g,
    "degrees": lambda g, device: (g.in_degrees(), g.out_degrees()),
    "find_edges": lambda g, device: g.find_edges(few(5, 1, 599)(device)),
    "in_edges": lambda g, device: g.in_edges(few(3, 1, 3, 20)(device), form="all"),
    "out_edges": lambda g, device: g.out_edges(few(3, 1)(device), form="all"),
    "add_self_loop": lambda g, device: dglite.add_self_loop(g),
    "remove_self_loop": lambda g, device: dglite.remove_self_loop(g),
    "reverse": lambda g, device: dglite.reverse(g, copy_edata=True),
    "add_reverse_edges": lambda g, device: dglite.add_reverse_edges(g, copy_edata=True),
    "remove_edges": lambda g, device: dglite.remove_edges(g, few(3, 1)(device), store_ids=True),
    "remove_nodes": lambda g, device: dglite.remove_nodes(g, few(3, 1)(device), store_ids=True),
    "batch": lambda g, device: dglite.batch([g, g, g]),
    "unbatch": lambda g, device: dglite.unbatch(dglite.batch([g, g])),
    "slice_batch": lambda g, device: dglite.slice_batch(dglite.batch([g, g]), 1, store_ids=True),
    "node_subgraph": lambda g, device: dglite.node_subgraph(g, few(3, 1, 7, 20)(device)),
    "node_subgraph by a mask": lambda g, device: dglite.node_subgraph(g, (torch.arange(NODES) % 3 == 0).to(device)),
    "node_subgraph, all nodes": lambda g, device: dglite.node_subgraph(g, few(3, 1)(device), relabel_nodes=False),
    "node_subgraph of no nodes": lambda g, device: dglite.node_subgraph(g, few()(device).long()),
    "edge_subgraph": lambda g, device: dglite.edge_subgraph(g, few(3, 100, 7, 3)(device)),
    "edge_subgraph, all nodes": lambda g, device: dglite.edge_subgraph(g, few(3, 1)(device), relabel_nodes=False),
    "in_subgraph": lambda g, device: dglite.in_subgraph(g, few(3, 20, 1)(device)),
    "in_subgraph, relabelled": lambda g, device: dglite.in_subgraph(g, [3, 20, 1], relabel_nodes=True),
    "out_subgraph": lambda g, device: dglite.out_subgraph(g, few(3, 20, 1)(device)),
}


@pytest.mark.parametrize(
    ("dtype", "moved"), [(torch.int64, False), (torch.int32, True)], ids=["made there", "moved there"]
)
@pytest.mark.parametrize("name", list(OF_GRAPH))
def test_structure_is_made_on_the_device(name, dtype, moved):
    work = OF_GRAPH[name]
    want = contents(work(make("cpu", dtype), "cpu"))
    g = make(DEVICE, dtype, moved)
    with recorded() as events:
        result = work(g, DEVICE)
        actual = contents(result)
    to_host = [int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")]
    assert max(to_host, default=0) <= SMALL
    torch.testing.assert_close(on_host(actual), on_host(want), rtol=0, atol=0)


OF_TYPES: dict[str, Callable[[dglite.DGLGraph, str], Any]] = {
    "edges": lambda g, device: g,
    "node_subgraph": lambda g, device: dglite.node_subgraph(g, {"a": few(5, 1, 2)(device), "b": [3, 4, 7]}),
    "edge_subgraph": lambda g, device: dglite.edge_subgraph(g, {"to": few(5, 1)(device), "in": [3, 4]}),
    "in_subgraph": lambda g, device: dglite.in_subgraph(g, {"b": few(5, 1)(device)}, relabel_nodes=True),
    "batch": lambda g, device: dglite.batch([g, g]),
    "to_homogeneous": lambda g, device: dglite.to_homogeneous(g),
}


@pytest.mark.parametrize("name", list(OF_TYPES))
def test_several_types(name):
    want, actual = (contents(OF_TYPES[name](types(device), device)) for device in ("cpu", DEVICE))
    torch.testing.assert_close(on_host(actual), on_host(want), rtol=0, atol=0)


def test_a_graph_without_edges():
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    g = dglite.graph((none, none), num_nodes=3)
    assert g.in_degrees().tolist() == [0, 0, 0]
    assert dglite.add_self_loop(g).num_edges() == 3
    assert dglite.batch([g, g]).num_nodes() == 6
    assert dglite.node_subgraph(g, none).num_nodes() == 0
    assert nn.GraphConv(2, 2, allow_zero_in_degree=True).to(DEVICE)(g, torch.ones(3, 2, device=DEVICE)).shape == (3, 2)


def test_the_users_tensors_are_copied():
    src, dst = ends(DEVICE, torch.int64)
    g = dglite.graph((src, dst))
    before = g.edges()[0].cpu()
    src.zero_()
    g.edges()[0].zero_()
    assert g.edges()[0].cpu().equal(before)


def test_the_host_gets_a_copy_once(monkeypatch, capfd):
    g = make(DEVICE)
    monkeypatch.setenv("DGLITE_DEBUG", "1")
    exists = g.has_edges_between([0], [0])
    message = capfd.readouterr().err
    assert "test_structure.py:" in message and f"{8 * EDGES} bytes are copied to the host" in message
    g.has_edges_between([1], [1])
    assert not capfd.readouterr().err
    assert exists.cpu().equal(make("cpu").has_edges_between([0], [0]))


def test_a_graph_that_comes_back_leaves_nothing_there():
    g = make(DEVICE)
    back = g.to("cpu")
    assert back.adjacencies[0].made_on(g.device) is None
    torch.testing.assert_close(contents(back), contents(make("cpu")))
    bare = dglite.graph(ends(DEVICE, torch.int64))
    again = pickle.loads(pickle.dumps(bare)).to("cpu")
    assert again.edges()[0].equal(ends("cpu", torch.int64)[0])


CONVS: dict[str, Callable[[], torch.nn.Module]] = {
    "GCN": lambda: nn.GraphConv(WIDTH, 3, allow_zero_in_degree=True),
    "GAT": lambda: nn.GATConv(WIDTH, 3, 2, allow_zero_in_degree=True),
    "GATv2": lambda: nn.GATv2Conv(WIDTH, 3, 2, allow_zero_in_degree=True),
    "dot": lambda: nn.DotGatConv(WIDTH, 3, 2, allow_zero_in_degree=True),
    "SAGE": lambda: nn.SAGEConv(WIDTH, 3, "mean"),
    "max": lambda: nn.SAGEConv(WIDTH, 3, "pool"),
    "GIN": lambda: nn.GINConv(torch.nn.Linear(WIDTH, 3), "max"),
    "PNA": lambda: nn.PNAConv(WIDTH, 3, ["mean", "max", "std"], ["identity", "amplification"], 2.0),
}


@pytest.mark.parametrize("name", list(CONVS))
def test_a_first_step_on_edges_made_there_copies_nothing(name):
    """Forward and backward: rows are sorted, and the long one cut, on the device."""
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        layer, g = CONVS[name]().double().to(device), make(device)
        x = torch.randn(NODES, WIDTH, dtype=torch.float64).to(device).requires_grad_()
        with recorded() as events:
            out = layer(g, x)
            out.square().sum().backward()
        results.append((out.detach().cpu(), x.grad.cpu(), [p.grad.cpu() for p in layer.parameters()]))
    assert events.waits == []
    assert not [copy for copy in events.copies if copy.startswith("to host")]
    torch.testing.assert_close(results[1], results[0])


def test_self_loops_need_no_count_of_nodes_without_in_edges():
    g = dglite.add_self_loop(make(DEVICE))
    layer = nn.GraphConv(WIDTH, 3).to(DEVICE)
    x = torch.ones(NODES, WIDTH, device=DEVICE)
    with recorded() as events:
        layer(g, x)
    assert events.waits == []
    with pytest.raises(DGLError, match=r"\d+ of 21 nodes have no in-edge"):
        layer(make(DEVICE), x)


@pytest.mark.parametrize(
    ("src", "dst", "options", "message"),
    [
        ([0, 5], [1, 1], {"num_nodes": 3}, "source node id 5 does not exist among 3 nodes"),
        ([0, -2], [1, 1], {}, "source node id -2 is negative"),
        ([0, 1], [1, -1], {}, "destination node id -1 is negative"),
        ([0, 2**40], [1, 1], {"idtype": torch.int32}, "does not fit idtype int32"),
    ],
)
def test_bad_edges_are_refused(src, dst, options, message):
    with pytest.raises(DGLError, match=message):
        dglite.graph((torch.tensor(src, device=DEVICE), torch.tensor(dst, device=DEVICE)), **options)


def test_a_graph_larger_than_the_device():
    """The error says how much the edges take; the graph is as it was, and works with more memory."""
    g, x = dglite.rand_graph(2000, 40000).to(DEVICE), torch.ones(2000, 2, device=DEVICE)
    g.ndata["h"] = x
    with limited_memory(200_000), pytest.raises(torch.OutOfMemoryError) as error:
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "sum"))
    (note,) = error.value.__notes__
    assert f"40000 edges of this relation take {4 * (2001 + 80000)} bytes on {DEVICE}" in note
    assert list(g.ndata) == ["h"]
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "sum"))
    assert g.ndata["sum"][:, 0].sum().item() == 40000


SAMPLERS: dict[str, Callable[[dglite.DGLGraph, torch.Tensor], Any]] = {
    "in-edges": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 3),
    "out-edges": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 3, edge_dir="out"),
    "with replacement": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 3, replace=True),
    "more than there are": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, 10**9),
    "all": lambda g, seeds: dglite.sampling.sample_neighbors(g, seeds, -1),
    "blocks": lambda g, seeds: NeighborSampler([3, 2]).sample(g, seeds)[2],
    "a block": lambda g, seeds: dglite.to_block(dglite.in_subgraph(g, seeds), torch.cat([seeds, seeds[:1] * 0])),
    "a block of all": lambda g, seeds: dglite.to_block(g),
}


@pytest.mark.parametrize("moved", [False, True], ids=["made there", "moved there"])
@pytest.mark.parametrize("name", list(SAMPLERS))
def test_samples_stay_on_the_device(name, moved):
    work, seeds = SAMPLERS[name], few(7, 3, 20)
    dglite.seed(3)
    want = [block_contents(x) for x in listed(work(make("cpu"), seeds("cpu")))]
    g, ids = make(DEVICE, moved=moved), seeds(DEVICE)
    dglite.seed(3)
    with recorded() as events:
        result = listed(work(g, ids))
    to_host = [int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")]
    assert max(to_host, default=0) <= SMALL
    assert all(x.made_on(g.device) is not None for sample in result for x in sample.adjacencies)
    torch.testing.assert_close(on_host([block_contents(x) for x in result]), on_host(want), rtol=0, atol=0)


def listed(x: Any) -> list[dglite.DGLGraph]:
    return x if isinstance(x, list) else [x]


def block_contents(g: dglite.DGLGraph) -> Any:
    frames = [dict(frame or {}) for frame in (*g.node_frames, *g.edge_frames)]
    return [[g.edges(form="all", etype=etype) for etype in g.canonical_etypes], frames]


def test_blocks_of_several_types():
    def work(device: str) -> Any:
        dglite.seed(3)
        seeds = {"a": few(3, 1)(device), "b": few(2)(device)}
        return block_contents(dglite.to_block(dglite.sampling.sample_neighbors(types(device), seeds, 2)))

    torch.testing.assert_close(on_host(work(DEVICE)), on_host(work("cpu")), rtol=0, atol=0)


def test_blocks_that_the_host_numbers():
    g = dglite.graph((torch.tensor([1, 2], device=DEVICE), torch.tensor([2, 3], device=DEVICE)))
    no_destinations = dglite.to_block(g, [2, 3], include_dst_in_src=False)
    assert no_destinations.srcdata[dglite.NID].tolist() == [1, 2]
    assert dglite.to_block(g, [2, 3], src_nodes=[2, 3, 1]).srcdata[dglite.NID].tolist() == [2, 3, 1]
    assert dglite.to_block(g, [3, 2, 3]).dstdata[dglite.NID].tolist() == [3, 2, 3]


def test_samples_by_weight_are_the_hosts():
    g, weights = make("cpu"), {}
    for device in ("cpu", DEVICE):
        there = g.to(device)
        there.edata["p"] = (torch.arange(g.num_edges()) % 2).to(device)
        dglite.seed(3)
        weights[device] = block_contents(dglite.sampling.sample_neighbors(there, few(7, 3)(device), 4, prob="p"))
    torch.testing.assert_close(on_host(weights[DEVICE]), on_host(weights["cpu"]), rtol=0, atol=0)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_destinations_that_are_missing(device):
    g = dglite.graph(few(1, 2, 3)(device).repeat(2, 1).unbind(), num_nodes=4)
    with pytest.raises(DGLError, match="dst_nodes lacks node 2 of type '_N', which has in-edges"):
        dglite.to_block(g, few(3, 1)(device))


@pytest.mark.parametrize("sortby", [None, 0, -1])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("k", [1, 2, 9])
def test_top_k_reads_nothing(k, descending, sortby):
    def work(device: str) -> Any:
        sizes = [3, 1, 0, 7]
        batch = dglite.batch([dglite.graph(([], []), num_nodes=size) for size in sizes]).to(device)
        generator = torch.Generator().manual_seed(4)
        floats, integers = torch.randn(11, 3, generator=generator), torch.randint(4, (11, 2), generator=generator)
        floats[5, 0] = torch.nan
        columns = {"x": floats, "i": integers, "b": integers > 1}
        results = []
        for name, column in columns.items():
            batch.ndata[name] = column.to(device)
            with recorded() as events:
                results.append(dglite.topk_nodes(batch, name, k, descending=descending, sortby=sortby))
            assert events.waits == []
        return results

    torch.testing.assert_close(on_host(work(DEVICE)), on_host(work("cpu")), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("dist", ["euclidean", "cosine"])
def test_nearest_neighbours(dist, exclude_self):
    points = torch.randn(30, 3, generator=torch.Generator().manual_seed(4))
    options = {"dist": dist, "exclude_self": exclude_self}

    def work(device: str) -> Any:
        x = points.to(device)
        with recorded() as events:
            graphs = [
                dglite.knn_graph(x, 4, **options),
                dglite.knn_graph(x.reshape(3, 10, 3), 4, **options),
                dglite.segmented_knn_graph(x, 4, [10, 5, 15], **options),
            ]
        assert len(events.waits) == (3 if device == DEVICE else 0)  # whether the points are finite
        return [(contents(g), g.batch_num_nodes(), g.batch_num_edges()) for g in graphs]

    torch.testing.assert_close(on_host(work(DEVICE)), on_host(work("cpu")), rtol=0, atol=0)
    for bad, message in ((torch.full((3, 2), torch.inf), "must be finite"), (torch.zeros(0, 2), "is empty")):
        with pytest.raises(DGLError, match=message):
            dglite.knn_graph(bad.to(DEVICE), 2)


def test_bad_ids_are_refused():
    g = make(DEVICE)
    with pytest.raises(DGLError, match="node id 21 does not exist"):
        dglite.node_subgraph(g, few(0, 21)(DEVICE))
    with pytest.raises(DGLError, match="node 4 of type '_N' is given more than once"):
        dglite.node_subgraph(g, few(4, 1, 4)(DEVICE))
    with pytest.raises(DGLError, match="edge id -1 is negative"):
        dglite.edge_subgraph(g, few(0, -1)(DEVICE))
    both = dglite.batch([g, g])
    with pytest.raises(DGLError, match=r"unbatch: edge \d+, .* joins nodes of different graphs"):
        dglite.unbatch(both, node_split=[40, 2])
