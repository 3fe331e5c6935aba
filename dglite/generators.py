"""Random graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .convert import graph, heterograph
from .errors import DGLError
from .graph import DGLGraph
from .random import generator

__all__ = ["rand_bipartite", "rand_graph"]


def rand_graph(num_nodes: int, num_edges: int, idtype: Any = None, device: Any = None) -> DGLGraph:
    """Return a graph of ``num_edges`` distinct directed edges drawn uniformly; self-loops may occur.

    Raises
    ------
    DGLError
        There are fewer than ``num_edges`` pairs of nodes.
    """
    return graph(_pairs(num_nodes, num_nodes, num_edges), num_nodes=num_nodes, idtype=idtype, device=device)


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

    Raises
    ------
    DGLError
        There are fewer than ``num_edges`` pairs of nodes.
    """
    edges = _pairs(num_src_nodes, num_dst_nodes, num_edges)
    return heterograph({(utype, etype, vtype): edges}, {utype: num_src_nodes, vtype: num_dst_nodes}, idtype, device)


def _pairs(num_src: int, num_dst: int, num_edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs: each is a number below num_src * num_dst."""
    if min(num_src, num_dst, num_edges) < 0:
        raise DGLError(f"counts must not be negative, got {num_src} and {num_dst} nodes and {num_edges} edges")
    possible = num_src * num_dst
    if num_edges > possible:
        raise DGLError(f"{num_src} x {num_dst} nodes have {possible} pairs; {num_edges} distinct edges do not exist")
    codes = generator().choice(possible, num_edges, replace=False) if num_edges else np.empty(0, np.int64)
    return np.divmod(codes, max(num_dst, 1))
