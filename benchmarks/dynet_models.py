"""The Tree-LSTM, tagger and lattice in DyNet, whose operations are batched as they are recorded (Neubig et al., 2017).

DyNet computes on one thread. ``pip install --no-deps dyNET38`` has it for today's Python; without it the benchmarks
leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from tree_models import Tree, TreeLSTM
from tree_ways import RATE, Way

Expression = Any


class DyNetTrees(Way):
    """A Tree-LSTM with parameters of DyNet's own, copies of the model's."""

    def __init__(self, model: TreeLSTM, dynet: ModuleType) -> None:
        super().__init__(model)
        self.dynet, self.memory = dynet, dynet.ParameterCollection()
        self.words = self.memory.lookup_parameters_from_numpy(_array(model.words.weight))
        names = ("W.weight", "W.bias", "U.weight", "out.weight", "out.bias")
        self.own = {name: self.memory.parameters_from_numpy(_array(model.get_parameter(name))) for name in names}
        self.trainer = _descent(dynet, self.memory)

    def construct(self, trees: Sequence[Tree]) -> Expression:
        """Record the loss of all nodes."""
        self.dynet.renew_cg()
        losses: list[Expression] = []
        for tree in trees:
            states: list[Any] = [None] * len(tree.children)
            words, labels = iter(tree.words.tolist()), tree.labels.tolist()
            for node in reversed(range(len(states))):
                below = [states[child] for child in tree.children[node]]
                states[node] = self._inner(*below) if below else self._leaf(next(words))
                losses.append(self._loss(states[node][0], labels[node]))
        return self.dynet.esum(losses)

    def _leaf(self, word: int) -> tuple[Expression, Expression]:
        dy = self.dynet
        gates = dy.affine_transform([self.own["W.bias"], self.own["W.weight"], dy.lookup(self.words, word)])
        i, o, u = self._parts(gates, 3)
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def _inner(self, left: Any, right: Any) -> tuple[Expression, Expression]:
        dy, size = self.dynet, self.model.hidden
        gates = self.own["U.weight"] * dy.concatenate([left[0], right[0]])
        i, o, u = self._parts(dy.pick_range(gates, 0, 3 * size) + self.own["W.bias"], 3)
        f_left, f_right = self._parts(dy.logistic(dy.pick_range(gates, 3 * size, 5 * size)), 2)
        c = dy.cmult(dy.logistic(i), dy.tanh(u)) + dy.cmult(f_left, left[1]) + dy.cmult(f_right, right[1])
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def _loss(self, h: Expression, label: int) -> Expression:
        scores = self.dynet.affine_transform([self.own["out.bias"], self.own["out.weight"], h])
        return self.dynet.pickneglogsoftmax(scores, label)

    def _parts(self, x: Expression, count: int) -> list[Expression]:
        size = self.model.hidden
        return [self.dynet.pick_range(x, i * size, (i + 1) * size) for i in range(count)]

    def loss(self, batch: Expression) -> torch.Tensor:
        """Compute what was recorded."""
        loss = self._computed(batch)
        gradients = {name: one.grad_as_array() for name, one in self.own.items()} | {
            "words.weight": self.words.grad_as_array()
        }
        for name, grad in gradients.items():
            self.model.get_parameter(name).grad = torch.tensor(grad, dtype=torch.float32)
        return torch.tensor(loss)

    def step(self, batch: Expression) -> torch.Tensor:
        """Do one step of gradient descent on DyNet's parameters."""
        loss = self._computed(batch)
        self.trainer.update()
        return torch.tensor(loss)

    def _computed(self, batch: Expression) -> float:
        batch.forward()
        loss = batch.value()
        batch.backward()
        return float(loss)

    def report(self, trees: Sequence[Tree]) -> None:
        """Return nothing: DyNet does not tell what it did."""


class DyNetTagger:
    """The tagger of ``lazy.py``, its LSTMs those of DyNet (one operation for all gates)."""

    def __init__(self, dynet: ModuleType, num_words: int, num_tags: int, hidden: int, width: int = 128) -> None:
        self.dynet, self.memory = dynet, dynet.ParameterCollection()
        self.words = self.memory.add_lookup_parameters((num_words, width))
        self.directions = [dynet.VanillaLSTMBuilder(1, width, hidden, self.memory) for _ in range(2)]
        self.weight = self.memory.add_parameters((num_tags, 2 * hidden))
        self.bias = self.memory.add_parameters((num_tags,))
        self.trainer = _descent(dynet, self.memory)

    def step(self, sentences: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
        """Do one step of gradient descent and return the sum of the losses of all words."""
        dy, losses = self.dynet, list[Expression]()
        dy.renew_cg()
        for words, tags in sentences:
            vectors = [dy.lookup(self.words, word) for word in words.tolist()]
            left, right = (
                direction.initial_state().transduce(inputs)
                for direction, inputs in zip(self.directions, (vectors, vectors[::-1]), strict=True)
            )
            for before, after, tag in zip(left, right[::-1], tags.tolist(), strict=True):
                scores = dy.affine_transform([self.bias, self.weight, dy.concatenate([before, after])])
                losses.append(dy.pickneglogsoftmax(scores, tag))
        return _trained(dy.esum(losses), self.trainer)


class DyNetLattice:
    """The lattice LSTM of ``ed_batch.py``, with copies of its parameters."""

    def __init__(self, model: nn.Module, dynet: ModuleType) -> None:
        self.dynet, self.memory = dynet, dynet.ParameterCollection()
        tables = {name: x for name, x in model.named_parameters() if name.startswith(("chars", "words"))}
        self.tables = {name: self.memory.lookup_parameters_from_numpy(_array(x)) for name, x in tables.items()}
        others = {name: x for name, x in model.named_parameters() if name not in tables}
        self.own = {name: self.memory.parameters_from_numpy(_array(x)) for name, x in others.items()}
        self.trainer = _descent(dynet, self.memory)
        self.hidden: int = model.hidden  # type: ignore[assignment]

    def _linear(self, name: str, *inputs: Expression) -> Expression:
        weights = self.own[f"{name}.bias"], self.own[f"{name}.weight"]
        return self.dynet.affine_transform([*weights, self.dynet.concatenate(list(inputs))])

    def _gates(self, name: str, *inputs: Expression) -> list[Expression]:
        gates, n = self._linear(name, *inputs), self.hidden
        return [self.dynet.pick_range(gates, i * n, (i + 1) * n) for i in range(3)]

    def step(self, lattices: Sequence[Any]) -> float:
        """Do one step of gradient descent and return the sum of the losses of all characters."""
        dy, losses = self.dynet, list[Expression]()
        dy.renew_cg()
        for characters, arcs, tags in lattices:
            states = [(dy.zeros(self.hidden), dy.zeros(self.hidden))]
            ending = [[(begin, word) for begin, end, word in arcs if end == at] for at in range(len(characters))]
            for at, character in enumerate(characters.tolist()):
                x = dy.lookup(self.tables["chars.weight"], character)
                memories = [self._linked(x, states[begin], word) for begin, word in ending[at]]
                states.append(self._char(x, *states[-1], memories))
            for (h, _), tag in zip(states[1:], tags.tolist(), strict=True):
                losses.append(dy.pickneglogsoftmax(self._linear("out", h), tag))
        return _trained(dy.esum(losses), self.trainer)

    def _linked(self, x: Expression, state: tuple[Expression, Expression], word: int) -> Expression:
        dy = self.dynet
        f, i, u = self._gates("word", dy.lookup(self.tables["words.weight"], word), state[0])
        memory = dy.cmult(dy.logistic(f), state[1]) + dy.cmult(dy.logistic(i), dy.tanh(u))
        return dy.cmult(dy.logistic(self._linear("link", x, memory)), memory)

    def _char(self, x: Expression, h: Expression, c: Expression, memories: list[Expression]) -> Any:
        dy = self.dynet
        i, o, u = self._gates("char", x, h)
        i = dy.logistic(i)
        c = dy.esum([c, -dy.cmult(i, c), dy.cmult(i, dy.tanh(u)), *memories])
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c


def _trained(total: Expression, trainer: Any) -> float:
    """Do one step of gradient descent and return the loss."""
    total.forward()
    loss = float(total.value())
    total.backward()
    trainer.update()
    return loss


def _array(x: nn.Parameter) -> np.ndarray:
    return x.detach().numpy()


def _descent(dynet: ModuleType, memory: Any) -> Any:
    trainer = dynet.SimpleSGDTrainer(memory, learning_rate=RATE)
    trainer.set_clip_threshold(0)
    return trainer
