"""Readout: from node or edge features to one row per graph of a batch, and back. All differentiable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arguments import explained
from .backend import Tensor, active
from .errors import DGLError, warn, warn_deprecated
from .frame import Frame
from .graph import DGLGraph
from .graph.base import sizes_in_program
from .graph.storage import require_graph
from .kernels import compiled
from .ops import core, segment_reduce, segment_softmax
from .structure.arrays import HOST, arrays_on
from .structure.distinct import distinct
from .structure.ids import count_of

__all__ = [
    "broadcast_edges",
    "broadcast_nodes",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "readout_edges",
    "readout_nodes",
    "softmax_edges",
    "softmax_nodes",
    "sum_edges",
    "sum_nodes",
    "topk_edges",
    "topk_nodes",
]

_OPERATIONS = ("sum", "mean", "max", "min")

_FEW = 16
"""Most rows of a segment that are inserted one by one; more are sorted."""


# -- one feature per graph -----------------------------------------------------------------------------------------
@explained
def readout_nodes(
    graph: DGLGraph, feat: str, weight: str | None = None, *, op: str = "sum", ntype: str | None = None
) -> Tensor:
    """Reduce a node feature over each graph of a batch: ``(batch_size, *feat)``, 0 for a graph without nodes.

    Raises DGLError: the operation is not supported; KeyError: there is no such feature.

    Parameters
    ----------
    feat
        name of the feature, (num_nodes, *feat), of a floating dtype.
    weight
        name of a feature that the first is multiplied by before: one number a row, (num_nodes,) or (num_nodes, 1), or a
        shape that broadcasts to the feature's.
    op
        ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``. A mean divides by the number of nodes, weighted or not.
    ntype
        the node type; not needed when there is one.

    Examples
    --------
    >>> import torch
    >>> from dglite.batch import batch
    >>> from dglite.convert import graph
    >>> g = batch([graph(([0], [1])), graph(([0, 1], [1, 2]))])
    >>> g.ndata["h"] = torch.tensor([1.0, 2.0, 1.0, 2.0, 3.0])
    >>> readout_nodes(g, "h").tolist()
    [3.0, 6.0]
    """
    return _readout(*_nodes(graph, ntype), feat, weight, op)


@explained
def readout_edges(
    graph: DGLGraph, feat: str, weight: str | None = None, *, op: str = "sum", etype: Any = None
) -> Tensor:
    """Reduce an edge feature over each graph of a batch. Everything else is as in :func:`readout_nodes`."""
    return _readout(*_edges(graph, etype), feat, weight, op)


@explained
def sum_nodes(graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: str | None = None) -> Tensor:
    """Return the sum of a node feature over each graph. See :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="sum", ntype=ntype)


@explained
def sum_edges(graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Return the sum of an edge feature over each graph, (batch_size, *feat); 0 for a graph without edges.

    Arguments and errors are those of :func:`readout_edges`.
    """
    return readout_edges(graph, feat, weight, op="sum", etype=etype)


@explained
def mean_nodes(graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: str | None = None) -> Tensor:
    """Return the mean of a node feature over each graph. See :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="mean", ntype=ntype)


@explained
def mean_edges(graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Return the mean of an edge feature over each graph. See :func:`readout_nodes`."""
    return readout_edges(graph, feat, weight, op="mean", etype=etype)


@explained
def max_nodes(graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: str | None = None) -> Tensor:
    """Return the maximum of a node feature over each graph. See :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="max", ntype=ntype)


@explained
def max_edges(graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Return the maximum of an edge feature over each graph. See :func:`readout_nodes`."""
    return readout_edges(graph, feat, weight, op="max", etype=etype)


# -- one feature per node or edge ------------------------------------------------------------------------------------
@explained
def softmax_nodes(graph: DGLGraph, feat: str, *, ntype: str | None = None) -> Tensor:
    """Normalise a node feature by a softmax over the nodes of each graph, every trailing element on its own."""
    frame, sizes = _nodes(graph, ntype)
    return segment_softmax(sizes, frame[feat])


@explained
def softmax_edges(graph: DGLGraph, feat: str, *, etype: Any = None) -> Tensor:
    """Normalise an edge feature by a softmax over the edges of each graph: (num_edges, *feat), as it was.

    Every trailing element is normalised on its own; a graph without edges has no rows. Raises ``KeyError`` for a
    missing feature and ``DGLError`` for integers.
    """
    frame, sizes = _edges(graph, etype)
    return segment_softmax(sizes, frame[feat])


@explained
def broadcast_nodes(graph: DGLGraph, graph_feat: Tensor, *, ntype: str | None = None) -> Tensor:
    """Give every node the feature of its graph: ``(batch_size, *feat)`` becomes ``(num_nodes, *feat)``.

    Raises DGLError: ``graph_feat`` does not have a row per graph.
    """
    return _broadcast(graph_feat, *_nodes(graph, ntype))


@explained
def broadcast_edges(graph: DGLGraph, graph_feat: Tensor, *, etype: Any = None) -> Tensor:
    """Give every edge the feature of its graph: ``(batch_size, *feat)`` becomes ``(num_edges, *feat)``.

    Raises DGLError: ``graph_feat`` does not have a row per graph.
    """
    return _broadcast(graph_feat, *_edges(graph, etype))


# -- the largest -----------------------------------------------------------------------------------------------------
@explained
def topk_nodes(
    graph: DGLGraph,
    feat: str,
    k: int,
    *,
    descending: bool = True,
    sortby: int | None = None,
    ntype: str | None = None,
    idx: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest values of a node feature in each graph.

    Raises DGLError: ``k`` is not positive, or ``sortby`` is not an element of the last axis.

    Parameters
    ----------
    feat
        name of the feature, (num_nodes, *feat).
    descending
        the largest first; else the smallest first.
    sortby
        the element of the last axis, of a feature (num_nodes, width), that whole rows are ranked by; with None every
        element is ranked on its own.
    idx
        classic name of ``sortby``.

    Returns
    -------
    (Tensor, Tensor)
        The values (batch_size, k, *feat), with gradient, and the number of each one's node in its graph: (batch_size,
        k, *feat), or (batch_size, k) with ``sortby``. Among equal values the lower number is first. A graph of n < k
        nodes is filled up with values 0 and numbers from n on.
    """
    return _topk(*_nodes(graph, ntype), feat, k, descending, _sortby(sortby, idx))


@explained
def topk_edges(
    graph: DGLGraph,
    feat: str,
    k: int,
    *,
    descending: bool = True,
    sortby: int | None = None,
    etype: Any = None,
    idx: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest values of an edge feature in each graph. Everything else is as in :func:`topk_nodes`."""
    return _topk(*_edges(graph, etype), feat, k, descending, _sortby(sortby, idx))


# -- parts -----------------------------------------------------------------------------------------------------------
def _nodes(graph: DGLGraph, ntype: str | None) -> tuple[Frame, Any]:
    """Return the features of a node type and its number of nodes in each graph."""
    require_graph(graph)
    node_set = graph.type_graph.node_set(ntype)
    return graph.node_frame_at(node_set), _sizes(graph.batch_node_counts, node_set, graph.node_counts[node_set])


def _edges(graph: DGLGraph, etype: Any) -> tuple[Frame, Any]:
    """Return the features of an edge type and its number of edges in each graph."""
    require_graph(graph)
    index = graph.etype_id(etype)
    return graph.edge_frame_at(index), _sizes(graph.batch_edge_counts, index, graph.adjacencies[index].num_edges)


def _sizes(of_batch: tuple[np.ndarray, ...] | None, index: int, count: int) -> Any:
    """Return the numbers of rows of each graph: an array, in a program a tensor."""
    if active.compiling():
        return sizes_in_program(of_batch, index, count)
    return np.array([count]) if of_batch is None else of_batch[index]


def _readout(frame: Frame, sizes: np.ndarray, feat: str, weight: str | None, op: str) -> Tensor:
    if op not in _OPERATIONS:
        raise DGLError(f"no readout {op!r}; expected one of {', '.join(_OPERATIONS)}")
    values = frame[feat]
    if weight is not None:
        values = values * _weights(frame[weight], weight, active.shape(values))
    return segment_reduce(sizes, values, op)


def _weights(weights: Tensor, name: str, shape: Sequence[int]) -> Tensor:
    """Return weights that broadcast to features of this shape; of one number a row, (rows,), each is of its row."""
    sizes = tuple(active.shape(weights))
    while len(sizes) > len(shape) and sizes[-1] == 1:
        sizes = sizes[:-1]
    aligned = (*sizes, *(1,) * (len(shape) - len(sizes)))
    if len(sizes) > len(shape) or any(1 not in (w, x) and w != x for w, x in zip(aligned[1:], shape[1:], strict=True)):
        raise DGLError(
            f"weight {name!r} has shape {sizes}, which does not fit the feature's {tuple(shape)}; give one number for "
            "each row, (rows,) or (rows, 1), or a shape that broadcasts to the feature's"
        )
    return active.reshape(weights, aligned)


def _broadcast(graph_feat: Tensor, frame: Frame, sizes: Any) -> Tensor:
    if not active.is_tensor(graph_feat):
        raise DGLError(f"the feature of graphs must be a tensor, (batch_size, *feat), got {type(graph_feat).__name__}")
    shape, batch_size = active.shape(graph_feat), sizes.shape[0]  # in a program any number: len() would make it one
    if not shape or shape[0] != batch_size:  # asked first: a program for any number of graphs is not asked about 1
        if batch_size != 1:
            raise DGLError(f"got a graph feature of shape {tuple(shape)}; expected {batch_size} rows, one per graph")
        warn(f"the feature of a single graph has shape {tuple(shape)}; give it as (1, *feat)")
        graph_feat = active.reshape(graph_feat, (1, *shape))
    if core.is_program_of(sizes):
        return core.TracedSegments(sizes, frame.num_rows).repeat(graph_feat)
    return active.take(graph_feat, np.repeat(np.arange(len(sizes)), sizes))


def _sortby(sortby: int | None, idx: int | None) -> int | None:
    if idx is None:
        return sortby
    warn_deprecated("topk(idx=)", "use sortby=")
    return idx


def _topk(
    frame: Frame, sizes: np.ndarray, feat: str, k: int, descending: bool, sortby: int | None
) -> tuple[Tensor, Tensor]:
    k = count_of(k, "top k: k", least=1, most=2**31 - 1)
    values = frame[feat]
    num_rows, *shape = active.shape(values)
    width = int(np.prod(shape, dtype=np.int64))
    device = active.device(values)
    arrays = arrays_on(device)
    numbers: Any
    if arrays is HOST:
        numbers, rows = _ranked(_keys(active.to_numpy(values), shape, sortby, descending), sizes, k)
    else:
        _require_element(shape, sortby)
        matrix = active.reshape(active.detach(values), (num_rows, width))
        column = matrix if sortby is None else matrix[:, sortby : sortby + 1 or None]
        numbers, rows = arrays.ranked(column, sizes, k, descending)
    numbers_shape = (len(sizes), k) if sortby is not None else (len(sizes), k, *shape)
    if sortby is None:
        cells = (rows * width + arrays.arange(width)).clip(max=num_rows * width)  # the zeros at the end
        flat = active.reshape(values, (num_rows * width,))
    else:
        cells, flat = rows, active.reshape(values, (num_rows, width))
    if arrays is not HOST or k > sizes.min(initial=k):  # some ranks are filled up
        zeros = active.full((1, *active.shape(flat)[1:]), 0, active.dtype(values), device)
        flat = active.concat([flat, zeros])
    best = active.take(flat, cells.reshape(-1))
    tensor: Tensor = active.from_numpy(numbers) if arrays is HOST else numbers
    return active.reshape(best, (len(sizes), k, *shape)), active.reshape(tensor, numbers_shape)


def _require_element(shape: Sequence[int], sortby: int | None) -> None:
    if sortby is not None and (len(shape) != 1 or not -shape[0] <= sortby < shape[0]):
        raise DGLError(
            f"top k: sortby={sortby} needs a feature (rows, width) with that element, whose rows here have shape "
            f"{tuple(shape)}; expected sortby from 0 to width - 1, or None"
        )


def _keys(values: np.ndarray, shape: list[int], sortby: int | None, descending: bool) -> np.ndarray:
    """Return what ascends in the order asked for: (num_rows, width), or (num_rows, 1) with ``sortby``."""
    _require_element(shape, sortby)
    if sortby is None:
        keys = values.reshape(len(values), -1) if values.size else np.zeros((len(values), int(np.prod(shape))))
    else:
        keys = values[:, [int(sortby)]]
    if keys.dtype.kind in "bu":
        keys = keys.astype(np.int64)
    return -keys if descending else keys


def _ranked(keys: np.ndarray, sizes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers inside the segment and rows, both (num_segments, k, width), of the k first in each segment.

    A rank that a segment does not reach has itself as number, and the number of all rows as row.
    """
    num_rows, width = keys.shape
    numbers = np.repeat(np.tile(np.arange(k), (len(sizes), 1))[..., None], width, axis=2)
    starts = np.cumsum(sizes) - sizes
    if k <= _FEW and keys.dtype.itemsize >= 4:
        offsets, work = np.append(starts, num_rows), num_rows * width
        run, kernel = compiled("run.rows").run_rows, compiled("rows.topk").first_rows
        flat = np.ascontiguousarray(keys).reshape(-1), numbers.reshape(-1)
        run(kernel, len(sizes), work, active.num_threads(), flat[0], offsets, k, width, flat[1])
    else:
        _sort_segments(keys, sizes, starts, k, numbers)
    rows = np.where(numbers < sizes[:, None, None], starts[:, None, None] + numbers, num_rows)
    return numbers, rows


def _sort_segments(keys: np.ndarray, sizes: np.ndarray, starts: np.ndarray, k: int, numbers: np.ndarray) -> None:
    """Write the numbers of the k first of each segment."""
    # Segments from one power of two up to the next are sorted together, filled up to the longest of them.
    classes = np.frexp(sizes)[1]
    last = np.nan if keys.dtype.kind == "f" else np.iinfo(keys.dtype).max  # among equals, what fills up comes last
    for number in distinct(classes[sizes > 0]):
        segments = (classes == number).nonzero()[0]
        places = np.arange(sizes[segments].max())
        absent = places >= sizes[segments, None]
        values = keys[np.where(absent, 0, starts[segments, None] + places)]
        values[absent] = last
        order = np.argsort(np.ascontiguousarray(values.transpose(0, 2, 1)), axis=2, kind="stable")[..., :k]
        numbers[segments, : order.shape[2]] = order.transpose(0, 2, 1)
