"""Sums over neighbours, normalised by degrees or by edge weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend import Tensor, active
from ...backend.memory import LARGE
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...ops import core, products
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ...structure.derived import CacheKey, cache_key
from ..sparsefeatures import Features, SparseFeatures
from ..sparselinear import SparseLinear
from .given import is_plain, require_rows

gcn_norms = ("both", "right", "left", "none")
"""How a graph convolution may be normalised, see :func:`normalised_sum`."""

_SOURCE: Expr = Operand(Side.U, 0)
_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)
_SUM: Expr = Operand(Side.U, 0) + Operand(Side.E, 1)
_RELU_OF_SUM: Expr = _SUM.call("le", 0.0).call("where", 0.0, _SUM)
_ENDS: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)
_EDGE: Expr = Operand(Side.E, 0)
_SOURCE_SCALED: Expr = Operand(Side.U, 0) * Operand(Side.U, 1)
_BOTH_SCALED: Expr = _SOURCE_SCALED * Operand(Side.V, 2)
_SOURCE_SCALED_WEIGHTED: Expr = _SOURCE_SCALED * Operand(Side.E, 2)
_BOTH_SCALED_WEIGHTED: Expr = _SOURCE_SCALED_WEIGHTED * Operand(Side.V, 3)
_EDGE_BOTH_SCALED: Expr = Operand(Side.E, 0) * Operand(Side.U, 1) * Operand(Side.V, 2)
_EDGE_DESTINATION_SCALED: Expr = Operand(Side.E, 0) * Operand(Side.V, 1)
_PER_ROOT_OUT, _PER_ROOT_IN = core.DEGREE_SCALES["1 / sqrt(out)"], core.DEGREE_SCALES["1 / sqrt(in)"]
_PER_OUT, _PER_IN_AND_SELF = core.DEGREE_SCALES["1 / out"], core.DEGREE_SCALES["1 / (in + 1)"]

_WITH_SELF_LOOPS: CacheKey[Adjacency] = cache_key("with self-loops", "the relation with one loop at each node")


def normalised_sum(
    adjacency: Adjacency,
    feat: Tensor,
    norm: str,
    edge_weight: Tensor | None = None,
    bias: Tensor | None = None,
    relu: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * feat[u] / c`` in one kernel, shape (num_dst, *feat).

    ``bias`` (*feat) is added to it, and with ``relu`` negative elements become 0, in the same kernel. Before,
    features (num_src, in) are multiplied by ``weight`` (in, out).

    ``c`` is the square root of out-degree(u) times in-degree(v) for ``"both"`` (Kipf and Welling, 2017), in-degree(v)
    for ``"right"``, out-degree(u) for ``"left"``, 1 for ``"none"``. A node without in-edges gets 0.
    """
    weights, dtype, device = () if edge_weight is None else (edge_weight,), active.dtype(feat), active.device(feat)
    if norm == "both":
        before, after = (core.degree_scale(adjacency, scale, dtype, device) for scale in (_PER_ROOT_OUT, _PER_ROOT_IN))
        expr, operands = _BOTH_SCALED_WEIGHTED if weights else _BOTH_SCALED, (feat, before, *weights, after)
    elif norm == "left":
        expr = _SOURCE_SCALED_WEIGHTED if weights else _SOURCE_SCALED
        operands = (feat, core.degree_scale(adjacency, _PER_OUT, dtype, device), *weights)
    else:
        reducer = Reducer.MEAN if norm == "right" else Reducer.SUM
        return reduce_neighbours(adjacency, feat, reducer, edge_weight, bias, None, relu, weight)
    return core.spmm_epilogue(adjacency, expr, Reducer.SUM, operands, bias, None, relu, weight)


def reduce_neighbours(
    adjacency: Adjacency,
    feat: Tensor,
    reducer: Reducer,
    edge_weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    relu: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Return ``reducer`` over in-edges ``u -> v`` of ``w * feat[u]``; 0 for a node without in-edges.

    ``bias`` (*feat) and ``residual`` (num_dst, *feat) are added to it, and with ``relu`` negative elements become 0: of
    a sum or mean in the same kernel. Before, features (num_src, in) are multiplied by ``weight`` (in, out).
    """
    expr, operands = (_SOURCE, (feat,)) if edge_weight is None else (_WEIGHTED, (feat, edge_weight))
    return core.spmm_epilogue(adjacency, expr, reducer, operands, bias, residual, relu, weight)


def product(x: Features, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return ``x @ weight + bias``, with ``relu`` its ReLU, (rows, out): a layer's own, which it need not share."""
    if isinstance(x, SparseFeatures):
        result = x.matmul(weight)
        result = result if bias is None else result + bias
        return result.relu() if relu else result
    return products.product(x, weight, bias, relu)


def projected(linear: Any, x: Any) -> Tensor:
    """Return ``linear(x)`` of a :class:`SparseLinear`, computed here where it is large and no hook waits."""
    return products.product(x, linear.weight.t(), linear.bias) if _is_own_product(linear, x) else linear(x)


def sum_of_projected(first: Any, x: Any, second: Any, y: Any) -> Tensor:
    """Return ``first(x) + second(y)`` of a :class:`SparseLinear` each, the second without bias."""
    if _is_own_product(first, x) and _is_own_product(second, y):
        return products.sum_of_products(x, first.weight.t(), first.bias, y, second.weight.t())
    return first(x) + second(y)


def _is_own_product(linear: Any, x: Features) -> bool:
    if isinstance(x, SparseFeatures) or not isinstance(linear, SparseLinear):
        return False
    if active.compiling():
        return products.is_in_program(x) and is_plain(linear, SparseLinear)
    return x.shape[0] * max(linear.in_features, linear.out_features) >= LARGE and is_plain(linear, SparseLinear)


def product_goes_first(feat: Tensor, num_dst: int, in_feats: int, out_feats: int) -> bool:
    """Whether a linear layer goes before the sum over neighbours, with which it commutes: messages are narrower then.

    Where they are as wide it goes first, too, if ``feat`` wants a gradient: of a sum that it is applied to, it would
    keep the result. Not where sources outnumber destinations, and so would make it dearer.
    """
    if in_feats != out_feats:
        return in_feats > out_feats
    return active.requires_grad(feat) and feat.shape[0] <= num_dst


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
        return core.sddmm(adjacency, _EDGE_DESTINATION_SCALED, (weight, incoming.reciprocal()))
    outgoing = core.spmm(core.reversed_of(adjacency), _EDGE, Reducer.SUM, (weight,)) + eps
    return core.sddmm(adjacency, _EDGE_BOTH_SCALED, (weight, outgoing.rsqrt(), incoming.rsqrt()))


def checked_edge_weight(
    layer: Any, adjacency: Adjacency, weight: Tensor, norm: str = "both", eps: float = 0.0
) -> Tensor:
    """Return :func:`normalise_edge_weight` of weights that a user gave the layer.

    Raises ``DGLError`` for weights that are not one number per edge and, with ``"both"``, not positive.
    """
    require_rows(layer, "edge_weight", weight, adjacency.num_edges, "edges")
    if weight.ndim != 1:
        raise DGLError(
            f"{type(layer).__name__}: edge weights of shape {tuple(weight.shape)} were given; normalisation is defined "
            f"for one number per edge, shape ({adjacency.num_edges},)"
        )
    if norm == "both":
        rule = 'norm="both" takes square roots of sums of weights, which must be positive'
        positive = (weight > 0).all()
        if active.compiling() or not active.are_read((positive,)):
            active.require(positive, rule)
        elif not bool(positive):
            raise DGLError(f"{rule}; got {weight.min():g}")
    return normalise_edge_weight(adjacency, weight, norm, eps)


def walk(
    adjacency: Adjacency,
    feat: Tensor,
    edge_weight: Tensor | None = None,
    by_source: str = "in",
    scale: float = 1.0,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    r"""Return one step of the symmetrically normalised walk, ``scale * D^-1/2 A D^-1/2 feat``, in one kernel.

    Destinations are divided by the root of their in-degrees; sources by that of their in-degrees too, as DGL's layers
    of several steps do on undirected graphs, or of their out-degrees with ``by_source="out"``. Degrees of 0 count as
    1. ``edge_weight`` (num_edges,), normalised already, takes the degrees' place. ``bias`` (\*feat) and
    ``residual`` (nodes, \*feat) are added in the same kernel. Shapes (nodes, \*feat) -> the same.
    """
    if edge_weight is not None:
        return core.spmm_epilogue(adjacency, _WEIGHTED, Reducer.SUM, (feat, edge_weight * scale), bias, residual)
    dtype, device = active.dtype(feat), active.device(feat)
    after = core.degree_scale(adjacency, _PER_ROOT_IN, dtype, device)
    before = core.degree_scale(adjacency, _PER_ROOT_OUT, dtype, device) if by_source == "out" else after
    return core.spmm_epilogue(adjacency, _BOTH_SCALED, Reducer.SUM, (feat, before, after * scale), bias, residual)


def sum_of_relu(adjacency: Adjacency, source: Tensor, edge_feat: Tensor) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``relu(source[u] + edge_feat[e])``; no message is stored."""
    return core.spmm(adjacency, _RELU_OF_SUM, Reducer.SUM, (source, edge_feat))


def walk_weight(adjacency: Adjacency, like: Tensor) -> Tensor:
    """Return 1 / sqrt(out-degree(u) * in-degree(v)) of every edge ``u -> v``, (num_edges, 1)."""
    dtype, device = active.dtype(like), active.device(like)
    scales = [core.degree_scale(adjacency, scale, dtype, device) for scale in (_PER_ROOT_OUT, _PER_ROOT_IN)]
    return core.sddmm(adjacency, _ENDS, scales)


def in_degrees(adjacency: Adjacency, like: Tensor) -> Tensor:
    """Return the in-degrees, (num_dst, 1), of the dtype of ``like``."""
    return core.degree_scale(adjacency, core.DEGREE_SCALES["in"], active.dtype(like), active.device(like))


def scaled_sum(
    adjacency: Adjacency, feat: Tensor, before: Tensor, after: Tensor, residual: Tensor, edge_weight: Tensor | None
) -> Tensor:
    """Return ``residual[v]`` and ``after[v]`` times the sum over in-edges of ``w * before[u] * feat[u]``: one kernel.

    ``before`` (num_src, 1), ``after`` (num_dst, 1), ``edge_weight`` (num_edges, 1).
    """
    expr, operands = _BOTH_SCALED, [feat, before, after]
    if edge_weight is not None:
        expr, operands = _BOTH_SCALED_WEIGHTED, [feat, before, edge_weight, after]
    return core.spmm_epilogue(adjacency, expr, Reducer.SUM, operands, None, residual)


def loops_replaced(adjacency: Adjacency, like: Tensor) -> tuple[Adjacency, tuple[Tensor, Tensor] | None]:
    """Return a relation with one loop at each node in place of those it has; made once.

    A program that torch compiles cannot hold a structure made while it runs: it gets the relation as it is, and
    (num_edges, 1), 0 for a loop and 1 for other edges, with their sums by destination, (num_dst, 1). The new loops are
    the caller's to add then.
    """
    if not active.compiling():
        return _with_self_loops(adjacency), None
    return adjacency, core.edges_but_loops(adjacency, active.dtype(like), active.device(like))


def _with_self_loops(adjacency: Adjacency) -> Adjacency:
    looped = adjacency.cache.get(_WITH_SELF_LOOPS)
    if looped is None:
        src, dst = adjacency.endpoints()
        other, nodes = src != dst, np.arange(adjacency.num_src, dtype=src.dtype)
        src, dst = (np.concatenate([side[other], nodes]) for side in (src, dst))
        looped = Adjacency.from_coo(adjacency.num_src, adjacency.num_dst, src, dst, validate=False)
        adjacency.cache[_WITH_SELF_LOOPS] = looped
    return looped
