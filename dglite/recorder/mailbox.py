"""The mailbox of all nodes at once: reductions over messages run as kernels, whatever the degrees.

Its columns have two axes in front of the features, the nodes and their messages. Reducing the second gives an ordinary
tensor with a row for every node; nothing else in a mailbox has a value before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..expr import operands_of
from ..opspec import COMPARISONS, Reducer
from .combine import OperationTable, combine, is_boolean, settled, stored
from .deferred import Deferred, EdgeColumn, Tape, Unrecordable, real
from .numbers import MailboxShape
from .operations import MESSAGES
from .rows import NodeColumn

MAILBOX = OperationTable(MESSAGES)
"""Operations on mailbox columns: those on messages, and the reductions over them."""


def _compared(op: str) -> Callable[..., Any]:
    """Return a comparison, in which 16-bit messages are as they would be stored: an extremum of theirs is rounded."""

    def compare(tape: Mailbox, input: Any, other: Any) -> Any:
        rounded = (
            stored(tape, x) if type(x) is EdgeColumn and x.feat_dtype in ("float16", "bfloat16") else x
            for x in (input, other)
        )
        return combine(tape, op, *rounded)

    return compare


for _name in COMPARISONS:
    MAILBOX.add(_name)(_compared(_name))


class Mailbox(Tape):
    """The tape of a mailbox. Reductions wait until one is needed; others of the same messages then run with it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.waiting: list[ref[Reduced]] = []

    def reduction(self, reducer: Reducer, column: EdgeColumn, of_any_shape: bool) -> Reduced:
        """Return a reduction: the same one as long as it waits, since several statistics begin with one mean."""
        for reference in self.waiting:
            reduced = reference()
            if reduced is not None and reduced.is_same(reducer, column, of_any_shape):
                return reduced
        return Reduced(self, reducer, column, of_any_shape)

    def reduce_waiting(self, first: Reduced) -> Tensor:
        """Return the value of ``first``, and compute what waits, is still held, and can be run together with it."""
        column = settled(self, first.column)
        if len(self.waiting) == 1:
            self.waiting.clear()
            return self.reduce(first.reducer, column)
        waiting = [reference() for reference in self.waiting]
        unread = [reduced for reduced in waiting if reduced is not None and reduced.computed is None]
        together = [
            first,
            *(reduced for reduced in unread if reduced is not first and self.joins(column, reduced.column)),
        ]
        values = self.reduce_several([(reduced.reducer, settled(self, reduced.column)) for reduced in together])
        for reduced, value in zip(together, values, strict=True):
            reduced.computed = value
        self.waiting = [ref(reduced) for reduced in unread if reduced.computed is None]
        return values[0]

    def shape_of(self, column: EdgeColumn) -> Any:
        return super().shape_of(column) if self.lead == 1 else MailboxShape(self.degrees, column.feat)

    @abstractmethod
    def degrees(self) -> np.ndarray | Tensor:
        """Return how many messages each node has, at least 1; in a program a float64 tensor (num_nodes,)."""

    @abstractmethod
    def joins(self, column: EdgeColumn, other: EdgeColumn) -> bool:
        """Whether reductions of the two can be made in one pass, and it saves something."""

    @abstractmethod
    def reduce_several(self, parts: Sequence[tuple[Reducer, EdgeColumn]]) -> list[Tensor]:
        """Return what :meth:`reduce` does for each, in one pass."""

    @abstractmethod
    def reduce(self, reducer: Reducer, column: EdgeColumn) -> Tensor:
        """Return the reduction of each node's messages, (num_nodes, *feat)."""

    @abstractmethod
    def softmax(self, column: EdgeColumn) -> EdgeColumn:
        """Return the messages normalised by a softmax at each node."""


class Reduced(NodeColumn):
    """A reduction that has not been run. Returned untouched, it shows that the function is a built-in reducer.

    ``of_any_shape``: the axis was counted from the front, so it is the axis of messages whatever the feature shape.
    """

    __slots__ = ("__weakref__", "column", "of_any_shape", "reducer", "tape")

    def __init__(self, tape: Mailbox, reducer: Reducer, column: EdgeColumn, of_any_shape: bool) -> None:
        self.tape, self.reducer, self.column, self.of_any_shape = tape, reducer, column, of_any_shape
        self.computed, self.stored = None, True
        tape.waiting.append(ref(self))

    def is_same(self, reducer: Reducer, column: EdgeColumn, of_any_shape: bool) -> bool:
        """Whether this is that reduction."""
        same = self.reducer is reducer and self.of_any_shape == of_any_shape and self.column.summed == column.summed
        return same and (self.column.expr, self.column.feat) == (column.expr, column.feat)

    def _compute(self) -> Tensor:
        return self.tape.reduce_waiting(self)


class _Positions(Deferred):
    """Where in a mailbox an extremum stands: known in a bucket alone."""

    __slots__ = ()

    def __init__(self) -> None:
        self.computed = None

    def _compute(self) -> Tensor:
        raise Unrecordable("it asks which message has the extremum")


_Extremum = namedtuple("_Extremum", "values indices")


def _over_messages(column: Any, dim: Any, axis: Any = None) -> bool:
    """Whether ``dim`` is the axis of the messages."""
    dim = axis if dim is None else dim
    if type(column) is not EdgeColumn or is_boolean(column):
        return False
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = dim[0]
    return isinstance(dim, int) and not isinstance(dim, bool) and dim in (1, -1 - len(column.feat))


def _reduced(tape: Mailbox, reducer: Reducer, column: EdgeColumn, dim: Any, keepdim: bool) -> Any:
    result = tape.reduction(reducer, column, dim in (1, [1], (1,)))
    return _with_message_axis(real(result)) if keepdim else result


def _with_message_axis(x: Tensor) -> NodeColumn:
    """Return rows with an axis of length 1 in the place of the messages."""
    rows, *feat = backend.shape(x)
    return NodeColumn(backend.reshape(x, (rows, 1, *feat)))


_trailing_sum = MAILBOX.find("sum", (), {})


@MAILBOX.add("sum")
def _sum(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
    if _over_messages(input, dim, axis):
        return _reduced(tape, Reducer.SUM, input, axis if dim is None else dim, keepdim)
    assert _trailing_sum is not None
    return _trailing_sum(tape, input, dim, keepdim, axis=axis)


@MAILBOX.add("mean")
def _mean(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
    dim = axis if dim is None else dim
    return _reduced(tape, Reducer.MEAN, input, dim, keepdim) if _over_messages(input, dim) else NotImplemented


@MAILBOX.add("max")
def _max(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if not _over_messages(input, dim):
        return NotImplemented
    return _Extremum(_reduced(tape, Reducer.MAX, input, dim, keepdim), _Positions())


@MAILBOX.add("min")
def _min(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if not _over_messages(input, dim):
        return NotImplemented
    return _Extremum(_reduced(tape, Reducer.MIN, input, dim, keepdim), _Positions())


@MAILBOX.add("amax")
def _amax(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _shared_extremum(tape, Reducer.MAX, input, keepdim) if _over_messages(input, dim) else NotImplemented


@MAILBOX.add("amin")
def _amin(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _shared_extremum(tape, Reducer.MIN, input, keepdim) if _over_messages(input, dim) else NotImplemented


def _shared_extremum(tape: Mailbox, reducer: Reducer, input: EdgeColumn, keepdim: bool) -> Any:
    """Return an extremum whose gradient is shared by all messages that attain it, as ``torch.amax`` does.

    Its gradient is the gradient of the mean of the messages that equal the extremum. If a gradient is needed, the
    messages are stored once and compared.
    """
    column = settled(tape, input)
    differentiable = any(backend.requires_grad(tape.tensor(operand.slot)) for operand in operands_of(column.expr))
    column = stored(tape, column) if differentiable else column
    extremum = tape.reduce(reducer, column)
    if differentiable:
        attains = combine(tape, "eq", column, _with_message_axis(backend.detach(extremum)))
        attained = combine(tape, "where", attains, column, 0.0, truths=1)
        if attained is NotImplemented:
            return NotImplemented
        ones = EdgeColumn(tape, attains.expr.call("where", 1.0, 0.0), attains.feat, column.feat_dtype)
        mean = tape.reduce(Reducer.SUM, attained) / tape.reduce(Reducer.SUM, ones)
        extremum = backend.apply(_WithGradientOf(), backend.detach(extremum), mean)
    return _with_message_axis(extremum) if keepdim else NodeColumn(extremum)


class _WithGradientOf:
    """``x`` exactly, with the gradient of a second tensor that equals it up to rounding."""

    saved = ()

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return backend.copy(x)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [None, grad]


@MAILBOX.add("logsumexp")
def _logsumexp(tape: Mailbox, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if not _over_messages(input, dim):
        return NotImplemented
    result = tape.reduce(Reducer.LOGSUMEXP, settled(tape, input))
    return _with_message_axis(result) if keepdim else NodeColumn(result)


@MAILBOX.add("softmax")
def _softmax(tape: Mailbox, input: Any, dim: Any = None, dtype: Any = None, _stacklevel: int = 3) -> Any:
    if not _over_messages(input, dim) or dtype is not None:
        return NotImplemented
    return tape.softmax(settled(tape, input))
