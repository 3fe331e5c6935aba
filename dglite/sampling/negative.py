"""Negative sampling: pairs of nodes without an edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import require_graph
from ..random import generator
from ..structure import Adjacency
from ..structure.distinct import in_order_of_appearance
from ..structure.ids import count_of

_LISTED = 1 << 16
"""Up to this many pairs of nodes, those without an edge are listed and drawn from."""
_MOST_ROUNDS = 20


@explained
def global_uniform_negative_sampling(
    g: DGLGraph,
    num_samples: int,
    exclude_self_loops: bool = True,
    replace: bool = False,
    etype: Any = None,
    redundancy: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return source and destination nodes of ``num_samples`` pairs without an edge, each such pair equally likely.

    Fewer are returned where there are fewer such pairs (and ``replace`` is false), or none at all.

    Raises DGLError: a number is negative, or the edge type does not exist.

    Parameters
    ----------
    exclude_self_loops
        also rule out pairs of a node with itself, where both ends are of one type.
    replace
        pairs may repeat.
    etype
        the edge type; may be left out when there is one.
    redundancy
        how many pairs more than needed to draw at a time, as a fraction; by default what the graph's density asks for.
    """
    require_graph(g)
    num_samples = count_of(num_samples, "num_samples")
    if redundancy is not None and not 0 <= redundancy < float("inf"):
        raise DGLError(f"redundancy must be a number >= 0, got {redundancy}")
    index = g.etype_id(etype)
    adjacency = g.adjacencies[index]
    src_set, dst_set = g.type_graph.ends[index]
    no_loops = exclude_self_loops and src_set == dst_set
    num_pairs, most = adjacency.num_src * adjacency.num_dst, max(_LISTED, 4 * adjacency.num_edges)
    if num_pairs <= max(most, 0 if replace else 8 * num_samples):
        codes = _from_list(adjacency, num_samples, no_loops, replace)
    else:
        codes = _by_rejection(adjacency, num_samples, no_loops, replace, redundancy)
    u, v = np.divmod(codes, max(adjacency.num_dst, 1))
    return g.ids_tensor(u), g.ids_tensor(v)


def _from_list(adjacency: Adjacency, num_samples: int, no_loops: bool, replace: bool) -> np.ndarray:
    """Return codes ``u * num_dst + v`` drawn from the list of all free pairs."""
    free = np.ones(adjacency.num_src * adjacency.num_dst, bool)
    src, dst = adjacency.endpoints()
    free[src.astype(np.int64) * adjacency.num_dst + dst] = False
    if no_loops:
        free[:: adjacency.num_dst + 1] = False
    codes = free.nonzero()[0]
    if not len(codes):
        return codes
    return generator().choice(codes, num_samples if replace else min(num_samples, len(codes)), replace)


def _by_rejection(
    adjacency: Adjacency, num_samples: int, no_loops: bool, replace: bool, redundancy: float | None
) -> np.ndarray:
    """Draw pairs and drop those with an edge, round after round. At least half of all pairs are free here."""
    num_pairs, random = adjacency.num_src * adjacency.num_dst, generator()
    num_unavailable = adjacency.num_edges + (adjacency.num_src if no_loops else 0) + (0 if replace else num_samples)
    surplus = 1.2 * num_pairs / max(num_pairs - num_unavailable, 1) - 1 if redundancy is None else redundancy
    pairs = np.empty(0, np.int64)
    for _ in range(_MOST_ROUNDS):
        missing = num_samples - len(pairs)
        if missing <= 0:
            break
        codes = random.integers(num_pairs, size=int(missing * (1 + surplus)) + 8)
        u, v = np.divmod(codes, adjacency.num_dst)
        free = ~adjacency.has_edges(u, v)
        if no_loops:
            free &= u != v
        pairs = np.concatenate([pairs, codes[free]])
        if not replace:
            # The first of equal codes stays where it was: sorting would favour low codes when the surplus is cut off.
            pairs = in_order_of_appearance(pairs)
    return pairs[:num_samples]


attach(global_uniform_negative_sampling=global_uniform_negative_sampling)
