"""Operations named by message and reducer: ``u_mul_e_sum``, ``copy_u_max``, ``u_dot_v``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

from ..backend import Tensor
from ..expr import Side
from ..function import message_expression
from ..opspec import MESSAGES, Reducer
from .core import sddmm, spmm
from .operands import adjacency_of, tensor_operand


def binary_reduce(op: str, reduce_op: str) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """Return ``u_<op>_e_<reduce_op>(g, x, y)``: (num_src, *feat) and (num_edges, *feat) to (num_dst, *feat)."""
    (expr, _), reducer = message_expression(f"u_{op}_e"), Reducer(reduce_op)

    def call(g: Any, x: Tensor, y: Tensor) -> Tensor:
        return spmm(adjacency_of(g), expr, reducer, (x, y))

    summary = f"Return the {reduce_op} over in-edges of {op}(source feature x, edge feature y)."
    return _named(call, f"u_{op}_e_{reduce_op}", summary, "ue", _AT_NODES)


def copy_reduce(side: Side, reduce_op: str) -> Callable[[Any, Tensor], Tensor]:
    """Return ``copy_u_<reduce_op>(g, x)`` or ``copy_e_<reduce_op>(g, x)``: x to (num_dst, *feat)."""
    (expr, _), reducer = message_expression(f"copy_{side.value}"), Reducer(reduce_op)

    def call(g: Any, x: Tensor) -> Tensor:
        return spmm(adjacency_of(g), expr, reducer, (x,))

    summary = f"Return the {reduce_op} over in-edges of the {_OWNERS[side.value][1]} feature x."
    return _named(call, f"copy_{side.value}_{reduce_op}", summary, side.value, _AT_NODES)


def per_edge(lhs: str, op: str, rhs: str) -> Callable[[Any, Tensor, Tensor], Tensor]:
    """Return ``<lhs>_<op>_<rhs>(g, x, y)``: a feature of each of two ends to (num_edges, *feat)."""
    expr, _ = message_expression(f"{lhs}_{op}_{rhs}")

    def call(g: Any, x: Tensor, y: Tensor) -> Tensor:
        return sddmm(adjacency_of(g), expr, (tensor_operand(x), tensor_operand(y)), dot=op == "dot")

    summary = f"Return {op}({_OWNERS[lhs][1]} feature x, {_OWNERS[rhs][1]} feature y) for every edge."
    return _named(call, f"{lhs}_{op}_{rhs}", summary, lhs + rhs, _SUMMED if op == "dot" else _AT_EDGES)


def copy_per_edge(side: Side) -> Callable[[Any, Tensor], Tensor]:
    """Return ``copy_u(g, x)`` or ``copy_v(g, x)``: x to (num_edges, *feat)."""
    expr, _ = message_expression(f"copy_{side.value}")

    def call(g: Any, x: Tensor) -> Tensor:
        return sddmm(adjacency_of(g), expr, (tensor_operand(x),))

    summary = f"Return the feature x of every edge's {_OWNERS[side.value][1]} node."
    return _named(call, f"copy_{side.value}", summary, side.value, _AT_EDGES)


_OWNERS = {"u": ("num_src", "source"), "v": ("num_dst", "destination"), "e": ("num_edges", "edge")}
_AT_NODES = ("(num_dst, *feat)", "0 for a node without in-edges, no rows for a graph without nodes", "3, 2")
_AT_EDGES = ("(num_edges, *feat), in edge-id order", "no rows for a graph without edges", "3, 2")
_SUMMED = ("(num_edges, *feat[:-1], 1), in edge-id order", "no rows for a graph without edges", "3, 1")
"""Of what a shorthand returns: the shape, what there is without edges, and the shape in its example."""

_DOCUMENT = """{summary}

Raises DGLError: a tensor does not have these rows, dtypes differ, or shapes do not broadcast.

Parameters
----------
g
    A graph of one edge type.
{operands}

Returns
-------
Tensor
    ``{shape}``, of the operands' dtype; {empty}. Differentiable in every operand.

Examples
--------
>>> import torch, dglite
>>> from dglite import ops
>>> g = dglite.graph(([0, 1, 2], [1, 2, 2]))
>>> ops.{name}(g, {arguments}).shape
torch.Size([{example}])
"""


def _named(call: Any, name: str, summary: str, sides: str, returned: tuple[str, str, str]) -> Any:
    """Name and document a shorthand whose operands, x and y, have the rows of ``sides``."""
    dtypes = "float32, float64, float16 or bfloat16" + ("; of one dtype, feature axes broadcast" if sides[1:] else "")
    operands = [
        f"{operand}\n    ``({_OWNERS[side][0]}, *feat)``, {dtypes}." for operand, side in zip("xy", sides, strict=False)
    ]
    shape, empty, example = returned
    call.__name__ = call.__qualname__ = name
    call.__module__ = __package__
    call.__doc__ = _DOCUMENT.format(
        summary=summary,
        operands="\n".join(operands),
        shape=shape,
        empty=empty,
        name=name,
        arguments=", ".join(["torch.ones(3, 2)"] * len(sides)),
        example=example,
    )
    return call


def _shorthands() -> list[Callable[..., Tensor]]:
    functions: list[Callable[..., Tensor]] = [copy_per_edge(Side.U), copy_per_edge(Side.V)]
    for reducer in (entry.value for entry in Reducer if entry.fused):
        functions += [copy_reduce(side, reducer) for side in (Side.U, Side.E)]
        functions += [binary_reduce(op, reducer) for op in MESSAGES if op != "dot"]
    return functions + [per_edge(lhs, op, rhs) for lhs, rhs in permutations("uve", 2) for op in MESSAGES]


SHORTHANDS = _shorthands()
