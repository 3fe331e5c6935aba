"""From message-passing calls to semantic plans, which say what is meant; :mod:`.rewrite` decides which kernels run.

The functions of a call come as *signatures*: a built-in stands for itself, a user's function is a ``UserFunction`` that
names its position in the call. So one plan serves every user function, and plans can be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import DGLError
from ..expr import Side
from ..function import MessageFunction, ReduceFunction
from ..opspec import Reducer
from .plan import (
    Apply,
    CrossReduce,
    GroupEdges,
    Instruction,
    Message,
    Plan,
    Reduce,
    StoredMessages,
    UserFunction,
    Write,
)

MessageSignature = tuple[MessageFunction, ...] | UserFunction | None
"""Built-in messages, a user's function, or None where the messages are stored already."""
ReduceSignature = tuple[ReduceFunction, ...] | UserFunction

CROSS_REDUCERS = ("sum", "min", "max", "mean", "stack")


class RelationUpdate(NamedTuple):
    """One relation of ``multi_update_all``."""

    message: MessageSignature
    reduce: ReduceSignature
    apply: UserFunction | None
    target: int
    """Which node type receives: equal for the relations that are merged."""


def message_signature(function: Any, slot: int) -> tuple[MessageFunction, ...] | UserFunction:
    """Return the signature of a message argument: a built-in, a list of built-ins, or a callable."""
    return _signature(function, slot, MessageFunction, "message", "fn.copy_u('h', 'm')", "edges")


def reduce_signature(function: Any, slot: int) -> ReduceSignature:
    """Return the signature of a reduce argument: a built-in, a list of built-ins, or a callable."""
    return _signature(function, slot, ReduceFunction, "reduce", "fn.sum('m', 'h')", "nodes")


def _signature(function: Any, slot: int, kind: type, role: str, example: str, batch: str) -> Any:
    if isinstance(function, kind):
        return (function,)
    if isinstance(function, list | tuple) and function and all(isinstance(item, kind) for item in function):
        return tuple(function)
    if callable(function):
        return UserFunction(slot)
    if isinstance(function, MessageFunction | ReduceFunction):
        raise DGLError(
            f"fn.{function} is not a {role} function; the message function comes first and the reduce function second, "
            "as in g.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'h'))"
        )
    raise DGLError(
        f"{function!r:.60} is not a {role} function; expected a built-in such as {example}, a list of them, "
        f"or a function of a batch of {batch} that returns a dict of tensors"
    )


def cross_signature(reducer: Any, slot: int) -> str | UserFunction:
    """Return the signature of a cross reducer: one of ``CROSS_REDUCERS``, or a function of a list of tensors."""
    if isinstance(reducer, str) and reducer in CROSS_REDUCERS:
        return reducer
    if callable(reducer):
        return UserFunction(slot)
    raise DGLError(
        f"cross reducer {reducer!r} is not understood; expected one of {', '.join(CROSS_REDUCERS)}, "
        "or a function of the list of the relations' results"
    )


class _Builder:
    """Appends instructions, giving each the next register."""

    def __init__(self) -> None:
        self.steps: list[Instruction] = []

    def add(self, kind: Any, relation: int, *args: Any) -> int:
        self.steps.append(kind(len(self.steps), relation, *args))
        return len(self.steps) - 1

    def messages(self, message: MessageSignature, relation: int) -> tuple[int, ...]:
        if message is None:
            return (self.add(StoredMessages, relation),)
        functions = (message,) if isinstance(message, UserFunction) else message
        return tuple([self.add(Message, relation, function) for function in functions])

    def reduced(self, message: MessageSignature, reduce: ReduceSignature, relation: int) -> tuple[int, ...]:
        messages = self.messages(message, relation)
        if isinstance(reduce, UserFunction):
            return (self.add(Reduce, relation, messages, reduce),)
        fields = None if message is None or isinstance(message, UserFunction) else [item.out_field for item in message]
        registers = []
        for function in reduce:
            if fields is not None and function.msg_field not in fields:
                raise DGLError(
                    f"reduce function {function} reads message field {function.msg_field!r}, "
                    f"but the message function makes {', '.join(map(repr, fields))}; give both the same name"
                )
            reads = messages if fields is None else (messages[_last(fields, function.msg_field)],)
            registers.append(self.add(Reduce, relation, reads, function))
        return tuple(registers)

    def plan(self) -> Plan:
        return Plan(tuple(self.steps))


def _last(names: Sequence[str], name: str) -> int:
    return len(names) - 1 - list(reversed(names)).index(name)


def lower_update(message: MessageSignature, reduce: ReduceSignature, apply: UserFunction | None) -> Plan:
    """Lower ``update_all``, ``recv``, ``send_and_recv``, ``pull`` and ``push``: they differ in the relation alone."""
    build = _Builder()
    tables = build.reduced(message, reduce, 0)
    if apply is not None:
        tables = (build.add(Apply, 0, tables, apply),)
    build.add(Write, 0, tables, Side.V)
    return build.plan()


def lower_edges(message: MessageSignature) -> Plan:
    """Lower ``apply_edges``: a message that is written to the edges."""
    build = _Builder()
    build.add(Write, 0, build.messages(message, 0), Side.E)
    return build.plan()


def lower_message(message: MessageFunction | UserFunction) -> Plan:
    """Lower the evaluation of one message, which is the result of the plan."""
    return Plan((Message(0, 0, message),))


def lower_nodes(function: UserFunction) -> Plan:
    """Lower a node function over receiving nodes to which nothing was sent."""
    return Plan((Apply(0, 0, (), function), Write(1, 0, (0,), Side.V)))


def lower_group(function: UserFunction, by: Side) -> Plan:
    """Lower ``group_apply_edges``."""
    build = _Builder()
    build.add(Write, 0, (build.add(GroupEdges, 0, function, by),), Side.E)
    return build.plan()


def lower_multi(parts: Sequence[RelationUpdate], cross: str | UserFunction, apply: UserFunction | None) -> Plan:
    """Lower ``multi_update_all``: reduce in each relation, merge per receiving node type, then apply."""
    build = _Builder()
    groups: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for relation, part in enumerate(parts):
        tables = build.reduced(part.message, part.reduce, relation)
        if part.apply is not None:
            tables = (build.add(Apply, relation, tables, part.apply),)
        groups.setdefault(part.target, []).append((relation, tables))
    writes = []
    for group in groups.values():
        relations = tuple(relation for relation, _ in group)
        selects = len(group) > 1 and all(_is_extremum(parts[relation], cross) for relation in relations)
        registers = tuple(tables for _, tables in group)
        tables = (build.add(CrossReduce, relations[0], registers, cross, relations if selects else ()),)
        if apply is not None:
            tables += (build.add(Apply, relations[0], tables, apply),)
        writes.append((relations[0], tables))
    for relation, tables in writes:
        build.add(Write, relation, tables, Side.V)
    return build.plan()


def _is_extremum(part: RelationUpdate, cross: str | UserFunction) -> bool:
    """Whether merging takes the same extremum as the relation did, so that the 0 of "no message" must stay out."""
    if part.apply is not None or isinstance(part.reduce, UserFunction) or isinstance(cross, UserFunction):
        return False
    return all(function.reducer.selects and function.reducer is _REDUCERS.get(cross) for function in part.reduce)


_REDUCERS = {reducer.value: reducer for reducer in Reducer}
