"""Predict the memory of one worker: what it holds of each tensor, from when it is made until it was last read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch.fx import Node

from .coarsen import Coarse, TensorShape, is_view
from .cost import LocalOperator
from .search import SearchStep

__all__ = ["local_shapes", "memory_profile"]


def local_shapes(coarse: Coarse, steps: Sequence[SearchStep]) -> list[TensorShape]:
    """Return what a worker holds of the tensors of each group; of an uneven split, the largest part."""
    shapes = [list(group.shape) for group in coarse.tensors]
    for step in steps:
        for shape, dim in zip(shapes, step.placements, strict=True):
            if dim is not None:
                shape[dim] = -(-shape[dim] // step.k)
    return [tuple(shape) for shape in shapes]


def memory_profile(coarse: Coarse, steps: Sequence[SearchStep]) -> np.ndarray:
    """Return the bytes that a worker holds while each node of the graph runs, in their order.

    Parameters, state and inputs are held throughout; their new values take the places of the old. What an operator
    fetches, and partial outputs before they are reduced, count while it runs.
    """
    shapes = local_shapes(coarse, steps)
    held = {n: math.prod(shapes[g]) * n.meta["val"].element_size() for n, g in coarse.group_of.items()}
    captured = coarse.captured
    in_place = set(captured.updates.values()) if captured.state or captured.hyper else set()
    workspace = _workspace(coarse, steps, held)
    last = coarse.last_reads
    now = sum(held[n] for n in captured.graph.nodes if n.op == "placeholder")
    found = np.empty(len(captured.graph.nodes), np.int64)
    for number, node in enumerate(captured.graph.nodes):
        found[number] = now
        if node.op != "call_function":
            continue
        if node in held and node not in in_place and not is_view(node):
            now += held[node]
        found[number] = now + workspace.get(node, 0)
        for dead in last.get(node, ()):
            if dead in held and dead.op != "placeholder" and dead not in in_place and not is_view(dead):
                now -= held[dead]
    return found


def _workspace(coarse: Coarse, steps: Sequence[SearchStep], held: dict[Node, int]) -> dict[Node, int]:
    """Return the bytes of what each operator fetches, and of outputs that are moved or reduced once they are made."""
    found: dict[Node, int] = {}
    for number, group in enumerate(coarse.operators):
        moved_in, moved_out = [False] * len(group.inputs), [False] * len(group.outputs)
        local: LocalOperator | None = None
        for step in steps:
            way, places, count = step.ways[number], step.placed(group), len(group.inputs)
            local = step.after(number, group)
            moved_in = [m or v[p] != 0 for m, v, p in zip(moved_in, way.inputs, places[:count], strict=True)]
            moved_out = [m or v[p] != 0 for m, v, p in zip(moved_out, way.outputs, places[count:], strict=True)]
        if local is None or not (any(moved_in) or any(moved_out)):
            continue
        call = group.call
        extra = sum(math.prod(s) * e for s, e, m in zip(local.inputs, call.input_sizes, moved_in, strict=True) if m)
        extra += sum(math.prod(s) * e for s, e, m in zip(local.outputs, call.output_sizes, moved_out, strict=True) if m)
        found.update(dict.fromkeys(group.nodes, extra))
    return found
