"""Element-wise operations on lazy tensors: arithmetic, functions, sums over all elements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ....errors import DGLError
from ....expr import Expr
from ....formulas import ALIASES, FORMULAS
from ....kernels.cpu.dynamic import recording
from ....opspec import COMPARISONS
from .kinds import DTYPES, TensorKind, kind_of
from .signatures import ColumnRun, PointwiseFormulas, Signature, operand, pointwise
from .tensor import LazyTensor, append, install, later, mixing_samples, recorder_by

_X = operand(0)


def _recorded_by_formula(count: int) -> dict[str, tuple[Expr, Callable[..., Any]]]:
    """Return (expression, torch's function) of the formulas of ``count`` tensors, by name."""
    functions = {}
    for name, formula in FORMULAS.items():
        function = getattr(torch, name, None) or getattr(F, name, None)
        expr = formula.bind(formula.operands) if len(formula.operands) == formula.required == count else None
        if function is not None and expr is not None and name not in COMPARISONS:
            functions[name] = expr, function
    return functions


_UNARY, _BINARY = _recorded_by_formula(1), _recorded_by_formula(2)


def same_session(x: LazyTensor, y: LazyTensor) -> None:
    """Raise unless both were recorded in one session."""
    if x._session is not y._session:
        raise DGLError(
            "these lazy tensors belong to different sessions, so no batch can hold both. A session ends with run() or "
            "backward(); what goes on after it must start from new lazy tensors, or from x.value()"
        )


def refs_of(lazies: Sequence[LazyTensor]) -> list[int]:
    """Return the places of lazy tensors in their session; raise if they are of several."""
    session, refs = lazies[0]._session, []
    for x in lazies:
        if x._session is not session:
            same_session(lazies[0], x)
        refs.append(x._ref)
    return refs


def as_lazy(x: Any, like: LazyTensor) -> LazyTensor:
    """Return ``x`` as a lazy tensor of the session of ``like``: itself, a tensor, or a number of the same dtype."""
    if type(x) is LazyTensor:
        same_session(x, like)
        return x
    if isinstance(x, torch.Tensor):
        return like._session.give(x)
    if isinstance(x, int | float):
        return like._session.number(x, like._kind.dtype)
    raise DGLError(f"expected a lazy tensor, a tensor or a number; got {type(x).__name__}")


def _signature(name: str, formula: Expr, *kinds: TensorKind) -> tuple[int, TensorKind] | None:
    """Return the number of an element-wise operation's signature and the kind of its result; None if it has none."""
    dtype = kinds[0].dtype
    try:
        shape = torch.broadcast_shapes(*[kind.shape for kind in kinds])
    except RuntimeError:
        shapes = " and ".join(str(list(kind.shape)) for kind in kinds)
        raise DGLError(
            f"{name} of shapes {shapes}: these do not go together. Lazy tensors are written for one sample, so there "
            "is no batch axis in front"
        ) from None
    numel = math.prod(shape)
    parts = [ColumnRun(slot, 0, kind.numel == 1 != numel) for slot, kind in enumerate(kinds)]
    fits = all(part.spread or kind.numel == numel for part, kind in zip(parts, kinds, strict=True))
    if dtype not in DTYPES or any(kind.dtype != dtype for kind in kinds) or not fits or not numel:
        return None
    return pointwise(name, len(kinds), PointwiseFormulas((formula,), tuple(parts), numel, dtype)).number, kind_of(
        shape, dtype
    )


# -- one argument, and two ---------------------------------------------------------------------------------------------
def _unary(name: str, formula: Expr, function: Callable[..., Any]) -> Callable[..., LazyTensor]:
    signatures: dict[TensorKind, tuple[int, TensorKind]] = {}

    def first(x: LazyTensor, option: Any = None, **named: Any) -> LazyTensor:
        """Record a kind that has not been met before, or an operation with options."""
        options = {key: value for key, value in named.items() if value}
        signature = None if option or options else _signature(name, formula, x._kind)
        if signature is None:
            return later.record(function, (x, *([option] if option else [])), options)
        signatures[x._kind] = signature
        return append(x._session, signature[1], 1, signature[0], x._ref)

    return recorder_by(recording.by_kinds, signatures, first)  # type: ignore[no-any-return]


def _binary(name: str, formula: Expr, function: Callable[..., Any]) -> Callable[..., LazyTensor]:
    signatures: dict[TensorKind, dict[TensorKind, tuple[int, TensorKind]]] = defaultdict(dict)

    def first(x: Any, y: Any, **named: Any) -> LazyTensor:
        """Record kinds that have not been met before, and operations with numbers, tensors or options."""
        if named:  # alpha, rounding_mode
            return later.record(function, (x, y), named)
        if type(y) is not LazyTensor or type(x) is not LazyTensor:
            like = x if type(x) is LazyTensor else y
            if like._kind.dtype not in DTYPES:
                return later.record(function, (x, y), {})
            return call(as_lazy(x, like), as_lazy(y, like))
        same_session(x, y)
        signature = _signature(name, formula, x._kind, y._kind)
        if signature is None:
            return later.record(function, (x, y), {})
        signatures[x._kind][y._kind] = signature
        return append(x._session, signature[1], 1, signature[0], x._ref, y._ref)

    call = recorder_by(recording.by_kinds, signatures, first)
    return call  # type: ignore[no-any-return]


def _recorded(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return an operator that has no formula here: it is recorded as the torch function."""
    return lambda self, other: later.record(function, (self, other), {})


def _reflected(call: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: call(other, self)


# -- sums --------------------------------------------------------------------------------------------------------------
def _sum(name: str, function: Callable[..., Any]) -> Callable[..., LazyTensor]:
    signatures: dict[TensorKind, Signature] = {}

    def call(x: LazyTensor, *options: Any, **named: Any) -> LazyTensor:
        kind = x._kind
        if x._session.tracing and not (options or named):
            raise mixing_samples(name)
        if options or named or kind.dtype not in DTYPES or not kind.numel:
            return later.record(function, (x, *options), named)
        scalar = kind_of((), kind.dtype)
        if kind not in signatures:
            formula = _X if name == "sum" else _X * (1.0 / kind.numel)
            pointwise_sum = PointwiseFormulas((formula,), (ColumnRun(0),), kind.numel, kind.dtype)
            signatures[kind] = signature = pointwise(name, 1, pointwise_sum, total=True)
            if name == "sum":
                signature.form, signature.lengths = ("sum", kind.dtype), (kind.numel,)
        return x._session.record(signatures[kind], (x._ref,), scalar)

    return call


# -- under which names they are called ---------------------------------------------------------------------------------
def _install() -> None:
    functions = {name: _unary(name, formula, function) for name, (formula, function) in _UNARY.items()}
    functions |= {name: _binary(name, formula, function) for name, (formula, function) in _BINARY.items()}
    functions |= {name: _sum(name, getattr(torch, name)) for name in ("sum", "mean")}
    named = functions | {alias: functions[name] for alias, name in ALIASES.items() if name in functions}
    operators = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}
    named |= {f"__{operator}__": functions[name] for operator, name in operators.items()}
    named |= {f"__r{operator}__": _reflected(functions[name]) for operator, name in operators.items()}
    named |= {f"__{name}__": functions[name] for name in ("neg", "abs")}
    named |= {f"__{name}__": _recorded(getattr(torch, name)) for name in ("gt", "ge", "lt", "le", "eq", "ne", "pow")}
    logic = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    named |= {f"__{form}{name}__": _recorded(getattr(torch, f)) for name, f in logic.items() for form in ("", "r")}
    named |= {"__invert__": lambda self: later.record(torch.bitwise_not, (self,), {})}
    named |= {"__mod__": _recorded(torch.remainder), "__floordiv__": _recorded(torch.floor_divide)}
    install(named | {"__rpow__": _reflected(named["__pow__"])})


_install()
