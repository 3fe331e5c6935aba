"""An apply function behind a sum or mean: part of its kernel where it is element-wise, and always as it was written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dglite
from dglite import function as fn
from dglite.ops import core
from dglite.scheduler import record

BIAS = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
SLOPE = torch.nn.Parameter(torch.randn((), dtype=torch.float64))


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record on graphs of any size; return the formulas that became part of a kernel."""
    monkeypatch.setattr(record, "WORTH_RECORDING", 0)
    results: list[Any] = []
    run = core.spmm_then

    def counted(adj: Any, expr: Any, reducer: Any, operands: Any, after: Any) -> Any:
        results.append(after)
        return run(adj, expr, reducer, operands, after)

    monkeypatch.setattr(core, "spmm_then", counted)
    return results


def graph(idtype: torch.dtype = torch.int64, block: bool = False) -> Any:
    """Multi-edges, a self-loop, a node of degree 0."""
    torch.manual_seed(0)
    ends = torch.tensor([0, 0, 1, 3, 3, 2, 2]), torch.tensor([1, 1, 2, 3, 0, 3, 1])
    g = dglite.create_block(ends, 5, 4) if block else dglite.graph(ends, num_nodes=5)
    g = g.int() if idtype is torch.int32 else g
    for frame, size in ((g.srcdata, 5), (g.dstdata, 4 if block else 5)):
        frame["h"] = torch.randn(5, size, dtype=torch.float64).t().requires_grad_()
        frame["norm"] = torch.rand(size, 1, dtype=torch.float64) + 0.5
        frame["x"] = torch.randn(size, 5, dtype=torch.float64, requires_grad=True)
        frame["n"] = torch.arange(size)
    g.edata["w"] = torch.randn(7, 1, dtype=torch.float64, requires_grad=True)
    return g


FUSED = {
    "relu": lambda nodes: {"y": torch.relu(nodes.data["y"] * nodes.data["norm"] + BIAS)},
    "residual": lambda nodes: {"y": nodes.data["y"] + nodes.data["x"]},
    "elu of a difference": lambda nodes: {"z": F.elu(nodes.data["x"] * 0.5 - nodes.data["y"] / nodes.data["norm"])},
    "leaky": lambda nodes: {"y": F.leaky_relu(nodes.data["y"] * 2 + nodes.data["x"] * BIAS, 0.1)},
    "tanh": lambda nodes: {"y": (nodes.data["y"] + BIAS).tanh()},
    "sigmoid": lambda nodes: {"y": torch.sigmoid(nodes.data["y"])},
    "several factors": lambda nodes: {
        "y": nodes.data["y"] * nodes.data["norm"] / 3 - nodes.data["y"] + nodes.data["x"]
    },
    "another type is looked at": lambda nodes: {"y": nodes.data["y"] * (nodes.data["n"].double().mean() + 1)},
}
OTHERS = {
    "factors that want gradients": lambda nodes: {"y": nodes.data["y"] * nodes.data["x"] * SLOPE + nodes.data["y"]},
    "product": lambda nodes: {"y": nodes.data["y"] @ torch.ones(5, 3, dtype=torch.float64)},
    "not linear": lambda nodes: {"y": nodes.data["y"] * nodes.data["y"] + BIAS},
    "two results": lambda nodes: {"y": nodes.data["y"] + BIAS, "z": nodes.data["y"] * 2},
    "as it is": lambda nodes: {"z": nodes.data["y"]},
    "a branch on values": lambda nodes: {"y": nodes.data["y"] * (1 if nodes.data["y"].sum() > 0 else -1)},
    "rows of others": lambda nodes: {"y": nodes.data["y"] - nodes.data["y"].mean(0)},
    "no sum at all": lambda nodes: {"z": nodes.data["x"] * 2},
    "more columns": lambda nodes: {"y": nodes.data["y"][:, None] + torch.ones(3, 5, dtype=torch.float64)},
    "truths": lambda nodes: {"y": nodes.data["y"] > 0},
    "softmax": lambda nodes: {"y": torch.softmax(nodes.data["y"] + BIAS, -1)},
    "clamp": lambda nodes: {"y": nodes.data["y"].clamp(-0.5, 0.5)},
}


def results(g: Any, message: Any, reduce: Any, function: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the node features after a call, and gradients of all that takes part."""
    leaves = [g.srcdata["h"], g.dstdata["x"], g.edata["w"], BIAS, SLOPE]
    with g.local_scope():
        g.update_all(message, reduce, function)
        results = {name: g.dstdata[name] for name in g.dstdata if name in ("y", "z")}
    torch.manual_seed(1)
    loss = sum((torch.randn_like(x) * x).sum() for x in results.values() if x.is_floating_point() and x.requires_grad)
    if not torch.is_tensor(loss):
        return results, []
    return results, list(torch.autograd.grad(loss, leaves, allow_unused=True, create_graph=True))


@pytest.mark.parametrize("name", [*FUSED, *OTHERS])
@pytest.mark.parametrize("reduce", [fn.sum("m", "y"), fn.mean("m", "y"), fn.max("m", "y")], ids=str)
def test_it_is_what_the_function_says(name: str, reduce: Any, recorded: list[Any], monkeypatch: Any) -> None:
    function = {**FUSED, **OTHERS}[name]
    for message in (
        fn.copy_u("h", "m"),
        fn.u_mul_e("h", "w", "m"),
        lambda edges: {"m": edges.src["h"] * edges.data["w"]},
    ):
        g = graph()
        result, grads = results(g, message, reduce, function)
        assert bool(recorded) == (name in FUSED and reduce.name != "max"), recorded
        recorded.clear()
        monkeypatch.setattr(record, "WORTH_RECORDING", 99)
        expected, target = results(g, message, reduce, function)
        monkeypatch.setattr(record, "WORTH_RECORDING", 0)
        assert result.keys() == expected.keys() and not recorded
        for key in result:
            torch.testing.assert_close(result[key], expected[key])
        for ours, theirs in zip(grads, target, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", FUSED)
def test_gradients_of_any_order(name: str) -> None:
    g = graph()

    def function(h: Any, x: Any, w: Any) -> Any:
        with g.local_scope():
            g.srcdata["h"], g.dstdata["x"], g.edata["w"] = h, x, w
            g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "y"), FUSED[name])
            return g.dstdata["z" if "z" in g.dstdata else "y"]

    inputs = g.ndata["h"], g.ndata["x"], g.edata["w"]
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize(("idtype", "block"), [(torch.int32, False), (torch.int64, True)])
def test_ids_blocks_and_parts_of_a_graph(idtype: torch.dtype, block: bool, recorded: list[Any]) -> None:
    g = graph(idtype, block)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"), FUSED["relu"])
    whole = g.dstdata["y"]
    assert recorded.pop()
    nodes = torch.tensor([1, 3])
    g.pull(
        nodes.to(idtype),
        fn.copy_u("h", "m"),
        fn.sum("m", "y"),
        lambda nodes: {"y": -torch.relu(nodes.data["y"] * nodes.data["norm"] + BIAS)},
    )
    torch.testing.assert_close(g.dstdata["y"][nodes], -whole[nodes])
    assert torch.equal(g.dstdata["y"][[0, 2]], whole[[0, 2]])


def test_a_graph_without_edges() -> None:
    g = dglite.graph(([], []), num_nodes=3)
    g.ndata["h"], g.ndata["norm"] = torch.ones(3, 5, dtype=torch.float64), torch.ones(3, 1, dtype=torch.float64)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"), FUSED["relu"])
    torch.testing.assert_close(g.ndata["y"], torch.relu(BIAS).expand(3, 5))


def test_randomness_writing_and_side_effects_are_as_written(recorded: list[Any]) -> None:
    g, seen = graph(), []

    def noisy(nodes: Any) -> Any:
        return {"y": F.dropout(nodes.data["y"] + BIAS, 0.5)}

    def writing(nodes: Any) -> Any:
        y = nodes.data["y"]
        y += 1
        return {"y": y}

    def telling(nodes: Any) -> Any:
        seen.append(float(nodes.data["y"].sum()))
        return {"y": nodes.data["y"] + BIAS}

    for function in (noisy, writing, telling):
        torch.manual_seed(3)
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"), function)
        torch.manual_seed(3)
        nodes = type("Nodes", (), {"data": {"y": dglite.ops.copy_u_sum(g, g.ndata["h"])}})
        expected = function(nodes)["y"]
        torch.testing.assert_close(g.ndata["y"], expected)
    assert len(seen) == 2 and not recorded


def test_an_error_leaves_the_graph_as_it_was() -> None:
    g = graph()
    before = dict(g.ndata)
    with pytest.raises(ZeroDivisionError):
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"), lambda nodes: {"y": nodes.data["y"] + 1 / 0})
    with pytest.raises(dglite.DGLError, match="expected a dict"):
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"), lambda nodes: nodes.data["y"] + 1)
    assert dict(g.ndata).keys() == before.keys()


def test_explain_tells_what_is_in_the_kernel(recorded: list[Any]) -> None:
    g = graph()
    text = str(dglite.explain(g, fn.copy_u("h", "m"), fn.sum("m", "y"), FUSED["relu"]))
    assert "in the kernel: where" in text and "v.norm" in text and "apply in the kernel" in text
    text = str(dglite.explain(g, fn.copy_u("h", "m"), fn.sum("m", "y"), OTHERS["product"]))
    assert "not element by element" in text and not recorded and "y" not in g.ndata
