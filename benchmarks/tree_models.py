"""A binary Tree-LSTM and Tree-FC with a loss at every node, in every way of writing them, and trees to train them on.

Tai, Socher and Manning, "Improved semantic representations from tree-structured long short-term memory networks", 2015;
Looks et al., "Deep learning with dynamic computation graphs", 2017. The formula of a node is written once. A
:class:`Way` brings it to a batch of trees: its step is ``construct`` (what each new batch needs before anything can be
computed), then ``loss``, which leaves gradients in ``.grad``. ``benchmarks/dynamic.py`` measures the ways,
``tests/dynamic/test_ways.py`` holds them to one another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import DGLError, dynamic
from dglite.data import SSTDataset
from dglite.dynamic.order import order_of

# -- the network -------------------------------------------------------------------------------------------------------
RATE = 1e-4
"""Of learning."""

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
            g.ndata[name] = torch.zeros(n, width)

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
    """Return a binary tree with so many leaves."""
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


# -- ways of writing it ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Report:
    """What a step did: runs of operations or of levels, bytes copied to bring children's states together, forward.

    Lazy batching counts the bytes; for other ways they are the least that their code copies: the states ``h`` of
    children for the product, in messages all states.
    """

    batches: int
    gathered_bytes: int
    scheduling_seconds: float


class Way:
    """Trains one network in one way."""

    def __init__(self, model: TreeModel) -> None:
        self.model = model

    def construct(self, trees: Sequence[Tree]) -> Any:
        """Return a batch, as this way needs it."""
        raise NotImplementedError

    def loss(self, batch: Any) -> torch.Tensor:
        """Return the sum of the losses of all nodes, and add its gradients to ``.grad``."""
        raise NotImplementedError

    def report(self, trees: Sequence[Tree]) -> Report:
        """Tell what the last step did, which was on these trees."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for steps that were started."""

    def step(self, batch: Any) -> torch.Tensor:
        """Do one step of gradient descent and return the loss."""
        loss = self.loss(batch)
        with torch.no_grad():
            for x in self.model.parameters():
                if x.grad is not None:
                    x.add_(x.grad, alpha=-RATE)
                    x.grad = None
        return loss


class NodeByNode(Way):
    """Plain torch, one tree after the other, one node after the other."""

    def construct(self, trees: Sequence[Tree]) -> Sequence[Tree]:
        """Return the trees: there is nothing to do."""
        return trees

    def loss(self, batch: Sequence[Tree]) -> torch.Tensor:
        """Go through the trees."""
        return torch.stack([self.model.total(self._states(tree), tree.labels) for tree in batch]).sum()

    def _states(self, tree: Tree) -> torch.Tensor:
        leaves = iter(self.model.words(tree.words).split(1))
        states: list[Any] = [None] * len(tree.children)
        for node in reversed(range(len(states))):
            below = [x for child in tree.children[node] for x in states[child]]
            states[node] = self.model.inner(*below) if below else self.model.leaf(next(leaves))
        return torch.cat([state[0] for state in states])

    def report(self, trees: Sequence[Tree]) -> Report:
        """Count a batch per node."""
        return Report(sum(len(tree.children) for tree in trees), _bytes_of_children(self.model, trees), 0.0)


class Joined(NamedTuple):
    """Trees as one graph; leaves and their words in the order of its nodes."""

    graph: Any
    leaves: torch.Tensor
    words: torch.Tensor
    labels: torch.Tensor


def _joined(library: ModuleType, graphs: list[Any]) -> Joined:
    g = library.batch(graphs)
    words = g.ndata["x"]
    leaves = torch.nonzero(words >= 0).flatten()
    return Joined(g, leaves, words[leaves], g.ndata["y"])


class VertexProgram(Way):
    """A vertex program."""

    def __init__(self, model: TreeModel) -> None:
        super().__init__(model)
        self.program = model.vertex()

    def construct(self, trees: Sequence[Tree]) -> Joined:
        """Join the trees."""
        return _joined(dglite, [tree.graph for tree in trees])

    def loss(self, batch: Joined) -> torch.Tensor:
        """Run the program; the order of a new graph is found in it."""
        words = dynamic.Partial(batch.leaves, self.model.words(batch.words))
        return self.model.total(self.program(batch.graph, words), batch.labels)

    def report(self, trees: Sequence[Tree]) -> Report:
        """Count the levels; find their order once more."""
        adjacency = self.construct(trees).graph.adjacency()
        seconds, order = _timed(lambda: order_of(adjacency, None, 1))
        return Report(len(order.segments), _bytes_of_children(self.model, trees), seconds)


Propagate = Callable[..., None]
"""Called with the library, the graph, and the functions of messages."""


def in_topological_order(library: ModuleType, g: Any, message: Any, reduce: Any, apply: Any) -> None:
    """Send messages level by level."""
    library.prop_nodes_topo(g, message, reduce, apply_node_func=apply)


class Messages(Way):
    """User-defined functions of messages, in dglite or in DGL, whose graphs of ``trees`` are made beforehand."""

    def __init__(
        self,
        model: TreeModel,
        library: ModuleType = dglite,
        trees: Sequence[Tree] = (),
        propagate: Propagate = in_topological_order,
    ) -> None:
        super().__init__(model)
        self.library, self.propagate = library, propagate
        self.graphs = {id(tree): _in_library(library, tree) for tree in trees}

    def construct(self, trees: Sequence[Tree]) -> Joined:
        """Join the trees."""
        return _joined(self.library, [self.graphs.get(id(tree), tree.graph) for tree in trees])

    def loss(self, batch: Joined) -> torch.Tensor:
        """Send messages."""
        functions = self.model.messages(batch.graph, batch.leaves, self.model.words(batch.words))
        self.propagate(self.library, batch.graph, *functions)
        return self.model.total(batch.graph.ndata["h"], batch.labels)

    def report(self, trees: Sequence[Tree]) -> Report:
        """Count the frontiers; find them once more, when what finds them has been compiled."""
        g = self.construct(trees).graph
        frontiers = list(self.library.topological_nodes_generator(g))
        seconds, _ = _timed(lambda: list(self.library.topological_nodes_generator(g)))
        return Report(len(frontiers), self.model.num_states * _bytes_of_children(self.model, trees), seconds)


def _in_library(library: ModuleType, tree: Tree) -> Any:
    g = library.graph(tree.graph.edges(), num_nodes=tree.graph.num_nodes())
    g.ndata["x"], g.ndata["y"] = tree.graph.ndata["x"], tree.graph.ndata["y"]
    return g


class Lazy(Way):
    """Lazy tensors; every torch function recorded, or a node of a tree at a time (``cells``)."""

    def __init__(self, model: TreeModel, cells: bool = True, strategy: str = "agenda") -> None:
        super().__init__(model)
        reduction, self.strategy = "none" if cells else "mean", strategy
        wrap: Callable[[Any], Any] = dynamic.cell if cells else lambda function: function

        def leaf(x: Any, label: Any) -> tuple[Any, ...]:
            states = model.leaf(x)
            return *states, F.cross_entropy(model.out(states[0]), label, reduction=reduction)

        def inner(*below: Any) -> tuple[Any, ...]:
            states = model.inner(*below[:-1])
            return *states, F.cross_entropy(model.out(states[0]), below[-1], reduction=reduction)

        self.leaf, self.inner = wrap(leaf), wrap(inner)

    def construct(self, trees: Sequence[Tree]) -> list[Any]:
        """Record the losses of all nodes."""
        words = iter(self._words(torch.cat([tree.words for tree in trees])))
        labels, found, first = dynamic.lazy(torch.cat([tree.labels for tree in trees])).unbind(), list[Any](), 0
        for tree in trees:
            states: list[Any] = [None] * len(tree.children)
            for node in reversed(range(len(states))):
                below, label = tree.children[node], labels[first + node]
                if below:
                    *states[node], loss = self.inner(*states[below[0]], *states[below[1]], label)
                else:
                    *states[node], loss = self.leaf(next(words), label)
                found.append(loss)
            first += len(states)
        return found

    def _words(self, numbers: torch.Tensor) -> Any:
        """Return the vectors of all leaves, looked up together."""
        return dynamic.lazy(self.model.words(numbers))

    def loss(self, batch: list[Any]) -> torch.Tensor:
        """Run what was recorded."""
        return dynamic.backward(batch, strategy=self.strategy)

    def report(self, trees: Sequence[Tree]) -> Report:
        """Pass on what the run counted."""
        last = dynamic.last_run()
        return Report(len(last.batches), last.bytes_gathered, last.scheduling_seconds)


class Persistent(Lazy):
    """Lazy tensors, a node of a tree at a time, trained by persistent processors."""

    def __init__(self, model: TreeModel, rate: float = RATE) -> None:
        super().__init__(model)
        parameters = list(model.parameters())
        self.handle = dynamic.persistent(parameters, torch.optim.SGD(parameters, lr=rate))

    def _words(self, numbers: torch.Tensor) -> Any:
        """Return the vectors of all leaves, looked up one by one: the table is trained where it lies."""
        return [F.embedding(dynamic.lazy(word), self.model.words.weight) for word in numbers.tolist()]

    def step(self, batch: list[Any]) -> Any:
        """Start a step and return the loss of the one before."""
        return self.handle.step(batch)

    def finish(self) -> None:
        """Wait for the last step."""
        self.handle.sync()

    def report(self, trees: Sequence[Tree]) -> Report:
        """Do one more step: it returns when its scripts are written. One launch runs all of it."""
        batch = self.construct(trees)
        self.finish()
        seconds, _ = _timed(lambda: self.step(batch))
        self.finish()
        return Report(1, _bytes_of_children(self.model, trees), seconds)


class PersistentProgram(VertexProgram):
    """A vertex program on lazy tensors, trained by persistent processors."""

    def __init__(self, model: TreeModel, rate: float = RATE) -> None:
        super().__init__(model)
        parameters = list(model.parameters())
        self.handle = dynamic.persistent(parameters, torch.optim.SGD(parameters, lr=rate))

    def construct(self, trees: Sequence[Tree]) -> Any:
        """Join the trees and record the loss."""
        batch = super().construct(trees)
        words = F.embedding(dynamic.lazy(batch.words), self.model.words.weight)
        h = self.program(batch.graph, dynamic.Partial(batch.leaves, words))
        return F.cross_entropy(self.model.out(h), dynamic.lazy(batch.labels), reduction="sum")

    def loss(self, batch: Any) -> torch.Tensor:
        """Run what was recorded."""
        return dynamic.backward(batch)

    def step(self, batch: Any) -> Any:
        """Start a step and return the loss of the one before."""
        return self.handle.step(batch)

    def finish(self) -> None:
        """Wait for the last step."""
        self.handle.sync()

    def report(self, trees: Sequence[Tree]) -> Report:
        """Do one more step: it returns when its scripts are written. One launch runs all of it."""
        batch = self.construct(trees)
        self.finish()
        seconds, _ = _timed(lambda: self.step(batch))
        self.finish()
        return Report(1, _bytes_of_children(self.model, trees), seconds)


def _bytes_of_children(model: TreeModel, trees: Sequence[Tree]) -> int:
    """Return the size of one state vector per edge."""
    return sum(tree.graph.num_edges() for tree in trees) * model.hidden * model.out.weight.element_size()


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = run()
    return perf_counter() - start, result
