"""The layers' formulas on dense matrices, and small graphs to hold them against."""

from __future__ import annotations

import torch

import dglite
from dglite import DGLGraph

SRC, DST = [0, 1, 2, 3, 3, 0, 2, 2], [1, 2, 0, 0, 3, 1, 2, 1]
"""Four nodes with a multi-edge (0, 1), self-loops at 2 and 3 and an in-edge at every node."""

PAIR_SRC, PAIR_DST = [0, 1, 4, 2, 2], [0, 0, 2, 1, 2]
"""Five source and three destination nodes; source 3 has no edge."""


def graph() -> DGLGraph:
    return dglite.graph((SRC, DST), num_nodes=4)


def block() -> DGLGraph:
    """Destination nodes are the first three of the five source nodes."""
    return dglite.create_block((PAIR_SRC, PAIR_DST), num_src_nodes=5, num_dst_nodes=3)


def bipartite() -> DGLGraph:
    return dglite.heterograph({("user", "buys", "item"): (PAIR_SRC, PAIR_DST)}, {"user": 5, "item": 3})


def lonely_graph() -> DGLGraph:
    """Nodes 0 and 3 have no in-edge."""
    return dglite.graph(([0, 0, 1], [1, 2, 2]), num_nodes=4)


def matrix(g: DGLGraph, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Return the (destination, source) matrix of the sums of edge weights, float64."""
    src, dst = g.edges()
    dense = torch.zeros(g.num_dst_nodes(), g.num_src_nodes(), dtype=torch.float64)
    values = torch.ones(g.num_edges(), dtype=torch.float64) if weight is None else weight
    return dense.index_put((dst.long(), src.long()), values, accumulate=True)


def softmax_by_destination(g: DGLGraph, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of (num_edges, ...) scores among the edges with the same destination."""
    _, dst = g.edges()
    result = torch.zeros_like(scores)
    for node in range(g.num_dst_nodes()):
        chosen = torch.nonzero(dst == node).flatten()
        result = result.index_put((chosen,), torch.softmax(scores[chosen], dim=0))
    return result


def double(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return reproducible float64 numbers that require a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


def positive(*shape: int) -> torch.Tensor:
    """Return numbers between 0.5 and 1.5 that require a gradient."""
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5).requires_grad_()
