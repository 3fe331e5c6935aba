"""The exclusion of a batch's own edges from its sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .base import by_type
from .errors import InputError
from .minibatch import MiniBatch, are_pairs
from .stages import MiniBatchTransformer, functional

__all__ = ["SeedEdgesExcluder", "add_reverse_edges", "exclude_seed_edges"]


def add_reverse_edges(edges: Any, reverse_etypes_mapping: Mapping[str, str] | None = None) -> Any:
    """Return pairs (num_pairs, 2) and, after them, the pairs in the other direction; by edge type for several types.

    Parameters
    ----------
    edges
        pairs, or a dictionary of them by edge type.
    reverse_etypes_mapping
        the type of the reverse edges by edge type, both as strings; types that it lacks have none.
    """
    if not isinstance(edges, Mapping):
        return torch.cat([edges, edges.flip(1)])
    both = dict(edges)
    for etype, reverse in (reverse_etypes_mapping or {}).items():
        if etype in edges:
            parts = [both[reverse]] if reverse in both else []
            both[reverse] = torch.cat([*parts, edges[etype].flip(1)])
    return both


def exclude_seed_edges(
    minibatch: MiniBatch,
    include_reverse_edges: bool = False,
    reverse_etypes_mapping: Mapping[str, str] | None = None,
    async_op: bool = False,
) -> MiniBatch:
    """Take the edges between positive pairs out of a batch's sample; a stage for ``transform``.

    Raises DGLError: seeds are no pairs, or nothing was sampled before.

    Parameters
    ----------
    include_reverse_edges
        take out edges in the other direction, too.
    reverse_etypes_mapping
        the type of the reverse edges by edge type, both as strings; types that it lacks have none.
    async_op
        accepted.
    """
    if minibatch.num_layers() == 0:
        raise InputError("exclude_seed_edges: nothing was sampled before this stage")
    if not are_pairs(minibatch.seeds):
        raise InputError("exclude_seed_edges: the batch's seeds are no pairs")
    edges = by_type(lambda ends: torch.stack(ends, 1), minibatch.node_pairs)
    if include_reverse_edges:
        edges = add_reverse_edges(edges, reverse_etypes_mapping)
    minibatch.exclude_edges(edges)
    return minibatch


@functional("exclude_seed_edges")
class SeedEdgesExcluder(MiniBatchTransformer):
    """The stage that applies :func:`exclude_seed_edges`, whose arguments it takes."""

    def __init__(
        self,
        datapipe: Any,
        include_reverse_edges: bool = False,
        reverse_etypes_mapping: Mapping[str, str] | None = None,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(datapipe, self._exclude)
        self._arguments = include_reverse_edges, reverse_etypes_mapping

    def _exclude(self, batch: MiniBatch) -> MiniBatch:
        return exclude_seed_edges(batch, *self._arguments)
