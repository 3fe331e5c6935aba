"""Results and gradients have the same bits for any number of threads: see docs/message_passing.md."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import dynamic, nn, ops, optim
from dglite.backend import active
from dglite.errors import DGLError
from dglite.expr import Operand, Side
from dglite.kernels import compiled
from dglite.kernels.cpu.graph import panels, sparse
from dglite.nn import functional
from dglite.ops import core, devices
from dglite.ops.biases import bias_gradient
from dglite.ops.dropout import dropout
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests.kernels.attention_cases import tensors
from tests.nn.cases import CASES
from tests.nn.laws import Case, run
from tests.nn.test_laws import flat, gradients
from tests.ops.test_attention import attention

THREADS = (1, 2, 3, 5, 16)
NODES = 3000
KINDS = ["power law", "one row", "hub", "few rows", "tiny rows", "block", "no edges"]


@pytest.fixture(autouse=True)
def same_number_after() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def assert_same_bits(compute: Callable[[], Iterable[Any]], threads: Iterable[int] = THREADS) -> None:
    """Assert that ``compute`` returns the same tensors, bit by bit, with any number of threads."""
    first: list[torch.Tensor] = []
    for count in threads:
        torch.set_num_threads(count)
        tensors = [x.detach().clone() for x in compute() if x is not None]
        first = first or tensors
        assert len(first) == len(tensors) > 0
        for i, (x, y) in enumerate(zip(first, tensors, strict=True)):
            bits = (t.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8) for t in (x, y))
            same = torch.equal(*bits)
            assert same, f"tensor {i} of shape {tuple(x.shape)} differs with {count} threads by {(x - y).abs().max()}"


def with_gradients(function: Callable[..., torch.Tensor], *xs: torch.Tensor) -> list[torch.Tensor]:
    """Return a result, and the gradients of its product with numbers of no pattern."""
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in xs]
    out = function(*leaves)
    expected = [x for x in leaves if x.requires_grad]
    grad = torch.linspace(-1, 1, out.numel()).cos().reshape(out.shape).to(out.dtype)
    return [out, *torch.autograd.grad(out, expected, grad, allow_unused=True)]


def relation(kind: str, num_edges: int, index: str, seed: int = 0) -> Adjacency:
    """Return one of the kinds of graphs on which rows are cut, or tasks end in them."""
    rng = np.random.default_rng(seed)
    src, num_dst = rng.integers(0, NODES, num_edges), NODES
    if kind == "power law":
        dst = np.minimum(rng.zipf(1.3, num_edges) - 1, NODES - 1)
    elif kind == "one row":
        dst = np.full(num_edges, 7)
    elif kind == "hub":
        dst = np.where(rng.random(num_edges) < 0.6, 1000, rng.integers(0, NODES, num_edges))
    elif kind == "few rows":
        dst, num_dst = rng.integers(0, 5, num_edges), 5
    elif kind == "block":
        dst, num_dst = rng.integers(0, 300, num_edges), 301
    else:
        num_edges = num_edges if kind == "tiny rows" else 0
        src, dst = src[:num_edges], rng.integers(0, NODES, num_edges)
    return Adjacency.from_coo(NODES, num_dst, src.astype(index), dst.astype(index))


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(getattr(torch, dtype))


U0, U1, E1, V1 = Operand(Side.U, 0), Operand(Side.U, 1), Operand(Side.E, 1), Operand(Side.V, 1)
MESSAGES = {
    "copy": (U0, ()),
    "weight": (U0 * E1, ("e", 1)),
    "rows of edges": (U0 + E1, ("e", None)),
    "scaled by sources": (U0 * U1, ("u", 1)),
    "destination": (U0 / (V1 * V1 + 1.0), ("v", None)),
    "shared": (U0 * Operand(Side.G, 1), ("g", 1)),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(list(MESSAGES)),
    st.sampled_from(["sum", "mean", "max", "min", "logsumexp"]),
    st.sampled_from(["float32", "float64", "float16", "bfloat16"]),
    st.sampled_from(["int32", "int64"]),
    st.sampled_from([1, 5, 33, 64, 130]),
    st.sampled_from([3_000, 20_000, 60_000]),
)
def test_sums_over_edges_and_their_gradients(
    kind: str, message: str, reducer: str, dtype: str, index: str, width: int, num_edges: int
) -> None:
    adj = relation(kind, min(num_edges, 4_000_000 // width), index)
    expr, side = MESSAGES[message]
    operands = [values(NODES, width, dtype=dtype)]
    if side:
        rows = {"e": adj.num_edges, "u": NODES, "v": adj.num_dst, "g": 1}[side[0]]
        operands.append(values(rows, side[1] or width, dtype=dtype, seed=1))
    assert_same_bits(lambda: with_gradients(lambda *xs: core.spmm(adj, expr, Reducer(reducer), xs), *operands))


@pytest.mark.parametrize("kind", KINDS)
def test_panels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "near_cache", lambda: panels.Cache(1 << 17, 1 << 17, 1.6, 1 << 17))
    sparse.bind_spmm.cache_clear()
    adj = relation(kind, 60_000, "int64")
    for expr in (U0, U0 * E1, U0 * U1):
        operands = [values(NODES, 100)]
        operands += [] if expr is U0 else [values(NODES if expr == U0 * U1 else adj.num_edges, 1)]
        assert_same_bits(
            lambda expr=expr, operands=operands: with_gradients(
                lambda *xs: core.spmm(adj, expr, Reducer.SUM, xs), *operands
            )
        )
    sparse.bind_spmm.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [1, 3])
def test_edge_scores_and_softmax(kind: str, heads: int) -> None:
    adj = relation(kind, 40_000, "int64")
    x, y = values(NODES, heads, 8), values(adj.num_dst, heads, 8, seed=1)
    assert_same_bits(lambda: with_gradients(lambda *xs: core.sddmm(adj, U0 * V1, xs, dot=True), x, y))
    assert_same_bits(lambda: with_gradients(lambda x: core.edge_softmax(adj, x), values(adj.num_edges, heads)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", ["additive", "projected", "gatv2", "dot", "additive+edge"])
@pytest.mark.parametrize(("heads", "features"), [(1, 1), (2, 8)])
def test_attention(score: str, kind: str, heads: int, features: int) -> None:
    adj = relation(kind, 40_000, "int64")
    xs = [x.detach().float() for x in tensors(score, adj, heads, features)]
    how = attention(score, dropout=0.3)
    assert_same_bits(lambda: with_gradients(lambda x, *more: core.attention(adj, how, x, more), *xs))


@pytest.mark.parametrize("sizes", [[40_000], [39_000, 0, 1000], [20] * 2000])
@pytest.mark.parametrize("width", [1, 20])
def test_readouts(sizes: list[int], width: int) -> None:
    x = values(40_000, width)
    for reducer in ("sum", "mean", "max"):
        assert_same_bits(
            lambda reducer=reducer: with_gradients(lambda x: ops.segment_reduce(torch.tensor(sizes), x, reducer), x)
        )
    assert_same_bits(lambda: with_gradients(lambda x: ops.segment_softmax(torch.tensor(sizes), x), x))


@pytest.mark.parametrize(("rows", "width"), [(9000, 7), (300, 40), (100_001, 3), (50_000, 1)])
def test_losses_and_sums_of_columns(rows: int, width: int) -> None:
    x, labels = values(rows, width), torch.arange(rows) % width
    assert_same_bits(lambda: with_gradients(lambda x: functional.cross_entropy(x, labels), x))
    assert_same_bits(lambda: [active.sum(x, 0), active.sum(x, (0, 1)), active.sum(x, 0, keepdims=True)])
    many = values(max(rows, (1 << 18) // width + 1), width)
    assert_same_bits(lambda: [bias_gradient(many, None, True)[1], bias_gradient(many, many.relu(), True)[1]])


@pytest.mark.parametrize(("rows", "inner", "outer"), [(100_000, 5, 7), (5000, 60, 30), (30_000, 16, 1)])
def test_products_of_our_kernels(rows: int, inner: int, outer: int) -> None:
    kernels, item = compiled("rows.products"), 4
    x, grad, weight = values(rows, inner), values(rows, outer, seed=1), values(inner, outer)

    def compute() -> Iterator[torch.Tensor]:
        threads, shape = torch.get_num_threads(), (rows, inner, outer)
        out, nothing = torch.empty(rows, outer), (0, 0)
        given = [(x.data_ptr(), inner * item), (weight.data_ptr(), outer * item), nothing]
        kernels.product("float32", shape, [*given, (out.data_ptr(), outer * item)], True, threads)
        grads, turned = (
            [torch.empty(rows, inner), torch.empty(inner, outer), torch.empty(outer)],
            weight.t().contiguous(),
        )
        known = [(y.data_ptr(), y.stride(0) * item) for y in (grad, out, x, turned)]
        into = [(y.data_ptr(), y.stride(0) * item if y.dim() == 2 else 0) for y in grads]
        kernels.gradients("float32", shape, known, into, threads)
        yield from (out, *grads)

    assert_same_bits(lambda: list(compute()))


def test_typed_products_and_dropout() -> None:
    x, matrices, types = values(20_000, 12), values(4, 12, 6), torch.arange(20_000) * 7 % 4

    def dropped(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return dropout(x, 0.4)

    assert_same_bits(lambda: with_gradients(lambda x, w: ops.gather_mm(x, w, idx_b=types), x, matrices))
    assert_same_bits(lambda: with_gradients(dropped, x))


def graph_with_hub() -> dglite.DGLGraph:
    """Return a graph of nodes with an in-edge each, but for one node with a row so long that it is cut."""
    src, dst = relation("hub", 20_000, "int64").endpoints()
    return dglite.add_self_loop(dglite.graph((src, dst), num_nodes=NODES))


def single(value: Any) -> Any:
    """Return inputs as float32."""
    if isinstance(value, tuple | list):
        return type(value)(map(single, value))
    if isinstance(value, dict):
        return {key: single(x) for key, x in value.items()}
    is_double = isinstance(value, torch.Tensor) and value.dtype is torch.float64
    return value.detach().float().requires_grad_(value.requires_grad) if is_double else value


@pytest.mark.parametrize("case", [case for case in CASES if "graph" in case.graphs], ids=str)
def test_layers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch's own operations some depend on the number of threads: here they have one, our kernels any number."""
    g, layer = graph_with_hub(), case.layer().float()
    inputs = single(case.inputs(g))
    torch.set_num_threads(1)
    try:
        run(layer, g, inputs)
    except DGLError:
        pytest.skip("its inputs are those of one small graph")

    def compute(threads: int) -> list[torch.Tensor | None]:
        monkeypatch.setattr(devices.Cpu, "queue", threads)
        torch.manual_seed(1)
        result = run(layer, g, inputs)
        return [*flat(result), *gradients(result, layer, inputs)]

    counts = iter((1, 2, 5))
    assert_same_bits(lambda: compute(next(counts)), (1, 1, 1))


def test_vertex_programs() -> None:
    torch.manual_seed(0)
    chains = [dglite.graph((np.arange(1, n), np.arange(n - 1)), num_nodes=n) for n in np.arange(1, 60)]
    count = sum(g.num_nodes() for g in chains)
    cell = Recurrent()
    assert_same_bits(lambda: with_gradients(lambda x, *_: cell(chains, x), values(count, 24), *cell.parameters()))


class Recurrent(dynamic.VertexFunction):
    """A node's state is a function of its children's and of its own input."""

    def __init__(self) -> None:
        super().__init__(state=32)
        self.layer, self.deep = torch.nn.Linear(24, 32), torch.nn.Linear(32, 32)

    def forward(self) -> None:
        state = torch.tanh(self.layer(self.pull()) + self.deep(self.gather_all().sum()))
        self.scatter(state)
        self.push(state)


def test_lazy_batching() -> None:
    torch.manual_seed(0)
    layer, given = torch.nn.Linear(24, 40), values(700, 24)

    def compute() -> list[torch.Tensor]:
        x = given.clone().requires_grad_()
        rows = [torch.tanh(layer(row)) * torch.sigmoid(layer(row)) for row in dynamic.lazy(x)]
        out = torch.stack(dynamic.run(rows))
        return [out, *torch.autograd.grad(out, [x, *layer.parameters()], out.detach().cos())]

    assert_same_bits(compute)


NUMPY = """
import numpy as np
import dglite
from dglite import ops
from dglite.backend import active, toolkit

rng = np.random.default_rng(0)
src, dst = rng.integers(0, 3000, 60_000), np.where(rng.random(60_000) < 0.6, 7, rng.integers(0, 3000, 60_000))
g, first = dglite.graph((src, dst), num_nodes=3000), None
given = rng.standard_normal((3000, 33)).astype("float32"), rng.random((60_000, 1)).astype("float32")
for count in (1, 2, 3, 5, 16):
    active.set_num_threads(count)
    x, w = (toolkit.tensor(array, requires_grad=True) for array in given)
    out = ops.u_mul_e_sum(g, x, w)
    (out * out).sum().backward()
    tensors = [y.numpy().tobytes() for y in (out.detach(), x.grad, w.grad)]
    first = first or tensors
    assert tensors == first, count
"""


def test_the_numpy_backend() -> None:
    environment = {**os.environ, "DGLITE_BACKEND": "numpy"}
    done = subprocess.run([sys.executable, "-c", NUMPY], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sparse_optimizers() -> None:
    ids, grad = torch.arange(60_000) * 7 % 500, values(60_000, 8)

    def compute() -> list[torch.Tensor]:
        results = []
        for kind in (optim.SparseAdagrad, optim.SparseAdam):
            table = nn.NodeEmbedding(500, 8, f"bits {kind.__name__}", init_func=lambda x: x.fill_(0.5))
            optimizer = kind([table], lr=0.1)
            (table(ids) * grad).sum().backward()
            optimizer.step()
            results.append(table.weight)
        return results

    assert_same_bits(compute)
