"""``node_split`` and ``edge_split``: which nodes or edges each rank trains on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..structure.distinct import distinct
from ..structure.ids import count_of, integer_array
from .book import PartitionBook, Ranges
from .graph import DistGraph
from .tensor import DistTensor


def node_split(
    nodes: Any,
    partition_book: PartitionBook | DistGraph | None = None,
    ntype: Any = None,
    rank: int | None = None,
    force_even: bool = True,
    node_trainer_ids: Any = None,
) -> Tensor:
    """Return the nodes that this rank trains on, ascending.

    Raises DGLError: there is no such type, or ids are no integers or do not exist.

    Parameters
    ----------
    nodes
        a :class:`DistTensor` of booleans such as ``g.ndata["train_mask"]``, in which case this is a collective unless
        reads are one-sided; or, alike on all ranks, a boolean for each node, or ids.
    partition_book
        ``g.get_partition_book()``, or ``g``; not needed for a :class:`DistTensor`.
    ntype
        type of the nodes, where there are several.
    rank
        whose nodes; this process's by default.
    force_even
        all ranks get as many nodes, give or take one: those between others are handed on to the next rank, so that most
        are the rank's own. Otherwise a rank gets its own, however many these are.
    node_trainer_ids
        accepted for DGL's sake: there is a part for each process, which owns its nodes.
    """
    return _split(nodes, partition_book, "node", ntype, force_even, rank)


def edge_split(
    edges: Any,
    partition_book: PartitionBook | DistGraph | None = None,
    etype: Any = None,
    rank: int | None = None,
    force_even: bool = True,
    edge_trainer_ids: Any = None,
) -> Tensor:
    """Return the edges that this rank trains on, as :func:`node_split` does."""
    return _split(edges, partition_book, "edge", etype, force_even, rank)


def _split(
    items: Any, book: PartitionBook | DistGraph | None, kind: str, type_: Any, force_even: bool, rank: int | None
) -> Tensor:
    if book is None and isinstance(items, DistTensor):
        book = items.part_policy.partition_book
    if isinstance(book, DistGraph):
        book = book.get_partition_book()
    if book is None:
        raise DGLError(f"{kind}s that are no DistTensor are split by a partition book; give g.get_partition_book()")
    ranges = book.ranges_of(kind, type_)
    ids = _all_of(items) if isinstance(items, DistTensor) else _selected(items, ranges)
    parts = book.num_partitions()
    even = [len(ids) * part // parts for part in range(parts + 1)]
    bounds = even if force_even else ranges.cuts(ids).tolist()
    part = book.partid if rank is None else count_of(rank, "rank")
    if part >= parts:
        raise DGLError(f"rank={rank}, but there are {parts} parts, one for each rank")
    return active.from_numpy(ids[bounds[part] : bounds[part + 1]].copy())


def _selected(items: Any, ranges: Ranges) -> np.ndarray:
    array = integer_array(items, f"{ranges.label}s to split")
    if array.dtype.kind == "b" and array.shape != (ranges.count,):
        raise DGLError(f"a mask of {ranges.label}s has shape {array.shape}; expected ({ranges.count},)")
    return distinct(ranges.checked(items))


def _all_of(mask: DistTensor) -> np.ndarray:
    """Return the ids that the masks of all ranks select."""

    def selected(rows: Tensor) -> np.ndarray:
        array = integer_array(rows, mask.name)
        if array.dtype.kind != "b" and not ((array == 0) | (array == 1)).all():
            raise DGLError(f"{mask.name} is no mask; expected booleans, or 0 and 1")
        return np.flatnonzero(array)

    if mask.shared is not None:
        return selected(mask[:])
    first, _ = mask.ranges.range_of(mask.exchange.rank)
    ids = mask.exchange.together(f"splitting by {mask.name}", lambda: selected(mask.local) + first)
    return np.concatenate(mask.exchange.gather_objects(f"splitting by {mask.name}", ids))
