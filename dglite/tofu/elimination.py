"""Minimise a sum of tables over variables: exactly, by variable elimination and an integer program."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, milp

from ..errors import DGLError
from ..progress import progress

Scope = tuple[int, ...]
Tables = list[tuple[Scope, np.ndarray]]

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
    candidates = _candidates(tables, sizes)
    smaller = {scope: table[np.ix_(*(candidates[v] for v in scope))] for scope, table in tables.items()}
    values = _Elimination(smaller, [len(each) for each in candidates]).run()
    return [int(each[i]) for each, i in zip(candidates, values, strict=True)]


def lower_bound(
    tables: Mapping[Scope, np.ndarray], sizes: Sequence[int], limit: int = 1 << 20, visits: float = math.inf
) -> tuple[float, list[int]]:
    """Return a number that no sum of table entries is below, and values with a small sum; see `minimize`.

    It is their sum, and the least, if no variable has to be eliminated from tables of more than ``limit`` entries.
    ``visits`` are how often tables may be changed before.
    """
    candidates = _candidates(tables, sizes)
    smaller = {scope: table[np.ix_(*(candidates[v] for v in scope))] for scope, table in tables.items()}
    left = [len(each) for each in candidates]
    _diffuse(smaller, left, visits)
    fixed = sum(float(t.min()) for scope, t in smaller.items() if all(left[v] == 1 for v in scope))
    bound, values = _Elimination(smaller, left).bound(limit)
    return fixed + bound, [int(each[i]) for each, i in zip(candidates, values, strict=True)]


def _candidates(tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> list[np.ndarray]:
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


def undominated(costs: np.ndarray) -> np.ndarray:
    """Return the rows that are not at least another one everywhere."""
    left = np.unique(costs, axis=0, return_index=True)[1]
    for row in left.copy():
        others = left[left != row]
        if (costs[others] <= costs[row]).all(axis=1).any():
            left = others
    return left


SWEEPS = 300
"""Rounds after which costs have settled in most problems."""


def _diffuse(tables: dict[Scope, np.ndarray], sizes: Sequence[int], visits: float) -> None:
    """Move costs between the tables of each variable, so that all have the same minimum for each of its values.

    Every sum stays as it is, and the sum of the tables' minima rises towards the optimum of the linear relaxation
    (min-sum diffusion; Werner, 2007).
    """
    scopes_of: dict[int, list[Scope]] = {}
    for scope in tables:
        for v in scope:
            scopes_of.setdefault(v, []).append(scope)
    shared = {v: scopes for v, scopes in scopes_of.items() if sizes[v] > 1 and len(scopes) > 1}
    least = -math.inf
    for sweep in range(int(min(SWEEPS, visits / max(len(tables), 1)))):
        for v, scopes in shared.items():
            minima = [tables[scope].min(axis=tuple(i for i, u in enumerate(scope) if u != v)) for scope in scopes]
            mean = sum(minima[1:], minima[0]) / len(minima)
            for scope, minimum in zip(scopes, minima, strict=True):
                tables[scope] = tables[scope] + (mean - minimum).reshape([-1 if u == v else 1 for u in scope])
        if sweep % 10 == 9:
            before, least = least, sum(float(table.min()) for table in tables.values())
            if least - before <= 1e-7 * abs(least):
                return


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
        trace: list[tuple[int, Tables]] = []
        with progress(None, "search for a plan", "tensor", len(self.sizes)) as bar:
            for v in self._order(LIMIT):
                bar.update()
                mine = self._pop(v)
                trace.append((v, mine))
                self._eliminate(v, mine)
        return self._decode(trace, _solve(self.tables, self.sizes) if self.tables else {})

    def bound(self, limit: int) -> tuple[float, list[int]]:
        """Return a number that the least sum is not below, and values; see `lower_bound`.

        A variable whose tables together are larger is eliminated from parts of them, one by one, as if it could have
        another value in each (mini-buckets; Dechter and Rish, 2003). Before, costs are moved between the parts so that
        all have the same minimum for each value.
        """
        least = 0.0
        trace: list[tuple[int, Tables]] = []
        for v in self._order(math.inf):
            trace.append((v, self._pop(v)))
            parts = [self._joined(v, part) for part in self._parts(trace[-1][1], limit)]
            if len(parts) > 1:
                minima = [table.reshape(len(table), -1).min(axis=1) for _, table in parts]
                mean = np.mean(minima, axis=0)
                parts = [
                    (rest, table + (mean - minimum).reshape(-1, *[1] * len(rest)))
                    for (rest, table), minimum in zip(parts, minima, strict=True)
                ]
            for rest, table in parts:
                if rest:
                    self._add(rest, table.min(axis=0))
                else:
                    least += float(table.min())
        return least, self._decode(trace, {})

    def _order(self, limit: float) -> Iterator[int]:
        """Yield variables, those with the smallest table of all their neighbours first, while that is within a limit.

        The tables of a variable have to be replaced before the next is asked for.
        """
        heap = [(self._weight(v), v) for v in range(len(self.sizes))]
        heapq.heapify(heap)
        done = [False] * len(self.sizes)
        while heap:
            weight, v = heapq.heappop(heap)
            if done[v]:
                continue
            now = self._weight(v)
            if now > weight:
                heapq.heappush(heap, (now, v))
                continue
            if weight > limit:
                return
            done[v] = True
            neighbours = {u for scope in self.scopes_of[v] for u in scope} - {v}
            yield v
            for u in neighbours:
                if len(self.scopes_of[u]) <= MANY:
                    heapq.heappush(heap, (self._weight(u), u))

    def _pop(self, v: int) -> Tables:
        """Take the tables of a variable away."""
        tables = [(scope, self.tables.pop(scope)) for scope in sorted(self.scopes_of[v])]
        for scope, _ in tables:
            for u in scope:
                self.scopes_of[u].discard(scope)
        return tables

    def _parts(self, tables: Tables, limit: int) -> list[Tables]:
        """Divide the tables of a variable so that each part, added up, has at most ``limit`` entries if possible."""
        parts: list[tuple[set[int], Tables]] = []
        for scope, table in sorted(tables, key=lambda entry: -entry[1].size):
            for variables, part in parts:
                if math.prod(self.sizes[u] for u in variables.union(scope)) <= limit:
                    variables.update(scope)
                    part.append((scope, table))
                    break
            else:
                parts.append((set(scope), [(scope, table)]))
        return [part for _, part in parts]

    def _joined(self, v: int, tables: Tables) -> tuple[Scope, np.ndarray]:
        """Return the variables of tables beside ``v``, and their sum, ``v`` first."""
        rest = tuple(sorted({u for scope, _ in tables for u in scope} - {v}))
        return rest, self._sum(tables, (v, *rest))

    def _weight(self, v: int) -> int:
        neighbours = {u for scope in self.scopes_of[v] for u in scope}
        return math.prod(self.sizes[u] for u in neighbours)

    def _eliminate(self, v: int, mine: Tables) -> None:
        """Put the minimum over ``v`` in the place of its tables."""
        if any(len(scope) > 1 for scope, _ in mine):
            rest, table = self._joined(v, mine)
            self._add(rest, table.min(axis=0))

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

    def _decode(self, trace: Sequence[tuple[int, Tables]], solved: Mapping[int, int]) -> list[int]:
        values = [solved.get(v, 0) for v in range(len(self.sizes))]
        for v, mine in reversed(trace):
            cost = np.zeros(self.sizes[v])
            for scope, table in mine:
                cost += table[tuple(slice(None) if u == v else values[u] for u in scope)]
            values[v] = int(np.argmin(cost))
        return values
