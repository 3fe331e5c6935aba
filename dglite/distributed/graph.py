"""A graph whose features are in parts: what training starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from .book import CanonicalEtype, PartitionBook, Ranges
from .collectives import TIMEOUT, Collectives
from .config import PartConfig
from .parts import Part, load_topology
from .tensor import DistTensor, PartitionPolicy

__all__ = ["DistGraph"]


@final
class DistGraph:
    """A partitioned graph, of which each rank has the features that its part owns.

    The structure of the whole graph is mapped from a file, which the processes of a machine share, so that sampling
    asks nobody. Made by all ranks together.

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

    Attributes
    ----------
    exchange
        what ranks tell each other through, in the thread that trains.
    topology
        the structure of the whole graph, without features; those that sampling reads, such as weights of edges, can be
        put there.
    ndata, edata
        features of the only node type and of the only edge type, :class:`DistTensor` by name.

    Raises
    ------
    RankError
        On any rank: files are missing, damaged, of another graph, or of another partition than that of the other
        ranks; or there are not as many ranks as parts.
    """

    def __init__(self, graph_name: str, part_config: Any, verify: bool = False, timeout: float = TIMEOUT) -> None:
        self.exchange = exchange = Collectives(timeout)
        self.timeout, self.graph_name = timeout, graph_name
        config = exchange.together("reading the partition's JSON file", lambda: self._config(part_config))
        exchange.same("the version of the partition", config.hash[:16])
        self.config = config
        self._part, self.topology = exchange.together("opening the parts", lambda: self._opened(verify))
        self._book = self._part.book
        self._original = {
            "node": [self.topology._node_frame(i).pop("orig_id") for i in range(len(self._book.nodes))],
            "edge": [self.topology._edge_frame(i).pop("orig_id") for i in range(len(self._book.edges))],
        }
        self._frames: dict[str, dict[Any, dict[str, DistTensor]]] = {}
        for kind in ("node", "edge"):
            features = self._part.features(kind)
            self._frames[kind] = {type_: self._tensors(kind, type_, of) for type_, of in features.items()}
        self.nodes, self.edges = _Types(self, "node"), _Types(self, "edge")

    def _config(self, part_config: Any) -> PartConfig:
        config = PartConfig.read(part_config)
        if config.graph_name != self.graph_name:
            raise DGLError(f"{part_config} is of graph {config.graph_name!r}, not of {self.graph_name!r}")
        if config.num_parts != self.exchange.world:
            raise DGLError(
                f"{part_config} has {config.num_parts} parts, but there are {self.exchange.world} processes; start "
                "one for each part (torchrun --nproc-per-node and --nnodes), or partition the graph again"
            )
        return config

    def _opened(self, verify: bool) -> tuple[Part, DGLGraph]:
        return Part(self.config, self.exchange.rank, verify), load_topology(self.config, verify)

    def _tensors(self, kind: str, type_: Any, columns: Mapping[str, Tensor]) -> dict[str, DistTensor]:
        policy, found = self._policy(kind, type_), {}
        for name, rows in columns.items():
            shape = (policy.get_size(), *rows.shape[1:])
            found[name] = DistTensor(
                shape, rows.dtype, f"{name!r} of {kind}s {type_!r}", lambda *_, r=rows: r, part_policy=policy
            )
        return found

    # -- what is there -----------------------------------------------------------------------------------------------
    def get_partition_book(self) -> PartitionBook:
        """Return who owns what."""
        return self._book

    def get_node_partition_policy(self, ntype: str | None = None) -> PartitionPolicy:
        """Return who owns which nodes of a type, to make a :class:`DistTensor` of."""
        return self._policy("node", ntype)

    def get_edge_partition_policy(self, etype: Any = None) -> PartitionPolicy:
        """Return who owns which edges of a type."""
        return self._policy("edge", etype)

    def _policy(self, kind: str, type_: Any) -> PartitionPolicy:
        ranges = self._book.ranges_of(kind, type_)
        first, last = ranges.of(self.exchange.rank)
        return PartitionPolicy(self.exchange, ranges, self._column(kind, ranges)[first:last])

    def _column(self, kind: str, ranges: Ranges) -> Tensor:
        """Return the ids that all nodes, or edges, of a type had before the graph was partitioned."""
        of = self._book.nodes if kind == "node" else self._book.edges
        (column,) = [c for c, own in zip(self._original[kind], of.values(), strict=True) if own is ranges]
        return column

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
        ranges = self._book.nodes.values() if ntype is None else [self._book.ranges_of("node", ntype)]
        return sum(of.count for of in ranges)

    def num_edges(self, etype: Any = None) -> int:
        """Return the number of edges of all parts, of a type or of all."""
        ranges = self._book.edges.values() if etype is None else [self._book.ranges_of("edge", etype)]
        return sum(of.count for of in ranges)

    number_of_nodes, number_of_edges = num_nodes, num_edges

    def rank(self) -> int:
        """Return the number of this process, which is that of its part."""
        return self.exchange.rank

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.exchange.barrier()

    def local_partition(self) -> DGLGraph:
        """Return this part as a graph, as :func:`load_partition` does."""
        return self._part.graph()

    def in_degrees(self, v: Any, etype: Any = None) -> Tensor:
        """Return the in-degrees of nodes, wherever they are."""
        return self.topology.in_degrees(v, etype)

    def find_edges(self, edges: Any, etype: Any = None) -> tuple[Tensor, Tensor]:
        """Return the ends of edges, wherever they are."""
        return self.topology.find_edges(edges, etype)

    def original_ids(self, kind: str, type_: Any, ids: Any) -> Tensor:
        """Return the ids that nodes, or edges, of a type had before the graph was partitioned."""
        ranges = self._book.ranges_of(kind, type_)
        return active.take(self._column(kind, ranges), ranges.checked(ids))

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
        ranges = self._book.ranges_of(kind, type_)
        of = self._book.nodes if kind == "node" else self._book.edges
        (name,) = [name for name, own in of.items() if own is ranges]
        return self._frames[kind][name]

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

    def __getitem__(self, type_: Any) -> _Data:
        return _Data(self._g.frame(self._kind, type_))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._g.ntypes if self._kind == "node" else self._g.canonical_etypes)

    def __len__(self) -> int:
        return len(self._g.ntypes if self._kind == "node" else self._g.canonical_etypes)


@final
class _Data:
    def __init__(self, data: dict[str, DistTensor]) -> None:
        self.data = data
