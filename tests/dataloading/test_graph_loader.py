"""Batches of graphs, and collate functions for torch's loader."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import EdgeCollator, GraphCollator, GraphDataLoader, NeighborSampler, NodeCollator
from tests.dataloading.graphs import check_blocks, ring, shop


def samples(count=5):
    return [(ring(3 + i), i) for i in range(count)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_graphs_are_batched_with_their_labels(num_workers):
    loader = GraphDataLoader(samples(), batch_size=2, num_workers=num_workers)
    result = list(loader)
    assert len(result) == len(loader) == 3 and isinstance(result[0], list)
    assert [labels.tolist() for _, labels in result] == [[0, 1], [2, 3], [4]]
    assert [g.batch_num_nodes().tolist() for g, _ in result] == [[3, 4], [5, 6], [7]]
    assert result[0][0].ndata["x"].shape == (7, 2)
    shuffled = [x for _, labels in GraphDataLoader(samples(), shuffle=True, batch_size=2) for x in labels.tolist()]
    assert sorted(shuffled) == [0, 1, 2, 3, 4]


def test_a_data_set_and_a_collate_function_of_ones_own():
    class Mine(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return ring(i + 3)

    sizes = GraphDataLoader(Mine(), lambda graphs: [g.num_nodes() for g in graphs], batch_size=2)
    assert list(sizes) == [[3, 4], [5]]
    assert [g.num_nodes() for g in GraphDataLoader(Mine(), batch_size=None)] == [3, 4, 5]
    assert list(GraphDataLoader(Mine(), lambda g: g.num_nodes(), batch_size=None)) == [3, 4, 5]
    assert [g.batch_size for g in GraphDataLoader(Mine(), sampler=[2, 0])] == [1, 1]


def test_shares_of_processes(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    epochs = []
    for epoch in (0, 1):
        seen = []
        for rank in range(2):
            monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
            loader = GraphDataLoader(samples(8), use_ddp=True, shuffle=True, batch_size=2)
            loader.set_epoch(epoch)
            seen += [x for _, labels in loader for x in labels.tolist()]
        assert sorted(seen) == list(range(8))
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    with pytest.raises(DGLError, match="use_ddp=True"):
        GraphDataLoader(samples()).set_epoch(1)


def test_what_a_collator_takes():
    Pair = namedtuple("Pair", "g y")
    collate = GraphCollator().collate
    result = collate([Pair(ring(3), 1.5), Pair(ring(4), 2.5)])
    assert isinstance(result, Pair) and result.g.batch_size == 2
    assert result.y.dtype == torch.float64 and result.y.tolist() == [1.5, 2.5]
    result = collate(
        [{"g": ring(3), "x": torch.ones(2), "name": "a"}, {"g": ring(3), "x": torch.zeros(2), "name": "b"}]
    )
    assert (
        result["x"].tolist() == [[1, 1], [0, 0]] and list(result["name"]) == ["a", "b"] and result["g"].batch_size == 2
    )
    assert collate([np.float32(1), np.float32(2)]).dtype == torch.float32
    assert collate([np.ones(2), np.ones(2)]).shape == (2, 2) and collate([True, False]).dtype == torch.bool
    with pytest.raises(TypeError, match="cannot collate object"):
        collate([object(), object()])
    with pytest.raises(RuntimeError, match="different lengths"):
        collate([(1, 2), (1,)])


def test_what_is_no_collate_function():
    with pytest.raises(TypeError, match="collate_fn must be a function or None, got 'list'"):
        GraphDataLoader([dglite.rand_graph(3, 3)], collate_fn="list")


def test_what_is_no_data_set():
    with pytest.raises(TypeError, match="generator has no length"):
        GraphDataLoader(ring(i) for i in range(3))
    with pytest.raises(DGLError, match="nothing to load"):
        GraphDataLoader([])


def test_collators_serve_torchs_loader():
    g = ring()
    nodes = NodeCollator(g, torch.tensor([4, 2, 7]), NeighborSampler([2, 2]))
    loader = torch.utils.data.DataLoader(nodes.dataset, collate_fn=nodes.collate, batch_size=2)
    result = list(loader)
    for batch in result:
        check_blocks(g, *batch)
    assert [outputs.tolist() for _, outputs, _ in result] == [[4, 2], [7]]
    typed = NodeCollator(shop(), {"user": torch.tensor([3]), "item": torch.tensor([0, 1])}, NeighborSampler([2]))
    assert len(typed.dataset) == 3 and [(key, int(i)) for key, i in typed.dataset][1:] == [("item", 0), ("item", 1)]
    assert {key: ids.tolist() for key, ids in typed.collate(list(typed.dataset))[1].items()} == {
        "user": [3],
        "item": [0, 1],
    }
    edges = EdgeCollator(g, torch.arange(5), NeighborSampler([-1]), exclude="self")
    for _, pairs, blocks in torch.utils.data.DataLoader(edges.dataset, collate_fn=edges.collate, batch_size=5):
        assert pairs.num_edges() == 5 and blocks[0].edata[dglite.EID].min() >= 5
    with pytest.raises(DGLError, match="99"):
        NodeCollator(g, [99], NeighborSampler([1]))
