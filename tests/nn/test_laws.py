"""The laws that every layer keeps: its formula and gradients on every kind of graph; compiled, pickled, in bfloat16."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from typing import Any

import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.graph.scope import LocalScope
from tests.nn import dense
from tests.nn.cases import CASES
from tests.nn.laws import Case, graph_of, run
from tests.versions import compiles_whole

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def flat(inputs: Any) -> list[torch.Tensor]:
    """Return the tensors in inputs or results, pairs opened."""
    if isinstance(inputs, tuple | list):
        return list(itertools.chain.from_iterable(map(flat, inputs)))
    if isinstance(inputs, dict):
        return flat(list(inputs.values()))
    return [inputs] if isinstance(inputs, torch.Tensor) else []


def changed(value: Any, change: Any) -> Any:
    """Return inputs or results with every floating tensor changed."""
    if isinstance(value, tuple):
        return tuple(changed(x, change) for x in value)
    if isinstance(value, dict):
        return {key: changed(x, change) for key, x in value.items()}
    return change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def gradients(result: Any, layer: torch.nn.Module, inputs: Any) -> list[torch.Tensor | None]:
    """Return the gradients of all inputs and parameters, of a sum weighted by place."""
    total: Any = sum(
        (x * torch.cos(torch.arange(x.numel(), dtype=torch.float64)).reshape(x.shape).to(x.dtype)).sum()
        for x in flat(result)
    )
    expected = [x for x in (*flat(inputs), *layer.parameters()) if x.requires_grad]
    if not total.requires_grad:
        return [None] * len(expected)
    return list(torch.autograd.grad(total, expected, allow_unused=True))


def assert_same(ours: list[torch.Tensor | None], expected: list[torch.Tensor | None], **tolerance: float) -> None:
    for x, y in zip(ours, expected, strict=True):
        if x is None or y is None:  # nothing, or nothing but zeros: both say that there is no influence
            other = y if x is None else x
            assert other is None or not other.any()
        else:
            torch.testing.assert_close(x, y, **tolerance)


@pytest.mark.parametrize(
    ("case", "graph"), [(case, graph) for case in CASES for graph in case.graphs], ids=lambda x: str(x)
)
@pytest.mark.parametrize("ids", ["int32", "int64"])
def test_it_is_the_formula(case: Case, graph: str, ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise AssertionError("a layer opens a scope of a graph that others may use")

    monkeypatch.setattr(LocalScope, "__enter__", refuse)
    g, layer = graph_of(graph), case.layer()
    if g is not None:
        g = g.int() if ids == "int32" else g.long()
    inputs = case.inputs(g)
    ours, expected = run(layer, g, inputs), case.plain(layer, g, *inputs)
    torch.testing.assert_close(ours, expected)
    assert_same(gradients(ours, layer, inputs), gradients(expected, layer, inputs))
    assert not g.ndata and not g.edata if g is not None and g.is_homogeneous else True


@every_case
def test_gradients(case: Case) -> None:
    g, layer = graph_of(case.graphs[0]), case.layer()
    inputs = case.inputs(g)
    names, values = zip(*layer.named_parameters(), strict=True) if list(layer.parameters()) else ((), ())
    given = [x for x in flat(inputs) if x.requires_grad]

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        replaced = dict(zip(map(id, given), tensors, strict=False))
        mine = changed(inputs, lambda x: replaced.get(id(x), x))
        named = dict(zip(names, tensors[len(given) :], strict=True))
        return tuple(flat(torch.func.functional_call(layer, named, mine if g is None else (g, *mine))))

    # Along random directions: test_it_is_the_formula compares the gradient of each element.
    assert torch.autograd.gradcheck(function, (*given, *values), fast_mode=True)
    if case.smooth:
        assert torch.autograd.gradgradcheck(function, (*given, *values), fast_mode=True)


@every_case
def test_state_is_dgls(case: Case) -> None:
    state = case.make().state_dict()
    assert {name: tuple(x.shape) for name, x in state.items()} == dict(case.state)


@every_case
def test_copies_compute_the_same(case: Case) -> None:
    g, layer = graph_of(case.graphs[0]), case.layer()
    inputs = case.inputs(g)
    expected = run(layer, g, inputs)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = case.make().double().eval()
    loaded.load_state_dict(torch.load(file))
    for other in (loaded, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(run(other, g, inputs), expected)
    assert repr(layer)


@every_case
def test_autocast_is_close(case: Case) -> None:
    g, layer = graph_of(case.graphs[0]), case.layer().float()
    inputs = changed(case.inputs(g), lambda x: x.detach().float())
    expected = run(layer, g, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = run(layer, g, inputs)
    for x, y in zip(flat(result), flat(expected), strict=True):
        torch.testing.assert_close(x.float(), y, rtol=0.1, atol=0.1 * float(y.detach().abs().max() + 1))


@every_case
@compiles_whole
def test_compiled_it_is_one_program(case: Case) -> None:
    if not case.compiles:
        pytest.skip("plans by the graph while it runs")
    torch._dynamo.reset()
    g, layer = graph_of(case.graphs[0]), case.layer()
    inputs = case.inputs(g)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(allow_rnn=True):  # torch's compiler leaves LSTMs out otherwise
        ours, expected = run(compiled, g, inputs), run(layer, g, inputs)
    torch.testing.assert_close(ours, expected)
    assert_same(gradients(ours, layer, inputs), gradients(expected, layer, inputs))


@pytest.mark.parametrize("name", ["batch", "empty", "edgeless"])
@compiles_whole
def test_sort_pooling_compiles_for_graphs_of_any_size(name: str) -> None:
    torch._dynamo.reset()
    g, layer = graph_of(name), dglite.nn.SortPooling(3)
    x = dense.double(g.num_nodes(), 4).round()  # some are equal
    expected = layer(g, x)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(g, x), expected)


@compiles_whole
def test_a_compiled_program_checks_edge_weights() -> None:
    torch._dynamo.reset()
    g, layer = graph_of("graph"), dglite.nn.SGConv(4, 3).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match="square roots of sums of weights, which must be positive"):
        compiled(g, dense.double(g.num_nodes(), 4), -torch.ones(g.num_edges(), dtype=torch.float64))


@pytest.mark.parametrize(
    ("case", "which"), [(case, i) for case in CASES for i in range(len(case.refused))], ids=lambda x: str(x)
)
def test_wrong_inputs_are_refused(case: Case, which: int) -> None:
    make, text = case.refused[which]
    g, layer = graph_of(case.graphs[0]), case.layer()
    with pytest.raises((DGLError, IndexError, TypeError), match=text):
        run(layer, g, make(g))


@pytest.mark.parametrize("case", [case for case in CASES if case.graphs[0] != "none"], ids=str)
def test_what_is_missing_or_too_short_is_named(case: Case) -> None:
    g, layer = graph_of(case.graphs[0]), case.layer()
    inputs = case.inputs(g)
    for i, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor):
            continue
        for wrong in (None, x[:-1]):
            given = (*inputs[:i], wrong, *inputs[i + 1 :])
            try:
                run(layer, g, given)
                assert wrong is None, f"input {i} with a row less is no error"  # None: an argument may be left out
            except DGLError as error:
                assert type(layer).__name__ in str(error)


def test_there_is_a_case_for_every_layer() -> None:
    """Layers of a graph and features; those of another kind have tests of their own."""
    own = {"DotGatConv", "EdgeWeightNorm", "GATConv", "GATv2Conv", "GraphConv", "GroupRevRes", "SAGEConv"}
    own |= {"DenseChebConv", "DenseGraphConv", "DenseSAGEConv"}
    message = {type(case.make()).__name__ for case in CASES}
    folders = (dglite.nn.conv, dglite.nn.glob, dglite.nn.gt, dglite.nn.link)
    assert {name for folder in folders for name in folder.__all__} <= message | own
