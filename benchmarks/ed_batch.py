"""Chains, trees and lattices in training beside DyNet: the cases of ED-Batch, with the ratios that it published.

python benchmarks/ed_batch.py            three minutes
python benchmarks/ed_batch.py --quick    small sizes

Chen et al., "ED-Batch: efficient automatic batching of dynamic neural networks via learned finite state machines", ICML
2023, is faster than the frameworks before it by 1.15 for chains, 1.39 for trees and 2.45 for lattices, on average. Here
the chain is the tagger of ``lazy.py``, the tree its Tree-LSTM, the lattice an LSTM over characters whose words skip
those in between (Zhang and Yang, "Chinese NER using lattice LSTM", 2018), on random lattices. DyNet computes on one
thread, and so do the others here.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
import tree_models
from common import load_dynet, parser, save, table
from dynet_models import DyNetLattice, DyNetTagger, DyNetTrees
from lazy import DYNET, Tagger, Trees, batches_of, measure, steps_of
from torch import nn

from dglite import dynamic
from dglite.data import WikiNERDataset

PUBLISHED = {"chain": 1.15, "tree": 1.39, "lattice": 2.45}
WAYS = [(cells, "agenda") for cells in (True, False)]
Sample = tuple[torch.Tensor, list[tuple[int, int, int]], torch.Tensor]
"""Characters, words as (character before it, last character, word), tags."""


class Lattice(nn.Module):
    """An LSTM over characters; what words that end at a character have gathered is added to its memory."""

    def __init__(self, hidden: int, num_chars: int = 1000, num_words: int = 5000, num_tags: int = 9) -> None:
        super().__init__()
        self.chars, self.words = (nn.Embedding(n, hidden, sparse=True) for n in (num_chars, num_words))
        self.char, self.word = (nn.Linear(2 * hidden, 3 * hidden) for _ in range(2))
        self.link, self.out, self.hidden = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, num_tags), hidden
        self.cells = [dynamic.cell(f) for f in (self.linked, self.step, self.loss)]

    def linked(self, x: Any, w: Any, h: Any, c: Any) -> Any:
        """Return what a word adds to the memory of its last character."""
        f, i, u = self.word(torch.cat([w, h], -1)).chunk(3, -1)
        memory = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(self.link(torch.cat([x, memory], -1))) * memory

    def step(self, x: Any, h: Any, c: Any, added: Any) -> tuple[Any, Any]:
        """Return the state of a character."""
        i, o, u = self.char(torch.cat([x, h], -1)).chunk(3, -1)
        i = torch.sigmoid(i)
        c = (1 - i) * c + i * torch.tanh(u) + added
        return torch.sigmoid(o) * torch.tanh(c), c

    def loss(self, h: Any, tag: Any, reduction: str = "none") -> Any:
        """Return the loss of a character."""
        return F.cross_entropy(self.out(h), tag, reduction=reduction)

    def record(self, samples: Sequence[Sample], cells: bool) -> list[Any]:
        """Return the losses of all characters."""
        linked, step, loss = self.cells if cells else (self.linked, self.step, self.loss)
        rows = [self.chars(torch.cat([chars for chars, _, _ in samples]))]
        rows.append(self.words(torch.tensor([word for _, arcs, _ in samples for *_, word in arcs], dtype=torch.int64)))
        xs, ws = (iter(dynamic.lazy(x).unbind()) for x in rows)
        zero, losses = dynamic.lazy(torch.zeros(self.hidden)), list[Any]()
        tags = iter(dynamic.lazy(torch.cat([tags for *_, tags in samples])).unbind())
        for chars, arcs, _ in samples:
            states, words = [(zero, zero)], list(zip(arcs, ws, strict=False)) if arcs else []
            for at, x in zip(range(len(chars)), xs, strict=False):
                added = zero
                for (begin, end, _), w in words:
                    added = added + linked(x, w, *states[begin]) if end == at else added
                states.append(step(x, *states[-1], added))
                losses.append(loss(states[-1][0], next(tags), **({} if cells else {"reduction": "mean"})))
        return losses


def random_lattices(count: int, num_chars: int = 1000, num_words: int = 5000, num_tags: int = 9) -> list[Sample]:
    """Return lattices of 10 to 40 characters; at every second one or so a word of two to four characters ends."""
    rng, lattices = random.Random(0), list[Sample]()
    for _ in range(count):
        n = rng.randrange(10, 41)
        arcs = [
            (max(end - rng.randrange(1, 4), 0), end, rng.randrange(num_words)) for end in range(n) if rng.random() < 0.5
        ]
        chars, tags = ([rng.randrange(m) for _ in range(n)] for m in (num_chars, num_tags))
        lattices.append((torch.tensor(chars), arcs, torch.tensor(tags)))
    return lattices


def check(model: Lattice, peer: DyNetLattice, samples: Sequence[Sample]) -> None:
    """Assert that both have the same loss."""
    ours = sum(x.item() for x in dynamic.run(model.record(samples, True)))
    assert abs(peer.step(samples) - ours) < 1e-3 * ours, "the lattice differs from DyNet's"


def cases(quick: bool) -> dict[str, tuple[Any, Sequence[Any], Callable[[Any], Any]]]:
    """Return for each case the model, samples, and what makes DyNet's step of a batch size, given DyNet."""
    hidden, data = 32 if quick else 256, WikiNERDataset()
    trees, num_words, _ = tree_models.load_trees(16 if quick else 256)
    lattices, tree_lstm, lattice = random_lattices(8 if quick else 256), Trees(num_words, hidden), Lattice(hidden)

    def stepping(model: Any, samples: Sequence[Any]) -> Callable[[int], Any]:
        def steps(size: int) -> Callable[[], Any]:
            rounds = itertools.cycle(batches_of(samples, size))
            return lambda: model.step(next(rounds))

        return steps

    sentences = [data[i] for i in range(8 if quick else 256)]
    sizes = len(data.vocabulary), len(data.tags), hidden

    def of_trees(dynet: Any) -> Callable[[int], Any]:
        way = DyNetTrees(tree_lstm, dynet)
        return lambda size: steps_of(way, trees, size)

    def of_lattices(dynet: Any) -> Callable[[int], Any]:
        check(lattice, DyNetLattice(lattice, dynet), lattices[:2])
        return stepping(DyNetLattice(lattice, dynet), lattices)

    return {
        "chain": (Tagger(*sizes), sentences, lambda dynet: stepping(DyNetTagger(dynet, *sizes), sentences)),
        "tree": (tree_lstm, trees, of_trees),
        "lattice": (lattice, lattices, of_lattices),
    }


def ed_batch_table(records: Sequence[dict[str, Any]]) -> str:
    """Return one row for each case, batch size and way of recording."""
    rows = []
    for r in records:
        peer = next((x for x in records if x["way"] == DYNET and all(x[k] == r[k] for k in ("case", "batch"))), None)
        ratio = "-" if peer is None else f"{r['per_second'] / peer['per_second']:.2f}"
        published = f"{PUBLISHED[r['case']]:.2f}"
        rows.append([f"{r['case']}, {r['batch']}", r["way"], f"{r['per_second']:,.0f}", ratio, published])
    return table(["case, batch", "recorded as", "samples/s", "x DyNet", "published for ED-Batch"], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    torch.set_num_threads(1)
    dynet, records = load_dynet(), list[dict[str, Any]]()
    for case, (model, samples, make_peer) in cases(quick).items():
        steps = None if dynet is None else make_peer(dynet)
        for size in (1, 4) if quick else (1, 8, 64, 256):
            others = {} if steps is None else {DYNET: steps(size)}
            records += [{"case": case, **record} for record in measure(model, samples, size, WAYS, others)]
            print(ed_batch_table(records[-3:]), flush=True)
    print(ed_batch_table(records))
    if not quick:
        save("ed_batch", {"records": records})


if __name__ == "__main__":
    main()
