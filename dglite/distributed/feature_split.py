"""Full-graph training with features that are split by columns during aggregation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..graph import DGLGraph
from ..ops.sparse import spmm
from ..opspec import Reducer
from ..structure.ids import integer_array
from .collectives import TIMEOUT, Collectives
from .halo import refuse_second_derivatives


def message_of(weighted: bool) -> Expr:
    """Return what an edge sends: its source's row, times the edge's weight where there are weights."""
    row = Operand(Side.U, 0)
    return row * Operand(Side.E, 1) if weighted else row


def ids_of(ids: Any, name: str) -> np.ndarray:
    return integer_array(ids, name).astype(np.int64)


def check_starts(starts: list[int], world: int, name: str) -> None:
    if len(starts) != world + 1 or starts[0] != 0 or any(a > b for a, b in pairwise(starts)):
        raise DGLError(
            f"{name} are {starts}; expected {world + 1} ascending numbers from 0: the first node of each of {world} "
            "processes, then the number of nodes"
        )


def check_range(ids: np.ndarray, first: int, last: int, name: str) -> None:
    outside = ids[(ids < first) | (ids >= last)]
    if len(outside):
        raise DGLError(f"{name}: got id {outside[0]}; expected ids from {first} to {last - 1}")


Turn = Callable[[torch.Tensor, str], torch.Tensor]


class FeatureSplit:
    """Sums over a whole graph, of which every process computes some columns of all rows (NeutronTP, Ai et al., 2024).

    Every process has the whole structure and owns a range of nodes, as in :class:`FullGraph`. Rows become columns
    before a sum and rows again after it, so each process receives ``2 * width * num_nodes / P`` numbers at most,
    whatever the graph is like: less than by halos where these are large, see :func:`plan_full_graph`.

    Raises RankError: on every process alike: ``starts`` differ, or do not fit the processes or the graph.

    Parameters
    ----------
    graph
        the whole graph, of one node and one edge type.
    starts
        as for :class:`FullGraph`.

    Attributes
    ----------
    exchange, bytes
        as of :class:`FullGraph`; what is counted is ``"columns"`` and ``"gradients"``.
    """

    def __init__(self, graph: DGLGraph, starts: Sequence[int], group: Any = None, *, timeout: float = TIMEOUT) -> None:
        self.exchange = exchange = Collectives(timeout, group, None)
        self.rank, self.world, self.bytes = exchange.rank, exchange.world, exchange.received
        self.graph, self.starts = graph, [int(start) for start in starts]
        exchange.together("making a FeatureSplit", self._check)
        exchange.same("the ranges of nodes (starts)", self.starts)
        self._counts = np.diff(self.starts).tolist()

    def _check(self) -> None:
        check_starts(self.starts, self.world, "starts")
        if self.starts[-1] != self.graph.num_nodes():
            raise DGLError(f"starts end at {self.starts[-1]}; the graph has {self.graph.num_nodes()} nodes")

    def aggregate(self, x: torch.Tensor, edge_weight: torch.Tensor | None = None, reduce: str = "sum") -> torch.Tensor:
        """Return the sum or mean over in-edges of the sources' rows, times weights; 0 for a node without in-edges.

        Parameters
        ----------
        x
            (owned nodes, *feat), floating.
        edge_weight
            (all edges,), the same on every process. Its gradient is that of this process's columns: add it up by
            ``all_reduce``.

        Returns
        -------
        Tensor
            (owned nodes, *feat).
        """
        if x.ndim == 0 or len(x) != self._counts[self.rank]:
            raise DGLError(f"got features of shape {tuple(x.shape)}; expected {self._counts[self.rank]} rows")
        if reduce not in ("sum", "mean"):
            raise DGLError(f"got reduce={reduce!r}; expected 'sum' or 'mean'")
        expr = message_of(edge_weight is not None)
        weights = () if edge_weight is None else (edge_weight.reshape(-1, 1),)
        width = math.prod(x.shape[1:])
        to_rows = partial(self.to_rows, width=width)
        columns = _Turned.apply(x.reshape(len(x), width), self.to_columns, to_rows)
        sums = spmm(self.graph.adjacency(), expr, Reducer(reduce), (columns, *weights))
        out = _Turned.apply(sums, to_rows, self.to_columns)
        return out.reshape(x.shape)  # type: ignore[no-any-return]

    def _widths(self, width: int) -> list[int]:
        """Return how many of ``width`` columns each process has."""
        return np.diff([width * rank // self.world for rank in range(self.world + 1)]).tolist()

    def to_columns(self, x: torch.Tensor, kind: str) -> torch.Tensor:
        """Return some columns (num_nodes, w) of all rows, for all columns of some rows (owned, width)."""
        widths, counts = self._widths(x.shape[1]), self._counts
        num_columns = widths[self.rank]
        send = torch.cat([part.reshape(-1) for part in x.split(widths, 1)])
        send_counts, receive_counts = [len(x) * width for width in widths], [count * num_columns for count in counts]
        return self.exchange.reply("the exchange of columns", kind, send, send_counts, receive_counts).view(
            sum(counts), num_columns
        )

    def to_rows(self, x: torch.Tensor, kind: str, width: int) -> torch.Tensor:
        """Return all columns of some rows for some columns of all rows."""
        widths, num_rows = self._widths(width), self._counts[self.rank]
        send_counts, receive_counts = (
            [count * x.shape[1] for count in self._counts],
            [num_rows * width for width in widths],
        )
        parts = self.exchange.reply("the exchange of columns", kind, x.reshape(-1), send_counts, receive_counts).split(
            receive_counts
        )
        return torch.cat(
            [part.view(num_rows, -1) if num_rows else part.view(0, w) for part, w in zip(parts, widths, strict=True)], 1
        )


class _Turned(torch.autograd.Function):
    """An exchange of columns, with that of gradients the other way round."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, turn: Turn, back: Turn) -> torch.Tensor:  # type: ignore[override]
        ctx.back = back
        return turn(x, "columns")

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        refuse_second_derivatives()
        return ctx.back(grad, "gradients"), None, None
