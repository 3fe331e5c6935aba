"""Random programs of message passing: a message, a reducer and an apply function, with the features that they read.

A program is made of its number alone, so the number in a failing case is all that it takes to see it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F

__all__ = ["FLOATS", "Program", "program"]

FEATURES: list[tuple[int, ...]] = [
    (),
    (1,),
    (2,),
    (3,),
    (8,),
    (17,),
    (64,),
    (130,),
    (2, 3),
    (4, 1),
    (3, 16),
    (2, 1, 5),
    (1, 33),
]
FLOATS = {torch.float64: 1e-8, torch.float32: 3e-4, torch.bfloat16: 6e-2, torch.float16: 2e-2}
"""dtypes, and how far from the oracle, which computes in float64, results may be."""

UNARY = [
    "torch.tanh({0})",
    "({0}).sigmoid()",
    "torch.exp(torch.tanh({0}))",
    "torch.relu({0})",
    "F.leaky_relu({0}, 0.2)",
    "F.elu({0})",
    "F.softplus({0})",
    "F.silu({0})",
    "({0}).abs()",
    "-({0})",
    "({0}) * 0.5",
    "1.0 - ({0})",
    "({0}) ** 2",
    "({0}).square()",
    "({0}).clamp(-0.8, 0.9)",
    "torch.log(({0}).abs() + 0.5)",
    "(({0}).abs() + 0.25).sqrt()",
    "2.0 / (({0}).abs() + 1.0)",
    "({0}) + c",
]
BINARY = [
    "({0}) + ({1})",
    "({0}) - ({1})",
    "({0}) * ({1})",
    "({0}) / (({1}).abs() + 0.5)",
    "torch.maximum({0}, {1})",
    "torch.minimum({0}, {1})",
    "torch.where(({0}) > ({1}), {0}, 0.3 * ({1}))",
]
LAST_AXIS = ["(({0}) * ({1})).sum(-1, keepdim=True)", "({0}).sum(-1, keepdim=True) * ({1})", "({0})[..., :1] - ({1})"]
LEAVES = ["edges.src['h']", "edges.dst['h']", "edges.src['g']", "edges.dst['g']", "edges.data['w']", "edges.data['k']"]

SCORES = ["({0}).sum(-1, keepdim=True)", "torch.tanh({0})", "F.leaky_relu(edges.src['g'] + edges.dst['g'], 0.2)"]
WEIGHTED = [
    "(torch.softmax(s, 1) * m).sum(1)",
    "(F.softmax(s, dim=1) * m).max(1)[0]",
    "(m * s).mean(1)",
    "m.sum(1) / (1.0 + s.abs().sum(1))",
    "(m - (s * m).mean(1, keepdim=True)).square().sum(1)",
]
"""Reductions of two messages: m, and s of one of the ``SCORES``."""

PARTS = ["m", "m * 2", "torch.tanh(m)", "m - m.mean(1, keepdim=True)", "m * n.unsqueeze(1)", "m.square()"]
REDUCTIONS = [
    "({0}).sum(1)",
    "({0}).mean(1)",
    "({0}).max(1)[0]",
    "({0}).max(dim=1).values",
    "({0}).amax(1)",
    "({0}).min(1)[0]",
    "torch.amin({0}, dim=1)",
    "({0}).logsumexp(1)",
    "(torch.softmax({0}, dim=1) * m).sum(1)",
    "({0}).sum(1) / m.shape[1]",
    "({0})[:, 0]",
    "({0}).cumsum(1)[:, -1]",
    "({0}).prod(1)",
    "({0}).sum(1) + ({0}).max(1)[0]",
    "({0}).var(1, unbiased=False)",
]
AFTER = ["{0}", "{0}", "torch.tanh({0})", "({0}) * 0.5 + n", "({0}) - n * c"]
APPLY = [None, None, None, "torch.tanh(o) * 2.0", "o + o.abs()", "torch.relu(o) * n"]
OPERATORS = ["add", "sub", "mul", "div"]
REDUCERS = ["sum", "mean", "max", "min", "prod"]


@dataclass(frozen=True)
class Program:
    """``shapes`` are those of the columns h and g of nodes, w and k of edges; the functions are text or a built-in.

    A built-in message is (name, columns), a built-in reducer its name. ``score`` is a second message that only a
    function reads.
    """

    number: int
    dtype: torch.dtype
    shapes: dict[str, tuple[int, ...]]
    message: str | tuple[str, ...]
    score: str | None
    reduce: str
    apply: str | None
    constant: torch.Tensor

    def __repr__(self) -> str:
        return f"program({self.number})  # {self.message} | {self.score} | {self.reduce} | {self.apply}"

    @property
    def recorded(self) -> bool:
        """Whether the message is a function."""
        return isinstance(self.message, str)

    @property
    def reduces(self) -> bool:
        """Whether the reducer is a function."""
        return self.reduce not in REDUCERS

    def functions(self) -> tuple[Any, Any, Any]:
        """Return message, reduce and apply function; None for a built-in."""
        return _functions(self.message, self.score, self.reduce, self.apply, self.constant)


def program(number: int) -> Program:
    """Return a program; every number gives one."""
    choose = random.Random(number)
    feat = choose.choice(FEATURES)
    built_in = choose.random() < 0.4
    dtype = choose.choice([torch.float64, torch.float32, torch.float32])
    if built_in and choose.random() < 0.3:
        dtype = choose.choice([torch.bfloat16, torch.float16])
    shapes = {name: _broadcast(choose, feat, built_in) for name in "hgwk"}
    aligned = all(len(shape) == len(feat) for shape in shapes.values())  # as functions need it
    message: str | tuple[str, ...]
    message = _built_in(choose, shapes) if built_in else _expression(choose, choose.randint(1, 3), feat)
    score = None
    plain = built_in and dtype not in (torch.float64, torch.float32)
    if plain or not aligned or choose.random() < 0.5:
        reduce = choose.choice(REDUCERS)
    elif isinstance(message, str) and feat and choose.random() < 0.3:
        score = choose.choice(SCORES).format(choose.choice(LEAVES))
        reduce = choose.choice(AFTER).format(choose.choice(WEIGHTED))
    else:
        reduce = choose.choice(AFTER).format(choose.choice(REDUCTIONS).format(choose.choice(PARTS)))
    constant = torch.linspace(0.4, 1.4, max(1, _size(feat)), dtype=dtype).reshape(feat).requires_grad_()
    return Program(
        number, dtype, shapes, message, score, reduce, choose.choice(APPLY) if aligned and not plain else None, constant
    )


def _size(feat: tuple[int, ...]) -> int:
    return int(torch.Size(feat).numel())


def _broadcast(choose: random.Random, feat: tuple[int, ...], drop: bool) -> tuple[int, ...]:
    """Return a shape that broadcasts to ``feat``; ``drop`` lets it have fewer axes, as only built-ins understand it."""
    if choose.random() < 0.5:
        return feat
    shape = tuple(1 if choose.random() < 0.5 else size for size in feat)
    return shape[choose.randint(0, len(shape)) :] if drop and choose.random() < 0.3 else shape


def _built_in(choose: random.Random, shapes: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    columns = {"u": "hg", "v": "hg", "e": "wk"}
    if choose.random() < 0.25:
        side = choose.choice("ue")
        return f"copy_{side}", choose.choice(columns[side])
    left, right = choose.sample("uve", 2)
    fields = choose.choice(columns[left]), choose.choice(columns[right])
    operators = [*OPERATORS, *["dot"] * all(shapes[field] for field in fields)]
    return f"{left}_{choose.choice(operators)}_{right}", *fields


def _expression(choose: random.Random, depth: int, feat: tuple[int, ...]) -> str:
    if depth == 0 or choose.random() < 0.1:
        return choose.choice(LEAVES)
    if choose.random() < 0.4:
        return choose.choice(UNARY).format(_expression(choose, depth - 1, feat))
    shape = choose.choice(BINARY + LAST_AXIS * (depth > 1 and len(feat) > 0))
    return shape.format(_expression(choose, depth - 1, feat), _expression(choose, depth - 1, feat))


@lru_cache(maxsize=4096)
def _compiled(source: str, constant: torch.Tensor) -> Callable[..., Any]:
    names: dict[str, Any] = {"torch": torch, "F": F, "c": constant}
    exec(compile(source, "<program>", "exec"), names)
    return names["f"]


@lru_cache(maxsize=4096)
def _functions(
    message: str | tuple[str, ...], score: str | None, reduce: str, apply: str | None, constant: torch.Tensor
) -> tuple[Any, Any, Any]:
    results: list[Any] = [None, None, None]
    if isinstance(message, str):
        both = f"'m': {message}" + ("" if score is None else f", 's': {score}")
        results[0] = _compiled(f"def f(edges):\n    return {{{both}}}\n", constant)
    if reduce not in REDUCERS:
        read = "    m, n = nodes.mailbox['m'], nodes.data['h']\n"
        read += "" if score is None else "    s = nodes.mailbox['s']\n"
        results[1] = _compiled(f"def f(nodes):\n{read}    return {{'out': {reduce}}}\n", constant)
    if apply is not None:
        read = "    o, n = nodes.data['out'], nodes.data['h']\n"
        results[2] = _compiled(f"def f(nodes):\n{read}    return {{'out': {apply}}}\n", constant)
    return results[0], results[1], results[2]
