"""The formulas of the layers, each written once, as functions of an adjacency and tensors.

Layers hold parameters and check what users give them; what is computed stands here. ``*feat`` is any feature shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..ops import core, edge_softmax
from ..ops.core import require_in_edges
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .sparsefeatures import Features, SparseFeatures, as_features

if TYPE_CHECKING:
    from ..graph import DGLGraph

__all__ = [
    "as_features",
    "attention",
    "by_head",
    "edge_softmax",
    "first_rows",
    "gcn_norms",
    "mean_with_self",
    "normalise_edge_weight",
    "normalised_sum",
    "pair_of_features",
    "pair_of_sizes",
    "reduce_neighbours",
    "require_dense",
    "require_in_edges",
    "require_rows",
]

gcn_norms = ("both", "right", "left", "none")
"""How a graph convolution may be normalised, see :func:`normalised_sum`."""

_SOURCE: Expr = Operand(Side.U, 0)
_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)
_EDGE: Expr = Operand(Side.E, 0)
_SOURCE_SCALED: Expr = Operand(Side.U, 0) * Operand(Side.U, 1)
_BOTH_SCALED: Expr = _SOURCE_SCALED * Operand(Side.V, 2)
_SOURCE_SCALED_WEIGHTED: Expr = _SOURCE_SCALED * Operand(Side.E, 2)
_BOTH_SCALED_WEIGHTED: Expr = _BOTH_SCALED * Operand(Side.E, 3)
_EDGE_BOTH_SCALED: Expr = Operand(Side.E, 0) * Operand(Side.U, 1) * Operand(Side.V, 2)
_EDGE_DESTINATION_SCALED: Expr = Operand(Side.E, 0) * Operand(Side.V, 1)


# -- what users give ---------------------------------------------------------------------------------------------------
def pair_of_sizes(sizes: int | tuple[int, int]) -> tuple[int, int]:
    """Return (source, destination) feature sizes; one size stands for both."""
    return (sizes[0], sizes[1]) if isinstance(sizes, tuple) else (sizes, sizes)


def pair_of_features(graph: DGLGraph, adjacency: Adjacency, feat: Any) -> tuple[Any, Any]:
    """Return (source, destination) features, dense or sparse, with the right numbers of rows.

    One matrix stands for both; on a block its first rows are those of the destination nodes. Raises ``DGLError`` where
    rows and nodes differ in number.
    """
    if isinstance(feat, tuple):
        source, destination = as_features(feat[0]), as_features(feat[1])
    else:
        source = feat = as_features(feat)
        destination = first_rows(feat, adjacency.num_dst) if graph.is_block else feat
    require_rows(source, adjacency.num_src, "source nodes")
    require_rows(destination, adjacency.num_dst, "destination nodes")
    return source, destination


def require_dense(x: Features, reader: str) -> None:
    """Raise ``DGLError`` when ``x`` is sparse, naming what reads it."""
    if isinstance(x, SparseFeatures):
        raise DGLError(
            f"{reader} reads whole rows of features and cannot take a sparse matrix of shape {x.shape}; make it dense "
            "(matrix.toarray(), tensor.to_dense()) or project it first with dglite.nn.SparseLinear"
        )


def require_rows(x: Features, expected: int, owner: str) -> None:
    """Raise ``DGLError`` unless ``x`` has one row for each of the ``expected`` nodes or edges."""
    if x.ndim == 0 or x.shape[0] != expected:
        hint = "; on a graph with two sets of nodes pass a pair (source, destination)" if "nodes" in owner else ""
        raise DGLError(
            f"a tensor of shape {tuple(x.shape)} was given for {expected} {owner}; expected a row each{hint}"
        )


# -- graph convolution -------------------------------------------------------------------------------------------------
_PER_ROOT_OUT, _PER_ROOT_IN = core.DEGREE_SCALES["1 / sqrt(out)"], core.DEGREE_SCALES["1 / sqrt(in)"]
_PER_OUT, _PER_IN_AND_SELF = core.DEGREE_SCALES["1 / out"], core.DEGREE_SCALES["1 / (in + 1)"]


def normalised_sum(adjacency: Adjacency, feat: Tensor, norm: str, edge_weight: Tensor | None = None) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * feat[u] / c`` in one kernel, shape (num_dst, *feat).

    ``c`` is the square root of out-degree(u) times in-degree(v) for ``"both"`` (Kipf and Welling, 2017), in-degree(v)
    for ``"right"``, out-degree(u) for ``"left"``, 1 for ``"none"``. A node without in-edges gets 0.
    """
    weights, dtype, device = () if edge_weight is None else (edge_weight,), active.dtype(feat), active.device(feat)
    if norm == "both":
        scales = [core.degree_scale(adjacency, scale, dtype, device) for scale in (_PER_ROOT_OUT, _PER_ROOT_IN)]
        expr = _BOTH_SCALED_WEIGHTED if weights else _BOTH_SCALED
        return core.spmm(adjacency, expr, Reducer.SUM, (feat, *scales, *weights))
    if norm == "left":
        expr = _SOURCE_SCALED_WEIGHTED if weights else _SOURCE_SCALED
        scale = core.degree_scale(adjacency, _PER_OUT, dtype, device)
        return core.spmm(adjacency, expr, Reducer.SUM, (feat, scale, *weights))
    return reduce_neighbours(adjacency, feat, Reducer.MEAN if norm == "right" else Reducer.SUM, edge_weight)


def reduce_neighbours(
    adjacency: Adjacency, feat: Tensor, reducer: Reducer, edge_weight: Tensor | None = None
) -> Tensor:
    """Return ``reducer`` over in-edges ``u -> v`` of ``w * feat[u]``; 0 for a node without in-edges."""
    if edge_weight is None:
        return core.spmm(adjacency, _SOURCE, reducer, (feat,))
    return core.spmm(adjacency, _WEIGHTED, reducer, (feat, edge_weight))


def mean_with_self(
    adjacency: Adjacency, source: Tensor, destination: Tensor, edge_weight: Tensor | None = None
) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * source[u]``, plus ``destination[v]``, over in-degree(v) + 1."""
    total = reduce_neighbours(adjacency, source, Reducer.SUM, edge_weight) + destination
    return total * core.degree_scale(adjacency, _PER_IN_AND_SELF, active.dtype(total), active.device(total))


def normalise_edge_weight(adjacency: Adjacency, weight: Tensor, norm: str, eps: float) -> Tensor:
    """Divide each edge's weight by sums of weights at its ends; ``weight`` and result have shape (num_edges,).

    The divisor is the square root of (sum over out-edges of u) times (sum over in-edges of v) for ``"both"``, the sum
    over in-edges of v for ``"right"``. ``eps`` is added to each sum.
    """
    if norm == "none":
        return weight
    incoming = core.spmm(adjacency, _EDGE, Reducer.SUM, (weight,)) + eps
    if norm == "right":
        return core.sddmm(adjacency, _EDGE_DESTINATION_SCALED, (weight, 1 / incoming))
    outgoing = core.spmm(core.reversed_of(adjacency), _EDGE, Reducer.SUM, (weight,)) + eps
    return core.sddmm(adjacency, _EDGE_BOTH_SCALED, (weight, outgoing.rsqrt(), incoming.rsqrt()))


# -- attention ---------------------------------------------------------------------------------------------------------
def attention(
    adjacency: Adjacency,
    how: core.Attention,
    feat: Tensor,
    operands: Sequence[Tensor],
    edge_weight: Tensor | None = None,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention's result, (num_dst, *heads, d), and its weights as applied if they are asked for.

    Weights, (num_edges, *heads, 1), exist only with ``get_attention``; otherwise one kernel does it all. What is
    dropped is the same either way. See ``ops/attention.py`` for the operands.
    """
    how = how.seeded()
    if not get_attention:
        return core.attention(adjacency, how, feat, operands, edge_weight), None
    weights = core.attention_weights(adjacency, how, feat, operands, edge_weight)
    return reduce_neighbours(adjacency, feat, Reducer.SUM, weights), weights


def first_rows(x: Tensor, count: int) -> Tensor:
    """Return the first ``count`` rows; ``x`` itself, not a view with a gradient to copy, when that is all."""
    return x if x.shape[0] == count else x[:count]


def by_head(x: Tensor, num_heads: int) -> Tensor:
    """Return (..., num_heads * d) as (..., num_heads, d)."""
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)
