"""Operands of every kind of attention."""

from __future__ import annotations

import torch

from dglite.structure import Adjacency

__all__ = ["tensors"]


def tensors(score: str, adj: Adjacency, heads: int, features: int, weighted: bool = False) -> list[torch.Tensor]:
    """Return float64 operands of the score, then edge weights.

    The score's name may end in "+edge", for a term of the edge, and "+feat", for features of the edge besides.
    """
    score, *parts = score.split("+")
    wide, generator = (heads, features), torch.Generator().manual_seed(3)
    shapes = {
        "additive": [(adj.num_src, *wide), (adj.num_src, heads), (adj.num_dst, heads)],
        "projected": [(adj.num_src, *wide), wide, wide],
        "gatv2": [(adj.num_src, *wide), (adj.num_dst, *wide), wide],
        "dot": [(adj.num_src, *wide), (adj.num_dst, *wide)],
    }[score]
    shapes += [{"edge": (adj.num_edges, heads), "feat": (adj.num_edges, 3)}[part] for part in parts]
    shapes += [(adj.num_edges,)] if weighted else []
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]
