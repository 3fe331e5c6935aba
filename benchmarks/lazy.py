"""Lazy batching in training: a Tree-LSTM in trees per second, a BiLSTM tagger in sentences per second.

python benchmarks/lazy.py             five minutes
python benchmarks/lazy.py --quick     small sizes

A step is recording, forward, the loss of every node or word, backward, and plain gradient descent. ``operations``
records every torch function, ``cells`` a node of a tree or a word of a sentence at a time; the strategy is the agenda
unless said otherwise. Vertex programs run the same Tree-LSTM, taking turns with it. Beside the rates: what recording
costs for each node, how many operations became how many batches, and the shares of a step.

DyNet, where it is installed, takes turns with them; it computes on one thread, which is all that it has.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import tree_models
import tree_ways
from common import interleave, load_dynet, parser, save, table
from dynet_models import DyNetTagger, DyNetTrees
from torch import nn

from dglite import dynamic
from dglite.data import WikiNERDataset

Lazy = Any
VERTEX = "vertex program"
DYNET = "DyNet, one thread"


# -- models ------------------------------------------------------------------------------------------------------------
class Trees(tree_models.TreeLSTM):
    """The binary Tree-LSTM that all benchmarks share."""

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__(num_words, hidden)
        self.ways = {cells: tree_ways.Lazy(self, cells) for cells in (False, True)}

    def record(self, trees: Sequence[tree_models.Tree], cells: bool) -> list[Lazy]:
        """Return the losses of all nodes."""
        return self.ways[cells].construct(trees)


class Tagger(nn.Module):
    """A bidirectional LSTM over words, and one layer that scores tags."""

    def __init__(self, num_words: int, num_tags: int, hidden: int, width: int = 128) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, width, sparse=True)
        self.left_to_right, self.right_to_left = nn.LSTMCell(width, hidden), nn.LSTMCell(width, hidden)
        self.out, self.hidden = nn.Linear(2 * hidden, num_tags), hidden
        self.cells = [dynamic.cell(self.forwards), dynamic.cell(self.backwards)]
        self.loss_cell = dynamic.cell(self.loss)

    def forwards(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the next state of one direction."""
        return self.left_to_right(x, (h, c))

    def backwards(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the next state of the other direction."""
        return self.right_to_left(x, (h, c))

    def loss(self, left: Any, right: Any, tag: Any, reduction: str = "none") -> Any:
        """Return the loss of a word."""
        return F.cross_entropy(self.out(torch.cat([left, right], -1)), tag, reduction=reduction)

    def record(self, sentences: Sequence[Any], cells: bool) -> list[Lazy]:
        """Return the losses of all words."""
        directions = self.cells if cells else [self.forwards, self.backwards]
        loss = self.loss_cell if cells else partial(self.loss, reduction="mean")
        vectors = dynamic.lazy(self.words(torch.cat([words for words, _ in sentences]))).unbind()
        tags = dynamic.lazy(torch.cat([tags for _, tags in sentences])).unbind()
        zero, losses, first = dynamic.lazy(torch.zeros(self.hidden)), [], 0
        for words, _ in sentences:
            own, states = vectors[first : first + len(words)], []
            for step, inputs in zip(directions, (own, own[::-1]), strict=True):
                h, c, sequence = zero, zero, []
                for x in inputs:
                    h, c = step(x, h, c)
                    sequence.append(h)
                states.append(sequence)
            for at, (left, right) in enumerate(zip(states[0], states[1][::-1], strict=True)):
                losses.append(loss(left, right, tags[first + at]))
            first += len(words)
        return losses


# -- measuring ---------------------------------------------------------------------------------------------------------
def training_step(model: Any, batch: Sequence[Any], cells: bool, strategy: str) -> float:
    """Do one step of gradient descent; return the seconds of recording."""
    start = time.perf_counter()
    losses = model.record(batch, cells)
    recorded = time.perf_counter() - start
    dynamic.backward(losses, strategy=strategy)
    with torch.no_grad():
        for x in model.parameters():
            if x.grad is not None:
                x.add_(x.grad, alpha=-1e-4)
                x.grad = None
    return recorded


class Way:
    """Takes steps of training recorded in one way, batch after batch, and keeps what each of them reports."""

    def __init__(self, model: Any, batches: Sequence[Any], cells: bool, strategy: str) -> None:
        self.name = ("cells" if cells else "operations") + ("" if strategy == "agenda" else f", {strategy}")
        self.model, self.rounds, self.how = model, itertools.cycle(batches), (cells, strategy)
        self.recording: list[float] = []
        self.reports: list[Any] = []

    def __call__(self) -> None:
        self.recording.append(training_step(self.model, next(self.rounds), *self.how))
        self.reports.append(dynamic.last_run())

    def record(self, seconds: float, nodes: float) -> dict[str, Any]:
        """Return counts, and the shares of a step that takes ``seconds``; ``nodes`` are recorded in it."""
        recording = statistics.median(self.recording)
        scheduling, execution = (
            statistics.median(getattr(report, f"{part}_seconds") for report in self.reports)
            for part in ("scheduling", "execution")
        )
        return {
            "operations": statistics.mean(report.operations for report in self.reports),
            "batches": statistics.mean(len(report.batches) for report in self.reports),
            "bytes_gathered": statistics.mean(report.bytes_gathered for report in self.reports),
            "recording_share": recording / seconds,
            "scheduling_share": scheduling / seconds,
            "forward_share": execution / seconds,
            "microseconds_per_node": 1e6 * recording / nodes,
        }


def batches_of(samples: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return batches of ``size``, without what is left over."""
    return [samples[i : i + size] for i in range(0, len(samples) - size + 1, size)]


def measure(
    model: Any, samples: Sequence[Any], batch_size: int, ways: Sequence[tuple[bool, str]], others: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a record for each way, and for ``others``: samples per second, and where the time goes."""
    batches = batches_of(samples, batch_size)
    runners = {way.name: way for way in (Way(model, batches, *how) for how in ways)}
    for run in (*runners.values(), *others.values()):
        run()  # compiles
    seconds = interleave(runners | others, budget=5.0, most=12, slow_from=30.0)
    nodes = sum(len(sample[-1]) for sample in samples) * batch_size / len(samples)
    return [
        {"way": name, "batch": batch_size, "per_second": batch_size / taken}
        | (runners[name].record(taken, nodes) if name in runners else {})
        for name, taken in seconds.items()
    ]


def measure_all(threads: int, quick: bool) -> list[dict[str, Any]]:
    """Return the records of all models on this many threads."""
    torch.set_num_threads(threads)
    trees, num_words, _ = tree_models.load_trees(32 if quick else 512)
    data, records = WikiNERDataset(), list[dict[str, Any]]()
    sentences = [data[i] for i in range(32 if quick else 256)]
    agenda = [(cells, "agenda") for cells in (True, False)]
    every = [*agenda, *[(cells, strategy) for strategy in ("depth", "none") for cells in (True, False)]]
    dynet = load_dynet()
    for hidden in (32,) if quick else (256, 128):
        model = Trees(num_words, hidden)
        others: dict[str, Any] = {VERTEX: tree_ways.VertexProgram(tree_models.TreeLSTM(num_words, hidden))}
        if dynet is not None:
            others[DYNET] = DyNetTrees(model, dynet)
        for size in (1, 16) if quick else (1, 16, 64, 256):
            ways = [way for way in every if way[1] == "agenda" or (hidden != 128 and (way[1] == "depth" or size <= 16))]
            some = trees[: max(4 * size, 32)]
            parts = measure(model, some, size, ways, {name: steps_of(way, some, size) for name, way in others.items()})
            records += [{"model": f"Tree-LSTM {hidden}", "threads": threads, **part} for part in parts]
        tagger, size = Tagger(len(data.vocabulary), len(data.tags), hidden), 8 if quick else 64
        others = {}
        if dynet is not None:
            step = DyNetTagger(dynet, len(data.vocabulary), len(data.tags), hidden).step
            rounds = itertools.cycle(batches_of(sentences, size))
            others[DYNET] = lambda step=step, rounds=rounds: step(next(rounds))
        parts = measure(tagger, sentences, size, agenda if hidden == 128 else every, others)
        records += [{"model": f"BiLSTM {hidden}", "threads": threads, **part} for part in parts]
    return records


def steps_of(way: tree_ways.Way, trees: Sequence[tree_models.Tree], size: int) -> Callable[[], Any]:
    """Return what does a step on the next batch, construction included."""
    rounds = itertools.cycle(batches_of(trees, size))
    return lambda: way.step(way.construct(next(rounds)))


def lazy_table(results: dict[str, Any]) -> str:
    """Return one row for each model, batch size, number of threads and way of recording."""
    header = ["model, threads, batch", "recorded as", "samples/s", "x vertex program", "x DyNet"]
    header += ["operations", "batches", "recording", "scheduling", "forward", "us per node"]
    rows = []
    for r in results["records"]:
        same = [r[key] for key in ("model", "threads", "batch")]
        speeds = {
            other["way"]: other["per_second"]
            for other in results["records"]
            if [other[key] for key in ("model", "threads", "batch")] == same
        }
        ratios = [f"{r['per_second'] / speeds[name]:.2f}" if name in speeds else "" for name in (VERTEX, DYNET)]
        counts = [f"{r[key]:,.0f}" if key in r else "" for key in ("operations", "batches")]
        shares = [f"{r[f'{part}_share']:.0%}" if f"{part}_share" in r else "" for part in PARTS]
        each = f"{r['microseconds_per_node']:.1f}" if "microseconds_per_node" in r else ""
        label = f"{r['model']}, {r['threads']}, {r['batch']}"
        rows.append([label, r["way"], f"{r['per_second']:,.0f}", *ratios, *counts, *shares, each])
    return table(header, rows)


PARTS = ("recording", "scheduling", "forward")


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = options.parse_args()
    records = [record for threads in arguments.threads for record in measure_all(threads, arguments.quick)]
    results = {"records": records}
    print(lazy_table(results))
    if not arguments.quick:
        save("lazy", results)


if __name__ == "__main__":
    main()
