"""``dgl.distributed``'s loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import torch

from ...convert import create_block, heterograph
from ...distributed import DistEdgeDataLoader as EdgeBatches
from ...distributed import DistNodeDataLoader as NodeBatches
from ...graph import DGLGraph


class CollatedBatches:
    """Iterates over ``collate_fn(ids)`` of batches of a data set, in the thread that trains.

    Parameters
    ----------
    dataset
        ids, a tensor or a sequence; pairs (type, id) for several types.
    batch_size, shuffle, drop_last
        items of a batch; whether to shuffle in each epoch; whether to leave out a smaller last batch.
    collate_fn
        called with a list of numbers, or of pairs.
    queue_size
        accepted: batches are not made ahead.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        shuffle: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        queue_size: int | None = None,
    ) -> None:
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn, self.queue_size = collate_fn, queue_size

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(len(self.dataset)) if self.shuffle else torch.arange(len(self.dataset))
        for batch in order.split(self.batch_size)[: len(self)]:
            items = self._items(batch)
            yield items if self.collate_fn is None else self.collate_fn(items)

    def _items(self, positions: torch.Tensor) -> list[Any]:
        if isinstance(self.dataset, torch.Tensor | np.ndarray):
            ids: list[Any] = torch.as_tensor(self.dataset)[positions].tolist()
            return ids
        items = [self.dataset[i] for i in positions.tolist()]
        return [(item[0], int(item[1])) if isinstance(item, tuple) else item for item in items]


def _remove_kwargs_dist(options: dict[str, Any]) -> dict[str, Any]:
    """Take out the options of torch's loaders that :class:`CollatedBatches` has not: batches are made in one thread."""
    for name in ("num_workers", "pin_memory"):
        options.pop(name, None)
    return options


def _with_workers(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the number of samplers that the launcher was given as that of workers."""
    return {"num_workers": int(os.environ.get("DGL_NUM_SAMPLER", "0")), **options}


class _Stepped:
    """What DGL's loaders have beside ``iter``: ``next``, and the number of batches by another name."""

    _epoch: Any = None

    def __iter__(self) -> Self:
        self._epoch = super().__iter__()  # type: ignore[misc]
        return self

    def __next__(self) -> Any:
        """Return the next batch of the epoch that the last ``iter`` began, or of the first one."""
        if self._epoch is None:
            iter(self)
        return next(self._epoch)

    @property
    def expected_idxs(self) -> int:
        """The number of batches of an epoch."""
        return len(self)  # type: ignore[arg-type]


class DistNodeDataLoader(_Stepped, NodeBatches):
    """Iterates over batches of nodes; the launcher's ``--num_samplers`` is the default of ``num_workers``.

    Blocks have the edge types of which edges were drawn, as DGL's: a layer gives no results for other nodes.
    ``collator.nids`` are the nodes, as they were given.
    """

    def __init__(self, g: Any, nids: Any, graph_sampler: Any, device: Any = None, **kwargs: Any) -> None:
        self.collator = SimpleNamespace(nids=nids)
        super().__init__(g, nids, graph_sampler, device, **_with_workers(kwargs))

    def _with_features(self, *sampled: Any) -> Any:
        return _with_drawn_types(super()._with_features(*sampled))


class DistEdgeDataLoader(_Stepped, EdgeBatches):
    """Iterates over batches of edges; the launcher's ``--num_samplers`` is the default of ``num_workers``.

    Where edges are given by type, graphs of pairs have the edge types of their batch only, as DGL's. ``collator.eids``
    are the edges, as they were given.
    """

    def __init__(self, g: Any, eids: Any, graph_sampler: Any, device: Any = None, **kwargs: Any) -> None:
        self._by_type, self.collator = isinstance(eids, Mapping), SimpleNamespace(eids=eids)
        super().__init__(g, eids, graph_sampler, device, **_with_workers(kwargs))

    def _with_features(self, *sampled: Any) -> Any:
        batch = _with_drawn_types(super()._with_features(*sampled))
        if not self._by_type:
            return batch
        nodes, *pairs, blocks = batch
        etypes = drawn_types(pairs[0])
        return (nodes, *(of_types(graph, etypes) for graph in pairs), blocks)


def _with_drawn_types(batch: Any) -> Any:
    """Return a batch whose blocks have the edge types of which edges were drawn; one of another form as it is."""
    if not isinstance(batch, tuple) or not isinstance(batch[-1], list):
        return batch
    return (*batch[:-1], [of_types(x, drawn_types(x)) if isinstance(x, DGLGraph) else x for x in batch[-1]])


def drawn_types(graph: DGLGraph) -> list[Any]:
    """Return the edge types that have edges; all where none has."""
    etypes = graph.canonical_etypes
    return [etype for etype in etypes if graph.num_edges(etype)] or etypes


def of_types(graph: DGLGraph, etypes: Sequence[Any]) -> DGLGraph:
    """Return the graph, or block, of all nodes and the edges of some types, with their features."""
    if len(etypes) == len(graph.canonical_etypes):
        return graph
    ends = {etype: graph.edges(etype=etype, order="eid") for etype in etypes}
    if graph.is_block:
        sources = {ntype: graph.num_src_nodes(ntype) for ntype in graph.srctypes}
        destinations = {ntype: graph.num_dst_nodes(ntype) for ntype in graph.dsttypes}
        result = create_block(ends, sources, destinations)
        views: list[Any] = [
            (graph.srcnodes, result.srcnodes, graph.srctypes),
            (graph.dstnodes, result.dstnodes, graph.dsttypes),
        ]
    else:
        result = heterograph(ends, {ntype: graph.num_nodes(ntype) for ntype in graph.ntypes})
        views = [(graph.nodes, result.nodes, graph.ntypes)]
    views.append((graph.edges, result.edges, etypes))
    for old, new, types in views:
        for type_ in types:
            new[type_].data.update(old[type_].data)
    return result
