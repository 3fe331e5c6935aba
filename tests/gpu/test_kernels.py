"""The real thing: kernels compiled by NVRTC and run on a GPU, through torch's tensors. ``make gpu``.

Skipped where there is no GPU. The same kernels run on an emulated GPU in tests/kernels/cuda.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

# First, so that nothing else is imported in vain.
if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

import dglite
from dglite import nn
from dglite.expr import Operand, Side
from dglite.kernels.cuda.graph.structure import Structure
from dglite.kernels.cuda.sample.number import DeviceNumbering
from dglite.kernels.cuda.sample.sample import Counters, Ids, sample_neighbors
from dglite.ops import core, devices
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.cuda import test_operations as operations
from tests.kernels.cuda import test_sparse as sparse
from tests.kernels.sparse_cases import assert_close, expression, graph, operands

CUDA = torch.device("cuda", torch.cuda.current_device())


def runner():
    """Return what starts kernels on torch's current stream."""
    return devices.device_of(torch.empty(0, device=CUDA)).queue


def on_cuda(values: list[np.ndarray], dtype: str) -> list[torch.Tensor]:
    return [torch.from_numpy(value).to(CUDA, getattr(torch, dtype)) for value in values]


def relation(kind: str) -> tuple[Adjacency, object]:
    coo = graph(kind)
    return Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst), coo


@pytest.mark.parametrize(("op", "reducer", "dtype", "index", "shape", "kind", "limit"), sparse.SPMM)
def test_spmm_equals_the_oracle(op, reducer, dtype, index, shape, kind, limit):
    expr, (adj, coo) = expression(op), relation(kind)
    xs = on_cuda(operands(expr, coo, sparse.SHAPES[shape]), dtype)
    result = core.spmm(adj, expr, Reducer(reducer), xs)
    assert result.device == CUDA and result.dtype == xs[0].dtype
    rounded = [x.double().cpu().numpy() for x in xs]
    want = reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded)
    assert_close(result.double().cpu().numpy(), want, dtype)


@pytest.mark.parametrize(("op", "dot", "dtype", "index", "shape", "kind", "limit"), sparse.SDDMM)
def test_sddmm_equals_the_oracle(op, dot, dtype, index, shape, kind, limit):
    expr, (adj, coo) = expression(op), relation(kind)
    xs = on_cuda(operands(expr, coo, sparse.SHAPES[shape]), dtype)
    result = core.sddmm(adj, expr, xs, dot)
    want = reference.sddmm(expr, coo.src, coo.dst, [x.double().cpu().numpy() for x in xs], dot)
    assert_close(result.double().cpu().numpy(), want, dtype)


@pytest.mark.parametrize(("score", "dtype", "shape", "dropout", "weighted", "limit"), operations.ATTENTION)
def test_attention_and_its_gradients(score, dtype, shape, dropout, weighted, limit, monkeypatch):
    want = operations.attend_by_torch(score, dtype, shape, dropout, weighted)
    there = operations.rounded
    monkeypatch.setattr(
        operations, "rounded", lambda xs, *kinds: [x.detach().to(CUDA).requires_grad_() for x in there(xs, *kinds)]
    )
    monkeypatch.setattr(torch, "linspace", _on_cuda(torch.linspace))
    for actual, expected in zip(operations.attend(score, dtype, shape, dropout, weighted), want, strict=True):
        assert_close(actual.cpu().numpy(), expected.numpy(), dtype)


@pytest.mark.parametrize(("message", "reducer", "dtype", "limit"), operations.SPARSE)
def test_reductions_and_their_gradients(message, reducer, dtype, limit, monkeypatch):
    want = operations.reduce_by_torch(message, reducer, dtype)
    there = operations.rounded
    monkeypatch.setattr(
        operations, "rounded", lambda xs, *kinds: [x.detach().to(CUDA).requires_grad_() for x in there(xs, *kinds)]
    )
    monkeypatch.setattr(torch, "linspace", _on_cuda(torch.linspace))
    for actual, expected in zip(operations.reduce(message, reducer, dtype), want, strict=True):
        assert_close(actual.cpu().numpy(), expected.numpy(), dtype)


def _on_cuda(function):
    return lambda *args, **more: function(*args, device=CUDA, **more)


def test_nothing_but_torch_is_needed():
    runner()
    assert "cupy" not in sys.modules


def power_law(num_nodes: int = 20_000, num_edges: int = 400_000) -> Adjacency:
    """Return a graph in which one node has a fifth of all edges."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, num_nodes, num_edges), rng.integers(0, num_nodes, num_edges)
    dst[: num_edges // 5] = 7
    return Adjacency.from_coo(num_nodes, num_nodes, src, dst)


@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_hubs_and_determinism(reducer):
    """Every run of the same operation gives the same bits, rows that are cut among them, gradients too."""
    adj, x = power_law(), torch.randn(20_000, 48, device=CUDA, requires_grad=True)
    weights = torch.randn(400_000, 1, device=CUDA, requires_grad=True)
    product = Operand(Side.U, 0) * Operand(Side.E, 1)
    results = []
    for _ in range(2):
        out = core.spmm(adj, product, Reducer(reducer), (x, weights))
        results.append([out.detach(), *torch.autograd.grad(out.square().sum(), (x, weights))])
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)
    plain = [x.detach().cpu(), weights.detach().cpu()]
    assert_close(results[0][0].cpu().numpy(), core.spmm(adj, product, Reducer(reducer), plain).numpy(), "float32")


def test_attention_and_softmax_on_hubs():
    adj = power_law()
    x, left, right = (torch.randn(20_000, *feat, device=CUDA) for feat in ((4, 16), (4,), (4,)))
    how = core.Attention(core.Score.ADDITIVE, dropout=0.25, seed=3)
    want = core.attention(adj, how, x.cpu(), (left.cpu(), right.cpu()))
    assert_close(core.attention(adj, how, x, (left, right)).cpu().numpy(), want.numpy(), "float32")
    logits = torch.randn(400_000, 3, device=CUDA)
    want = core.edge_softmax(adj, logits.cpu())
    assert_close(core.edge_softmax(adj, logits).cpu().numpy(), want.numpy(), "float32")


def test_nothing_waits_for_the_gpu():
    """A call that synchronises cannot be captured."""
    adj, x = power_law(), torch.randn(20_000, 32, device=CUDA)
    copy = Operand(Side.U, 0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        want = core.spmm(adj, copy, Reducer.SUM, (x,))  # copies the structure, compiles
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream):
        out = core.spmm(adj, copy, Reducer.SUM, (x,))
    captured.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want)


def test_streams_side_by_side():
    """Work on several streams, with memory that comes and goes, is not mixed up."""
    adj, copy = power_law(), Operand(Side.U, 0)
    xs = [torch.full((20_000, 32), float(i), device=CUDA) for i in range(4)]
    want = [core.spmm(adj, copy, Reducer.MAX, (x,)) for x in xs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in xs]
    for _ in range(5):
        outs = []
        for stream, x in zip(streams, xs, strict=True):
            with torch.cuda.stream(stream):
                outs.append(core.spmm(adj, copy, Reducer.MAX, (x,)))
        torch.cuda.synchronize()
        assert all(torch.equal(out, expected) for out, expected in zip(outs, want, strict=True))


def test_sampling_and_numbering_are_those_of_the_cpu():
    from dglite.kernels.cpu.sample import sample as cpu

    gpu, rng = runner(), np.random.default_rng(1)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 60, 5000))])
    indices = rng.integers(0, 5000, indptr[-1])
    seeds, fanout, key = rng.permutation(5000)[:3000], 10, 99
    starts, offsets = np.zeros(3000, np.int64), np.zeros(3001, np.int64)
    rows = cpu.Rows(indptr, indices, np.zeros(0, np.int64), seeds, starts, offsets)
    cpu.row_bounds(rows, fanout, False, np.empty(4, np.int64))
    want = cpu.Choices(*(np.zeros(offsets[-1], np.int64) for _ in range(3)))
    cpu.uniform_rows(rows, fanout, 0, np.int64(key), want, 0, 3000)
    held, numbers = gpu.upload(seeds), gpu.upload(np.zeros(3, np.int64))
    structure, at = Structure.upload(gpu, indptr, indices), numbers.address
    result = sample_neighbors(gpu, structure, Ids(held.address, 3000), fanout, False, key, Counters(at, at + 8))
    for memory, expected in zip((result.far, result.near, result.edges), want, strict=True):
        np.testing.assert_array_equal(gpu.download(memory.address, offsets[-1], "int64"), expected)
    numbering = DeviceNumbering(gpu, Ids(held.address, 3000), result.room)
    places = numbering.add(Ids(result.far.address, result.room, at + 8), at + 16)
    missing, total, count = gpu.download(at, 3, "int64").tolist()
    assert (missing, total) == (0, offsets[-1])
    distinct, first, inverse = np.unique(np.concatenate([seeds, want[0]]), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    np.testing.assert_array_equal(gpu.download(places.address, total, "int64"), rank[inverse][3000:])
    assert count == len(distinct)


@pytest.mark.parametrize("layer", ["gcn", "gat", "sage"])
def test_layers_train_as_on_the_cpu(layer):
    torch.manual_seed(0)
    g = dglite.add_self_loop(dglite.graph((torch.randint(200, (2000,)), torch.randint(200, (2000,)))))
    make = {
        "gcn": lambda: nn.GraphConv(16, 8),
        "gat": lambda: nn.GATConv(16, 8, num_heads=2),
        "sage": lambda: nn.SAGEConv(16, 8, "mean"),
    }[layer]
    here = make()
    there = make().to(CUDA)
    there.load_state_dict(here.state_dict())
    x = torch.randn(200, 16)
    for module, graph_, features in ((here, g, x), (there, g.to(CUDA), x.to(CUDA))):
        module(graph_, features).square().mean().backward()
    for one, other in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), one.grad, rtol=1e-4, atol=1e-5)


def test_user_functions_run_fused():
    g = dglite.graph((torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 1]))).to(CUDA)
    g.ndata["h"] = torch.arange(6.0, device=CUDA).reshape(3, 2)
    g.edata["w"] = torch.ones(4, 1, device=CUDA) * 2
    g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["w"]}, lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
    assert g.ndata["h"].tolist() == [[8.0, 10.0], [12.0, 18.0], [0.0, 0.0]]
