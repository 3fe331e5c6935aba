"""Minimise a sum of tables over variables by variable elimination."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..progress import progress

__all__ = ["minimize"]

Scope = tuple[int, ...]

LIMIT = 1 << 22
"""Entries of the largest table that is made; beyond, tables are eliminated in several parts, which is a heuristic."""

MANY = 16
"""Tables of a variable that is far from being eliminated: its neighbours are not counted after each change."""


def minimize(tables: Mapping[Scope, np.ndarray], sizes: Sequence[int]) -> list[int]:
    """Return the values of the variables with the least sum of table entries.

    Variables are eliminated one by one, those first whose neighbours have the fewest joint values. On a chain this is
    the usual dynamic programming along it, on forks and joins that over their decomposition. It is exact, unless a
    table would have more than `LIMIT` entries.

    Parameters
    ----------
    tables : dict of tuple of int to array
        By the variables of their axes, in increasing order.
    sizes : sequence of int
        How many values each variable has.
    """
    work = _Elimination(tables, sizes)
    return work.run()


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
                done[v] = True
                bar.update()
                mine = [(scope, self.tables.pop(scope)) for scope in sorted(self.scopes_of[v])]
                trace.append((v, mine))
                for u in self._eliminate(v, mine):
                    if len(self.scopes_of[u]) <= MANY:
                        heapq.heappush(heap, (self._weight(u), u))
        return self._decode(trace)

    def _weight(self, v: int) -> int:
        neighbours = {u for scope in self.scopes_of[v] for u in scope}
        return math.prod(self.sizes[u] for u in neighbours)

    def _eliminate(self, v: int, mine: Sequence[tuple[Scope, np.ndarray]]) -> set[int]:
        """Replace the tables of ``v`` by their minimum over it."""
        touched = {u for scope, _ in mine for u in scope} - {v}
        for scope, _ in mine:
            for u in scope:
                self.scopes_of[u].discard(scope)
        for bucket in self._buckets(mine):
            scope = tuple(sorted({u for s, _ in bucket for u in s}))
            total = sum(self._spread(table, s, scope) for s, table in bucket)
            rest = tuple(u for u in scope if u != v)
            if rest:
                self._add(rest, np.min(total, axis=scope.index(v)))
        return touched

    def _buckets(self, mine: Sequence[tuple[Scope, np.ndarray]]) -> list[list[tuple[Scope, np.ndarray]]]:
        buckets: list[tuple[set[int], list[tuple[Scope, np.ndarray]]]] = []
        for scope, table in sorted(mine, key=lambda m: -m[1].size):
            for variables, bucket in buckets:
                if math.prod(self.sizes[u] for u in variables.union(scope)) <= LIMIT:
                    variables.update(scope)
                    bucket.append((scope, table))
                    break
            else:
                buckets.append((set(scope), [(scope, table)]))
        return [bucket for _, bucket in buckets]

    def _spread(self, table: np.ndarray, scope: Scope, over: Scope) -> np.ndarray:
        return table.reshape([self.sizes[u] if u in scope else 1 for u in over])

    def _add(self, scope: Scope, table: np.ndarray) -> None:
        if scope in self.tables:
            self.tables[scope] = self.tables[scope] + table
            return
        self.tables[scope] = table
        for u in scope:
            self.scopes_of[u].add(scope)

    def _decode(self, trace: Sequence[tuple[int, list[tuple[Scope, np.ndarray]]]]) -> list[int]:
        values = [0] * len(self.sizes)
        for v, mine in reversed(trace):
            cost = np.zeros(self.sizes[v])
            for scope, table in mine:
                cost += table[tuple(slice(None) if u == v else values[u] for u in scope)]
            values[v] = int(np.argmin(cost))
        return values
