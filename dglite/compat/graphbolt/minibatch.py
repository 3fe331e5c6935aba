"""A batch on its way through a pipe, and the exclusion of its own edges."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Self

import torch

from ...dataloading.transfer import moved
from ...frame import NID
from ...graph import DGLGraph
from ...transforms import remove_edges
from .etypes import by_type, etype_tuple_to_str

__all__ = ["MiniBatch", "are_pairs", "exclude_seed_edges"]


class MiniBatch:
    """What is known of a batch: attributes that stages of a pipe set, None before.

    Values are dictionaries by type where the graph has several. The names of DGL 2.1, ``seed_nodes``, ``node_pairs``,
    ``negative_dsts``, are of ``seeds``.

    Attributes
    ----------
    seeds
        nodes (num_nodes,), or pairs (num_pairs, 2), of which drawn ones, the negative, follow the positive.
    labels
        of the seeds, as the items have them; of pairs with drawn ones, float32 1 for the positive and 0 for the drawn.
    indexes
        for each pair the row of the pair that it was drawn for; a positive one's own.
    compacted_seeds
        the pairs as places among the last block's destination nodes.
    input_nodes, blocks
        source nodes of the first block, and DGL blocks, first layer first.
    node_features, edge_features
        features of the input nodes by name, or by (type, name); the same for the edges of each block, a list.
    """

    seeds = labels = indexes = compacted_seeds = input_nodes = blocks = node_features = edge_features = None  # type: Any

    def __init__(self, seed_nodes: Any = None, node_pairs: Any = None, negative_dsts: Any = None, **more: Any) -> None:
        self.__dict__.update(more)
        if seed_nodes is not None:
            self.seeds = seed_nodes
        if node_pairs is not None:
            self.seeds = by_type(lambda x: torch.stack(x, 1) if isinstance(x, tuple) else x, node_pairs)
        if negative_dsts is not None:
            self.add_negatives(negative_dsts)

    def __repr__(self) -> str:
        return f"MiniBatch({', '.join(f'{name}={x!r}' for name, x in vars(self).items() if x is not None)})"

    def add_negatives(self, dsts: Any) -> None:
        """Append pairs of each pair's source with other destinations (num_pairs, negative_ratio).

        Sets ``seeds``, ``labels`` and ``indexes``.
        """
        made = by_type(with_negatives, self.seeds, dsts)
        self.seeds, self.labels, self.indexes = (by_type(itemgetter(i), made) for i in range(3))

    @property
    def seed_nodes(self) -> Any:
        """``seeds``, in scripts whose seeds are nodes."""
        return self.seeds

    @property
    def node_pairs(self) -> Any:
        """Sources and destinations of the positive pairs, each (num_pairs,); None where seeds are nodes."""
        return self._ends(self.seeds)

    @property
    def negative_dsts(self) -> Any:
        """Destinations drawn for each pair, (num_pairs, negative_ratio); None where none were drawn."""
        return by_type(_second, self._ends(self.seeds, True))

    @property
    def compacted_node_pairs(self) -> Any:
        """:attr:`node_pairs` as places among the last block's destination nodes."""
        return self._ends(self.compacted_seeds)

    positive_node_pairs = compacted_node_pairs

    @property
    def compacted_negative_dsts(self) -> Any:
        """:attr:`negative_dsts` as places among the last block's destination nodes."""
        return by_type(_second, self.negative_node_pairs)

    @property
    def negative_node_pairs(self) -> Any:
        """Places of the drawn pairs' sources and destinations, each (num_pairs, negative_ratio)."""
        return self._ends(self.compacted_seeds, True)

    @property
    def node_pairs_with_labels(self) -> Any:
        """Places of all pairs, positive ones first, and their labels, 1 or 0 for drawn ones; None without labels."""
        pairs, labels = self.compacted_seeds, self.labels
        return None if pairs is None or labels is None else (by_type(lambda x: x.unbind(1), pairs), labels)

    def _ends(self, seeds: Any, negative: bool = False) -> Any:
        if not are_pairs(seeds) or (negative and self.indexes is None):
            return None
        return by_type(partial(_ends_of, negative), seeds, self.indexes)

    def to(self, device: Any) -> Self:
        """Move graphs and tensors to a device; return the batch."""
        self.__dict__.update({name: moved(value, device) for name, value in vars(self).items()})
        return self


def are_pairs(seeds: Any) -> bool:
    """Whether seeds are pairs of nodes, of some type at least."""
    return any(x is not None and x.ndim == 2 for x in (seeds.values() if isinstance(seeds, Mapping) else [seeds]))


def with_negatives(pairs: torch.Tensor, dst: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return pairs (num_pairs, 2) and, after them, their sources with ``dst`` (num_pairs, negative_ratio).

    Also returns labels, 1 and 0 in float32, and for each pair the row of the pair that it belongs to.
    """
    rows = torch.arange(len(pairs), device=pairs.device)
    drawn = rows.repeat_interleave(dst.shape[1])
    negative = torch.stack([pairs[drawn, 0], dst.reshape(-1).to(pairs)], 1)
    labels = torch.cat([torch.ones(len(rows)), torch.zeros(len(drawn))]).to(pairs.device)
    return torch.cat([pairs, negative]), labels, torch.cat([rows, drawn])


def _ends_of(negative: bool, pairs: torch.Tensor, indexes: Any) -> Any:
    """Return sources and destinations of the positive pairs, or of those drawn for each; None where none were drawn."""
    count = len(pairs) if indexes is None else int(indexes[-1]) + 1
    if not negative:
        return pairs[:count].unbind(1)
    ratio = len(pairs) // max(count, 1) - 1
    return None if indexes is None else pairs[count:].reshape(count, ratio, 2).unbind(2)


def _second(ends: Any) -> Any:
    return None if ends is None else ends[1]


def exclude_seed_edges(
    minibatch: MiniBatch, include_reverse_edges: bool = False, reverse_etypes_mapping: Mapping[str, str] | None = None
) -> MiniBatch:
    """Take the edges between positive pairs out of a batch's blocks; a stage for :meth:`ItemSampler.transform`.

    Parameters
    ----------
    include_reverse_edges
        take out edges in the other direction, too.
    reverse_etypes_mapping
        the type of the reverse edges by edge type, both as strings; types that it lacks have none.
    """
    pairs, reverse = minibatch.node_pairs, dict[Any, str](reverse_etypes_mapping or {})
    hidden: list[tuple[Any, Any]] = list(pairs.items()) if isinstance(pairs, Mapping) else [(None, pairs)]
    if include_reverse_edges:
        hidden += [(reverse.get(x), ends[::-1]) for x, ends in hidden if x is None or x in reverse]
    minibatch.blocks = [_without(block, hidden) for block in minibatch.blocks]
    return minibatch


def _without(block: DGLGraph, hidden: list[tuple[Any, Any]]) -> DGLGraph:
    """Return a block without edges between some nodes of the graph: by edge type, None for all."""
    for etype in block.canonical_etypes:
        ends = [torch.stack(pair) for kind, pair in hidden if kind in (None, etype_tuple_to_str(etype))]
        u, v = block.edges(etype=etype)
        if not ends or not len(u):
            continue
        # Pairs become numbers, too large for int32.
        a, b = torch.cat(ends, 1).long()
        src, dst = block.srcnodes[etype[0]].data[NID][u].long(), block.dstnodes[etype[2]].data[NID][v].long()
        width = int(torch.cat([dst, b]).max()) + 1
        found = torch.isin(src * width + dst, a * width + b)
        block = remove_edges(block, found.nonzero().flatten(), etype)
    return block
