"""Any torch function on lazy tensors: recorded as one operation, run on a whole batch by ``torch.func.vmap``.

What a result is like is found out once per signature, by running the function on torch's meta device, where tensors
have shapes and no values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ....errors import DGLError
from ....formulas import FORMULAS
from ...autocast import without_autocast
from ...program.replay import INNER, filler, inner_rows_alike
from ..execution.matrices import TorchCall
from ..session import Session
from .kinds import TensorKind, is_recordable, kind_of
from .pointwise import refs_of
from .signatures import Signature, places_of
from .tensor import LazyTensor, UntraceableBody, later, mixing_samples

_BATCH_WISE = {"dropout", "alpha_dropout"} | {name for name, formula in FORMULAS.items() if len(formula.operands) == 1}
"""Functions that treat every element alike, so that they take a batch as it is."""


def record_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a torch function that has no entry of its own; in a cell's body it is one of batches."""
    lazies: list[LazyTensor] = []
    tensors: list[Tensor] = []
    structure = _structure((args, kwargs), lazies, tensors)
    session, kinds = lazies[0]._session, [x._kind for x in lazies]
    key = function, session.tracing, structure
    recorder = session.caches.get(key)
    if recorder is None:
        make = _made_in_cell if session.tracing else _recorded_call
        with without_autocast():
            recorder = session.caches[key] = make(session, function, (args, kwargs), kinds)
    return recorder.record(session, lazies)


class RecordedFunction(NamedTuple):
    """An operation with results of several kinds; ``assemble`` makes of their list what the function would return."""

    signature: Signature
    kinds: Sequence[TensorKind]
    places: Sequence[int]
    assemble: Callable[[list[LazyTensor]], Any]

    def record(self, session: Session, lazies: Sequence[LazyTensor]) -> Any:
        """Record one use of the operation and return its results."""
        first = session.record(self.signature, refs_of(lazies), self.kinds[0])
        if self.assemble is only:
            return first
        pairs = zip(self.kinds, self.places, strict=True)
        return self.assemble([LazyTensor(session, first._ref + place, kind) for kind, place in pairs])


def only(parts: Sequence[Any]) -> Any:
    """Return the one result of a function that returns a tensor."""
    return parts[0]


def _structure(x: Any, lazies: list[LazyTensor], tensors: list[Tensor]) -> Any:
    """Return what identifies a call: kinds of lazy tensors, identities of tensors, values of everything else."""
    if type(x) is LazyTensor:
        lazies.append(x)
        return x._kind
    if isinstance(x, Tensor):
        tensors.append(x)
        return Tensor, id(x)
    if isinstance(x, list | tuple):
        return type(x), tuple(_structure(item, lazies, tensors) for item in x)
    if isinstance(x, dict):
        return tuple((name, _structure(item, lazies, tensors)) for name, item in x.items())
    if isinstance(x, slice):
        return slice, x.start, x.stop, x.step
    return type(x), x


def _is_lazy(x: Any) -> bool:
    return type(x) is LazyTensor


def _recorded_call(
    session: Session, function: Callable[..., Any], recorded: Any, kinds: Sequence[TensorKind]
) -> RecordedFunction:
    """Return the operation that calls a function on batches."""
    _check_new_result(function.__name__, recorded[1])
    arguments = filler(recorded, _is_lazy)  # no lazy tensor is kept: it would keep its session alive
    samples = [torch.empty(kind.shape, dtype=kind.dtype, device="meta") for kind in kinds]
    like = pytree.tree_map_only(Tensor, lambda x: torch.empty_like(x, device="meta"), arguments(samples))
    try:
        with torch.no_grad():
            returned = function(*like[0], **like[1])
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError, NotImplementedError) as error:
        shapes = ", ".join(map(repr, kinds))
        raise DGLError(
            f"{function.__name__} cannot be recorded for one sample's {shapes}: {str(error).splitlines()[0]}. Lazy "
            "tensors are written without a batch axis; for what depends on values, ask for x.value()"
        ) from error
    results, assemble = _results_of(function.__name__, returned)
    single = _on_values(function, arguments)
    call = single if function.__name__ in _BATCH_WISE else torch.func.vmap(single, randomness="different")
    return made_operation(session, function.__name__, TorchCall(kinds, results, call), assemble)


def _check_new_result(name: str, options: dict[str, Any]) -> None:
    if options.get("out") is not None or options.get("inplace") or (name.endswith("_") and not name.endswith("__")):
        raise DGLError(
            f"{name} works in place; lazy tensors do not change, so use the function that returns its result"
        )


def _made_in_cell(
    session: Session, function: Callable[..., Any], recorded: Any, kinds: Sequence[TensorKind]
) -> RecordedFunction:
    """Return the operation for a body's rows, which have an axis of length 1 in front."""
    try:
        if any(kind.shape[:1] != (1,) for kind in kinds):  # parts of rows that are rows now, or what all samples share
            return _recorded_call(session, function, recorded, kinds)
        _check_new_result(function.__name__, recorded[1])
        operation = made_by_rows(session, function, recorded, [kind_of(kind.shape[1:], kind.dtype) for kind in kinds])
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, DGLError) as error:
        raise UntraceableBody(f"the body calls {function.__name__}: {error}") from error
    return operation._replace(kinds=[kind_of((1, *kind.shape), kind.dtype) for kind in operation.kinds])


def made_by_rows(
    session: Session, function: Callable[..., Any], recorded: Any, kinds: Sequence[TensorKind]
) -> RecordedFunction:
    """Return the operation that calls a function of tensors with a row for each sample; it is tried first."""
    name, arguments = getattr(function, "__name__", "cell"), filler(recorded, _is_lazy)
    rows = next(n for n in count(7) if all(n not in kind.shape for kind in kinds))
    generator = torch.Generator().manual_seed(0)
    values = [torch.zeros((rows, *kind.shape), dtype=kind.dtype) for kind in kinds]
    for x in values:
        if x.is_floating_point():
            x.uniform_(0.1, 0.9, generator=generator)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before, (args, kwargs) = torch.get_rng_state(), arguments(values)
        returned = function(*args, **kwargs)
        results, assemble = _results_of(name, returned)
        if torch.equal(before, torch.get_rng_state()):  # else rows differ by random numbers
            args, kwargs = arguments([x[INNER] for x in values])
            alike = inner_rows_alike(returned, function(*args, **kwargs))
        else:
            alike = True
    for kind in results:
        if kind.shape[:1] != (rows,):
            raise DGLError(
                f"in a cell's body {name} returned {list(kind.shape)} for {rows} samples; it must return tensors with "
                "a row for each sample"
            )
    if not alike:
        raise mixing_samples(name)
    of_one = [kind_of(kind.shape[1:], kind.dtype) for kind in results]
    return made_operation(session, name, TorchCall(kinds, of_one, _on_values(function, arguments)), assemble)


def _on_values(function: Callable[..., Any], arguments: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Return what calls a function with tensors in the places of lazy ones, and gives its results as a tuple."""

    def call(*values: Tensor) -> tuple[Tensor, ...]:
        args, kwargs = arguments(values)
        returned = function(*args, **kwargs)
        return (returned,) if isinstance(returned, Tensor) else tuple([x for x in returned if x is not None])

    return call


def made_operation(session: Session, name: str, matrices: TorchCall, assemble: Any) -> RecordedFunction:
    """Return an operation on stacked tensors, its results one after the other."""
    results, title = matrices.results, f"{name}({', '.join(map(repr, matrices.kinds))})"
    return RecordedFunction(session.own_signature(title, matrices), results, places_of(results)[:-1], assemble)


def _results_of(name: str, returned: Any) -> tuple[list[TensorKind], Callable[[list[LazyTensor]], Any]]:
    every = returned if isinstance(returned, tuple | list) else [returned]
    values = [value for value in every if value is not None]
    if not values or not all(isinstance(value, Tensor) for value in values):
        raise DGLError(f"{name} returns {type(returned).__name__}; only functions that return tensors can be recorded")
    for value in values:
        if not is_recordable(value.dtype):
            raise DGLError(f"{name} returns {value.dtype}; lazy tensors are float32, float64, int32, int64 or boolean")
    kinds = [kind_of(value.shape, value.dtype) for value in values]
    if isinstance(returned, Tensor):
        return kinds, only
    kind = type(returned)
    if hasattr(kind, "n_sequence_fields"):  # torch's named results
        return kinds, lambda parts: kind(parts)
    absent = [i for i, value in enumerate(every) if value is None]  # attention returns its weights, or None
    return kinds, _with_none(kind, absent) if absent else kind


def _with_none(kind: type, absent: Sequence[int]) -> Callable[[list[LazyTensor]], Any]:
    """Return what makes a list or tuple of results, with None at some positions."""

    def assemble(parts: list[Any]) -> Any:
        every = list(parts)
        for i in absent:
            every.insert(i, None)
        return kind(every)

    return assemble


later.record = record_function
