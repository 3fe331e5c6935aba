"""Built-in message and reduce functions: ``fn.copy_u``, ``fn.u_mul_e``, ``fn.sum`` and so on.

Each call returns a small immutable value that says what is computed; nothing runs here. Strings are parsed once, so
the scheduler and the kernels see an expression and a reducer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from . import hints
from .errors import DGLError, warn_deprecated
from .expr import Call, Expr, Operand, Side, shared
from .opspec import MESSAGES, Reducer, operator

__all__ = [
    "BinaryMessageFunction",
    "CopyMessageFunction",
    "FieldName",
    "MessageFunction",
    "ReduceFunction",
    "Reshaped",
    "copy_e",
    "copy_edge",
    "copy_src",
    "copy_u",
    "logsumexp",
    "max",
    "mean",
    "message_expression",
    "message_function",
    "min",
    "prod",
    "reduce_function",
    "src_mul_edge",
    "sum",
]


class Reshaped(NamedTuple):
    """A feature column, rows of shape ``stored``, read as rows of shape ``feat``."""

    name: str
    stored: tuple[int, ...]
    feat: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.feat))}]"


FieldName = str | int | Reshaped
"""What a message reads: a feature column, as it is or reshaped, or the number of a tensor that a function captured."""


@dataclass(frozen=True, slots=True)
class MessageFunction:
    """A message: ``expr`` over the columns named by ``fields``, written to message field ``out_field``.

    ``fields[slot]`` is the (side, column name) of operand ``slot``. With ``dot`` the last feature axis of the result is
    summed and kept with length 1, or dropped without ``keepdim``. A user's function that was recorded is of this kind,
    too; it may have tensors of its own among its operands, which have numbers instead of names.
    """

    name: str
    expr: Expr
    fields: tuple[tuple[Side, FieldName], ...]
    out_field: str
    dot: bool = False
    keepdim: bool = True

    @property
    def in_field(self) -> FieldName:
        """The column that a copy reads, the first operand of others."""
        return self.fields[0][1]

    @property
    def lhs_field(self) -> FieldName:
        """The column of the first operand."""
        return self.fields[0][1]

    @property
    def rhs_field(self) -> FieldName:
        """The column of the last operand."""
        return self.fields[-1][1]

    def __str__(self) -> str:
        if self.name not in __all__:
            return f"{self.name}: {self.out_field!r}"
        return f"{self.name}({', '.join(repr(field) for _, field in self.fields)}, {self.out_field!r})"


@dataclass(frozen=True, slots=True)
class ReduceFunction:
    """A built-in reduction of message field ``msg_field`` to node column ``out_field``; 0 where no message arrives."""

    reducer: Reducer
    msg_field: str
    out_field: str

    @property
    def name(self) -> str:
        """The name under ``dglite.function``."""
        return self.reducer.value

    def __str__(self) -> str:
        return f"{self.name}({self.msg_field!r}, {self.out_field!r})"


@cache
def message_expression(name: str) -> tuple[Expr, tuple[Side, ...]]:
    """Return the expression of a built-in message and its operands' sides; of a dot product, what it sums.

    The name is ``copy_u``, ``u_mul_e`` and so on.
    """
    first, middle, *last = name.split("_")
    sides = (Side(middle),) if first == "copy" else (Side(first), Side(last[0]))
    operands: tuple[Expr, ...] = tuple(Operand(side, slot) for slot, side in enumerate(sides))
    if len(operands) == 1:
        return shared(operands[0]), sides
    return shared(Call(operator(MESSAGES[middle]), operands)), sides


@lru_cache(maxsize=4096)
def message_function(name: str, fields: tuple[str, ...], out: str) -> MessageFunction:
    """Return the built-in message called ``name``, e.g. ``message_function("u_mul_e", ("h", "w"), "m")``."""
    expr, sides = message_expression(name)
    _require_names(name, *fields, out)
    return MessageFunction(name, expr, tuple(zip(sides, fields, strict=True)), out, "_dot_" in name)


@lru_cache(maxsize=4096)
def reduce_function(name: str, msg: str, out: str) -> ReduceFunction:
    """Return the built-in reducer called ``name``, e.g. ``reduce_function("sum", "m", "h")``."""
    _require_names(name, msg, out)
    return ReduceFunction(Reducer(name), msg, out)


def _require_names(name: str, *fields: Any) -> None:
    for field in fields:
        if not isinstance(field, str):
            raise DGLError(
                f"fn.{name} takes names of features, such as 'h', got {type(field).__name__}; store the tensor first: "
                "g.ndata['h'] = tensor"
            )


def BinaryMessageFunction(
    binary_op: str, lhs: int | str, rhs: int | str, lhs_field: str, rhs_field: str, out_field: str
) -> MessageFunction:
    """Return the built-in message of an operator between two sides: 0 or "u", 1 or "v", 2 or "e"."""
    return message_function(f"{_side(lhs)}_{binary_op}_{_side(rhs)}", (lhs_field, rhs_field), out_field)


def CopyMessageFunction(target: int | str, in_field: str, out_field: str) -> MessageFunction:
    """Return the built-in message that copies a column of a side: 0 or "u", 1 or "v", 2 or "e"."""
    return message_function(f"copy_{_side(target)}", (in_field,), out_field)


def _side(target: int | str) -> str:
    return "uve"[target] if isinstance(target, int) else target


def copy_u(u: str, out: str) -> MessageFunction:
    """Message: the source node's column ``u``."""
    return message_function("copy_u", (u,), out)


def copy_e(e: str, out: str) -> MessageFunction:
    """Message: the edge's column ``e``."""
    return message_function("copy_e", (e,), out)


def copy_src(src: str, out: str) -> MessageFunction:
    """Old name of :func:`copy_u`."""
    warn_deprecated("fn.copy_src", "use fn.copy_u")
    return copy_u(src, out)


def copy_edge(edge: str, out: str) -> MessageFunction:
    """Old name of :func:`copy_e`."""
    warn_deprecated("fn.copy_edge", "use fn.copy_e")
    return copy_e(edge, out)


def src_mul_edge(src: str, edge: str, out: str) -> MessageFunction:
    """Old name of ``u_mul_e``."""
    warn_deprecated("fn.src_mul_edge", "use fn.u_mul_e")
    return message_function("u_mul_e", (src, edge), out)


def _binary(name: str) -> Callable[[str, str, str], MessageFunction]:
    lhs, op, rhs = name.split("_")
    owner = {"u": "source node", "v": "destination node", "e": "edge"}

    def build(lhs_field: str, rhs_field: str, out: str) -> MessageFunction:
        return message_function(name, (lhs_field, rhs_field), out)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"Message: {op} of the {owner[lhs]}'s column ``lhs_field`` and the {owner[rhs]}'s column ``rhs_field``, "
        "feature axes broadcast as NumPy does."
    )
    return build


def _reducer(name: str) -> Callable[[str, str], ReduceFunction]:
    def build(msg: str, out: str) -> ReduceFunction:
        return reduce_function(name, msg, out)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"Reduce: {name} of the messages ``msg`` of each node, written to column ``out``; 0 without messages."
    )
    return build


sum = _reducer("sum")
mean = _reducer("mean")
max = _reducer("max")
min = _reducer("min")
prod = _reducer("prod")
logsumexp = _reducer("logsumexp")

for _lhs, _rhs in permutations("uve", 2):
    for _op in MESSAGES:
        _name = f"{_lhs}_{_op}_{_rhs}"
        globals()[_name] = _binary(_name)
        __all__ += [_name]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[[str, str, str], MessageFunction]: ...
else:
    __getattr__ = hints.names_of(__name__)
