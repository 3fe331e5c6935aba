"""An epoch of training on Cora under each backend: the networks of examples/node_classification.py, word for word.

    python benchmarks/backends.py            a minute
    python benchmarks/backends.py --quick

A backend belongs to a process, so each has one of its own; they train in turns. Cora is read from DGLITE_DATA_DIR, or
downloaded. Its features are kept as a sparse matrix, which is the example's default.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ROOT, interleave, parser, save, table

MODELS = ("gcn", "gat", "sage")
BASE = "torch"
TARGETS = {"gcn": 1.5}
"""At most how many times torch's epoch the numpy backend's may take."""


# -- the process of a backend ------------------------------------------------------------------------------------------
def work(name: str) -> None:
    """Train model ``name`` for as many epochs as each line of the input says, and answer when they are done."""
    sys.path.insert(0, str(ROOT / "examples"))
    import node_classification as example

    framework, functional = example.framework, example.F
    task, kind = example.load("cora", None), example.MODELS[name]
    task = task._replace(features=example.stored(task.features, "auto"))
    graph = example.with_self_loops(task.graph) if kind.self_loops else task.graph
    framework.manual_seed(0)
    model = kind(task.features.shape[1], task.num_classes)
    optimizer = framework.optim.Adam(model.parameters(), lr=kind.learning_rate, weight_decay=kind.weight_decay)
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            logits = model(graph, task.features)[task.training]
            loss = functional.cross_entropy(logits, task.labels[task.training])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("done", flush=True)


class Worker:
    """A process that trains one model under one backend."""

    def __init__(self, backend: str, model: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import backends; backends.work({model!r})"],
            cwd=Path(__file__).parent,
            env={**os.environ, "DGLITE_BACKEND": backend},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._until("ready")

    def train(self, epochs: int) -> None:
        """Train on, and return when it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{epochs}\n")
        self._process.stdin.flush()
        self._until("done")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _until(self, word: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise RuntimeError(f"the worker ended with status {self._process.wait()} before it was {word}")


# -- measurement -------------------------------------------------------------------------------------------------------
def measure(model: str, backends: list[str], epochs: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of an epoch by backend."""
    workers = {backend: Worker(backend, model) for backend in backends}

    def runner(worker: Worker) -> Callable[[], None]:
        return lambda: worker.train(epochs)

    result = interleave(
        {backend: runner(worker) for backend, worker in workers.items()},
        budget=0.0,
        least=rounds,
        most=rounds,
        slow_from=float("inf"),
    )
    for worker in workers.values():
        worker.close()
    return {backend: seconds / epochs for backend, seconds in result.items()}


def backends_table(records: list[dict[str, Any]]) -> str:
    """Return one row per network."""
    names = list(records[0]["seconds"])
    header = ["network on Cora", *(f"{name}, ms" for name in names), *(f"{name} / {BASE}" for name in names[1:]), "bar"]
    rows = []
    for record in records:
        seconds = record["seconds"]
        times = [f"{1000 * seconds[name]:.2f}" for name in names]
        ratios = [f"{seconds[name] / seconds[BASE]:.2f}" for name in names[1:]]
        bar = TARGETS.get(record["model"])
        rows.append([record["model"], *times, *ratios, "" if bar is None else f"{bar:.1f}"])
    return table(header, rows)


def main() -> None:
    """Measure every network under every backend that is installed."""
    arguments = parser(str(__doc__).split("\n")[0]).parse_args()
    backends = [name for name in (BASE, "numpy", "cupy") if importlib.util.find_spec(name) is not None]
    epochs, rounds = (10, 3) if arguments.quick else (40, 15)
    records = [{"model": model, "seconds": measure(model, backends, epochs, rounds)} for model in MODELS]
    print(backends_table(records))
    if not arguments.quick:
        save(Path(__file__).stem, {"records": records})


if __name__ == "__main__":
    main()
