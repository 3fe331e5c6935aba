"""New numbers for the nodes of a sample, from 0 on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...structure.distinct import renumbered
from .base import CSCFormatBase, by_type, etype_str_to_tuple, expand_indptr
from .errors import InputError

__all__ = [
    "compact_csc_format",
    "compact_temporal_nodes",
    "unique_and_compact",
    "unique_and_compact_csc_formats",
]


def unique_and_compact(nodes: Any) -> tuple[Any, Any]:
    """Return the distinct nodes, in the order in which they come up, and the tensors with nodes' places among them.

    Parameters
    ----------
    nodes
        a list of id tensors, or a dictionary of lists by type; those of a type are numbered together.
    """
    if not isinstance(nodes, Mapping):
        return _distinct(nodes)
    numbered = {ntype: _distinct(tensors) for ntype, tensors in nodes.items()}
    return {ntype: x[0] for ntype, x in numbered.items()}, {ntype: x[1] for ntype, x in numbered.items()}


def _distinct(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    if not len(tensors):
        return torch.empty(0, dtype=torch.int64), []
    device = tensors[0].device
    ids = torch.cat([x.reshape(-1) for x in tensors]).cpu().contiguous().numpy()
    if len(ids) and ids.min() < 0:
        raise InputError(f"node ids must be >= 0, got {ids.min()}")
    distinct, places = renumbered(ids, int(ids.max(initial=-1)) + 1)
    parts = torch.from_numpy(np.ascontiguousarray(places)).to(device).split([x.numel() for x in tensors])
    shaped = [part.reshape(x.shape) for part, x in zip(parts, tensors, strict=True)]
    return torch.from_numpy(distinct).to(device), shaped


def unique_and_compact_csc_formats(
    csc_formats: CSCFormatBase | Mapping[str, CSCFormatBase], unique_dst_nodes: Any, async_op: bool = False
) -> Any:
    """Return the distinct nodes, first the destinations and then the sources as they come up, and renumbered edges.

    Raises DGLError: a destination node is repeated, or there are not as many as columns.

    Parameters
    ----------
    csc_formats
        edges with ids of their source nodes; a dictionary by edge type where there are several.
    unique_dst_nodes
        the destination nodes, (num_destinations,), each once; a dictionary by node type where there are several.
    async_op
        return an object whose ``wait()`` returns the result, which is there already.
    """
    tensors: dict[Any, list[torch.Tensor]] = {}
    typed = isinstance(csc_formats, Mapping)
    formats: Mapping[Any, CSCFormatBase] = csc_formats if isinstance(csc_formats, Mapping) else {None: csc_formats}
    destinations: Mapping[Any, torch.Tensor] = unique_dst_nodes if typed else {None: unique_dst_nodes}
    for ntype, ids in destinations.items():
        tensors[ntype] = [ids]
    for etype, csc in formats.items():
        source, destination = _ends(etype)
        _check_columns(csc, destinations.get(destination), etype)
        tensors.setdefault(source, [csc.indices[:0]]).append(csc.indices)
    dtype = {ntype: parts[-1].dtype for ntype, parts in tensors.items()}
    unique, places = unique_and_compact({t: [x.to(dtype[t]) for x in parts] for t, parts in tensors.items()})
    for ntype, (first, *_) in places.items():
        if len(first) and int(first[-1]) != len(first) - 1:
            raise InputError(f"destination nodes{f' of type {ntype!r}' if typed else ''} must be distinct")
    sources = {ntype: iter(parts[1:]) for ntype, parts in places.items()}
    compacted = {etype: CSCFormatBase(csc.indptr, next(sources[_ends(etype)[0]])) for etype, csc in formats.items()}
    result = (unique, compacted) if typed else (unique[None], compacted[None])
    return Ready(result) if async_op else result


class Ready:
    """A result that was to be waited for."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self) -> Any:
        """Return the result."""
        return self._result


def _ends(etype: str | None) -> tuple[Any, Any]:
    return (None, None) if etype is None else etype_str_to_tuple(etype)[::2]


def _check_columns(csc: CSCFormatBase, destinations: torch.Tensor | None, etype: str | None) -> None:
    count = 0 if destinations is None else len(destinations)
    if len(csc.indptr) != count + 1:
        suffix = "" if etype is None else f" of type {etype!r}"
        raise InputError(f"edges{suffix} have {len(csc.indptr) - 1} columns, but there are {count} destination nodes")


def compact_temporal_nodes(nodes: Any, nodes_timestamp: Any) -> tuple[Any, Any, Any]:
    """Return nodes and timestamps one after the other, and the tensors with nodes' places; nothing is made distinct.

    Parameters
    ----------
    nodes, nodes_timestamp
        lists of tensors, or dictionaries of lists by node type.
    """
    places = by_type(_places, nodes)
    return by_type(_joined, nodes), by_type(_joined, nodes_timestamp), places


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([x.reshape(-1) for x in tensors])


def _places(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    count = sum(x.numel() for x in tensors)
    parts = torch.arange(count, dtype=tensors[0].dtype, device=tensors[0].device).split([x.numel() for x in tensors])
    return [part.reshape(x.shape) for part, x in zip(parts, tensors, strict=True)]


def compact_csc_format(csc_formats: Any, dst_nodes: Any, dst_timestamps: Any = None) -> tuple[Any, ...]:
    """Return the nodes, destinations first and then a node for each edge, and edges numbered so.

    With ``dst_timestamps`` also the nodes' timestamps: those of their edge's destination. Arguments are those of
    :func:`unique_and_compact_csc_formats`, but that destinations may be repeated.
    """
    typed = isinstance(csc_formats, Mapping)
    formats: Mapping[Any, CSCFormatBase] = csc_formats if typed else {None: csc_formats}
    rows: dict[Any, list[torch.Tensor]] = {t: [x] for t, x in (dst_nodes if typed else {None: dst_nodes}).items()}
    compacted = {}
    for etype, csc in formats.items():
        source, destination = _ends(etype)
        _check_columns(csc, rows[destination][0] if destination in rows else None, etype)
        parts = rows.setdefault(source, [])
        first, count = sum(len(x) for x in parts), len(csc.indices)
        ids = torch.arange(first, first + count, dtype=csc.indices.dtype, device=csc.indices.device)
        compacted[etype] = CSCFormatBase(csc.indptr, ids)
        parts.append(csc.indices)
    nodes = {t: torch.cat(parts) for t, parts in rows.items()}
    results = (nodes, compacted) if typed else (nodes[None], compacted[None])
    return results if dst_timestamps is None else (*results, of_sources(csc_formats, dst_timestamps))


def of_sources(csc_formats: Any, values: Any) -> Any:
    """Return values of destinations, and then for each edge that of its destination; by node type where they are."""
    if not isinstance(csc_formats, Mapping):
        return torch.cat([values, expand_indptr(csc_formats.indptr, node_ids=values)])
    parts = {ntype: [x] for ntype, x in values.items()}
    for etype, csc in csc_formats.items():
        source, destination = _ends(etype)
        if destination in values:
            parts.setdefault(source, []).append(expand_indptr(csc.indptr, node_ids=values[destination]))
    return {ntype: torch.cat(x) for ntype, x in parts.items()}
