"""Cells: a user's function recorded as one node, with a body that is written for a batch.

The body is traced once per session and kinds of arguments. Where it is made of products, element-wise work and moves,
every use of it stands for those operations (a macro), which are scheduled, fused with gathers and differentiated as all
others, at the cost of recording one. Any other body runs as it is, on stacked tensors, with torch's gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....errors import DGLError
from ....kernels.cpu.dynamic.batching import ABSOLUTE, EXTERNAL, INNER, INPUT, PLACE_BITS
from ..session import Macro, Session
from .fusion import RecordedOperation, fused
from .generic import Recorded, made_call, only, record_call
from .pointwise import ELEMENTWISE, same_session
from .signatures import Signature, TensorKind, kind_of
from .structure import getitem
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
        return known.record(session, args) if type(known) is _TracedCell else record_call(session, known, args)

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
        return known.record(session, lazies) if type(known) is _TracedCell else record_call(session, known, lazies)

    def _made(self, session: Session, args: tuple[Any, ...]) -> Any:
        try:
            return _traced(session, self.function, args)
        except Untraceable:
            return _stacked(session, self.function, args)


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
    """A macro, with (whose, place, kind) of each result; ``inner`` are (place, kind) where all are the macro's own."""

    def __init__(self, macro: Macro, results: Sequence[tuple[int, int, TensorKind]], assemble: Any) -> None:
        self.number, self.num_nodes, self.num_args = macro.number, macro.num_nodes, macro.num_args
        self.results, self.assemble = results, assemble
        only_inner = all(whose == INNER for whose, _, _ in results)
        self.inner = [(place, kind) for _, place, kind in results] if only_inner else None

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
        if self.inner is None:
            return self._mixed(session, first, lazies)
        for place, kind in self.inner:
            made = blank(LazyTensor)
            made._session, made._ref, made._kind = session, first + place, kind
            parts.append(made)
        return self.assemble(parts)

    def _mixed(self, session: Session, first: int, lazies: Sequence[LazyTensor]) -> Any:
        """Return what the body returns, where some of it is an argument or the same for all samples."""
        parts = []
        for whose, place, kind in self.results:
            base = 0
            if whose != ABSOLUTE:
                base = first if whose == INNER else lazies[place >> PLACE_BITS]._ref
            parts.append(LazyTensor(session, base + (place & _MASK if whose == INPUT else place), kind))
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
        if rule is None:
            raise Untraceable(f"the body calls {getattr(function, '__name__', function)}")
        return rule(*args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        rule = _RULES.get(METHODS.get(name))  # type: ignore[arg-type]
        if rule is None:
            raise Untraceable(f"the body uses .{name}")
        return lambda *args, **kwargs: rule(self, *args, **kwargs)

    def __getitem__(self, key: Any) -> TracedRows:
        if type(key) is not tuple or len(key) != 2 or key[0] != slice(None) or not isinstance(key[1], int | slice):
            raise Untraceable("the body indexes the axis of the samples")
        return TracedRows(getitem(self._lazy, key[1]))

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


def _same(record: Callable[..., Any]) -> Callable[..., Any]:
    def rule(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Tensor) and x.dim() > 1 for x in args) and record not in _WITH_WEIGHTS:
            raise Untraceable("the body combines its rows with a matrix")
        return _wrapped(record(*map(_unwrapped, args), **kwargs))

    return rule


def _along(record: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Return the rule of a function that takes an axis as argument ``at``, 0 unless given."""

    def rule(*args: Any, dim: int | None = None) -> Any:
        if dim is None:
            dim = args[at] if len(args) > at else 0
        if dim == 0:
            raise Untraceable("the body works along the axis of the samples")
        return _wrapped(record(*map(_unwrapped, args[:at]), dim - 1 if dim > 0 else dim))

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
    for function in (F.linear, torch.matmul, torch.lstm_cell, torch.gru_cell):
        _WITH_WEIGHTS.append(FUNCTIONS[function])
        _RULES[FUNCTIONS[function]] = _same(FUNCTIONS[function])
    for loss in (F.cross_entropy, F.nll_loss):
        _RULES[FUNCTIONS[loss]] = _losses(FUNCTIONS[loss])
    moves: dict[Callable[..., Any], int] = {torch.cat: 1, torch.chunk: 2, torch.split: 2}
    for move, at in moves.items():
        _RULES[FUNCTIONS[move]] = _along(FUNCTIONS[move], at)
    operators = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "matmul": "matmul"}
    for operator, name in operators.items():
        rule = _RULES[METHODS[name]]
        setattr(TracedRows, f"__{operator}__", rule)
        setattr(TracedRows, f"__r{operator}__", _reflected(rule))
    setattr(TracedRows, "__neg__", _RULES[METHODS["neg"]])  # noqa: B010 - mypy knows no operators given later


def _reflected(rule: Callable[..., Any]) -> Callable[[TracedRows, Any], Any]:
    return lambda self, other: rule(other, self)


_WITH_WEIGHTS: list[Callable[..., Any]] = []
_install()


def _traced(session: Session, function: Callable[..., Any], args: tuple[Any, ...]) -> _TracedCell:
    """Call the body with rows of a session of its own, and make a macro of what that has recorded."""
    own = Session()
    rows = [TracedRows(own.record_given(x._kind)) if type(x) is LazyTensor else x for x in args]
    inputs = [x._lazy._ref >> PLACE_BITS for x in rows if type(x) is TracedRows]
    returned = function(*rows)
    values, assemble = _results(returned)
    if not all(type(value) is TracedRows for value in values):
        raise Untraceable("the body returns what does not come from its arguments")
    own.settle()
    tensors = {x.node: session.give(x.tensor)._ref for x in own.given.values()}
    constants = {ref >> PLACE_BITS: (pool, dtype) for dtype, (pool, ref) in own.pools.items()}
    steps = [
        RecordedOperation(
            node, own.signature(int(own.sigs[node])), own.args[own.argptr[node] : own.argptr[node + 1]].tolist()
        )
        for node in range(own.num_nodes)
        if own.sigs[node] != EXTERNAL
    ]
    steps, inner = fused(steps, [value._lazy._ref >> PLACE_BITS for value in values])

    def place_of(ref: int) -> tuple[int, int]:
        node, place = ref >> PLACE_BITS, ref & _MASK
        if node in inner:
            return INNER, inner[node] + place
        if node in tensors:
            return ABSOLUTE, tensors[node] + place
        if node in constants:
            pool, dtype = constants[node]
            return ABSOLUTE, session.number(pool[place // dtype.itemsize], dtype)._ref
        return INPUT, (inputs.index(node) << PLACE_BITS) + place

    words = [len(inputs)]
    for step in steps:
        words += [_number_in(session, step.signature), len(step.refs)]
        words += [word for ref in step.refs for word in place_of(ref)]
    macro = session.own_macro(Macro(words, len(steps), sum(len(step.refs) for step in steps)))
    return _TracedCell(macro, [(*place_of(value._lazy._ref), value._lazy._kind) for value in values], assemble)


def _number_in(session: Session, signature: Signature) -> int:
    """Return the number that a signature has in another session."""
    if signature.number >= 0:
        return signature.number
    if signature.again is None:
        raise Untraceable(f"the body calls {signature.name}")
    return signature.again(session).number


def _results(returned: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    if isinstance(returned, list | tuple):
        return list(returned), type(returned)
    return [returned], only


# -- bodies that run on stacked tensors --------------------------------------------------------------------------------
def _stacked(session: Session, function: Callable[..., Any], args: tuple[Any, ...]) -> Recorded:
    """Return what records the body as one operation; it is tried on two samples of zeros first."""
    kinds = [x._kind for x in args if type(x) is LazyTensor]

    given = [None if type(x) is LazyTensor else (x,) for x in args]  # no lazy tensor: it would keep the session alive

    def body(values: Sequence[Tensor]) -> Any:
        stacked = iter(values)
        return function(*[next(stacked) if x is None else x[0] for x in given])

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        returned, assemble = _results(body([torch.zeros((2, *kind.shape), dtype=kind.dtype) for kind in kinds]))
    for value in returned:
        if not isinstance(value, Tensor) or value.shape[:1] != (2,):
            shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise DGLError(
                f"a cell's body returned {shape} for 2 samples; it must return tensors with a row for each sample"
            )
    results = [kind_of(value.shape[1:], value.dtype) for value in returned]
    name = getattr(function, "__name__", "cell")
    return made_call(session, name, kinds, results, lambda *values: _results(body(values))[0], assemble)
