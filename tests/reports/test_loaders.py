"""Reports of loaders: the order of batches, workers, epochs, several processes, sets of graphs."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset

import dglite
import dglite.function as fn
from dglite.dataloading import DataLoader, GraphDataLoader, MultiLayerFullNeighborSampler, NeighborSampler
from dglite.graph import DGLGraph
from tests.reports.cases import ids, report


def ring(num_nodes: int) -> DGLGraph:
    """Return a graph in which each node points to the next one, with its number as "x"."""
    nodes = torch.arange(num_nodes)
    g = dglite.graph((nodes, (nodes + 1) % num_nodes))
    g.ndata["x"] = nodes.float()
    return g


@pytest.fixture
def of_two_processes(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Stand in for a group of two processes; the returned object sets the rank."""
    monkeypatch.setattr(torch.distributed, "is_available", lambda: True)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    return monkeypatch


@report("dmlc/dgl#7695", "with workers, batches came in another order", also="dmlc/dgl#5068 dmlc/dgl#5077")
@pytest.mark.parametrize("num_workers", [0, 3])
def test_order_of_batches(num_workers: int) -> None:
    loader = DataLoader(
        ring(40), torch.arange(7, 39), MultiLayerFullNeighborSampler(1), batch_size=3, num_workers=num_workers
    )
    outputs = [output.tolist() for _, output, _ in loader]
    assert [node for output in outputs for node in output] == list(range(7, 39)) and [
        len(output) for output in outputs
    ] == [3] * 10 + [2]


@report("dmlc/dgl#2539", "processes got different numbers of batches, and waited for each other", also="dmlc/dgl#2911")
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_of_two_processes(of_two_processes: pytest.MonkeyPatch, drop_last: bool) -> None:
    seen = []
    for rank in (0, 1):
        of_two_processes.setattr(torch.distributed, "get_rank", lambda group=None, rank=rank: rank)
        loader = DataLoader(
            ring(9), torch.arange(9), NeighborSampler([1]), batch_size=2, use_ddp=True, drop_last=drop_last
        )
        seen.append([output.tolist() for _, output, _ in loader])
    assert len(seen[0]) == len(seen[1]) == (2 if drop_last else 3)
    if not drop_last:
        assert {node for output in seen[0] + seen[1] for node in output} == set(range(9))


@report("dmlc/dgl#3709", "set_epoch changes the order of an epoch, for all processes alike")
def test_epochs_of_two_processes(of_two_processes: pytest.MonkeyPatch) -> None:
    orders: dict[tuple[int, int], list[int]] = {}
    for rank in (0, 1):
        of_two_processes.setattr(torch.distributed, "get_rank", lambda group=None, rank=rank: rank)
        loader = DataLoader(ring(40), torch.arange(40), NeighborSampler([1]), batch_size=4, use_ddp=True, shuffle=True)
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            orders[rank, epoch] = torch.cat([output for _, output, _ in loader]).tolist()
    for epoch in (0, 1):
        assert sorted(orders[0, epoch] + orders[1, epoch]) == list(range(40))
    assert orders[0, 0] != orders[0, 1]


@report("dmlc/dgl#2988", "layers on sampled blocks failed now and then for a wrong number of rows")
def test_layers_on_sampled_blocks() -> None:
    g = dglite.heterograph(
        {
            ("user", "plays", "game"): (ids(0, 1, 2, 3, 0), ids(0, 0, 1, 2, 2)),
            ("game", "played", "user"): (ids(0, 0, 1, 2, 2), ids(0, 1, 2, 3, 0)),
            ("user", "knows", "user"): (ids(0, 1), ids(1, 0)),
        }
    )
    g.nodes["user"].data["x"], g.nodes["game"].data["x"] = torch.eye(4), torch.ones(3, 4)
    layer = dglite.nn.HeteroGraphConv(
        {
            name: dglite.nn.GraphConv(4, 4, norm="none", weight=False, bias=False, allow_zero_in_degree=True)
            for name in g.etypes
        }
    )
    inputs = {"user": torch.eye(4), "game": torch.ones(3, 4)}
    whole = layer(g, layer(g, inputs))
    loader = DataLoader(g, {"user": ids(3, 1), "game": ids(0)}, MultiLayerFullNeighborSampler(2), batch_size=2)
    for _, output, (first, second) in loader:
        result = layer(second, layer(first, first.srcdata["x"]))
        for ntype, nodes in output.items():
            torch.testing.assert_close(result[ntype], whole[ntype][nodes])


@report("dmlc/dgl#7192", "columns that input nodes lack", also="dmlc/dgl#7385")
def test_features_of_types_without_input_nodes() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("c", "s", "b"): ([0], [1])})
    g.nodes["a"].data["x"], g.nodes["c"].data["y"] = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
    sampler = MultiLayerFullNeighborSampler(1, prefetch_node_feats={"a": ["x"], "c": ["y"]})
    first, second = DataLoader(g, {"b": ids(0, 1)}, sampler)
    assert first[2][0].srcnodes["a"].data["x"].tolist() == [1, 2]
    assert first[2][0].srcnodes["c"].data["y"].shape == (0,)
    assert second[2][0].srcnodes["c"].data["y"].tolist() == [3] and second[2][0].num_src_nodes("a") == 0


@report("dmlc/dgl#3430", "a part of a set of graphs could not be loaded")
@pytest.mark.parametrize("loader", [GraphDataLoader, None], ids=["GraphDataLoader", "torch"])
def test_loading_a_part_of_a_set(loader: type | None) -> None:
    graphs = [(ring(n), torch.tensor(float(n))) for n in (2, 3, 4, 5)]
    part = Subset(graphs, [3, 0, 1])

    def collate(samples: list[tuple[DGLGraph, torch.Tensor]]) -> tuple[DGLGraph, torch.Tensor]:
        return dglite.batch([g for g, _ in samples]), torch.stack([label for _, label in samples])

    batches = list(loader(part, batch_size=2) if loader else TorchLoader(part, batch_size=2, collate_fn=collate))
    assert [(g.batch_num_nodes().tolist(), labels.tolist()) for g, labels in batches] == [([5, 2], [5, 2]), ([3], [3])]


@report("Graph-Learning-Benchmarks/gli#271", "labels of a batch had one axis too many")
def test_labels_of_a_batch() -> None:
    (batched,) = GraphDataLoader([(ring(2), 1), (ring(3), 0)], batch_size=2)
    assert batched[1].tolist() == [1, 0] and batched[0].batch_size == 2
    (batched,) = GraphDataLoader([(ring(2), ids(1, 5)), (ring(3), ids(0, 6))], batch_size=2)
    assert batched[1].tolist() == [[1, 5], [0, 6]]


@report("dmlc/dgl#2496", "graphs without labels are batched alone; the last batch may be dropped")
def test_graphs_without_labels() -> None:
    graphs = [ring(n) for n in (2, 3, 4)]
    sizes = [g.batch_num_nodes().tolist() for g in GraphDataLoader(graphs, batch_size=2)]
    assert sizes == [[2, 3], [4]]
    assert [g.num_nodes() for g in GraphDataLoader(graphs, batch_size=2, drop_last=True)] == [5]


@report("dmlc/dgl#412", "equal seeds give equal batches, whatever the number of workers", also="dmlc/dgl#6736")
def test_equal_seeds_give_equal_batches() -> None:
    g = dglite.rand_graph(60, 600)
    runs = []
    for num_workers in (0, 2, 0):
        dglite.seed(3)
        torch.manual_seed(3)
        loader = DataLoader(
            g, torch.arange(60), NeighborSampler([2]), batch_size=20, shuffle=True, num_workers=num_workers
        )
        runs.append([(output.tolist(), block.edata[dglite.EID].tolist()) for _, output, (block,) in loader])
    assert runs[0] == runs[1] == runs[2]


@report(
    "dmlc/dgl#2169", "workers sent damaged samples, or hung after threads had run in the parent", also="dmlc/dgl#1129"
)
def test_samples_of_workers_are_whole() -> None:
    g = dglite.rand_graph(300, 3000)
    g.ndata["x"], g.edata["w"] = torch.arange(300.0), torch.arange(3000.0)
    g.update_all(fn.u_mul_e("x", "w", "m"), fn.sum("m", "y"))  # starts the threads of this process
    ends = torch.stack(g.edges())
    sampler = NeighborSampler([4], prefetch_node_feats=["x"], prefetch_edge_feats=["w"])
    for _, _, (block,) in DataLoader(g, torch.arange(300), sampler, batch_size=40, num_workers=3):
        src, dst = block.edges()
        eids = block.edata[dglite.EID]
        assert torch.equal(block.srcdata[dglite.NID][src], ends[0, eids])
        assert torch.equal(block.dstdata[dglite.NID][dst], ends[1, eids])
        assert torch.equal(block.srcdata["x"], block.srcdata[dglite.NID].float())
        assert torch.equal(block.edata["w"], eids.float())
