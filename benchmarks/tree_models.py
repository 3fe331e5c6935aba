"""A binary Tree-LSTM and Tree-FC with a loss at every node, and trees to train them on.

Tai, Socher and Manning, "Improved semantic representations from tree-structured long short-term memory networks", 2015;
Looks et al., "Deep learning with dynamic computation graphs", 2017. The formula of a node is written once; what brings
it to a batch of trees is in ``tree_ways.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import DGLError, dynamic
from dglite.data import SSTDataset

# -- the network -------------------------------------------------------------------------------------------------------
Functions = tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]
"""Of messages: message, reduce, apply."""


class TreeModel(nn.Module):
    """Words to vectors, states of nodes, a loss from the first state of each, ``h``.

    ``leaf(x)`` and ``inner(*left, *right)`` return a node's states, (hidden,) each for one sample, (nodes, hidden) for
    rows of them. ``vertex()`` and ``messages(g, leaves, x)`` bring the same to graphs.
    """

    num_states: int

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(num_words, hidden, sparse=True), nn.Linear(hidden, 5)
        self.hidden = hidden

    def total(self, h: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the sum of the losses, with its gradients left in ``.grad``."""
        loss = F.cross_entropy(self.out(h), labels, reduction="sum")
        loss.backward()
        return loss.detach()

    def flops(self, nodes: float, leaves: float) -> float:
        """Return the arithmetic of the products of a step: forward, and twice that backward."""
        return 3 * 2 * (5 * self.hidden * nodes + self._products(nodes - leaves, leaves))

    def _products(self, inner: float, leaves: float) -> float:
        raise NotImplementedError


class TreeLSTM(TreeModel):
    """The binary Tree-LSTM; the products' biases are those of W."""

    num_states = 2

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__(num_words, hidden)
        self.W, self.U = nn.Linear(hidden, 3 * hidden), nn.Linear(2 * hidden, 5 * hidden, bias=False)

    def gates(self, iou: Any, f: Any, c_left: Any, c_right: Any) -> tuple[Any, Any]:
        """Return state and memory from what the gates get."""
        i, o, u = iou.chunk(3, -1)
        f_left, f_right = torch.sigmoid(f).chunk(2, -1)
        c = torch.sigmoid(i) * torch.tanh(u) + f_left * c_left + f_right * c_right
        return torch.sigmoid(o) * torch.tanh(c), c

    def leaf(self, x: Any) -> tuple[Any, Any]:
        """Return state and memory of a word."""
        i, o, u = self.W(x).chunk(3, -1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def inner(self, h_left: Any, c_left: Any, h_right: Any, c_right: Any) -> tuple[Any, Any]:
        """Return state and memory of a phrase from those of its parts."""
        iou, f = self.U(torch.cat([h_left, h_right], -1)).split([3 * self.hidden, 2 * self.hidden], -1)
        return self.gates(iou + self.W.bias, f, c_left, c_right)

    def vertex(self) -> dynamic.VertexFunction:
        """Return the function of a vertex."""
        return TreeLSTMVertex(self)

    def messages(self, g: Any, leaves: torch.Tensor, x: torch.Tensor) -> Functions:
        """Write what nodes start from into ``g`` and return the functions of messages."""
        size, n = self.hidden, g.num_nodes()
        g.ndata["x"] = self.W.bias.expand(n, -1).index_copy(0, leaves, self.W(x))
        for name, width in (("h", size), ("c", size), ("iou", 3 * size), ("fc", size)):
            g.ndata[name] = x.new_zeros(n, width)

        def message(edges: Any) -> dict[str, Any]:
            return {"h": edges.src["h"], "c": edges.src["c"]}

        def reduce(nodes: Any) -> dict[str, Any]:
            z = self.U(nodes.mailbox["h"].flatten(1))
            f = torch.sigmoid(z[:, 3 * size :]).view(-1, 2, size)
            return {"iou": z[:, : 3 * size], "fc": (f * nodes.mailbox["c"]).sum(1)}

        def apply(nodes: Any) -> dict[str, Any]:
            i, o, u = (nodes.data["x"] + nodes.data["iou"]).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["fc"]
            return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

        return message, reduce, apply

    def _products(self, inner: float, leaves: float) -> float:
        return self.hidden**2 * (3 * leaves + 10 * inner)


class TreeLSTMVertex(dynamic.VertexFunction):
    """The Tree-LSTM of a vertex."""

    def __init__(self, model: TreeLSTM) -> None:
        super().__init__(state={"h": model.hidden, "c": model.hidden})
        self.model = model

    def forward(self) -> None:
        left, right, size = self.gather(0), self.gather(1), self.model.hidden
        iou, f = self.model.U(torch.cat([left.h, right.h], 1)).split([3 * size, 2 * size], 1)
        h, c = self.model.gates(self.model.W(self.pull()) + iou, f, left.c, right.c)
        self.scatter(h=h, c=c)
        self.push(h)


class TreeFC(TreeModel):
    """One fully connected layer, ``tanh(W [left; right] + x + b)``: no children at a leaf, no word x at a phrase."""

    num_states = 1

    def __init__(self, num_words: int, hidden: int) -> None:
        super().__init__(num_words, hidden)
        self.W = nn.Linear(2 * hidden, hidden)

    def leaf(self, x: Any) -> tuple[Any]:
        """Return the state of a word."""
        return (torch.tanh(x + self.W.bias),)

    def inner(self, left: Any, right: Any) -> tuple[Any]:
        """Return the state of a phrase from those of its parts."""
        return (torch.tanh(self.W(torch.cat([left, right], -1))),)

    def vertex(self) -> dynamic.VertexFunction:
        """Return the function of a vertex."""
        return TreeFCVertex(self)

    def messages(self, g: Any, leaves: torch.Tensor, x: torch.Tensor) -> Functions:
        """Write what nodes start from into ``g`` and return the functions of messages."""
        g.ndata["h"] = g.ndata["z"] = torch.zeros(g.num_nodes(), self.hidden)
        g.ndata["x"] = g.ndata["h"].index_copy(0, leaves, x + self.W.bias)

        def message(edges: Any) -> dict[str, Any]:
            return {"h": edges.src["h"]}

        def reduce(nodes: Any) -> dict[str, Any]:
            return {"z": self.W(nodes.mailbox["h"].flatten(1))}

        def apply(nodes: Any) -> dict[str, Any]:
            return {"h": torch.tanh(nodes.data["x"] + nodes.data["z"])}

        return message, reduce, apply

    def _products(self, inner: float, leaves: float) -> float:
        return self.hidden**2 * 2 * inner


class TreeFCVertex(dynamic.VertexFunction):
    """Tree-FC of a vertex."""

    def __init__(self, model: TreeFC) -> None:
        super().__init__(state=model.hidden)
        self.model = model

    def forward(self) -> None:
        h = torch.tanh(self.model.W(torch.cat([self.gather(0), self.gather(1)], 1)) + self.pull())
        self.scatter(h)
        self.push(h)


# -- trees -------------------------------------------------------------------------------------------------------------
class Tree(NamedTuple):
    """A tree as a graph, and as lists for ways that go node by node.

    Children come after their parents, so nodes are evaluated from the last to the first; ``words`` are those of the
    leaves in that order, ``labels`` are of all nodes by number, ``children`` lists each node's.
    """

    graph: dglite.DGLGraph
    words: torch.Tensor
    labels: torch.Tensor
    children: list[list[int]]


def tree_of(g: dglite.DGLGraph) -> Tree:
    """Return the tree that a graph with ``x`` (words, -1 at inner nodes) and ``y`` (labels) is."""
    children: list[list[int]] = [[] for _ in range(g.num_nodes())]
    for child, parent in zip(*(end.tolist() for end in g.edges()), strict=True):
        children[parent].append(child)
    words = g.ndata["x"].flip(0)
    return Tree(g, words[words >= 0], g.ndata["y"], children)


def load_trees(count: int) -> tuple[list[Tree], int, str]:
    """Return trees of the treebank, random ones where it is not found; how many words there are; the source."""
    try:
        data = SSTDataset()
        return [tree_of(data[i]) for i in range(min(count, len(data)))], data.vocab_size, "Stanford Sentiment Treebank"
    except DGLError as error:
        print(f"random trees are used: {error}")
        return [random_tree(random.Random(i)) for i in range(count)], 1000, "random binary trees of 19 leaves"


def random_tree(generator: random.Random, leaves: int = 19, num_words: int = 1000) -> Tree:
    """Return a binary tree with this many leaves."""
    parents, sizes, pending = [-1], {0: leaves}, [0]
    while pending:
        node = pending.pop()
        if sizes[node] > 1:
            left = generator.randrange(1, sizes[node])
            for size in (left, sizes[node] - left):
                sizes[len(parents)] = size
                pending.append(len(parents))
                parents.append(node)
    return _labelled(parents, num_words)


def complete_tree(leaves: int) -> Tree:
    """Return a complete binary tree, its root first."""
    return _labelled([-1, *((node - 1) // 2 for node in range(1, 2 * leaves - 1))], 1000)


def _labelled(parents: list[int], num_words: int) -> Tree:
    """Return a tree with random words at its leaves and random labels."""
    nodes = [node for node, parent in enumerate(parents) if parent >= 0]
    g = dglite.graph((nodes, [parents[node] for node in nodes]), num_nodes=len(parents))
    g.ndata["x"] = torch.where(g.in_degrees() > 0, -1, torch.randint(num_words, (len(parents),)))
    g.ndata["y"] = torch.randint(5, (len(parents),))
    return tree_of(g)
