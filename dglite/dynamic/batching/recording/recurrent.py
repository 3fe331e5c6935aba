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
from ..execution.matrices import TorchCall
from ..session import Session
from .generic import RecordedFunction, made_operation, only
from .kinds import TensorKind, kind_of, of_row
from .pointwise import as_lazy
from .signatures import ColumnRun, PointwiseFormulas, Signature, operand, pointwise, result
from .structure import axis_of, linear
from .tensor import LazyTensor, append, install, later, mixing_samples


# -- recurrent cells ---------------------------------------------------------------------------------------------------
def lstm_cell(
    x: LazyTensor, state: Sequence[Any], weight_x: Tensor, weight_h: Tensor, bias_x: Any = None, bias_h: Any = None
) -> tuple[LazyTensor, LazyTensor]:
    """Record an LSTM cell: two products and one operation for the gates; returns (h, c)."""
    h, c = as_lazy(state[0], x), as_lazy(state[1], x)
    from_x, from_h = linear(x, weight_x, bias_x), linear(h, weight_h, bias_h)
    gates = _gates(_lstm, 4, from_x, from_h, c)
    kind = c._kind
    return LazyTensor(gates._session, gates._ref + kind.nbytes, kind), LazyTensor(gates._session, gates._ref, kind)


def gru_cell(
    x: LazyTensor, hx: Any, weight_x: Tensor, weight_h: Tensor, bias_x: Any = None, bias_h: Any = None
) -> LazyTensor:
    """Record a GRU cell: two products and one operation for the gates."""
    h = as_lazy(hx, x)
    from_x, from_h = linear(x, weight_x, bias_x), linear(h, weight_h, bias_h)
    gates = _gates(_gru, 3, from_x, from_h, h)
    return LazyTensor(gates._session, gates._ref, h._kind)


def _lstm(gates: Sequence[tuple[Expr, Expr]], c: Expr) -> list[Expr]:
    """Return c = f c + i g and h = o tanh(c), from the parts of both products and the memory."""
    i, f, g, o = (from_x + from_h for from_x, from_h in gates)
    return [
        f.call("sigmoid") * c + i.call("sigmoid") * g.call("tanh"),
        o.call("sigmoid") * result(0).call("tanh"),
    ]


def _gru(gates: Sequence[tuple[Expr, Expr]], h: Expr) -> list[Expr]:
    """Return (1 - z) n + z h, from the parts of both products and the state."""
    r, z = ((from_x + from_h).call("sigmoid") for from_x, from_h in gates[:2])
    n = (gates[2][0] + r * gates[2][1]).call("tanh")
    return [n + z * (h - n)]


_cells: dict[tuple[Any, ...], tuple[Signature, TensorKind]] = {}


def _gates(formulas_of: Callable[..., list[Expr]], count: int, *args: LazyTensor) -> LazyTensor:
    """Record ``count`` gates of a cell, from both products and the state that they change."""
    key = (formulas_of, *[x._kind for x in args])
    entry = _cells.get(key)
    if entry is None:
        width, dtype, name = args[2]._kind.numel, args[2]._kind.dtype, formulas_of.__name__.strip("_")
        if args[0]._kind.numel != args[1]._kind.numel or args[0]._kind.numel % width:
            raise DGLError(
                f"the state of a cell has {width} elements, its products {args[0]._kind!r}, {args[1]._kind!r}"
            )
        parts = [ColumnRun(slot, gate * width) for gate in range(count) for slot in (0, 1)] + [ColumnRun(2)]
        gates = [(operand(2 * gate), operand(2 * gate + 1)) for gate in range(count)]
        formulas = PointwiseFormulas(tuple(formulas_of(gates, operand(2 * count))), tuple(parts), width, dtype)
        entry = pointwise(f"{name} gates", len(args), formulas), kind_of((width * len(formulas.formulas),), dtype)
        _cells[key] = entry
    return args[0]._session.record(entry[0], [x._ref for x in args], entry[1])


# -- losses ------------------------------------------------------------------------------------------------------------
def _loss(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what records a loss of one row of scores, or of several; labels may be integers, tensors, or lazy."""

    def call(input: Any, target: Any, *args: Any, reduction: str = "mean", **options: Any) -> Any:
        try:
            session = input._session
            operation = session.caches[name, input._kind, target._kind, args, *options.values()]
            if operation.kinds[0].shape or target._session is not session:
                raise KeyError(name)
        except (AttributeError, KeyError):
            return first(input, target, args, reduction, options)
        return append(session, operation.kinds[0], 1, operation.signature.number, input._ref, target._ref)

    def first(input: Any, target: Any, args: tuple[Any, ...], reduction: str, options: dict[str, Any]) -> Any:
        """Record losses of kinds that are new in the session, of labels that are not lazy, and of several rows."""
        named = {"reduction": reduction, **options}
        special = args or any(options.get(option) is not None for option in ("weight", "size_average", "reduce"))
        if type(input) is not LazyTensor or special:
            return later.record(function, (input, target, *args), named)
        session = input._session
        label = session.integer(target) if isinstance(target, int) else as_lazy(target, input)
        key = name, input._kind, label._kind, args, *options.values()
        operation = session.caches.get(key) or _made_loss(session, name, function, input._kind, label._kind, options)
        labels = session.given_at.get(label._ref >> PLACE_BITS) if label._kind.shape else None
        counts = labels is not None and labels.shape == label._kind.shape  # the mean is that of rows with a label
        if operation is None or (label._kind.shape and reduction == "mean" and not counts):
            return later.record(function, (input, label), named)
        session.caches[key] = operation
        values = session.record(operation.signature, (input._ref, label._ref), operation.kinds[0])
        if not label._kind.shape or reduction == "none":
            return values
        total = values.sum()
        return total if labels is None or reduction == "sum" else total / float(_num_counted(labels, options))

    return call


_USUAL = {"ignore_index": -100, "label_smoothing": 0.0}
"""Options of losses as torch has them unless they are given."""


def _num_counted(labels: Tensor, options: dict[str, Any]) -> Tensor:
    return torch.ne(labels, options.get("ignore_index", _USUAL["ignore_index"])).sum()


def _made_loss(
    session: Session,
    name: str,
    function: Callable[..., Any],
    kind: TensorKind,
    label: TensorKind,
    options: dict[str, Any],
) -> RecordedFunction | None:
    """Return the operation of losses of scores (*rows, classes), with a label for each row; None for others."""
    if label.shape != kind.shape[:-1] or len(kind.shape) not in (1, 2) or not kind.numel or label.dtype != torch.int64:
        return None
    row, of_one = of_row(kind), of_row(label, 0)
    each, rest = kind_of(of_one.shape, kind.dtype), {key: x for key, x in options.items() if key in _USUAL}

    def losses(x: Tensor, y: Tensor) -> list[Tensor]:
        return [function(x.flatten(0, -2), y.flatten(), reduction="none", **rest).view(y.shape)]

    usual = all(_USUAL[key] == x for key, x in rest.items())
    call = TorchCall([row, of_one], [each], losses, name if usual else None)
    operation = made_operation(session, name, call, only)
    if usual and of_one.shape:
        operation.signature.key, operation.signature.lengths = (name, "rows", row), of_one.shape
        operation.signature.form = name, row.shape[1], row.dtype
    return operation._replace(kinds=[kind_of(label.shape, kind.dtype)])


def _softmax(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what records a softmax over an axis; batches run torch's own kernel."""

    def call(input: LazyTensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
        session, kind = input._session, input._kind
        kwargs.pop("_stacklevel", None)
        if dim is None or args or kwargs.get("dtype") is not None:
            return later.record(function, (input, dim, *args), kwargs)
        axis = axis_of(input, dim) - len(kind.shape)
        if session.tracing and -axis == len(kind.shape):
            raise mixing_samples(name)
        row = of_row(kind, -axis)
        softmax = session.caches.get((name, row, axis))
        if softmax is None:
            form = name if len(row.shape) == 1 else None
            operation = TorchCall([row], [row], lambda x: [function(x, axis)], form)
            softmax = session.caches[name, row, axis] = made_operation(session, name, operation, only)
        return session.record(softmax.signature, (input._ref,), kind)

    return call


def dropout(input: LazyTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> LazyTensor:
    """Record dropout, drawn anew for every sample; nothing where it drops nothing."""
    if not training or p == 0.0:
        return input
    return later.record(F.dropout, (input, p, training, inplace), {})


install(
    {
        **{f.__name__: f for f in (lstm_cell, gru_cell, dropout)},
        **{name: _loss(name, getattr(F, name)) for name in ("cross_entropy", "nll_loss")},
        **{name: _softmax(name, getattr(torch, name)) for name in ("softmax", "log_softmax")},
    }
)
