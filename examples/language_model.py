"""Predict each next word with an LSTM, a vertex program on chains: sentences as long as they are, or cut to one length.

    python examples/language_model.py                Var-LSTM: a chain is a sentence
    python examples/language_model.py --fixed 64     Fixed-LSTM: the text is cut into chains of 64 words

Both models are those of Xu et al. ("Cavs", 2018). The text is the sentences of WikiNER that DyNet's benchmarks hold
out, downloaded unless --raw-dir or DGLITE_DATA_DIR names a folder that has them; every tenth sentence is tested. A
batch of chains is one graph, so nothing is padded. The text is short, 40,000 words: the perplexity of a word is 176 by
sentences and 201 in chains of 64, where frequencies alone give 360.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import dglite
from dglite import dynamic
from dglite.data import WikiNERDataset

Chain = torch.Tensor
"""Words, (length + 1,): all but the last are read, all but the first predicted."""


class Step(dynamic.VertexFunction):
    """A word's vertex: torch's own LSTM cell on the state of the word before."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(state={"h": hidden, "c": hidden})
        self.cell = nn.LSTMCell(width, hidden)

    def forward(self) -> None:
        before = self.gather(0)
        h, c = self.cell(self.pull(), (before.h, before.c))
        self.scatter(h=h, c=c)
        self.push(h)


class LanguageModel(nn.Module):
    """Words to vectors, a vertex program over the chains, scores of all words that may follow."""

    def __init__(self, num_words: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words, self.step = nn.Embedding(num_words, width), Step(width, hidden)
        nn.init.normal_(self.words.weight, std=0.1)
        self.dropout, self.back, self.out = nn.Dropout(dropout), nn.Linear(hidden, width), nn.Linear(width, num_words)
        self.out.weight = self.words.weight  # Press and Wolf, 2017: half the parameters, better on little text

    def forward(self, chains: dglite.DGLGraph, words: torch.Tensor) -> torch.Tensor:
        """Return the logits of the word after each, (words, num_words)."""
        h = self.step(chains, self.dropout(self.words(words)))
        return self.out(self.back(self.dropout(h)))


def graph_of(lengths: torch.Tensor) -> dglite.DGLGraph:
    """Return chains of these lengths as one graph: each node has an edge to the next, the last of a chain none."""
    nodes = torch.arange(int(lengths.sum()))
    last = torch.zeros(len(nodes), dtype=torch.bool)
    last[lengths.cumsum(0) - 1] = True
    return dglite.graph((nodes[~last], nodes[~last] + 1), num_nodes=len(nodes))


def loss_of(model: LanguageModel, chains: list[Chain], reduction: str = "mean") -> torch.Tensor:
    """Return the cross entropy of the words that follow, in nats."""
    words, following = torch.cat([chain[:-1] for chain in chains]), torch.cat([chain[1:] for chain in chains])
    graph = graph_of(torch.tensor([len(chain) - 1 for chain in chains]))
    return F.cross_entropy(model(graph, words), following, reduction=reduction)


def chains_of(sentences: list[torch.Tensor], end: int, fixed: int | None) -> list[Chain]:
    """Return each sentence between two marks of its end, or all of them one after the other, cut to one length."""
    mark = torch.tensor([end])
    if fixed is None:
        return [torch.cat([mark, sentence, mark]) for sentence in sentences]
    text = torch.cat([mark, *(torch.cat([sentence, mark]) for sentence in sentences)])
    return [text[i : i + fixed + 1] for i in range(0, max(len(text) - fixed, 1), fixed)]


def perplexity(model: LanguageModel, chains: list[Chain], batch_size: int) -> float:
    """Return the perplexity of a word."""
    model.eval()
    with torch.no_grad():
        total = sum(loss_of(model, chains[i : i + batch_size], "sum").item() for i in range(0, len(chains), batch_size))
    return math.exp(total / sum(len(chain) - 1 for chain in chains))


def unigram_perplexity(training: list[Chain], test: list[Chain], num_words: int) -> float:
    """Return what the frequencies of words alone give, each word counted once more than it occurs."""
    words, tested = (torch.cat([chain[1:] for chain in chains]) for chains in (training, test))
    counts = torch.bincount(words, minlength=num_words) + 1.0
    return math.exp(-(counts / counts.sum()).log()[tested].mean().item())


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixed", type=int, metavar="LENGTH", help="cut the text into chains of one length")
    parser.add_argument("--hidden", type=int, default=128, help="size of the LSTM's state; default: %(default)s")
    parser.add_argument("--width", type=int, default=128, help="size of word vectors; default: %(default)s")
    parser.add_argument("--dropout", type=float, default=0.5, help="probability in training; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training data; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=16, help="sentences or chains of a training step; default: %(default)s"
    )
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="of Adam; default: %(default)s")
    parser.add_argument("--sentences", type=int, metavar="N", help="use only the first N; default: all")
    parser.add_argument("--raw-dir", help="folder with dev.txt; default: DGLITE_DATA_DIR, else downloaded")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--expect", type=float, metavar="PERPLEXITY", help="fail when the perplexity is above")
    return parser.parse_args()


def main() -> None:
    """Train and print what came out."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    data = WikiNERDataset(raw_dir=arguments.raw_dir)
    sentences = [data[i].words for i in range(min(arguments.sentences or len(data), len(data)))]
    end, num_words = len(data.vocabulary), len(data.vocabulary) + 1
    test = chains_of(sentences[::10], end, arguments.fixed)
    training = chains_of([s for i, s in enumerate(sentences) if i % 10], end, arguments.fixed)

    model = LanguageModel(num_words, arguments.width, arguments.hidden, arguments.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    steps = -(-len(training) // arguments.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.learning_rate, total_steps=steps * arguments.epochs
    )
    for epoch in range(arguments.epochs):
        model.train()
        start = time.perf_counter()
        with tqdm(total=len(training), desc=f"epoch {epoch + 1}", unit="chain", disable=None) as bar:
            for rows in torch.randperm(len(training)).split(arguments.batch_size):
                loss = loss_of(model, [training[i] for i in rows])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                bar.update(len(rows))
                bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
        rate = sum(len(chain) - 1 for chain in training) / (time.perf_counter() - start)
        value = perplexity(model, test, arguments.batch_size)
        print(f"epoch {epoch + 1}: test perplexity {value:.1f}, {rate:.0f} words/s")
    print(f"by frequency alone: test perplexity {unigram_perplexity(training, test, num_words):.1f}")
    if arguments.expect is not None and value > arguments.expect:
        sys.exit(f"expected a test perplexity of at most {arguments.expect}, got {value:.1f}")


if __name__ == "__main__":
    main()
