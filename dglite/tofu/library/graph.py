"""dglite's own operators in compiled programs: g-SpMM and g-SDDMM, by destinations, edges and features.

Which rows of the sources a part of the destinations needs is not affine: it is the halo, read off the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...expr import operands_of
from ...ops.traced import expression_of
from ...structure.adjacency import Adjacency
from ...structure.derived import CacheKey, cache_key, variant
from ...structure.distinct import distinct
from ..graphs import adjacency_of, words_of
from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..strategy import Region, RowSpan, Strategy
from ..tdl import ElementWise, Expression, IndexedFunction, Opaque, Place, Sum, TensorSymbol, describe, over
from .common import NOTHING, broadcast, index_names

GraphRows = Literal["u", "v", "e"]
"""Rows of sources, of destinations, of edges."""

ROWS: dict[str, GraphRows] = {"u": "u", "v": "v", "e": "e"}


@dataclass(frozen=True)
class Neighbors(RowSpan):
    """The rows that a part of a graph's destinations or edges touches: those in ``ids``, sorted, each once.

    Attributes
    ----------
    structure : tuple of int
        The graph, as programs name it.
    split : "v" or "e"
        Whether ``[lo, hi)`` are destinations or edges.
    of : "u", "v" or "e"
        Whether these are rows of sources, destinations or edges.
    """

    structure: tuple[int, ...] = ()
    split: GraphRows = "v"
    side: GraphRows = "u"

    def ids(self, lo: int, hi: int) -> np.ndarray:
        """Return the rows that the part ``[lo, hi)`` touches."""
        src, dst, edges = _part(self.structure, self.split, lo, hi).touched
        return {"u": src, "v": dst, "e": edges}[self.side]

    def rows(self, lo: int, hi: int, size: int) -> tuple[int, int]:
        """Return the range around the ids."""
        ids = self.ids(lo, hi)
        return (int(ids[0]), int(ids[-1]) + 1) if len(ids) else (0, 0)

    def count(self, lo: int, hi: int, size: int) -> int:
        """Return how many rows these are."""
        return len(self.ids(lo, hi))


def edges_of(structure: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources and destinations of the edges of a graph, as programs name it."""
    return adjacency_of(structure).coo()


class _GraphPart:
    """A part of a graph: the edges into the destinations, or with the ids, ``[lo, hi)``."""

    def __init__(self, whole: Adjacency, split: GraphRows, lo: int, hi: int):
        self.src, self.dst = whole.coo()
        self.whole, self.edges = whole, np.arange(lo, hi)
        if split == "v":
            self.edges = np.flatnonzero((self.dst >= lo) & (self.dst < hi))
        self.src, self.dst = self.src[self.edges], self.dst[self.edges]
        self.lo, self.hi = lo, hi
        self.touched = distinct(self.src), distinct(self.dst), self.edges
        self.graphs: dict[str, Adjacency] = {}

    def words(self, destinations: str) -> list[int]:
        """Return how a program names the graph between the rows of a part.

        Its ``destinations`` are all, the ``"range"`` of the part, or those that its edges have ("touched").
        """
        graph = self.graphs.get(destinations)
        if graph is None:
            sources, touched, _ = self.touched
            src, dst, count = np.searchsorted(sources, self.src), self.dst, self.whole.num_dst
            if destinations == "range":
                dst, count = dst - self.lo, self.hi - self.lo
            elif destinations == "touched":
                dst, count = np.searchsorted(touched, dst), len(touched)
            graph = self.graphs.setdefault(destinations, Adjacency.from_coo(len(sources), count, src, dst))
        return words_of(graph)


_PARTS: CacheKey[_GraphPart] = cache_key("tofu parts", "the part of a graph that a worker computes, by split and range")


def _part(structure: Sequence[int], split: GraphRows, lo: int, hi: int) -> _GraphPart:
    """Return a part of a graph, which is kept with the whole."""
    whole = adjacency_of(structure)
    key = variant(_PARTS, str(split), lo, hi)
    return whole.cache.get(key) or whole.cache.setdefault(key, _GraphPart(whole, split, lo, hi))


@rule("dglite_tofu::spmm")
def spmm(call: OperatorCall) -> SplitRule:
    """Return the rule of a g-SpMM.

    By destinations a part reads their in-edges and the sources of those. By edges, which is for sums only, it makes a
    partial sum for every destination.
    """
    reducer, keeps, text = call["recipe"].split(" ", 2)
    sides = _sides(call, text)
    feat = index_names(len(call.outputs[0]) - 1, "f")

    def element(*x: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def result(v: Any, *f: Any) -> Expression:
            def message(e: Any) -> Expression:
                return Opaque("message")(*_read(call, x, sides, {"v": v, "e": e}, f))

            total = Sum(over(["e"], message))
            return total if reducer == "sum" else ElementWise(reducer)(total)

        def argmax(v: Any, *f: Any) -> Expression:
            return ElementWise("argmax")(result(v, *f))

        argmax_out = over(["v", *feat], argmax) if 0 not in call.outputs[1] else NOTHING
        return over(["v", *feat], result), argmax_out

    # the argmax is numbers of entries, which a part counts differently
    keep = ["v", "e"] if keeps == "1" else [] if reducer == "sum" else ["e"]
    description = describe(element, index_names(len(call.inputs), "x"))
    extents = {"v": call["structure"][2], "e": call["structure"][3]}
    return SplitRule(description, extents=extents, keep=keep, local=_on_part, adjust=_halo(call, sides))


@rule("dglite_tofu::sddmm")
def sddmm(call: OperatorCall) -> SplitRule:
    """Return the rule of a g-SDDMM: by edges and by features, the summed axis of a dot product included."""
    dot, text = call["recipe"].split(" ", 1)
    sides = _sides(call, text)
    rank = max(len(shape) for shape, side in zip(call.inputs, sides, strict=True) if side)
    feat = index_names(rank - 1, "f")
    wide = max(shape[-1] for shape, side in zip(call.inputs, sides, strict=True) if side and len(shape) == rank)

    def element(*x: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def result(e: Any, *f: Any) -> Any:
            if dot != "1":
                return Opaque("edge")(*_read(call, x, sides, {"e": e}, f))

            def product(last: Any) -> Expression:
                return Opaque("edge")(*_read(call, x, sides, {"e": e}, (*f, last)))

            return Place(Sum(over([feat[-1]], product)), e, *f, 0)

        out = over(["e", *(feat[:-1] if dot == "1" else feat)], result)
        return out, NOTHING

    # what has no last axis of its own counts for every element of it, in every part
    narrow = any(side and shape[-1] != wide for shape, side in zip(call.inputs, sides, strict=True))
    keep = [feat[-1]] if dot == "1" and narrow else []
    description = describe(element, index_names(len(call.inputs), "x"))
    extents = {"e": call["structure"][3]} | ({feat[-1]: wide} if dot == "1" else {})
    return SplitRule(description, extents=extents, keep=keep, local=_on_part, adjust=_halo(call, sides))


@rule("dglite_tofu::degree_scale")
def degree_scale(call: OperatorCall) -> SplitRule:
    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        rows, aux = part.run(arguments)
        return rows[part.lo : part.hi].clone(), aux

    description = describe(lambda: (lambda i, j: 0, NOTHING))
    return SplitRule(description, local=local)


def _sides(call: OperatorCall, text: str) -> list[GraphRows | None]:
    """Return whose rows each tensor input has; None for what all edges share."""
    sides: list[GraphRows | None] = [None] * len(call.inputs)
    for operand in operands_of(expression_of(text)):
        sides[operand.slot] = ROWS.get(operand.side.value)
    return sides


def _read(
    call: OperatorCall,
    tensors: Sequence[TensorSymbol],
    sides: Sequence[GraphRows | None],
    rows: dict[str, Any],
    f: Sequence[Any],
) -> list[Expression]:
    """Return what a message reads of each input."""
    operands: list[Expression] = []
    for x, shape, side in zip(tensors, call.inputs, sides, strict=True):
        operands.append(x[(rows.get(side or "", slice(None)), *broadcast(shape[1:], tuple(f)))])
    return operands


def _halo(call: OperatorCall, sides: Sequence[GraphRows | None]) -> Any:
    structure = tuple(call["structure"])

    def adjust(strategy: Strategy) -> Strategy:
        split = ROWS.get(strategy.index)
        if split is None:
            return strategy
        spmm_edges = split == "e" and call.target._schema.name == "dglite_tofu::spmm"

        def measured(region: Region, side: GraphRows | None) -> Region:
            if side is None or side == split or (side == "v" and spmm_edges):
                return region
            return Neighbors(structure=structure, split=split, side=side), *region[1:]

        return replace(strategy, inputs=tuple(map(measured, strategy.inputs, sides)))

    return adjust


def _on_part(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    words = part.call["structure"]
    if part.index not in ("v", "e"):
        return part.run(arguments)
    if part.index == "v":
        words = _part(words, "v", part.lo, part.hi).words("range")
    else:
        sums = part.strategy.combine[0] == "sum"
        words = _part(words, "e", part.lo, part.hi).words("all" if sums else "touched")
    return part.run(arguments, structure=words)
