"""Recurrent cells, losses, softmax and dropout on lazy tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....errors import DGLError
from ....expr import Expr
from ....kernels.cpu.dynamic.batching import PLACE_BITS
from ..execution.matrices import CrossEntropy, TorchCall
from ..session import Session
from .generic import Recorded, made_call, only, record_call
from .pointwise import as_lazy
from .signatures import ColumnRun, Signature, TensorKind, kind_of, operand, pointwise, result, shared_signature
from .structure import axis_of, linear
from .tensor import LazyTensor, fallback, install, install_methods

__all__: list[str] = []


# -- recurrent cells ---------------------------------------------------------------------------------------------------
def lstm_cell(
    x: LazyTensor, state: Sequence[Any], weight_x: Tensor, weight_h: Tensor, bias_x: Any = None, bias_h: Any = None
) -> tuple[LazyTensor, LazyTensor]:
    """Record an LSTM cell: two products and one operation for the gates; returns (h, c)."""
    h, c = as_lazy(state[0], x), as_lazy(state[1], x)
    from_x, from_h = linear(x, weight_x, bias_x), linear(h, weight_h, bias_h)
    made = _gates("lstm", _lstm, from_x, from_h, c)
    kind = c._kind
    return LazyTensor(made._session, made._ref + kind.nbytes, kind), LazyTensor(made._session, made._ref, kind)


def gru_cell(
    x: LazyTensor, hx: Any, weight_x: Tensor, weight_h: Tensor, bias_x: Any = None, bias_h: Any = None
) -> LazyTensor:
    """Record a GRU cell: two products and one operation for the gates."""
    h = as_lazy(hx, x)
    from_x, from_h = linear(x, weight_x, bias_x), linear(h, weight_h, bias_h)
    made = _gates("gru", _gru, from_x, from_h, h)
    return LazyTensor(made._session, made._ref, h._kind)


def _lstm(width: int) -> tuple[list[Expr], list[ColumnRun]]:
    """Return c = f c + i g and h = o tanh(c) over the parts of both products and the memory."""
    parts = [ColumnRun(slot, gate * width) for gate in range(4) for slot in (0, 1)] + [ColumnRun(2)]
    sums = [operand(2 * gate) + operand(2 * gate + 1) for gate in range(4)]
    i, f, o = (sums[gate].call("sigmoid") for gate in (0, 1, 3))
    return [f * operand(8) + i * sums[2].call("tanh"), o * result(0).call("tanh")], parts


def _gru(width: int) -> tuple[list[Expr], list[ColumnRun]]:
    """Return (1 - z) n + z h over the parts of both products and the state."""
    parts = [ColumnRun(slot, gate * width) for gate in range(3) for slot in (0, 1)] + [ColumnRun(2)]
    r, z = ((operand(2 * gate) + operand(2 * gate + 1)).call("sigmoid") for gate in range(2))
    n = (operand(4) + r * operand(5)).call("tanh")
    return [n + z * (operand(6) - n)], parts


_cells: dict[tuple[Any, ...], tuple[Signature, TensorKind]] = {}


def _gates(
    name: str, formulas_of: Callable[[int], tuple[list[Expr], list[ColumnRun]]], *args: LazyTensor
) -> LazyTensor:
    """Record the gates of a cell, from both products and the state that they change."""
    key = (name, *[x._kind for x in args])
    known = _cells.get(key)
    if known is None:
        width, dtype = args[2]._kind.numel, args[2]._kind.dtype
        formulas, parts = formulas_of(width)
        if args[0]._kind.numel != args[1]._kind.numel or args[0]._kind.numel % width:
            raise DGLError(
                f"the state of a cell has {width} elements, its products {args[0]._kind!r}, {args[1]._kind!r}"
            )
        kind = kind_of((width * len(formulas),), dtype)
        signature = pointwise(
            Signature(f"{name} gates[{width}]", len(args), kind.nbytes), formulas, parts, width, dtype
        )
        known = _cells[key] = shared_signature(signature), kind
    return args[0]._session.record(known[0], [x._ref for x in args], known[1])


# -- losses ------------------------------------------------------------------------------------------------------------
def _loss(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what records a loss of one sample; its label may be an integer, a tensor, or lazy."""

    def call(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if type(input) is not LazyTensor or args or kwargs.get("weight") is not None:
            return fallback.record(function, (input, target, *args), kwargs)
        session = input._session
        if type(target) is LazyTensor and target._session is session:
            recorded = session.caches.get((name, input._kind, target._kind, *kwargs.values()))
            if recorded is not None:
                return session.record(recorded.signature, (input._ref, target._ref), recorded.kinds[0])
        label = session.integer(target) if isinstance(target, int) else as_lazy(target, input)
        if len(input._kind.shape) == 2:
            return _losses_of_rows(name, function, input, label, kwargs)
        key = name, input._kind, label._kind, *kwargs.values()
        if key not in session.caches:
            session.caches[key] = first(session, input._kind, label._kind, kwargs)
        known = session.caches[key]
        if known is None:
            return fallback.record(function, (input, label), kwargs)
        return session.record(known.signature, (input._ref, label._ref), known.kinds[0])

    def first(session: Session, kind: TensorKind, label: TensorKind, options: dict[str, Any]) -> Recorded | None:
        if len(kind.shape) != 1 or label.shape or options.get("reduction", "mean") == "none":
            return None
        rest = _rest(options)
        scalar = kind_of((), kind.dtype)

        def losses(x: Tensor, y: Tensor) -> list[Tensor]:
            return [function(x, y, reduction="none", **rest)]

        made = made_call(session, name, [kind, label], [scalar], losses, only)
        usual = all(option in _USUAL and value == _USUAL[option] for option, value in rest.items())
        if usual and name == "cross_entropy" and label.dtype == torch.int64:
            made.signature.matrices = CrossEntropy([kind, label], [scalar], losses)
        return _known(made, name) if usual else made

    return call


def _rest(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in ("reduction", "size_average", "reduce")}


def _losses_of_rows(
    name: str, function: Callable[..., Any], input: LazyTensor, label: LazyTensor, options: dict[str, Any]
) -> Any:
    """Record the losses of rows of scores, (n, classes), and their sum or mean."""
    session, kind, how = input._session, input._kind, options.get("reduction", "mean")
    usual = all(_USUAL.get(key) == x for key, x in _rest(options).items())
    old = any(options.get(key) is not None for key in ("size_average", "reduce"))
    given = session.given_at.get(label._ref >> PLACE_BITS)
    counts = given is not None and given.shape == label._kind.shape  # the mean is that of rows with a label
    fits = label._kind.shape == kind.shape[:1] and label._kind.dtype is torch.int64 and kind.numel
    if not (fits and usual and not old and (counts or how != "mean")):
        return fallback.record(function, (input, label), options)
    key = name, "rows", kind
    made = session.caches.get(key)
    if made is None:

        def losses(x: Tensor, y: Tensor) -> list[Tensor]:
            return [function(x.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)]

        each = kind_of(kind.shape[:1], kind.dtype)
        made = session.caches[key] = _known(made_call(session, name, [kind, label._kind], [each], losses, only), name)
        made.signature.key, made.signature.lengths = key, kind.shape[:1]
        made.signature.form = name, kind.shape[1], kind.dtype
    values = record_call(session, made, [input, label])
    if how != "mean":
        return values if how == "none" else values.sum()
    assert given is not None
    return values.sum() / float(torch.ne(given, -100).sum())


_USUAL = {"weight": None, "ignore_index": -100, "label_smoothing": 0.0}
"""Options of losses as torch has them unless they are given."""


def _known(made: Recorded, form: str) -> Recorded:
    """Note the name under which kernels know what an operation does."""
    assert isinstance(made.signature.matrices, TorchCall)
    made.signature.matrices.form = form
    return made


def _softmax(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what records a softmax over the one axis; batches run torch's own kernel."""

    def call(input: LazyTensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
        session, kind = input._session, input._kind
        kwargs.pop("_stacklevel", None)
        if dim is None or args or kwargs.get("dtype") is not None:
            return fallback.record(function, (input, dim, *args), kwargs)
        key = name, kind, axis_of(input, dim)
        known = session.caches.get(key)
        if known is None:
            axis = axis_of(input, dim) + 1
            made = made_call(session, name, [kind], [kind], lambda x: [function(x, axis)], only)
            known = session.caches[key] = _known(made, name) if len(kind.shape) == 1 else made
        return record_call(session, known, [input])

    return call


def dropout(input: LazyTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> LazyTensor:
    """Record dropout, drawn anew for every sample; nothing where it drops nothing."""
    if not training or p == 0.0:
        return input
    return fallback.record(F.dropout, (input, p, training, inplace), {})


def _install() -> None:
    named: dict[str, Callable[..., Any]] = {
        **{f.__name__: f for f in (lstm_cell, gru_cell, dropout)},
        **{name: _loss(name, getattr(F, name)) for name in ("cross_entropy", "nll_loss")},
        **{name: _softmax(name, getattr(torch, name)) for name in ("softmax", "log_softmax")},
    }
    install(named)
    install_methods({"softmax": named["softmax"], "log_softmax": named["log_softmax"]})


_install()
