"""Partitioned structure: each rank has the in-edges of its own nodes, and answers other ranks' requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from ..graph.storage import make_graph
from ..io.unpack import metagraph_of
from ..structure import Adjacency
from ..structure.distinct import distinct
from .book import IdsByOwner
from .collectives import Collectives
from .parts import Part


@final
class PartTopology:
    """What a rank knows of the structure: types and numbers of all, and the in-edges of its part's nodes.

    Attributes
    ----------
    whole
        a graph with the types, numbers of nodes and numbers of edges of the whole graph, which has no edges to read.
    rows
        the part's edges, as a block: its sources are all nodes, its destinations the part's nodes, and after those of
        each type one without edges. Edges count from 0.
    """

    def __init__(self, part: Part) -> None:
        self.book, book, idtype = part.book, part.book, np.dtype(part.config.idtype)
        ntypes, etypes = book.ntypes, book.canonical_etypes
        counts = [ranges.count for ranges in book.nodes.values()]
        num_owned = [last - first for first, last in (ranges.range_of(book.partid) for ranges in book.nodes.values())]
        relations, rows = [], []
        for i, (etype, ranges) in enumerate(book.edges.items()):
            src, dst = ntypes.index(etype[0]), ntypes.index(etype[2])
            relations.append(Adjacency(counts[src], counts[dst], ranges.count, idtype))
            indptr, indices = part.rows(i)
            matrix = np.append(indptr, indptr[-1]), indices, None, idtype
            rows.append(Adjacency.from_csc(counts[src], num_owned[dst] + 1, *matrix, copy=False, validate=False))
        self.whole = make_graph(metagraph_of(ntypes, etypes), tuple(relations), counts)
        self.rows = make_graph(
            metagraph_of(ntypes, etypes, ntypes), tuple(rows), [*counts, *(n + 1 for n in num_owned)]
        )
        self.whole.numpy_idtype = self.rows.numpy_idtype = idtype
        self.node_ranges, self.edge_ranges = list(book.nodes.values()), list(book.edges.values())

    def first_edge(self, relation: int) -> int:
        """Return the id of the part's first edge of a relation."""
        return self.edge_ranges[relation].range_of(self.book.partid)[0]

    def first_node(self, node_set: int) -> int:
        """Return the id of the part's first node of a type."""
        return self.node_ranges[node_set].range_of(self.book.partid)[0]

    def find_edges(
        self, exchange: Collectives, edges: Callable[[], list[tuple[int, np.ndarray]]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the ends of edges of any rank, for each (relation, ids) of ``edges``; all ranks call it."""
        by_owner: list[tuple[int, IdsByOwner]] = []

        def requests() -> list[np.ndarray]:
            by_owner.extend((i, IdsByOwner(self.edge_ranges[i], ids)) for i, ids in edges())
            relations = np.array([i for i, _ in by_owner], np.int64)
            return [packed([relations, *(ids.ids_of(rank) for _, ids in by_owner)]) for rank in range(exchange.world)]

        def answer(request: np.ndarray) -> list[np.ndarray]:
            relations, *id_arrays = unpacked(request, [np.int64])
            ends = []
            for i, ids in zip(relations.tolist(), id_arrays, strict=True):
                stored, at, dst = self.rows.adjacencies[i].csc(), ids - self.first_edge(i), self.ends[i][1]
                ends.append(stored.indices[at].astype(np.int64))
                ends.append(np.searchsorted(stored.indptr, at, "right") - 1 + self.first_node(dst))
            return ends

        answers = [unpacked(data, [np.int64]) for data in ask(exchange, "finding edges", requests, answer)]
        ends = [np.concatenate(pieces) for pieces in zip(*answers, strict=True)]
        return [(ids.restored(ends[2 * k]), ids.restored(ends[2 * k + 1])) for k, (_, ids) in enumerate(by_owner)]

    def in_degrees(self, exchange: Collectives, relation: int, nodes: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the in-degrees of nodes of any rank; all ranks call it."""
        dst = self.ends[relation][1]
        by_owner: list[IdsByOwner] = []

        def requests() -> list[np.ndarray]:
            by_owner.append(IdsByOwner(self.node_ranges[dst], nodes()))
            return [packed([by_owner[0].ids_of(rank)]) for rank in range(exchange.world)]

        def answer(request: np.ndarray) -> list[np.ndarray]:
            (ids,) = unpacked(request, [np.int64])
            return [np.diff(self.rows.adjacencies[relation].csc().indptr)[ids - self.first_node(dst)].astype(np.int64)]

        answers = ask(exchange, "reading in-degrees", requests, answer)
        return by_owner[0].restored(np.concatenate([unpacked(data, [np.int64])[0] for data in answers]))

    @property
    def ends(self) -> Sequence[tuple[int, int]]:
        """The source and the destination node set of each relation."""
        return self.whole.type_graph.ends

    def sources(self) -> list[np.ndarray]:
        """Return by node set the sources of the part's edges, ascending."""
        sources = [[np.empty(0, np.int64)] for _ in self.node_ranges]
        for adjacency, (src, _) in zip(self.rows.adjacencies, self.ends, strict=True):
            sources[src].append(distinct(adjacency.csc().indices))
        return [distinct(np.concatenate(ids)).astype(np.int64) for ids in sources]

    def weigh(self, name: str, columns: Sequence[Any]) -> None:
        """Give the part's edges a feature; None for a relation without it."""
        for i, column in enumerate(columns):
            if column is not None:
                self.rows.edge_frame_at(i)[name] = column


# -- questions and answers ---------------------------------------------------------------------------------------------
def ask(
    exchange: Collectives,
    step: str,
    requests: Callable[[], list[np.ndarray]],
    answer: Callable[[np.ndarray], list[np.ndarray]],
) -> list[np.ndarray]:
    """Send bytes to each rank, and return what each answers: :func:`packed` arrays. Two messages to each.

    All ranks raise the same error where one fails in ``requests`` or in ``answer``.
    """
    received = _exchanged(exchange, step, "requests", requests)
    return _exchanged(exchange, step, "neighbours", lambda: [packed(answer(request)) for request in received])


def _exchanged(exchange: Collectives, step: str, kind: str, make: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    pieces, failed = [np.empty(0, np.uint8)] * exchange.world, None
    try:
        pieces = make()
    except Exception as error:
        failed = error
    sizes = [len(piece) for piece in pieces]
    received, coming = exchange.send(step, kind, torch.from_numpy(np.concatenate(pieces)), sizes, failed)
    return np.split(received.numpy(), np.cumsum(coming)[:-1])


def packed(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bytes of some arrays, each of which begins at a multiple of 8."""
    pieces: list[np.ndarray] = [np.array([len(arrays), *(array.nbytes for array in arrays)], np.int64).view(np.uint8)]
    for array in arrays:
        pieces += [np.ascontiguousarray(array).view(np.uint8).reshape(-1), np.zeros(-array.nbytes % 8, np.uint8)]
    return np.concatenate(pieces)


def unpacked(data: np.ndarray, dtypes: Sequence[Any]) -> list[np.ndarray]:
    """Return the arrays that were :func:`packed`; the last one of ``dtypes`` is that of all that follow."""
    count = int(data[:8].view(np.int64)[0])
    at, arrays = 8 * (count + 1), []
    for i, size in enumerate(data[8:at].view(np.int64).tolist()):
        arrays.append(data[at : at + size].view(dtypes[min(i, len(dtypes) - 1)]))
        at += size + -size % 8
    return arrays
