"""Numbers that differ from node to node: how many messages a node has, and what a reduce function computes of that.

In a degree bucket there is one such number, a Python ``int``. In a mailbox of all nodes there is one for each node, and
what needs a single one, such as a branch or the shape of a new tensor, raises :class:`Unrecordable`. A program for any
graph computes with tensors; of their values it knows only the least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, framework
from ..backend import active as backend
from .deferred import Deferred, EdgeColumn, Unrecordable, is_deferred, real
from .rows import NodeColumn, is_rows

_OF_NUMBERS = frozenset("add sub mul truediv floordiv mod pow neg pos abs".split())
_WITH_TENSORS = frozenset("add sub mul truediv div multiply subtract divide true_divide".split())
_UFUNCS = frozenset("add subtract multiply divide log log2 log10 log1p sqrt exp reciprocal square negative".split())
_DTYPES = ("float32", "float64")
"""Of tensors that a number may be combined with: others would round it."""


class NodeNumber(Deferred):
    """A number of each node, float64, or in a tensor (num_nodes,) once it was combined with a tensor without axes.

    In a program the values are a tensor (num_nodes,) float64 without values, none of them below ``least``; it is None
    for those that were combined with a tensor.
    """

    __slots__ = ("least", "values")
    takes_rows = True

    def __init__(self, values: np.ndarray | Tensor, least: float | None = None) -> None:
        self.values, self.least, self.computed = values, least, None

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """Its own class: it stands for no tensor."""
        return type(self)

    def _compute(self) -> Tensor:
        raise Unrecordable("it asks for one number of messages, which differs from node to node")

    def __index__(self) -> int:
        return int(real(self))

    def tensor(self, dtype: str, device: Any) -> Tensor:
        """Return the numbers as a tensor (num_nodes,)."""
        values = self.values
        is_array = isinstance(values, np.ndarray)
        if dtype not in _DTYPES or (is_array and backend.guest is not None):  # of which library would it be?
            raise Unrecordable(f"it combines the number of messages with a tensor of dtype {dtype}", lasting=False)
        if isinstance(values, np.ndarray):
            values = backend.from_numpy(values)
        return backend.to_device(backend.astype(values, dtype), device)

    def beside(self, dtype: str, device: Any, axes: int) -> Tensor:
        """Return the numbers as rows of ``axes`` axes of length 1, which broadcast over any others."""
        values = self.tensor(dtype, device)
        return backend.reshape(values, (backend.shape(values)[0], *(1,) * axes))

    def _dispatch(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for x in args:
            if type(x) is EdgeColumn:
                return x._dispatch(name, function, args, kwargs)
        operation = name.strip("_") if name.startswith("__") else name
        if not kwargs and operation in _OF_NUMBERS and all(map(_is_number, args)):
            if any(type(x) is NodeNumber and x.least is not None for x in args):
                return _in_program(operation, function, args)
            return _computed(operation, function, list(map(_stored, args)))
        if kwargs or operation not in _WITH_TENSORS:
            raise Unrecordable(f"it calls {operation!r} on the number of messages")
        if any(map(is_rows, args)):
            rows = real(next(filter(is_rows, args)))
            dtype, device, axes = backend.dtype(rows), backend.device(rows), len(backend.shape(rows)) - 1
            args = tuple(NodeColumn(x.beside(dtype, device, axes)) if type(x) is NodeNumber else x for x in args)
            return next(filter(is_rows, args))._dispatch(name, function, args, {})
        if not all(type(x) is NodeNumber or _is_number(x) or _has_no_axes(x) for x in args):
            raise Unrecordable(f"it calls {operation!r} on the number of messages and a tensor")
        tensor = next(_stored(x) for x in args if not _is_number(x))
        dtype, device = backend.dtype(tensor), backend.device(tensor)
        return NodeNumber(function(*(x.tensor(dtype, device) if type(x) is NodeNumber else x for x in args)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute a function of NumPy's, such as ``numpy.log``."""
        is_listed = method == "__call__" and not options and ufunc.__name__ in _UFUNCS
        if not is_listed or not all(map(_is_number, inputs)):
            raise Unrecordable(f"it calls {ufunc.__name__!r} of NumPy on the number of messages")
        if any(type(x) is NodeNumber and x.least is not None for x in inputs):
            return _in_program(ufunc.__name__, getattr(framework, ufunc.__name__), inputs)
        return NodeNumber(ufunc(*map(_stored, inputs)))


def _stored(x: Any) -> Any:
    return x.values if type(x) is NodeNumber else x


def _is_number(x: Any) -> bool:
    """Whether ``x`` is a number, of all nodes or of each."""
    if type(x) is NodeNumber:
        return isinstance(x.values, np.ndarray) or x.least is not None
    return not is_deferred(x) and isinstance(x, int | float | np.number)


def _has_no_axes(x: Any) -> bool:
    return not is_deferred(x) and backend.is_tensor(x) and not backend.shape(x)


def _computed(name: str, function: Callable[..., Any], values: list[Any]) -> NodeNumber:
    divisor = values[0 if name == "pow" else -1]
    if name in ("truediv", "floordiv", "mod", "pow") and not np.all(np.greater(divisor, 0)):
        raise Unrecordable("it may divide by zero")  # which Python refuses, unlike NumPy
    return NodeNumber(np.asarray(function(*values), np.float64))


_RISES = frozenset("log log2 log10 log1p sqrt exp square".split())
"""Functions whose least value is that of the least number; of ``square`` if that is not negative."""


def _in_program(name: str, function: Callable[..., Any], args: Sequence[Any]) -> NodeNumber:
    """Return numbers that a program computes, and a bound below them: what might divide by zero is refused."""
    bounds = [_least(x) for x in args]
    if name in ("truediv", "divide", "floordiv", "mod", "pow") and not bounds[0 if name == "pow" else -1] > 0:
        raise Unrecordable("it may divide by zero")
    if name == "reciprocal" and not bounds[0] > 0:
        raise Unrecordable("it may divide by zero")
    return NodeNumber(function(*map(_stored, args)), _bound(name, args, bounds))


def _least(x: Any) -> float:
    if type(x) is not NodeNumber:
        return float(x)
    return -math.inf if x.least is None else x.least


def _bound(name: str, args: Sequence[Any], bounds: Sequence[float]) -> float:
    """Return a number that is below all results, minus infinity where none is known."""
    least = min(bounds)
    if name == "add":
        return sum(bounds)
    if name in ("sub", "subtract"):
        return -math.inf if type(args[1]) is NodeNumber else bounds[0] - bounds[1]
    if name in ("mul", "multiply"):
        return math.prod(bounds) if least >= 0 else -math.inf
    if name in ("truediv", "divide"):
        return 0.0 if type(args[1]) is NodeNumber and bounds[0] >= 0 else bounds[0] / bounds[1]
    if name == "abs" or (name == "reciprocal" and least > 0):
        return max(least, 0.0)
    if name in _RISES and least > 0:
        return float(getattr(np, name)(least))
    if name == "pow" and least > 0:
        return 0.0
    return -math.inf


class MailboxShape:
    """The shape of messages (num_nodes, number of messages, *feat), whose first two sizes differ between buckets."""

    def __init__(self, degrees: Callable[[], np.ndarray | Tensor], feat: tuple[int, ...]) -> None:
        self._degrees, self._feat = degrees, feat

    def __len__(self) -> int:
        return 2 + len(self._feat)

    def __getitem__(self, key: Any) -> Any:
        place = range(len(self))[key]
        if isinstance(place, int) and place == 1:
            degrees = self._degrees()
            is_array = isinstance(degrees, np.ndarray)
            return NodeNumber(np.asarray(degrees, np.float64)) if is_array else NodeNumber(degrees, 1.0)
        if min([place] if isinstance(place, int) else place, default=2) < 2:
            raise Unrecordable("it asks how many nodes there are")
        return (None, None, *self._feat)[key]

    def __iter__(self) -> Any:
        raise Unrecordable("it asks how many nodes there are")

    def __eq__(self, other: object) -> bool:
        raise Unrecordable("it asks how many nodes there are")

    __hash__ = None  # type: ignore[assignment]
