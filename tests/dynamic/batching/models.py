"""Models written for one sample, which run on plain tensors and on lazy ones alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Tree = tuple[Any, ...]
"""(label, word) at a leaf, (label, left, right) elsewhere."""


def random_tree(generator: random.Random, leaves: int) -> Tree:
    """Return a binary tree with random labels and words."""
    label = generator.randrange(5)
    if leaves == 1:
        return label, generator.randrange(9)
    left = generator.randrange(1, leaves)
    return label, random_tree(generator, left), random_tree(generator, leaves - left)


class TreeLSTM(nn.Module):
    """A binary Tree-LSTM with a loss at every node; ``wrap`` is applied to the functions of a node."""

    def __init__(self, wrap: Callable[[Any], Any] = lambda function: function) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.W, self.U, self.out = nn.Linear(4, 18), nn.Linear(12, 30, bias=False), nn.Linear(6, 5)
        self.leaf, self.inner = wrap(self._leaf), wrap(self._inner)

    def _leaf(self, x: Any) -> tuple[Any, Any]:
        i, o, u = self.W(x).chunk(3, -1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c

    def _inner(self, h_left: Any, c_left: Any, h_right: Any, c_right: Any) -> tuple[Any, Any]:
        i, f, g, o, u = self.U(torch.cat([h_left, h_right], -1)).chunk(5, -1)
        c = i.sigmoid() * u.tanh() + f.sigmoid() * c_left + g.sigmoid() * c_right
        return o.sigmoid() * c.tanh(), c

    def forward(self, tree: Tree, make: Callable[[int], Any], losses: list[Any]) -> tuple[Any, Any]:
        """Append the losses of all nodes; ``make`` makes a tensor of an integer."""
        if len(tree) == 2:
            h, c = self.leaf(self.words(make(tree[1])))
        else:
            left, right = self(tree[1], make, losses), self(tree[2], make, losses)
            h, c = self.inner(*left, *right)
        losses.append(F.cross_entropy(self.out(h), make(tree[0])))
        return h, c


class Tagger(nn.Module):
    """A bidirectional LSTM over sentences of any length."""

    def __init__(self, wrap: Callable[[Any], Any] = lambda function: function) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.forwards, self.backwards, self.out = nn.LSTMCell(4, 6), nn.LSTMCell(4, 6), nn.Linear(12, 3)
        self.steps = [wrap(lambda x, h, c, cell=cell: cell(x, (h, c))) for cell in (self.forwards, self.backwards)]
        self.wrapped = False

    def forward(self, words: Sequence[int], tags: Sequence[int], make: Callable[[Any], Any]) -> list[Any]:
        """Return the loss of each word."""
        vectors, zero, states = [self.words(make(word)) for word in words], make(torch.zeros(6)), []
        for step, inputs in zip(self.steps, (vectors, vectors[::-1]), strict=True):
            h, c, outputs = zero, zero, []
            for x in inputs:
                h, c = step(x, h, c)
                outputs.append(h)
            states.append(outputs)
        pairs = zip(states[0], states[1][::-1], tags, strict=True)
        return [F.cross_entropy(self.out(torch.cat([a, b])), make(tag)) for a, b, tag in pairs]


class Parser(nn.Module):
    """The skeleton of a transition-based parser: what it does next depends on scores that it has computed."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.join, self.score = nn.Embedding(9, 6), nn.Linear(12, 6), nn.Linear(18, 2)

    def forward(self, words: Sequence[int], make: Callable[[Any], Any], look: Callable[[Any], Any]) -> tuple[Any, str]:
        """Return the sum of log-probabilities of the actions taken, and the actions: shift or reduce."""
        stack, buffer = [make(torch.zeros(6))] * 2, [self.words(make(word)) for word in words]
        done, actions, total = make(torch.zeros(6)), "", make(torch.zeros(()))
        while buffer or len(stack) > 3:
            upcoming = buffer[0] if buffer else done
            scores = F.log_softmax(self.score(torch.cat([stack[-2], stack[-1], upcoming])), 0)
            may_reduce, may_shift = len(stack) > 3, bool(buffer)
            reduce = may_reduce and (not may_shift or bool(look(scores)[1] > look(scores)[0]))
            total, actions = total + scores[int(reduce)], actions + "sr"[reduce]
            if reduce:
                right, left = stack.pop(), stack.pop()
                stack.append(torch.tanh(self.join(torch.cat([left, right]))))
            else:
                stack.append(buffer.pop(0))
        return total, actions


def plain(x: Any) -> torch.Tensor:
    """Return ``x`` as a tensor: what ``lazy`` is without laziness."""
    return x if isinstance(x, torch.Tensor) else torch.tensor(x)


def gradients_of(model: nn.Module) -> dict[str, torch.Tensor | None]:
    """Return the gradients of a model by name, and clear them."""
    gradients = {name: x.grad for name, x in model.named_parameters()}
    model.zero_grad()
    return gradients
