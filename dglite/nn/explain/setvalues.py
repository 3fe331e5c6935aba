"""A model's prediction if only some nodes keep their features, for many sets of nodes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend import Tensor, active, framework
from ...batch import batch
from ...graph import DGLGraph
from ..base import nn

_ROWS = 1 << 16
"""Nodes and edges in one run of the model, about: what is computed from them should stay in the cache."""


class SetValues:
    """The probability of a class, as a function of the set of nodes that keep their features; others have zeros.

    Sets are boolean rows over all nodes, type after type. The model runs on a batch of copies of the graph, one per
    set; a model that gives other values on such a batch than on each copy runs on one after the other.
    """

    def __init__(
        self,
        model: nn.Module,
        graph: DGLGraph,
        features: dict[str, Tensor],
        as_argument: Callable[[dict[str, Tensor]], Any],
        target_class: int,
        kwargs: dict[str, Any],
    ) -> None:
        self._model, self._graph, self._features, self._as_argument = model, graph, features, as_argument
        self._target_class = target_class
        counts = [graph.num_nodes(ntype) for ntype in graph.ntypes]
        ends = np.cumsum(counts).tolist()
        self._ranges = {
            name: slice(end - count, end) for name, count, end in zip(graph.ntypes, counts, ends, strict=True)
        }
        self._batches: dict[int, tuple[DGLGraph, dict[str, Any]]] = {1: (graph, kwargs)}
        num_edges = sum(graph.num_edges(etype) for etype in graph.canonical_etypes)
        self.copies = 1 << max(_ROWS // max(sum(counts) + num_edges, 1), 1).bit_length() - 1
        if self.copies > 1 and not self._takes_batches():
            self.copies = 1

    def __call__(self, sets: np.ndarray) -> np.ndarray:
        """Return the values of ``sets`` (num_sets, num_nodes); equal sets are computed once."""
        packed = np.packbits(sets, axis=1)
        _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        distinct = sets[first]
        values = [self._run(distinct[start : start + self.copies]) for start in range(0, len(distinct), self.copies)]
        return np.concatenate(values)[inverse.reshape(-1)]

    def _run(self, sets: np.ndarray) -> np.ndarray:
        """Return the values of at most ``copies`` sets.

        Numbers of copies are powers of two, so that few batches are made; spare copies repeat the last set.
        """
        size = 1 << (len(sets) - 1).bit_length()
        padded = np.concatenate([sets, sets[-1:].repeat(size - len(sets), axis=0)])
        return self._probabilities(padded).reshape(size, -1).mean(1)[: len(sets)]

    def _probabilities(self, sets: np.ndarray) -> np.ndarray:
        """Return the probability of the class in each row of the model's output, graph after graph."""
        graph, kwargs = self._batch(len(sets))
        features = {}
        for ntype, x in self._features.items():
            mask = framework.from_numpy(sets[:, self._ranges[ntype]]).to(x.device)
            mask = mask.reshape(*mask.shape, *[1] * (x.ndim - 1))
            features[ntype] = (x * mask).reshape(-1, *x.shape[1:])
        with framework.no_grad():
            output = self._model(graph, self._as_argument(features), **kwargs)
            return output.softmax(-1)[:, self._target_class].double().cpu().numpy()

    def _batch(self, size: int) -> tuple[DGLGraph, dict[str, Any]]:
        """Return the graph ``size`` times, and the model's further arguments for it."""
        if size not in self._batches:
            graph, kwargs = self._batches[1]
            rows = {graph.num_nodes(), graph.num_edges()}
            repeated = {
                name: x.repeat(size, *[1] * (x.ndim - 1)) if active.is_tensor(x) and x.ndim and len(x) in rows else x
                for name, x in kwargs.items()
            }
            self._batches[size] = batch([graph] * size), repeated
        return self._batches[size]

    def _takes_batches(self) -> bool:
        """Tell whether the model gives for a batch what it gives for each of its graphs."""
        num_nodes = max(part.stop for part in self._ranges.values())
        sets = np.stack([np.ones(num_nodes, bool), np.zeros(num_nodes, bool), np.arange(num_nodes) % 2 == 0])
        sets = np.concatenate([sets, ~sets[2:]])
        alone = np.concatenate([self._probabilities(row[None]) for row in sets])
        try:
            together = self._probabilities(sets)
        except Exception:  # it ran on the graph alone, so the batch is at fault
            return False
        return alone.shape == together.shape and np.allclose(alone, together, rtol=1e-4, atol=1e-6, equal_nan=True)
