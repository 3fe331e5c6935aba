"""``dglite.ops``: attention of three kinds, as :mod:`.public` has the other operations."""

from __future__ import annotations

from typing import Any

from ..backend import Tensor
from . import core
from .operands import adjacency_of, tensor_operand


def gat_attention(
    graph: Any,
    el: Tensor,
    er: Tensor,
    feat: Tensor,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    edge_weight: Tensor | None = None,
    seed: int | None = None,
    ee: Tensor | None = None,
) -> Tensor:
    """Sum sources' features at every node, weighted by a softmax of leaky_relu(el[u] + er[v]), in one kernel.

    The attention of Velickovic et al., "Graph attention networks", 2018. Nothing of the size of edges x heads is kept.

    Raises DGLError: rows, heads or dtypes do not fit, or ``dropout`` is not between 0 and 1.

    Parameters
    ----------
    graph
        A graph of one edge type.
    el, er
        Scores of sources ``(num_src, *heads)`` and of destinations ``(num_dst, *heads)``; a last axis of length 1 may
        follow.
    feat
        ``(num_src, *heads, d)``. All tensors are of one dtype: float32, float64, float16 or bfloat16.
    negative_slope
        Of the leaky ReLU.
    dropout
        Probability with which the weight of an edge for a head is set to 0; the others grow by 1 / (1 - dropout). 0
        for inference.
    edge_weight
        ``(num_edges,)``, multiplies the weights after softmax and dropout.
    seed
        Fixes what is dropped: a function of seed, edge id and head alone. Drawn from the framework's generator if None.
    ee
        Scores of edges, ``(num_edges, *heads)``, added to the scores of the two ends before the leaky ReLU.

    Returns
    -------
    Tensor
        ``(num_dst, *heads, d)``; 0 for a node without in-edges, no rows for a graph without nodes. Differentiable twice
        in every tensor.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> scores, feat = torch.zeros(3, 1), torch.tensor([1., 2., 4.]).reshape(3, 1, 1)
    >>> ops.gat_attention(g, scores, scores, feat).flatten()
    tensor([0., 1., 3.])
    """
    options = core.Attention(core.Score.ADDITIVE, negative_slope, 1.0, dropout, seed, edges=ee is not None)
    terms = (el, er) if ee is None else (el, er, ee)
    return core.attention(adjacency_of(graph), options, *_attended(feat, terms, edge_weight))


def gatv2_attention(
    graph: Any,
    feat_src: Tensor,
    feat_dst: Tensor,
    attn: Tensor,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    edge_weight: Tensor | None = None,
    seed: int | None = None,
) -> Tensor:
    """Sum ``feat_src`` at every node, weighted by a softmax of attn . leaky_relu(feat_src[u] + feat_dst[v]).

    The attention of Brody et al., "How attentive are graph attention networks?", 2022.

    Raises DGLError: rows, heads or dtypes do not fit, or ``dropout`` is not between 0 and 1.

    Parameters
    ----------
    graph
        A graph of one edge type.
    feat_src, feat_dst
        ``(num_src, *heads, d)`` and ``(num_dst, *heads, d)``, of one dtype: float32, float64, float16 or bfloat16.
    attn
        ``(*heads, d)``, of the same dtype.
    negative_slope, dropout, edge_weight, seed
        As in :func:`gat_attention`.

    Returns
    -------
    Tensor
        ``(num_dst, *heads, d)``; 0 for a node without in-edges, no rows for a graph without nodes. Differentiable twice
        in every tensor.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> feat = torch.tensor([1., 2., 4.]).reshape(3, 1, 1)
    >>> ops.gatv2_attention(g, feat, feat, torch.zeros(1, 1)).flatten()
    tensor([0., 1., 3.])
    """
    options = core.Attention(core.Score.GATV2, negative_slope, 1.0, dropout, seed)
    return core.attention(adjacency_of(graph), options, *_attended(feat_src, (feat_dst, attn), edge_weight))


def dot_attention(
    graph: Any,
    feat_src: Tensor,
    feat_dst: Tensor,
    scale: float = 1.0,
    dropout: float = 0.0,
    edge_weight: Tensor | None = None,
    seed: int | None = None,
) -> Tensor:
    """Sum ``feat_src`` at every node, weighted by a softmax of scale * (feat_src[u] . feat_dst[v]).

    Raises DGLError: rows, heads or dtypes do not fit, or ``dropout`` is not between 0 and 1.

    Parameters
    ----------
    graph
        A graph of one edge type.
    feat_src, feat_dst
        ``(num_src, *heads, d)`` and ``(num_dst, *heads, d)``, of one dtype: float32, float64, float16 or bfloat16.
    scale
        Multiplies the products; often 1 / sqrt(d).
    dropout, edge_weight, seed
        As in :func:`gat_attention`.

    Returns
    -------
    Tensor
        ``(num_dst, *heads, d)``; 0 for a node without in-edges, no rows for a graph without nodes. Differentiable twice
        in every tensor.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> feat = torch.tensor([1., 2., 4.]).reshape(3, 1, 1)
    >>> ops.dot_attention(g, feat, torch.zeros(3, 1, 1)).flatten()
    tensor([0., 1., 3.])
    """
    options = core.Attention(core.Score.DOT, 0.0, scale, dropout, seed)
    return core.attention(adjacency_of(graph), options, *_attended(feat_src, (feat_dst,), edge_weight))


def _attended(x: Any, operands: tuple[Any, ...], edge_weight: Any) -> tuple[Tensor, tuple[Tensor, ...], Tensor | None]:
    return tensor_operand(x), tuple([tensor_operand(operand) for operand in operands]), tensor_operand(edge_weight)
