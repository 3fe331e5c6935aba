"""Deferred columns: they behave like tensors, and record element-wise operations as one expression.

A user's function that is given such columns is called once, as it would be with tensors. What it does element by
element makes a larger expression; at anything else the column is computed, and the function continues with a tensor. So
the function is never run twice, and never sees anything but the right values.

In a mailbox there is no tensor to fall back on, since nodes differ in how many messages they have. What cannot be
expressed there raises :class:`Unrecordable`, and the function is called in degree buckets instead.
"""

from __future__ import annotations

import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..backend import Tensor, library_of
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Expr, Operand, Side, evaluate, operands_of, renumber
from ..function import FieldName, Reshaped
from .bytecode import asks_for_class, makes_tensors

Source = tuple[Side, FieldName]
"""Whose rows an operand has, and what it reads."""


class Unrecordable(DGLError):
    """A user's function does what has no meaning on a deferred column; the scheduler executes it as written then.

    ``lasting`` tells whether that lies in the function, and not in what this call gave it.
    """

    def __init__(self, reason: str, lasting: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.lasting = reason, lasting
        self.function: Any = None


class Deferred:
    """Stands for a tensor. An operation that its tape does not understand is done on the tensor itself.

    Once that has happened, the column *is* that tensor: later operations use it, with what was done to it meanwhile.
    """

    __slots__ = ("computed",)

    computed: Tensor | None
    """The tensor, once it has been computed."""
    in_place = False
    """Whether it may be given to a function with ``inplace``."""
    takes_rows = False
    """Whether operations on it and rows of reduced messages are its own to do."""

    @abstractmethod
    def _compute(self) -> Tensor:
        """Return the tensor."""

    def _dispatch(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*realised(args), **realised(kwargs))

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """The tensor's type, so that ``isinstance`` answers as for the tensor.

        torch's functions ask for it, too, and read the memory of what says that it is a tensor: they are told the
        truth, and ask ``__torch_function__`` then. ``torch.tensor`` does not, and would read all elements one by one.
        """
        code = sys._getframe(1).f_code
        if makes_tensors(code):
            raise Unrecordable("it makes a tensor, and may make it of a column")
        if not asks_for_class(code):
            return type(self)
        return self._tensor_type()

    def _tensor_type(self) -> type:
        return backend.tensor_type

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Receive a function of the tensor library that was called with a deferred column among its arguments."""
        kwargs = kwargs or {}
        first = next(deferred_in((*args, *kwargs.values())))
        if kwargs.get("out") is not None or (kwargs.get("inplace") and not first.in_place):
            raise Unrecordable(f"it calls {function.__name__!r} in place")
        return first._dispatch(function.__name__, function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._attribute(name)

    def _attribute(self, name: str) -> Any:
        if name.endswith("_"):
            raise Unrecordable(f"it calls {name!r} in place")
        return getattr(real(self), name)

    def __bool__(self) -> bool:
        return bool(real(self))

    def __float__(self) -> float:
        return float(real(self))

    def __int__(self) -> int:
        return int(real(self))

    def __len__(self) -> int:
        return len(real(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(real(self))

    def __contains__(self, item: Any) -> bool:
        return item in real(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return real(self).__array__(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(real(self))

    def __hash__(self) -> int:
        return id(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise Unrecordable("it writes into a column that it was given")


def real(x: Deferred) -> Tensor:
    """Return the tensor that ``x`` stands for, computed once."""
    if x.computed is None:
        x.computed = x._compute()
    return x.computed


def is_deferred(x: object) -> bool:
    """Whether ``x`` is a deferred column; ``isinstance`` would ask for its claimed class too."""
    return issubclass(type(x), Deferred)


def realised(x: Any) -> Any:
    """Return arguments with tensors in the place of deferred columns, inside lists, tuples and dicts too."""
    if is_deferred(x):
        return real(x)
    if type(x) in (list, tuple):
        return type(x)(map(realised, x))
    if type(x) is dict:
        return {key: realised(value) for key, value in x.items()}
    return x


def deferred_in(values: Sequence[Any]) -> Iterator[Deferred]:
    """Yield the deferred columns among arguments, inside lists and tuples too."""
    for value in values:
        if is_deferred(value):
            yield value
        elif type(value) in (list, tuple):
            yield from deferred_in(value)


_ARITHMETIC = {name: getattr(operator, name) for name in "add sub mul truediv pow matmul floordiv mod xor".split()}
_ARITHMETIC |= {"and": operator.and_, "or": operator.or_}
_COMPARISONS = {name: getattr(operator, name) for name in ("gt", "ge", "lt", "le", "eq", "ne")}
_UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "invert": operator.invert}


def _install(method: str, name: str, function: Callable[..., Any], reflected: bool = False) -> None:
    def call(self: Deferred, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        return self._dispatch(name, function, args, {})

    call.__name__ = call.__qualname__ = method
    setattr(Deferred, method, call)


for _name, _function in {**_ARITHMETIC, **_COMPARISONS, **_UNARY, "getitem": operator.getitem}.items():
    _install(f"__{_name}__", _name, _function)
for _name, _function in _ARITHMETIC.items():
    _install(f"__r{_name}__", _name, _function, reflected=True)


class Operations(Protocol):
    """The operations that a tape's columns understand, by the names that tensor libraries give them."""

    def find(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the operation if it takes such arguments, else None."""


class EdgeColumn(Deferred):
    """An expression over the operands of a tape, with a value for every edge.

    ``feat`` and ``feat_dtype`` describe a row; ``feat_dtype`` is None for a boolean column. With ``summed`` the last
    feature axis is still to be summed: ``"keep"`` leaves an axis of length 1, ``"drop"`` none; ``feat`` is the shape
    afterwards, and ``settled`` the column of the sums, once something else is computed of them. Tensors have no
    attributes of these names.
    """

    __slots__ = ("_settled", "expr", "feat", "feat_dtype", "summed", "tape")
    takes_rows = True

    def __init__(
        self, tape: Tape, expr: Expr, feat: tuple[int, ...], dtype: str | None, summed: str | None = None
    ) -> None:
        self.tape, self.expr, self.summed = tape, expr, summed
        self.feat, self.feat_dtype = tuple(feat), dtype
        self.computed = None
        self._settled: EdgeColumn | None = None

    def _tensor_type(self) -> type:
        return self.tape.tensor_type

    @property
    def operand(self) -> Operand:
        """The operand that the column is."""
        assert isinstance(self.expr, Operand)
        return self.expr

    def _compute(self) -> Tensor:
        if self.tape.lead > 1:
            raise Unrecordable("it reads the mailbox as a tensor")
        self.tape.cacheable = False
        return self.tape.compute(self)

    def _dispatch(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        operation = self.tape.operations.find(name, args, kwargs)
        if operation is not None:
            result = operation(self.tape, *args, **kwargs)
            if result is not NotImplemented:
                return result
        if self.tape.lead > 1:
            raise Unrecordable(f"it calls {getattr(function, '__name__', name)!r} on messages")
        return function(*realised(args), **realised(kwargs))

    def _attribute(self, name: str) -> Any:
        tape = self.tape
        if name in ("ndim", "device"):
            return tape.lead + len(self.feat) if name == "ndim" else tape.device
        if name == "shape":
            return tape.shape_of(self)
        if name == "dtype" and self.feat_dtype is not None:
            return tape.dtypes[self.feat_dtype]
        if name == "dim":
            return lambda: tape.lead + len(self.feat)
        if name == "size":
            return lambda dim=None: self.shape if dim is None else self.shape[dim]
        if tape.operations.find(name, (self,), {}) is None and tape.operations.find(name, (self, 1), {}) is None:
            return super()._attribute(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._dispatch(name, getattr(self._tensor_type(), name), (self, *args), kwargs)

        return method


class Tape(ABC):
    """The operands that a function's columns read, and how to compute a column.

    ``sources[slot]`` says what operand ``slot`` is; a number is one of ``captured``, tensors that are no columns.
    ``lead`` counts the axes in front of the features: 1 for a batch of edges, 2 for a mailbox. ``literals`` are the
    numbers that are written into kernels; others are passed, so that a changing number compiles nothing.
    """

    def __init__(
        self,
        operations: Operations,
        lead: int,
        num_edges: int,
        num_rows: Mapping[Side, int],
        device: Any,
        literals: frozenset[float],
    ) -> None:
        self.operations, self.lead, self.num_edges, self.num_rows = operations, lead, num_edges, num_rows
        self.device, self.literals = device, literals
        self.sources: list[Source] = []
        self.captured: list[Tensor] = []
        self.tensors: list[Any] = []
        self.dtypes: dict[str, Any] = {}
        self.shape_type: Callable[[Sequence[int]], Any] = tuple
        self.cacheable = True
        """Whether the recording may serve other edges: not once the function asked for ids, sizes or values here."""
        self._slots: dict[Source, int] = {}

    @property
    def tensor_type(self) -> type:
        """The class of the tensors that the columns stand for."""
        return backend.tensor_type if backend.guest is None else library_of(self.tensors).tensor_type

    @property
    def tensor_device(self) -> Any:
        """The device of the tensors that the columns stand for."""
        return self.device if backend.guest is None else backend.device(self.tensors[0])

    def operand(self, source: Source, tensor: Tensor) -> Operand:
        """Return the operand that reads ``tensor``, the rows of ``source``."""
        slot = self._slots.get(source)
        if slot is None:
            slot = self._slots[source] = len(self.sources)
            self.sources.append(source)
            self.tensors.append(tensor)
            self.dtypes[backend.dtype(tensor)] = tensor.dtype
            self.shape_type = type(backend.shape(tensor))
        return Operand(source[0], slot)

    def column(self, side: Side, name: str, tensor: Tensor) -> EdgeColumn:
        """Return a feature column."""
        return EdgeColumn(self, self.operand((side, name), tensor), backend.shape(tensor)[1:], backend.dtype(tensor))

    def reshaped(self, operand: Operand, feat: tuple[int, ...]) -> Operand:
        """Return the operand with rows of another shape, of as many elements."""
        side, name = self.sources[operand.slot]
        x = self.tensor(operand.slot)
        rows, *stored = backend.shape(x)
        whole = backend.reshape(x, (rows, *feat))
        if isinstance(name, int):
            return self.capture(side, whole).operand
        target = name._replace(feat=feat) if isinstance(name, Reshaped) else Reshaped(name, tuple(stored), feat)
        return self.operand((side, target), whole)

    def unsqueezed(self, column: EdgeColumn, axis: int) -> EdgeColumn:
        """Return the column with a feature axis of length 1 before ``axis``, its operands likewise."""
        axes = len(column.feat)
        slots = {}
        for operand in operands_of(column.expr):
            shape = self.feat_of(operand.slot)
            shape = (1,) * (axes - len(shape)) + shape
            slots[operand.slot] = self.reshaped(operand, (*shape[:axis], 1, *shape[axis:])).slot
        feat = (*column.feat[:axis], 1, *column.feat[axis:])
        return EdgeColumn(self, renumber(column.expr, slots), feat, column.feat_dtype)

    def capture(self, side: Side, tensor: Tensor) -> EdgeColumn:
        """Return a tensor with the rows of ``side`` as a column."""
        for number, captured in enumerate(self.captured):
            if captured is tensor and (side, number) in self._slots:
                break
        else:
            number = len(self.captured)
            self.captured.append(tensor)
        return EdgeColumn(self, self.operand((side, number), tensor), backend.shape(tensor)[1:], backend.dtype(tensor))

    def shape_of(self, column: EdgeColumn) -> Any:
        """Return the shape of the tensor that a column stands for."""
        self.cacheable = False
        return self.shape_type((self.num_edges, *column.feat))

    def feat_of(self, slot: int) -> tuple[int, ...]:
        """Return the shape of a row of operand ``slot``."""
        return tuple(backend.shape(self.tensors[slot])[1:])

    def tensor(self, slot: int) -> Tensor:
        """Return the tensor that operand ``slot`` reads."""
        return self.tensors[slot]

    @abstractmethod
    def compute(self, column: EdgeColumn) -> Tensor:
        """Return the column's value for every edge, (num_edges, *feat), in edge order."""

    def used_rows(self, side: Side) -> np.ndarray | None:
        """Return the rows of a side that some edge reads, None where that is all."""
        return None

    def by_rows(self, column: EdgeColumn, function: Callable[[Tensor], Tensor]) -> tuple[Side, Tensor]:
        """Apply what works on each row alone to as few rows as there can be; return whose rows they are and the result.

        What depends on one end of the edges alone has a row for each node there, unless there are fewer edges. Rows
        that no edge reads are left out, or they would touch gradients; the result has zeros for them.
        """
        operands = operands_of(column.expr)
        sides = {operand.side for operand in operands} - {Side.G}
        if len(sides) != 1 or column.summed is not None:
            return Side.E, function(self.compute(column))
        (side,) = sides
        if side is not Side.E and self.num_rows[side] > self.num_edges:
            return Side.E, function(self.compute(column))
        used = self.used_rows(side)
        values: list[Tensor | None] = [None] * len(self.tensors)
        for operand in operands:
            x = self.tensor(operand.slot)
            x = x if used is None or operand.side is Side.G else backend.take(x, used)
            values[operand.slot] = _aligned(x, len(column.feat))
        result = function(evaluate(column.expr, values, backend.functions))
        if used is not None and backend.shape(result)[:1] == (len(used),):
            shape = (self.num_rows[side], *backend.shape(result)[1:])
            whole = backend.full(shape, 0.0, backend.dtype(result), backend.device(result))
            result = backend.put(whole, used, result)
        return side, result


def _aligned(x: Tensor, axes: int) -> Tensor:
    rows, *feat = backend.shape(x)
    return x if len(feat) == axes else backend.reshape(x, (rows, *(1,) * (axes - len(feat)), *feat))
