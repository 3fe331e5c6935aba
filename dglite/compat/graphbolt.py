"""``dgl.graphbolt``: what training scripts use of it, on dglite's loaders and samplers.

A data pipe is the list of its stages. :class:`DataLoader` runs them, from the items on, in worker threads. Data sets on
disk are folders that a YAML file describes, as GraphBolt documents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ..convert import graph, heterograph
from ..dataloading import LaborSampler, NeighborSampler
from ..dataloading.edge_sampler import graph_of_pairs
from ..dataloading.items import by_kind
from ..dataloading.loader import Loader
from ..dataloading.transfer import moved
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..random import generator
from ..transforms import compact_graphs, remove_edges, to_homogeneous

__all__ = [
    "BasicFeatureStore", "DataLoader", "DistributedItemSampler", "FusedCSCSamplingGraph", "HeteroItemSet",
    "ItemSampler", "ItemSet", "ItemSetDict", "MiniBatch", "MultiProcessDataLoader", "OnDiskDataset", "OnDiskTask",
    "SingleProcessDataLoader", "TorchBasedFeature", "TorchBasedFeatureStore", "etype_str_to_tuple",
    "etype_tuple_to_str", "exclude_seed_edges", "from_dglgraph", "fused_csc_sampling_graph",
]  # fmt: skip


def etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Return ``"source:relation:destination"``."""
    return ":".join(c_etype)


def etype_str_to_tuple(c_etype: str) -> tuple[str, str, str]:
    """Return the canonical edge type that ``"source:relation:destination"`` names; DGLError for other strings."""
    parts = tuple(c_etype.split(":"))
    if len(parts) != 3:
        raise DGLError(f"edge type {c_etype!r} must be of the form 'source:relation:destination'")
    return parts  # type: ignore[return-value]


def _by_type(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to values, or to those of each type where the first is a dictionary."""
    if not isinstance(values[0], Mapping):
        return function(*values)
    return {kind: function(*(None if x is None else x.get(kind) for x in values)) for kind in values[0]}


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


class ItemSet:
    """Items: rows of one or several tensors, which batches have as attributes of the given names.

    ``items`` is a tensor, a tuple of tensors of one length, or a number n for the ids 0 to n - 1.
    """

    def __init__(self, items: Any, names: str | Sequence[str] | None = None) -> None:
        if isinstance(items, int) or (torch.is_tensor(items) and items.ndim == 0):
            items = torch.arange(int(items))
        self._items = tuple(torch.as_tensor(x) for x in _tuple(items))
        self.names = None if names is None else _tuple(names)
        if len({len(x) for x in self._items}) > 1:
            raise DGLError(f"items have {[len(x) for x in self._items]} rows; expected as many in all tensors")
        if self.names is not None and len(self.names) != len(self._items):
            raise DGLError(f"{len(self.names)} names, {list(self.names)}, for {len(self._items)} tensors of items")

    def __len__(self) -> int:
        return len(self._items[0])

    def __getitem__(self, index: Any) -> Any:
        found = tuple(x[index] for x in self._items)
        return found[0] if len(found) == 1 else found


class HeteroItemSet:
    """Item sets by node type, or by edge type as a string; all with the same names."""

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = dict(itemsets)
        names = {x.names for x in self._itemsets.values()}
        if len(names) != 1:
            raise DGLError(f"item sets of types {list(itemsets)} have names {names}; expected the same in all")
        (self.names,) = names
        self._offsets = np.cumsum([0, *(len(x) for x in self._itemsets.values())])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def __getitem__(self, index: Any) -> dict[str, Any]:
        own = by_kind(np.atleast_1d(np.arange(len(self))[index]), self._offsets, self._itemsets)
        return {key: self._itemsets[key][torch.from_numpy(ids)] for key, ids in own.items()}


ItemSetDict = HeteroItemSet


class MiniBatch:
    """What is known of a batch: attributes that stages of a pipe set, None before.

    ``seeds`` are nodes, or pairs (num_pairs, 2), of which negative ones follow the positive: they have ``labels`` 0.0
    and in ``indexes`` the row of the pair that they were drawn for. ``compacted_seeds`` are the pairs as places among
    the last block's destination nodes. ``blocks`` are DGL blocks, first layer first. Values are dictionaries by type
    where the graph has several. The names of DGL 2.1, ``seed_nodes``, ``node_pairs``, ``negative_dsts``, are of seeds.
    """

    seeds = labels = indexes = compacted_seeds = input_nodes = blocks = node_features = edge_features = None  # type: Any

    def __init__(self, seed_nodes: Any = None, node_pairs: Any = None, negative_dsts: Any = None, **more: Any) -> None:
        self.__dict__.update(more)
        if seed_nodes is not None:
            self.seeds = seed_nodes
        if node_pairs is not None:
            self.seeds = _by_type(lambda x: torch.stack(x, 1) if isinstance(x, tuple) else x, node_pairs)
        if negative_dsts is not None:
            self.add_negatives(negative_dsts)

    def __repr__(self) -> str:
        return f"MiniBatch({', '.join(f'{name}={x!r}' for name, x in vars(self).items() if x is not None)})"

    def add_negatives(self, dsts: Any) -> None:
        """Append pairs of each pair's source with other destinations (num_pairs, negative_ratio); set the labels."""

        def extended(pairs: torch.Tensor, dst: torch.Tensor) -> tuple[torch.Tensor, ...]:
            rows = torch.arange(len(pairs), device=pairs.device)
            indexes = torch.cat([rows, rows.repeat_interleave(dst.shape[1])])
            negative = torch.stack([pairs[indexes[len(pairs) :], 0], dst.reshape(-1).to(pairs)], 1)
            labels = (torch.arange(len(indexes), device=pairs.device) < len(pairs)).float()
            return torch.cat([pairs, negative]), labels, indexes

        made = _by_type(extended, self.seeds, dsts)
        self.seeds, self.labels, self.indexes = (_by_type(itemgetter(i), made) for i in range(3))

    seed_nodes = property(lambda self: self.seeds)
    node_pairs = property(lambda self: self._pairs(self.seeds)[0])
    negative_dsts = property(lambda self: self._pairs(self.seeds)[2])
    positive_node_pairs = compacted_node_pairs = property(lambda self: self._pairs(self.compacted_seeds)[0])
    negative_node_pairs = property(lambda self: self._pairs(self.compacted_seeds)[1])
    compacted_negative_dsts = property(lambda self: self._pairs(self.compacted_seeds)[2])

    def _pairs(self, seeds: Any) -> tuple[Any, Any, Any]:
        """Return ends of positive pairs, those of negative ones (num_pairs, negative_ratio), the second of these."""

        def ends(pairs: torch.Tensor, indexes: Any) -> tuple[Any, Any, Any]:
            count = len(pairs) if indexes is None else int(indexes[-1]) + 1
            ratio = len(pairs) // max(count, 1) - 1
            positive, negative = pairs[:count].unbind(1), pairs[count:].reshape(count, ratio, 2).unbind(2)
            return (positive, None, None) if indexes is None else (positive, negative, negative[1])

        if not _are_pairs(seeds):
            return None, None, None
        made = _by_type(ends, seeds, self.indexes)
        return tuple(None if i and self.indexes is None else _by_type(itemgetter(i), made) for i in range(3))  # type: ignore[return-value]

    @property
    def node_pairs_with_labels(self) -> Any:
        """Places of all pairs, positive ones first, and their labels, 1 or 0 for drawn ones; None without labels."""
        pairs, labels = self.compacted_seeds, self.labels
        return None if pairs is None or labels is None else (_by_type(lambda x: x.unbind(1), pairs), labels)

    def to(self, device: Any) -> Self:
        """Move graphs and tensors to a device."""
        self.__dict__.update({name: moved(value, device) for name, value in vars(self).items()})
        return self


def _are_pairs(seeds: Any) -> bool:
    return any(x is not None and x.ndim == 2 for x in (seeds.values() if isinstance(seeds, Mapping) else [seeds]))


class ItemSampler:
    """Batches of items, and the stages that they go through; each method returns a pipe with one more stage.

    Iterating a pipe runs it here; :class:`DataLoader` runs it in threads.
    """

    use_ddp = False

    def __init__(
        self,
        item_set: Any,
        batch_size: int,
        minibatcher: Any = None,
        drop_last: bool = False,
        shuffle: bool = False,
        **_: Any,
    ) -> None:
        self.item_set, self.batch_size, self.drop_last, self.shuffle = item_set, batch_size, drop_last, shuffle
        self.minibatcher = _named if minibatcher is None else minibatcher
        self.stages: tuple[Callable[[MiniBatch], MiniBatch], ...] = ()

    def __iter__(self) -> Iterator[MiniBatch]:
        return iter(DataLoader(self))

    def transform(self, transformer: Callable[[MiniBatch], MiniBatch]) -> Self:
        """Apply a function of the batch."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, stages=(*self.stages, transformer))
        return made

    def copy_to(self, device: Any, extra_attrs: Sequence[str] | None = None) -> Self:
        """Move batches to a device, with all that they have."""
        return self.transform(lambda batch: batch.to(device))

    def sample_neighbor(
        self, graph: Any, fanouts: Sequence[Any], replace: bool = False, prob_name: str | None = None, **_: Any
    ) -> Self:
        """Sample blocks for the seed nodes, or for the ends of pairs; fan-outs are first layer first."""
        return self._sample(graph, NeighborSampler(graph.fanouts(fanouts), prob=prob_name, replace=replace))

    def sample_layer_neighbor(self, graph: Any, fanouts: Sequence[Any], prob_name: str | None = None, **_: Any) -> Self:
        """Sample blocks of neighbours that seeds share, by LABOR."""
        return self._sample(graph, LaborSampler(graph.fanouts(fanouts), prob=prob_name))

    def _sample(self, graph: FusedCSCSamplingGraph, sampler: Any) -> Self:
        def stage(batch: MiniBatch) -> MiniBatch:
            seeds = _compact(graph.g, batch) if _are_pairs(batch.seeds) else batch.seeds
            batch.input_nodes, _, batch.blocks = sampler.sample(graph.g, seeds)
            return batch

        return self.transform(stage)

    def sample_uniform_negative(self, graph: FusedCSCSamplingGraph, negative_ratio: int) -> Self:
        """Draw ``negative_ratio`` destinations for each pair, uniformly."""

        def draw(pairs: torch.Tensor, etype: str | None) -> torch.Tensor:
            count = graph.g.num_nodes(None if etype is None else etype_str_to_tuple(etype)[2])
            return torch.from_numpy(generator().integers(count, size=(len(pairs), negative_ratio)))

        def stage(batch: MiniBatch) -> MiniBatch:
            seeds = batch.seeds
            batch.add_negatives(_by_type(draw, seeds, {x: x for x in seeds} if isinstance(seeds, Mapping) else None))
            return batch

        return self.transform(stage)

    def fetch_feature(self, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None) -> Self:
        """Read features of the input nodes, and of the edges of each block; keys are names, or names by type."""

        def read(domain: str, ids: Any, keys: Any) -> dict[Any, torch.Tensor]:
            if not isinstance(keys, Mapping):
                return {name: feature_store.read(domain, None, name, ids) for name in keys}
            pairs = [(kind, name) for kind, names in keys.items() for name in names if kind in ids]
            return {(kind, name): feature_store.read(domain, kind, name, ids[kind]) for kind, name in pairs}

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
        raise DGLError("the items have no names, such as 'seeds'; name them, or give a minibatcher")
    columns = [items] if len(names) == 1 else [_by_type(itemgetter(i), items) for i in range(len(names))]
    return MiniBatch(**dict(zip(names, columns, strict=True)))


def _compact(g: DGLGraph, batch: MiniBatch) -> Any:
    """Return the distinct nodes of a batch's pairs; set ``compacted_seeds``, the pairs as places among them."""
    typed = isinstance(batch.seeds, Mapping)
    pairs = {etype_str_to_tuple(x): ends for x, ends in batch.seeds.items()} if typed else {g.etypes[0]: batch.seeds}
    made = compact_graphs(graph_of_pairs(g, {etype: ends.unbind(1) for etype, ends in pairs.items()}))
    places = [torch.stack(made.edges(etype=etype), 1).to(ends) for etype, ends in pairs.items()]
    batch.compacted_seeds = dict(zip(batch.seeds, places, strict=True)) if typed else places[0]
    nodes = {ntype: made.nodes[ntype].data[NID] for ntype in g.ntypes if made.num_nodes(ntype) or not typed}
    return nodes if typed else nodes[g.ntypes[0]]


def exclude_seed_edges(
    minibatch: MiniBatch, include_reverse_edges: bool = False, reverse_etypes_mapping: Mapping[str, str] | None = None
) -> MiniBatch:
    """Take the edges between positive pairs out of a batch's blocks; their reverses too, in types that are mapped."""
    pairs, reverse = minibatch.node_pairs, dict[Any, str](reverse_etypes_mapping or {})
    by_etype = pairs if isinstance(pairs, Mapping) else {None: pairs}
    hidden: list[tuple[Any, Any]] = list(by_etype.items())
    if include_reverse_edges:
        hidden += [(reverse.get(x), ends[::-1]) for x, ends in by_etype.items() if x is None or x in reverse]
    for i, block in enumerate(minibatch.blocks):
        for etype in block.canonical_etypes:
            for kind, (a, b) in hidden:
                u, v = block.edges(etype=etype)
                if kind not in (None, etype_tuple_to_str(etype)) or not len(u):
                    continue
                src, dst = block.srcnodes[etype[0]].data[NID][u], block.dstnodes[etype[2]].data[NID][v]
                width = int(torch.cat([dst, b]).max()) + 1
                found = torch.isin(src * width + dst, a * width + b)
                block = remove_edges(block, found.nonzero().flatten(), etype)
        minibatch.blocks[i] = block
    return minibatch


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


class FusedCSCSamplingGraph:
    """A graph to sample from: ``g``, a DGLGraph, under GraphBolt's names. Edge attributes are its edge features."""

    def __init__(self, g: DGLGraph) -> None:
        self.g, typed = g, not g.is_homogeneous
        nodes = {ntype: g.num_nodes(ntype) for ntype in g.ntypes}
        edges = {etype_tuple_to_str(etype): g.num_edges(etype) for etype in g.canonical_etypes}
        self.total_num_nodes, self.total_num_edges = g.num_nodes(), g.num_edges()
        self.num_nodes: Any = nodes if typed else g.num_nodes()
        self.num_edges: Any = edges if typed else g.num_edges()
        self.node_type_to_id = {ntype: i for i, ntype in enumerate(nodes)} if typed else None
        self.edge_type_to_id = {etype: i for i, etype in enumerate(edges)} if typed else None
        self.node_type_offset = torch.tensor([0, *nodes.values()]).cumsum(0) if typed else None

    def fanouts(self, given: Sequence[Any]) -> list[Any]:
        """Return fan-outs as samplers take them: of tensors, with a number for all edge types or one for each."""
        listed = [np.atleast_1d(np.asarray(x)).tolist() for x in given]
        etypes = self.g.canonical_etypes
        if wrong := [x for x in listed if len(x) not in (1, len(etypes))]:
            raise DGLError(f"fan-outs {wrong[0]} are for {len(wrong[0])} edge types; the graph has {len(etypes)}")
        return [x[0] if len(x) == 1 else dict(zip(etypes, x, strict=True)) for x in listed]

    def to(self, device: Any = "cpu") -> FusedCSCSamplingGraph:
        """Return the graph on a device."""
        return FusedCSCSamplingGraph(self.g.to(device))

    pin_memory_ = to  # what is sampled is on the CPU


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
    first = node_type_offset.tolist()
    own = {etype_str_to_tuple(name): (type_per_edge == i).nonzero().flatten() for name, i in edge_type_to_id.items()}
    starts = {etype: [first[node_type_to_id[ntype]] for ntype in etype[::2]] for etype in own}
    edges = {etype: (src[ids] - starts[etype][0], dst[ids] - starts[etype][1]) for etype, ids in own.items()}
    g = heterograph(edges, {ntype: first[i + 1] - first[i] for ntype, i in node_type_to_id.items()})
    for ntype, i in node_type_to_id.items():
        g.nodes[ntype].data.update({k: x[first[i] : first[i + 1]] for k, x in (node_attributes or {}).items()})
    for etype, ids in own.items():
        g.edges[etype].data.update({k: x[ids] for k, x in (edge_attributes or {}).items()})
    return FusedCSCSamplingGraph(g)


class TorchBasedFeature:
    """A feature: a tensor, or an array that may be mapped from a file."""

    def __init__(self, torch_feature: Any) -> None:
        self._values = torch_feature

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some ids, or all."""
        return torch.as_tensor(self._values if ids is None else self._values[ids])

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return torch.Size(self._values.shape[1:])


class BasicFeatureStore(dict[tuple[str, str | None, str], Any]):
    """Features by (domain, type, name): domain is "node" or "edge", type None in a homogeneous graph."""

    def __missing__(self, key: Any) -> Any:
        raise KeyError(f"there is no feature {key}; there are {list(self)}")

    def read(self, domain: str, type_name: str | None, feature_name: str, ids: Any = None) -> torch.Tensor:
        """Return a feature's rows of some ids, or all; KeyError where there is no such feature."""
        return self[domain, type_name, feature_name].read(ids)

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Return the shape of a feature's row."""
        return self[domain, type_name, feature_name].size()

    def update(self, domain: Any, type_name: Any = None, feature_name: Any = None, value: Any = None) -> None:  # type: ignore[override]
        """Put a feature in another's place."""
        self[domain, type_name, feature_name] = TorchBasedFeature(value)

    def to(self, device: Any = None) -> Self:
        """Return the store, whose features stay where they are: batches are copied."""
        return self

    pin_memory_ = to


TorchBasedFeatureStore = BasicFeatureStore


class OnDiskTask:
    """A task of a data set: its item sets, and ``metadata``, all else that its description says."""

    def __init__(self, metadata: dict[str, Any], sets: Sequence[Any]) -> None:
        self.metadata = metadata
        self.train_set, self.validation_set, self.test_set = sets


class OnDiskDataset:
    """A data set in a folder with ``metadata.yaml``, as GraphBolt documents it, read in :meth:`load`.

    Graph, features and sets are read from the files that are described; nothing is written beside them. Edges are
    ``numpy`` arrays (2, num_edges) or ``csv`` files of two columns without a header. Features that are not
    ``in_memory`` are mapped from their ``.npy`` files. Raises DGLError where the description lacks something.
    """

    def __init__(self, path: str | Path, include_original_edge_id: bool = False, **others: Any) -> None:
        self._folder = Path(path)
        file = self._folder / "metadata.yaml"
        if not file.exists():
            raise DGLError(f"{file} does not exist; it describes the data set, see dgl.graphbolt.OnDiskDataset")
        import yaml  # an extra, which the rest of the module does without

        self.yaml_data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.dataset_name = self.yaml_data.get("dataset_name")

    def load(self, tasks: Sequence[str] | str | None = None) -> Self:
        """Read graph, features and tasks, those of the given names or all; return self."""
        described, wanted = self.yaml_data, [tasks] if isinstance(tasks, str) else tasks
        if "graph" not in described:
            raise DGLError(f"{self._folder / 'metadata.yaml'} describes no graph: nodes, edges")
        self.graph = FusedCSCSamplingGraph(self._graph(described["graph"]))
        listed = described.get("feature_data") or []
        self.feature = BasicFeatureStore(
            {(x["domain"], x.get("type"), x["name"]): TorchBasedFeature(self._read(x, False)) for x in listed}
        )
        self.tasks = [
            OnDiskTask(
                {name: x for name, x in task.items() if not name.endswith("_set")},
                [self._items(task.get(f"{part}_set")) for part in ("train", "validation", "test")],
            )
            for task in described.get("tasks") or []
            if wanted is None or task.get("name") in wanted
        ]
        nodes = _by_type(lambda count: ItemSet(count, "seeds"), self.graph.num_nodes)
        self.all_nodes_set = HeteroItemSet(nodes) if isinstance(nodes, Mapping) else nodes
        return self

    def _read(self, described: Mapping[str, Any], whole: bool = True) -> Any:
        path, kind = self._folder / described["path"], described["format"]
        if kind not in ("numpy", "torch"):
            raise DGLError(f"{path} has the format {kind!r}; expected 'numpy' or 'torch'")
        if kind == "torch":
            return torch.load(path, weights_only=True)
        kept = whole or described.get("in_memory", True)
        return torch.from_numpy(np.load(path)) if kept else np.load(path, mmap_mode="r")

    def _graph(self, described: Mapping[str, Any]) -> DGLGraph:
        counts = {x.get("type"): int(x["num"]) for x in described["nodes"]}
        edges = {}
        for x in described["edges"]:
            path = self._folder / x["path"]
            ends = np.loadtxt(path, np.int64, delimiter=",", ndmin=2).T if x["format"] == "csv" else np.load(path)
            edges[x.get("type")] = torch.from_numpy(ends[0].copy()), torch.from_numpy(ends[1].copy())
        if list(edges) == [None]:
            g = graph(edges[None], num_nodes=counts[None])
        else:
            g = heterograph({etype_str_to_tuple(etype): x for etype, x in edges.items()}, counts)
        for x in described.get("feature_data") or []:
            view = g.nodes if x["domain"] == "node" else g.edges
            kind = x.get("type") or (g.ntypes if x["domain"] == "node" else g.etypes)[0]
            view[etype_str_to_tuple(kind) if ":" in kind else kind].data[x["name"]] = self._read(x)
        return g

    def _items(self, described: Sequence[Mapping[str, Any]] | None) -> ItemSet | HeteroItemSet | None:
        if not described:
            return None
        sets = {
            x.get("type"): ItemSet(tuple(self._read(y) for y in x["data"]), [y.get("name") for y in x["data"]])
            for x in described
        }
        return sets[None] if list(sets) == [None] else HeteroItemSet(sets)  # type: ignore[arg-type]
