"""What every operation does with its operands: checks before, undoing of broadcasting in gradients after.

The number of nodes and the shapes of features may be a compiler's symbols: see :mod:`.traced`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .. import hints
from ..backend import Tensor, active, admitted, require_one_library
from ..errors import DGLError
from ..expr import Expr, Side, evaluate, operands_of
from ..kernels.layout import broadcast_shape, broadcast_sizes
from ..structure.adjacency import Adjacency
from ..structure.traced import TracedAdjacency

FLOATS = ("float32", "float64", "float16", "bfloat16")
_SIDES = (Side.U, Side.E, Side.V, Side.G)
_OWNERS = ("source node", "edge", "destination node", "relation")


@lru_cache(maxsize=1024)
def _slots(expr: Expr) -> tuple[tuple[int, int], ...]:
    """Return the slot of every operand and the position of its side among ``_SIDES``."""
    return tuple([(operand.slot, _SIDES.index(operand.side)) for operand in operands_of(expr)])


@lru_cache(maxsize=1024)
def reads_edges(expr: Expr) -> bool:
    """Whether the expression has an operand with one row per edge."""
    return any(operand.side is Side.E for operand in operands_of(expr))


def evaluated(expr: Expr, values: Sequence[Tensor | None]) -> Any:
    """Compute an expression by the library's own operations, in the operands' dtype; a number where it reads none.

    A choice between two numbers, the derivative of a leaky ReLU for instance, would be of the library's default dtype.
    """
    like = next((x for x in values if x is not None), None)

    def where(condition: Tensor, x: Any, y: Any) -> Tensor:
        if not active.is_tensor(x) and not active.is_tensor(y):
            x = active.full((), x, active.dtype(like), active.device(like))
        return active.functions["where"](condition, x, y)

    return evaluate(expr, values, {**active.functions, "where": where})


def check_operands(adj: Adjacency | TracedAdjacency, expr: Expr, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the operands as kernels take them, of one dtype; :class:`DGLError` unless they fit ``adj`` and each other.

    Operands of several dtypes are brought to one inside autocast alone, see :func:`to_common_dtype`.
    """
    if active.guest is not None:
        require_one_library(operands)
    num_rows = (adj.num_src, adj.num_edges, adj.num_dst, 1)
    shapes, first = [], None
    for slot, owner in _slots(expr):
        traits = check_tensor(operands[slot], num_rows[owner], _OWNERS[owner])
        shapes.append(traits[0])
        if first is None:
            first = traits
            continue
        if traits[1] != first[1]:
            operands = to_common_dtype(operands)
        if traits[2] != first[2]:
            raise DGLError(f"got features on {first[2]} and on {traits[2]}; move them to one device")
    if len(shapes) > 1:
        feats = tuple([shape[1:] for shape in shapes])
        if feats != feats[:1] * len(feats):
            broadcast(feats)
    return operands


def to_common_dtype(operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return operands of one dtype.

    Inside autocast, operands that differ are cast to autocast's dtype, as in a matrix product, since kernels
    accumulate in float32 whatever they read; float64 is never narrowed. Operands that agree are computed as they are: a
    cast would cost a pass over memory and win nothing.

    Raises ``DGLError``: they differ outside autocast, or one is float64; they are not of one tensor library.
    """
    if active.guest is not None:
        require_one_library(operands)
    dtype = active.dtype(operands[0])
    for x in operands:
        if active.dtype(x) != dtype:
            break
    else:
        return operands
    dtypes = [active.dtype(x) for x in operands]
    common = active.autocast_dtype()
    if common is None or "float64" in dtypes:
        other = next(name for name in dtypes if name != dtype)
        raise DGLError(f"operands have dtypes {dtype} and {other}; convert them to one dtype")
    return [active.astype(x, common) for x in operands]


def adjacency_of(graph: Any) -> Any:
    """Return a graph's only relation; a relation stays as it is.

    Raises ``DGLError``: the graph has several edge types, or is not a graph: arguments are swapped, for instance.
    """
    if type(graph) in (Adjacency, TracedAdjacency):
        return graph
    try:
        adjacencies = graph.adjacencies
    except AttributeError:
        raise DGLError(hints.not_a_graph(graph)) from None
    return adjacencies[0] if len(adjacencies) == 1 else graph.adjacency()


def tensor_operand(x: Any) -> Any:
    """Return an operand as a tensor; anything else is left to the checks."""
    return admitted(x, "the operand")


def check_tensor(x: Tensor, num_rows: int, row: str) -> tuple[tuple[int, ...], str, Any]:
    """Return shape, dtype and device of a floating tensor with ``num_rows`` rows, one per ``row``.

    Raises ``DGLError``: ``x`` is something else.
    """
    traits = active.traits(x)
    if traits is None:
        raise DGLError(f"got {type(x).__name__}; expected a tensor with one row per {row}")
    shape, dtype, _ = traits
    if not shape or shape[0] != num_rows:
        raise DGLError(f"got features of shape {tuple(shape)}; expected {num_rows} rows, one per {row}")
    if dtype not in FLOATS:
        raise DGLError(f"got features of dtype {dtype}; expected one of {', '.join(FLOATS)}: convert them first")
    return traits


def require_alike(inputs: Sequence[Tensor], dtypes: bool = True) -> None:
    """Raise :class:`DGLError` unless tensors have the same features, and with ``dtypes`` one dtype."""
    first, *others = inputs
    for x in others:
        if tuple(active.shape(x)[1:]) != tuple(active.shape(first)[1:]):
            raise DGLError(f"got features of shapes {tuple(active.shape(first))} and {tuple(active.shape(x))}")
    if dtypes:
        to_common_dtype(inputs)


def broadcast(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the broadcast of feature shapes; :class:`DGLError` when they do not fit."""
    try:
        try:
            return broadcast_shape(shapes)
        except TypeError:  # a compiler's symbols cannot be hashed, but they can be compared
            return broadcast_sizes(shapes)
    except ValueError:
        listed = " and ".join(str(tuple(shape)) for shape in shapes)
        raise DGLError(f"feature shapes {listed} do not broadcast; align them from the last axis") from None


def sum_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum ``x`` over the axes that broadcasting added or stretched, so that it has ``shape``."""
    full = tuple(active.shape(x))
    if full == shape:
        return x
    padded = (shape[0],) + (1,) * (len(full) - len(shape)) + tuple(shape[1:])
    axes = tuple(axis for axis in range(1, len(full)) if padded[axis] == 1 and full[axis] != 1)
    return active.reshape(active.sum(x, axes) if axes else x, shape)
