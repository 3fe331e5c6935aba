"""``dglite.ops``: the named operations on a graph and tensors, as DGL has them.

Each takes a graph with one edge type (or an ``Adjacency``) and tensors, returns a tensor, and leaves the graph alone.
Tensors are of one library, which the result is of too; arrays of NumPy's are tensors without gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from ..backend import Tensor, active, admitted, framework
from ..errors import DGLError
from ..expr import Expr
from ..function import message_expression
from ..opspec import MESSAGES, Reducer
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key, variant
from ..structure.ids import ALL, integer_array, is_all
from . import core
from .core import sddmm, spmm
from .operands import adjacency_of, check_tensor, tensor_operand
from .softmax import edge_softmax as relation_softmax


def gspmm(g: Any, op: str, reduce_op: str, lhs_data: Tensor | None, rhs_data: Tensor | None) -> Tensor:
    """Compute ``op`` of source and edge features for every edge and reduce it at the destinations, in one kernel.

    Raises DGLError: an unknown name, or a tensor that does not fit the graph.

    Parameters
    ----------
    g
        A graph of one edge type.
    op
        ``add``, ``sub``, ``mul``, ``div``, ``pow``, ``copy_lhs`` (sources only) or ``copy_rhs`` (edges only).
    reduce_op
        ``sum``, ``mean``, ``max``, ``min`` or ``logsumexp``.
    lhs_data, rhs_data
        ``(num_src, *feat)`` and ``(num_edges, *feat)`` of one dtype, float32, float64, float16 or bfloat16; feature
        axes broadcast. The one that is not read may be None.

    Returns
    -------
    Tensor
        ``(num_dst, *feat)``, of the operands' dtype; 0 for a node without in-edges, and no rows for a graph without
        nodes. Differentiable in both.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> ops.gspmm(g, 'mul', 'sum', torch.tensor([1., 2., 4.]), torch.tensor([1., 10., 100.]))
    tensor([  0.,   1., 420.])
    """
    expr, operands = _expression(op, "u", "e", lhs_data, rhs_data, _BINARY)
    return spmm(adjacency_of(g), expr, _reducer(reduce_op), operands)


def gsddmm(
    g: Any, op: str, lhs_data: Tensor | None, rhs_data: Tensor | None, lhs_target: str = "u", rhs_target: str = "v"
) -> Tensor:
    """Compute ``op`` of two features for every edge, in edge-id order.

    Raises DGLError: an unknown name, or a tensor that does not fit the graph.

    Parameters
    ----------
    g
        A graph of one edge type.
    op
        ``add``, ``sub``, ``mul``, ``div``, ``pow``, ``copy_lhs``, ``copy_rhs``, or ``dot`` over the last axis, which is
        kept with length 1; ``dot`` of ``(N,)`` is ``mul``.
    lhs_data, rhs_data
        ``(num_src, *feat)``, ``(num_dst, *feat)`` or ``(num_edges, *feat)``, by their targets, of one dtype: float32,
        float64, float16 or bfloat16; feature axes broadcast. The one that is not read may be None.
    lhs_target, rhs_target
        Whose rows the operands have: ``u`` (source), ``v`` (destination) or ``e`` (edge).

    Returns
    -------
    Tensor
        ``(num_edges, *feat)``, of the operands' dtype; no rows for a graph without edges. Differentiable in both.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> h = torch.tensor([1., 2., 4.])
    >>> ops.gsddmm(g, 'add', h, h, 'u', 'v')
    tensor([3., 6., 8.])
    """
    for target in (lhs_target, rhs_target):
        if target not in ("u", "v", "e"):
            raise DGLError(f"unknown target {target!r}; expected 'u', 'v' or 'e'")
    expr, operands = _expression(op, lhs_target, rhs_target, lhs_data, rhs_data, tuple(MESSAGES))
    return sddmm(adjacency_of(g), expr, operands, dot=op == "dot")


@overload
def edge_softmax(
    graph: Any, logits: Mapping[Any, Tensor], eids: Any = ALL, norm_by: str = "dst"
) -> dict[Any, Tensor]: ...
@overload
def edge_softmax(graph: Any, logits: Tensor | np.ndarray, eids: Any = ALL, norm_by: str = "dst") -> Tensor: ...
def edge_softmax(graph: Any, logits: Any, eids: Any = ALL, norm_by: str = "dst") -> Any:
    """Normalise edge scores to weights that add up to 1 at every node.

    Raises DGLError: ``norm_by`` is something else, ``logits`` does not have a row per edge, or the scores of edge types
    that share a node type differ in shape or dtype.

    Parameters
    ----------
    graph
        A graph of one edge type; of several with a dictionary of scores.
    logits
        ``(num_edges, *feat)``, or ``(len(eids), *feat)``, float32, float64, float16 or bfloat16; every trailing element
        is normalised on its own. Or a dictionary of them by edge type: then edges of all its types compete where they
        share a node, and edge types that it leaves out take no part.
    eids
        Edges to compute over, in the order of ``logits``; all of them by default, and always with a dictionary.
    norm_by
        ``"dst"``: among edges with the same destination; ``"src"``: with the same source.

    Returns
    -------
    Tensor or dict
        The shape and dtype of ``logits``; by canonical edge type if they were given by type. The only edge of a
        node gets 1; nodes without edges have no row, and a graph without edges gives no rows.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite import ops
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    >>> ops.edge_softmax(g, torch.tensor([5., 1., 1.]))
    tensor([1.0000, 0.5000, 0.5000])
    """
    if norm_by not in ("dst", "src"):
        raise DGLError(f"norm_by={norm_by!r} is not understood; expected 'dst' or 'src'")
    if isinstance(logits, Mapping):
        if not is_all(eids):
            raise DGLError("a softmax over several edge types takes all edges; use an edge_subgraph for fewer")
        return softmax_across(graph, logits, norm_by == "dst")
    adj = adjacency_of(graph)
    if norm_by == "src":
        adj = core.reversed_of(adj)
    if not is_all(eids):
        adj = adj.subset(graph.edge_ids_of(eids, None)).adjacency
    return core.edge_softmax(adj, tensor_operand(logits))


def segment_reduce(seglen: Any, value: Tensor, reducer: str = "sum") -> Tensor:
    """Reduce consecutive segments of rows: the first ``seglen[0]`` rows, the next ``seglen[1]``, and so on.

    Raises DGLError: an unknown reducer, a negative length, or lengths that do not sum to the number of rows.

    Parameters
    ----------
    seglen
        Lengths of the segments, integers from 0 up.
    value
        ``(sum(seglen), *feat)``, float32, float64, float16 or bfloat16.
    reducer
        ``sum``, ``mean``, ``max``, ``min`` or ``logsumexp``.

    Returns
    -------
    Tensor
        ``(len(seglen), *feat)``, of the same dtype; 0 for an empty segment. Differentiable.

    Examples
    --------
    >>> import torch
    >>> from dglite import ops
    >>> ops.segment_reduce([2, 0, 1], torch.tensor([1., 2., 4.]), 'mean')
    tensor([1.5000, 0.0000, 4.0000])
    """
    return core.segment_reduce(_lengths(seglen), tensor_operand(value), _reducer(reducer))


def segment_softmax(seglen: Any, value: Tensor) -> Tensor:
    """Normalise each segment of rows (see :func:`segment_reduce`) by a softmax over its rows.

    Raises DGLError: a negative length, or lengths that do not sum to the number of rows.

    Parameters
    ----------
    seglen
        Lengths of the segments, integers from 0 up.
    value
        ``(sum(seglen), *feat)``, float32, float64, float16 or bfloat16; every trailing element is normalised on its
        own.

    Returns
    -------
    Tensor
        The shape and dtype of ``value``; an empty segment has no rows. Differentiable.

    Examples
    --------
    >>> import torch
    >>> from dglite import ops
    >>> ops.segment_softmax([2, 0, 1], torch.tensor([1., 1., 4.]))
    tensor([0.5000, 0.5000, 1.0000])
    """
    return core.segment_softmax(_lengths(seglen), tensor_operand(value))


def _reducer(name: str) -> Reducer:
    try:
        reducer = Reducer(name)
    except ValueError:
        reducer = Reducer.PROD
    if not reducer.fused:
        raise DGLError(f"no reduce operation {name!r}; expected sum, mean, max, min or logsumexp")
    return reducer


def _lengths(seglen: Any) -> Any:
    if active.compiling():  # values are looked at when the program runs
        return framework.as_tensor(seglen)
    lengths = integer_array(seglen, "segment lengths").astype(np.int64, order="C", copy=False)
    if lengths.ndim != 1 or lengths.min(initial=0) < 0:
        raise DGLError(f"got segment lengths {lengths.tolist()}; expected a list of numbers from 0 up")
    return lengths


def _expression(
    op: str, lhs: str, rhs: str, lhs_data: Tensor | None, rhs_data: Tensor | None, names: tuple[str, ...]
) -> tuple[Expr, tuple[Tensor, ...]]:
    if op in _COPIES:
        side, data = (lhs, lhs_data) if op == "copy_lhs" else (rhs, rhs_data)
        return message_expression(f"copy_{side}")[0], (tensor_operand(data),)
    if op not in names:
        raise DGLError(f"no operation {op!r}; expected one of {', '.join((*names, *_COPIES))}")
    return message_expression(f"{lhs}_{op}_{rhs}")[0], (tensor_operand(lhs_data), tensor_operand(rhs_data))


# -- over several relations -------------------------------------------------------------------------------------------
_UNION: CacheKey[Adjacency] = cache_key("union", "the edges of several relations as one, for a softmax across them")


def softmax_across(graph: Any, scores: Mapping[Any, Tensor], inward: bool) -> dict[Any, Tensor]:
    """Return weights by canonical edge type: those of all edges that enter (else: leave) a node sum to 1.

    Edge types without scores take no part. Raises ``DGLError`` where an edge type is named twice, or two that share a
    node type have scores of other shapes or dtypes.
    """
    end = 1 if inward else 0
    etype_of = {graph.etype_id(etype): etype for etype in scores}
    if len(etype_of) != len(scores):
        raise DGLError(f"edge types {list(scores)} name one more than once; give one tensor of scores for each")
    groups: dict[int, list[int]] = {}
    for index in sorted(etype_of):
        groups.setdefault(graph.type_graph.ends[index][end], []).append(index)
    weights: dict[int, Tensor] = {}
    for members in groups.values():
        relations = [graph.adjacencies[index] for index in members]
        relations = relations if inward else [relation.reverse() for relation in relations]
        logits = [admitted(scores[etype_of[index]], "the scores") for index in members]
        weights.update(zip(members, _of_group(relations, logits), strict=True))
    return {graph.type_graph.canonical_etypes[index]: weights[index] for index in sorted(etype_of)}


def _of_group(relations: Sequence[Adjacency], logits: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the weights of relations with the same destinations."""
    if len(relations) == 1:
        return [relation_softmax(relations[0], logits[0])]
    for relation, scores in zip(relations, logits, strict=True):
        check_tensor(scores, relation.num_edges, "edge")
    kinds = [(tuple(active.shape(scores)[1:]), active.dtype(scores)) for scores in logits]
    if kinds != kinds[:1] * len(kinds):  # in a program, sizes are symbols or tensors, and in no set
        raise DGLError(
            f"edge types that share a node type have scores of (row shape, dtype) {kinds}; expected the same for all"
        )
    weights = relation_softmax(_joined(relations), active.concat(list(logits)))
    return active.split(weights, [relation.num_edges for relation in relations])


def _joined(relations: Sequence[Adjacency]) -> Adjacency:
    """Return the edges of all relations as one, kept with the first. Sources do not matter: all are node 0."""
    key = variant(_UNION, *(relation.number for relation in relations))
    union = relations[0].cache.get(key)
    if union is None:
        dst = np.concatenate([relation.endpoints()[1] for relation in relations])
        union = Adjacency.from_coo(1, relations[0].num_dst, np.zeros_like(dst), dst, validate=False)
        relations[0].cache[key] = union
    return union


_BINARY = tuple(name for name in MESSAGES if name != "dot")
_COPIES = ("copy_lhs", "copy_rhs")
