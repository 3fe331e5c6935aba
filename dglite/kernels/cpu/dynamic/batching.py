"""Grouping recorded operations into batches, over flat arrays. Serial, and it releases the lock.

A node is a recorded operation, numbered as recorded: what it uses has smaller numbers. What node v uses is listed in
``args`` from ``argptr[v]`` to ``argptr[v + 1]``: the number of a node in the upper bits, the place inside its result,
in bytes, in the lower 36. Operations of one signature can be done together as one batch.
"""

from __future__ import annotations

import numpy as np

from ..compile.cached import njit
from .levels import by_head

__all__ = ["ABSOLUTE", "EXTERNAL", "FIRST_MACRO", "INNER", "INPUT", "PLACE_BITS", "by_agenda", "by_depth", "depths_of"]
__all__ += ["needed_nodes", "one_by_one", "parse"]

PLACE_BITS = 36
EXTERNAL = 0
"""The signature of what is given, not computed."""
FIRST_MACRO = -(1 << 40)
ABSOLUTE, INPUT, INNER = range(3)
MOST_KINDS = 1024
"""Beyond so many kinds the graph of kinds, a matrix, is not made."""

_jit = njit(nogil=True)


@_jit
def _expand(
    macro: np.ndarray,
    inputs: np.ndarray,
    first: int,
    sigs: np.ndarray,
    argptr: np.ndarray,
    args: np.ndarray,
    done: np.ndarray,
) -> int:
    """Append the nodes of a macro; return the number of nodes then."""
    at, node = 1, first
    while at < len(macro):
        sigs[node], done[node] = macro[at], False
        end, arity = argptr[node], macro[at + 1]
        for i in range(arity):
            whose, place = macro[at + 2 + 2 * i], macro[at + 3 + 2 * i]
            if whose == INPUT:
                place = inputs[place >> PLACE_BITS] + (place & ((1 << PLACE_BITS) - 1))
            elif whose == INNER:
                place += first << PLACE_BITS
            args[end + i] = place
        argptr[node + 1] = end + arity
        node += 1
        at += 2 + 2 * arity
    return node


@_jit
def parse(
    stream: np.ndarray,
    shared_arity: np.ndarray,
    own_arity: np.ndarray,
    macros: np.ndarray,
    macro_ptr: np.ndarray,
    first: int,
    sigs: np.ndarray,
    argptr: np.ndarray,
    args: np.ndarray,
    done: np.ndarray,
) -> int:
    """Append what was recorded, (signature, *arguments) for each node, to the arrays; return the number of nodes.

    Signature s >= 0 has ``shared_arity[s]`` arguments, signature s < 0 has ``own_arity[-1 - s]``. Below ``FIRST_MACRO``
    are macros, which stand for several nodes. Macro m is ``macros[macro_ptr[m]:macro_ptr[m + 1]]``: its number of
    arguments, then for each of its nodes (signature, number of arguments, then for each (whose, place)): a place in the
    graph (``ABSOLUTE``), in an argument of the macro (``INPUT``), or in a node of the macro (``INNER``).
    """
    at, node = 0, first
    while at < len(stream):
        sig = stream[at]
        if sig <= FIRST_MACRO:
            macro = macros[macro_ptr[FIRST_MACRO - sig] : macro_ptr[FIRST_MACRO - sig + 1]]
            node = _expand(macro, stream[at + 1 :], node, sigs, argptr, args, done)
            at += 1 + macro[0]
            continue
        arity = shared_arity[sig] if sig >= 0 else own_arity[-1 - sig]
        sigs[node], done[node] = sig, sig == EXTERNAL
        end = argptr[node]
        for i in range(arity):
            args[end + i] = stream[at + 1 + i]
        argptr[node + 1] = end + arity
        node += 1
        at += 1 + arity
    return node


@_jit
def needed_nodes(
    targets: np.ndarray, argptr: np.ndarray, args: np.ndarray, done: np.ndarray, num_nodes: int
) -> np.ndarray:
    """Return the nodes that ``targets`` depend on, themselves included, and that are not done, in ascending order."""
    wanted, count = np.zeros(num_nodes, np.bool_), 0
    for target in targets:
        wanted[target] = True
    for node in range(num_nodes - 1, -1, -1):
        if not wanted[node]:
            continue
        if done[node]:
            wanted[node] = False
            continue
        count += 1
        for at in range(argptr[node], argptr[node + 1]):
            wanted[args[at] >> PLACE_BITS] = True
    return np.nonzero(wanted)[0] if count else np.empty(0, np.int64)


@_jit
def depths_of(
    nodes: np.ndarray, sigs: np.ndarray, argptr: np.ndarray, args: np.ndarray, num_nodes: int, num_shared: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (the place of each node among ``nodes``, depth, kind, signature of each kind).

    Depth is one more than that of the deepest needed argument, from 0. Kinds number the signatures that occur.
    """
    place, depth = np.full(num_nodes, -1), np.zeros(len(nodes), np.int64)
    kind, lowest = np.empty(len(nodes), np.int64), 0
    for i in range(len(nodes)):
        lowest = min(lowest, sigs[nodes[i]])
    known, kinds, num_kinds = np.full(num_shared - lowest, -1), np.empty(num_shared - lowest, np.int64), 0
    for i in range(len(nodes)):
        node = nodes[i]
        place[node] = i
        below = -1
        for at in range(argptr[node], argptr[node + 1]):
            arg = place[args[at] >> PLACE_BITS]
            if arg >= 0:
                below = max(below, depth[arg])
        depth[i] = below + 1
        sig = sigs[node]
        if known[sig - lowest] < 0:
            known[sig - lowest] = num_kinds
            kinds[num_kinds] = sig
            num_kinds += 1
        kind[i] = known[sig - lowest]
    return place, depth, kind, kinds[:num_kinds].copy()


def by_depth(depth: np.ndarray, kind: np.ndarray, num_kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, where each batch begins in it): one batch for the nodes of one depth and one kind.

    Looks, Herreshoff, Hutchins and Norvig, "Deep learning with dynamic computation graphs", 2017.
    """
    keys = depth * num_kinds + kind
    if len(keys) and keys.max() < 1 << 16:
        keys = keys.astype(np.uint16)  # NumPy sorts these in linear time
    order = np.argsort(keys, kind="stable")
    return order, np.flatnonzero(np.diff(keys[order], prepend=-1, append=-2))


def one_by_one(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, bounds) of batches of one node each, as recorded."""
    return np.arange(count), np.arange(count + 1)


@_jit
def _users(
    nodes: np.ndarray, place: np.ndarray, argptr: np.ndarray, args: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (how many arguments each node waits for, bounds of each node's users, users)."""
    waits, used, users = np.zeros(len(nodes), np.int64), np.empty(len(args), np.int64), np.empty(len(args), np.int64)
    found = 0
    for i in range(len(nodes)):
        for at in range(argptr[nodes[i]], argptr[nodes[i] + 1]):
            arg = place[args[at] >> PLACE_BITS]
            if arg >= 0:
                used[found], users[found] = arg, i
                found += 1
                waits[i] += 1
    bounds, entries = by_head(used[:found], len(nodes))
    return waits, bounds, users[entries]


@_jit
def _stages(kind: np.ndarray, bounds_of_users: np.ndarray, users: np.ndarray, num_kinds: int) -> np.ndarray:
    """Return a stage for each kind: nothing of a stage uses anything of a later one.

    Kinds that use each other, by whatever way, are of one stage, which is the number of other kinds that lead to them.
    With very many kinds there is one stage only.
    """
    stage = np.zeros(num_kinds, np.int64)
    if num_kinds > MOST_KINDS:
        return stage
    leads = np.zeros((num_kinds, num_kinds), np.bool_)
    for i in range(len(kind)):
        for j in range(bounds_of_users[i], bounds_of_users[i + 1]):
            leads[kind[i], kind[users[j]]] = True
    for between in range(num_kinds):
        for k in range(num_kinds):
            if leads[k, between]:
                for to in range(num_kinds):
                    leads[k, to] |= leads[between, to]
    for k in range(num_kinds):
        for other in range(num_kinds):
            stage[k] += leads[other, k] and not leads[k, other]
    return stage


def _priorities(depth: np.ndarray, kind: np.ndarray, heavy: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """Return the rank of each kind: by stage, then by average depth; of equals the cheap ones first.

    Not compiled: compiling a sort takes Numba seconds.
    """
    total, members = np.bincount(kind, depth, len(heavy)), np.bincount(kind, minlength=len(heavy))
    return np.argsort(np.lexsort((heavy, total / np.maximum(members, 1), stage)))


def by_agenda(
    nodes: np.ndarray,
    place: np.ndarray,
    depth: np.ndarray,
    kind: np.ndarray,
    argptr: np.ndarray,
    args: np.ndarray,
    heavy: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, bounds): of the kinds that have nodes ready, all ready nodes of the one of least average depth.

    Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs", 2017. Beyond that, a kind
    waits for all kinds that it depends on and that do not depend on it (see :func:`_stages`), so kinds outside of a
    recurrence are one batch each. Nodes of a kind come in the order in which they became ready, so what follows a batch
    finds its inputs in the batch's own order.
    """
    waits, bounds_of_users, users = _users(nodes, place, argptr, args)
    ranks = _priorities(depth, kind, heavy, _stages(kind, bounds_of_users, users, len(heavy)))
    return _work_off(ranks[kind], len(ranks), waits, bounds_of_users, users)


@_jit
def _work_off(
    rank: np.ndarray, num_ranks: int, waits: np.ndarray, bounds_of_users: np.ndarray, users: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, bounds): always all ready nodes of the lowest rank that has any. A node waits for others."""
    start, _ = by_head(rank, num_ranks)
    queue, head, tail = np.empty(len(rank), np.int64), start[:-1].copy(), start[:-1].copy()
    for i in range(len(rank)):
        if waits[i] == 0:
            queue[tail[rank[i]]] = i
            tail[rank[i]] += 1
    order, batches, at, num_batches, chosen = np.empty(len(rank), np.int64), np.empty(len(rank) + 1, np.int64), 0, 0, 0
    while at < len(rank):
        while head[chosen] == tail[chosen]:
            chosen += 1
        ready, following = queue[head[chosen] : tail[chosen]], chosen
        head[chosen] = tail[chosen]
        batches[num_batches] = at
        num_batches += 1
        for i in ready:
            order[at] = i
            at += 1
            for user in users[bounds_of_users[i] : bounds_of_users[i + 1]]:
                waits[user] -= 1
                if waits[user] == 0:
                    queue[tail[rank[user]]] = user
                    tail[rank[user]] += 1
                    following = min(following, rank[user])
        chosen = following
    batches[num_batches] = at
    return order, batches[: num_batches + 1].copy()
