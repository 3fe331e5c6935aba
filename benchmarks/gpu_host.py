"""What the host does for calls on a GPU: Python and torch's dispatch, without a GPU and without the work.

    python benchmarks/gpu_host.py [--quick]

Tensors of the CPU are taken for a GPU's, and kernels are started on a driver that returns at once, so results have no
values. On a graph this small torch's own operators take what they take to be dispatched; on a real GPU each takes some
microseconds more, so their number is given, too.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import parser, repeated, save, table
from torch.autograd.profiler import profile

import dglite
import dglite.function as fn
from dglite import nn, ops
from dglite.kernels.cuda.run import driver, launch
from dglite.ops import devices

NODES, EDGES, WIDTH, HEADS = 32, 128, 16, 8
TURNS = 25
Call = Callable[[], Any]
Case = tuple[Any, list[torch.Tensor], list[torch.Tensor]]
"""A function, the tensors that it is called with, and the parameters that it has."""


# -- a GPU that does nothing -------------------------------------------------------------------------------------------
STUB = """
static long launches = 0;
extern "C" long stub_launches() { return launches; }
extern "C" int cuLaunchKernel() { ++launches; return 0; }
extern "C" int cuLaunchCooperativeKernel() { ++launches; return 0; }
"""
ANSWERING = ("Get", "Retain", "LoadData")
"""What the names of functions have in them that write a number to their first argument; here always the same."""


class _Compiler:
    """Makes code of no kernel."""

    version, architectures = (12, 8), (90,)

    def compile(self, text: str, name: str, options: list[str], real: bool) -> bytes:
        return b"no code"


def install() -> Callable[[], int]:
    """Let operations on tensors of the CPU take the way to a GPU; return what tells how many kernels were started."""
    text = STUB
    for name in driver._SIGNATURES:
        if "Launch" not in name:
            body = "*answer = 9; " if any(word in name for word in ANSWERING) else ""
            text += f'extern "C" int {name}(int* answer) {{ {body}return 0; }}\n'
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder) / "driver.cpp", Path(folder) / "driver.so"
        source.write_text(text, encoding="utf-8")
        subprocess.run(["g++", "-shared", "-fPIC", "-O1", source, "-o", path], check=True)
        library = ctypes.CDLL(str(path))
    libraries = driver.Driver(library), _Compiler()
    launch._libraries = lambda: libraries
    launch.binary = lambda compiler, program, arch: b"no code"
    devices.RUNNERS["cpu"] = devices.RUNNERS["cuda"]
    torch.Tensor.is_cpu = False
    return library.stub_launches


# -- calls -------------------------------------------------------------------------------------------------------------
def graph_and_features() -> tuple[dglite.DGLGraph, torch.Tensor, torch.Tensor]:
    """Return a graph without idle nodes, features of its nodes, and a weight for each edge."""
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(NODES, (EDGES,), generator=generator) for _ in range(2))
    g = dglite.add_self_loop(dglite.graph((src, dst), num_nodes=NODES))
    return g, torch.zeros(NODES, WIDTH), torch.zeros(g.num_edges(), 1)


def operations() -> dict[str, Case]:
    """Return functions by name."""
    g, x, w = graph_and_features()
    heads, scores = torch.zeros(NODES, HEADS, 8), torch.zeros(NODES, HEADS)
    lengths = torch.full((8,), NODES // 8)
    calls: dict[str, tuple[Any, list[torch.Tensor]]] = {
        "`copy_u_sum`": (lambda x: ops.copy_u_sum(g, x), [x]),
        "`u_mul_e_sum`": (lambda x, w: ops.u_mul_e_sum(g, x, w), [x, w]),
        "`copy_u_max`": (lambda x: ops.copy_u_max(g, x), [x]),
        "`u_dot_v`": (lambda x, y: ops.u_dot_v(g, x, y), [x, x.clone()]),
        "`u_add_v`": (lambda x, y: ops.u_add_v(g, x, y), [x, x.clone()]),
        "`edge_softmax`": (lambda s: ops.edge_softmax(g, s), [torch.zeros(g.num_edges(), HEADS)]),
        "`gat_attention`": (lambda x, l, r: ops.gat_attention(g, l, r, x), [heads, scores, scores.clone()]),
        "`dot_attention`": (lambda x, y: ops.dot_attention(g, x, y), [heads, heads.clone()]),
        "`segment_reduce`, sum": (lambda x: ops.segment_reduce(lengths, x), [x]),
        "`update_all`, sum": (lambda x: _updated(g, x), [x]),
    }
    return {name: (call, tensors, []) for name, (call, tensors) in calls.items()}


def _updated(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["x"] = x
        g.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
        return g.ndata["h"]


def layers() -> dict[str, Case]:
    """Return layers by name."""
    g, x, _ = graph_and_features()
    relu = torch.nn.functional.relu
    modules = {
        "`GraphConv`": nn.GraphConv(WIDTH, WIDTH // 2, activation=relu),
        "`SAGEConv`, mean": nn.SAGEConv(WIDTH, WIDTH // 2, "mean", activation=relu),
        "`GATConv`": nn.GATConv(WIDTH, 8, HEADS),
        "`GINConv`": nn.GINConv(torch.nn.Linear(WIDTH, WIDTH), "sum"),
    }
    return {name: (lambda x, layer=layer: layer(g, x), [x], [*layer.parameters()]) for name, layer in modules.items()}


def parts(call: Any, tensors: list[torch.Tensor], parameters: list[torch.Tensor]) -> dict[str, Call]:
    """Return the forward pass without gradients, and forward and backward together."""
    inputs = [x.clone().requires_grad_() for x in tensors]
    gradient = torch.zeros_like(call(*tensors))

    def forward() -> None:
        with torch.no_grad():
            call(*tensors)

    return {"forward": forward, "step": lambda: torch.autograd.grad(call(*inputs), (*inputs, *parameters), gradient)}


def processor_time(call: Call, number: int) -> float:
    """Return the seconds of this thread that a call takes, the least of many turns: what else runs does not count."""
    repeated(call, 10)()
    turns = list[float]()
    for _ in range(TURNS):
        start = time.thread_time()
        repeated(call, number)()
        turns.append((time.thread_time() - start) / number)
    return min(turns)


def counts(call: Call, started: Callable[[], int]) -> tuple[int, int]:
    """Return how many kernels of dglite's and operators of torch's a call starts, views and allocations apart."""
    before = started()
    call()
    kernels = started() - before
    with profile(use_kineto=False) as seen:
        call()
    light = (
        "empty",
        "view",
        "reshape",
        "expand",
        "slice",
        "select",
        "transpose",
        "as_strided",
        "detach",
        "t",
        "narrow",
    )
    names = [event.name.removeprefix("aten::") for event in seen.function_events if event.name.startswith("aten::")]
    return kernels, len([name for name in names if name.split(".")[0] not in light])


def show(records: list[dict[str, Any]]) -> str:
    """Return one row per call."""
    rows = [
        [r["call"], *(f"{1e6 * r[part]:.0f}" for part in ("forward", "step")), str(r["kernels"]), str(r["operators"])]
        for r in records
    ]
    return table(["call", "forward, us", "with backward, us", "kernels", "torch's operators"], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    started = install()
    torch.set_num_threads(1)
    number = 10 if quick else 40
    records = []
    for name, case in {**operations(), **layers()}.items():
        calls = parts(*case)
        seconds = {part: processor_time(run, number) for part, run in calls.items()}
        kernels, operators = counts(calls["step"], started)
        records.append({"call": name, "kernels": kernels, "operators": operators, **seconds})
    print(show(records))
    if not quick:
        save("gpu_host", {"records": records})


if __name__ == "__main__":
    main()
