"""Reducing segments of rows: readouts, pooling, ``segment_reduce``.

A segment is a destination whose in-edges are its rows, so g-SpMM's kernels reduce it. A program of torch's holds
the lengths as a tensor; the structure is made of them when it runs, once for lengths that come again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np

from ..backend import RESULT, Tensor, active, framework
from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..kernels.spec import compute_dtype
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.traced import TracedAdjacency
from . import fallback
from .attention import AttentionOp
from .call_cache import run_cached
from .fused_attention import Score
from .operands import check_tensor, sum_to, to_common_dtype
from .scores import edge_softmax
from .softmax import EdgeSoftmax
from .sparse import Spmm, spmm
from .traced import registered, traced

_ROW = Operand(Side.E, 0)
_WEIGHTED: Expr = _ROW * Operand(Side.E, 1)


def segment_reduce(lengths: Any, x: Tensor, reducer: Reducer) -> Tensor:
    """Reduce consecutive segments of rows of ``x``: ``(len(lengths), *feat)``, 0 for an empty segment.

    ``lengths`` is an int64 array; in a program, a tensor.
    """
    if not reducer.fused:
        raise DGLError(f"segments have no kernel for {reducer.value!r}; expected sum, mean, max, min or logsumexp")
    if is_program_of(lengths):
        return TracedSegments(lengths, x.shape[0]).reduce(x, reducer)
    relation = segments(lengths)
    check_tensor(x, relation.num_edges, "element of a segment")
    return spmm(relation, _ROW, reducer, (x,))


def segment_softmax(lengths: Any, x: Tensor) -> Tensor:
    """Normalise each segment of rows of ``x`` by a softmax; ``lengths`` as in :func:`segment_reduce`."""
    if is_program_of(lengths):
        return TracedSegments(lengths, x.shape[0]).softmax(x)
    return edge_softmax(segments(lengths), x)


def is_program_of(lengths: Any) -> bool:
    """Whether segments of these lengths are part of a program: a compiler reads them, or they are a tensor."""
    return active.compiling() or active.is_tensor(lengths)


def segments(lengths: np.ndarray) -> Adjacency:
    """Return the relation whose destination i has the next ``lengths[i]`` edges, int64, from as many sources.

    Of few elements it is the one made before, with what was found about calls: a batch is read more than once.
    """
    if len(lengths) + int(lengths.sum()) > _FEW_ELEMENTS:
        return _segments(lengths.data)
    return _few_segments(lengths.tobytes())


def _segments(lengths: bytes | memoryview) -> Adjacency:
    indptr = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64))])
    count = int(indptr[-1])
    return Adjacency.from_csc(count, len(indptr) - 1, indptr, np.arange(count), copy=False, validate=False)


_FEW_ELEMENTS = 1 << 16
_few_segments = lru_cache(maxsize=64)(_segments)


# -- in programs -------------------------------------------------------------------------------------------------------
@final
class TracedSegments:
    """Consecutive segments of ``num_rows`` rows, whose ``lengths`` (num_segments,) are a tensor, maybe without values.

    An operation takes them as its structure: the lengths, twice, and the numbers of rows and of segments.
    """

    __slots__ = ("lengths", "num_dst", "num_edges", "num_src", "tensors")

    def __init__(self, lengths: Tensor, num_rows: int) -> None:
        self.lengths, self.tensors = lengths, (lengths, lengths)
        self.num_src = self.num_edges = num_rows
        self.num_dst = lengths.shape[0]

    def lengths_on(self, device: Any) -> Tensor:
        """Return the lengths on a device."""
        return active.to_device(self.lengths, device, non_blocking=True)

    def owners_on(self, device: Any) -> Tensor:
        """Return the segment of every row, (num_rows,), on a device."""
        return framework.repeat_interleave(self.lengths_on(device), output_size=self.num_src)  # type: ignore[no-any-return]

    def repeat(self, values: Tensor) -> Tensor:
        """Return the row of each row's segment: (num_segments, *feat) -> (num_rows, *feat)."""
        return values.index_select(0, self.owners_on(active.device(values)))

    def reduce(self, x: Tensor, reducer: Reducer) -> Tensor:
        """Return the rows of ``x`` reduced over each segment, 0 for an empty one."""
        if reducer is Reducer.LOGSUMEXP:
            return self._logsumexp(x)
        keep = reducer.selects and active.requires_grad(x)
        return traced(_SegmentReduce.name, self, f"{reducer.value} {int(keep)}", (x,))

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return the sum over each segment of rows times weights, which broadcast to them."""
        return traced(_SegmentReduce.name, self, _WEIGHTED_SUM, to_common_dtype((x, weights)))

    def attended(self, x: Tensor, queries: Tensor) -> Tensor:
        """Return the mean of each segment's rows, weighted by the softmax of their products with its query.

        x (num_rows, d), queries (num_segments, d) -> (num_segments, d). One kernel where no gradient is recorded.
        """
        x, queries = to_common_dtype((x, queries))
        if active.compiling() and not active.requires_grad(x, queries):
            heads = x[:, None], queries[:, None]
            scale = active.full((), 1.0, compute_dtype(active.dtype(x)), active.cpu())
            return traced(_SegmentAttention.name, self, Score.DOT.name, (*heads, scale))[:, 0]
        scores = (x * self.repeat(queries)).sum(-1, keepdim=True)
        return self.weighted_sum(x, self.softmax(scores))

    def softmax(self, x: Tensor) -> Tensor:
        """Return the softmax of ``x`` (num_rows, *feat) over each segment, each trailing element on its own."""
        return traced(_SegmentSoftmax.name, self, "", (x,))

    def as_edges(self, device: Any) -> TracedAdjacency:
        """Return the relation in which each row is an edge to its segment, on a device."""
        rows = framework.arange(self.num_src, device=device)
        return TracedAdjacency(rows, self.owners_on(device), self.num_src, self.num_dst)

    def _logsumexp(self, x: Tensor) -> Tensor:
        largest = self.reduce(active.detach(x), Reducer.MAX)
        top = largest.masked_fill(largest.abs() == math.inf, 0.0)
        total = self.reduce((x - self.repeat(top)).exp(), Reducer.SUM)
        sums = total.masked_fill(total == 0, 1.0).log()
        return sums + framework.where(largest == -math.inf, largest, top)  # type: ignore[no-any-return]


def _checked_segments(lengths: Tensor, num_rows: int, num_segments: int) -> Adjacency:
    array = active.to_numpy(lengths)
    if (
        array.dtype.kind not in "iu"
        or array.shape != (num_segments,)
        or array.min(initial=0) < 0
        or array.sum() != num_rows
    ):
        raise DGLError(
            f"got segments of lengths {array.tolist()}, {num_segments} of them, for {num_rows} rows; expected integers "
            "that sum to that"
        )
    return segments(array.astype(np.int64, copy=False))


def _structure(lengths: Tensor, num_rows: int, num_segments: int, real: bool) -> Any:
    if not real:
        return TracedSegments(lengths, num_rows)
    # Not under the counts alone, under which edges that are these loops may be noted.
    counts = num_rows, num_segments, "segments"
    return active.structure_of(lengths, lengths, counts, lambda: _checked_segments(lengths, num_rows, num_segments))


_WEIGHTED_SUM = "sum 0 weighted"


@lru_cache(maxsize=32)
def _parsed(recipe: str) -> tuple[Expr, Reducer, bool]:
    reducer, keep, *weighted = recipe.split()
    return _WEIGHTED if weighted else _ROW, Reducer(reducer), keep == "1"


@registered
class _SegmentReduce(Spmm):
    """The sum, mean, maximum or minimum of each segment. Of the latter two it saves the row that each value is of.

    A sum may be of rows times weights, the second input.
    """

    name = "segment_reduce"

    @classmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> _SegmentReduce:
        expr, reducer, keep = _parsed(recipe)
        return cls(adj, expr, reducer, needs, keep)

    @classmethod
    def run_again(cls, adj: Any, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        expr, reducer, keep = _parsed(recipe)
        return None if keep else run_cached(adj, (expr, reducer), inputs)

    def recipe(self) -> str:
        return _WEIGHTED_SUM if self.expr is _WEIGHTED else f"{self.reducer.value} {int(self.keeps)}"

    @staticmethod
    def structure(lengths: Tensor, _: Tensor, num_rows: int, num_segments: int, real: bool) -> Any:
        return _structure(lengths, num_rows, num_segments, real)

    def composed(self, *operands: Tensor) -> Tensor:
        edges: Any = self.adj.as_edges(active.device(operands[0]))
        return fallback.spmm(edges, self.expr, self.reducer, operands)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        adj: TracedSegments = self.adj
        if self.keeps:
            assert self.aux is not None
            rows = framework.where(self.aux < 0, adj.num_src, self.aux).long()
            return [grad.new_zeros(self.shapes[0][0] + 1, *grad.shape[1:]).scatter(0, rows, grad)[:-1]]
        if self.reducer.selects:
            return super().backward(inputs, grad, needs)
        if self.reducer is Reducer.MEAN:
            sizes = adj.lengths_on(active.device(grad)).clamp(min=1).to(grad)
            grad = grad / sizes.reshape(-1, *(1,) * (grad.ndim - 1))
        grad = adj.repeat(grad)
        if self.expr is _ROW:
            return [grad]
        others, shapes = inputs[1::-1], self.shapes
        return [sum_to(grad * others[i], shapes[i]) if needs[i] else None for i in range(2)]


@registered
class _SegmentSoftmax(EdgeSoftmax):
    """The softmax of each segment, each trailing element on its own. Its gradient reads the result."""

    name = "segment_softmax"

    @staticmethod
    def structure(lengths: Tensor, _: Tensor, num_rows: int, num_segments: int, real: bool) -> Any:
        return _structure(lengths, num_rows, num_segments, real)

    def composed(self, *inputs: Tensor) -> Tensor:
        edges: Any = self.adj.as_edges(active.device(inputs[0]))
        return fallback.edge_softmax(edges, inputs[0])

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        segments, softmax = self.adj, inputs[RESULT]
        weighted = softmax * grad
        return [weighted - softmax * segments.repeat(segments.reduce(weighted, Reducer.SUM))]


@registered
class _SegmentAttention(AttentionOp):
    """The mean of each segment's rows (num_rows, heads, d), weighted by the softmax of their products with a query."""

    name = "segment_attention"

    @staticmethod
    def structure(lengths: Tensor, _: Tensor, num_rows: int, num_segments: int, real: bool) -> Any:
        return _structure(lengths, num_rows, num_segments, real)

    def composed(self, *inputs: Tensor) -> Tensor:
        (x, queries, scale), segments = inputs, self.adj
        scores = (x * segments.repeat(queries)).sum(-1, keepdim=True) * active.to_device(scale, active.device(x))
        edges = segments.as_edges(active.device(x))
        return fallback.spmm(edges, _WEIGHTED, Reducer.SUM, (x, fallback.edge_softmax(edges, scores)))
