"""Ordered rewrite rules: from what is meant to what is run. One rule, one pattern, one test each.

A pattern looks at one instruction and at the instructions that made its inputs; where it matches, the rule gives the
instruction that takes its place. Rules are tried in the order of the table, each on the whole plan, so an earlier rule
takes precedence. In the end, instructions whose table nothing reads are dropped: a dead message is never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..config import debug_level
from ..expr import Operand, Side
from ..function import MessageFunction, ReduceFunction
from ..opspec import Reducer
from .attention import find_score
from .plan import (
    Apply,
    ApplyAfter,
    BucketReduce,
    ColumnRead,
    CopyColumn,
    EdgeCompute,
    EdgeScores,
    Field,
    FusedReduce,
    Instruction,
    Message,
    Plan,
    Reduce,
    ReduceOnce,
    RunEdgeUDF,
    TakeColumn,
    UserFunction,
    Write,
    verify,
)

_COPY_E = Operand(Side.E, 0)


def _anything(function: Any) -> bool:
    return True


@dataclass(frozen=True)
class StepPattern:
    """Matches an instruction by its kind, its function, and what each of its inputs must match."""

    kind: type[Instruction]
    function: Callable[[Any], bool] = _anything
    inputs: StepPattern | None = None

    def matches(self, step: Instruction, makers: Mapping[int, Instruction]) -> bool:
        """Whether ``step`` matches, ``makers`` giving the instruction that made each register."""
        return (
            isinstance(step, self.kind)
            and self.function(step.function)  # type: ignore[attr-defined]
            and (self.inputs is None or all(self.inputs.matches(makers[register], makers) for register in step.inputs))
        )


@dataclass(frozen=True)
class RewriteRule:
    """Where ``pattern`` matches, ``rewrite`` gives the instruction to put there; ``reason`` is what explain says."""

    name: str
    pattern: StepPattern
    rewrite: Callable[[Any, Mapping[int, Any]], Instruction]
    reason: str


def _is_builtin(function: Any) -> bool:
    return not isinstance(function, UserFunction)


def _is_elementwise(function: Any) -> bool:
    return isinstance(function, MessageFunction) and not function.dot


def _is_copy(function: Any) -> bool:
    return _is_elementwise(function) and isinstance(function.expr, Operand)


def _has_kernel(function: Any) -> bool:
    return isinstance(function, ReduceFunction) and function.reducer.fused


def _columns(function: MessageFunction) -> tuple[ColumnRead, ...]:
    return tuple(ColumnRead(side, name) for side, name in function.fields)


def _is_recorded(function: Any) -> bool:
    return isinstance(function, UserFunction) and function.recorded


def _reduce_once(step: Reduce, makers: Mapping[int, Instruction]) -> ReduceOnce:
    registers, fields = [], []
    for register in step.messages:
        message = getattr(makers[register], "function", None)
        if _is_elementwise(message):
            assert isinstance(message, MessageFunction)
            operands = tuple(ColumnRead(side, name) for side, name in message.fields)
            fields.append((message.out_field, message.expr, operands))
        else:
            registers.append(register)
    assert isinstance(step.function, UserFunction)
    return ReduceOnce(step.out, step.relation, step.function, tuple(registers), tuple(fields))


def _fuse(step: Reduce, makers: Mapping[int, Message]) -> FusedReduce:
    message, reduce = makers[step.messages[-1]].function, step.function
    assert isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction)
    return FusedReduce(step.out, step.relation, message.expr, _columns(message), reduce.reducer, reduce.out_field)


def _reduce_field(step: Reduce, makers: Mapping[int, Instruction]) -> FusedReduce:
    reduce = step.function
    assert isinstance(reduce, ReduceFunction)
    field = Field(step.messages[-1], reduce.msg_field)
    return FusedReduce(step.out, step.relation, _COPY_E, (field,), reduce.reducer, reduce.out_field)


def _gather_into_buckets(step: Reduce, makers: Mapping[int, Message]) -> BucketReduce:
    columns = []
    for register in step.messages:
        message = makers[register].function
        assert isinstance(message, MessageFunction)
        side, name = message.fields[0]
        columns.append((message.out_field, ColumnRead(side, name)))
    return BucketReduce(step.out, step.relation, step.function, (), tuple(columns))


def _bucket(step: Reduce, makers: Mapping[int, Instruction]) -> BucketReduce:
    return BucketReduce(step.out, step.relation, step.function, step.messages, ())


def _copy_message(step: Message, makers: Mapping[int, Instruction]) -> CopyColumn:
    function = step.function
    assert isinstance(function, MessageFunction)
    side, name = function.fields[0]
    return CopyColumn(step.out, step.relation, ColumnRead(side, name), function.out_field)


def _compute_message(step: Message, makers: Mapping[int, Instruction]) -> EdgeCompute:
    function = step.function
    assert isinstance(function, MessageFunction)
    options = function.dot, function.out_field, function.keepdim
    return EdgeCompute(step.out, step.relation, function.expr, _columns(function), *options)


def _is_score(function: Any) -> bool:
    return (
        _is_elementwise(function)
        and find_score(function.expr) is not None
        and all(isinstance(name, str) for _, name in function.fields)
    )


def _score_later(step: Message, makers: Mapping[int, Instruction]) -> EdgeScores:
    function = step.function
    assert isinstance(function, MessageFunction)
    score = find_score(function.expr)
    assert score is not None  # the pattern has seen it
    columns = _columns(function)
    edge = None if score.edge is None else columns[score.edge]
    ends = columns[score.left], columns[score.right], edge
    return EdgeScores(step.out, step.relation, *ends, score.slope, function.out_field)


def _run_message(step: Message, makers: Mapping[int, Instruction]) -> RunEdgeUDF:
    assert isinstance(step.function, UserFunction)
    return RunEdgeUDF(step.out, step.relation, step.function)


RULES = (
    RewriteRule(
        "record the reducer",
        StepPattern(Reduce, _is_recorded),
        _reduce_once,
        "what it does to the mailbox are reductions over messages: called once for all nodes, these in kernels",
    ),
    RewriteRule(
        "fuse",
        StepPattern(Reduce, _has_kernel, StepPattern(Message, _is_elementwise)),
        _fuse,
        "element-wise message and reducer in one kernel; no message is stored",
    ),
    RewriteRule(
        "gather into buckets",
        StepPattern(Reduce, inputs=StepPattern(Message, _is_copy)),
        _gather_into_buckets,
        "the reducer reads the whole mailbox: bucketed by degree, copied columns gathered straight into the buckets",
    ),
    RewriteRule(
        "reduce stored messages",
        StepPattern(Reduce, _has_kernel),
        _reduce_field,
        "the message is not element-wise over columns, so it is stored on the edges, then reduced",
    ),
    RewriteRule(
        "bucket by degree",
        StepPattern(Reduce),
        _bucket,
        "the reducer reads the whole mailbox: bucketed by degree, messages permuted once",
    ),
    RewriteRule("copy a column", StepPattern(Message, _is_copy), _copy_message, "rows are moved, nothing is computed"),
    RewriteRule(
        "leave scores for later",
        StepPattern(Message, _is_score),
        _score_later,
        "may be the scores of an attention: computed when something reads them, never where all of it is one kernel",
    ),
    RewriteRule(
        "compute a built-in message", StepPattern(Message, _is_builtin), _compute_message, "its values are needed"
    ),
    RewriteRule(
        "run a message UDF",
        StepPattern(Message),
        _run_message,
        "what it does is known to Python alone: called once on all edges",
    ),
)
"""The table. A message function that was recorded is a built-in to it (see ``record``)."""


def rewrite(plan: Plan) -> Plan:
    """Return the executable plan. At ``DGLITE_DEBUG`` 1 and above every pass is verified."""
    check = debug_level() >= 1
    steps = list(plan.steps)
    reasons = [""] * len(steps)
    for rule in RULES:
        makers = {step.out: step for step in steps}
        for index, step in enumerate(steps):
            if rule.pattern.matches(step, makers):
                steps[index] = rule.rewrite(step, makers)
                reasons[index] = f"{rule.name}: {rule.reason}"
        if check:
            verify(Plan(tuple(steps), tuple(reasons)))
    rewritten = _drop_dead(_apply_in_kernels(_reduce_together(Plan(tuple(steps), tuple(reasons)))))
    if check:
        verify(rewritten, executable=True)
    return rewritten


def _reduce_together(plan: Plan) -> Plan:
    """Make reductions of the same operands in one pass: the first instruction makes all, the others take theirs."""
    steps, reasons = list(plan.steps), list(plan.reasons)
    groups: dict[Any, list[int]] = {}
    for index, step in enumerate(steps):
        if isinstance(step, FusedReduce) and not step.reducer.composed:
            groups.setdefault((step.relation, step.operands), []).append(index)
    for first, *others in groups.values():
        together = steps[first]
        assert isinstance(together, FusedReduce)
        for index in others:
            step = steps[index]
            assert isinstance(step, FusedReduce)
            if any(step.out_field == field for *_, field in together.parts):
                continue
            together = replace(together, more=(*together.more, *step.parts))
            steps[index] = TakeColumn(step.out, step.relation, Field(together.out, step.out_field))
            reasons[index] = ""
        if together.more:
            steps[first] = together
            reasons[first] = "reduce together: the messages are made of the same operands, which are read once for all"
    return Plan(tuple(steps), tuple(reasons))


def _is_one_sum(step: Instruction) -> bool:
    return isinstance(step, FusedReduce) and step.reducer in (Reducer.SUM, Reducer.MEAN) and not step.more


def _apply_in_kernels(plan: Plan) -> Plan:
    """Fuse an apply function that is to be traced with the sum or mean that it alone reads."""
    steps, reasons = list(plan.steps), list(plan.reasons)
    makers = {step.out: step for step in steps}
    read = [register for step in steps for register in step.inputs]
    for index, step in enumerate(steps):
        if isinstance(step, Apply) and step.function.recorded and len(step.tables) == 1:
            reduction = makers[step.tables[0]]
            if _is_one_sum(reduction) and read.count(reduction.out) == 1:
                assert isinstance(reduction, FusedReduce)
                steps[index] = ApplyAfter(step.out, step.relation, reduction, step.function)
                reasons[index] = "apply in the kernel: the reduced column is computed when the function wants values"
    return Plan(tuple(steps), tuple(reasons))


def _drop_dead(plan: Plan) -> Plan:
    """Drop instructions whose table nothing reads, save the last one, which is the result, and every ``Write``."""
    live = {plan.steps[-1].out}
    indices: list[int] = []
    for index in range(len(plan.steps) - 1, -1, -1):
        step = plan.steps[index]
        if step.out in live or isinstance(step, Write):
            live.update(step.inputs)
            indices.append(index)
    indices.reverse()
    return Plan(tuple(plan.steps[i] for i in indices), tuple(plan.reasons[i] for i in indices))
