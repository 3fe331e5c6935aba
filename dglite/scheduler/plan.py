"""Plans: what is computed (semantic instructions), then how (executable ones). Small, immutable, printable.

A plan is a sequence of instructions over numbered registers. A register holds a *table*: columns by name, all with the
same number of rows. ``lower`` writes ``Message`` and ``Reduce``, which only say what is meant; ``rewrite`` replaces
them by instructions that ``execute`` can run. A user's function is not in the plan, only its position among the
functions of the call: so a plan can be kept without keeping alive what the function's closure holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..errors import DGLError
from ..expr import Call, Constant, Expr, Operand, Side
from ..function import FieldName, MessageFunction, ReduceFunction
from ..opspec import Reducer


@dataclass(frozen=True, slots=True)
class UserFunction:
    """The user's function number ``slot`` of the call; ``recorded`` if it is to be traced.

    With ``few_edges`` it could be recorded, and is not, since calling it as written takes less time.
    """

    slot: int
    recorded: bool = False
    few_edges: bool = False

    def __str__(self) -> str:
        return f"f{self.slot}"


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """What an operand reads of the relation's source nodes, edges or destination nodes."""

    side: Side
    name: FieldName

    def __str__(self) -> str:
        name = f"<tensor {self.name}>" if isinstance(self.name, int) else self.name
        return f"{self.side.value}.{name}"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table computed earlier; one row per edge."""

    register: int
    name: str

    def __str__(self) -> str:
        return f"%{self.register}.{self.name}"


Source = ColumnRead | Field


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step: reads the registers ``inputs``, leaves a table in register ``out``. ``relation`` counts edge types."""

    out: int
    relation: int
    semantic: ClassVar[bool] = False
    """Whether a rewrite has to replace it before the plan can run."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The registers that are read."""
        return ()

    @property
    def text(self) -> str:
        """What it does, in one line."""
        return ""

    def __str__(self) -> str:
        return f"%{self.out} = {type(self).__name__} {self.text}".rstrip()


@dataclass(frozen=True, slots=True)
class Message(Instruction):
    """Compute a message on every edge of the relation."""

    function: MessageFunction | UserFunction
    semantic = True

    @property
    def text(self) -> str:
        return str(self.function)


@dataclass(frozen=True, slots=True)
class Reduce(Instruction):
    """Reduce to each destination node the messages of its in-edges."""

    messages: tuple[int, ...]
    function: ReduceFunction | UserFunction
    semantic = True

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.messages

    @property
    def text(self) -> str:
        return f"{self.function} of {_registers(self.messages)}"


@dataclass(frozen=True, slots=True)
class StoredMessages(Instruction):
    """Take the messages that ``send`` has left on the edges."""


@dataclass(frozen=True, slots=True)
class CopyColumn(Instruction):
    """Take a column for every edge, as column ``out_field``: the edge's own, or a gathered row of an end node."""

    column: ColumnRead
    out_field: str

    @property
    def text(self) -> str:
        return f"{self.column} -> {self.out_field!r}"


@dataclass(frozen=True, slots=True)
class EdgeCompute(Instruction):
    """One g-SDDMM: an expression on every edge, to column ``out_field``. With ``dot`` the last axis is summed."""

    expr: Expr
    operands: tuple[Source, ...]
    dot: bool
    out_field: str
    keepdim: bool = True

    @property
    def text(self) -> str:
        formula = spell(self.expr, self.operands)
        return f"{f'dot {formula}' if self.dot else formula} -> {self.out_field!r}"


@dataclass(frozen=True, slots=True)
class EdgeScores(Instruction):
    """Scores of an attention, leaky_relu(left of the source + right of the destination), computed when read.

    A term of the edge may be added to the two.
    """

    left: ColumnRead
    right: ColumnRead
    edge: ColumnRead | None
    slope: float
    out_field: str

    @property
    def terms(self) -> tuple[ColumnRead, ...]:
        """The columns that are added up."""
        return (self.left, self.right) if self.edge is None else (self.left, self.right, self.edge)

    @property
    def text(self) -> str:
        formula = f"({' + '.join(map(str, self.terms))})"
        return f"{formula if self.slope == 1 else f'leaky_relu{formula}'} -> {self.out_field!r}"


@dataclass(frozen=True, slots=True)
class RunEdgeUDF(Instruction):
    """Call a user's function once on all edges."""

    function: UserFunction

    @property
    def text(self) -> str:
        return str(self.function)


@dataclass(frozen=True, slots=True)
class GroupEdges(Instruction):
    """Call a user's function on edges in buckets (nodes, degree), grouped by their end ``by``."""

    function: UserFunction
    by: Side

    @property
    def text(self) -> str:
        return f"{self.function} by {'source' if self.by is Side.U else 'destination'}"


@dataclass(frozen=True, slots=True)
class FusedReduce(Instruction):
    """One g-SpMM: an expression on every edge, reduced on the way to column ``out_field``; no message is stored.

    ``more`` are reductions of expressions of the same operands that are made in the same pass.
    """

    expr: Expr
    operands: tuple[Source, ...]
    reducer: Reducer
    out_field: str
    more: tuple[tuple[Expr, Reducer, str], ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(operand.register for operand in self.operands if isinstance(operand, Field))

    @property
    def text(self) -> str:
        return ", ".join(
            f"{reducer.value} of {spell(expr, self.operands)} -> {field!r}" for expr, reducer, field in self.parts
        )

    @property
    def parts(self) -> tuple[tuple[Expr, Reducer, str], ...]:
        """Each expression, how it is reduced, and the column that receives it."""
        return (self.expr, self.reducer, self.out_field), *self.more


@dataclass(frozen=True, slots=True)
class TakeColumn(Instruction):
    """Take a column that an earlier step has computed beside its own."""

    field: Field

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.field.register,)

    @property
    def text(self) -> str:
        return str(self.field)


@dataclass(frozen=True, slots=True)
class BucketReduce(Instruction):
    """Reduce in buckets of nodes of one degree.

    The mailbox has the columns of the tables ``messages``, and message fields that copy a feature column: ``columns``
    pairs each with its column, whose rows go straight into the buckets.
    """

    function: ReduceFunction | UserFunction
    messages: tuple[int, ...]
    columns: tuple[tuple[str, ColumnRead], ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.messages

    @property
    def text(self) -> str:
        fields = [_registers(self.messages)] if self.messages else []
        fields += [f"{column} as {field!r}" for field, column in self.columns]
        return f"{self.function} of {', '.join(fields)}"


@dataclass(frozen=True, slots=True)
class ReduceOnce(Instruction):
    """Call a user's reduce function once for all nodes: its reductions over the mailbox are kernels.

    The mailbox has the columns of the tables ``messages``, and ``fields`` that are computed on the way: each a name, an
    expression and its operands.
    """

    function: UserFunction
    messages: tuple[int, ...]
    fields: tuple[tuple[str, Expr, tuple[ColumnRead, ...]], ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.messages

    @property
    def text(self) -> str:
        parts = [_registers(self.messages)] if self.messages else []
        parts += [f"{spell(expr, operands)} as {field!r}" for field, expr, operands in self.fields]
        return f"{self.function} of {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Apply(Instruction):
    """Call a user's function on the destination nodes; the columns of ``tables`` go before the graph's."""

    tables: tuple[int, ...]
    function: UserFunction

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.tables

    @property
    def text(self) -> str:
        return f"{self.function} of {_registers(self.tables)}"


@dataclass(frozen=True, slots=True)
class ApplyAfter(Instruction):
    """A reduction, and a user's function of its result that may become part of the kernel."""

    reduce: FusedReduce
    function: UserFunction

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.reduce.inputs

    @property
    def text(self) -> str:
        return f"{self.function} of {self.reduce.text}"


@dataclass(frozen=True, slots=True)
class CrossReduce(Instruction):
    """Merge the results of several relations, one group of tables each, column by column.

    ``over`` are the relations of the groups where a relation without messages must not take part (a max of max
    reductions); empty where its 0 does take part.
    """

    groups: tuple[tuple[int, ...], ...]
    reducer: str | UserFunction
    over: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(register for group in self.groups for register in group)

    @property
    def text(self) -> str:
        return f"{self.reducer} of {', '.join(_registers(group) for group in self.groups)}"


@dataclass(frozen=True, slots=True)
class Write(Instruction):
    """Write the tables to the columns of the relation's destination nodes (``V``) or edges (``E``)."""

    tables: tuple[int, ...]
    side: Side

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.tables

    @property
    def text(self) -> str:
        return f"{_registers(self.tables)} to {'edges' if self.side is Side.E else 'nodes'}"

    def __str__(self) -> str:
        return f"Write {self.text}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Instructions in order; ``reasons[i]`` says which rule made instruction ``i`` and why, or is empty."""

    steps: tuple[Instruction, ...]
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def _registers(registers: tuple[int, ...]) -> str:
    return " + ".join(f"%{register}" for register in registers)


def spell(expr: Expr, operands: Sequence[Source]) -> str:
    """Return the formula of ``expr`` with its operands by name, e.g. ``(u.h * e.w)``."""
    if isinstance(expr, Operand):
        return str(operands[expr.slot])
    if isinstance(expr, Constant):
        return repr(expr.value)
    assert isinstance(expr, Call)
    return expr.op.source.format(*(spell(arg, operands) for arg in expr.args))


def verify(plan: Plan, executable: bool = False) -> None:
    """Check that registers are defined once and before they are read, and that what must be executable is.

    Raises DGLError with the plan's text: a plan that fails is a defect of the scheduler, not of the user's program.
    """
    defined: set[int] = set()
    for step in plan.steps:
        missing = [register for register in step.inputs if register not in defined]
        if missing:
            raise DGLError(f"{step} reads {_registers(tuple(missing))} before it is defined in plan\n{plan}")
        if step.out in defined:
            raise DGLError(f"{step} defines %{step.out} a second time in plan\n{plan}")
        if executable and step.semantic:
            raise DGLError(f"no rule has rewritten {step} in plan\n{plan}")
        defined.add(step.out)
    if plan.reasons and len(plan.reasons) != len(plan.steps):
        raise DGLError(f"{len(plan.reasons)} reasons for {len(plan.steps)} instructions in plan\n{plan}")
