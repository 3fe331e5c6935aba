"""Edge values computed from both ends, and reductions of them."""

from __future__ import annotations

import math
from typing import Any

from ...backend import Tensor, active
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ..base import nn
from .convolution import reduce_neighbours
from .given import is_plain

_U, _V, _E = Operand(Side.U, 0), Operand(Side.V, 1), Operand(Side.E, 2)
_OWN: Expr = Operand(Side.V, 0)
_EDGE: Expr = Operand(Side.E, 0)
_WEIGHTED_EDGE: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)
_DIFFERENCE: Expr = _V - _U
_SQUARE: Expr = (_U - _V) * (_U - _V)
_THREE: Expr = _U + _V + _E
_WEIGHTED_DIFFERENCE: Expr = (_U - _V) * _E
_GATE: Expr = Operand(Side.E, 1).call("sigmoid")
_GATED: Expr = Operand(Side.U, 0) * _GATE
_FILTERED: Expr = Operand(Side.U, 0) * (Operand(Side.E, 1).call("softplus") - math.log(2))
_DOT: Expr = Operand(Side.E, 0) * Operand(Side.G, 1)
_STANDARD: Expr = (Operand(Side.E, 0) - Operand(Side.G, 1)) * Operand(Side.G, 2)
_STANDARD_SQUARE: Expr = _STANDARD * _STANDARD


# -- by edge -----------------------------------------------------------------------------------------------------------
def both_ends(adjacency: Adjacency, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``x[u]`` and ``x[v]`` of every edge."""
    return core.sddmm(adjacency, _U, (x,)), core.sddmm(adjacency, _OWN, (x,))


def difference(adjacency: Adjacency, left: Tensor, right: Tensor) -> Tensor:
    """Return ``right[v] - left[u]`` of every edge, (num_edges, *feat)."""
    return core.sddmm(adjacency, _DIFFERENCE, (left, right))


def squared_distance(adjacency: Adjacency, x: Tensor) -> Tensor:
    """Return the squared length of ``x[u] - x[v]`` of every edge, (num_edges, 1)."""
    return core.sddmm(adjacency, _SQUARE, (x, x), dot=True)


def sum_of_three(adjacency: Adjacency, left: Tensor, right: Tensor, edge: Tensor) -> Tensor:
    """Return ``left[u] + right[v] + edge[e]`` of every edge, in one pass."""
    return core.sddmm(adjacency, _THREE, (left, right, edge))


def leaky_sum_of_three(adjacency: Adjacency, left: Tensor, right: Tensor, edge: Tensor, slope: float = 0.01) -> Tensor:
    """Return the leaky ReLU of ``left[u] + right[v] + edge[e]`` of every edge.

    The result alone is kept for the gradient: a sum needs none of its operands, and the leaky ReLU the sign of its
    result. Where torch looks on, as selective checkpoints do, it may keep the sum, which nothing may overwrite then.
    """
    total = sum_of_three(adjacency, left, right, edge)
    return nn.LeakyReLU(slope, inplace=active.compiling() or not active.needs_operator((total,)))(total)


def gaussians(adjacency: Adjacency, x: Tensor, mean: Tensor, inverse_sigma: Tensor) -> Tensor:
    """Return the value of each Gaussian, with its peak at 1, at each edge: (num_edges, kernels).

    ``x`` (num_edges, dim), ``mean`` and ``inverse_sigma`` (kernels, dim). No tensor of edges, kernels and dim is made.
    """
    operands = x[:, None, :], mean[None], inverse_sigma[None]
    squares = core.sddmm(adjacency, _STANDARD_SQUARE, operands, dot=True)
    return (-0.5 * squares[:, :, 0]).exp()


def dots_by_head(adjacency: Adjacency, edge: Tensor, vectors: Tensor) -> Tensor:
    """Return the product of each head's edge features with its vector, (num_edges, heads).

    ``edge`` (num_edges, heads, d), ``vectors`` (heads, d). Nothing as large as ``edge`` is made for it.
    """
    return core.sddmm(adjacency, _DOT, (edge, vectors[None]), dot=True)[:, :, 0]


# -- by node -----------------------------------------------------------------------------------------------------------
def reduce_edges(adjacency: Adjacency, edge: Tensor, reducer: Reducer, weight: Tensor | None = None) -> Tensor:
    """Return ``reducer`` over in-edges of ``weight * edge``; 0 for a node without in-edges."""
    if weight is None:
        return core.spmm(adjacency, _EDGE, reducer, (edge,))
    return core.spmm(adjacency, _WEIGHTED_EDGE, reducer, (edge, weight))


def greatest_edge(adjacency: Adjacency, edge: Tensor) -> Tensor:
    """Return the maximum over in-edges; 0 for a node without in-edges."""
    return reduce_edges(adjacency, edge, Reducer.MAX)


def greatest_difference(adjacency: Adjacency, left: Tensor, right: Tensor) -> Tensor:
    """Return the maximum over in-edges of ``right[v] - left[u]``; 0 for a node without in-edges."""
    return core.spmm(adjacency, _DIFFERENCE, Reducer.MAX, (left, right))


def mean_difference(adjacency: Adjacency, x: Tensor, weight: Tensor) -> Tensor:
    """Return the mean over in-edges of ``weight * (x[u] - x[v])``; 0 for a node without in-edges."""
    return core.spmm(adjacency, _WEIGHTED_DIFFERENCE, Reducer.MEAN, (x, x, weight))


def gated_mean(adjacency: Adjacency, source: Tensor, edge: Tensor) -> Tensor:
    """Return the mean over in-edges of ``source[u]``, weighted by sigmoid(edge); gates are not stored.

    Both sums are one pass over the edges, and so is each gradient.
    """
    parts = (_GATED, Reducer.SUM), (_GATE, Reducer.SUM)
    total, weight = core.spmm_several(adjacency, parts, (source, edge))
    return total / (weight + 1e-6)


def filtered_sum(adjacency: Adjacency, source: Tensor, edge: Tensor) -> Tensor:
    """Return the sum over in-edges of ``source[u] * (softplus(edge) - log 2)``; the filters are not stored."""
    return core.spmm(adjacency, _FILTERED, Reducer.SUM, (source, edge))


def sum_of_products(adjacency: Adjacency, source: Tensor, weight: Tensor, matrices: Tensor, reducer: Reducer) -> Tensor:
    """Return the sum over k of ``reducer`` over in-edges of ``weight[e, k] * source[u] @ matrices[k]``, (num_dst, out).

    ``source`` (num_src, in), ``weight`` (num_edges, K), ``matrices`` (K, in, out); ``reducer`` SUM or MEAN. Neighbours
    are added up first, for all k in one pass, and multiplied once for each node.
    """
    kernels, width, out = active.shape(matrices)
    total = reduce_neighbours(adjacency, source[:, None, :], reducer, weight[:, :, None])
    return total.reshape(adjacency.num_dst, kernels * width) @ matrices.reshape(kernels * width, out)


# -- parts of layers ---------------------------------------------------------------------------------------------------
def by_each_head(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each head's rows by its part of a linear layer's weight: (rows, heads, in) -> (rows, heads, out)."""
    _, heads, width = active.shape(x)
    matrices = weight.reshape(heads, -1, width).transpose(1, 2)
    return (x.transpose(0, 1) @ matrices).transpose(0, 1)


def residual(in_feats: int, out_feats: int) -> nn.Module:
    """Return a layer's residual connection: a matrix, or nothing where sizes agree."""
    return nn.Identity() if in_feats == out_feats else nn.Linear(in_feats, out_feats, bias=False)


def last_linear(function: Any) -> tuple[list[nn.Module], nn.Linear] | None:
    """Return (the layers before, the last) of a ``Linear`` or a ``Sequential`` that ends in one; else None.

    Nor where one of both is not plain, see :func:`~.given.is_plain`.
    """
    joined = is_plain(function, nn.Sequential)
    layers: list[Any] = list(function) if joined else [function]
    return (layers[:-1], layers[-1]) if layers and is_plain(layers[-1]) else None
