"""Exported programs that are called without torch's module: as right, as careful, and in fewer microseconds."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

import dglite
from dglite import DGLError, DGLGraph
from dglite.nn import GraphConv, RelGraphConv, SAGEConv, SumPooling
from tests.test_serving import MODELS, block, homogeneous
from tests.versions import exports

pytestmark = exports


def loaded(program: Any) -> Any:
    """Return the program after a way through a file."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return dglite.load_program(file)


def calls_of_module(serve: Any) -> list[None]:
    """Return a list that grows whenever a program calls torch's module."""
    calls, module = list[None](), serve._module

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return module(*args, **kwargs)

    serve._module = call
    return calls


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_it_computes_what_the_model_does(name: str, portable: bool) -> None:
    torch.manual_seed(0)
    kind, arguments = MODELS[name]
    model = kind().eval()
    serve = loaded(dglite.export(model, *arguments(2), portable=portable))
    calls = calls_of_module(serve)
    for scale in (1, 3, 7):
        args = arguments(scale)
        of_tensors = pytree.tree_map(
            lambda x: dglite.to_tensors(x) if isinstance(x, DGLGraph) else x,
            args,
            is_leaf=lambda x: isinstance(x, DGLGraph),
        )
        result = serve(*(of_tensors if portable else args))
        torch.testing.assert_close(result, model(*args))
        assert not any(x.requires_grad for x in pytree.tree_leaves(result))
    assert not calls


@pytest.mark.parametrize("name", MODELS)
def test_inside_of_autocast_operators_get_operands_of_one_dtype(name: str) -> None:
    """torch's steps return bfloat16 there, beside which float32 edge weights were read as such: as foreign memory."""
    torch.manual_seed(0)
    kind, arguments = MODELS[name]
    model, args = kind().eval(), arguments(3)
    program = dglite.export(model, *arguments(2))
    expected = pytree.tree_leaves(model(*args))
    for serve in (dglite.load_program(program), program.module()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            results = pytree.tree_leaves(serve(*args))
        for result, want in zip(results, expected, strict=True):
            torch.testing.assert_close(
                result.float(), want, rtol=0.1, atol=0.1 * max(1.0, float(want.detach().abs().max()))
            )


def test_operators_inside_of_autocast_have_gradients_of_their_inputs_dtypes() -> None:
    src, dst = torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0, 2, 2])
    x, w = torch.rand(3, 4, requires_grad=True), torch.rand(4, 1).bfloat16().requires_grad_()
    call = torch.ops.dglite.spmm.default
    want = torch.zeros(3, 4).index_add(0, dst, x[src] * w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result, _ = call([x, w], src, dst, 3, 3, "sum 0 u0 e1 mul")
    torch.testing.assert_close(result, want.bfloat16(), rtol=0.02, atol=0.02)
    grads = torch.autograd.grad(result.float().sum(), (x, w))
    torch.testing.assert_close(grads, torch.autograd.grad(want.sum(), (x, w)), rtol=0.02, atol=0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(DGLError, match="float64 and float32"):
        call([x.double(), w.float()], src, dst, 3, 3, "sum 0 u0 e1 mul")


def test_export_inside_of_autocast_is_refused() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(DGLError, match="inside of the model's forward"):
        dglite.export(GraphConv(5, 2), homogeneous(), torch.randn(6, 5))


class OnFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = SAGEConv(3, 2, "mean")

    def forward(self, g: DGLGraph, bias: torch.Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        return {"out": self.layer(g, g.ndata["x"]) * g.ndata["w"] * scale + bias, "edges": [g.edata["e"] + 1, None]}


def featured(num_nodes: int, **features: torch.Tensor) -> DGLGraph:
    g = homogeneous(num_nodes, 2 * num_nodes)
    g.ndata["x"], g.ndata["w"] = torch.randn(num_nodes, 3), torch.randn(num_nodes, 1)
    g.edata["e"] = torch.randn(g.num_edges())
    g.ndata.update(features)
    return g


def test_features_options_and_results_of_any_kind() -> None:
    model = OnFeatures().eval()
    serve = loaded(dglite.export(model, featured(5), torch.randn(5, 2), kwargs={"scale": 2.0}))
    calls = calls_of_module(serve)
    for num_nodes in (5, 9):
        g, bias = featured(num_nodes), torch.randn(num_nodes, 2)
        torch.testing.assert_close(serve(g, bias, scale=2.0), model(g, bias, scale=2.0))
    assert not calls
    with pytest.raises((DGLError, RuntimeError, AssertionError)):
        serve(g, bias, scale=3.0)
    for graph in (featured(4).int(), homogeneous(4, 8), block(), dglite.batch([featured(2), featured(2)])):
        with pytest.raises(DGLError, match="the program takes a graph described by"):
            serve(graph, torch.randn(4, 2), scale=2.0)
    for wrong, bias in [
        (featured(4, w=torch.randn(4, 2)), torch.randn(4, 2)),
        (featured(4, more=torch.randn(4, 2)), torch.randn(4, 2)),
        (featured(4), torch.randn(5, 2)),
        (featured(4), torch.randn(4, 3)),
        (featured(4), torch.randn(4)),
        (featured(4), None),
        (torch.randn(4, 3), torch.randn(4, 2)),
    ]:
        before = len(calls)
        with pytest.raises((DGLError, RuntimeError, AssertionError, ValueError, TypeError)):
            serve(wrong, bias, scale=2.0)
        assert len(calls) == before + 1  # torch's module says what is wrong
    with pytest.raises((DGLError, RuntimeError, ValueError, TypeError)):
        serve(g, scale=2.0)


def test_wrong_structure_is_refused_before_a_kernel_reads_it() -> None:
    serve = dglite.load_program(dglite.export(GraphConv(5, 2), homogeneous(), torch.randn(6, 5)))
    with pytest.raises(DGLError, match="no in-edge"):
        serve(dglite.graph(([0], [1]), num_nodes=3), torch.randn(3, 5))
    pool = dglite.load_program(dglite.export(SumPooling(), dglite.batch([homogeneous()] * 2), torch.randn(12, 5)))
    with pytest.raises((DGLError, RuntimeError), match=r"segments of lengths|to be equal to 18, but got 17"):
        pool(dglite.batch([homogeneous()] * 3), torch.randn(17, 5))
    serve = dglite.load_program(dglite.export(lambda b, x: dglite.ops.copy_u_sum(b, x), block(), torch.randn(7, 5)))
    with pytest.raises((DGLError, RuntimeError, AssertionError)):
        serve(block(), torch.randn(6, 5))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("num_types", "num_edges"), [(3, 9), (30, 200)])
def test_sums_by_type_choose_by_the_graph_they_are_called_with(num_types: int, num_edges: int, weighted: bool) -> None:
    """Once for each basis, or once for each pair of node and type, whichever is less."""
    model = RelGraphConv(3, 2, num_types, "basis", 2).eval()

    def arguments(num_edges: int) -> Any:
        g = homogeneous(6, num_edges)
        types = torch.arange(g.num_edges()) % num_types
        norm = [torch.rand(g.num_edges(), 1)] if weighted else []
        return g, torch.randn(6, 3), types, *norm

    serve = loaded(dglite.export(model, *arguments(12)))
    g, x, types, *norm = arguments(num_edges)
    torch.testing.assert_close(serve(g, x, types, *norm), model(g, x, types, *norm))
    with pytest.raises(DGLError, match="type"):
        serve(g, x, types + num_types, *norm)
    with pytest.raises((DGLError, RuntimeError, AssertionError)):
        serve(g, x, types[1:], *norm)


def test_inputs_in_trees_of_other_classes() -> None:
    class Pair(NamedTuple):
        left: torch.Tensor
        right: torch.Tensor

    class Total(nn.Module):
        def forward(self, pair: Pair, more: dict[str, torch.Tensor]) -> torch.Tensor:
            return pair.left + 2 * pair.right + 3 * sum(more.values())

    x, y, z = torch.rand(3, 4)
    for more in ({"z": z, "a": x}, OrderedDict(z=z, a=x)):
        serve = dglite.load_program(dglite.export(Total(), Pair(x, y), more))
        torch.testing.assert_close(serve(Pair(x, y), more), x + 2 * y + 3 * (z + x))


class Tagged(torch.Tensor):
    """A tensor of a class of its own."""


def test_where_torch_looks_on_its_module_is_called() -> None:
    model = GraphConv(5, 2)
    g, x = homogeneous(), torch.randn(6, 5)
    serve = dglite.load_program(dglite.export(model, g, x))
    calls = calls_of_module(serve)
    expected = model(g, x).detach()
    with FlopCounterMode(display=False):
        torch.testing.assert_close(serve(g, x), expected)
    torch.testing.assert_close(serve(g, x.as_subclass(Tagged)).as_subclass(torch.Tensor), expected)
    assert len(calls) == 2
    torch.testing.assert_close(torch.compile(serve, backend="eager")(g, x), expected)


def test_a_program_that_writes_to_its_buffers_writes() -> None:
    model = nn.BatchNorm1d(3)
    serve = loaded(dglite.export(model, torch.randn(4, 3)))
    for _ in range(2):
        x = torch.randn(9, 3)
        torch.testing.assert_close(serve(x), model(x))
    torch.testing.assert_close(serve.exported.state_dict["running_mean"], model.running_mean)


def test_threads_share_a_program_and_a_graph() -> None:
    model, g = GraphConv(5, 2), homogeneous(20, 60)
    serve = dglite.load_program(dglite.export(model, g, torch.randn(20, 5)))
    xs = [torch.randn(20, 5) for _ in range(4)]
    expected, wrong = [model(g, x).detach() for x in xs], list[int]()

    def work(i: int) -> None:
        for _ in range(50):
            if not torch.equal(serve(g, xs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(DGLError, match=r"a file of torch\.export\.save or an exported program, got GraphConv"):
        dglite.load_program(GraphConv(2, 2))
