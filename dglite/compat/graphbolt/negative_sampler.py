"""Stages that add drawn pairs to pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...dataloading.order import check_count
from .errors import InputError
from .minibatch import MiniBatch, are_pairs, with_labels
from .stages import MiniBatchTransformer, functional

__all__ = ["NegativeSampler", "UniformNegativeSampler"]


@functional("sample_negative")
class NegativeSampler(MiniBatchTransformer):
    """Base of stages that draw negative pairs: override :meth:`_sample_with_etype`.

    Sets ``seeds``, positive pairs and after them the drawn ones, ``labels``, float32 1 and 0, and ``indexes``, the row
    of the pair that each belongs to.

    Parameters
    ----------
    negative_ratio
        pairs drawn for each pair.
    """

    def __init__(self, datapipe: Any, negative_ratio: int) -> None:
        super().__init__(datapipe, self._sample)
        self.negative_ratio = check_count(negative_ratio, "negative_ratio", 0)

    def _sample(self, batch: MiniBatch) -> MiniBatch:
        seeds = batch.seeds
        if not are_pairs(seeds):
            kind = "none" if seeds is None else "nodes"
            raise InputError(
                f"stage {type(self).__name__} needs a MiniBatch whose seeds are pairs (num_pairs, 2); they are {kind}"
            )
        typed = isinstance(seeds, Mapping)
        batch.set_pairs({x: self._extended(seeds[x], x) for x in seeds} if typed else self._extended(seeds))
        return batch

    def _extended(self, pairs: torch.Tensor, *etype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return all pairs, labels and indexes, for the pairs of an edge type or of the only one."""
        all_pairs, count, ratio = self._sample_with_etype(pairs, *etype), len(pairs), self.negative_ratio
        if isinstance(all_pairs, tuple | list):
            all_pairs = torch.cat([pairs, torch.stack([x.reshape(-1).to(pairs) for x in all_pairs], 1)])
        if all_pairs.shape != (count * (ratio + 1), 2):
            raise InputError(
                f"stage {type(self).__name__} drew {tuple(all_pairs.shape)} for {count} pairs; _sample_with_etype must "
                f"return sources and destinations of {count * ratio} pairs, or all pairs, ({count * (ratio + 1)}, 2)"
            )
        return with_labels(all_pairs, count)

    def _sample_with_etype(self, seeds: torch.Tensor, etype: str | None = None) -> Any:
        """Return negative pairs for pairs (num_pairs, 2) of an edge type.

        Either sources and destinations, (num_pairs * negative_ratio,) each, pair after pair; or the pairs and after
        them these, (num_pairs * (1 + negative_ratio), 2).
        """
        raise NotImplementedError(f"{type(self).__name__} must define _sample_with_etype(seeds, etype=None)")


@functional("sample_uniform_negative")
class UniformNegativeSampler(NegativeSampler):
    """Draws ``negative_ratio`` destinations for each pair, uniformly from all nodes of the destination's type.

    Parameters
    ----------
    graph
        a :class:`FusedCSCSamplingGraph`.
    """

    def __init__(self, datapipe: Any, graph: Any, negative_ratio: int) -> None:
        super().__init__(datapipe, negative_ratio)
        self.graph = graph

    def _sample_with_etype(self, seeds: torch.Tensor, etype: str | None = None) -> Any:
        return self.graph.sample_negative_edges_uniform(etype, seeds, self.negative_ratio)
