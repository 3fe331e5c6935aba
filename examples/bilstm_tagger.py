"""Tag named entities with a bidirectional LSTM that is written for one sentence and computed in batches.

    python examples/bilstm_tagger.py
    python examples/bilstm_tagger.py --write operations --strategy depth

Sentences differ in length, and nothing is padded: every operation is recorded, and operations alike are done together.
``--write cells`` records a step of an LSTM as one node, ``--write operations`` the module as it is. The sentences are
those of WikiNER that DyNet's benchmarks hold out, downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that
has them; every fifth one is tested.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from dglite import dynamic
from dglite.data import WikiNERDataset


class Tagger(nn.Module):
    """Word vectors, an LSTM in either direction, two layers on top of both states."""

    def __init__(self, num_words: int, num_tags: int, width: int, hidden: int, write: str) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, width, sparse=True)
        self.left_to_right, self.right_to_left = nn.LSTMCell(width, hidden), nn.LSTMCell(width, hidden)
        self.middle, self.out = nn.Linear(2 * hidden, 32), nn.Linear(32, num_tags)
        self.hidden = hidden
        as_written: Callable[[Any], Any] = dynamic.cell if write == "cells" else lambda function: function
        self.forwards = as_written(lambda x, h, c: self.left_to_right(x, (h, c)))
        self.backwards = as_written(lambda x, h, c: self.right_to_left(x, (h, c)))

    def scores(self, words: Sequence[dynamic.LazyTensor], zero: dynamic.LazyTensor) -> list[dynamic.LazyTensor]:
        """Return the scores of all tags for each word of one sentence, from its words' vectors."""
        lefts = self.states(self.forwards, words, zero)
        rights = self.states(self.backwards, words[::-1], zero)[::-1]
        pairs = zip(lefts, rights, strict=True)
        return [self.out(torch.tanh(self.middle(torch.cat([left, right])))) for left, right in pairs]

    def states(
        self, step: Callable[..., Any], words: Sequence[dynamic.LazyTensor], zero: dynamic.LazyTensor
    ) -> list[dynamic.LazyTensor]:
        """Return the state after each word."""
        h, c, found = zero, zero, []
        for word in words:
            h, c = step(word, h, c)
            found.append(h)
        return found

    def batch(self, sentences: Sequence[torch.Tensor]) -> list[list[dynamic.LazyTensor]]:
        """Return the scores for the words of several sentences; their vectors are looked up together."""
        vectors = dynamic.lazy(self.words(torch.cat(list(sentences)))).unbind()
        zero, found, at = dynamic.lazy(torch.zeros(self.hidden)), [], 0
        for sentence in sentences:
            found.append(self.scores(vectors[at : at + len(sentence)], zero))
            at += len(sentence)
        return found


def step(model: Tagger, optimizers: list[torch.optim.Optimizer], batch: Sequence[Any], strategy: str) -> float:
    """Do one step of training and return the mean loss of a word."""
    scores = [score for sentence in model.batch([words for words, _ in batch]) for score in sentence]
    tags = torch.cat([tags for _, tags in batch]).tolist()
    losses = [F.cross_entropy(score, dynamic.lazy(tag)) for score, tag in zip(scores, tags, strict=True)]
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = dynamic.backward(losses, strategy=strategy)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item() / len(tags)


def accuracy(model: Tagger, sentences: Sequence[Any]) -> tuple[float, float]:
    """Return the fraction of words that are tagged right, and of words inside of entities."""
    with torch.no_grad():
        scores = [score for sentence in model.batch([words for words, _ in sentences]) for score in sentence]
        found = torch.stack(dynamic.run(scores)).argmax(1)
    tags = torch.cat([tags for _, tags in sentences])
    right, named = found == tags, tags != tags.mode().values
    return right.float().mean().item(), right[named].float().mean().item()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", choices=("cells", "operations"), default="cells", help="how a step is recorded")
    parser.add_argument("--strategy", choices=("agenda", "depth", "none"), default="agenda")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--width", type=int, default=128, help="of word vectors")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--sentences", type=int, help="use only so many")
    parser.add_argument("--raw-dir", help="folder with dev.txt; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when fewer words are tagged right")
    return parser.parse_args()


def main() -> None:
    """Train and print what came out."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    data = WikiNERDataset(raw_dir=arguments.raw_dir)
    sentences = [data[i] for i in range(min(arguments.sentences or len(data), len(data)))]
    test, training = sentences[::5], [sentence for i, sentence in enumerate(sentences) if i % 5]
    model = Tagger(len(data.vocabulary), len(data.tags), arguments.width, arguments.hidden, arguments.write)
    dense = [x for name, x in model.named_parameters() if not name.startswith("words")]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Adam(dense, lr=arguments.learning_rate),
        torch.optim.SparseAdam(model.words.parameters(), lr=arguments.learning_rate),
    ]
    for epoch in range(arguments.epochs):
        random.shuffle(training)
        start = time.perf_counter()
        with tqdm(total=len(training), desc=f"epoch {epoch + 1}", unit="sentence") as bar:
            for first in range(0, len(training), arguments.batch_size):
                batch = training[first : first + arguments.batch_size]
                loss = step(model, optimizers, batch, arguments.strategy)
                bar.update(len(batch))
                bar.set_postfix(loss=f"{loss:.3f}")
        rate = len(training) / (time.perf_counter() - start)
        words, named = accuracy(model, test)
        print(f"epoch {epoch + 1}: {words:.4f} of words right, {named:.4f} of named ones; {rate:.0f} sentences/s")
    print(dynamic.last_run())
    if arguments.expect is not None and words < arguments.expect:
        sys.exit(f"expected {arguments.expect} of words to be right, got {words:.4f}")


if __name__ == "__main__":
    main()
