"""Powers of degrees that operations scale by, and the check for nodes without in-edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..backend import Tensor, active, framework
from ..errors import DGLError
from ..expr import Side
from ..structure.adjacency import Adjacency
from ..structure.arrays import HOST, place_of
from ..structure.derived import CacheKey, cache_key, variant
from . import fallback
from .traced import GraphOp, is_traced, registered, traced


@dataclass(frozen=True, eq=False)
class DegreeScale:
    """A function of the sources' out-degrees (``side`` U) or of the destinations' in-degrees (V)."""

    name: str
    side: Side
    function: Callable[[Any, Callable[[Any], Any]], Any]
    """Of the degrees, an array or a tensor, and the logarithm of either."""


DEGREE_SCALES = {
    scale.name: scale
    for scale in (
        DegreeScale("1 / sqrt(out)", Side.U, lambda degrees, log: degrees.clip(1) ** -0.5),
        DegreeScale("1 / sqrt(in)", Side.V, lambda degrees, log: degrees.clip(1) ** -0.5),
        DegreeScale("1 / out", Side.U, lambda degrees, log: 1.0 / degrees.clip(1)),
        DegreeScale("1 / in", Side.V, lambda degrees, log: 1.0 / degrees.clip(1)),
        DegreeScale("in", Side.V, lambda degrees, log: degrees * 1.0),
        DegreeScale("log(in + 1)", Side.V, lambda degrees, log: log(degrees.clip(1) + 1.0)),
        DegreeScale("1 / log(in + 1)", Side.V, lambda degrees, log: 1.0 / log(degrees.clip(1) + 1.0)),
        DegreeScale("1 / (in + 1)", Side.V, lambda degrees, log: 1.0 / (degrees + 1.0)),
    )
}
"""By name. A degree of 0 counts as 1."""

_SCALES: CacheKey[Tensor] = cache_key("degree scales", "a scale of each node's degree, by scale, dtype and device")
_LOOPS: CacheKey[Tensor] = cache_key("edges but loops", "0 for a loop, 1 for another edge, or their sums, by dtype")
_ISOLATED: CacheKey[tuple[int, int]] = cache_key(
    "nodes without in-edges", "how many nodes have no in-edge, and the first of them or -1"
)


def degree_scale(adj: Adjacency, scale: DegreeScale, dtype: str, device: object = None) -> Tensor:
    """Return ``scale`` of every node's degree, (nodes, 1), on ``device``, which is the CPU unless given.

    It is kept with the structure: do not write to it.
    """
    device = active.cpu() if device is None else device
    if is_traced(adj):
        return traced("degree_scale", adj, _recipe(scale.name, dtype, device), ())
    return _scaled(adj, scale, dtype, device)


def _recipe(name: str, dtype: str, device: object) -> str:
    place = "" if device == active.cpu() else f"@{device}"
    return f"{dtype}{place} {name}"


def _parsed(recipe: str) -> tuple[str, str, Any]:
    """Return the name, dtype and device of a recipe."""
    where, name = recipe.split(" ", 1)
    dtype, _, device = where.partition("@")
    return name, dtype, framework.device(device) if device else active.cpu()


def _scaled(adj: Adjacency, scale: DegreeScale, dtype: str, device: object) -> Tensor:
    key = variant(_SCALES, scale, dtype, place_of(device))
    scaled = adj.cache.get(key)
    if scaled is None:
        with active.lasting():
            arrays = adj.arrays_near(device)
            degrees = arrays.floats(adj.degrees(arrays, 0 if scale.side is Side.U else 1))
            scaled = scale.function(degrees, arrays.log)[:, None]
            scaled = active.from_numpy(scaled, device) if arrays is HOST else scaled
            scaled = active.astype(scaled, dtype)
        adj.cache[key] = scaled
    return scaled


@registered
class _DegreeScale(GraphOp):
    """A degree scale in a compiled program, which may overwrite what it is given: so a copy."""

    name = "degree_scale"

    def __init__(self, adj: Adjacency, scale: DegreeScale, dtype: str, device: object) -> None:
        self.adj, self.scale, self.dtype, self.device = adj, scale, dtype, device

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _DegreeScale:
        name, dtype, device = _parsed(recipe)
        return cls(adj, DEGREE_SCALES[name], dtype, device)

    def recipe(self) -> str:
        return _recipe(self.scale.name, self.dtype, self.device)

    def describe(self) -> tuple[tuple[Sequence[int], str], None]:
        nodes = self.adj.num_src if self.scale.side is Side.U else self.adj.num_dst
        return ((nodes, 1), self.dtype), None

    def forward(self) -> Tensor:
        return active.copy(_scaled(self.adj, self.scale, self.dtype, self.device))

    def composed(self, *inputs: Tensor) -> Tensor:
        degrees = fallback.degrees(self.adj, self.scale.side, "float64")
        scaled = active.astype(self.scale.function(degrees, active.functions["log"])[:, None], self.dtype)
        return active.to_device(scaled, self.device)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return []


def edges_but_loops(adj: Any, dtype: str, device: object) -> tuple[Tensor, Tensor]:
    """Return 0 for a loop and 1 for another edge, (num_edges, 1), and their sums by destination, (num_dst, 1)."""
    edges, sums = (traced(_EdgesButLoops.name, adj, _recipe(name, dtype, device), ()) for name in ("edges", "sums"))
    return edges, sums


@registered
class _EdgesButLoops(GraphOp):
    """Weights of a structure's edges without its loops in a program, or their sums; copies, as of degree scales."""

    name = "edges_but_loops"

    def __init__(self, adj: Adjacency, name: str, dtype: str, device: object) -> None:
        self.adj, self.part, self.dtype, self.device = adj, name, dtype, device

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _EdgesButLoops:
        return cls(adj, *_parsed(recipe))

    def recipe(self) -> str:
        return _recipe(self.part, self.dtype, self.device)

    def describe(self) -> tuple[tuple[Sequence[int], str], None]:
        return ((self.adj.num_edges if self.part == "edges" else self.adj.num_dst, 1), self.dtype), None

    def forward(self) -> Tensor:
        key = variant(_LOOPS, self.part, self.dtype, place_of(self.device))
        values = self.adj.cache.get(key)
        if values is None:
            with active.lasting():
                values = self.adj.cache[key] = self._values(*map(active.from_numpy, self.adj.endpoints()))
        return active.copy(values)

    def composed(self, *inputs: Tensor) -> Tensor:
        return self._values(*self.adj.tensors)

    def _values(self, src: Tensor, dst: Tensor) -> Tensor:
        values = active.astype(src != dst, self.dtype)[:, None]
        if self.part == "sums":
            values = values.new_zeros(self.adj.num_dst, 1).index_add(0, dst, values)
        return active.to_device(values, self.device)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return []


def require_in_edges(adj: Adjacency) -> None:
    """Raise :class:`DGLError` when a node has no in-edge; the answer is kept with the structure."""
    if is_traced(adj):
        # The result has to be used, or the compiler drops the question.
        active.require(traced("require_in_edges", adj, "", ()), "a node has no in-edge")
        return
    _require_in_edges(adj)


def _require_in_edges(adj: Adjacency) -> None:
    answer = adj.cache.get(_ISOLATED)
    if answer is None:
        arrays = adj.arrays_made()
        is_isolated = adj.degrees(arrays, 1) == 0
        count, first = arrays.read(is_isolated.sum(), arrays.first(is_isolated)) if adj.num_dst else (0, 0)
        answer = adj.cache[_ISOLATED] = (count, first if count else -1)
    if answer[0]:
        raise DGLError(
            f"{answer[0]} of {adj.num_dst} nodes have no in-edge (the first is node {answer[1]}): no message "
            "reaches them, so the layer's output for them would carry none of their features. Add self-loops, as in "
            "g = dglite.add_self_loop(g), or construct the layer with allow_zero_in_degree=True"
        )


def note_in_edges(adj: Adjacency) -> None:
    """Note that every node has an in-edge, as with self-loops, so that nothing need be counted."""
    if not is_traced(adj):
        adj.cache[_ISOLATED] = (0, -1)


@registered
class _RequireInEdges(GraphOp):
    """The check in a compiled program: True, or the error."""

    name = "require_in_edges"

    def __init__(self, adj: Adjacency) -> None:
        self.adj = adj

    @classmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> _RequireInEdges:
        return cls(adj)

    def recipe(self) -> str:
        return ""

    def describe(self) -> tuple[tuple[Sequence[int], str], None]:
        return ((), "bool"), None

    def forward(self) -> Tensor:
        _require_in_edges(self.adj)
        return active.full((), True, "bool", active.cpu())

    def composed(self, *inputs: Tensor) -> Tensor:
        return (fallback.degrees(self.adj, Side.V, "int64") > 0).all()

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return []
