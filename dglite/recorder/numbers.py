"""Numbers that differ from node to node: how many messages a node has, and what a reduce function computes of that.

In a degree bucket there is one such number, a Python ``int``. In a mailbox of all nodes there is one for each node, and
what needs a single one, such as a branch or the shape of a new tensor, raises :class:`Unrecordable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from .deferred import Deferred, EdgeColumn, Unrecordable, is_deferred, real
from .rows import NodeColumn, is_rows

_OF_NUMBERS = frozenset("add sub mul truediv floordiv mod pow neg pos abs".split())
_WITH_TENSORS = frozenset("add sub mul truediv div multiply subtract divide true_divide".split())
_UFUNCS = frozenset("add subtract multiply divide log log2 log10 log1p sqrt exp reciprocal square negative".split())
_DTYPES = ("float32", "float64")
"""Of tensors that a number may be combined with: others would round it."""


class NodeNumber(Deferred):
    """A number of each node, float64, or in a tensor (num_nodes,) once it was combined with a tensor without axes."""

    __slots__ = ("values",)
    takes_rows = True

    def __init__(self, values: np.ndarray | Tensor) -> None:
        self.values, self.computed = values, None

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
        if backend.guest is not None or dtype not in _DTYPES:
            raise Unrecordable(f"it combines the number of messages with a tensor of dtype {dtype}", lasting=False)
        values = backend.from_numpy(self.values) if isinstance(self.values, np.ndarray) else self.values
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
        tensor = next(x for x in map(_stored, args) if not isinstance(x, np.ndarray) and backend.is_tensor(x))
        dtype, device = backend.dtype(tensor), backend.device(tensor)
        return NodeNumber(function(*(x.tensor(dtype, device) if type(x) is NodeNumber else x for x in args)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute a function of NumPy's, such as ``numpy.log``."""
        is_listed = method == "__call__" and not options and ufunc.__name__ in _UFUNCS
        if not is_listed or not all(map(_is_number, inputs)):
            raise Unrecordable(f"it calls {ufunc.__name__!r} of NumPy on the number of messages")
        return NodeNumber(ufunc(*map(_stored, inputs)))


def _stored(x: Any) -> Any:
    return x.values if type(x) is NodeNumber else x


def _is_number(x: Any) -> bool:
    """Whether ``x`` is a number, of all nodes or of each."""
    if type(x) is NodeNumber:
        return isinstance(x.values, np.ndarray)
    return not is_deferred(x) and isinstance(x, int | float | np.number)


def _has_no_axes(x: Any) -> bool:
    return not is_deferred(x) and backend.is_tensor(x) and not backend.shape(x)


def _computed(name: str, function: Callable[..., Any], values: list[Any]) -> NodeNumber:
    divisor = values[0 if name == "pow" else -1]
    if name in ("truediv", "floordiv", "mod", "pow") and not np.all(np.greater(divisor, 0)):
        raise Unrecordable("it may divide by zero")  # which Python refuses, unlike NumPy
    return NodeNumber(np.asarray(function(*values), np.float64))


class MailboxShape:
    """The shape of messages (num_nodes, number of messages, *feat), whose first two sizes differ between buckets."""

    def __init__(self, degrees: Callable[[], np.ndarray], feat: tuple[int, ...]) -> None:
        self._degrees, self._feat = degrees, feat

    def __len__(self) -> int:
        return 2 + len(self._feat)

    def __getitem__(self, key: Any) -> Any:
        place = range(len(self))[key]
        if isinstance(place, int) and place == 1:
            return NodeNumber(np.asarray(self._degrees(), np.float64))
        if min([place] if isinstance(place, int) else place, default=2) < 2:
            raise Unrecordable("it asks how many nodes there are")
        return (None, None, *self._feat)[key]

    def __iter__(self) -> Any:
        raise Unrecordable("it asks how many nodes there are")

    def __eq__(self, other: object) -> bool:
        raise Unrecordable("it asks how many nodes there are")

    __hash__ = None  # type: ignore[assignment]
