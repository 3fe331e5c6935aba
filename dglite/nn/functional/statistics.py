"""Statistics of each node's messages, several of them in one pass over the edges.

A message is ``left[u] + right[v]``, or ``left[u] + right[v] + edge[e]``: what a linear layer makes of both ends and the
edge. None is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import Tensor, active
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency

AGGREGATORS = ("mean", "sum", "max", "min", "std", "var", "moment3", "moment4", "moment5")
"""Statistics of messages, see :func:`statistics`."""
SCALERS = ("identity", "amplification", "attenuation")
"""Functions of the degree, see :func:`degree_scaler`."""
DIRECTIONS = tuple(f"dir{k}-{kind}" for k in (1, 2, 3) for kind in ("av", "dx"))
"""Statistics along a vector field, see :func:`directional`."""

_TINY = 1e-30


_BOTH = Operand(Side.U, 0) + Operand(Side.V, 1)
_MESSAGES: dict[int, Expr] = {2: _BOTH, 3: _BOTH + Operand(Side.E, 2)}
"""The sum of operands: of u, of v, and of e if there are three."""


def statistics(adjacency: Adjacency, operands: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
    """Return statistics of the messages that arrive, each (num_dst, *feat); (nearly) 0 where none does.

    ``operands`` are left, right and perhaps edge. ``var`` is the mean of squares minus the square of the mean, at
    least 0; ``std`` its root; ``moment3`` and so on the third root of the mean of ``(m - mean)^3`` and so on (Corso et
    al., "Principal neighbourhood aggregation for graph nets", 2020).
    """
    message = _MESSAGES[len(operands)]
    parts = _passed_once(message, names)
    cached = dict(zip(parts, core.spmm_several(adjacency, tuple(parts.values()), operands), strict=True))

    def statistic(name: str) -> Tensor:
        if name not in cached:
            cached[name] = compute(name)
        return cached[name]

    def compute(name: str) -> Tensor:
        if name == "var":
            return (statistic("squares") - statistic("mean") * statistic("mean")).relu()
        if name == "std":
            return (statistic("var") + _TINY).sqrt()
        order, apart = int(name[-1]), message - Operand(Side.V, len(operands))
        power = apart
        for _ in range(order - 1):
            power = power * apart
        moment = core.spmm(adjacency, power, Reducer.MEAN, (*operands, statistic("mean")))
        return active.functions["sign"](moment) * (moment.abs() + _TINY) ** (1 / order)

    return [statistic(name) for name in names]


def _passed_once(message: Expr, names: Sequence[str]) -> dict[str, tuple[Expr, Reducer]]:
    """Return what is reduced in the first pass, by name: all but moments, which need the mean beforehand."""
    parts = {name: (message, Reducer(name)) for name in ("mean", "sum", "max", "min") if name in names}
    if "var" in names or "std" in names:
        parts["squares"] = (message * message, Reducer.MEAN)
    if any(name not in parts for name in names):
        parts["mean"] = (message, Reducer.MEAN)
    return parts


def directional(adjacency: Adjacency, operands: Sequence[Tensor], field: Tensor, center: Tensor, kind: str) -> Tensor:
    """Return a statistic of messages along the gradient of ``field``, (num_dst, *feat).

    ``field`` (num_nodes, 1): its gradient along an edge is ``F = field[u] - field[v]``, divided by the sum of the
    absolute values that arrive. ``"av"`` averages messages by abs(F); ``"dx"`` is the absolute value of the sum of ``F
    * m`` less ``center``, (num_dst, *feat), times the sum of F (Beaini et al., "Directional graph networks", 2021).
    """
    count = len(operands)
    source, destination = Operand(Side.U, 0), Operand(Side.V, 1)
    total = core.spmm(adjacency, (source - destination).call("abs"), Reducer.SUM, (field, field)) + _TINY
    gradient: Expr = Operand(Side.U, count) - Operand(Side.V, count + 1)
    weight = gradient.call("abs") if kind == "av" else gradient
    result = core.spmm(adjacency, _MESSAGES[count] * weight, Reducer.SUM, (*operands, field, field)) / total
    if kind == "av":
        return result
    drift = core.spmm(adjacency, source - destination, Reducer.SUM, (field, field)) / total
    return (result - drift * center).abs()


def degree_scaler(adjacency: Adjacency, name: str, delta: float, like: Tensor) -> Tensor | float:
    """Return what a statistic is multiplied by, (num_dst, 1): 1, log(d + 1) / delta, or its inverse.

    d is the in-degree, 0 counting as 1.
    """
    if name == "identity":
        return 1.0
    scale = core.DEGREE_SCALES["log(in + 1)" if name == "amplification" else "1 / log(in + 1)"]
    factor = core.degree_scale(adjacency, scale, active.dtype(like), active.device(like))
    return factor / delta if name == "amplification" else factor * delta
