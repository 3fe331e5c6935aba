"""Cells: a user's function recorded as one node, with a body that is written for a batch.

The body is traced once per session and kinds of arguments. Every use of it then stands for the operations that were
recorded meanwhile (a macro), which are scheduled, fused with gathers and differentiated as all others, at the cost of
recording one. A body that cannot be traced runs as it is, on stacked tensors, with torch's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from torch import Tensor

from ....errors import DGLError
from ....kernels.cpu.dynamic.batching import ABSOLUTE, INNER, INPUT, PLACE_BITS, PLACE_MASK
from ...autocast import without_autocast
from ..session import Session
from .fusion import RecordedOperation, fused
from .generic import made_by_rows, only
from .kinds import TensorKind, kind_of
from .pointwise import refs_of
from .signatures import ARGUMENT
from .tensor import LazyTensor, UntraceableBody, append

_kind_of = attrgetter("_kind")


class Cell:
    """A function of tensors with a batch axis in front that takes lazy tensors of one sample. See :func:`cell`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __call__(self, *args: Any) -> Any:
        """Record one use, or call the function itself where no argument is lazy."""
        try:
            session = args[0]._session
            recorder = session.caches[self, session.tracing, *map(_kind_of, args)]
        except (AttributeError, KeyError, IndexError):
            return self._first(args)
        return recorder.record(session, args)

    def _first(self, args: tuple[Any, ...]) -> Any:
        """Record a use of kinds that have not been met in this session, or with arguments that are not lazy."""
        lazies = [x for x in args if type(x) is LazyTensor]
        if not lazies or lazies[0]._session.tracing:  # a cell inside of another one's body is part of it
            return self.function(*args)
        session = lazies[0]._session
        key = self, False, *[x._kind if type(x) is LazyTensor else _fixed(x) for x in args]
        recorder = session.caches.get(key)
        if recorder is None:
            recorder = session.caches[key] = self._recorder_of(session, args)
        return recorder.record(session, lazies)

    def _recorder_of(self, session: Session, args: tuple[Any, ...]) -> Any:
        try:
            return _traced(session, self.function, args)
        except UntraceableBody:
            kinds = [x._kind for x in args if type(x) is LazyTensor]
            with without_autocast():
                return made_by_rows(session, self.function, (args, {}), kinds)


def cell(function: Callable[..., Any]) -> Cell:
    """Make a function one node of lazy graphs.

    The function is written for a batch: each tensor that it is given has an axis in front that stands for the samples,
    and so has each that it returns (a tensor, or a list or tuple of them). It is called with lazy tensors of one
    sample. It must do the same for every row, or raises ``DGLError`` where it mixes them, and is looked at once per
    session and kinds of arguments: what it reads from outside, modules apart, must not change in between.

    >>> import torch
    >>> from dglite import dynamic
    >>> inner = torch.nn.LSTMCell(4, 8)
    >>> @dynamic.cell
    ... def lstm(x, h, c):
    ...     return inner(x, (h, c))
    >>> h = c = dynamic.lazy(torch.zeros(8))
    >>> for word in dynamic.lazy(torch.ones(3, 4)):
    ...     h, c = lstm(word, h, c)
    >>> dynamic.run(h).shape
    torch.Size([8])
    """
    return Cell(function)


def _fixed(x: Any) -> Any:
    if isinstance(x, Tensor):
        raise DGLError("a cell takes lazy tensors, modules and numbers; make the tensor lazy with dglite.dynamic.lazy")
    return x


# -- bodies that are traced --------------------------------------------------------------------------------------------
class _TracedCell(NamedTuple):
    """A macro's number, its nodes and their arguments, and (whose, place, kind) of each result."""

    number: int
    num_nodes: int
    num_args: int
    results: Sequence[tuple[int, int, TensorKind]]
    assemble: Any

    def record(self, session: Session, lazies: Sequence[LazyTensor]) -> Any:
        """Record one use of the macro and return what its body returns."""
        refs = refs_of(lazies)
        session.num_args += self.num_args
        first, parts = append(session, None, self.num_nodes, self.number, *refs)._ref, list[LazyTensor]()
        for origin, place, kind in self.results:
            if origin == INNER:
                ref = first + place
            else:  # an argument, or what is the same for all samples
                ref = place if origin == ABSOLUTE else refs[place >> PLACE_BITS] + (place & PLACE_MASK)
            parts.append(LazyTensor(session, ref, kind))
        return self.assemble(parts)


def _traced(session: Session, function: Callable[..., Any], args: tuple[Any, ...]) -> _TracedCell:
    """Call the body with a row that stands for any sample's, and make a macro of what it records.

    What it has recorded stays in the session, where nobody will need it.
    """
    begin, first = len(session.recorded), session.count
    rows = [_row(session, x._kind) if type(x) is LazyTensor else x for x in args]
    num_inputs = session.count - first
    session.tracing = True
    try:
        returned = function(*rows)
    finally:
        session.tracing = False
    values, assemble = (list(returned), type(returned)) if isinstance(returned, list | tuple) else ([returned], only)
    if not all(type(value) is LazyTensor and value._kind.shape[:1] == (1,) for value in values):
        raise UntraceableBody("the body returns what has no row for each sample")
    steps, local, outside = _recorded_since(session, begin, first, num_inputs)
    results = [local(value._ref) for value in values]
    steps, inner = fused(steps, [ref >> PLACE_BITS for ref in results])
    places = list(outside)

    def place_of(ref: int) -> tuple[int, int]:
        node = ref >> PLACE_BITS
        if node < 0:
            return ABSOLUTE, places[-1 - node]
        return (INPUT, ref) if node < num_inputs else (INNER, inner[node] + (ref & PLACE_MASK))

    words = [num_inputs]
    for step in steps:
        words += [step.signature.number, len(step.refs)]
        words += [word for ref in step.refs for word in place_of(ref)]
    kinds = [kind_of(value._kind.shape[1:], value._kind.dtype) for value in values]
    places_of_results = [(*place_of(ref), kind) for ref, kind in zip(results, kinds, strict=True)]
    return _TracedCell(
        session.own_macro(words), len(steps), sum(len(step.refs) for step in steps), places_of_results, assemble
    )


def _row(session: Session, kind: TensorKind) -> LazyTensor:
    """Return what stands for any sample's value while a body is traced: it has an axis of length 1 in front."""
    return session.record(ARGUMENT, (), kind_of((1, *kind.shape), kind.dtype))


def _recorded_since(
    session: Session, begin: int, first: int, num_inputs: int
) -> tuple[list[RecordedOperation], Callable[[int], int], dict[int, int]]:
    """Return the operations in a session's stream from ``begin`` on, whose first entry is node ``first``.

    They are numbered as in any session: inputs, then operations; what is outside of both has numbers below 0. Besides,
    what changes a place in the session to one of these, and the places outside, numbered.
    """
    stream, at, node = session.recorded.tolist(), begin, 0
    steps, inside, outside = list[RecordedOperation](), set(range(num_inputs)), dict[int, int]()

    def local(ref: int) -> int:
        if (ref >> PLACE_BITS) - first in inside:
            return ref - (first << PLACE_BITS)
        return -1 - outside.setdefault(ref, len(outside)) << PLACE_BITS

    while at < len(stream):
        signature = session.signature(stream[at])
        end = at + 1 + signature.arity
        if signature.arity:
            steps.append(RecordedOperation(node, signature, [local(ref) for ref in stream[at + 1 : end]]))
            inside.add(node)
        at, node = end, node + 1
    return steps, local, outside
