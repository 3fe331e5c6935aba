"""Grouping nodes into batches: what holds of every schedule, on random graphs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dglite.kernels.cpu.dynamic import batching

KINDS = 5


def random_graph(count: int, seed: int) -> batching.OperationGraph:
    """Return a graph; node 0 is given, kind k has at most k arguments."""
    generator = np.random.default_rng(seed)
    sigs = generator.integers(1, KINDS + 1, count)
    sigs[0] = batching.EXTERNAL
    args = [[int(generator.integers(node)) for _ in range(int(sigs[node]))] if node else [] for node in range(count)]
    argptr = np.cumsum([0, *map(len, args)])
    places = np.array([arg << batching.PLACE_BITS for several in args for arg in several], np.int64)
    return batching.OperationGraph(sigs, argptr, places, sigs == batching.EXTERNAL)


def schedule(strategy: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, batching.OperationGraph]:
    graph = random_graph(count, seed)
    nodes = batching.needed_nodes(np.array([count - 1]), graph)
    pending, kinds = batching.pending_nodes(nodes, graph, KINDS + 1)
    if strategy == "agenda":
        order, bounds = batching.by_agenda(pending, graph, kinds % 2 == 0)
    elif strategy == "depth":
        order, bounds = batching.by_depth(pending, len(kinds))
    else:
        order, bounds = batching.one_by_one(len(nodes))
    return nodes[order], bounds, graph


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategy", ["agenda", "depth", "none"])
def test_batches_hold_one_kind_each_and_follow_what_they_use(strategy: str, seed: int) -> None:
    order, bounds, (sigs, argptr, args, _) = schedule(strategy, 60, seed)
    known = {0}
    for first, last in pairwise(bounds):
        batch = order[first:last]
        assert len(batch) and len({int(sigs[node]) for node in batch}) == 1
        for node in batch:
            assert {int(ref) >> batching.PLACE_BITS for ref in args[argptr[node] : argptr[node + 1]]} <= known
        known |= {int(node) for node in batch}
    assert len(order) == len(set(order.tolist())) == len(known) - 1


def test_only_what_a_target_needs_is_scheduled() -> None:
    order, _, (_, argptr, args, _) = schedule("agenda", 60, 1)
    needed, pending = set(), [59]
    while pending:
        node = pending.pop()
        if node and node not in needed:
            needed.add(node)
            pending += [int(ref) >> batching.PLACE_BITS for ref in args[argptr[node] : argptr[node + 1]]]
    assert set(order.tolist()) == needed


@pytest.mark.parametrize("strategy", ["agenda", "depth"])
def test_nothing_to_do(strategy: str) -> None:
    order, bounds, _ = schedule(strategy, 1, 0)
    assert len(order) == 0
    assert bounds.tolist() == [0]


def test_macros_stand_for_their_nodes() -> None:
    inner, given = (1 << batching.PLACE_BITS) + 8, 16
    macro = [1, 3, 1, batching.INPUT, 8, 4, 2, batching.INNER, 4, batching.ABSOLUTE, given]
    stream = np.array([batching.EXTERNAL, batching.FIRST_MACRO, 24, 2, inner])
    room = [np.empty(9, np.int64), np.zeros(10, np.int64), np.empty(9, np.int64), np.empty(9, np.bool_)]
    arity = np.array([0, 0, 1, 1, 2])
    count = batching.parse(
        stream, arity, arity[:0], np.array(macro), np.array([0, len(macro)]), 0, batching.OperationGraph(*room)
    )
    sigs, argptr, args, done = room
    assert (count, sigs[:4].tolist(), argptr[:5].tolist()) == (4, [0, 3, 4, 2], [0, 0, 1, 3, 4])
    assert args[:4].tolist() == [24 + 8, inner - 8 + 4, given, inner]
    assert done[:4].tolist() == [True, False, False, False]
