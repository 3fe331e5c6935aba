"""``DistGraph``: a graph with partitioned features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.ids import integer_array
from .book import CanonicalEtype, PartitionBook
from .collectives import TIMEOUT, Collectives
from .config import PartConfig
from .dgl_parts import read_config
from .fetch import fetch
from .parts import Part, load_topology
from .queries import GraphQueries
from .store import RowStore
from .tensor import DistTensor, PartitionPolicy, TensorNames
from .topology import PartTopology


class DistGraph(GraphQueries):
    """A partitioned graph: each rank has the features that its part owns. All ranks make it together.

    Its structure is replicated: that of the whole graph is mapped from a file, which the processes of a machine share,
    so that sampling asks nobody. Or it is partitioned: each rank has the in-edges of its own nodes, and sampling a hop
    is an exchange; batches are the same.

    Raises RankError: on any rank: files are missing, damaged, of another graph, or of another partition than that of
    the other ranks; the number of ranks is not that of the parts, or of a replicated structure a multiple of it; or
    ``topology`` or ``reads`` is something else, or differs.

    Parameters
    ----------
    graph_name
        name that the graph was partitioned under.
    part_config
        the JSON file that :func:`partition_graph` wrote, where this rank finds it.
    verify
        read this part's files and the structure in full and compare them with what was written; sizes always are.
    timeout
        seconds that exchanges wait for the slowest rank.
    topology
        ``"replicated"`` or ``"partitioned"``, where a machine needs its own parts' folders and the JSON file only, and
        :meth:`find_edges`, :meth:`in_degrees` and :meth:`original_ids` are exchanges.
    reads
        ``"collective"``: all ranks read rows together. ``"one-sided"``, for a replicated structure: each rank reads and
        writes rows whenever it likes, and loaders of different ranks may have different numbers of batches. Features
        are then copied into shared memory, and ranks of other machines are asked over a socket.
    gpb
        accepted for DGL's sake: the partition book is read with the parts.

    Attributes
    ----------
    exchange
        what ranks tell each other through, in the thread that trains.
    store
        connects ranks for one-sided reads, or None.
    names
        the persistent tensors.
    partitioned
        what this rank knows of a partitioned structure, else None.
    ndata, edata
        features of the only node type and of the only edge type, :class:`DistTensor` by name.
    """

    def __init__(
        self,
        graph_name: str,
        part_config: Any,
        verify: bool = False,
        timeout: float = TIMEOUT,
        topology: str = "replicated",
        gpb: Any = None,
        reads: str = "collective",
    ) -> None:
        self.exchange = exchange = self._collectives(timeout)
        self.timeout, self.graph_name = timeout, graph_name
        step = "reading the partition's JSON file"
        if exchange.rank == 0:  # writes a partition of DGL again, which the others read
            exchange.together(step, lambda: read_config(part_config))
        else:
            exchange.together(step, lambda: None)
        config = exchange.together(step, lambda: self._config(part_config))
        exchange.same("the version of the partition", config.hash[:16])
        exchange.same("topology and reads", (topology, reads))
        self.config = config
        self._part, structure = exchange.together("opening the parts", lambda: self._opened(verify, topology, reads))
        self._book = self._part.book
        self.partitioned = structure if isinstance(structure, PartTopology) else None
        self._replicated = structure if isinstance(structure, DGLGraph) else None
        self.store = RowStore(exchange) if reads == "one-sided" else None
        self.names = TensorNames(self._policies)
        self._original: dict[str, list[Any]] = {}
        self._frames: dict[str, dict[Any, dict[str, DistTensor]]] = {}
        for kind in ("node", "edge"):
            self._original[kind] = self._original_ids(kind)
            features = self._part.features(kind)
            self._frames[kind] = {type_: self._tensors(kind, type_, columns) for type_, columns in features.items()}
        self.nodes, self.edges = _Types(self, "node"), _Types(self, "edge")

    def _collectives(self, timeout: float) -> Collectives:
        return Collectives(timeout)

    def _config(self, part_config: Any) -> PartConfig:
        config = read_config(part_config)
        if config.graph_name != self.graph_name:
            raise DGLError(f"{part_config} is of graph {config.graph_name!r}, not of {self.graph_name!r}")
        if self.exchange.world % config.num_parts:
            raise DGLError(
                f"{part_config} has {config.num_parts} parts, but there are {self.exchange.world} processes; start "
                "one, or the same number, for each part (torchrun --nproc-per-node and --nnodes), or partition the "
                "graph again"
            )
        return config

    def _opened(self, verify: bool, topology: str, reads: str) -> tuple[Part, DGLGraph | PartTopology]:
        for name, value, values in (
            ("topology", topology, ("replicated", "partitioned")),
            ("reads", reads, ("collective", "one-sided")),
        ):
            if value not in values:
                raise DGLError(f"{name}={value!r} is not understood; expected {values[0]!r} or {values[1]!r}")
        rank, count = self.exchange.rank, self.exchange.world // self.config.num_parts
        if topology == "partitioned":
            if count > 1 or reads == "one-sided":
                raise DGLError(
                    "topology='partitioned' needs one process for each part, and reads='collective'; use 'replicated'"
                )
            part = Part(self.config, rank, verify)
            return part, PartTopology(part)
        graph = load_topology(self.config, verify)
        indptrs = [adjacency.csc().indptr for adjacency in graph.adjacencies]
        book = None if count == 1 else self.config.divided_book(rank, count, indptrs)
        return Part(self.config, rank // count, verify, book), graph

    def _original_ids(self, kind: str) -> list[Any]:
        """Return by type the ids before the graph was partitioned: of all, or those of this rank's part."""
        types, whole = self._book.ranges_by_type(kind), self._replicated
        if whole is not None:
            frame_of = whole.node_frame_at if kind == "node" else whole.edge_frame_at
            return [frame_of(i).pop("orig_id") for i in range(len(types))]
        return [self._tensors(kind, t, {"orig_id": self._own_original(kind, t)})["orig_id"] for t in types]

    def _own_original(self, kind: str, type_: Any) -> Tensor:
        """Return the ids of this rank's part before the graph was partitioned."""
        return active.from_numpy(self._part.original_ids(kind, self._number(kind, type_)))

    def _number(self, kind: str, type_: Any) -> int:
        """Return the place of a type among those of its kind."""
        return list(self._book.ranges_by_type(kind)).index(self._book.type_of(kind, type_))

    def _tensors(self, kind: str, type_: Any, columns: Mapping[str, Tensor]) -> dict[str, DistTensor]:
        policy, tensors = self._policy(kind, type_), {}
        for name, rows in columns.items():
            shape = (policy.get_size(), *rows.shape[1:])
            tensors[name] = DistTensor(
                shape, rows.dtype, f"{name!r} of {kind}s {type_!r}", lambda *_, r=rows: r, part_policy=policy
            )
        return tensors

    # -- what is there -----------------------------------------------------------------------------------------------
    @property
    def topology(self) -> DGLGraph:
        """The replicated structure of the whole graph, without features.

        Those that sampling reads, such as weights of edges, can be put there. Raises ``DGLError`` for a partitioned
        one, of which sampling reads the graph's own features.
        """
        if self._replicated is None:
            raise DGLError("the topology is partitioned: no process has it all; open the graph with 'replicated'")
        return self._replicated

    def get_partition_book(self) -> PartitionBook:
        """Return the partition book: which part owns which ids."""
        return self._book

    def get_node_partition_policy(self, ntype: str | None = None) -> PartitionPolicy:
        """Return which part owns which nodes of a type, for a :class:`DistTensor`."""
        return self._policy("node", ntype)

    def get_edge_partition_policy(self, etype: Any = None) -> PartitionPolicy:
        """Return which part owns which edges of a type."""
        return self._policy("edge", etype)

    def _policy(self, kind: str, type_: Any) -> PartitionPolicy:
        ranges, original = self._book.ranges_of(kind, type_), self._own_original(kind, type_)
        return PartitionPolicy(self.exchange, ranges, original, self.store, self._book, self.names)

    def _policies(self) -> list[PartitionPolicy]:
        return [self._policy(kind, type_) for kind in ("node", "edge") for type_ in self._book.ranges_by_type(kind)]

    @property
    def ntypes(self) -> list[str]:
        """The node types."""
        return self._book.ntypes

    @property
    def etypes(self) -> list[str]:
        """The names of the edge types."""
        return self._book.etypes

    @property
    def canonical_etypes(self) -> list[CanonicalEtype]:
        """The edge types as (source type, name, destination type)."""
        return self._book.canonical_etypes

    def num_nodes(self, ntype: str | None = None) -> int:
        """Return the number of nodes of all parts, of a type or of all."""
        return self._count("node", ntype)

    def num_edges(self, etype: Any = None) -> int:
        """Return the number of edges of all parts, of a type or of all."""
        return self._count("edge", etype)

    def _count(self, kind: str, type_: Any) -> int:
        ranges = self._book.ranges_by_type(kind).values() if type_ is None else [self._book.ranges_of(kind, type_)]
        return sum(part.count for part in ranges)

    number_of_nodes, number_of_edges = num_nodes, num_edges

    def rank(self) -> int:
        """Return the number of this process, which is that of its part."""
        return self.exchange.rank

    def barrier(self) -> None:
        """Wait for all ranks. What they wrote before it, all read after it."""
        self.exchange.barrier()

    def local_partition(self) -> DGLGraph:
        """Return this part as a graph, as :func:`load_partition` does."""
        return self._part.graph()

    def in_degrees(self, v: Any, etype: Any = None) -> Tensor:
        """Return the in-degrees of nodes of any rank."""
        if self.partitioned is None:
            return self.topology.in_degrees(v, etype)
        whole = self.partitioned.whole
        relation = whole.etype_id(etype)
        ranges = self.partitioned.node_ranges[self.partitioned.ends[relation][1]]
        return whole.ids_tensor(self.partitioned.in_degrees(self.exchange, relation, lambda: ranges.checked(v)))

    def find_edges(self, edges: Any, etype: Any = None) -> tuple[Tensor, Tensor]:
        """Return the ends of edges of any rank."""
        if self.partitioned is None:
            return self.topology.find_edges(edges, etype)
        whole = self.partitioned.whole
        relation = whole.etype_id(etype)
        ends = self.partitioned.find_edges(self.exchange, lambda: [(relation, whole.edge_ids_of(edges, relation))])
        ((src, dst),) = ends
        return whole.ids_tensor(src), whole.ids_tensor(dst)

    def original_ids(self, kind: str, type_: Any, ids: Any) -> Tensor:
        """Return the ids that nodes, or edges, of a type had before the graph was partitioned."""
        ranges, column = self._book.ranges_of(kind, type_), self._original[kind][self._number(kind, type_)]
        return column.rows(ids) if isinstance(column, DistTensor) else active.take(column, ranges.checked(ids))

    def original_sources(self) -> Callable[[int, np.ndarray], np.ndarray]:
        """Return what tells sources of edges that this rank draws, of relation i, the ids that they had before.

        An exchange where the topology is partitioned.
        """
        columns = self._original["node"]
        if self.partitioned is None:
            before, types = [integer_array(column) for column in columns], self.topology.type_graph.ends
            return lambda i, far: before[types[i][0]][far]
        sources, ends = self.partitioned.sources(), self.partitioned.ends
        originals = [integer_array(ids) for ids in fetch(self.exchange, list(zip(columns, sources, strict=True)))]
        return lambda i, far: originals[ends[i][0]][np.searchsorted(sources[ends[i][0]], far)]

    # -- features ----------------------------------------------------------------------------------------------------
    @property
    def ndata(self) -> dict[str, DistTensor]:
        """Features of the only node type, by name."""
        return self.frame("node", None)

    @property
    def edata(self) -> dict[str, DistTensor]:
        """Features of the only edge type, by name."""
        return self.frame("edge", None)

    def frame(self, kind: str, type_: Any) -> dict[str, DistTensor]:
        """Return the features of a type of ``kind`` ``"node"`` or ``"edge"``; None means the only type."""
        return self._frames[kind][self._book.type_of(kind, type_)]

    def tensor(self, kind: str, type_: Any, name: str) -> DistTensor:
        """Return a feature. Raises ``DGLError`` where the type or the feature does not exist."""
        columns = self.frame(kind, type_)
        if name not in columns:
            raise DGLError(f"{kind}s of type {type_!r} have no feature {name!r}; they have {sorted(columns)}")
        return columns[name]


@final
class _Types(Mapping[Any, Any]):
    """Features by type: ``g.nodes[ntype].data[name]``."""

    def __init__(self, g: DistGraph, kind: str) -> None:
        self._g, self._kind = g, kind

    def __getitem__(self, type_: Any) -> SimpleNamespace:
        return SimpleNamespace(data=self._g.frame(self._kind, type_))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._g.get_partition_book().ranges_by_type(self._kind))

    def __len__(self) -> int:
        return len(self._g.get_partition_book().ranges_by_type(self._kind))
