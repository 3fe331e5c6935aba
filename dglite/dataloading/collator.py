"""Collate functions for torch's own loader, whose workers are processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, final

import numpy as np

from ..backend import active
from ..batch import batch
from ..graph import DGLGraph
from .base import BlockSampler, check_edges, check_nodes
from .edge_sampler import EdgePredictionSampler


class Collator(ABC):
    """A data set of ids, and the function that makes a batch of some of them."""

    @property
    @abstractmethod
    def dataset(self) -> Any:
        """The ids: a tensor, or a sequence of (type, id)."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Any:
        """Return the batch of some ids of :attr:`dataset`."""


@final
class TypedItems(Sequence[tuple[Any, Any]]):
    """A sequence of (type, item) for the items of each of a mapping's lists or tensors.

    Raises IndexError: there is no such item; negative numbers count none.
    """

    def __init__(self, groups: Mapping[Any, Any]) -> None:
        self._groups = groups
        self._ends = list(accumulate(len(items) for items in groups.values()))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, idx: Any) -> tuple[Any, Any]:
        if not 0 <= idx < len(self):
            raise IndexError(f"item {idx} of {len(self)}")
        group = bisect_right(self._ends, idx)
        key, items = list(self._groups.items())[group]
        return key, items[idx - self._ends[group] + len(items)]


def _dataset(ids: Any) -> Any:
    return TypedItems(ids) if isinstance(ids, Mapping) else ids


def _joined(items: Sequence[Any]) -> Any:
    """Return ids, or pairs of (type, id), as a tensor or a dictionary of tensors."""
    if items and isinstance(items[0], tuple):
        by_type: dict[Any, list[int]] = {}
        for key, item in items:
            by_type.setdefault(key, []).append(int(item))
        return {key: active.asarray(ids, "int64") for key, ids in by_type.items()}
    return active.asarray([int(item) for item in items], "int64")


@final
class NodeCollator(Collator):
    """Collates nodes to the blocks that they need; see :class:`Collator`.

    Raises DGLError: ``nids`` are not nodes of the graph.
    """

    def __init__(self, g: DGLGraph, nids: Any, graph_sampler: BlockSampler) -> None:
        check_nodes(g, nids)
        self.g, self.nids, self.graph_sampler = g, nids, graph_sampler
        self._dataset = _dataset(nids)

    @property
    def dataset(self) -> Any:
        """The nodes: a tensor, or a sequence of (type, id)."""
        return self._dataset

    def collate(self, items: Sequence[Any]) -> Any:
        """Return (input_nodes, output_nodes, blocks) of some nodes."""
        return self.graph_sampler.sample_blocks(self.g, _joined(items))


@final
class EdgeCollator(Collator):
    """Collates edges to their graph, that of negative pairs if any, and the blocks that their ends need.

    Arguments are those of :func:`as_edge_prediction_sampler`; the blocks are of ``g_sampling`` where it is given, from
    which no edges are then left out.

    Raises DGLError: ``eids`` are not edges of the graph.
    """

    def __init__(
        self,
        g: DGLGraph,
        eids: Any,
        graph_sampler: BlockSampler,
        g_sampling: DGLGraph | None = None,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
    ) -> None:
        check_edges(g, eids)
        self._sampler: EdgePredictionSampler[Any] = EdgePredictionSampler(
            graph_sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, g_sampling=g_sampling
        )
        self.g, self.eids, self.graph_sampler = g, eids, graph_sampler
        self.g_sampling = g if g_sampling is None else g_sampling
        self.exclude, self.negative_sampler = self._sampler.exclude, negative_sampler
        self._dataset = _dataset(eids)

    @property
    def dataset(self) -> Any:
        """The edges: a tensor, or a sequence of (type, id)."""
        return self._dataset

    def collate(self, items: Sequence[Any]) -> Any:
        """Return (input_nodes, pair_graph, blocks) of some edges, with negative_graph as the third of four if any."""
        return self._sampler.sample(self.g, _joined(items))


def _stacked(items: Sequence[Any], stack: Callable[[Sequence[Any], int], Any]) -> Any:
    try:
        return stack(list(items), 0)
    except (RuntimeError, ValueError, TypeError) as error:
        shapes = list(dict.fromkeys(tuple(getattr(item, "shape", ())) for item in items))
        if len(shapes) < 2:
            raise
        raise RuntimeError(
            f"the samples of a batch have tensors of shapes {shapes[0]} and {shapes[1]}, which do not stack; make them "
            "alike, or give a collate_fn"
        ) from error


@final
class GraphCollator:
    """Collates a list of samples: graphs to a batch, numbers, arrays and tensors to a tensor with a row for each.

    Samples may be tuples, lists, named tuples or dictionaries of these, which keep their form (tuples become lists);
    strings stay as they are.
    """

    def collate(self, items: Sequence[Any]) -> Any:
        """Return the samples as one.

        Raises TypeError: there is something else in a sample; RuntimeError: sequences differ in length.
        """
        first = items[0]
        if isinstance(first, DGLGraph):
            return batch(list(items))
        if active.is_tensor(first):
            return _stacked(items, active.stack)
        if isinstance(first, str | bytes):
            return items
        if isinstance(first, Mapping):
            return {key: self.collate([item[key] for item in items]) for key in first}
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*(self.collate(column) for column in zip(*items, strict=True)))
        if isinstance(first, Sequence):
            if any(len(item) != len(first) for item in items):
                raise RuntimeError("the samples of a batch are sequences of different lengths; give a collate_fn")
            return [self.collate(column) for column in zip(*items, strict=True)]
        return self._numbers(items)

    @staticmethod
    def _numbers(items: Sequence[Any]) -> Any:
        array = _stacked([np.asarray(item) for item in items], np.stack)
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"cannot collate {type(items[0]).__name__}: expected graphs, tensors, arrays, numbers, strings, and "
                "sequences or dictionaries of them; give a collate_fn"
            )
        return active.from_numpy(array)
