"""Training by loaders: gradients, compiled models, mixed precision, several processes, loops of other libraries."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
from dglite.dataloading import DataLoader, NeighborSampler, Sampler
from dglite.nn import SAGEConv
from tests.dataloading.graphs import plain, ring
from tests.dataloading.ranks import train
from tests.forked import Started
from tests.sampling.graphs import random_graph
from tests.versions import compiles_whole


class Model(nn.Module):
    def __init__(self, activation=torch.relu):
        super().__init__()
        self.first, self.second = SAGEConv(2, 4, "mean", activation=activation), SAGEConv(4, 3, "mean")

    def forward(self, blocks, x):
        return self.second(blocks[1], self.first(blocks[0], x))


def gradient(model, blocks, x, factors):
    """Return the gradient of a linear function of a model's results."""
    loss = (model(blocks, x) * factors).sum()
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(model.parameters()))])


def assert_unbiased(draws, expected):
    """Assert that the mean of rows is the expected one: within 4.5 standard errors in each of some ten places."""
    error = draws.std(0) / len(draws) ** 0.5
    away = (draws.mean(0) - expected).abs()
    assert (away <= 4.5 * error + 1e-6 * expected.abs().max()).all(), (away / error).max()


@pytest.mark.parametrize("options", [{}, {"replace": True}, {"prob": "even"}, {"time": "t", "edge_time": "t"}])
def test_sampled_gradients_are_those_of_the_whole_graph_in_the_mean(options):
    torch.manual_seed(0), dglite.seed(0)
    g = random_graph(20, 90)
    g.edata["even"], g.edata["t"], g.ndata["t"] = torch.ones(90), torch.zeros(90), torch.zeros(20)
    # A linear model: the mean of a function that is not linear is not that of the mean.
    model, factors = Model(activation=None).double(), torch.randn(20, 3).double()
    x = g.ndata["x"].double()
    expected = gradient(model, [g, g], x, factors)
    sampler = NeighborSampler([2, 2], **options)
    draws = []
    for inputs, seeds, blocks in DataLoader(g, torch.arange(20).repeat(400), sampler, batch_size=20):
        draws.append(gradient(model, blocks, x[inputs], factors[seeds]))
    assert_unbiased(torch.stack(draws), expected)
    with pytest.raises(AssertionError):
        assert_unbiased(torch.stack(draws), expected * 1.2)


@compiles_whole
def test_one_compiled_program_serves_batches_of_all_sizes():
    torch._dynamo.reset()
    dglite.seed(0)
    g, model = ring(200, 5), Model()
    programs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=programs, dynamic=True)
    sampler = NeighborSampler([2, 3], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = DataLoader(g, range(90), sampler, batch_size=20, shuffle=True, num_workers=1)
    sizes = set()
    for _ in range(2):
        for _, _, blocks in loader:
            x, labels = blocks[0].srcdata["x"] / 200, blocks[-1].dstdata["y"]
            losses = [nn.functional.cross_entropy(run(blocks, x), labels) for run in (compiled, model)]
            grads = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
            torch.testing.assert_close(*grads)
            sizes.add(len(x))
    assert len(sizes) > 3 and programs.frame_count <= 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_mixed_precision(num_workers):
    g, model = ring(40, 5), Model()
    loader = DataLoader(g, range(40), NeighborSampler([3, 3]), batch_size=10, num_workers=num_workers)
    with torch.autocast("cpu", torch.bfloat16):
        for _, _, blocks in loader:
            x = blocks[0].srcdata["x"]
            out = model(blocks, x)
            assert x.dtype == torch.float32 and out.dtype == torch.bfloat16
            out.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


def test_two_processes(tmp_path):
    meet = 2, tmp_path / "meet"
    ranks = [Started(tmp_path, f"rank{i}", train, i, *meet, OMP_NUM_THREADS="1") for i in range(2)]
    results = [rank.wait() for rank in ranks]
    assert [rank.returncode for rank in results] == [0, 0], results


class Given(Sampler):
    """Gives the indices of a batch."""

    def sample(self, g, indices):
        return indices


def test_loops_of_other_libraries():
    """Such loops ask for the length, iterate again and again, stop early, and set the epoch."""
    loader = DataLoader(ring(), range(10), Given(), batch_size=3, shuffle=True, num_workers=1)
    assert len(loader) == 4
    for _, _ in zip(range(2), loader, strict=False):
        pass
    first, second = plain(list(loader)), plain(list(loader))
    assert first != second and len(first) == len(second) == len(loader)
    loader.set_epoch(1)
    assert plain(list(loader)) == first and plain(list(loader)) == second


def test_torchs_samplers_of_processes_and_weights():
    indices = torch.arange(100, 110)
    shares = []
    for rank in range(2):
        order = torch.utils.data.DistributedSampler(range(10), 2, rank, shuffle=True, seed=1)
        loader = DataLoader(ring(200), indices, Given(), sampler=order, batch_size=2)
        order.set_epoch(0)
        shares.append(torch.cat(list(loader)))
        order.set_epoch(1)
        assert len(loader) == 3 and not torch.equal(torch.cat(list(loader)), shares[-1])
    assert torch.cat(shares).sort().values.tolist() == indices.tolist()
    drawn = torch.utils.data.WeightedRandomSampler([0.0] * 9 + [1.0], 6)
    assert plain(list(DataLoader(ring(200), indices, Given(), sampler=drawn, batch_size=4))) == [[109] * 4, [109] * 2]
    batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(range(10)), 4, drop_last=True)
    loader = DataLoader(ring(200), indices, Given(), batch_sampler=batches, num_workers=2)
    assert [len(batch) for batch in loader] == [4, 4] and len(loader) == 2
