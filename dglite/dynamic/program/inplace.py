"""Results that take the place of what they are made from, so that less memory goes through the caches.

The gates of a cell are read once, by the kernel that applies their activations, and the gradient needs only the
activations: those can lie where the gates lay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...kernels.render.rows import RowAccess
from .recipe import (
    Buffer,
    Cell,
    Heavy,
    Place,
    Role,
    StagePhase,
    VertexPlan,
)

__all__ = ["reuse_places"]


def reuse_places(plan: VertexPlan) -> None:
    """Let each kernel's own results take the places of operands that nobody else reads, and drop the memory saved."""
    stages = [stage for phase in StagePhase for stage in plan.stages[phase]]
    taken = [plan.places[root.node] for root in plan.roots if root.node in plan.places]
    roots = {root.node for root in plan.roots if root.role is not Role.KEEP}
    fixed = {plan.places[node].buffer for node in roots if node in plan.places}
    moved: dict[Buffer, Place] = {}
    for cell in stages:
        if not isinstance(cell, Cell):
            continue
        for place in cell.places:
            buffer = place.buffer
            if buffer not in plan.buffers or buffer in fixed or place.width != buffer.width:
                continue
            target = _spare_operand(cell, place, plan.buffers, taken, stages)
            if target is not None:
                moved[buffer] = target
                taken.append(target)
    if moved:
        _move(plan, stages, moved)


def _spare_operand(
    cell: Cell, place: Place, own: list[Buffer], taken: Iterable[Place], stages: list[Cell | Heavy]
) -> Place | None:
    """Return an operand of a kernel that is as wide as ``place`` and that nothing else needs, None if there is none."""
    for reading in cell.readings:
        source = reading.source
        if not isinstance(source, Place) or reading.rows is not RowAccess.SAME or source.width != place.width:
            continue
        alike = source.buffer.dtype is place.buffer.dtype and source.buffer.domain is place.buffer.domain
        written = [other for other in cell.places if _overlap(other, source)]
        if not alike or source.buffer not in own or written or any(_overlap(source, other) for other in taken):
            continue
        readers = sum(_overlap(source, other) for stage in stages for other in _read(stage))
        if readers == 1:
            return source
    return None


def _read(stage: Cell | Heavy) -> list[Place]:
    if isinstance(stage, Cell):
        return [reading.source for reading in stage.readings if isinstance(reading.source, Place)]
    return [place for place in stage.places if place is not None]


def _overlap(x: Place, y: Place) -> bool:
    return x.buffer is y.buffer and x.column < y.column + y.width and y.column < x.column + x.width


def _move(plan: VertexPlan, stages: list[Cell | Heavy], moved: dict[Buffer, Place]) -> None:
    """Let what lay in some buffers lie in other places; forget values that are overwritten there."""

    def at(place: Place) -> Place:
        while place.buffer in moved:
            target = moved[place.buffer]
            place = Place(target.buffer, target.column + place.column, place.width)
        return place

    lost = [node for node, place in plan.places.items() if any(_overlap(place, target) for target in moved.values())]
    for node in lost:
        del plan.places[node]
    plan.places.update({node: at(place) for node, place in plan.places.items()})
    for stage in stages:
        if isinstance(stage, Cell):
            stage.places = tuple(map(at, stage.places))
            stage.readings = tuple(
                replace(reading, source=at(reading.source)) if isinstance(reading.source, Place) else reading
                for reading in stage.readings
            )
        else:
            stage.places = tuple(None if place is None else at(place) for place in stage.places)
            stage.place = None if stage.place is None else at(stage.place)
    plan.buffers[:] = [buffer for buffer in plan.buffers if buffer not in moved]
