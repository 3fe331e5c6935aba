"""A training step on a GPU never waits for it: neither on the first batch nor on the following ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import dglite
from dglite import nn
from dglite.dataloading import NeighborSampler
from tests.fake_device.device import DEVICE, Events, recorded

WIDTH, CLASSES, NODES = 8, 3, 50
CONVS: dict[str, Callable[[int, int], torch.nn.Module]] = {
    "GCN": lambda wide, out: nn.GraphConv(wide, out, allow_zero_in_degree=True),
    "GAT": lambda wide, out: nn.GATConv(wide, out, 2, allow_zero_in_degree=True),
    "GATv2": lambda wide, out: nn.GATv2Conv(wide, out, 2, allow_zero_in_degree=True),
    "SAGE": lambda wide, out: nn.SAGEConv(wide, out, "mean"),
    "GIN": lambda wide, out: nn.GINConv(torch.nn.Linear(wide, out), "max"),
}


class Net(torch.nn.Module):
    """Two layers; ``graphs`` has one for each."""

    def __init__(self, make: Callable[[int, int], torch.nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(WIDTH, WIDTH), make(WIDTH, CLASSES)

    def forward(self, graphs: list[dglite.DGLGraph], x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(graphs[0], x)
        hidden = self.second(graphs[1], torch.relu(hidden.mean(1) if hidden.dim() > 2 else hidden))
        return hidden.mean(1) if hidden.dim() > 2 else hidden


class Training:
    """A network on a device, its optimizer, and the losses of its steps."""

    def __init__(self, name: str, device: str) -> None:
        torch.manual_seed(0)
        self.net = Net(CONVS[name]).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.losses: list[torch.Tensor] = []

    def step(self, graphs: list[dglite.DGLGraph], x: torch.Tensor, labels: torch.Tensor) -> None:
        result = self.net(graphs, x)
        loss = cross_entropy(result[: len(labels)], labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())


def random_graph() -> dglite.DGLGraph:
    """Return a graph in which some nodes have no in-edge, some no out-edge, and one many."""
    generator = torch.Generator().manual_seed(7)
    src, dst = (torch.randint(NODES - 5, (2 * NODES,), generator=generator) for _ in range(2))
    dst[:10] = NODES - 1
    return dglite.graph((src, dst), num_nodes=NODES)


def batches(device: str, kind: str) -> list[tuple[list[dglite.DGLGraph], torch.Tensor, torch.Tensor]]:
    """Return what four steps train on, on a device: made on the host and copied."""
    torch.manual_seed(1)
    dglite.seed(1)
    g, results = random_graph(), []
    for number in range(4):
        if kind == "blocks":
            inputs, _, graphs = NeighborSampler([3, 3]).sample(g, torch.arange(10) + number)
            rows, count = len(inputs), 10
        elif kind == "molecules":
            sizes = torch.randint(3, 9, (5,)).tolist()
            batch = dglite.batch([dglite.rand_graph(size, 2 * size) for size in sizes])
            graphs, rows, count = [batch, batch], sum(sizes), sum(sizes)
        else:
            graphs, rows, count = [g, g], NODES, NODES
        x, labels = torch.randn(rows, WIDTH), torch.randint(CLASSES, (count,))
        there = {id(graph): graph.to(device) for graph in graphs}
        results.append(([there[id(graph)] for graph in graphs], x.to(device), labels.to(device)))
    return results


def train(name: str, kind: str, device: str) -> tuple[Training, list[Events]]:
    training, events = Training(name, device), []
    for batch in batches(device, kind):
        with recorded() as of_step:
            training.step(*batch)
        events.append(of_step)
    return training, events


@pytest.mark.parametrize("kind", ["whole graph", "blocks", "molecules"])
@pytest.mark.parametrize("name", list(CONVS))
def test_a_step_waits_for_nothing(name, kind):
    training, events = train(name, kind, DEVICE)
    assert [of_step.waits for of_step in events] == [[]] * 4
    assert not [copy for of_step in events for copy in of_step.copies if copy.startswith("to host")]
    if kind == "whole graph":
        assert events[0].copies, "the first step copies the structure"
    want, _ = train(name, kind, "cpu")
    results = [loss.cpu() for loss in training.losses]
    torch.testing.assert_close(results, want.losses, rtol=1e-4, atol=1e-4)


def test_a_structure_stays_where_it_was_copied():
    """The second step on a graph copies nothing."""
    g, training = random_graph().to(DEVICE), Training("GAT", DEVICE)
    x, labels = torch.randn(NODES, WIDTH, device=DEVICE), torch.zeros(NODES, dtype=torch.int64, device=DEVICE)
    training.step([g, g], x, labels)
    with recorded() as events:
        training.step([g, g], x, labels)
    assert events == []


@pytest.mark.parametrize("reader", ["mean_nodes", "max_nodes", "softmax_nodes", "broadcast_nodes"])
def test_readout_waits_for_nothing(reader):
    batch = dglite.batch([dglite.rand_graph(size, size) for size in (3, 0, 5)]).to(DEVICE)
    x = torch.randn(8, 4, device=DEVICE, requires_grad=True)
    batch.ndata["h"] = x
    with recorded() as events:
        argument: Any = torch.randn(3, 4, device=DEVICE, requires_grad=True) if reader == "broadcast_nodes" else "h"
        getattr(dglite, reader)(batch, argument).sum().backward()
    assert events.waits == []


def test_features_are_copied_without_waiting_if_asked():
    g = dglite.rand_graph(5, 10)
    g.ndata["x"] = torch.arange(5.0)
    with recorded() as events:
        there = g.to(DEVICE, non_blocking=True)
    assert events == ["copy: to device 20"]
    g.ndata["x"].zero_()
    assert there.ndata["x"].cpu().tolist() == [0, 1, 2, 3, 4]
    with recorded() as events:
        g.to(DEVICE)
    assert events.waits == ["copy to device"]


def test_a_wait_is_told(monkeypatch, capfd):
    g = dglite.rand_graph(5, 10).to(DEVICE)
    g.edata["w"] = torch.rand(10, device=DEVICE)
    monkeypatch.setenv("DGLITE_DEBUG", "1")
    dglite.sampling.select_topk(g, 1, "w")
    message = capfd.readouterr().err
    assert "test_steps.py:" in message and "waits for fake_device:0: 40 bytes are copied to the host" in message
    monkeypatch.setenv("DGLITE_DEBUG", "0")
    dglite.sampling.select_topk(g, 1, "w")
    assert not capfd.readouterr().err
