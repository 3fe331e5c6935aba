"""Random graphs."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .arguments import explained
from .backend import active
from .convert import graph, heterograph
from .errors import DGLError
from .graph import DGLGraph
from .graph.base import id_dtype
from .graph.storage import make_graph
from .random import generator
from .structure import Adjacency
from .structure.distinct import distinct
from .structure.ids import count_of, number_of
from .structure.metagraph import HOMOGENEOUS

__all__ = ["rand_bipartite", "rand_graph", "rand_power_law_graph"]

_CHUNK = 1 << 20
"""Edges drawn at once: temporaries stay in cache, and what is drawn does not depend on the number of threads."""


@explained
def rand_graph(num_nodes: int, num_edges: int, idtype: Any = None, device: Any = None) -> DGLGraph:
    """Return a graph of ``num_edges`` distinct directed edges drawn uniformly; self-loops may occur.

    Raises DGLError: there are fewer than ``num_edges`` pairs of nodes.
    """
    num_nodes = count_of(num_nodes, "num_nodes")
    return graph(_pairs(num_nodes, num_nodes, num_edges), num_nodes=num_nodes, idtype=idtype, device=device)


@explained
def rand_bipartite(
    utype: str,
    etype: str,
    vtype: str,
    num_src_nodes: int,
    num_dst_nodes: int,
    num_edges: int,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Return a graph of ``num_edges`` distinct edges from ``utype`` to ``vtype`` nodes drawn uniformly.

    Raises DGLError: there are fewer than ``num_edges`` pairs of nodes.
    """
    num_src_nodes, num_dst_nodes = count_of(num_src_nodes, "num_src_nodes"), count_of(num_dst_nodes, "num_dst_nodes")
    edges = _pairs(num_src_nodes, num_dst_nodes, num_edges)
    return heterograph({(utype, etype, vtype): edges}, {utype: num_src_nodes, vtype: num_dst_nodes}, idtype, device)


def _pairs(num_src: int, num_dst: int, num_edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs: each is a number below num_src * num_dst."""
    num_edges, possible = count_of(num_edges, "num_edges"), num_src * num_dst
    if num_edges > possible:
        raise DGLError(f"{num_src} x {num_dst} nodes have {possible} pairs; {num_edges} distinct edges do not exist")
    if possible >= 1 << 63:
        raise DGLError(f"{num_src} x {num_dst} nodes have {possible} pairs, which 64 bits do not number")
    codes = generator().choice(possible, num_edges, replace=False) if num_edges else np.empty(0, np.int64)
    return np.divmod(codes, max(num_dst, 1))


# -- power law ---------------------------------------------------------------------------------------------------------
@explained
def rand_power_law_graph(
    num_nodes: int,
    num_edges: int,
    exponent: float = 3.0,
    num_communities: int = 1,
    homophily: float = 0.0,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Return a graph whose degrees, in and out, follow a power law: few nodes have a large part of the edges.

    The ends of an edge are drawn independently, the node of rank r with a probability like ``r ** (-1 / (exponent -
    1))`` (Chung and Lu, 2002), so that the number of nodes of degree d falls like ``d ** -exponent``. Multi-edges and
    self-loops occur. Edges are numbered by destination. Takes little more memory than the graph itself, and about 10
    seconds for 100 million edges on two cores.

    Raises DGLError: a count is negative, there are edges but no nodes, the exponent is not above 2, ``homophily`` is no
    probability, or there are more communities than nodes.

    Parameters
    ----------
    exponent
        above 2; 3 is that of preferential attachment. Smaller ones have larger hubs.
    num_communities, homophily
        with probability ``homophily`` the source is moved to a node of about the same rank in the destination's
        community, so that much of the edges stay inside (a degree-corrected planted partition: Karrer and Newman,
        2011). Node v is in community ``v % num_communities``.
    idtype
        dtype of the ids that the graph returns, int64 by default; stored are 32 bits where they suffice.
    """
    num_nodes, num_edges = count_of(num_nodes, "num_nodes"), count_of(num_edges, "num_edges")
    num_communities = count_of(num_communities, "num_communities", least=1)
    _check_power_law(num_nodes, num_edges, exponent, num_communities, homophily)
    dtype = np.dtype(np.int64) if idtype is None else id_dtype(idtype)
    # Rank r has the share ((r + 1) / n) ** power - (r / n) ** power, whose sums have an inverse in closed form.
    power = (exponent - 2) / (exponent - 1)
    shares = np.diff((np.arange(num_nodes + 1) / max(num_nodes, 1)) ** power)
    ids = _shuffled_ranks(num_nodes, num_communities)
    indptr = np.zeros(num_nodes + 1, np.int64)
    indptr[1:][ids] = generator().multinomial(num_edges, shares) if num_nodes else 0
    np.cumsum(indptr, out=indptr)
    indices = np.empty(num_edges, np.int32 if max(num_nodes, num_edges) < 2**31 else np.int64)
    cuts = distinct(np.searchsorted(indptr, np.arange(0, num_edges + _CHUNK, _CHUNK)).clip(0, num_nodes))
    rows = list(itertools.pairwise(cuts.tolist()))

    def fill(first: int, last: int, random: np.random.Generator) -> None:
        count = int(indptr[last] - indptr[first])
        ranks = (random.random(count) ** (1 / power) * num_nodes).astype(indices.dtype)
        np.minimum(ranks, num_nodes - 1, out=ranks)  # a draw just below 1 may round up
        if homophily > 0:
            community = np.arange(first, last, dtype=ranks.dtype) % num_communities
            moved = ranks - ranks % num_communities + np.repeat(community, np.diff(indptr[first : last + 1]))
            moved[moved >= num_nodes] -= num_communities
            np.copyto(ranks, moved, where=random.random(count, np.float32) < homophily)
        np.take(ids, ranks, out=indices[indptr[first] : indptr[last]], mode="clip")  # "raise" would copy

    with ThreadPoolExecutor(active.num_threads()) as pool:
        firsts, lasts = [first for first, _ in rows], [last for _, last in rows]
        list(pool.map(fill, firsts, lasts, generator().spawn(len(rows))))
    adjacency = Adjacency.from_csc(num_nodes, num_nodes, indptr, indices, idtype=dtype, copy=False)
    return make_graph(HOMOGENEOUS, (adjacency,), (num_nodes,), device)


def _check_power_law(num_nodes: int, num_edges: int, exponent: float, num_communities: int, homophily: float) -> None:
    if num_edges and not num_nodes:
        raise DGLError(f"a graph of {num_nodes} nodes cannot have {num_edges} edges")
    if not exponent > 2:
        raise DGLError(f"exponent must be above 2, or the mean degree has no bound; got {exponent}")
    number_of(homophily, "homophily, a probability,", 0, 1)
    if num_communities > max(num_nodes, 1):
        raise DGLError(f"{num_nodes} nodes cannot form {num_communities} communities")


def _shuffled_ranks(num_nodes: int, num_communities: int) -> np.ndarray:
    """Return the id of each rank: random, but rank and id are of one community (the last few stay where they are)."""
    ids = np.arange(num_nodes, dtype=np.int32 if num_nodes < 2**31 else np.int64)
    blocks = num_nodes // num_communities
    whole = ids[: blocks * num_communities].reshape(blocks, num_communities)
    whole[:] = whole[generator().permutation(blocks)]
    return ids
