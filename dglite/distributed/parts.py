"""Reading a part from disk: its structure, features, and graph."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..io import load_graphs
from ..io.container import Container
from ..io.unpack import metagraph_of
from ..structure import Adjacency
from ..structure.compressed import check_indptr
from ..structure.ids import positions_of
from .book import CanonicalEtype, PartitionBook
from .config import PartConfig, part_files
from .dgl_parts import read_config
from .partition import KIND


@final
class Part:
    """A part's files, mapped, of which the rank of ``book`` owns all or a range.

    Raises DGLError: a file is missing, cut short or not what was written, or arrays do not fit the partition book.

    Parameters
    ----------
    config, part_id
        the partition, and the part.
    verify
        compare the files with what was written.
    book
        a partition book whose ranges are those of the part, or inside of them; that of the partition by default.
    """

    def __init__(
        self, config: PartConfig, part_id: int, verify: bool = False, book: PartitionBook | None = None
    ) -> None:
        self.config, self._whole = config, config.book(part_id)
        self.book = self._whole if book is None else book
        files = part_files(config.graph_name, config.num_parts).parts[part_id]
        if verify:
            for name in files.values():
                config.verify(name)
        self._files = {kind: Container(config.place(name), KIND) for kind, name in files.items()}
        for kind, types in config.features.items():
            for i, names in enumerate(types):
                for name in names:
                    self._feature(kind, i, name)
        for i in range(len(config.edges)):
            self.rows(i)

    def _feature(self, kind: str, i: int, name: str) -> Tensor:
        first, last = list(self._whole.ranges_by_type(kind).values())[i].range_of(self._whole.partid)
        file = self._files[f"{kind}_feats"]
        rows = file.tensor(f"{i}/{name}")
        if active.shape(rows)[:1] != (last - first,):
            raise file.damaged(f"feature {name!r} has shape {active.shape(rows)}; expected {last - first} rows")
        return rows[self._range(kind, i)]

    def _range(self, kind: str, i: int) -> slice:
        """Return which rows of the part the rank owns."""
        first, last = list(self.book.ranges_by_type(kind).values())[i].range_of(self.book.partid)
        start, _ = list(self._whole.ranges_by_type(kind).values())[i].range_of(self._whole.partid)
        return slice(first - start, last - start)

    def features(self, kind: str) -> dict[Any, dict[str, Tensor]]:
        """Return the rows that the part owns of each feature, by type, then name."""
        types, names = self.book.ranges_by_type(kind), self.config.features[kind]
        return {type_: {name: self._feature(kind, i, name) for name in names[i]} for i, type_ in enumerate(types)}

    def array(self, name: str) -> np.ndarray:
        """Return an array of the part's structure."""
        return self._files["structure"].array(name)

    def original_ids(self, kind: str, i: int) -> np.ndarray:
        """Return the ids that nodes or edges of type ``i`` had before the graph was partitioned, of the rank's own."""
        return self.array(f"{kind}s.{i}.orig_id")[self._range(kind, i)]

    def rows(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the in-edges of the part's nodes by edge type ``i``: ``indptr``, and the ids of the sources."""
        etype, ranges = list(self._whole.edges.items())[i]
        first, last = self._whole.nodes[etype[2]].range_of(self._whole.partid)
        own_first, own_last = ranges.range_of(self._whole.partid)
        indptr, indices = self.array(f"edges.{i}.indptr"), self.array(f"edges.{i}.indices")
        if len(indices) != own_last - own_first:
            raise self._files["structure"].damaged(f"{len(indices)} edges of type {etype}, not {own_last - own_first}")
        check_indptr(indptr, last - first, len(indices))
        return indptr, indices

    def graph(self) -> DGLGraph:
        """Return the part as a graph: its own nodes first, then its halo; its own edges, then those of the halo."""
        book, etypes = self._whole, list(self._whole.edges)
        metagraph = metagraph_of(book.ntypes, etypes)
        nodes = []
        for i, ranges in enumerate(book.nodes.values()):
            nodes.append(np.concatenate([np.arange(*ranges.range_of(book.partid)), self.array(f"nodes.{i}.halo")]))
        places = dict(zip(book.ntypes, nodes, strict=True))
        relations, edges = [], []
        for i, (src_type, _, dst_type) in enumerate(etypes):
            indptr, indices = self.rows(i)
            inner_ids = np.arange(*book.edges[etypes[i]].range_of(book.partid))
            first = book.nodes[dst_type].range_of(book.partid)[0]
            src = np.concatenate([indices, self.array(f"edges.{i}.halo_src")])
            dst = np.repeat(np.arange(len(indptr) - 1) + first, np.diff(indptr))
            dst = np.concatenate([dst, self.array(f"edges.{i}.halo_dst")])
            ids = np.concatenate([inner_ids, self.array(f"edges.{i}.halo")])
            src, dst = positions_of(src, places[src_type]), positions_of(dst, places[dst_type])
            is_stored = src >= 0  # without hops there are only the edges inside
            counts = len(places[src_type]), len(places[dst_type])
            relations.append(Adjacency.from_coo(*counts, src[is_stored], dst[is_stored], np.dtype(np.int64)))
            edges.append(ids[is_stored])
        g = make_graph(metagraph, tuple(relations), [len(ids) for ids in nodes])
        for i, ranges in enumerate(book.nodes.values()):
            frame, inner = g.node_frame_at(i), ~ranges.outside(nodes[i], book.partid)
            frame[NID] = active.from_numpy(nodes[i])
            frame["inner_node"] = active.from_numpy(inner.astype(np.int32))
            frame["part_id"] = active.from_numpy(ranges.owners(nodes[i]))
        for i, edge_ranges in enumerate(book.edges.values()):
            frame, inner = g.edge_frame_at(i), ~edge_ranges.outside(edges[i], book.partid)
            frame[EID] = active.from_numpy(edges[i])
            frame["inner_edge"] = active.from_numpy(inner.astype(np.int8))
        return g


def load_partition_book(part_config: Any, part_id: int) -> tuple[PartitionBook, str, list[str], list[CanonicalEtype]]:
    """Return the partition book for a part, the graph's name, and its node and edge types.

    Raises DGLError: the file is missing or damaged, or there is no such part.
    """
    config = read_config(part_config)
    book = config.book(part_id)
    return book, config.graph_name, book.ntypes, book.canonical_etypes


def load_partition_feats(
    part_config: Any, part_id: int, load_nodes: bool = True, load_edges: bool = True
) -> tuple[dict[str, Tensor] | None, dict[str, Tensor] | None]:
    """Return the features of a part's nodes and edges, by ``"type/name"``; None for what is not wanted.

    An edge type is written ``"source:name:destination"``. Errors are those of :func:`load_partition`.
    """
    part = Part(read_config(part_config), part_id)
    features: list[dict[str, Tensor] | None] = []
    for kind, load in (("node", load_nodes), ("edge", load_edges)):
        columns_by_type = part.features(kind) if load else {}
        named = {
            f"{':'.join(type_) if isinstance(type_, tuple) else type_}/{name}": values
            for type_, columns in columns_by_type.items()
            for name, values in columns.items()
        }
        features.append(named if load else None)
    return features[0], features[1]


def load_partition(
    part_config: Any, part_id: int, load_feats: bool = True, use_graphbolt: bool = False
) -> tuple[Any, ...]:
    """Read a part. ``use_graphbolt`` is accepted for DGL's sake: ``dgl.graphbolt.from_dglgraph`` takes the graph.

    Raises DGLError: a file is missing, damaged or does not belong to the others, or there is no such part.

    Returns
    -------
    (graph, node features, edge features, book, name, ntypes, etypes)
        The graph of the part's nodes, then its halo, with ``NID``, ``EID``, ``inner_node``, ``part_id`` and
        ``inner_edge``; features as :func:`load_partition_feats` has them, empty without ``load_feats``.
    """
    config = read_config(part_config)
    part = Part(config, part_id)
    nodes, edges = load_partition_feats(part_config, part_id) if load_feats else ({}, {})
    return part.graph(), nodes, edges, part.book, config.graph_name, part.book.ntypes, part.book.canonical_etypes


def load_topology(config: PartConfig, verify: bool = False) -> DGLGraph:
    """Return the structure of the whole graph, mapped, with ``orig_id`` on nodes and edges.

    Raises ``DGLError``: the file is missing or damaged, or does not belong to the others.
    """
    name = part_files(config.graph_name, config.num_parts).graph
    if verify:
        config.verify(name)
    graph = load_graphs(config.place(name), mmap=True)[0][0]
    book = config.book(0)
    counts = [ranges.count for ranges in (*book.nodes.values(), *book.edges.values())]
    sizes = [graph.num_nodes(ntype) for ntype in graph.ntypes] + [a.num_edges for a in graph.adjacencies]
    if (graph.ntypes, graph.canonical_etypes, sizes) != (book.ntypes, book.canonical_etypes, counts):
        raise DGLError(f"{name} does not belong to {config.path}: types or numbers of nodes and edges differ")
    return graph
