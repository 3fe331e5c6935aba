"""Whole operations, with their gradients, on the emulated GPU: what they choose, allocate and start for one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import leaky_relu

from dglite.backend import active
from dglite.expr import Operand, Side, evaluate, operands_of
from dglite.kernels.cuda.graph.attention import dropout_multipliers
from dglite.ops import core, devices, fallback, scores
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.attention_cases import tensors
from tests.kernels.cuda.emulated import GPU, LIMITS, needs_compiler, on_gpu, prepare
from tests.kernels.sparse_cases import assert_close, graph
from tests.pairs import cases
from tests.versions import defers_scores

pytestmark = needs_compiler
SEED = 2**63 + 11
ATTENTION = cases(
    ["additive", "projected", "gatv2", "dot"],
    ["float32", "float64", "bfloat16"],
    [(1, 7), (8, 8), (2, 160)],
    [0.0, 0.4],
    [False, True],
    list(LIMITS),
)
U, E, V = Operand(Side.U, 0), Operand(Side.E, 1), Operand(Side.V, 2)
MESSAGES = {"u * e": U * E, "u * e - v": U * E - V, "exp(u) / v": U.call("exp") / Operand(Side.V, 1)}
SPARSE = cases(list(MESSAGES), ["sum", "mean", "max", "min", "dot"], ["float32", "float64"], list(LIMITS))


def star() -> Adjacency:
    coo = graph("star")
    return Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)


def rounded(xs: list[torch.Tensor], dtype: str, kept: str) -> list[torch.Tensor]:
    """Return halves of ``xs``, as precise as ``dtype`` is, in ``kept``, with gradients."""
    return [(x.detach() / 2).to(getattr(torch, dtype)).to(getattr(torch, kept)).requires_grad_() for x in xs]


def with_gradients(out: torch.Tensor, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return ``out`` and the gradients of all inputs, as float64."""
    weight = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(out.dtype)
    return [tensor.double() for tensor in (out.detach(), *torch.autograd.grad((out * weight).sum(), xs))]


def attend(score: str, dtype: str, shape: tuple[int, int], dropout: float, weighted: bool) -> list[torch.Tensor]:
    """Return the result, the gradients of all inputs, and the result where no gradient is wanted."""
    adj = star()
    xs = rounded(tensors(score, adj, *shape, weighted), dtype, dtype)
    kind = {"gatv2": "GATV2", "dot": "DOT"}.get(score, "ADDITIVE")
    how = core.Attention(core.Score[kind], 0.2, 0.3, dropout, SEED, projected=score == "projected")
    count = len(how.operands)

    def run() -> torch.Tensor:
        return core.attention(adj, how, xs[0], xs[1:count], xs[count] if weighted else None)

    grads = with_gradients(run(), xs)
    with torch.no_grad():
        return [*grads, run().double()]


def attend_by_torch(score: str, dtype: str, shape: tuple[int, int], dropout: float, weighted: bool):
    """Return the same from torch's own operations, in float64 on the same rounded inputs."""
    adj = star()
    xs = rounded(tensors(score, adj, *shape, weighted), dtype, "float64")
    src, dst = (torch.from_numpy(ends.astype(np.int64)) for ends in adj.endpoints())
    x, first = xs[0], xs[1]
    if score == "dot":
        scores = 0.3 * (x[src] * first[dst]).sum(-1)
    elif score == "gatv2":
        scores = (xs[2] * leaky_relu(x[src] + first[dst], 0.2)).sum(-1)
    else:
        left, right = ((x * side).sum(-1) for side in xs[1:3]) if score == "projected" else xs[1:3]
        scores = leaky_relu(left[src] + right[dst], 0.2)
    weights = (scores - scores.max().detach()).exp()
    weights = weights / torch.zeros(adj.num_dst, shape[0], dtype=torch.float64).index_add(0, dst, weights)[dst]
    weights = weights * torch.from_numpy(reference.dropout_multipliers(np.arange(len(src)), shape[0], dropout, SEED))
    messages = weights[..., None] * x[src] * (xs[-1][:, None, None] if weighted else 1)
    out = torch.zeros(adj.num_dst, *shape, dtype=torch.float64).index_add(0, dst, messages)
    return [*with_gradients(out, xs), out.detach()]


def factors(message: str, dtype: str, kept: str) -> list[torch.Tensor]:
    """Return the operands of a message."""
    adj, generator = star(), torch.Generator().manual_seed(5)
    rows = {Side.U: adj.num_src, Side.E: adj.num_edges, Side.V: adj.num_dst}
    feats = {Side.U: (2, 4), Side.E: (2, 1), Side.V: (2, 4)}
    sides = [operand.side for operand in operands_of(MESSAGES[message])]
    shapes = [(rows[side], *feats[side]) for side in sides]
    return rounded([torch.rand(size, generator=generator, dtype=torch.float64) + 1 for size in shapes], dtype, kept)


def reduce(message: str, reducer: str, dtype: str) -> list[torch.Tensor]:
    """Return a g-SpMM, or a g-SDDMM for "dot", and its gradients."""
    expr, adj, xs = MESSAGES[message], star(), factors(message, dtype, dtype)
    out = core.sddmm(adj, expr, xs, dot=True) if reducer == "dot" else core.spmm(adj, expr, Reducer(reducer), xs)
    return with_gradients(out, xs)


def reduce_by_torch(message: str, reducer: str, dtype: str) -> list[torch.Tensor]:
    """Return the same from torch's own operations, in float64."""
    expr, adj, xs = MESSAGES[message], star(), factors(message, dtype, "float64")
    src, dst = (torch.from_numpy(ends.astype(np.int64)) for ends in adj.endpoints())
    rows = {Side.U: src, Side.E: torch.arange(adj.num_edges), Side.V: dst}
    taken = [x[rows[operand.side]] for x, operand in zip(xs, operands_of(expr), strict=True)]
    values = evaluate(expr, taken, active.functions)
    if reducer == "dot":
        return with_gradients(values.sum(-1, keepdim=True), xs)
    how = {"max": "amax", "min": "amin"}.get(reducer, reducer)
    start = torch.zeros(adj.num_dst, *values.shape[1:], dtype=torch.float64)
    return with_gradients(
        start.scatter_reduce(0, dst[:, None, None].expand_as(values), values, how, include_self=False), xs
    )


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernels of all cases at once."""

    def everything(runner) -> None:
        for limit in LIMITS:
            with on_gpu(runner, limit):
                for case in ATTENTION:
                    if case[-1] == limit:
                        attend(*case[:-1])
                for case in SPARSE:
                    if case[-1] == limit:
                        reduce(*case[:-1])

    prepare(everything)


@pytest.mark.parametrize(("score", "dtype", "shape", "dropout", "weighted", "limit"), ATTENTION)
def test_attention_and_its_gradients(score, dtype, shape, dropout, weighted, limit):
    with on_gpu(GPU, limit):
        result = attend(score, dtype, shape, dropout, weighted)
    want = attend_by_torch(score, dtype, shape, dropout, weighted)
    for actual, expected in zip(result, want, strict=True):
        assert_close(actual.numpy(), expected.numpy(), dtype)


@pytest.mark.parametrize(("message", "reducer", "dtype", "limit"), SPARSE)
def test_reductions_and_their_gradients(message, reducer, dtype, limit):
    with on_gpu(GPU, limit):
        result = reduce(message, reducer, dtype)
    want = reduce_by_torch(message, reducer, dtype)
    for actual, expected in zip(result, want, strict=True):
        assert_close(actual.numpy(), expected.numpy(), dtype)


def test_dropout_is_that_of_the_cpu():
    out = np.zeros((50, 6))
    dropout_multipliers("float64", 50, 6, 0.3, SEED, out.ctypes.data, GPU)
    np.testing.assert_array_equal(out, reference.dropout_multipliers(np.arange(50), 6, 0.3, SEED))


def test_segments():
    x = torch.rand(7, 4)
    with on_gpu():
        result = core.segment_reduce(np.array([3, 0, 4]), x, Reducer.MAX)
    torch.testing.assert_close(result[0], x[:3].max(0).values)
    assert (result[1] == 0).all()


def test_second_derivatives_exist():
    adj = Adjacency.from_coo(3, 2, np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]))
    logits = torch.rand(4, 1, dtype=torch.float64, requires_grad=True)
    with on_gpu():
        assert torch.autograd.gradgradcheck(lambda value: core.edge_softmax(adj, value), (logits,))


def call_tensors_those_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operations take tensors for a GPU's, and run on the emulated one."""
    monkeypatch.setattr(active, "on_cpu", lambda x: False)
    monkeypatch.setattr(devices, "_gpu", lambda device, stream: devices.Gpu(GPU))
    monkeypatch.setattr(active, "stream", lambda device: 0)
    monkeypatch.setattr(fallback, "lacks_kernels", lambda x: False)


def test_attention_with_a_part_of_the_edge_is_composed_on_a_gpu(monkeypatch):
    adj, how = star(), core.Attention(core.Score.ADDITIVE, dropout=0.3, seed=SEED, edges=True, edge_features=True)
    xs = tensors("additive+edge+feat", adj, 2, 4)

    def run() -> list[torch.Tensor]:
        parts = core.attention_with_edges(adj, how, xs[0], xs[1:])
        return with_gradients(torch.cat([part.flatten() for part in parts]), xs)

    want = run()
    call_tensors_those_of_a_gpu(monkeypatch)
    for actual, expected in zip(run(), want, strict=True):
        assert_close(actual.numpy(), expected.numpy(), "float64")


@defers_scores
def test_scores_wait_on_a_gpu(monkeypatch):
    """Attention in steps is one kernel on a GPU, too, and equals the host's."""
    monkeypatch.setattr(scores, "WORTH_DEFERRING", 1)
    adj, weighted = star(), U * E
    x, left, right = tensors("additive", adj, 2, 8, False)

    def steps() -> list[torch.Tensor]:
        weights = core.edge_softmax(adj, core.edge_scores(adj, (left[..., None], right[..., None]), 0.2))
        recipe = active.recipe_of(weights)
        return [recipe, *with_gradients(core.spmm(adj, weighted, Reducer.SUM, (x, weights)), [x, left, right])]

    recipe, *want = steps()
    call_tensors_those_of_a_gpu(monkeypatch)
    of_gpu, *result = steps()
    assert of_gpu is not None and recipe is not None
    for one, other in zip(result, want, strict=True):
        assert_close(one.numpy(), other.numpy(), "float64")
