"""Predict the memory of one worker: what it holds of each tensor, from its creation to its last use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.fx import Node

from .coarsen import Coarse, TensorShape
from .cost import LocalOperator
from .nodes import is_view
from .reuse import writing_into
from .search import SearchStep


def local_shapes(coarse: Coarse, steps: Sequence[SearchStep]) -> list[TensorShape]:
    """Return what a worker holds of the tensors of each group; of an uneven split, the largest part."""
    return steps[-1].next_shapes() if steps else [group.shape for group in coarse.tensors]


def memory_profile(coarse: Coarse, steps: Sequence[SearchStep]) -> np.ndarray:
    """Return the bytes that a worker holds while each node of the graph runs, in their order.

    Parameters, state and inputs are held throughout; new values of buffers take the places of the old. What an operator
    fetches, and partial outputs before they are reduced, count while it runs. Element-wise operators write into
    operands that die.
    """
    shapes = local_shapes(coarse, steps)
    sizes = {n: math.prod(shapes[g]) * n.meta["val"].element_size() for n, g in coarse.group_of.items()}
    workspace = _workspace(coarse, steps, sizes)
    nodes = coarse.captured.graph.nodes
    now = sum(sizes[n] for n in nodes if n.op == "placeholder")
    profile = np.empty(len(nodes), np.int64)
    for number, (node, outputs, dead) in enumerate(lifetimes(coarse)):
        now += sum(sizes[x] for x in outputs)
        again = node not in workspace and any(_is_written_into(x, node) for x in dead)
        profile[number] = now + workspace.get(node, 0) - (sizes[node] if again else 0)
        now -= sum(sizes[x] for x in dead)
    return profile


def lifetimes(coarse: Coarse) -> Iterator[tuple[Node, list[Node], list[Node]]]:
    """Yield each node of the graph with the tensors that it makes in new memory, and those that nothing reads later."""
    captured = coarse.captured
    in_place = {new for old, new in captured.updates.items() if old not in captured.gradients}

    def is_freed(x: Node) -> bool:
        return x.op == "call_function" and x in coarse.group_of and x not in in_place and not is_view(x)

    for node in captured.graph.nodes:
        dead = coarse.last_reads.get(node, ()) if node.op == "call_function" else ()
        yield node, [node] if is_freed(node) else [], [x for x in dead if is_freed(x)]


def _is_written_into(operand: Node, node: Node) -> bool:
    """Return whether an element-wise operator writes into the memory of an operand that dies; see `reuse`."""
    old, new = operand.meta["val"], node.meta["val"]
    alike = isinstance(new, torch.Tensor) and (old.shape, old.dtype) == (new.shape, new.dtype)
    return alike and operand in node.all_input_nodes and writing_into(node.target, new.dtype) is not None


def _workspace(coarse: Coarse, steps: Sequence[SearchStep], sizes: dict[Node, int]) -> dict[Node, int]:
    """Return the bytes of what each operator fetches, and of outputs that are moved or reduced once they are made."""
    workspace: dict[Node, int] = {}
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
        workspace.update(dict.fromkeys(group.nodes, extra))
    return workspace
