"""Learn to evaluate expressions with Tree-FC: one fully connected layer on complete binary trees, a vertex program.

    python examples/tree_fc.py
    python examples/tree_fc.py --leaves 256 --trees 500

Tree-FC is the model that Looks et al. ("Deep learning with dynamic computation graphs", 2017) and Xu et al. ("Cavs",
2018) measure with. Here it has something to learn: a leaf is a digit, an inner node has the value (2 left + right) mod
5, and the network, which sees the leaves alone, tells the value of every node. Trees to test with are drawn anew.
With the defaults it is right about all of 500 roots.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import dglite
from dglite import dynamic

DIGITS = 5


class FullyConnected(dynamic.VertexFunction):
    """``h = tanh(W [left; right] + x)``: x is 0 at inner nodes, the children's states are 0 at leaves."""

    def __init__(self, hidden: int) -> None:
        super().__init__(state=hidden)
        self.W = nn.Linear(2 * hidden, hidden)

    def forward(self) -> None:
        h = torch.tanh(self.W(torch.cat([self.gather(0), self.gather(1)], 1)) + self.pull())
        self.scatter(h)
        self.push(h)


class TreeFC(nn.Module):
    """Digits to vectors, a vertex program over the trees, the value of every node."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.digits, self.cell = nn.Embedding(DIGITS, hidden), FullyConnected(hidden)
        self.out = nn.Linear(hidden, DIGITS)

    def forward(self, trees: dglite.DGLGraph, leaves: torch.Tensor, digits: torch.Tensor) -> torch.Tensor:
        """Return logits (nodes, 5)."""
        return self.out(self.cell(trees, dynamic.Partial(leaves, self.digits(digits))))


class Trees:
    """A batch of complete binary trees, numbered level by level: roots first, each node's children side by side."""

    def __init__(self, count: int, num_leaves: int) -> None:
        self.levels = [count * 2**level for level in range(num_leaves.bit_length())]
        num_nodes = sum(self.levels)
        children = torch.arange(count, num_nodes)
        self.graph = dglite.graph((children, (children - count) // 2), num_nodes=num_nodes)
        self.leaves = torch.arange(num_nodes - self.levels[-1], num_nodes)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return digits for the leaves, and the value of every node."""
        digits = torch.randint(DIGITS, (self.levels[-1],))
        values = [digits]
        while len(values) < len(self.levels):
            left, right = values[0].view(-1, 2).unbind(1)
            values.insert(0, (2 * left + right) % DIGITS)
        return digits, torch.cat(values)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--leaves", type=int, default=32, help="leaves of a tree, a power of two; default: %(default)s")
    parser.add_argument("--hidden", type=int, default=64, help="size of a node's state; default: %(default)s")
    parser.add_argument("--trees", type=int, default=64000, help="trees to train with; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=64, help="trees of a training step; default: %(default)s")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="of Adam; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--expect", type=float, metavar="ACCURACY", help="fail when the root accuracy is below")
    arguments = parser.parse_args()
    if arguments.leaves < 2 or arguments.leaves & (arguments.leaves - 1):
        parser.error(f"--leaves {arguments.leaves}: a complete binary tree has 2, 4, 8, ... leaves")
    return arguments


def main() -> None:
    """Train and print what came out."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    trees, model = Trees(arguments.batch_size, arguments.leaves), TreeFC(arguments.hidden)
    steps = max(arguments.trees // arguments.batch_size, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, arguments.learning_rate, total_steps=steps)
    start = time.perf_counter()
    with tqdm(total=steps * arguments.batch_size, unit="tree", disable=None) as bar:
        for _ in range(steps):
            digits, values = trees.draw()
            loss = F.cross_entropy(model(trees.graph, trees.leaves, digits), values)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            bar.update(arguments.batch_size)
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    rate = steps * arguments.batch_size / (time.perf_counter() - start)
    test = Trees(500, arguments.leaves)
    digits, values = test.draw()
    with torch.no_grad():
        right = (model(test.graph, test.leaves, digits).argmax(1) == values).float()
    roots = right[:500].mean().item()
    print(f"test accuracy {roots:.3f} (roots), {right.mean():.3f} (nodes), {rate:.0f} trees/s")
    if arguments.expect is not None and roots < arguments.expect:
        sys.exit(f"expected a test accuracy of at least {arguments.expect}, got {roots:.3f}")


if __name__ == "__main__":
    main()
