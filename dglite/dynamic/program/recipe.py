"""What a plan consists of: places for values, and the stages that fill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import count
from typing import Any

import torch

from ...expr import Expr
from ...kernels.render.rows import RowAccess
from .ir import Node, RowDomain


class StagePhase(IntEnum):
    """When a stage runs."""

    EAGER = 0
    SWEEP = 1
    LATE = 2


class BufferRole(Enum):
    """The use of a program's result, or of memory."""

    SCATTER = "scatter"
    PUSH = "push"
    PUSH_GRAD = "gradient of what is pushed"
    KEEP = "keep"
    STATE_GRAD = "state gradient"
    PULL_GRAD = "input gradient"
    SHARED_GRAD = "parameter gradient"

    VALUE = "an input as it was given"
    VALUE_GRAD = "its gradient"
    RESULT = "a result as it is returned"
    RESULT_GRAD = "its gradient, as it was given"

    __hash__ = object.__hash__


@dataclass(frozen=True)
class ProgramResult:
    """A result: the node, what it is, and which one. Keys of state gradients are (slot or None, state)."""

    role: BufferRole
    key: Any
    node: Node


_number = count(1)


@dataclass(frozen=True)
class Buffer:
    """Memory with a row per vertex or edge. Buffers of one role and key are one, for all classes of vertices.

    Those that :func:`own_buffer` makes belong to one class; they have numbers as keys.
    """

    domain: RowDomain
    width: int
    dtype: torch.dtype
    role: BufferRole | None = None
    key: Any = None

    @property
    def whole(self) -> Place:
        """All columns."""
        return Place(self, 0, self.width)


def own_buffer(node: Node) -> Buffer:
    """Return memory for a value of one class of vertices."""
    return Buffer(node.domain, node.width, node.dtype, None, next(_number))


def rows_of_all(role: BufferRole, key: object, width: int, dtype: torch.dtype) -> Buffer:
    """Return memory that all vertices share."""
    return Buffer(RowDomain.VERTEX, width, dtype, role, key)


@dataclass(frozen=True)
class Place:
    """Columns of a buffer."""

    buffer: Buffer
    column: int
    width: int

    def part(self, start: int, stop: int) -> Place:
        """Return some of these columns."""
        return Place(self.buffer, self.column + start, stop - start)


@dataclass(frozen=True)
class KernelInput:
    """What a kernel reads: a place or, of ``source``, a state, another vertex's value or a shared row.

    ``index`` is what picks rows of a place, where it is not the rows' own.
    """

    rows: RowAccess
    source: Node | Place
    column: int = 0
    index: Any = None


@dataclass
class PointwiseKernel:
    """A kernel: formulas over what it reads, and where each goes."""

    domain: RowDomain
    width: int
    dtype: torch.dtype
    formulas: tuple[Expr, ...]
    readings: tuple[KernelInput, ...]
    places: tuple[Place, ...]


@dataclass
class DenseOp:
    """A product, a sum over children or parents, or a torch function; ``places`` of its inputs, None where shared."""

    node: Node
    places: tuple[Place | None, ...]
    place: Place | None

    @property
    def domain(self) -> RowDomain:
        """What it has a row for; of a gradient that all rows share: what rows it is a sum of."""
        return next(x.domain for x in (self.node, *self.node.inputs) if x.domain is not RowDomain.SHARED)


Stages = Mapping[StagePhase, Sequence[PointwiseKernel | DenseOp]]
"""Stages by phase, in order."""


@dataclass
class VertexPlan:
    """The stages of one program for one class of vertices."""

    stages: Stages
    places: dict[Node, Place]
    roots: list[ProgramResult]
    buffers: list[Buffer] = field(default_factory=list)
