"""Features of a loader's batches that are fetched from all ranks, instead of by its sampler."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..backend import Tensor
from ..dataloading import EdgePredictionSampler
from ..dataloading.base import BlockSampler, names_by_type
from ..errors import DGLError
from ..frame import EID, NID
from .graph import DistGraph
from .scheduled import Source, tensor_of
from .tensor import DistTensor

Named = list[tuple[Any, str, Source]]
"""Features: the type of node or edge, the name, and the tensor."""


class BatchFeatures:
    """Features that a sampler was to gather from the graph, and that are fetched for its batches instead.

    Attributes
    ----------
    label
        their names, in words that are the same on all ranks.
    sources
        where they come from.
    """

    def __init__(self, g: DistGraph, sampler: BlockSampler, pair_labels: Any = None) -> None:
        self._src = _tensors(g, "node", sampler.prefetch_node_feats)
        self._dst = _tensors(g, "node", sampler.prefetch_labels)
        self._edges = _tensors(g, "edge", sampler.prefetch_edge_feats)
        self._pairs = _tensors(g, "edge", pair_labels)
        every = (*self._src, *self._dst, *self._edges, *self._pairs)
        self.sources = [source for _, _, source in every]
        self.label = "a batch with " + (", ".join(map(_label, self.sources)) or "no features")

    def columns_of(self, batch: Any) -> list[tuple[Any, str, Source, Tensor]]:
        """Return the columns to fill in of a batch, their names, sources and ids of rows."""
        columns: list[tuple[Any, str, Source, Tensor]] = []
        blocks = batch[-1]
        places: list[tuple[Any, Named, str]] = [(blocks[0].srcnodes, self._src, NID)] if self._src else []
        places += [(blocks[-1].dstnodes, self._dst, NID)] if self._dst else []
        places += [(block.edges, self._edges, EID) for block in blocks] if self._edges else []
        places += [(batch[1].edges, self._pairs, EID)] if self._pairs else []
        for view, named, ids in places:
            for type_, name, source in named:
                data = view[type_].data
                columns.append((data, name, source, data[ids]))
        return columns


def _tensors(g: DistGraph, kind: str, names: Any) -> Named:
    """Return the sources of names, or of a type's names, or sources by name."""
    book = g.get_partition_book()
    tensors: Named = []
    for type_, names_of_type in names_by_type(list(book.ranges_by_type(kind)), names, kind).items():
        full_type = book.type_of(kind, type_)
        for name in names_of_type:
            source = names_of_type[name] if isinstance(names_of_type, Mapping) else g.tensor(kind, full_type, name)
            tensor = tensor_of(source)
            if not isinstance(tensor, DistTensor):
                raise DGLError(f"feature {name!r} is to be read from a {type(tensor).__name__}; expected a DistTensor")
            if tensor is not source and tensor.shared is not None:
                raise DGLError(
                    f"{tensor.name} is read one-sidedly, without a cache; prefetch it without ScheduledFeatures, or "
                    "open the graph with reads='collective'"
                )
            tensors.append((full_type, name, source))
    return tensors


def _label(source: Source) -> str:
    tensor = tensor_of(source)
    return tensor.name if tensor is source else f"{tensor.name}, scheduled"


def without_features(g: DistGraph, sampler: Any) -> tuple[BatchFeatures, Any]:
    """Return what a sampler is to gather, and a copy of it that gathers nothing: batches are completed in order."""
    if isinstance(sampler, EdgePredictionSampler) and isinstance(sampler.sampler, BlockSampler):
        features = BatchFeatures(g, sampler.sampler, sampler.prefetch_labels)
        bare = copy.copy(sampler)
        bare.sampler, bare.prefetch_labels = _bare(sampler.sampler), []
        return features, bare
    if not isinstance(sampler, BlockSampler):
        raise TypeError(
            f"{type(sampler).__name__} does not make blocks; expected a sampler such as NeighborSampler, or for edges "
            "as_edge_prediction_sampler(NeighborSampler(...))"
        )
    return BatchFeatures(g, sampler), _bare(sampler)


def _bare(sampler: BlockSampler) -> BlockSampler:
    bare = copy.copy(sampler)
    bare.prefetch_node_feats, bare.prefetch_labels, bare.prefetch_edge_feats = [], [], []
    return bare
