"""Specifications of kernels: an expression, dtypes, and how the feature axis is cut into vectors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from ..expr import Expr, Operand, Side, operands_of
from ..opspec import Reducer
from .layout import BroadcastLayout, Pattern

ITEM_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
REDUCED = Operand(Side.V, -1)
"""In an epilogue: what the reduction found for the row."""


def compute_dtype(dtype: str) -> str:
    """Return the dtype in which values of ``dtype`` are computed: float32 for the 16-bit floats."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


class Prefetch(Enum):
    """Which operands are prefetched (those not in L2 and not read sequentially)."""

    ALL = "all"
    ROWS = "all but a number for each source"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """The parameters that every kernel is compiled for. ``blocks``: whether whole blocks come before ``pieces``."""

    expr: Expr
    dtype: str
    index: str
    patterns: tuple[Pattern, ...]
    repeat: int
    grouped: bool
    lanes: int
    blocks: bool
    pieces: tuple[int, ...]

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions that are computed for every entry."""
        return (self.expr,)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The distinct operands of all expressions, by slot."""
        operands = {operand for expr in self.exprs for operand in operands_of(expr)} - {REDUCED}
        return tuple(sorted(operands, key=lambda operand: operand.slot))


@dataclass(frozen=True, kw_only=True)
class SpmmSpec(KernelSpec):
    """Everything that a g-SpMM kernel is compiled for. ``more`` are reductions made beside the first, in one pass.

    ``epilogue`` is applied to a single sum or mean before it is written: an expression of :data:`REDUCED` and of
    operands that all entries of the row share.
    """

    reducer: Reducer
    argmax: bool = False
    more: tuple[tuple[Expr, Reducer], ...] = ()
    epilogue: Expr | None = None
    prefetch: Prefetch = Prefetch.ALL

    @property
    def parts(self) -> tuple[tuple[Expr, Reducer], ...]:
        """The expressions and how each is reduced."""
        return (self.expr, self.reducer), *self.more

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (*(expr for expr, _ in self.parts), *(() if self.epilogue is None else (self.epilogue,)))

    @property
    def num_selecting(self) -> int:
        """How many of the reductions have an argmax."""
        return sum(reducer.selects for _, reducer in self.parts)


@dataclass(frozen=True, kw_only=True)
class SddmmSpec(KernelSpec):
    """Everything that a g-SDDMM kernel is compiled for; with ``dot`` the inner run is summed.

    ``listed`` entries are edges in their order, each with a row of its own, not the entries of one row. With
    ``nontemporal`` stores the result and its rows are aligned to 64 bytes.
    """

    dot: bool
    listed: bool = False
    nontemporal: bool = False


def spec_of(layout: BroadcastLayout, lanes: int) -> dict[str, Any]:
    """Return the part of a specification that the broadcast layout fixes."""
    return {
        "patterns": layout.patterns,
        "repeat": layout.repeat,
        "grouped": layout.groups != 1,
        "lanes": lanes,
        "blocks": layout.inner >= lanes,
        "pieces": pieces_of(layout.inner % lanes),
    }


def pieces_of(rest: int) -> tuple[int, ...]:
    """Return the powers of two that add up to ``rest``, largest first."""
    return tuple(1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1)
