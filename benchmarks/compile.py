"""Layers compiled by ``torch.compile(fullgraph=True, dynamic=True)``: equal to the eager ones, compiled at most twice.

    python benchmarks/compile.py              a quarter of an hour on an idle machine
    python benchmarks/compile.py --quick      ten batches in place of a hundred
    python benchmarks/compile.py --only PNA   layers whose name matches this
    python benchmarks/compile.py --minutes 8  begins no layer after that: call it until nothing is left

Layers that have run on as many batches already are left out: remove ``results/compile.json`` to run all of them again.

Each layer of ``layers.py`` runs on a hundred graphs of other sizes, as batches of a sampler are. A difference is the
largest of any output, and of the parameters' gradients on the first ten, relative to the largest of the eager layer's;
layers with an LSTM run without gradients. The backend is "aot_eager": torch's traces of forward and backward, without
the code that Inductor makes of the operations between dglite's. Results are written after each layer, so a run that is
cut leaves those it has.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from typing import Any

import layers
import numpy as np
import torch
from common import OURS, RESULTS, parser, save, table
from export import difference
from torch._dynamo.testing import CompileCounterWithBackend

import dglite

BATCHES, WITH_GRADIENTS, MOST_COMPILATIONS = 100, 10, 2


def batch(case: layers.Case, number: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a layer on a graph whose size is drawn by ``number``."""
    rng = np.random.default_rng(number)
    layers.NUM_GRAPHS = int(rng.integers(2, 12))
    nodes = int(rng.integers(20, 200))
    data = layers.Data(nodes, nodes * int(rng.integers(2, 9)))
    graph = data.graphs(OURS, case)[0]
    inputs = [data.tensors[key] for key in case.inputs]
    return (*([] if graph is None else [graph]), *inputs), {key: data.tensors[name] for key, name in case.options}


def gradients(layer: torch.nn.Module, result: Any) -> torch.Tensor:
    """Return the gradients of all parameters that the result depends on, one after the other.

    In one vector, since some are zero but for rounding: a softmax does not depend on its scores' bias.
    """
    leaves = [x for x in torch.utils._pytree.tree_leaves(result) if x.requires_grad]
    parameters = [x for x in layer.parameters() if x.requires_grad]
    if not leaves or not parameters:
        return torch.empty(0)
    total = sum((x.sin().sum() for x in leaves), torch.zeros(()))
    parts = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([x.flatten() for x in parts])


def measure(case: layers.Case, count: int) -> dict[str, Any]:
    """Run a layer and its compiled form on ``count`` batches."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    layer = getattr(dglite.nn, case.name)(*case.arguments()).eval()
    # Torch 2.13 fails on an LSTM of float32 with gradients: docs/compile.md.
    layer.requires_grad_(not any(isinstance(module, torch.nn.LSTM) for module in layer.modules()))
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    forward = backward = 0.0
    for number in range(count):
        args, kwargs = batch(case, number)
        actual, expected = compiled(*args, **kwargs), layer(*args, **kwargs)
        forward = max(forward, difference(actual, expected))
        if number < WITH_GRADIENTS:
            backward = max(backward, difference(gradients(layer, actual), gradients(layer, expected)))
    return {
        "layer": case.title,
        "compilations": counter.frame_count,
        "forward": forward,
        "gradients": backward,
        "batches": count,
    }


def compile_table(records: list[dict[str, Any]]) -> str:
    """Return one row per layer."""
    rows = []
    for x in records:
        values = ["no", "no", "no", "no"]
        if "error" not in x:
            values = [f"{x['forward']:.0e}", f"{x['gradients']:.0e}", str(x["batches"]), str(x["compilations"])]
        rows.append([x["layer"], *values])
    return table(["layer", "forward", "gradients", "batches", "compilations"], rows)


def summary(records: list[dict[str, Any]]) -> str:
    """Return how many layers are right, and how often the worst was compiled."""
    done = [x for x in records if "error" not in x]
    failed = ", ".join(x["layer"] for x in records if "error" in x) or "none"
    often = ", ".join(x["layer"] for x in done if x["compilations"] > MOST_COMPILATIONS) or "none"
    worst = max(max(x["forward"], x["gradients"]) for x in done)
    return (
        f"{len(done)} layers compile without a break and are equal to {worst:.0e} of the largest value on "
        f"{min(x['batches'] for x in done)} batches of other sizes or more; not compiled: {failed}. Compiled more than "
        f"{MOST_COMPILATIONS} times: {often}."
    )


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="layers whose name matches this")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no layer after these")
    options.add_argument("--note", default="", help="a sentence about the machine, kept with the results")
    arguments = options.parse_args()
    warnings.simplefilter("ignore")
    torch._dynamo.config.allow_rnn = True  # Set2Set has an LSTM
    count = 10 if arguments.quick else BATCHES
    records: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + 60 * arguments.minutes
    path = RESULTS / "compile.json"
    if path.exists():
        records = {record["layer"]: record for record in json.loads(path.read_text())["records"]}
    for case in layers.CASES:
        if not re.search(arguments.only, case.title) or records.get(case.title, {}).get("batches", 0) >= count:
            continue
        if time.monotonic() > end:
            break
        try:
            record = measure(case, count)
        except Exception as error:  # one layer that fails leaves the others
            record = {"layer": case.title, "error": f"{type(error).__name__}: {error}"[:500]}
        records[case.title] = record
        print(record, flush=True)
        save(
            "compile",
            {"note": arguments.note, "records": [records[x.title] for x in layers.CASES if x.title in records]},
        )
    ordered = [records[x.title] for x in layers.CASES if x.title in records]
    print(f"{compile_table(ordered)}\n\n{summary(ordered)}")


if __name__ == "__main__":
    main()
