"""Find how to split each tensor group and operator with least communication, step by step of the recursion.

A step splits the work of a group of workers among ``k`` smaller groups. The tables of the operator groups, each the
minimum over its strategies, are minimised over the splits of the tensor groups by `elimination.minimize`, exactly for
the step; the next step does the same with what one of the smaller groups has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DGLError
from ..progress import progress
from .coarsen import Coarse, OperatorGroup, TensorShape
from .cost import LocalOperator, OperatorStrategy
from .elimination import minimize

SplitDim = int | None


@dataclass(frozen=True)
class SearchStep:
    """What one step of the recursion decides, by the numbers of tensor and operator groups.

    Attributes
    ----------
    k : int
        Into how many groups each group of workers is split.
    groups : int
        How many groups there are before.
    placements : list of int or None
        The dimension along which tensors are split; None is replicated.
    ways : list of OperatorStrategy
        How each operator is run.
    shapes : list of tuple of int
        Of the tensors of one group, before the step.
    locals : list of Local
        The operators of one group, before the step.
    bytes_by_operator : list of float
        Received by all groups together.
    """

    k: int
    groups: int
    placements: list[SplitDim]
    ways: list[OperatorStrategy]
    shapes: list[TensorShape]
    locals: list[LocalOperator] = field(repr=False)
    bytes_by_operator: list[float] = field(repr=False)

    def placed(self, group: OperatorGroup) -> list[int]:
        """Return the placements of an operator's inputs and outputs; the rank is replicated, -1 is not read."""
        places = []
        for v in (*group.inputs, *group.outputs):
            dim = -1 if v < 0 else self.placements[v]
            places.append(len(self.shapes[v]) if dim is None else dim)
        return places

    def next_locals(self, coarse: Coarse) -> list[LocalOperator]:
        """Return the operators after the step."""
        return [self.after(number, group) for number, group in enumerate(coarse.operators)]

    def after(self, number: int, group: OperatorGroup) -> LocalOperator:
        """Return an operator after the step."""
        return self.locals[number].after(self.ways[number], self.k, self.placed(group))

    def next_shapes(self) -> list[TensorShape]:
        """Return the shapes of one group's tensors after the step; of an uneven split, the largest part."""
        pairs = zip(self.shapes, self.placements, strict=True)
        return [s if d is None else (*s[:d], -(-s[d] // self.k), *s[d + 1 :]) for s, d in pairs]

    @property
    def bytes(self) -> float:
        """Bytes received by all workers."""
        return sum(self.bytes_by_operator)


@dataclass(frozen=True)
class Policy:
    """What a search may choose from. The default is that of a plan.

    Attributes
    ----------
    replicate : bool
        Whether tensors may be replicated that could be split.
    whole : bool
        Whether light operators may be run by every group, as they are with ``replicate``.
    weight : float
        What a byte of memory that is held by some worker costs, in bytes sent.
    fixed : dict of int to placement
        Placements of tensor groups that are given. One that cannot be had gives way to the search.
    choose : callable
        ``choose(group, ways, placements)``: the ways that an operator may be run in.
    """

    replicate: bool = False
    whole: bool = False
    weight: float = 0.0
    fixed: dict[int, SplitDim] = field(default_factory=dict)
    choose: Callable[[OperatorGroup, list[OperatorStrategy]], list[OperatorStrategy]] | None = None
    assign: Callable[[StepSearch], list[int]] | None = None


def factors(workers: int) -> list[int]:
    """Return the prime factors of the number of workers, the largest first."""
    primes, p = [], 2
    while workers > 1:
        while workers % p == 0:
            primes.append(p)
            workers //= p
        p += 1
    return primes[::-1]


def recursions(workers: int) -> list[list[int]]:
    """Return the ways to come to a number of workers that are worth a search.

    They are prime factors, after a first step that takes one or several of them at once, and equal larger factors.
    Smaller steps cut tensors along more dimensions, but each is decided without those that follow; a larger one decides
    more at once. Steps do not grow: the first tensors to be cut are the largest.
    """
    primes = factors(workers)
    splits = [[math.prod(primes[:first]), *primes[first:]] for first in range(1, len(primes) + 1)]
    for size in range(2, len(primes) // 2 + 1):
        if len(primes) % size == 0:
            splits.append([math.prod(primes[i : i + size]) for i in range(0, len(primes), size)])
    return splits or [[]]


def split_dims(shape: TensorShape, k: int) -> list[int]:
    """Return the dimensions that a step may split into ``k``: those that it divides, or else those long enough."""
    even = [d for d, size in enumerate(shape) if size >= k and size % k == 0]
    return even or [d for d, size in enumerate(shape) if size >= k]


def search(coarse: Coarse, steps: Sequence[int], policy: Policy | Sequence[Policy] | None = None) -> list[SearchStep]:
    """Return the decisions of each step, the first of which splits the workers into ``steps[0]`` groups.

    ``policy`` is one for all steps, or one for each.
    """
    policies = [policy or Policy()] * len(steps) if policy is None or isinstance(policy, Policy) else policy
    shapes = [group.shape for group in coarse.tensors]
    locals_of: dict[Any, LocalOperator] = {}
    locals_ = [locals_of.setdefault(group.call, LocalOperator(group.call)) for group in coarse.operators]
    solved: list[SearchStep] = []
    groups = 1
    for k, each in zip(steps, policies, strict=True):
        step = StepSearch(coarse, shapes, locals_, k, groups, each)
        solved.append(step.solve())
        shapes, locals_ = solved[-1].next_shapes(), solved[-1].next_locals(coarse)
        groups *= k
    return solved


_LARGEST = 1 << 10
"""Entries of an operator's table of all its tensors; beyond, its strategy is a variable of its own."""


class StepSearch:
    """One step of the recursion: domains, tables, and their minimum."""

    def __init__(
        self,
        coarse: Coarse,
        shapes: list[TensorShape],
        locals_: list[LocalOperator],
        k: int,
        groups: int,
        policy: Policy,
    ) -> None:
        self.coarse, self.shapes, self.locals, self.k, self.groups = coarse, shapes, locals_, k, groups
        self.policy = policy
        self.domains = [self._domain(i, shape) for i, shape in enumerate(shapes)]
        self._tables: dict[Any, np.ndarray] = {}
        self.extra: list[int] = []
        self._cheapest: dict[Any, tuple[OperatorStrategy, float]] = {}

    def _domain(self, number: int, shape: TensorShape) -> tuple[int, ...]:
        """Return the placements that a tensor group may have; ``len(shape)`` is replicated."""
        dims = split_dims(shape, self.k)
        if number in self.policy.fixed:
            dim = self.policy.fixed[number]
            if dim is None or shape[dim] >= self.k:
                return (len(shape),) if dim is None else (dim,)
        if self.policy.replicate or not dims:
            dims = [*dims, len(shape)]
        return tuple(dims)

    def ways(self, number: int) -> list[OperatorStrategy]:
        """Return how an operator group may be run."""
        policy = self.policy
        ways = self.locals[number].ways(self.k, policy.replicate or policy.whole)
        return policy.choose(self.coarse.operators[number], ways) if policy.choose else ways

    def table(self, number: int) -> tuple[tuple[int, ...], np.ndarray]:
        """Return the tensor groups of an operator group, in order, and its least cost by their placements."""
        group = self.coarse.operators[number]
        scope = tuple(sorted({*group.inputs, *group.outputs} - {-1}))
        place = {v: i for i, v in enumerate(scope)}
        domains = tuple(self.domains[v] for v in scope)
        pattern = tuple(place.get(v, -1) for v in (*group.inputs, *group.outputs))
        key = (self.locals[number], pattern, domains)
        if key not in self._tables:
            costs = [self._cost(way, pattern, domains) for way in self.ways(number)]
            self._tables[key] = np.minimum.reduce(costs)
        return scope, self._tables[key]

    def _cost(
        self, way: OperatorStrategy, pattern: tuple[int, ...], domains: tuple[tuple[int, ...], ...]
    ) -> np.ndarray:
        total = np.zeros([len(domain) for domain in domains])
        for axis, costs in zip(pattern, (*way.inputs, *way.outputs), strict=True):
            if axis >= 0:
                shape = [1] * len(domains)
                shape[axis] = -1
                total = total + costs[list(domains[axis])].reshape(shape)
        return total

    def _by_strategy(self, number: int) -> dict[tuple[int, ...], np.ndarray]:
        """Return the cost of an operator group with its strategy as one more variable.

        The cost given a strategy is a sum over the operands, so that a ``cat`` of many has small tables.
        """
        group, ways = self.coarse.operators[number], self.ways(number)
        variable = len(self.domains) + len(self.extra)
        self.extra.append(len(ways))
        tables: dict[tuple[int, ...], np.ndarray] = {}
        for v, *costs in zip((*group.inputs, *group.outputs), *((*w.inputs, *w.outputs) for w in ways), strict=True):
            if v >= 0:
                table = np.stack([cost[list(self.domains[v])] for cost in costs], axis=1)
                tables[v, variable] = tables.get((v, variable), 0.0) + table
        return tables

    def tables(self) -> dict[tuple[int, ...], np.ndarray]:
        """Return the tables of all operator groups, and of the memory that tensor groups take.

        Variables are the tensor groups' placements, then, in `extra`, strategies of operators with many operands.
        """
        tables: dict[tuple[int, ...], np.ndarray] = {}
        self.extra = []
        steps = progress(
            enumerate(self.coarse.operators), "costs of strategies", "operator", len(self.coarse.operators)
        )
        for number, group in steps:
            if group.trivial and not self.policy.choose:
                continue
            scope = {*group.inputs, *group.outputs} - {-1}
            small = math.prod(len(self.domains[v]) for v in scope) <= _LARGEST
            parts = dict([self.table(number)]) if small else self._by_strategy(number)
            for key, table in parts.items():
                table = table * len(group.nodes)
                tables[key] = tables[key] + table if key in tables else table
        if self.policy.weight:
            for v, tensor in enumerate(self.coarse.tensors):
                share = math.prod(self.shapes[v]) / max(math.prod(tensor.shape), 1) * tensor.kept_bytes * self.groups
                price = np.array([self.k if d == len(tensor.shape) else 1.0 for d in self.domains[v]])
                table = price * share * self.policy.weight
                tables[v,] = tables[v,] + table if (v,) in tables else table
        return tables

    def solve(self) -> SearchStep:
        """Return the decisions."""
        tables = self.tables()
        assign = self.policy.assign
        sizes = [*map(len, self.domains), *self.extra]
        values = assign(self) if assign else minimize(tables, sizes)
        dims = [domain[i] for domain, i in zip(self.domains, values, strict=False)]
        ways, costs = [], []
        for number, group in enumerate(self.coarse.operators):
            way, cost = self._choose(number, [dims[v] if v >= 0 else -1 for v in (*group.inputs, *group.outputs)])
            ways.append(way)
            costs.append(cost * len(group.nodes))
        placements = [None if d == len(shape) else d for d, shape in zip(dims, self.shapes, strict=True)]
        return SearchStep(self.k, self.groups, placements, ways, self.shapes, self.locals, costs)

    def _choose(self, number: int, placements: Sequence[int]) -> tuple[OperatorStrategy, float]:
        key = (self.locals[number], *placements)
        if key not in self._cheapest or self.policy.choose:
            ways = self.ways(number)
            if not ways:
                raise DGLError(f"{self.coarse.operators[number].call.target} has no strategy that this search allows")
            costs = [way.price(placements) for way in ways]
            best = int(np.argmin(costs))
            self._cheapest[key] = ways[best], costs[best]
        return self._cheapest[key]
