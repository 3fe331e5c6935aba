"""What every operation does with its operands first: check them, find the structure's addresses, undo broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Expr, Side, operands_of
from ..kernels.layout import broadcast_shape
from ..structure.adjacency import Adjacency

__all__ = ["FLOATS", "check_operands", "check_tensor", "structure_of", "sum_to"]

FLOATS = ("float32", "float64", "float16", "bfloat16")
_ROWS_OF = {Side.U: "source node", Side.E: "edge", Side.V: "destination node"}


def structure_of(adj: Adjacency) -> tuple[tuple[int, int, int, int, int], str]:
    """Return the words of the CSC that kernels take and the dtype of its ids.

    Kept with the structure, together with the CSC itself: the words hold its addresses, and a structure that is
    restricted to other formats would free it.
    """
    found = adj.cache.get("kernel structure")
    if found is None:
        csc = adj.csc()
        words = (*csc.addresses, adj.num_dst, adj.num_edges)
        found = adj.cache["kernel structure"] = (words, str(csc.indptr.dtype), csc)
    return found[0], found[1]


def check_operands(adj: Adjacency, expr: Expr, operands: Sequence[Tensor]) -> None:
    """Raise :class:`DGLError` unless the operands fit ``adj`` and each other."""
    rows = {Side.U: adj.num_src, Side.E: adj.num_edges, Side.V: adj.num_dst}
    first = None
    for operand in operands_of(expr):
        x = operands[operand.slot]
        check_tensor(x, rows[operand.side], _ROWS_OF[operand.side])
        if first is None:
            first = x
        elif active.dtype(x) != active.dtype(first):
            raise DGLError(
                f"operands have dtypes {active.dtype(first)} and {active.dtype(x)}; convert them to one dtype"
            )
    if len(operands) > 1:
        _check_features(operands)


def check_tensor(x: Tensor, num_rows: int, row: str) -> None:
    """Raise :class:`DGLError` unless ``x`` is a floating CPU tensor with ``num_rows`` rows, one per ``row``."""
    if not active.is_tensor(x):
        raise DGLError(f"got {type(x).__name__}; expected a {active.name} tensor with one row per {row}")
    shape = active.shape(x)
    if not shape or shape[0] != num_rows:
        raise DGLError(f"got features of shape {tuple(shape)}; expected {num_rows} rows, one per {row}")
    if active.dtype(x) not in FLOATS:
        raise DGLError(
            f"got features of dtype {active.dtype(x)}; expected one of {', '.join(FLOATS)}: convert them first"
        )
    if not active.is_cpu(active.device(x)):
        raise DGLError(f"got features on {active.device(x)}; the kernels run on the CPU: move them there first")


def _check_features(operands: Sequence[Tensor]) -> None:
    shapes = tuple([active.shape(x)[1:] for x in operands])
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return
    try:
        broadcast_shape(shapes)
    except ValueError:
        listed = " and ".join(str(tuple(shape)) for shape in shapes)
        raise DGLError(f"feature shapes {listed} do not broadcast; align them from the last axis") from None


def sum_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum ``x`` over the axes that broadcasting added or stretched, so that it has ``shape``."""
    have = tuple(active.shape(x))
    if have == shape:
        return x
    padded = (shape[0],) + (1,) * (len(have) - len(shape)) + tuple(shape[1:])
    axes = tuple(axis for axis in range(1, len(have)) if padded[axis] == 1 and have[axis] != 1)
    return active.reshape(active.sum(x, axes) if axes else x, shape)
