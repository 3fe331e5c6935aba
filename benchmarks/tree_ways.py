"""Every way of writing the networks of ``tree_models.py``.

A :class:`Way` brings the formula of a node to a batch of trees: its step is ``construct`` (what each new batch needs
before anything can be computed), then ``loss``, which leaves gradients in ``.grad``. ``benchmarks/dynamic.py`` measures
the ways, ``tests/dynamic/test_ways.py`` holds them to one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from tree_models import Tree, TreeModel

import dglite
from dglite import dynamic
from dglite.dynamic.execution.order import order_of

RATE = 1e-4
"""Of learning."""


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

    def report(self, trees: Sequence[Tree]) -> Report | None:
        """Tell what the last step did, which was on these trees; None where that is not known."""
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
        labels, results, first = dynamic.lazy(torch.cat([tree.labels for tree in trees])).unbind(), list[Any](), 0
        for tree in trees:
            states: list[Any] = [None] * len(tree.children)
            for node in reversed(range(len(states))):
                below, label = tree.children[node], labels[first + node]
                if below:
                    *states[node], loss = self.inner(*states[below[0]], *states[below[1]], label)
                else:
                    *states[node], loss = self.leaf(next(words), label)
                results.append(loss)
            first += len(states)
        return results

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


class ByProcessors(Way):
    """Steps by persistent processors, of what a way records."""

    def __init__(self, model: TreeModel, rate: float = RATE) -> None:
        super().__init__(model)
        parameters = list(model.parameters())
        self.handle = dynamic.persistent(parameters, torch.optim.SGD(parameters, lr=rate))

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


class Persistent(ByProcessors, Lazy):
    """Lazy tensors, a node of a tree at a time, trained by persistent processors."""

    def _words(self, numbers: torch.Tensor) -> Any:
        """Return the vectors of all leaves, looked up one by one: the table is trained where it lies."""
        return [F.embedding(dynamic.lazy(word), self.model.words.weight) for word in numbers.tolist()]


class PersistentProgram(ByProcessors, VertexProgram):
    """A vertex program on lazy tensors, trained by persistent processors."""

    def construct(self, trees: Sequence[Tree]) -> Any:
        """Join the trees and record the loss."""
        batch = super().construct(trees)
        words = F.embedding(dynamic.lazy(batch.words), self.model.words.weight)
        h = self.program(batch.graph, dynamic.Partial(batch.leaves, words))
        return F.cross_entropy(self.model.out(h), dynamic.lazy(batch.labels), reduction="sum")

    def loss(self, batch: Any) -> torch.Tensor:
        """Run what was recorded."""
        return dynamic.backward(batch)


def _bytes_of_children(model: TreeModel, trees: Sequence[Tree]) -> int:
    """Return the size of one state vector per edge."""
    return sum(tree.graph.num_edges() for tree in trees) * model.hidden * model.out.weight.element_size()


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = run()
    return perf_counter() - start, result
