"""Linear maps by type as operators of programs: values beside einsum, gradients of any order, checks, reuse."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.nn.functional import typed_operators, typed_pairs
from dglite.structure.adjacency import Adjacency
from tests.versions import exports

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
NUM_TYPES = 3
FORMS = {
    "sum": ("y", ("x", "matrices")),
    "weighted sum": ("y", ("x", "matrices", "weight")),
    "scores": ("weight", ("x", "matrices", "y")),
    "to sources": ("x", ("matrices", "y", "weight")),
    "to matrices": ("matrices", ("x", "y", "weight")),
    "to matrices, without weights": ("matrices", ("x", "y")),
}


def _adjacency(name: str) -> Adjacency:
    """Return edges that share pairs of destinations, or of sources; or none. Nodes without edges, and edges twice."""
    src, dst = [0, 1, 1, 2, 2, 4, 0, 0], [0, 0, 3, 3, 0, 3, 0, 1]
    ends = {"destinations": (src, dst), "sources": (dst, src), "no edges": ([], [])}[name]
    return Adjacency.from_coo(6, 6, *(np.array(x, np.int64) for x in ends))


def _types(count: int) -> torch.Tensor:
    return torch.tensor([2, 0, 2, 2, 0, 2, 0, 2][:count], dtype=torch.int64)


def _random(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def _parts(adj: Adjacency, batch: tuple[int, ...]) -> dict[str, torch.Tensor]:
    shapes = {
        "x": (adj.num_src, *batch, 4),
        "matrices": (NUM_TYPES, *batch, 4, 2),
        "y": (adj.num_dst, *batch, 2),
        "weight": (adj.num_edges, *batch),
    }
    return {name: _random(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}


def _total(adj: Adjacency, types: torch.Tensor, parts: dict[str, torch.Tensor]) -> torch.Tensor:
    src, dst = (torch.from_numpy(x).long() for x in adj.endpoints())
    terms = torch.einsum("e...i,e...io,e...o->e...", parts["x"][src], parts["matrices"][types], parts["y"][dst])
    return (terms * parts["weight"]).sum() if "weight" in parts else terms.sum()


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", ["destinations", "sources", "no edges"])
@pytest.mark.parametrize("form", FORMS)
def test_parts_of_the_form_of_edges(form: str, name: str, batch: tuple[int, ...]) -> None:
    adj, (target, given) = _adjacency(name), FORMS[form]
    types, every = _types(adj.num_edges), _parts(adj, batch)
    if adj.num_edges:
        assert typed_pairs.edge_pairs(adj, types, NUM_TYPES).of_destinations == (name == "destinations")
    inputs = [every[part] for part in given]
    variable = {part: every[part] for part in (*given, target)}
    (want,) = torch.autograd.grad(
        _total(adj, types, variable), every[target], allow_unused=True, materialize_grads=True
    )

    def run(*xs: torch.Tensor) -> torch.Tensor:
        return typed_operators.typed_edges(adj, target, dict(zip(given, xs, strict=True)), types, NUM_TYPES)

    torch.testing.assert_close(run(*inputs), want)
    op = typed_operators._TypedEdges.parse(adj, f"{target} {','.join(given)} {NUM_TYPES}", (True,) * (len(inputs) + 1))
    torch.testing.assert_close(op.composed(*inputs, types), want)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=not adj.num_edges)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)
    if FULL:
        structure = (*adj.tensors, adj.num_src, adj.num_dst)
        torch.library.opcheck(torch.ops.dglite.typed_edges.default, ([*inputs, types], *structure, op.recipe()))


@pytest.mark.parametrize("types", [[1, 0, 2, 1, 1], [0, 0, 1, 1, 2], []], ids=["mixed", "in order", "none"])
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_rows_of_types(types: list[int], batch: tuple[int, ...]) -> None:
    numbers = torch.tensor(types, dtype=torch.int64)
    x, matrices = _random((len(types), *batch, 4), 0), _random((NUM_TYPES, *batch, 4, 2), 1)

    def run(x: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
        return typed_operators.typed_rows(x, numbers, matrices)

    want = torch.einsum("n...i,n...io->n...o", x, matrices[numbers])
    torch.testing.assert_close(run(x, matrices), want)
    assert torch.autograd.gradcheck(run, (x, matrices), fast_mode=not types)
    assert torch.autograd.gradgradcheck(run, (x, matrices), fast_mode=True)
    call = torch.ops.dglite.typed_rows.default
    if FULL:
        torch.library.opcheck(call, ([x, matrices], numbers, numbers, NUM_TYPES, 0, f"y x,matrices {NUM_TYPES}"))
    for target, parts, inputs in (("x", "matrices,y", (matrices, want)), ("matrices", "x,y", (x, want))):
        op = typed_operators._TypedRows.parse(
            typed_operators._RowTypes(numbers, NUM_TYPES), f"{target} {parts} {NUM_TYPES}", (True, True)
        )
        torch.testing.assert_close(op.composed(*inputs), op.forward(*inputs))


def test_groups_are_made_again_when_types_change() -> None:
    types, x, matrices = torch.tensor([0, 1, 0]), torch.eye(3), torch.arange(18.0).reshape(2, 3, 3)
    first = typed_operators._RowTypes(types, 2).groups()
    assert typed_operators._RowTypes(types, 2).groups() is first
    types[0] = 1
    torch.testing.assert_close(typed_operators.typed_rows(x, types, matrices)[0], matrices[1, 0])


def test_wrong_operands_are_refused() -> None:
    adj = _adjacency("destinations")
    types, parts = _types(8), _parts(adj, ())
    wrong = {
        "expected 6 rows": {"x": parts["x"][:5]},
        "float32 and float64": {"x": parts["x"].float()},
        r"then the axes \(\)": {"matrices": _random((NUM_TYPES, 2, 4, 2), 0)},
    }
    for message, changes in wrong.items():
        with pytest.raises(DGLError, match=message):
            given = {"x": parts["x"], "matrices": parts["matrices"], **changes}
            typed_operators.typed_edges(adj, "y", given, types, NUM_TYPES)
    given = {"x": parts["x"], "matrices": parts["matrices"]}
    for message, numbers in (
        ("expected an integer for each edge", types[:4]),
        ("expected an integer for each edge", types.double()),
        ("from 0 to 2", types + 1),
    ):
        with pytest.raises(DGLError, match=message):
            typed_operators.typed_edges(adj, "y", given, numbers, NUM_TYPES)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dglite.nn.RelGraphConv(4, 6, 3),
        lambda: dglite.nn.RelGraphConv(4, 6, 3, "bdd", 2),
        lambda: dglite.nn.GatedGraphConv(4, 4, 2, 3),
    ],
)
@exports
def test_a_program_has_one_operator_for_a_typed_sum(make: object) -> None:
    g = dglite.graph(([0, 1, 2, 3, 3], [1, 2, 0, 0, 3]))
    layer, x, types = make().eval(), torch.randn(4, 4), torch.tensor([0, 2, 1, 0, 2])  # type: ignore[operator]
    program = dglite.export(layer, g, x, types)
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "dglite.typed_edges.default" in targets
    other, y, kinds = dglite.rand_graph(9, 30), torch.randn(9, 4), torch.randint(3, (30,))
    torch.testing.assert_close(program.module()(other, y, kinds), layer(other, y, kinds).detach())
    with pytest.raises((DGLError, IndexError), match=r"from 0 to 2|out of range"):
        program.module()(other, y, kinds + 3)
