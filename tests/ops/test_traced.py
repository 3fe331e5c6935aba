"""Operations as compilers see them: registered with torch, described without values, named by text."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
from dglite import ops
from dglite.backend import active
from dglite.errors import DGLError
from dglite.expr import Constant, Expr, Operand, Side
from dglite.ops import argmax, attention, core, degrees, epilogue, several, softmax, sparse
from dglite.ops.attention import Score
from dglite.ops.operands import broadcast
from dglite.ops.traced import GraphOp, expression_of, postfix
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from dglite.structure.traced import TracedAdjacency, relation_of
from tests.versions import compiles_whole

U0, E1, V2 = Operand(Side.U, 0), Operand(Side.E, 1), Operand(Side.V, 2)


def _adjacency() -> Adjacency:
    src, dst = np.array([0, 1, 1, 2, 2, 2, 4, 0]), np.array([0, 0, 0, 2, 3, 3, 1, 3])
    return Adjacency.from_coo(6, 5, src, dst)


def _random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, dtype=torch.float64) + 0.5


@pytest.mark.parametrize(
    "expr", [U0, U0 * E1, (U0 - V2) / (E1 + 0.1), -U0 * 2e-30, Constant(float("inf")) - U0, Operand(Side.E, 12) + 1]
)
def test_an_expression_survives_as_text(expr: Expr) -> None:
    assert expression_of(postfix(expr)) == expr


def test_shapes_broadcast_as_numpy_has_it() -> None:
    """Symbols cannot be hashed; an unhashable shape takes their way."""

    class Symbol(int):
        __hash__ = None  # type: ignore[assignment]

    for shapes in [((2, 3), (3,)), ((), (4,)), ((2, 1), (1, 3)), ((1,), (1, 1)), ((0,), (1,))]:
        symbols = tuple(tuple(Symbol(size) for size in shape) for shape in shapes)
        assert broadcast(symbols) == broadcast(shapes) == np.broadcast_shapes(*shapes)
    for misfit in (((Symbol(2),), (Symbol(3),)), ((2,), (3,))):
        with pytest.raises(DGLError, match=r"\(2,\) and \(3,\) do not broadcast"):
            broadcast(misfit)


# -- registered operations ---------------------------------------------------------------------------------------------
Make = Callable[[Adjacency], tuple[GraphOp, tuple[torch.Tensor, ...]]]


def _argmax_place(adj: Adjacency) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features of the sources and the entries that win their maximum."""
    x = _random(6, 3)
    op = sparse.Spmm(adj, U0, Reducer.MAX, (True,))
    op.forward(x)
    assert op.aux is not None
    return x, op.aux


def _gather(adj: Adjacency) -> tuple[GraphOp, tuple[torch.Tensor, ...]]:
    return argmax._Gather(argmax._Place(adj, Side.U), 1), _argmax_place(adj)


def _scatter(adj: Adjacency) -> tuple[GraphOp, tuple[torch.Tensor, ...]]:
    return argmax._Scatter(argmax._Place(adj, Side.E)), (_random(5, 3), _argmax_place(adj)[1])


def _attention(score: Score, adj: Adjacency, **flags: bool) -> tuple[GraphOp, tuple[torch.Tensor, ...]]:
    shapes = {
        "x": (6, 2, 3),
        "left": (6, 2),
        "right": (5, 2, 3) if score.of_features else (5, 2),
        "attn": (2, 3),
        "attn_right": (2, 3),
        "edge": (8, 2),
        "edge_feat": (8, 4),
    }
    how = core.Attention(score, **flags)
    inputs = [_random(*shapes[name]) for name in how.operands]
    inputs += [_random(8)] if flags.get("projected") else []
    inputs += [torch.tensor(0.3, dtype=torch.float64)]
    return attention.AttentionOp(adj, how, (True,) * len(inputs)), tuple(inputs)


SEVERAL = tuple((expr, reducer) for expr in (U0 * E1, U0 + E1) for reducer in (Reducer.MEAN, Reducer.MAX, Reducer.SUM))
OPERATIONS: dict[str, Make] = {
    "sum": lambda adj: (sparse.Spmm(adj, U0 * E1, Reducer.SUM, (True, True)), (_random(6, 2, 3), _random(8, 2, 1))),
    "mean": lambda adj: (sparse.Spmm(adj, U0, Reducer.MEAN, (True,)), (_random(6, 3),)),
    "max": lambda adj: (sparse.Spmm(adj, U0 * E1, Reducer.MAX, (True, True)), (_random(6, 3), _random(8, 3))),
    "min": lambda adj: (
        sparse.Spmm(adj, U0 / E1 * V2, Reducer.MIN, (True,) * 3),
        (_random(6, 3), _random(8, 1), _random(5, 3)),
    ),
    "max, not differentiated": lambda adj: (sparse.Spmm(adj, U0, Reducer.MAX, (False,), False), (_random(6, 3),)),
    "sddmm": lambda adj: (
        sparse._Sddmm(adj, U0 - Operand(Side.V, 1), False, (True, True)),
        (_random(6, 3), _random(5, 3)),
    ),
    "dot": lambda adj: (
        sparse._Sddmm(adj, U0 * Operand(Side.V, 1), True, (True, True)),
        (_random(6, 2, 3), _random(5, 2, 3)),
    ),
    "several": lambda adj: (
        several._SpmmSeveral(adj, SEVERAL, (True, True)),
        (_random(6, 3), _random(8, 1)),
    ),
    "edge softmax": lambda adj: (softmax.EdgeSoftmax(adj), (_random(8, 2),)),
    "edge softmax gradient": lambda adj: (softmax.EdgeSoftmaxGradient(adj), (_random(8, 2), _random(8, 2))),
    "gather": _gather,
    "scatter": _scatter,
    "epilogue": lambda adj: (
        epilogue._SpmmEpilogue(adj, U0 * E1, Reducer.SUM, (True, True, True), (True,) * 4),
        (_random(6, 3), _random(8, 1), _random(1, 3), _random(5, 3)),
    ),
    "epilogue of a mean": lambda adj: (
        epilogue._SpmmEpilogue(adj, U0, Reducer.MEAN, (True, False, False), (True,) * 2),
        (_random(6, 3), _random(1, 3)),
    ),
    **{f"attention, {score.name}": partial(_attention, score) for score in Score},
    "attention, projected, of edges, weighted": partial(_attention, Score.ADDITIVE, projected=True, edges=True),
    "attention with edges' features": partial(_attention, Score.ADDITIVE, edges=True, edge_features=True),
    "degree scale": lambda adj: (
        degrees._DegreeScale(adj, core.DEGREE_SCALES["1 / sqrt(out)"], "float32", torch.device("cpu")),
        (),
    ),
    "edges but loops": lambda adj: (degrees._EdgesButLoops(adj, "edges", "float32", torch.device("cpu")), ()),
    "sums of edges but loops": lambda adj: (degrees._EdgesButLoops(adj, "sums", "float64", torch.device("cpu")), ()),
    "require in-edges": lambda adj: (degrees._RequireInEdges(adj), ()),
}


Structure = tuple[torch.Tensor, torch.Tensor, int, int]


def _call(op: GraphOp, adj: Adjacency) -> tuple[Any, Structure, str]:
    return getattr(torch.ops.dglite, op.name).default, (*adj.tensors, adj.num_src, adj.num_dst), op.recipe()


@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_finds_the_registration_sound(name: str) -> None:
    adj = Adjacency.from_coo(6, 5, *(np.array(ends) for ends in ([0, 1, 1, 2, 2, 2, 4, 0], [0, 0, 4, 2, 3, 3, 1, 3])))
    op, inputs = OPERATIONS[name](adj)
    differentiable = name not in ("max, not differentiated",)
    inputs = [x.requires_grad_(differentiable) if x.is_floating_point() else x for x in inputs]
    call, structure, recipe = _call(op, adj)
    torch.library.opcheck(call, (inputs, *structure, recipe))


@pytest.mark.parametrize(
    "name", [name for name in OPERATIONS if "loops" not in name and not name.startswith(("degree", "require"))]
)
def test_a_registered_operation_gives_what_the_eager_one_gives(name: str) -> None:
    adj = _adjacency()
    op, inputs = OPERATIONS[name](adj)
    call, structure, recipe = _call(op, adj)
    result, _ = call(list(inputs), *structure, recipe)
    assert torch.equal(result, op.forward(*inputs))
    if name == "max, not differentiated":
        return
    floats = [x.detach().clone().requires_grad_() for x in inputs if x.is_floating_point()]
    rest = [x for x in inputs if not x.is_floating_point()]

    def run(*xs: torch.Tensor) -> torch.Tensor:
        return call([*xs, *rest], *structure, recipe)[0]

    assert torch.autograd.gradcheck(run, floats, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, floats, fast_mode=True)


def test_the_reverse_of_a_traced_structure_is_that_of_the_structure() -> None:
    adj, x = _adjacency(), _random(5, 2)
    reverse = TracedAdjacency(*adj.tensors, adj.num_src, adj.num_dst).reverse()
    result = core.spmm(reverse, U0, Reducer.SUM, (x,))
    assert torch.equal(result, core.spmm(adj.reverse(), U0, Reducer.SUM, (x,)))
    assert relation_of(*reverse.tensors, reverse.num_src, reverse.num_dst) is adj.reverse()
    assert adj.reverse().tensors == adj.tensors[::-1]


def test_a_gradient_needs_the_tensors_only() -> None:
    adj = _adjacency()
    x = _random(6, 2).requires_grad_()
    call, structure, recipe = _call(sparse.Spmm(adj, U0, Reducer.SUM, (True,)), adj)
    result, _ = call([x], *structure, recipe)
    want = torch.bincount(torch.from_numpy(adj.endpoints()[0]).long(), minlength=6)[:, None].expand(6, 2)
    del adj
    gc.collect()
    result.sum().backward()
    assert torch.equal(x.grad, want.double())


# -- from tensors to structures ----------------------------------------------------------------------------------------
def test_the_structure_of_tensors_is_made_once_and_again_when_they_change() -> None:
    src, dst = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
    first = relation_of(src, dst, 3, 3)
    assert relation_of(src, dst, 3, 3) is first
    assert relation_of(dst, src, 3, 3) is first.reverse()
    assert relation_of(src.view(3), dst, 3, 3) is first
    assert relation_of(src, dst, 4, 3) is not first
    assert relation_of(src[:2], dst[:2], 3, 3).num_edges == 2
    src[0] = 2
    second = relation_of(src, dst, 3, 3)
    assert second.endpoints()[0].tolist() == [2, 1, 2]
    assert first.endpoints()[0].tolist() == [0, 1, 2]


def test_both_ends_may_lie_in_one_tensor() -> None:
    ends = torch.tensor([[0, 1, 2], [1, 2, 0]])
    first = relation_of(ends[0], ends[1], 3, 3)
    assert relation_of(ends[0], ends[1], 3, 3) is first
    watched = weakref.ref(first)
    del ends, first
    gc.collect()
    assert watched() is None


def test_tensors_in_inference_mode_are_compared_by_value() -> None:
    with torch.inference_mode():
        src, dst = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
        first = relation_of(src, dst, 3, 3)
        assert relation_of(src, dst, 3, 3) is first
        src[0] = 2
        assert relation_of(src, dst, 3, 3).endpoints()[0].tolist() == [2, 1, 2]


def test_a_structure_lives_no_longer_than_its_graph() -> None:
    adj = _adjacency()
    tensors, watched = adj.tensors, weakref.ref(adj)
    assert relation_of(*tensors, 6, 5) is adj
    del adj
    gc.collect()
    assert watched() is None
    assert relation_of(*tensors, 6, 5).num_edges == 8


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        ([0, 3], [0, 1], "source node"),
        ([0, 1], [0, -1], "destination node"),
        ([0, 1], [0], "2 source nodes but 1 destination"),
        ([0.0, 1.0], [0, 1], "expected a list of integers"),
        ([[0], [1]], [0, 1], "expected a list of integers"),
    ],
)
def test_a_program_does_not_read_foreign_memory(src: Any, dst: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        torch.ops.dglite.spmm([torch.ones(3, 2)], torch.tensor(src), torch.tensor(dst), 3, 3, "sum 0 u0")


def test_a_program_checks_its_operands_when_it_runs() -> None:
    src, dst = torch.tensor([0, 1]), torch.tensor([1, 2])
    with pytest.raises(DGLError, match="expected 3 rows, one per source node"):
        torch.ops.dglite.spmm([torch.ones(2, 2)], src, dst, 3, 3, "sum 0 u0")
    with pytest.raises(DGLError, match="dtype int64"):
        torch.ops.dglite.spmm([torch.ones(3, 2).long()], src, dst, 3, 3, "sum 0 u0")
    with pytest.raises(DGLError, match="float32 and float64"):
        torch.ops.dglite.spmm([torch.ones(3, 2), torch.ones(2, 1).double()], src, dst, 3, 3, "sum 0 u0 e1 mul")


def test_wrong_operands_are_refused_when_described() -> None:
    adj = _adjacency()
    call, structure, recipe = _call(sparse.Spmm(adj, U0, Reducer.SUM, (True,)), adj)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(DGLError, match="expected 6 rows, one per source"):
        call([torch.zeros(7, 2)], *structure, recipe)


# -- compiled functions ------------------------------------------------------------------------------------------------
FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "copy_u_sum": (ops.copy_u_sum, ((6, 3),)),
    "copy_e_mean": (ops.copy_e_mean, ((8, 3),)),
    "u_mul_e_max": (ops.u_mul_e_max, ((6, 3), (8, 1))),
    "u_div_e_min": (ops.u_div_e_min, ((6, 3), (8, 3))),
    "u_dot_v": (ops.u_dot_v, ((6, 2, 3), (5, 2, 3))),
    "e_sub_v": (ops.e_sub_v, ((8, 3), (5, 1))),
    "copy_u": (ops.copy_u, ((6, 3),)),
    "edge_softmax": (ops.edge_softmax, ((8, 2),)),
    "edge_softmax by source": (lambda g, x: ops.edge_softmax(g, x, norm_by="src"), ((8, 2),)),
    "gspmm": (lambda g, x, y: ops.gspmm(g, "add", "mean", x, y), ((6, 3), (8, 1))),
    "gsddmm": (lambda g, x, y: ops.gsddmm(g, "mul", x, y, "u", "e"), ((6, 3), (8, 3))),
}


def _bipartite() -> dglite.DGLGraph:
    src, dst = _adjacency().endpoints()
    return dglite.heterograph({("user", "buys", "item"): (src.tolist(), dst.tolist())}, {"user": 6, "item": 5})


@compiles_whole
def test_functions_compile_in_a_process_that_computes_with_numpy_too() -> None:
    g = _bipartite()
    ops.copy_u_sum(g, np.ones((g.num_src_nodes(), 2), np.float32))
    assert active.guest is not None
    torch._dynamo.reset()
    x = torch.rand(g.num_src_nodes(), 2)
    compiled = torch.compile(lambda x: ops.copy_u_sum(g, x), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), ops.copy_u_sum(g, x))


@pytest.mark.parametrize("name", FUNCTIONS)
@compiles_whole
def test_a_function_compiles_without_a_break_forward_and_backward(name: str) -> None:
    torch._dynamo.reset()
    function, shapes = FUNCTIONS[name]
    g = _bipartite()

    def step(*xs: torch.Tensor) -> torch.Tensor:
        return function(g, *(x * 2 for x in xs)).sin()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        xs = [_random(*shape).requires_grad_() for shape in shapes]
        want, result = step(*xs), compiled(*xs)
        torch.testing.assert_close(result, want)
        outer = torch.randn_like(want)
        for ours, theirs in zip(
            torch.autograd.grad((result * outer).sum(), xs), torch.autograd.grad((want * outer).sum(), xs), strict=True
        ):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["copy_u_sum", "u_mul_e_max", "edge_softmax"])
@compiles_whole
def test_rows_may_be_symbols(name: str) -> None:
    """Graphs that differ from call to call: at most one more compilation, to a program for any of them."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    function, _ = FUNCTIONS[name]
    compiled = torch.compile(lambda g, *xs: function(g, *xs), fullgraph=True, backend=counter)
    rng = np.random.default_rng(0)
    for num_src, num_dst, num_edges in [(6, 5, 8), (9, 4, 17), (30, 12, 40), (7, 100, 53), (41, 13, 77)]:
        adj = Adjacency.from_coo(
            num_src, num_dst, rng.integers(0, num_src, num_edges), rng.integers(0, num_dst, num_edges)
        )
        rows = {"copy_u_sum": (num_src,), "u_mul_e_max": (num_src, num_edges), "edge_softmax": (num_edges,)}[name]
        xs = [_random(count, 3).requires_grad_() for count in rows]
        want, result = function(adj, *xs), compiled(adj, *xs)
        torch.testing.assert_close(result, want)
        for ours, theirs in zip(
            torch.autograd.grad(result.sum(), xs), torch.autograd.grad(want.sum(), xs), strict=True
        ):
            torch.testing.assert_close(ours, theirs)
    assert counter.frame_count <= 2
