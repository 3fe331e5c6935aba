"""Minimise a sum of tables over variables: exactly, by variable elimination and an integer program."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, milp

from ..errors import DGLError
from ..progress import progress

Scope = tuple[int, ...]

LIMIT = 1 << 12
"""Entries of the largest table that elimination makes; what is left beyond is an integer program."""

MANY = 16
"""Tables of a variable that is far from being eliminated: its neighbours are not counted after each change."""


def minimize(tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> list[int]:
    """Return the values of the variables with the least sum of table entries.

    Values that another one always beats are left out first: changing to the other lowers every sum (the criterion of
    Goldstein, 1994). Then variables are eliminated one by one, those first whose neighbours have the fewest joint
    values. On a chain this is the usual dynamic programming along it, on forks and joins that over their
    decomposition. Variables that would need a table of more than `LIMIT` entries are left to an integer program.

    Parameters
    ----------
    tables : dict of tuple of int to array
        By the variables of their axes, in increasing order.
    sizes : sequence of int
        How many values each variable has.
    """
    candidates = _undominated(tables, sizes)
    smaller = {scope: table[np.ix_(*(candidates[v] for v in scope))] for scope, table in tables.items()}
    values = _Elimination(smaller, [len(each) for each in candidates]).run()
    return [int(each[i]) for each, i in zip(candidates, values, strict=True)]


def _undominated(tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the values of each variable that no other one always beats."""
    candidates = [np.arange(size) for size in sizes]
    scopes_of: list[list[Scope]] = [[] for _ in sizes]
    for scope in tables:
        for v in scope:
            scopes_of[v].append(scope)
    waiting = dict.fromkeys(v for v, size in enumerate(sizes) if size > 1)
    while waiting:
        v, _ = waiting.popitem()
        gain = np.zeros((len(candidates[v]), len(candidates[v])))  # the least that sums fall by, from value to value
        for scope in scopes_of[v]:
            table = np.moveaxis(tables[scope][np.ix_(*(candidates[u] for u in scope))], scope.index(v), 0)
            rows = table.reshape(len(table), -1)
            gain += (rows[:, None] - rows).min(axis=2)
        beaten = (gain > 0).any(axis=1)
        if beaten.any():
            candidates[v] = candidates[v][~beaten]
            waiting |= dict.fromkeys(u for scope in scopes_of[v] for u in scope if len(candidates[u]) > 1)
    return candidates


def _solve(tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> dict[int, int]:
    """Return the values of the tables' variables with the least sum, by an integer program.

    Its unknowns are an indicator of each value of a variable, which sum to 1, and one of each entry of a table: summed
    over all but one of the table's variables, they are the indicators of that variable.
    """
    variables = sorted({v for scope in tables for v in scope})
    counts = np.array([sizes[v] for v in variables])
    first = dict(zip(variables, (np.cumsum(counts) - counts).tolist(), strict=True))
    unknowns, equations = int(counts.sum()), len(variables)
    costs, integral = [np.zeros(unknowns)], np.ones(unknowns)
    terms = [(np.repeat(np.arange(equations), counts), np.arange(unknowns), np.ones(unknowns))]
    for scope, table in tables.items():
        entries = np.arange(unknowns, unknowns + table.size)
        for v, value in zip(scope, np.indices(table.shape).reshape(len(scope), -1), strict=True):
            values = np.arange(sizes[v])
            terms.append((equations + value, entries, np.ones(table.size)))
            terms.append((equations + values, first[v] + values, np.full(sizes[v], -1.0)))
            equations += sizes[v]
        costs.append((table - table.min()).ravel())
        unknowns += table.size
    rows, columns, factors = (np.concatenate(part) for part in zip(*terms, strict=True))
    places = (rows.astype(np.int32), columns.astype(np.int32))  # milp of SciPy before 1.15 reads no others
    matrix = sp.csr_array((factors, places), shape=(equations, unknowns))
    right = (np.arange(equations) < len(variables)).astype(float)
    cost = np.concatenate(costs)
    result = milp(
        cost / max(cost.max(), 1.0),
        integrality=np.pad(integral, (0, unknowns - len(integral))),
        constraints=LinearConstraint(matrix, right, right),
        options={"mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise DGLError(f"the search for a plan ended without one: {result.message}")
    return {v: int(np.argmax(result.x[first[v] : first[v] + sizes[v]])) for v in variables}


class _Elimination:
    def __init__(self, tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.tables: dict[Scope, np.ndarray] = {}
        self.scopes_of: list[set[Scope]] = [set() for _ in sizes]
        for scope, table in tables.items():
            free = tuple(v for v in scope if self.sizes[v] > 1)
            if free:
                self._add(free, table.reshape([self.sizes[v] for v in free]))

    def run(self) -> list[int]:
        heap = [(self._weight(v), v) for v in range(len(self.sizes))]
        heapq.heapify(heap)
        done = [False] * len(self.sizes)
        trace: list[tuple[int, list[tuple[Scope, np.ndarray]]]] = []
        with progress(None, "search for a plan", "tensor", len(done)) as bar:
            while heap:
                weight, v = heapq.heappop(heap)
                if done[v]:
                    continue
                now = self._weight(v)
                if now > weight:
                    heapq.heappush(heap, (now, v))
                    continue
                if weight > LIMIT:
                    break
                done[v] = True
                bar.update()
                mine = [(scope, self.tables.pop(scope)) for scope in sorted(self.scopes_of[v])]
                trace.append((v, mine))
                for u in self._eliminate(v, mine):
                    if len(self.scopes_of[u]) <= MANY:
                        heapq.heappush(heap, (self._weight(u), u))
        return self._decode(trace, _solve(self.tables, self.sizes) if self.tables else {})

    def _weight(self, v: int) -> int:
        neighbours = {u for scope in self.scopes_of[v] for u in scope}
        return math.prod(self.sizes[u] for u in neighbours)

    def _eliminate(self, v: int, mine: Sequence[tuple[Scope, np.ndarray]]) -> set[int]:
        """Replace the tables of ``v`` by their minimum over it."""
        touched = {u for scope, _ in mine for u in scope} - {v}
        for scope, _ in mine:
            for u in scope:
                self.scopes_of[u].discard(scope)
        rest = tuple(sorted(touched))
        if rest:
            self._add(rest, self._sum(mine, (v, *rest)).min(axis=0))
        return touched

    def _sum(self, mine: Sequence[tuple[Scope, np.ndarray]], axes: Scope) -> np.ndarray:
        """Return the sum of tables with these variables as axes, the small ones added up first."""
        parts = [self._spread(table, scope, axes) for scope, table in sorted(mine, key=lambda part: part[1].size)]
        total = np.zeros([self.sizes[u] for u in axes])
        for shape, alike in itertools.groupby(parts, key=lambda part: part.shape):
            total += sum(alike, np.zeros(shape))
        return total

    def _spread(self, table: np.ndarray, scope: Scope, axes: Scope) -> np.ndarray:
        """Return a table with more axes, of which the first may be out of order."""
        if axes[0] in scope:
            table = np.moveaxis(table, scope.index(axes[0]), 0)
        return table.reshape([self.sizes[u] if u in scope else 1 for u in axes])

    def _add(self, scope: Scope, table: np.ndarray) -> None:
        if scope in self.tables:
            self.tables[scope] = self.tables[scope] + table
            return
        self.tables[scope] = table
        for u in scope:
            self.scopes_of[u].add(scope)

    def _decode(
        self, trace: Sequence[tuple[int, list[tuple[Scope, np.ndarray]]]], solved: Mapping[int, int]
    ) -> list[int]:
        values = [solved.get(v, 0) for v in range(len(self.sizes))]
        for v, mine in reversed(trace):
            cost = np.zeros(self.sizes[v])
            for scope, table in mine:
                cost += table[tuple(slice(None) if u == v else values[u] for u in scope)]
            values[v] = int(np.argmin(cost))
        return values
