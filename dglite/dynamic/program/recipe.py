"""What a plan consists of: places for values, and the stages that fill them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

import torch

from ...expr import Expr
from ...kernels.render.rows import RowAccess
from .ir import Domain, Node

__all__ = ["Buffer", "Cell", "Heavy", "Place", "Reading", "Role", "Root", "StagePhase", "VertexPlan"]


class StagePhase(IntEnum):
    """When a stage runs."""

    EAGER = 0
    SWEEP = 1
    LATE = 2


class Role(Enum):
    """What becomes of a program's result."""

    PULL = "pull"
    SCATTER = "scatter"
    PUSH = "push"
    KEEP = "keep"
    STATE_GRAD = "state gradient"
    PULL_GRAD = "input gradient"
    SHARED_GRAD = "parameter gradient"


@dataclass(frozen=True)
class Root:
    """A result: the node, what it is, and which one. Keys of state gradients are (slot or None, state)."""

    role: Role
    key: object
    node: Node


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory with a row per vertex or edge. States, pushed values and gradients of inputs are shared by all classes."""

    domain: Domain
    width: int
    dtype: torch.dtype
    role: Role | None = None
    key: object = None


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
class Reading:
    """What a kernel reads: a place or, of ``source``, a state, another vertex's value or a shared row."""

    rows: RowAccess
    source: Node | Place
    column: int = 0


@dataclass
class Cell:
    """A kernel: formulas over what it reads, and where each goes."""

    phase: StagePhase
    domain: Domain
    width: int
    dtype: torch.dtype
    formulas: tuple[Expr, ...]
    readings: tuple[Reading, ...]
    places: tuple[Place, ...]


@dataclass
class Heavy:
    """A product, a sum over children or parents, or a torch function; ``places`` of its inputs, None where shared."""

    phase: StagePhase
    node: Node
    places: tuple[Place | None, ...]
    place: Place | None


@dataclass
class VertexPlan:
    """The stages of one program for one class of vertices."""

    stages: dict[StagePhase, list[Cell | Heavy]]
    places: dict[Node, Place]
    roots: list[Root]
    buffers: list[Buffer] = field(default_factory=list)
