"""What every operation does with its operands first: check them, find the structure's addresses, undo broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Expr, Side, operands_of
from ..kernels.layout import broadcast_shape
from ..structure.adjacency import Adjacency

__all__ = ["FLOATS", "check_operands", "check_tensor", "reads_edges", "structure_of", "sum_to"]

FLOATS = ("float32", "float64", "float16", "bfloat16")
_SIDES = (Side.U, Side.E, Side.V, Side.G)
_OWNERS = ("source node", "edge", "destination node", "relation")


def structure_of(adj: Adjacency, edges: bool = True) -> tuple[tuple[int, int, int, int, int], str]:
    """Return the words of the CSC that kernels take and the dtype of its ids.

    Without ``edges``, for a kernel that reads no edge ids, these are not made; their word may be 0.

    Kept with the structure, together with the CSC itself: the words hold its addresses, and a structure that is
    restricted to other formats would free it.
    """
    found = adj.cache.get("kernel structure")
    if found is None or (edges and not found[3]):
        csc = adj.csc() if found is None else found[2]
        complete = edges or csc.has_edge_ids
        addresses = csc.addresses if complete else (*csc.row_addresses, 0)
        words = (*addresses, adj.num_dst, adj.num_edges)
        found = adj.cache["kernel structure"] = (words, str(csc.indptr.dtype), csc, complete)
    return found[0], found[1]


@lru_cache(maxsize=1024)
def _slots(expr: Expr) -> tuple[tuple[int, int], ...]:
    """Return the slot of every operand and the position of its side among ``_SIDES``."""
    return tuple((operand.slot, _SIDES.index(operand.side)) for operand in operands_of(expr))


@lru_cache(maxsize=1024)
def reads_edges(expr: Expr) -> bool:
    """Whether the expression has an operand with one row per edge."""
    return any(operand.side is Side.E for operand in operands_of(expr))


def check_operands(adj: Adjacency, expr: Expr, operands: Sequence[Tensor]) -> None:
    """Raise :class:`DGLError` unless the operands fit ``adj`` and each other."""
    num_rows = (adj.num_src, adj.num_edges, adj.num_dst, 1)
    slots = _slots(expr)
    for slot, owner in slots:
        check_tensor(operands[slot], num_rows[owner], _OWNERS[owner])
    if len(slots) > 1:
        _check_together(operands)


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
    if not active.on_cpu(x):
        raise DGLError(f"got features on {active.device(x)}; the kernels run on the CPU: move them there first")


def _check_together(operands: Sequence[Tensor]) -> None:
    dtype = active.dtype(operands[0])
    for x in operands:
        if active.dtype(x) != dtype:
            raise DGLError(f"operands have dtypes {dtype} and {active.dtype(x)}; convert them to one dtype")
    shapes = tuple([active.shape(x)[1:] for x in operands])
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
