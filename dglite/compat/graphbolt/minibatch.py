"""The batch that the stages of a pipe fill."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import torch

from ...frame import EID
from .base import Movable, by_type, etype_tuple_to_str, shown
from .errors import InputError
from .subgraph import block_of, block_without, subgraph_of

__all__ = ["MiniBatch"]

_SHOWN = (
    "seeds",
    "sampled_subgraphs",
    "node_features",
    "labels",
    "input_nodes",
    "indexes",
    "edge_features",
    "compacted_seeds",
    "blocks",
)


class MiniBatch(Movable):
    """A batch: attributes that the stages of a pipe set, None before.

    Values are dictionaries by type where the graph has several. The names of DGL 2.1, ``seed_nodes``, ``node_pairs``,
    ``negative_dsts``, are of ``seeds``.

    Attributes
    ----------
    seeds
        nodes (num_nodes,), or pairs (num_pairs, 2) or larger sets of nodes; drawn pairs, the negative, follow the
        positive.
    labels
        of the seeds, as the items have them; of pairs with drawn ones, float32 1 for the positive and 0 for the drawn.
    indexes
        for each pair the row of the pair that it was drawn for; a positive one's own.
    compacted_seeds
        the pairs as places among the last block's destination nodes.
    input_nodes, blocks, sampled_subgraphs
        source nodes of the first block; DGL blocks, first layer first, and the same as compressed columns. Each of the
        two forms is made of the other when it is first read.
    node_features, edge_features
        features of the input nodes by name, or by (type, name); the same for the edges of each block, a list.
    """

    labels: Any = None
    seeds: Any = None
    indexes: Any = None
    input_nodes: Any = None
    node_features: Any = None
    edge_features: Any = None
    compacted_seeds: Any = None
    _sampled_subgraphs: Any = None
    _blocks: Any = None
    _to_subgraph: Any = None

    def __init__(
        self,
        labels: Any = None,
        seeds: Any = None,
        indexes: Any = None,
        sampled_subgraphs: Any = None,
        input_nodes: Any = None,
        node_features: Any = None,
        edge_features: Any = None,
        compacted_seeds: Any = None,
        blocks: Any = None,
        seed_nodes: Any = None,
        node_pairs: Any = None,
        negative_dsts: Any = None,
        **more: Any,
    ) -> None:
        fields = (labels, seeds, indexes, input_nodes, node_features, edge_features, compacted_seeds)
        names = ("labels", "seeds", "indexes", "input_nodes", "node_features", "edge_features", "compacted_seeds")
        self.__dict__.update({name: x for name, x in zip(names, fields, strict=True) if x is not None}, **more)
        self._sampled_subgraphs, self._blocks = sampled_subgraphs, blocks
        if seed_nodes is not None:
            self.seeds = seed_nodes
        if node_pairs is not None:
            self.seeds = by_type(lambda x: torch.stack(x, 1) if isinstance(x, tuple) else x, node_pairs)
        if negative_dsts is not None:
            self.add_negatives(negative_dsts)

    def __repr__(self) -> str:
        more = [name for name in vars(self) if not name.startswith("_") and name not in _SHOWN]
        return shown(type(self).__name__, {name: getattr(self, name) for name in (*_SHOWN, *more)})

    # -- samples ---------------------------------------------------------------------------------------------------
    @property
    def sampled_subgraphs(self) -> Any:
        """The sampled subgraphs, first layer first, or None. The list may be changed, as long as no block was read."""
        if self._sampled_subgraphs is None and self._blocks is not None:
            convert = self._to_subgraph or partial(subgraph_of, typed=isinstance(self.input_nodes, Mapping))
            self._sampled_subgraphs, self._blocks = [convert(block) for block in self._blocks], None
        return self._sampled_subgraphs

    @sampled_subgraphs.setter
    def sampled_subgraphs(self, subgraphs: Any) -> None:
        self._sampled_subgraphs, self._blocks = subgraphs, None

    @property
    def blocks(self) -> Any:
        """DGL blocks, first layer first, or None before something was sampled."""
        if self._blocks is None and self._sampled_subgraphs is not None:
            self._blocks = self.compute_blocks()
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: Any) -> None:
        self._blocks, self._sampled_subgraphs = blocks, None

    def compute_blocks(self) -> Any:
        """Return the sampled subgraphs as blocks, first layer first."""
        if self._sampled_subgraphs is None:
            return self._blocks
        return [block_of(subgraph) for subgraph in self._sampled_subgraphs]

    def set_blocks(self, blocks: Any, to_subgraph: Any) -> None:
        """Set the blocks, and the function that makes a sampled subgraph of one where somebody asks for it."""
        self.blocks, self._to_subgraph = blocks, to_subgraph

    def exclude_edges(self, edges: Any) -> None:
        """Take edges between pairs of nodes, (n, 2), by edge type where there are several, out of all layers."""
        if self._blocks is None:
            self.sampled_subgraphs = [x.exclude_edges(edges) for x in self.sampled_subgraphs]
        else:
            self._blocks = [block_without(block, edges) for block in self._blocks]

    def node_ids(self) -> Any:
        """Return ``input_nodes``."""
        return self.input_nodes

    def num_layers(self) -> int:
        """Return the number of layers: of blocks, or sampled subgraphs; 0 before sampling."""
        return len(self._blocks or self._sampled_subgraphs or ())

    def edge_ids(self, layer_id: int) -> Any:
        """Return the ids in the graph of a layer's edges: a tensor, or by edge type, or None."""
        if self._blocks is not None:
            block = self._blocks[layer_id]
            ids = {etype_tuple_to_str(etype): block.edges[etype].data.get(EID) for etype in block.canonical_etypes}
            ids = {etype: x for etype, x in ids.items() if x is not None}
            return (ids or None) if isinstance(self.input_nodes, Mapping) else next(iter(ids.values()), None)
        subgraph = self._sampled_subgraphs[layer_id]
        ids = subgraph.original_edge_ids
        return ids if ids is not None else getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)

    def set_node_features(self, node_features: Any) -> None:
        """Set ``node_features``."""
        self.node_features = node_features

    def set_edge_features(self, edge_features: Any) -> None:
        """Set ``edge_features``."""
        self.edge_features = edge_features

    def to_pyg_data(self) -> Any:
        """Return a PyG ``Data`` of the input nodes: features, edges of all layers, labels, node ids.

        Raises ImportError: torch_geometric is not installed; DGLError: the graph has several types, nothing was
        sampled, or there are several features.
        """
        from torch_geometric.data import Data

        subgraphs = self.sampled_subgraphs
        if subgraphs is None or isinstance(self.input_nodes, Mapping):
            raise InputError("to_pyg_data() needs a sample of a graph of one node and edge type")
        if self.node_features is not None and len(self.node_features) != 1:
            raise InputError(f"to_pyg_data() takes one node feature; the batch has {list(self.node_features)}")
        x = None if self.node_features is None else next(iter(self.node_features.values()))
        edges = torch.cat([subgraph.to_pyg(self.input_nodes).edge_index for subgraph in subgraphs], 1).unique(dim=1)
        sizes = {"batch_size": len(subgraphs[-1].original_column_node_ids), "n_id": self.input_nodes}
        return Data(x=x, edge_index=edges, y=self.labels, **sizes)

    # -- pairs -----------------------------------------------------------------------------------------------------
    def add_negatives(self, dsts: Any) -> None:
        """Append pairs of each pair's source with other destinations (num_pairs, negative_ratio).

        Sets ``seeds``, ``labels`` and ``indexes``.
        """
        self.set_pairs(by_type(_with_negatives, self.seeds, dsts))

    def set_pairs(self, extended: Any) -> None:
        """Set ``seeds``, ``labels`` and ``indexes`` to what :func:`with_labels` returned, by edge type if it is."""
        self.seeds, self.labels, self.indexes = (by_type(itemgetter(i), extended) for i in range(3))

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


def are_pairs(seeds: Any) -> bool:
    """Whether seeds are pairs, or larger sets, of nodes, of some type at least."""
    return any(getattr(x, "ndim", 1) == 2 for x in (seeds.values() if isinstance(seeds, Mapping) else [seeds]))


def with_labels(pairs: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return pairs, of which the first ``count`` are positive and as many for each follow, labels and indexes.

    Labels are 1 and 0, float32; indexes the row of the positive pair that each belongs to.
    """
    rows = torch.arange(len(pairs), device=pairs.device)
    ratio = len(pairs) // max(count, 1) - 1
    return pairs, (rows < count).float(), torch.cat([rows[:count], rows[:count].repeat_interleave(ratio)])


def _with_negatives(pairs: torch.Tensor, dst: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return :func:`with_labels` of pairs (num_pairs, 2) and their sources with ``dst`` (num_pairs, negative_ratio)."""
    src = pairs[:, 0].repeat_interleave(dst.shape[1])
    return with_labels(torch.cat([pairs, torch.stack([src, dst.reshape(-1).to(pairs)], 1)]), len(pairs))


def _ends_of(negative: bool, pairs: torch.Tensor, indexes: Any) -> Any:
    """Return sources and destinations of the positive pairs, or of those drawn for each; None where none were drawn."""
    count = len(pairs) if indexes is None else int(indexes[-1]) + 1
    if not negative:
        return pairs[:count].unbind(1)
    ratio = len(pairs) // max(count, 1) - 1
    return None if indexes is None else pairs[count:].reshape(count, ratio, 2).unbind(2)


def _second(ends: Any) -> Any:
    return None if ends is None else ends[1]
