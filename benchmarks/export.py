"""Exported programs: every layer of ``layers.py`` and whole models, in other processes, in ONNX Runtime and from C++.

    python benchmarks/export.py              eight minutes on an idle machine
    python benchmarks/export.py --quick      no ONNX, nothing compiled: these columns stay as they are
    python benchmarks/export.py --only PNA   models whose name matches this; the others' results stay
    python benchmarks/export.py --resume     models without a result, and those that failed

Each model is exported on one graph. The file is loaded in another process, which has exported nothing, and run on
three graphs of other sizes; the portable program is run in ONNX Runtime, where onnx, onnxscript and onnxruntime are
installed; three models are compiled by AOTInductor and called from C++, where there is a compiler. A difference is
the largest of any output, relative to the largest of the eager model's. Times are of one call without gradients on the
largest of the graphs, 100,000 edges: the least processor time of several turns, in one thread, so that other processes
count little; what takes less than a millisecond is called twenty times in a turn. Programs are called by
``dglite.load_program``; "checked" is torch's own module of the program, with its
check of the inputs. Results are written after each model, so a run
that is cut leaves those it has.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import layers
import numpy as np
import torch
from common import OURS, RESULTS, ROOT, geometric_mean, parser, save, table
from torch import nn
from torch.utils import _pytree as pytree

import dglite
from dglite.nn import GATConv, GINConv, GraphConv, HeteroGraphConv, SAGEConv, SumPooling
from dglite.nn import Sequential as GraphSequential

WIDTH, CLASSES = layers.WIDTH, 4
EXAMPLE, OTHERS = (300, 2_000, 6), ((50, 200, 2), (700, 4_000, 9), (8_000, 100_000, 60))
"""Nodes, edges and batched graphs of the example and of the graphs that programs are run on."""
PROGRAM, CHECKED, PORTABLE = "program", "checked", "portable"
TURNS, SHORT = 15, 1e-3
"""Turns in which models are called; those that take fewer seconds than this are called twenty times in a turn."""
LARGEST_DIFFERENCE = 1e-5
LARGEST_RATIO = 1.2
"""Of a program's time to the eager model's, where it is not named as slower."""


# -- models ------------------------------------------------------------------------------------------------------------
class GCN(nn.Module):
    """Two graph convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConv(WIDTH, WIDTH), GraphConv(WIDTH, CLASSES)

    def forward(self, g: Any, x: torch.Tensor) -> torch.Tensor:
        return self.second(g, torch.relu(self.first(g, x)))


class SAGE(nn.Module):
    """Two layers of GraphSAGE that take maxima."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(WIDTH, WIDTH, "pool"), SAGEConv(WIDTH, CLASSES, "pool")

    def forward(self, g: Any, x: torch.Tensor) -> torch.Tensor:
        return self.second(g, torch.relu(self.first(g, x)))


class GAT(nn.Module):
    """Two attention layers on the blocks of a sampler."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GATConv(WIDTH, 8, 8), GATConv(WIDTH, CLASSES, 1)

    def forward(self, blocks: Sequence[Any], x: torch.Tensor) -> torch.Tensor:
        return self.second(blocks[1], torch.relu(self.first(blocks[0], x).flatten(1))).squeeze(1)


class RGCN(nn.Module):
    """Two layers on a graph of three edge types, with a convolution for each."""

    def __init__(self) -> None:
        super().__init__()
        names = ("follows", "buys", "bought by")
        self.layers = nn.ModuleList(
            HeteroGraphConv({name: GraphConv(WIDTH, WIDTH, norm="right", allow_zero_in_degree=True) for name in names})
            for _ in range(2)
        )

    def forward(self, g: Any, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        hidden = {name: torch.relu(rows) for name, rows in self.layers[0](g, x).items()}
        return self.layers[1](g, hidden)


class GIN(nn.Module):
    """A classifier of graphs: two isomorphism layers, and the sum of each graph's nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GINConv(layers.mlp()) for _ in range(2))
        self.pool, self.classify = SumPooling(), nn.Linear(WIDTH, CLASSES)

    def forward(self, g: Any, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(g, x))
        return self.classify(self.pool(g, x))


@dataclass(frozen=True)
class Model:
    """What is exported: its title, how it is made, and its arguments on a graph of some size."""

    title: str
    make: Callable[[], nn.Module]
    arguments: Callable[[tuple[int, int, int]], tuple[tuple[Any, ...], dict[str, Any]]]
    compiled: bool = False
    """Whether it is compiled by AOTInductor, and called from C++."""


def _layer(case: layers.Case) -> Model:
    def arguments(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        data = _data(size)
        graph = data.graphs(OURS, case)[0]
        inputs = [data.tensors[key] for key in case.inputs]
        return (*([] if graph is None else [graph]), *inputs), {key: data.tensors[name] for key, name in case.options}

    return Model(case.title, lambda: getattr(dglite.nn, case.name)(*case.arguments()), arguments)


def _data(size: tuple[int, int, int]) -> layers.Data:
    layers.NUM_GRAPHS = size[2]
    return layers.Data(*size[:2])


def _on_graph(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    data = _data(size)
    return (dglite.graph((data.src, data.dst), num_nodes=data.num_nodes), data.tensors["x"]), {}


def _on_batch(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _layer(next(case for case in layers.CASES if case.where == "batch")).arguments(size)


def _on_blocks(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (g, x), _ = _on_graph(size)
    sampler = dglite.dataloading.NeighborSampler([5, 5])
    inputs, _, blocks = sampler.sample(g, torch.arange(g.num_nodes() // 5))
    return (blocks, x[inputs]), {}


def _on_types(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    nodes, edges, _ = size
    rng, items = np.random.default_rng(0), nodes // 2
    users, bought = (torch.from_numpy(rng.integers(0, count, edges // 3)) for count in (nodes, items))
    friends = torch.from_numpy(rng.integers(0, nodes, edges // 3))
    relations = {
        ("user", "follows", "user"): (friends, users),
        ("user", "buys", "item"): (users, bought),
        ("item", "bought by", "user"): (bought, users),
    }
    g = dglite.heterograph(relations, {"user": nodes, "item": items})
    return (g, {"user": torch.randn(nodes, WIDTH), "item": torch.randn(items, WIDTH)}), {}


def _rows_by_type(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _on_types(size)[0][1:], {}


def _with_extra(*names: str) -> Callable[[tuple[int, int, int]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return arguments that follow the graph: data of ``layers.py`` by name, None where a name is empty."""

    def arguments(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        (g, _), _ = _on_graph(size)
        tensors = {**_data(size).tensors, "weight": torch.rand(g.num_edges()) + 0.5}
        return (g, *(tensors.get(name) for name in names)), {}

    return arguments


def _without_graph(*names: str) -> Callable[[tuple[int, int, int]], tuple[tuple[Any, ...], dict[str, Any]]]:
    def arguments(size: tuple[int, int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        (_, *inputs), options = _with_extra(*names)(size)
        return tuple(inputs), options

    return arguments


OTHER_FORMS = [
    Model("GraphConv, weights", lambda: GraphConv(WIDTH, CLASSES, "right"), _with_extra("x", "", "weight")),
    Model("GraphConv, sum", lambda: GraphConv(WIDTH, 2 * WIDTH, "none"), _on_graph),
    Model("SAGEConv, gcn", lambda: SAGEConv(WIDTH, WIDTH, "gcn"), _on_graph),
    Model("SAGEConv, weights", lambda: SAGEConv(WIDTH, WIDTH, "mean"), _with_extra("x", "weight")),
    Model("GINConv, mean", lambda: GINConv(layers.mlp(), "mean", learn_eps=True), _on_graph),
    Model("GATConv, residual", lambda: GATConv(WIDTH, 8, 8, residual=True, activation=nn.functional.elu), _on_graph),
    Model("GATConv, weights", lambda: GATConv(WIDTH, 8, 8), _with_extra("x", "weight")),
    Model("EdgeWeightNorm", dglite.nn.EdgeWeightNorm, _with_extra("weight")),
    Model("TWIRLSUnfoldingAndAttention", lambda: dglite.nn.TWIRLSUnfoldingAndAttention(WIDTH, 0, 1, 4), _on_graph),
    Model("GroupRevRes", lambda: dglite.nn.GroupRevRes(GraphConv(WIDTH // 2, WIDTH // 2), 2), _on_graph),
    Model("Sequential", lambda: GraphSequential(GraphConv(WIDTH, WIDTH), SAGEConv(WIDTH, CLASSES, "mean")), _on_graph),
    Model("LabelPropagation", lambda: dglite.nn.LabelPropagation(3, 0.5, clamp=False), _with_extra("x")),
    Model("HeteroLinear", lambda: dglite.nn.HeteroLinear({"user": WIDTH, "item": WIDTH}, CLASSES), _rows_by_type),
    Model(
        "TypedLinear",
        lambda: dglite.nn.TypedLinear(WIDTH, CLASSES, layers.NUM_TYPES),
        _without_graph("wide", "types"),
    ),
]
"""Layers in forms that ``layers.py`` does not time."""
MODELS = [
    Model("GCN", GCN, _on_graph, compiled=True),
    Model("GraphSAGE, pool", SAGE, _on_graph, compiled=True),
    Model("GIN classifier on batches", GIN, _on_batch, compiled=True),
    Model("GAT on blocks", GAT, _on_blocks),
    Model("R-GCN, three edge types", RGCN, _on_types),
    *map(_layer, layers.CASES),
    *OTHER_FORMS,
]


# -- measuring ---------------------------------------------------------------------------------------------------------
def difference(ours: Any, expected: Any) -> float:
    """Return the largest difference of any output, relative to the largest expected value."""
    worst = 0.0
    for x, y in zip(pytree.tree_leaves(ours), pytree.tree_leaves(expected), strict=True):
        x, y = torch.as_tensor(x), torch.as_tensor(y)
        assert x.shape == y.shape, f"expected shape {tuple(y.shape)}, got {tuple(x.shape)}"
        if x.numel():
            worst = max(worst, float((x - y).abs().max() / (y.abs().max() + 1e-12)))
    return worst


def measure(model: Model, folder: Path, number: int, quick: bool) -> dict[str, Any]:
    """Export a model, write what the fresh process reads, and time calls beside the eager model's."""
    torch.manual_seed(1)
    module = model.make().eval()
    args, kwargs = model.arguments(EXAMPLE)
    record: dict[str, Any] = {"model": model.title}
    programs = {
        PROGRAM: dglite.export(module, *args, kwargs=kwargs),
        PORTABLE: dglite.export(module, *args, kwargs=kwargs, portable=True),
    }
    torch.export.save(programs[PROGRAM], folder / f"{number}.pt2")
    runs = [model.arguments(size) for size in OTHERS]
    with torch.no_grad():
        expected = [module(*args, **kwargs) for args, kwargs in runs]
    torch.save((runs, expected), folder / f"{number}.inputs")
    of_tensors = [_of_tensors(run) for run in runs]
    portable = programs[PORTABLE].module()
    record["portable"] = max(
        difference(portable(*args, **kwargs), y) for (args, kwargs), y in zip(of_tensors, expected, strict=True)
    )
    record["seconds"] = _times(module, programs[PROGRAM], portable, runs[-1], of_tensors[-1])
    if not quick:
        record["onnx"] = onnx(programs[PORTABLE], folder, of_tensors, expected)
    if model.compiled and not quick and shutil.which("g++"):
        record["compiled"] = compiled(programs[PORTABLE], folder, number, of_tensors, expected)
    return record


def _of_tensors(run: Any) -> Any:
    return pytree.tree_map(_tensors_of, run, is_leaf=lambda x: isinstance(x, dglite.DGLGraph))


def _tensors_of(x: Any) -> Any:
    return dglite.to_tensors(x) if isinstance(x, dglite.DGLGraph) else x


def _times(module: Any, program: Any, portable: Any, run: Any, of_tensors: Any) -> dict[str, float]:
    loaded, checked = dglite.load_program(program), program.module()
    calls = {OURS: (module, run), PROGRAM: (loaded, run), CHECKED: (checked, run), PORTABLE: (portable, of_tensors)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    least = dict.fromkeys(calls, float("inf"))
    with torch.no_grad():
        for _ in range(TURNS):
            for name, (function, (args, kwargs)) in calls.items():
                count = 1 if least[name] > SHORT else 20
                start = time.thread_time()
                for _ in range(count):
                    function(*args, **kwargs)
                least[name] = min(least[name], (time.thread_time() - start) / count)
    torch.set_num_threads(threads)
    return least


def onnx(program: Any, folder: Path, runs: list[Any], expected: list[Any]) -> float | str:
    """Return how far ONNX Runtime is from the eager model, or why it has no such program."""
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    import onnxruntime

    try:
        with open(os.devnull, "w") as silence, redirect_stdout(silence):
            torch.onnx.export(program, f=folder / "model.onnx", dynamo=True, verbose=False)
        session = onnxruntime.InferenceSession(folder / "model.onnx")
        names = [x.name for x in session.get_inputs()]
        worst = 0.0
        for run, y in zip(runs, expected, strict=True):
            values = dict(zip(program.graph_signature.user_inputs, pytree.tree_leaves(run), strict=True))
            worst = max(worst, difference(session.run(None, {name: values[name].numpy() for name in names}), y))
        return worst
    except Exception as error:  # whatever an exporter of an operation raises
        return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:200]


def compiled(program: Any, folder: Path, number: int, runs: list[Any], expected: list[Any]) -> float:
    """Return how far the program that AOTInductor has compiled, called from C++, is from the eager model."""
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / f"{number}-compiled.pt2"))
    worst = 0.0
    for run, y in zip(runs, expected, strict=True):
        torch.save(pytree.tree_leaves(run), folder / "inputs.pt")
        subprocess.run([host(folder), path, folder / "inputs.pt", folder / "outputs.pt"], check=True)
        worst = max(worst, difference(torch.load(folder / "outputs.pt", weights_only=False), y))
    return worst


def host(folder: Path) -> Path:
    """Return ``examples/serve.cpp``, compiled once."""
    path = folder / "serve"
    if not path.exists():
        torch_folder = Path(torch.__file__).parent
        include = torch_folder / "include"
        includes = [f"-I{include}", f"-I{include}/torch/csrc/api/include"]
        library = torch_folder / "lib"
        libraries = [f"-L{library}", f"-Wl,-rpath,{library}", "-ltorch", "-ltorch_cpu", "-lc10"]
        source = ROOT / "examples" / "serve.cpp"
        subprocess.run(["g++", "-std=c++20", *includes, source, "-o", path, *libraries], check=True)
    return path


class OtherProcess:
    """A process that loads and runs programs, and has exported none."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--child"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def difference(self, path: Path) -> float:
        """Return how far the program at ``path`` is from the eager model; its inputs lie beside it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(path, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return float(answer)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def child() -> None:
    """Run the programs whose paths come by standard input, and print how far each is off, or its error."""
    for line in sys.stdin:
        path = Path(line.strip())
        try:
            program = dglite.load_program(path)
            runs, expected = torch.load(path.with_suffix(".inputs"), weights_only=False)
            answer: float | str = max(
                difference(program(*args, **kwargs), y) for (args, kwargs), y in zip(runs, expected, strict=True)
            )
        except Exception as error:  # whatever loading or running raises goes into the table
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


# -- the table ---------------------------------------------------------------------------------------------------------
def export_table(records: list[dict[str, Any]]) -> str:
    """Return one row per model."""
    rows = []
    for record in records:
        if "error" in record:
            rows.append([record["model"], "no", *[""] * 7])
            continue
        seconds = record["seconds"]
        ours, compiled_from = seconds[OURS], record.get("compiled")
        rows.append(
            [
                record["model"],
                _error(record["fresh"]),
                _error(record["portable"]),
                _error(record.get("onnx")),
                "" if compiled_from is None else _error(compiled_from),
                f"{ours * 1e3:.2f}",
                f"{seconds[PROGRAM] / ours:.2f}",
                f"{seconds[CHECKED] / ours:.2f}",
                f"{seconds[PORTABLE] / ours:.2f}",
            ]
        )
    header = ["model", "program", "portable", "ONNX", "from C++", "eager ms", "program / eager"]
    header += ["checked / eager", "portable / eager"]
    return table(header, rows)


def summary(records: list[dict[str, Any]]) -> str:
    """Return how many are equal, and the geometric means of times."""
    failed = [x["model"] for x in records if "error" in x]
    records = [x for x in records if "error" not in x]
    tried = [x["onnx"] for x in records if "onnx" in x]
    in_onnx = [x for x in tried if isinstance(x, float) and x < LARGEST_DIFFERENCE]
    in_c = [x for x in records if isinstance(x.get("compiled"), float)]
    ratios = {
        name: geometric_mean(record["seconds"][name] / record["seconds"][OURS] for record in records)
        for name in (PROGRAM, CHECKED, PORTABLE)
    }
    slower = [r["model"] for r in records if r["seconds"][PROGRAM] > LARGEST_RATIO * r["seconds"][OURS]]
    return (
        f"{len(records)} models are exported and equal in another process to {max(x['fresh'] for x in records):.0e} of "
        f"the largest value; not exported: {', '.join(failed) or 'none'}. {len(in_onnx)} of {len(tried)} tried run in "
        f"ONNX Runtime with equal results, {len(in_c)} were called from C++. A call of a program takes "
        f"{ratios[PROGRAM]:.2f} times as long as the eager model's in geometric mean, {ratios[CHECKED]:.2f} times with "
        f"torch's check of the inputs; of a portable one {ratios[PORTABLE]:.2f} times. More than {LARGEST_RATIO} times "
        f"as long: {', '.join(slower) or 'none'}."
    )


def _error(value: float | str | None) -> str:
    return "" if value is None else f"{value:.0e}" if isinstance(value, float | int) else "no"


def _is_complete(record: dict[str, Any], quick: bool) -> bool:
    """Whether a record of an earlier run has all columns."""
    return "error" not in record and (quick or isinstance(record.get("onnx"), float))


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="models whose name matches this")
    options.add_argument("--resume", action="store_true", help="models that have no result yet, or an error")
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--note", default="", help="a sentence about the machine, kept with the results")
    arguments = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if arguments.child:
        child()
        return
    records: dict[str, dict[str, Any]] = {}
    path = RESULTS / "export.json"
    if (arguments.only or arguments.resume or arguments.quick) and path.exists():
        records = {record["model"]: record for record in json.loads(path.read_text())["records"]}
    done = {title for title, record in records.items() if arguments.resume and _is_complete(record, arguments.quick)}
    other = OtherProcess()
    with tempfile.TemporaryDirectory() as name:
        for number, model in enumerate(MODELS):
            if model.title in done or not re.search(arguments.only, model.title):
                continue
            try:
                record = measure(model, Path(name), number, arguments.quick)
                record["fresh"] = other.difference(Path(name) / f"{number}.pt2")
            except Exception as error:  # one model that fails leaves the others
                record = {"model": model.title, "error": f"{type(error).__name__}: {error}"[:500]}
            earlier = records.get(model.title, {}) if arguments.quick else {}
            slow = {name: earlier[name] for name in ("onnx", "compiled") if name in earlier}
            records[model.title] = {**slow, **record}
            print(record, flush=True)
            ordered = [records[model.title] for model in MODELS if model.title in records]
            save("export", {"note": arguments.note, "records": ordered})
    other.close()
    ordered = [records[model.title] for model in MODELS if model.title in records]
    print(f"{export_table(ordered)}\n\n{summary(ordered)}")


if __name__ == "__main__":
    main()
