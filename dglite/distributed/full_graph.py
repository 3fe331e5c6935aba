"""Full-graph training over several ranks: each owns a range of nodes, and their in-edges.

What an edge needs of its source lies on another process where the source does: the rows of these sources, the *halo*,
are fetched before each layer, and their gradients are sent back after it. A sum begins with the edges whose sources are
at hand while the halo travels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from ..convert import create_block
from ..errors import DGLError
from ..graph import DGLGraph
from ..ops.rows import RowIndex, take_rows
from ..ops.sparse import spmm
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.distinct import distinct
from .collectives import TIMEOUT, Collectives
from .feature_split import check_range, check_starts, ids_of, message_of
from .halo import Route

ONLY_NODES, ONLY_EDGES = "_N", ("_N", "_E", "_N")
EdgeType = tuple[str, str, str]
T = TypeVar("T")


class FullGraph:
    """The part of a graph that this process owns: some nodes, all their in-edges, and the sources of these.

    Made by all processes of the group together. Their nodes are numbered so that each owns a range of every type:
    process r has those from ``starts[r]`` to ``starts[r + 1] - 1``, as :func:`partition_graph` numbers them. A process
    may own no nodes, or none with edges.

    Raises RankError: on every process alike: ``starts`` differ or do not fit the processes; an edge ends elsewhere; the
    graph lacks an id; a type is unknown.

    Parameters
    ----------
    edges
        (src, dst), int64 ids of the whole graph, of the edges that end in nodes of this process, in any order; for
        several types a mapping from (source type, edge type, destination type) to such pairs.
    starts
        for each process the first node that it owns, then the number of nodes; for several types a mapping. The same on
        every process.
    group
        processes of ``torch.distributed``; all by default.
    timeout
        seconds that exchanges wait for the slowest process.

    Attributes
    ----------
    block : DGLGraph
        The edges, in the order in which they were given, as a block: the first source nodes are the owned nodes, then
        come those of the halo. Any layer takes ``(block, (graph.sources(x), x))``. What a layer finds out about sources
        by itself is true of this process's edges only: for :class:`~dglite.nn.GraphConv` give ``norm="none"`` or
        ``"right"`` and :meth:`gcn_weights`.
    halo : dict of str to Tensor
        For each node type the ids of the sources that other processes own, ascending.
    exchange : Collectives
        What processes tell each other through, over a group of their own; ``exchange.sent`` and ``exchange.received``
        count bytes: ``"ids"``, ``"halos"``, ``"gradients"``.
    bytes : Counter
        ``exchange.received``.
    """

    def __init__(self, edges: Any, starts: Any, group: Any = None, *, timeout: float = TIMEOUT) -> None:
        self.exchange = exchange = Collectives(timeout, group, None)
        self.rank, self.world, self.bytes = exchange.rank, exchange.world, exchange.received
        self.starts = {
            ntype: [int(start) for start in bounds]
            for ntype, bounds in (starts if isinstance(starts, Mapping) else {ONLY_NODES: starts}).items()
        }
        edges_by_type = dict(edges) if isinstance(edges, Mapping) else {ONLY_EDGES: edges}
        step, none = "making a FullGraph", np.empty(0, np.int64)
        local_ends = exchange.together(
            step, lambda: {etype: self._checked(etype, *pair) for etype, pair in edges_by_type.items()}
        )
        exchange.same("the ranges of nodes (starts)", self.starts)
        etypes = sorted(
            {etype for types_of_rank in exchange.gather_objects(step, list(edges_by_type)) for etype in types_of_rank}
        )
        ends = {etype: local_ends.get(etype, (none, none)) for etype in etypes}
        self.halo: dict[str, torch.Tensor] = {}
        self._routes: dict[str, Route] = {}
        for ntype in sorted(self.starts):
            sources = [src for (src_type, _, _), (src, _) in ends.items() if src_type == ntype]
            self._connect(ntype, np.concatenate(sources) if sources else np.empty(0, np.int64))
        self._sums = {etype: self._split(etype, *pair) for etype, pair in ends.items()}
        self.block = self._make_block(ends)

    # -- making --------------------------------------------------------------------------------------------------------
    def _checked(self, etype: EdgeType, src: Any, dst: Any) -> tuple[np.ndarray, np.ndarray]:
        for ntype, starts in self.starts.items():
            check_starts(starts, self.world, f"starts of node type {ntype!r}")
        if etype[0] not in self.starts or etype[2] not in self.starts:
            raise DGLError(f"edge type {etype} has a node type that starts do not have: {sorted(self.starts)}")
        pair = ids_of(src, f"sources of {etype}"), ids_of(dst, f"destinations of {etype}")
        if len(pair[0]) != len(pair[1]):
            raise DGLError(f"edge type {etype} has {len(pair[0])} sources and {len(pair[1])} destinations")
        first, last = self._range(etype[2])
        check_range(pair[0], 0, self.starts[etype[0]][-1], f"sources of {etype}")
        check_range(pair[1], first, last, f"destinations of {etype}: those of this process")
        return pair

    def _range(self, ntype: str) -> tuple[int, int]:
        starts = self.starts[ntype]
        return starts[self.rank], starts[self.rank + 1]

    def _connect(self, ntype: str, sources: np.ndarray) -> None:
        """Find the halo of a node type, and tell its owners, once, which rows to send from now on."""
        first, last = self._range(ntype)
        halo = distinct(sources[(sources < first) | (sources >= last)])
        receive_counts = np.diff(np.searchsorted(halo, self.starts[ntype])).tolist()
        sent_ids, send_counts = self.exchange.send("finding halos", "ids", torch.from_numpy(halo), receive_counts)
        self.halo[ntype] = torch.from_numpy(halo)
        self._routes[ntype] = Route(self.exchange, last - first, sent_ids.numpy() - first, send_counts, receive_counts)

    def _local(self, ntype: str, ids: np.ndarray) -> np.ndarray:
        """Return the places of global ids among the sources: owned nodes, then the halo."""
        first, last = self._range(ntype)
        outside = (ids < first) | (ids >= last)
        return np.where(outside, last - first + np.searchsorted(self.halo[ntype].numpy(), ids), ids - first)

    def _split(self, etype: EdgeType, src: np.ndarray, dst: np.ndarray) -> _Halves:
        """Return the edges by whether their sources are at hand."""
        (first, last), (first_dst, last_dst) = self._range(etype[0]), self._range(etype[2])
        far = self._local(etype[0], src) - (last - first)
        outside = far >= 0
        inner, others = np.flatnonzero(~outside), np.flatnonzero(outside)
        num_own, num_far, num_dst = last - first, len(self.halo[etype[0]]), last_dst - first_dst
        return _Halves(
            (Adjacency.from_coo(num_own, num_dst, src[inner] - first, dst[inner] - first_dst), RowIndex(inner)),
            (Adjacency.from_coo(num_far, num_dst, far[others], dst[others] - first_dst), RowIndex(others)),
            torch.from_numpy(np.bincount(dst - first_dst, minlength=num_dst)),
        )

    def _make_block(self, ends: dict[EdgeType, tuple[np.ndarray, np.ndarray]]) -> DGLGraph:
        edges = {
            etype: (torch.from_numpy(self._local(etype[0], src)), torch.from_numpy(dst - self._range(etype[2])[0]))
            for etype, (src, dst) in ends.items()
        }
        owned = {ntype: self.num_nodes(ntype) for ntype in self.starts}
        return create_block(
            edges,
            {etype[0]: owned[etype[0]] + len(self.halo[etype[0]]) for etype in edges},
            {etype[2]: owned[etype[2]] for etype in edges},
        )

    # -- use -----------------------------------------------------------------------------------------------------------
    def num_nodes(self, ntype: str | None = None) -> int:
        """Return how many nodes of a type this process owns."""
        first, last = self._range(self._only(self.starts, ntype, "node type"))
        return last - first

    def sources(self, x: Any) -> Any:
        """Return the rows of the block's source nodes: those of this process, then those of the halo.

        Parameters
        ----------
        x : Tensor or dict of str to Tensor
            (owned nodes, *feat), for several node types by type. All processes call this together, in the same order.

        Returns
        -------
        Tensor or dict of str to Tensor
            (owned nodes + halo, *feat). Gradients go back to the processes that own the rows.
        """
        if isinstance(x, Mapping):
            flights = {ntype: self._routes[ntype].send(x[ntype]) for ntype in sorted(x)}
            return {ntype: torch.cat([x[ntype], flight.land()]) for ntype, flight in flights.items()}
        ntype = self._only(self.starts, None, "node type")
        return torch.cat([x, self._routes[ntype].send(x).land()])

    def aggregate(
        self,
        x: torch.Tensor,
        edge_weight: torch.Tensor | None = None,
        reduce: str = "sum",
        etype: EdgeType | None = None,
    ) -> torch.Tensor:
        """Return the sum or mean over in-edges of the sources' rows, times weights; 0 for a node without in-edges.

        The edges whose sources this process owns are summed while the halo travels, and likewise in backward.

        Parameters
        ----------
        x
            (owned source nodes, *feat), floating.
        edge_weight
            (edges,) or (edges, 1, ...) that broadcasts with ``x``; in the order of the edges.
        reduce
            ``"sum"`` or ``"mean"``.

        Returns
        -------
        Tensor
            (owned destination nodes, *feat).
        """
        etype = self._only(self._sums, etype, "edge type")
        if reduce not in ("sum", "mean"):
            raise DGLError(f"got reduce={reduce!r}; expected 'sum' or 'mean': others take graph.block")
        halves, flight = self._sums[etype], self._routes[etype[0]].send(x)
        if edge_weight is not None and edge_weight.ndim == 1:
            edge_weight = edge_weight.reshape(-1, *[1] * (x.ndim - 1))
        total = halves.sum(0, x, edge_weight)
        total = total + halves.sum(1, flight.land(), edge_weight)
        if reduce == "mean":
            total = total / halves.degrees.clamp(min=1).to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
        return total

    def in_degrees(self, etype: EdgeType | None = None) -> torch.Tensor:
        """Return the numbers of in-edges of the owned nodes, int64."""
        return self._sums[self._only(self._sums, etype, "edge type")].degrees

    def out_degrees(self, etype: EdgeType | None = None) -> torch.Tensor:
        """Return the numbers of out-edges of the owned nodes in the whole graph, int64. All processes call it."""
        etype = self._only(self._sums, etype, "edge type")
        count = self.num_nodes(etype[0])
        here = self.block.out_degrees(etype=etype).to(torch.int64)
        route = self._routes[etype[0]]
        degrees = here[:count].clone()
        others = self.exchange.reply("counting out-edges", "ids", here[count:], route.receive_counts, route.send_counts)
        return degrees.index_add_(0, torch.from_numpy(route.rows.rows), others)

    def gcn_weights(self, etype: EdgeType | None = None) -> torch.Tensor:
        """Return 1 / sqrt(out-degree of the source * in-degree of the destination) of every edge, float32.

        It is what ``GraphConv(norm="both")`` scales messages by (Kipf and Welling, 2017); degrees count from 1. All
        processes call it.
        """
        etype = self._only(self._sums, etype, "edge type")
        out = self._routes[etype[0]].send(self.out_degrees(etype)).land()
        src, dst = (ends.long() for ends in self.block.edges(etype=etype))
        degrees = torch.cat([self.out_degrees(etype), out])[src] * self.in_degrees(etype)[dst]
        return degrees.clamp(min=1).to(torch.float32).rsqrt()

    def _only(self, choices: Iterable[T], value: T | None, kind: str) -> T:
        names = list(choices)
        if value is None and len(names) == 1:
            return names[0]
        if value not in names:
            raise DGLError(f"got {kind} {value!r}; expected one of {names}")
        return value  # type: ignore[return-value]


class _Halves:
    """The edges of a type: those whose sources are at hand, and those of the halo."""

    def __init__(
        self, near: tuple[Adjacency, RowIndex], far: tuple[Adjacency, RowIndex], degrees: torch.Tensor
    ) -> None:
        self._parts, self.degrees = (near, far), degrees

    def sum(self, part: int, x: torch.Tensor, edge_weight: torch.Tensor | None) -> torch.Tensor:
        """Return the sums over the edges of one part."""
        adj, edges = self._parts[part]
        expr = message_of(edge_weight is not None)
        weights = () if edge_weight is None else (take_rows(edge_weight, edges),)
        sums: torch.Tensor = spmm(adj, expr, Reducer.SUM, (x, *weights))
        return sums
