"""Summaries of models and profiles: what is counted is what ran, and nothing is left behind."""

from __future__ import annotations

import html
import logging
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import function as fn
from dglite.errors import DGLError
from dglite.nn import GATConv, GraphConv, SAGEConv
from dglite.ops import devices
from dglite.ops import run as ops_run
from dglite.ops import sparse as ops_sparse
from dglite.scheduler.execute import HANDLERS
from tests import forked

pytestmark = pytest.mark.usefixtures("one_library")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GraphConv(6, 8, activation=torch.relu), GATConv(8, 4, 2)])
        self.sage, self.drop, self.unused = SAGEConv(8, 4, "mean"), nn.Dropout(0.5), nn.Linear(3, 3)

    def forward(self, g: dglite.DGLGraph, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.layers[0](g, x)
        x = self.layers[1](g, self.drop(x)).flatten(1)
        return self.sage(g, x) * scale


def graph() -> dglite.DGLGraph:
    g = dglite.add_self_loop(dglite.rand_graph(50, 200))
    g.ndata["h"], g.edata["w"] = torch.randn(50, 6), torch.rand(g.num_edges(), 1)
    return g


def state_of_the_library() -> list[Any]:
    return [
        dict(vars(dglite.DGLGraph)),
        dict(HANDLERS),
        ops_sparse.run_spmm,
        ops_sparse.run_cached,
        devices.Cpu.__dict__["kernels"],
        devices.Gpu.__dict__["kernels"],
        {name for name in vars(devices.active) if name == "to_numpy"},
    ]


# -- summary ----------------------------------------------------------------------------------------------------------
def test_a_fused_kernel_names_the_sum_that_it_goes_on_with() -> None:
    g = dglite.add_self_loop(graph())
    layer = dglite.nn.GraphConv(6, 3, activation=torch.relu)
    kernels = str(dglite.summary(layer, g, torch.randn(50, 6)))
    assert "then where((((sum * v2) + g3) <= 0.0)" in kernels


def test_a_row_for_each_layer() -> None:
    net, g = Net(), graph()
    result = dglite.summary(net, g, g.ndata["h"], scale=2.0)
    rows = {row.name: row for row in result.layers if row.depth < 3}
    assert [result.layers[0].kind, result.layers[0].output, result.layers[0].depth] == ["Net", "[50, 4]", 0]
    assert rows["0"].parameters == 6 * 8 + 8 and rows["0"].output == "[50, 8]" and rows["1"].output == "[50, 2, 4]"
    assert [kernel[:10] for kernel in rows["0"].kernels] == ["g-SpMM sum"] and rows["1"].kernels == ["attention"]
    assert rows["unused"].calls == 0 and rows["0"].bytes > 0 and rows["drop"].calls == 1
    assert result.parameters == sum(p.numel() for p in net.parameters()) == result.trainable
    assert result.seconds >= rows["0"].seconds > 0 and f"graph of {g.num_edges()} edges" in result.inputs[0]


def test_the_text_is_a_table() -> None:
    text = str(dglite.summary(Net(), graph(), torch.randn(50, 6)))
    head, *rest = text.splitlines()
    assert head.split() == "layer output parameters kernels read and written time".split()
    assert "unused: Linear" in text and "not called" in text and "parameters, " in rest[-3]
    assert "Net" in dglite.summary(Net(), graph(), torch.randn(50, 6))._repr_html_()


def test_shared_and_fixed_parameters_are_counted_once() -> None:
    net = Net()
    net.again = net.layers[0]
    net.layers[0].weight.requires_grad_(False)
    result = dglite.summary(net, graph(), torch.randn(50, 6))
    assert result.parameters == sum(p.numel() for p in net.parameters())
    assert result.parameters - result.trainable == 48 and "48 of them not trained" in str(result)


def test_depth_hides_inner_modules() -> None:
    g, x = graph(), torch.randn(50, 6)
    assert [row.depth for row in dglite.summary(Net(), g, x, depth=0).layers] == [0]
    everything = dglite.summary(Net(), g, x, depth=None)
    assert len(everything.layers) == len(list(Net().modules()))


def test_nothing_is_left_behind() -> None:
    net, g, x = Net(), graph(), torch.randn(50, 6)
    net.sage.eval()
    before, modes = state_of_the_library(), [module.training for module in net.modules()]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    dglite.summary(net, g, x)
    assert torch.equal(torch.rand(3), expected)
    assert [module.training for module in net.modules()] == modes and state_of_the_library() == before
    assert not [m for m in net.modules() if "forward" in vars(m)]
    with pytest.raises(Exception, match="graph"):
        dglite.summary(net, x, x)
    assert state_of_the_library() == before and not [m for m in net.modules() if "forward" in vars(m)]
    assert [module.training for module in net.modules()] == modes


def test_a_model_of_blocks_and_types() -> None:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = SAGEConv(6, 3, "mean")

        def forward(self, blocks: list[dglite.DGLGraph], x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"node": self.first(blocks[0], x)}

    block = dglite.to_block(graph())
    result = dglite.summary(Blocks(), [block], torch.randn(50, 6))
    assert result.layers[0].output == "{node: [50, 3]}" and result.inputs[0].startswith("(block of")


def test_no_model() -> None:
    with pytest.raises(DGLError, match=r"summary\(model, g, x\); got DGLGraph"):
        dglite.summary(graph(), Net())


def test_models_of_numpy() -> None:
    code = (
        "import numpy as np, dglite; from dglite.nn import GraphConv\n"
        "g = dglite.add_self_loop(dglite.rand_graph(9, 20))\n"
        "found = dglite.summary(GraphConv(4, 2), g, np.ones((9, 4), np.float32))\n"
        "assert found.layers[0].output == '[9, 2]' and found.parameters == 10, found\n"
        "assert found.layers[0].kernels, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "DGLITE_BACKEND": "numpy"})


# -- profile ----------------------------------------------------------------------------------------------------------
def events_of(measured: Any, kind: str) -> dict[str, Any]:
    return {event.name: event for event in measured.events if event.kind == kind}


def test_methods_and_kernels_are_counted() -> None:
    g = graph()
    with dglite.profile() as measured:
        for _ in range(3):
            g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
        g.apply_edges(fn.u_dot_v("h", "h", "s"))
        g.push([0, 1], fn.copy_u("h", "m"), fn.sum("m", "some"))
    methods, kernels = events_of(measured, "method"), events_of(measured, "kernel")
    assert {name: event.calls for name, event in methods.items()} == {
        "update_all(u_mul_e('h', 'w', 'm'), sum('m', 'out'))": 3,
        "apply_edges(u_dot_v('h', 'h', 's'))": 1,
        "push(copy_u('h', 'm'), sum('m', 'some'))": 1,
    }
    (times,) = (event for name, event in kernels.items() if name.startswith("g-SpMM sum((u0 * e1))"))
    assert times.calls == 3 and times.bytes == 3 * 4 * (50 * 6 + g.num_edges() + 50 * 6)
    assert any("dot" in name for name in kernels) and 0 < times.seconds < measured.seconds
    shown = [event.seconds for event in measured.events]
    assert shown == sorted(shown, reverse=True)


def test_gradients_are_measured_too() -> None:
    g = graph()
    g.ndata["h"].requires_grad_()
    with dglite.profile() as measured:
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
        g.ndata["out"].sum().backward()
    assert sum(event.calls for event in events_of(measured, "kernel").values()) == 2


def test_functions_that_are_not_fused_say_why() -> None:
    def smallest(nodes: Any) -> dict[str, Any]:
        return {"out": nodes.mailbox["m"].sort(1)[0][:, 0]}

    g = graph()
    with dglite.profile() as measured:
        g.update_all(fn.copy_u("h", "m"), smallest)
        g.update_all(lambda edges: {"m": edges.src["h"] * edges.data["w"]}, fn.sum("m", "fused"))
    functions = events_of(measured, "function")
    (name,) = functions
    assert "smallest" in name and functions[name].note.startswith("not fused: it reads the mailbox")
    assert functions[name].note in str(measured) and html.escape(functions[name].note) in measured._repr_html_()


def test_layers_are_measured_and_the_text_is_a_table() -> None:
    g, net = graph(), Net()
    with dglite.profile() as measured:
        net(g, g.ndata["h"]).sum().backward()
    assert events_of(measured, "kernel")["attention"].calls >= 2
    assert "share" in str(measured) and "in all" in str(measured)
    with dglite.profile() as nothing:
        pass
    assert nothing.events == [] and "in all" in str(nothing)


def test_everything_is_put_back_also_after_an_error() -> None:
    before, g = state_of_the_library(), graph()
    with pytest.raises(KeyError), dglite.profile() as measured:
        g.update_all(fn.copy_u("none", "m"), fn.sum("m", "out"))
    assert state_of_the_library() == before and ops_sparse.run_spmm is ops_run.run_spmm
    assert [event.calls for event in measured.events if event.kind == "method"] == [1]
    with dglite.profile() as outer:
        with dglite.profile() as inner:
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    counts = [sum(event.calls for event in events_of(p, "method").values()) for p in (outer, inner)]
    assert counts == [2, 1] and state_of_the_library() == before


def test_results_are_the_same_while_it_is_measured() -> None:
    g, net = graph(), Net().eval()
    expected = net(g, g.ndata["h"])
    with dglite.profile():
        assert torch.equal(net(g, g.ndata["h"]), expected)


# -- log --------------------------------------------------------------------------------------------------------------
def test_the_log_names_each_unfused_function_once(caplog: pytest.LogCaptureFixture) -> None:
    def middle(nodes: Any) -> dict[str, Any]:
        return {"out": nodes.mailbox["m"].median(1)[0]}

    def noisy(edges: Any) -> dict[str, Any]:
        print(end="")
        return {"m": edges.src["h"]}

    g = graph()
    with caplog.at_level(logging.INFO, logger="dglite"):
        for _ in range(3):
            g.update_all(fn.copy_u("h", "m"), middle)
            g.update_all(noisy, fn.sum("m", "o"))
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "o"))
    message = [record.getMessage() for record in caplog.records]
    assert len(message) == 2 and all("is not fused: " in text and "test_summary.py" in text for text in message)
    assert (
        "reduce function" in message[0]
        and "middle" in message[0]
        and "message function" in message[1]
        and "noisy" in message[1]
    )


def test_the_log_is_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import dglite, torch, dglite.function as fn\n"
        "g = dglite.rand_graph(9, 20); g.ndata['h'] = torch.ones(9, 2)\n"
        "g.update_all(fn.copy_u('h', 'm'), lambda nodes: {'o': nodes.mailbox['m'].sort(1)[0][:, 0]})"
    )
    done = forked.run(forked.code, code)
    assert done.returncode == 0 and not done.stdout and not done.stderr
