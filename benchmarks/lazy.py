"""Lazy batching in training: a Tree-LSTM in trees per second, a BiLSTM tagger in sentences per second.

python benchmarks/lazy.py             ten minutes
python benchmarks/lazy.py --quick     small sizes

A step is recording, forward, the loss of every node or word, backward, and plain gradient descent. ``operations``
records every torch function, ``cells`` a node of a tree or a word of a sentence at a time. Beside the rates: what
recording one operation costs, how many operations became how many batches, and the shares of a step.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import tree_models
from common import interleave, parser, save, table
from torch import nn
from tree_models import TreeLSTM

from dglite import dynamic
from dglite.data import WikiNERDataset

Lazy = Any
Step = Callable[[], float]
"""Does one step of training and returns how many seconds of it went into recording."""


# -- models ------------------------------------------------------------------------------------------------------------
class Trees(TreeLSTM):
    """The binary Tree-LSTM that all benchmarks share."""

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__(num_words, hidden)
        self.ways = {cells: tree_models.Lazy(self, cells) for cells in (False, True)}

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
        self.loss_cell = dynamic.cell(self.losses)

    def forwards(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the next state of one direction."""
        return self.left_to_right(x, (h, c))

    def backwards(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the next state of the other direction."""
        return self.right_to_left(x, (h, c))

    def losses(self, left: Any, right: Any, tag: Any) -> Any:
        """Return the loss of each row."""
        return F.cross_entropy(self.out(torch.cat([left, right], 1)), tag, reduction="none")

    def loss(self, left: Lazy, right: Lazy, tag: Lazy) -> Lazy:
        """Return the loss of one word."""
        return F.cross_entropy(self.out(torch.cat([left, right])), tag)

    def record(self, sentences: Sequence[Any], cells: bool) -> list[Lazy]:
        """Return the losses of all words."""
        directions = self.cells if cells else [self.forwards, self.backwards]
        loss = self.loss_cell if cells else self.loss
        vectors = dynamic.lazy(self.words(torch.cat([words for words, _ in sentences]))).unbind()
        tags = dynamic.lazy(torch.cat([tags for _, tags in sentences]))
        zero, found, first = dynamic.lazy(torch.zeros(self.hidden)), [], 0
        for words, _ in sentences:
            own, states = vectors[first : first + len(words)], []
            for step, inputs in zip(directions, (own, own[::-1]), strict=True):
                h, c, sequence = zero, zero, []
                for x in inputs:
                    h, c = step(x, h, c)
                    sequence.append(h)
                states.append(sequence)
            for at, (left, right) in enumerate(zip(states[0], states[1][::-1], strict=True)):
                found.append(loss(left, right, tags[first + at]))
            first += len(words)
        return found


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


def measure(
    model: Any, samples: Sequence[Any], batch_size: int, ways: Sequence[tuple[bool, str]]
) -> list[dict[str, Any]]:
    """Return a record for each way: samples per second and where the time goes."""
    batches = [samples[i : i + batch_size] for i in range(0, len(samples) - batch_size + 1, batch_size)] or [samples]
    runners, reports, recording = {}, {}, {}
    for cells, strategy in ways:
        name = f"{'cells' if cells else 'operations'}, {strategy}"
        rounds = itertools.cycle(batches)

        def run(name: str = name, rounds: Any = rounds, cells: bool = cells, strategy: str = strategy) -> None:
            recording[name] = training_step(model, next(rounds), cells, strategy)
            reports[name] = dynamic.last_run()

        runners[name] = run
    seconds = interleave(runners, budget=6.0, most=12, slow_from=30.0)
    return [
        {
            "way": name,
            "batch": batch_size,
            "per_second": min(batch_size, len(samples)) / seconds[name],
            "operations": reports[name].operations,
            "batches": len(reports[name].batches),
            "bytes_gathered": reports[name].bytes_gathered,
            "recording_share": recording[name] / seconds[name],
            "scheduling_share": reports[name].scheduling_seconds / seconds[name],
            "microseconds_per_operation": 1e6 * recording[name] / reports[name].operations,
        }
        for name in runners
    ]


def results_table(records: Sequence[dict[str, Any]], unit: str) -> str:
    """Return one row for each record."""
    header = ["model", "batch", "recorded as", f"{unit}/s", "operations", "batches", "recording", "scheduling"]
    rows = [
        [
            f"{r['model']}, {r['threads']} threads",
            str(r["batch"]),
            r["way"],
            f"{r['per_second']:.0f}",
            str(r["operations"]),
            str(r["batches"]),
            f"{100 * r['recording_share']:.0f}%, {r['microseconds_per_operation']:.1f} us each",
            f"{100 * r['scheduling_share']:.1f}%",
        ]
        for r in records
    ]
    return table(header, rows)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = options.parse_args()
    quick, found = arguments.quick, list[dict[str, Any]]()
    trees, num_words, _ = tree_models.load_trees(32 if quick else 512)
    data = WikiNERDataset()
    sentences = [data[i] for i in range(32 if quick else 512)]
    hidden = 32 if quick else 256
    ways = [(cells, strategy) for cells in (False, True) for strategy in ("agenda", "depth", "none")]
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        parts: list[dict[str, Any]] = []
        tree_model = Trees(num_words, hidden)
        for size in (1, 16) if quick else (1, 16, 64, 256):
            used = [way for way in ways if way[1] != "none" or size <= 16]
            parts += [{"model": f"Tree-LSTM {hidden}", **r} for r in measure(tree_model, trees, size, used)]
        for width in (hidden, hidden // 2):
            tagger = Tagger(len(data.vocabulary), len(data.tags), width)
            used = [way for way in ways if way[1] != "none"]
            parts += [{"model": f"BiLSTM {width}", **r} for r in measure(tagger, sentences, 8 if quick else 64, used)]
        found += [{"threads": threads, **r} for r in parts]
    print(results_table([r for r in found if r["model"].startswith("Tree")], "trees"))
    print()
    print(results_table([r for r in found if r["model"].startswith("BiLSTM")], "sentences"))
    if not quick:
        save("lazy", {"records": found})


if __name__ == "__main__":
    main()
