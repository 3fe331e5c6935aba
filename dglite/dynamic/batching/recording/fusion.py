"""Element-wise operations of a cell that follow each other become one, with a formula for each result that is read.

What lies between is not stored: it is computed again where it is read, also for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ....expr import Expr
from ....kernels.cpu.dynamic.batching import PLACE_BITS, PLACE_MASK
from .signatures import ColumnRun, PointwiseFormulas, Signature, operand, pointwise, replaced, result


class RecordedOperation(NamedTuple):
    """A recorded operation: its node, signature and the places of its arguments."""

    node: int
    signature: Signature
    refs: list[int]


_plans: dict[Any, tuple[list[RecordedOperation | int], dict[int, int]]] = {}
"""What became of bodies that have been seen: cells are traced in every session, and mostly they are the same."""


def fused(steps: Sequence[RecordedOperation], outputs: Iterable[int]) -> tuple[list[RecordedOperation], dict[int, int]]:
    """Return fewer steps that compute the same, and where the result of each old node that is read lies among them.

    ``outputs`` are nodes that are read from outside. A place is a new step's number in the upper bits, bytes in the
    lower.
    """
    numbers = [(s.node, s.signature.number if s.signature.formulas is not None else None, *s.refs) for s in steps]
    key = tuple(numbers), tuple(outputs)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _planned(steps, key[1])
    order, places = plan
    return [steps[step] if isinstance(step, int) else step for step in order], places


def _planned(
    steps: Sequence[RecordedOperation], outputs: Iterable[int]
) -> tuple[list[RecordedOperation | int], dict[int, int]]:
    """Return what :func:`fused` does, steps that stay as they are by their number."""
    groups, number = _groups(steps), {step.node: i for i, step in enumerate(steps)}
    group_of = {step.node: number for number, group in enumerate(groups) for step in group}
    read = set(outputs)
    for step in steps:
        read |= {node for node in _nodes(step) if group_of.get(node) != group_of[step.node]}
    places: dict[int, int] = {}
    order: list[RecordedOperation | int] = []
    for group in groups:
        results = [step.node for step in group if step.node in read]
        fused_step = _fused_step(group, results) if len(group) > 1 and results else None
        if fused_step is not None:
            first, shape = len(order) << PLACE_BITS, _formulas(group[0])
            places |= {node: first + i * shape.width * shape.dtype.itemsize for i, node in enumerate(results)}
            order.append(fused_step)
        elif results:
            places |= {step.node: len(order) + i << PLACE_BITS for i, step in enumerate(group)}
            order += [number[step.node] for step in group]
    return order, places


def _nodes(step: RecordedOperation) -> list[int]:
    return [ref >> PLACE_BITS for ref in step.refs]


def _formulas(step: RecordedOperation) -> PointwiseFormulas:
    assert step.signature.formulas is not None
    return step.signature.formulas


def _groups(steps: Sequence[RecordedOperation]) -> list[list[RecordedOperation]]:
    """Return groups in an order of execution. Element-wise operations of one width are together unless others, that
    use some of them, are used by the rest: each way from one group to another leads to a later stage."""
    stage: dict[int, int] = {}
    shape_of: dict[int, Any] = {}
    members: dict[Any, list[RecordedOperation]] = {}
    for step in steps:
        formulas = step.signature.formulas
        shape = None if formulas is None else (formulas.width, formulas.dtype)
        before = [node for node in _nodes(step) if node in stage]
        at = max((stage[n] + (shape is None or shape_of[n] != shape) for n in before), default=0)
        stage[step.node], shape_of[step.node] = at, shape
        members.setdefault((at, shape, step.node if shape is None else 0), []).append(step)
    return [members[key] for key in sorted(members, key=lambda key: key[0])]


def _fused_step(group: Sequence[RecordedOperation], results: Sequence[int]) -> RecordedOperation | None:
    """Return one step for a group, whose results are those of the given nodes, one after the other.

    None where it would have more operands than a kernel takes.
    """
    width, dtype = _formulas(group[0]).width, _formulas(group[0]).dtype
    sources: dict[int, int] = {}
    parts: dict[ColumnRun, int] = {}
    values: dict[int, list[Expr]] = {}
    formulas: list[Expr] = []
    for step in group:
        formulas_of_step, operands = _formulas(step), list[Expr]()
        for part in formulas_of_step.parts:
            ref = step.refs[part.slot]
            node, place = ref >> PLACE_BITS, (ref & PLACE_MASK) // dtype.itemsize + part.start
            if node in values:
                operands.append(values[node][place // width])
            else:
                # One value for all columns, such as a number, has a place of its own; parts of a row share an argument.
                source, start = (ref, part.start) if part.spread else (node << PLACE_BITS, place)
                slot = sources.setdefault(source, len(sources))
                operands.append(operand(parts.setdefault(ColumnRun(slot, start, part.spread), len(parts))))
        values[step.node] = list[Expr]()
        instead: dict[Expr, Expr] = {operand(i): x for i, x in enumerate(operands)}
        for j, formula in enumerate(formulas_of_step.formulas):
            values[step.node].append(replaced(formula, instead))
            instead[result(j)] = values[step.node][j]
        if step.node in results:
            at = len(formulas)
            formulas += values[step.node]
            values[step.node] = [result(at + i) for i in range(len(formulas_of_step.formulas))]
    try:
        signature = pointwise("fused", len(sources), PointwiseFormulas(tuple(formulas), tuple(parts), width, dtype))
    except ValueError:
        return None
    return RecordedOperation(results[0], signature, list(sources))
