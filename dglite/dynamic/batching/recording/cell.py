"""Cells: a user's function recorded as one node, with a body that is written for a batch.

The body is traced once per session and kinds of arguments. Every use of it then stands for the operations that were
recorded meanwhile (a macro), which are scheduled, fused with gathers and differentiated as all others, at the cost of
recording one. A body that cannot be traced runs as it is, on stacked tensors, with torch's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from ....errors import DGLError
from ....kernels.cpu.dynamic.batching import ABSOLUTE, EXTERNAL, FIRST_MACRO, INNER, INPUT, PLACE_BITS
from ..session import Macro, Session
from .fusion import RecordedOperation, fused
from .generic import made_by_rows, only, record_function
from .pointwise import ELEMENTWISE, same_session
from .signatures import TensorKind
from .structure import VIEWS, parts_of
from .tensor import FUNCTIONS, METHODS, LazyTensor, blank

__all__ = ["Cell", "cell"]

_MASK = (1 << PLACE_BITS) - 1
_kind_of = attrgetter("_kind")


class Untraceable(DGLError):
    """The body does what a macro cannot stand for; it is run on stacked tensors then."""


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
            known = session.caches[self, *map(_kind_of, args)]
        except (AttributeError, KeyError, IndexError):
            return self._first(args)
        return known.record(session, args)

    def _first(self, args: tuple[Any, ...]) -> Any:
        """Record a use of kinds that have not been met in this session, or with arguments that are not lazy."""
        lazies = [x for x in args if type(x) is LazyTensor]
        if not lazies:
            return self.function(*args)
        session = lazies[0]._session
        key = self, *[x._kind if type(x) is LazyTensor else _fixed(x) for x in args]
        known = session.caches.get(key)
        if known is None:
            known = session.caches[key] = self._made(session, args)
        return known.record(session, lazies)

    def _made(self, session: Session, args: tuple[Any, ...]) -> Any:
        try:
            return _traced(session, self.function, args)
        except Untraceable:
            kinds = [x._kind for x in args if type(x) is LazyTensor]
            return made_by_rows(session, self.function, (args, {}), kinds)


def cell(function: Callable[..., Any]) -> Cell:
    """Make a function one node of lazy graphs.

    The function is written for a batch: each tensor that it is given has an axis in front that stands for the samples,
    and so has each that it returns (a tensor, or a list or tuple of them). It is called with lazy tensors of one
    sample. It must do the same for every row, must not mix rows, and is looked at once per session and kinds of
    arguments: what it reads from outside, modules apart, must not change in between.

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
class _TracedCell:
    """A macro, with (whose, place, kind) of each result."""

    def __init__(self, macro: Macro, results: Sequence[tuple[int, int, TensorKind]], assemble: Any) -> None:
        self.number, self.num_nodes, self.num_args = macro.number, macro.num_nodes, macro.num_args
        self.results, self.assemble = results, assemble

    def record(self, session: Session, lazies: Sequence[LazyTensor]) -> Any:
        """Record one use of the macro and return what its body returns."""
        words = [self.number]
        for x in lazies:
            if x._session is not session:
                same_session(lazies[0], x)
            words.append(x._ref)
        first = session.count << PLACE_BITS
        session.count += self.num_nodes
        session.num_args += self.num_args
        session.stream += words
        parts: list[LazyTensor] = []
        for whose, place, kind in self.results:
            made = blank(LazyTensor)
            made._session, made._kind = session, kind
            if whose == INNER:
                made._ref = first + place
            else:  # an argument, or what is the same for all samples
                made._ref = place if whose == ABSOLUTE else lazies[place >> PLACE_BITS]._ref + (place & _MASK)
            parts.append(made)
        return self.assemble(parts)


class TracedRows:
    """What a body sees while it is traced: a lazy tensor of one sample behind an axis of unknown length."""

    __slots__ = ("_lazy",)

    def __init__(self, lazy: LazyTensor) -> None:
        self._lazy = lazy

    dtype = property(lambda self: self._lazy.dtype)
    device = property(lambda self: self._lazy.device)
    ndim = property(lambda self: self._lazy.ndim + 1)

    def dim(self) -> int:
        """Return how many axes there are, that of the samples included."""
        return self._lazy.ndim + 1

    def size(self, dim: int | None = None) -> int:
        """Return the length of an axis other than that of the samples."""
        if dim is None or dim % self.dim() == 0:
            raise Untraceable("the body asks how many samples there are")
        return self._lazy._kind.shape[dim % self.dim() - 1]

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = _RULES.get(FUNCTIONS.get(function))  # type: ignore[arg-type]
        return _by_rows(function, args, kwargs or {}) if rule is None else rule(*args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        rule, function = _RULES.get(METHODS.get(name)), getattr(Tensor, name, None)  # type: ignore[arg-type]
        if rule is None and not callable(function):
            raise Untraceable(f"the body uses .{name}")
        if rule is None:
            return lambda *args, **kwargs: _by_rows(function, (self, *args), kwargs)
        return lambda *args, **kwargs: rule(self, *args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return _GETITEM(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise DGLError("a cell's body writes in place; make a new tensor, with torch.cat or torch.where")

    def __bool__(self) -> bool:
        raise DGLError(
            "a cell's body branches on a value, which differs from sample to sample; use torch.where, or record the "
            "operations one by one and ask for x.value()"
        )


_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}


def _unwrapped(x: Any) -> Any:
    if type(x) is TracedRows:
        return x._lazy
    return type(x)(map(_unwrapped, x)) if type(x) in (list, tuple) else x


def _wrapped(x: Any) -> Any:
    if type(x) is LazyTensor:
        return TracedRows(x)
    return tuple(map(_wrapped, x)) if type(x) in (list, tuple) else x


def _by_rows(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function that has no rule: it runs on stacked tensors, with torch's gradient."""
    args, kwargs = pytree.tree_map_only(TracedRows, lambda x: x._lazy, (args, kwargs))
    try:
        return _wrapped(record_function(function, args, kwargs, by_rows=True))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, DGLError) as error:
        raise Untraceable(f"the body calls {getattr(function, '__name__', function)}: {error}") from error


def _viewed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function that chooses parts of rows, or gives them another shape."""

    def rule(x: TracedRows, *args: Any, **named: Any) -> Any:
        try:
            found = parts_of(function, x._lazy._kind, args, named, rows=_ROWS)
        except (DGLError, IndexError) as error:
            raise Untraceable(str(error)) from error
        if found is None:
            return _by_rows(function, (x, *args), named)
        session, ref = x._lazy._session, x._lazy._ref
        made = tuple([TracedRows(LazyTensor(session, ref + start, kind)) for start, kind in found[1]])
        return made if found[0] else made[0]

    return rule


_ROWS = 1009
"""Made-up rows, as many as no axis has."""
_GETITEM = _viewed(Tensor.__getitem__)


def _same(record: Callable[..., Any]) -> Callable[..., Any]:
    def rule(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Tensor) and x.dim() > 1 for x in args) and record not in _WITH_WEIGHTS:
            raise Untraceable("the body combines its rows with a matrix")
        return _wrapped(record(*map(_unwrapped, args), **kwargs))

    return rule


def _along(record: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a function that takes an axis as its second argument, 0 unless given."""

    def rule(x: Any, dim: int | None = 0, *args: Any, **kwargs: Any) -> Any:
        if not dim:
            raise Untraceable("the body works along the axis of the samples")
        return _wrapped(record(_unwrapped(x), dim - 1 if dim > 0 else dim, *args, **kwargs))

    return rule


def _losses(record: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a loss, which is recorded for one sample where the body asks for that of each row."""

    def rule(input: Any, target: Any, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        if reduction != "none" or type(input) is not TracedRows or type(target) is not TracedRows:
            raise Untraceable("the body takes a loss of all samples together")
        if (
            input.dim() != 2
            or target.dim() != 1
            or kwargs.get("weight") is not None
            or any(x is not None for x in args)
        ):
            raise Untraceable("the body takes a loss of other than scores and labels")
        return TracedRows(record(input._lazy, target._lazy, **kwargs))

    return rule


def _install() -> None:
    for name in ELEMENTWISE:
        record = METHODS[name]
        _RULES[record] = _same(record)
    for function in (F.linear, torch.matmul, torch.lstm_cell, torch.gru_cell, F.dropout):
        _WITH_WEIGHTS.append(FUNCTIONS[function])
        _RULES[FUNCTIONS[function]] = _same(FUNCTIONS[function])
    for loss in (F.cross_entropy, F.nll_loss):
        _RULES[FUNCTIONS[loss]] = _losses(FUNCTIONS[loss])
    for named in ("cat", "softmax", "log_softmax"):
        record = FUNCTIONS[getattr(torch, named)]
        _RULES[record] = _along(record)
    for name in VIEWS:
        _RULES[METHODS[name]] = _viewed(getattr(Tensor, name))
    operators = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "matmul": "matmul"}
    for operator, name in operators.items():
        rule = _RULES[METHODS[name]]
        setattr(TracedRows, f"__{operator}__", rule)
        setattr(TracedRows, f"__r{operator}__", _reflected(rule))
    for operator in ("pow", "gt", "ge", "lt", "le"):
        setattr(TracedRows, f"__{operator}__", _two(getattr(torch, operator)))
    setattr(TracedRows, "__neg__", _RULES[METHODS["neg"]])  # noqa: B010 - mypy knows no operators given later


def _two(function: Any) -> Callable[[TracedRows, Any], Any]:
    return lambda self, other: _by_rows(function, (self, other), {})


def _reflected(rule: Callable[..., Any]) -> Callable[[TracedRows, Any], Any]:
    return lambda self, other: rule(other, self)


_WITH_WEIGHTS: list[Callable[..., Any]] = []
_install()


def _traced(session: Session, function: Callable[..., Any], args: tuple[Any, ...]) -> _TracedCell:
    """Call the body with rows that stand for any sample's, and make a macro of what it records.

    What it has recorded stays in the session, where nobody will need it.
    """
    begin, first = len(session.stream), session.count
    rows = [TracedRows(session.record_given(x._kind)) if type(x) is LazyTensor else x for x in args]
    num_inputs = session.count - first
    returned = function(*rows)
    values, assemble = (list(returned), type(returned)) if isinstance(returned, list | tuple) else ([returned], only)
    if not all(type(value) is TracedRows for value in values):
        raise Untraceable("the body returns what does not come from its arguments")
    steps, local, outside = _numbered_anew(_recorded_since(session, begin, first), range(first, first + num_inputs))
    results = [local(value._lazy._ref) for value in values]
    steps, inner = fused(steps, [ref >> PLACE_BITS for ref in results])
    given = {number: ref for ref, number in outside.items()}

    def place_of(ref: int) -> tuple[int, int]:
        node = ref >> PLACE_BITS
        if node < num_inputs:
            return INPUT, ref
        return (ABSOLUTE, given[node]) if node in given else (INNER, inner[node] + (ref & _MASK))

    words = [num_inputs]
    for step in steps:
        words += [step.signature.number, len(step.refs)]
        words += [word for ref in step.refs for word in place_of(ref)]
    macro = session.own_macro(Macro(words, len(steps), sum(len(step.refs) for step in steps)))
    found = [(*place_of(ref), value._lazy._kind) for ref, value in zip(results, values, strict=True)]
    return _TracedCell(macro, found, assemble)


def _recorded_since(session: Session, begin: int, node: int) -> list[RecordedOperation]:
    """Return the operations in a session's stream from ``begin`` on, whose first entry is of this node."""
    stream, at, found = session.stream, begin, list[RecordedOperation]()
    while at < len(stream):
        if stream[at] <= FIRST_MACRO:
            raise Untraceable("the body records another cell, with lazy tensors that it was not given")
        signature = session.signature(stream[at])
        end = at + 1 + signature.arity
        if stream[at] != EXTERNAL:
            found.append(RecordedOperation(node, signature, stream[at + 1 : end]))
        at, node = end, node + 1
    return found


def _numbered_anew(
    steps: Sequence[RecordedOperation], inputs: Sequence[int]
) -> tuple[list[RecordedOperation], Callable[[int], int], dict[int, int]]:
    """Return steps with the numbers that they have in any session: inputs first, then steps, then what is outside.

    Besides, what changes a place in the session to one of these, and the number of each place outside.
    """
    numbers = {node: i for i, node in enumerate([*inputs, *(step.node for step in steps)])}
    outside: dict[int, int] = {}

    def local(ref: int) -> int:
        number = numbers.get(ref >> PLACE_BITS)
        if number is None:
            return outside.setdefault(ref, len(numbers) + len(outside)) << PLACE_BITS
        return (number << PLACE_BITS) + (ref & _MASK)

    anew = [RecordedOperation(numbers[s.node], s.signature, [local(ref) for ref in s.refs]) for s in steps]
    return anew, local, outside
