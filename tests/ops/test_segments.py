"""Segments and readouts as operators: in compiled programs, with gradients, refusals and empty segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
from dglite import DGLError, ops
from dglite.nn import AvgPooling, GraphConv, MaxPooling, Set2Set, SumPooling
from dglite.ops.segments import TracedSegments, _SegmentReduce, segments
from dglite.opspec import Reducer
from tests.versions import compiles_whole

REDUCERS = ["sum", "mean", "max", "min"]


def _values(num_rows: int, *feat: int) -> torch.Tensor:
    """Return values of which some are equal, as the gradient of a maximum has to choose between them."""
    torch.manual_seed(num_rows)
    return torch.randint(-3, 4, (num_rows, *feat)).double().requires_grad_()


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("lengths", [[2, 0, 3], [0, 0], [], [5]])
def test_the_operator_gives_what_the_kernel_gives(reducer: str, lengths: list[int]) -> None:
    x = _values(sum(lengths), 2, 3)
    want = ops.segment_reduce(lengths, x, reducer)
    result = TracedSegments(torch.tensor(lengths, dtype=torch.int64), len(x)).reduce(x, Reducer(reducer))
    assert torch.equal(result, want)
    outer = torch.randn_like(want)
    ours, theirs = (torch.autograd.grad((y * outer).sum(), x)[0] for y in (result, want))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("reducer", REDUCERS)
def test_torch_finds_the_registration_sound(reducer: str) -> None:
    lengths = torch.tensor([2, 0, 3], dtype=torch.int32)
    x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(
        torch.ops.dglite.segment_reduce.default, ([x], lengths, lengths, 5, 3, f"{reducer} {int(reducer[0] == 'm')}")
    )


@pytest.mark.parametrize("reducer", REDUCERS)
def test_composed_of_the_librarys_own_operations_it_is_the_same(reducer: str) -> None:
    lengths, x = torch.tensor([2, 0, 3]), _values(5, 2)
    op = _SegmentReduce.create(TracedSegments(lengths, 5), f"{reducer} 0", (True,))
    torch.testing.assert_close(op.composed(x), ops.segment_reduce(lengths, x, reducer))


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0, 0], [5]])
def test_weighted_sums_are_those_of_products(lengths: list[int]) -> None:
    x, weights = _values(sum(lengths), 2, 3), _values(sum(lengths), 1)
    want = ops.segment_reduce(lengths, x * weights[:, None])
    result = TracedSegments(torch.tensor(lengths), len(x)).weighted_sum(x, weights[:, None])
    torch.testing.assert_close(result, want)
    outer = torch.randn_like(want)
    ours, theirs = (torch.autograd.grad((y * outer).sum(), (x, weights)) for y in (result, want))
    torch.testing.assert_close(ours, theirs)


def test_torch_finds_weighted_sums_and_attention_sound() -> None:
    lengths = torch.tensor([2, 0, 3])
    x, weights = (torch.rand(5, n, dtype=torch.float64, requires_grad=True) for n in (2, 1))
    structure = lengths, lengths, 5, 3
    torch.library.opcheck(torch.ops.dglite.segment_reduce.default, ([x, weights], *structure, "sum 0 weighted"))
    queries = torch.rand(3, 1, 2, dtype=torch.float64)
    inputs = [x.detach()[:, None], queries, torch.ones((), dtype=torch.float64)]
    torch.library.opcheck(torch.ops.dglite.segment_attention.default, (inputs, *structure, "DOT"))


@pytest.mark.parametrize("sizes", [[2, 0, 3], [4], [0, 0]])
def test_attention_of_segments_is_one_operator_where_no_gradient_is_recorded(sizes: list[int]) -> None:
    torch._dynamo.reset()
    g, x = _batch(sizes)
    layer = Set2Set(4, 2, 1).double().requires_grad_(False)
    names = list[str]()

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        names.extend(str(node.target) for node in module.graph.nodes)
        return module.forward

    with torch._dynamo.config.patch(allow_rnn=True):
        torch.testing.assert_close(torch.compile(layer, backend=backend, fullgraph=True)(g, x.detach()), layer(g, x))
    assert sum("segment_attention" in name for name in names) == 2
    assert not any("segment_softmax" in name for name in names)


@pytest.mark.parametrize("lengths", [[2, 2], [-1, 6], [1.5, 3.5]])
def test_lengths_that_do_not_fit_are_refused_when_the_program_runs(lengths: list[Any]) -> None:
    with pytest.raises(DGLError, match="expected integers that sum to that"):
        TracedSegments(torch.tensor(lengths), 5).reduce(torch.ones(5, 1), Reducer.SUM)


def test_equal_lengths_have_one_structure() -> None:
    first, second = (_SegmentReduce.structure(*(torch.tensor([2, 1]),) * 2, 3, 2, True) for _ in range(2))
    assert first is second is segments(torch.tensor([2, 1]).numpy())


# -- compiled ----------------------------------------------------------------------------------------------------------
Function = Callable[[dglite.DGLGraph, torch.Tensor], torch.Tensor]


def _readout(op: str, weighted: bool = False) -> Function:
    def function(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"], g.ndata["w"] = x * 2, torch.sigmoid(x[:, :1])
            return getattr(dglite, op)(g, "h", *(["w"] if weighted else []))

    return function


def _edges(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.edata["m"] = ops.u_add_v(g, x, x)
        return dglite.broadcast_edges(g, dglite.mean_edges(g, "m")) * dglite.softmax_edges(g, "m")


def _segments(name: str) -> Function:
    return lambda g, x: ops.segment_reduce(g.batch_num_nodes(), x, name)


FUNCTIONS: dict[str, Function] = {
    **{op: _readout(op) for op in ("sum_nodes", "mean_nodes", "max_nodes", "softmax_nodes")},
    "weighted": _readout("sum_nodes", True),
    "weighted mean": _readout("mean_nodes", True),
    "edges": _edges,
    **{name: _segments(name) for name in (*REDUCERS, "logsumexp")},
    "segment softmax": lambda g, x: ops.segment_softmax(g.batch_num_nodes(), x),
    "broadcast": lambda g, x: dglite.broadcast_nodes(g, ops.segment_reduce(g.batch_num_nodes(), x)),
}


def _batch(sizes: list[int]) -> tuple[dglite.DGLGraph, torch.Tensor]:
    graphs = [dglite.graph((torch.arange(n), torch.arange(n).flip(0)), num_nodes=n) for n in sizes]
    return dglite.batch(graphs) if len(sizes) > 1 else graphs[0], _values(sum(sizes), 4)


@pytest.mark.parametrize("name", FUNCTIONS)
@compiles_whole
def test_compiled_readouts_are_one_program(name: str) -> None:
    torch._dynamo.reset()
    counter, function = CompileCounterWithBackend("aot_eager"), FUNCTIONS[name]
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for sizes in ([2, 1, 3], [4, 0, 2, 5], [1, 1], [3, 3, 3]):
        g, x = _batch(sizes)
        want, result = function(g, x), compiled(g, x)
        torch.testing.assert_close(result, want)
        outer = torch.randn_like(want)
        ours, theirs = (torch.autograd.grad((y * outer).sum(), x)[0] for y in (result, want))
        torch.testing.assert_close(ours, theirs)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("pool", [SumPooling, AvgPooling, MaxPooling, lambda: _readout("mean_nodes")])
@compiles_whole
def test_single_graphs_of_many_sizes_compile_at_most_twice(pool: Callable[[], Any]) -> None:
    torch._dynamo.reset()
    counter, pooling = CompileCounterWithBackend("eager"), pool()
    compiled = torch.compile(pooling, fullgraph=True, backend=counter)
    for size in range(2, 14):
        g, x = _batch([size])
        torch.testing.assert_close(compiled(g, x), pooling(g, x))
    assert counter.frame_count <= 2


@compiles_whole
def test_the_ordinary_graph_classifier_trains_compiled() -> None:
    torch._dynamo.reset()
    conv, out = GraphConv(4, 8).double(), torch.nn.Linear(8, 2).double()

    def model(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = torch.relu(conv(g, x))
            return out(dglite.mean_nodes(g, "h"))

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for sizes in ([2, 3], [4, 1, 2]):
        g, x = _batch(sizes)
        want, result = (
            torch.autograd.grad(f(g, x).square().sum(), [conv.weight, out.weight]) for f in (model, compiled)
        )
        torch.testing.assert_close(result, want)
