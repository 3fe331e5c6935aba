"""``dgl.graphbolt``, as much of it as its training scripts use, on the loaders and samplers of dglite.dataloading.

A data pipe is the list of its stages. :class:`DataLoader` runs them, from the items on, in worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

import numpy as np
import torch

from ..convert import graph, heterograph
from ..dataloading import LaborSampler, NeighborSampler
from ..dataloading.loader import Loader
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..random import generator
from ..transforms import remove_edges, to_homogeneous

__all__ = [
    "DataLoader",
    "DistributedItemSampler",
    "FusedCSCSamplingGraph",
    "HeteroItemSet",
    "ItemSampler",
    "ItemSet",
    "ItemSetDict",
    "MiniBatch",
    "MultiProcessDataLoader",
    "SingleProcessDataLoader",
    "etype_str_to_tuple",
    "etype_tuple_to_str",
    "exclude_seed_edges",
    "from_dglgraph",
    "fused_csc_sampling_graph",
]


def etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Return ``"source:relation:destination"``."""
    return ":".join(c_etype)


def etype_str_to_tuple(c_etype: str) -> tuple[str, str, str]:
    """Return the canonical edge type that ``"source:relation:destination"`` names; DGLError for other strings."""
    parts = tuple(c_etype.split(":"))
    if len(parts) != 3:
        raise DGLError(f"edge type {c_etype!r} must be of the form 'source:relation:destination'")
    return parts  # type: ignore[return-value]


def _mapped(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to a value, or to each value of a dictionary."""
    return {key: function(value) for key, value in x.items()} if isinstance(x, Mapping) else function(x)


# -- items -------------------------------------------------------------------------------------------------------------
class ItemSet:
    """Items: rows of one or several tensors, which batches have as attributes of the given names.

    ``items`` is a tensor, a tuple of tensors of one length, or a number n for the ids 0 to n - 1.
    """

    def __init__(self, items: Any, names: str | Sequence[str] | None = None) -> None:
        if isinstance(items, int) or (torch.is_tensor(items) and items.ndim == 0):
            items = torch.arange(int(items))
        self._items = tuple(x if torch.is_tensor(x) else torch.as_tensor(x) for x in _tuple(items))
        self._names = None if names is None else tuple(_tuple(names))
        if len({len(x) for x in self._items}) > 1:
            raise DGLError(f"items have {[len(x) for x in self._items]} rows; expected as many in all tensors")
        if self._names is not None and len(self._names) != len(self._items):
            raise DGLError(f"{len(self._names)} names, {list(self._names)}, for {len(self._items)} tensors of items")

    @property
    def names(self) -> tuple[str, ...] | None:
        """What batches call the tensors."""
        return self._names

    def __len__(self) -> int:
        return len(self._items[0])

    def __getitem__(self, index: Any) -> Any:
        found = tuple(x[index] for x in self._items)
        return found[0] if len(found) == 1 else found

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class HeteroItemSet:
    """Item sets by node type, or by edge type as a string; all with the same names."""

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = dict(itemsets)
        names = {x.names for x in self._itemsets.values()}
        if len(names) != 1:
            raise DGLError(f"item sets of types {list(itemsets)} have names {names}; expected the same in all")
        (self._names,) = names
        self._offsets = np.cumsum([0, *(len(x) for x in self._itemsets.values())])

    @property
    def names(self) -> tuple[str, ...] | None:
        """What batches call the tensors."""
        return self._names

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __getitem__(self, index: Any) -> dict[str, Any]:
        positions = np.atleast_1d(np.arange(len(self))[index])
        kinds = np.searchsorted(self._offsets, positions, "right") - 1
        found = {}
        for i, (key, itemset) in enumerate(self._itemsets.items()):
            own = positions[kinds == i] - self._offsets[i]
            if len(own):
                found[key] = itemset[torch.from_numpy(own)]
        return found


ItemSetDict = HeteroItemSet


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


# -- batches -----------------------------------------------------------------------------------------------------------
class MiniBatch:
    """What is known of a batch: attributes that stages of a pipe set, None before.

    ``blocks`` are DGL blocks, first layer first. ``compacted_node_pairs`` and the compacted negatives are places among
    the last block's destination nodes. Values are dictionaries by type where the graph has several.
    """

    seed_nodes: Any
    node_pairs: Any
    labels: Any
    negative_dsts: Any
    compacted_node_pairs: Any
    compacted_negative_dsts: Any
    input_nodes: Any
    blocks: Any
    node_features: Any
    edge_features: Any

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(dict.fromkeys(self.__annotations__), **values)

    def __repr__(self) -> str:
        return f"MiniBatch({', '.join(f'{name}={x!r}' for name, x in vars(self).items() if x is not None)})"

    @property
    def positive_node_pairs(self) -> Any:
        """Sources and destinations of the seed edges."""
        return self.compacted_node_pairs

    @property
    def negative_node_pairs(self) -> Any:
        """Sources and destinations of the negative pairs, each (num_seeds, negative_ratio)."""
        if self.compacted_node_pairs is None or self.compacted_negative_dsts is None:
            return None
        pairs = _by_etype(self.compacted_node_pairs)
        found = {
            etype: (pairs[etype][0][:, None].expand_as(dst), dst)
            for etype, dst in _by_etype(self.compacted_negative_dsts).items()
        }
        return found.get(None, found)

    @property
    def node_pairs_with_labels(self) -> Any:
        """All pairs, positive ones first, and 1 or 0 for each; with labels of items, the seed edges and these."""
        if self.labels is not None:
            return None if self.compacted_node_pairs is None else (self.compacted_node_pairs, self.labels)
        positive, negative = self.positive_node_pairs, self.negative_node_pairs
        if positive is None or negative is None:
            return None
        if not isinstance(positive, Mapping):
            return _labelled(positive, negative)
        found = {etype: _labelled(positive[etype], negative[etype]) for etype in positive}
        return {etype: x[0] for etype, x in found.items()}, {etype: x[1] for etype, x in found.items()}

    def to(self, device: Any) -> Self:
        """Move graphs and tensors to a device."""
        for name, value in vars(self).items():
            setattr(self, name, _moved(value, device))
        return self


def _labelled(positive: Any, negative: Any) -> tuple[Any, torch.Tensor]:
    ends = tuple(torch.cat([p, n.reshape(-1)]) for p, n in zip(positive, negative, strict=True))
    labels = torch.zeros(len(ends[0]), device=ends[0].device)
    labels[: len(positive[0])] = 1
    return ends, labels


def _moved(x: Any, device: Any) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_moved(value, device) for value in x)
    if isinstance(x, Mapping):
        return {key: _moved(value, device) for key, value in x.items()}
    return x.to(device) if torch.is_tensor(x) or isinstance(x, DGLGraph) else x


# -- pipes -------------------------------------------------------------------------------------------------------------
Stage = Callable[[MiniBatch], MiniBatch]


class ItemSampler:
    """Batches of items, and the stages that they go through; each method returns a pipe with one more stage.

    Iterating a pipe runs it here; :class:`DataLoader` runs it in threads.
    """

    use_ddp = False

    def __init__(
        self,
        item_set: ItemSet | HeteroItemSet,
        batch_size: int,
        minibatcher: Callable[[Any, Any], MiniBatch] | None = None,
        drop_last: bool = False,
        shuffle: bool = False,
        **others: Any,
    ) -> None:
        self.item_set, self.batch_size, self.drop_last, self.shuffle = item_set, batch_size, drop_last, shuffle
        self.minibatcher = _named if minibatcher is None else minibatcher
        self.stages: tuple[Stage, ...] = ()

    def __iter__(self) -> Iterator[MiniBatch]:
        return iter(DataLoader(self))

    def transform(self, transformer: Stage) -> Self:
        """Apply a function of the batch."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, stages=(*self.stages, transformer))
        return made

    def copy_to(self, device: Any, extra_attrs: Sequence[str] | None = None) -> Self:
        """Move batches to a device, with all that they have."""
        return self.transform(lambda batch: batch.to(device))

    def sample_neighbor(
        self,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        **others: Any,
    ) -> Self:
        """Sample blocks for the seed nodes, or for the ends of node pairs; fan-outs are first layer first."""
        return self._sample(graph, NeighborSampler(graph.fanouts(fanouts), prob=prob_name, replace=replace))

    def sample_layer_neighbor(
        self, graph: FusedCSCSamplingGraph, fanouts: Sequence[Any], prob_name: str | None = None, **others: Any
    ) -> Self:
        """Sample blocks of neighbours that seeds share, by LABOR."""
        return self._sample(graph, LaborSampler(graph.fanouts(fanouts), prob=prob_name))

    def _sample(self, graph: FusedCSCSamplingGraph, sampler: Any) -> Self:
        def stage(batch: MiniBatch) -> MiniBatch:
            seeds = batch.seed_nodes if batch.node_pairs is None else _compact(graph.g, batch)
            batch.input_nodes, _, batch.blocks = sampler.sample(graph.g, seeds)
            return batch

        return self.transform(stage)

    def sample_uniform_negative(self, graph: FusedCSCSamplingGraph, negative_ratio: int) -> Self:
        """Draw ``negative_ratio`` destinations for each node pair, uniformly: ``negative_dsts``."""

        def stage(batch: MiniBatch) -> MiniBatch:
            drawn = {}
            for etype, (src, _) in _by_etype(batch.node_pairs).items():
                count = graph.g.num_nodes(None if etype is None else etype_str_to_tuple(etype)[2])
                ids = generator().integers(count, size=(len(src), negative_ratio))
                drawn[etype] = torch.from_numpy(ids).to(src.dtype)
            batch.negative_dsts = drawn.get(None, drawn)
            return batch

        return self.transform(stage)

    def fetch_feature(self, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None) -> Self:
        """Read features of the input nodes, and of the edges of each block; keys are names, or names by type."""

        def read(domain: str, ids: Any, keys: Any) -> dict[Any, torch.Tensor]:
            if isinstance(keys, Mapping):
                pairs = [(kind, name) for kind, names in keys.items() for name in names if kind in ids]
                return {(kind, name): feature_store.read(domain, kind, name, ids[kind]) for kind, name in pairs}
            return {name: feature_store.read(domain, None, name, ids) for name in keys}

        def stage(batch: MiniBatch) -> MiniBatch:
            if node_feature_keys:
                batch.node_features = read("node", batch.input_nodes, node_feature_keys)
            if edge_feature_keys:
                ids = [block.edata[EID] for block in batch.blocks]
                if isinstance(edge_feature_keys, Mapping):
                    ids = [{etype_tuple_to_str(etype): x for etype, x in by_type.items()} for by_type in ids]
                batch.edge_features = [read("edge", x, edge_feature_keys) for x in ids]
            return batch

        return self.transform(stage)


class DistributedItemSampler(ItemSampler):
    """Gives each process of ``torch.distributed`` its share."""

    use_ddp = True


def _named(items: Any, names: Sequence[str] | None) -> MiniBatch:
    """Return a batch that has items by their names."""
    if names is None:
        raise DGLError("the items have no names, such as 'seed_nodes'; name them, or give a minibatcher")
    batch = MiniBatch()
    for i, name in enumerate(names):
        values = items if len(names) == 1 else _mapped(items, itemgetter(i))
        if name == "node_pairs":  # a row for each
            values = _mapped(values, lambda x: (x[:, 0], x[:, 1]))
        setattr(batch, name, values)
    return batch


def _compact(g: DGLGraph, batch: MiniBatch) -> Any:
    """Return the distinct nodes of a batch's pairs, and set the pairs in terms of places among them."""
    typed, by_etype, dsts = (
        isinstance(batch.node_pairs, Mapping),
        _by_etype(batch.node_pairs),
        _by_etype(batch.negative_dsts),
    )
    parts: dict[str, list[torch.Tensor]] = {}
    places = []
    for etype, (src, dst) in by_etype.items():
        kinds = (g.ntypes[0], g.ntypes[0]) if etype is None else etype_str_to_tuple(etype)[::2]
        for end, kind, x in (("src", kinds[0], src), ("dst", kinds[1], dst), ("negative", kinds[1], dsts.get(etype))):
            if x is not None:
                places.append((etype, end, kind, len(parts.setdefault(kind, [])), x.shape))
                parts[kind].append(x.reshape(-1))
    nodes, numbers = {}, {}
    for kind, own in parts.items():
        nodes[kind], numbered = torch.unique(torch.cat(own), return_inverse=True)
        numbers[kind] = numbered.split([len(x) for x in own])
    found: dict[Any, dict[str, torch.Tensor]] = {}
    for etype, end, kind, i, shape in places:
        found.setdefault(etype, {})[end] = numbers[kind][i].reshape(shape)
    positive = {etype: (x["src"], x["dst"]) for etype, x in found.items()}
    drawn = {etype: x["negative"] for etype, x in found.items() if "negative" in x}
    batch.compacted_node_pairs = positive if typed else positive[None]
    if drawn:
        batch.compacted_negative_dsts = drawn if typed else drawn[None]
    return nodes if typed else nodes[g.ntypes[0]]


def exclude_seed_edges(
    minibatch: MiniBatch, include_reverse_edges: bool = False, reverse_etypes_mapping: Mapping[str, str] | None = None
) -> MiniBatch:
    """Take the edges between seed pairs out of a batch's blocks; their reverses too, in types that are mapped."""
    hidden: dict[Any, list[Any]] = {etype: [pairs] for etype, pairs in _by_etype(minibatch.node_pairs).items()}
    if include_reverse_edges:
        for etype, pairs in list(hidden.items()):
            other = etype if etype is None else (reverse_etypes_mapping or {}).get(etype)
            if other is not None or etype is None:
                hidden.setdefault(other, []).append(pairs[0][::-1])
    for i, block in enumerate(minibatch.blocks):
        for etype in block.canonical_etypes:
            pairs = hidden.get(etype_tuple_to_str(etype), hidden.get(None, []))
            u, v = block.edges(etype=etype)
            src, dst = block.srcnodes[etype[0]].data[NID][u], block.dstnodes[etype[2]].data[NID][v]
            for a, b in pairs if len(u) else ():
                width = int(torch.cat([dst, b]).max()) + 1
                found = torch.isin(src * width + dst, a * width + b)
                block = remove_edges(block, found.nonzero().flatten(), etype)
                src, dst = src[~found], dst[~found]
        minibatch.blocks[i] = block
    return minibatch


def _by_etype(pairs: Any) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, Mapping) else {None: pairs}


class DataLoader(Loader):
    """Runs a pipe; ``num_workers`` are threads of this process, and batches the same for any number.

    Options of GraphBolt's prefetching are accepted.
    """

    def __init__(self, datapipe: ItemSampler, num_workers: int = 0, **others: Any) -> None:
        pipe = self.datapipe = datapipe
        super().__init__(
            len(pipe.item_set), pipe.batch_size, pipe.drop_last, pipe.shuffle, pipe.use_ddp, 0, num_workers=num_workers
        )

    def _make(self, positions: np.ndarray) -> MiniBatch:
        pipe = self.datapipe
        batch = pipe.minibatcher(pipe.item_set[torch.from_numpy(positions)], pipe.item_set.names)
        for stage in pipe.stages:
            batch = stage(batch)
        return batch


SingleProcessDataLoader = MultiProcessDataLoader = DataLoader


# -- graphs ------------------------------------------------------------------------------------------------------------
class FusedCSCSamplingGraph:
    """A graph to sample from: ``g``, a DGLGraph, under GraphBolt's names. Edge attributes are its edge features."""

    def __init__(self, g: DGLGraph) -> None:
        self.g = g
        nodes = {ntype: g.num_nodes(ntype) for ntype in g.ntypes}
        edges = {etype_tuple_to_str(etype): g.num_edges(etype) for etype in g.canonical_etypes}
        self.total_num_nodes, self.total_num_edges = sum(nodes.values()), sum(edges.values())
        typed = not g.is_homogeneous
        self.num_nodes = nodes if typed else self.total_num_nodes
        self.num_edges = edges if typed else self.total_num_edges
        self.node_type_to_id = {ntype: i for i, ntype in enumerate(nodes)} if typed else None
        self.edge_type_to_id = {etype: i for i, etype in enumerate(edges)} if typed else None
        self.node_type_offset = torch.tensor([0, *nodes.values()]).cumsum(0) if typed else None

    def fanouts(self, given: Sequence[Any]) -> list[Any]:
        """Return fan-outs as samplers take them: of tensors, with a number for all edge types or one for each."""
        listed = [np.atleast_1d(np.asarray(x)).tolist() for x in given]
        etypes = self.g.canonical_etypes
        for x in listed:
            if len(x) not in (1, len(etypes)):
                raise DGLError(f"fan-outs {x} are for {len(x)} edge types; the graph has {len(etypes)}")
        return [x[0] if len(x) == 1 else dict(zip(etypes, x, strict=True)) for x in listed]

    def to(self, device: Any) -> FusedCSCSamplingGraph:
        """Return the graph on a device."""
        return FusedCSCSamplingGraph(self.g.to(device))


def from_dglgraph(
    g: DGLGraph, is_homogeneous: bool = False, include_original_edge_id: bool = False
) -> FusedCSCSamplingGraph:
    """Return a graph to sample from; with ``is_homogeneous`` types are merged. Edges keep their ids."""
    return FusedCSCSamplingGraph(to_homogeneous(g) if is_homogeneous and not g.is_homogeneous else g)


def fused_csc_sampling_graph(
    csc_indptr: torch.Tensor,
    indices: torch.Tensor,
    node_type_offset: torch.Tensor | None = None,
    type_per_edge: torch.Tensor | None = None,
    node_type_to_id: Mapping[str, int] | None = None,
    edge_type_to_id: Mapping[str, int] | None = None,
    node_attributes: Mapping[str, torch.Tensor] | None = None,
    edge_attributes: Mapping[str, torch.Tensor] | None = None,
) -> FusedCSCSamplingGraph:
    """Return the graph whose node i has in-edges from ``indices[csc_indptr[i]:csc_indptr[i + 1]]``.

    With types, nodes of type t are those from ``node_type_offset[t]`` on, and ``type_per_edge`` numbers edge types.
    Edges of a type are numbered as they come. Attributes become features.
    """
    src, dst = indices.long(), torch.repeat_interleave(csc_indptr.diff())
    if node_type_offset is None or node_type_to_id is None or edge_type_to_id is None or type_per_edge is None:
        g = graph((src, dst), num_nodes=len(csc_indptr) - 1)
        g.ndata.update(node_attributes or {})
        g.edata.update(edge_attributes or {})
        return FusedCSCSamplingGraph(g)
    offsets = node_type_offset.tolist()
    edges, kept = {}, {}
    for name, number in edge_type_to_id.items():
        a, _, b = etype = etype_str_to_tuple(name)
        own = kept[etype] = (type_per_edge == number).nonzero().flatten()
        edges[etype] = src[own] - offsets[node_type_to_id[a]], dst[own] - offsets[node_type_to_id[b]]
    g = heterograph(edges, {ntype: offsets[i + 1] - offsets[i] for ntype, i in node_type_to_id.items()})
    for name, x in (node_attributes or {}).items():
        for ntype, i in node_type_to_id.items():
            g.nodes[ntype].data[name] = x[offsets[i] : offsets[i + 1]]
    for name, x in (edge_attributes or {}).items():
        for etype, own in kept.items():
            g.edges[etype].data[name] = x[own]
    return FusedCSCSamplingGraph(g)
