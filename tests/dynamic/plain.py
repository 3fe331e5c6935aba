"""A vertex program evaluated plainly: vertex after vertex, by torch's own operations and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dglite import DGLGraph
from dglite.dynamic import VertexFunction


class PlainChildren:
    """What ``gather_all`` gives a vertex: each state as (children, size)."""

    def __init__(self, pack: Any, states: list[torch.Tensor]) -> None:
        self._packed, self._states = pack, states
        self.states = pack(*states)

    def __getitem__(self, which: int | str) -> torch.Tensor:
        return getattr(self.states, which) if isinstance(which, str) else self._states[which]

    def sum(self, x: torch.Tensor | None = None) -> Any:
        if x is not None:
            return x.sum(0, keepdim=True)
        return self._packed(*(state.sum(0, keepdim=True) for state in self._states))

    def each(self, x: torch.Tensor) -> torch.Tensor:
        return x.expand(len(self._states[0]), *x.shape[1:])


def evaluate(functions: Sequence[VertexFunction], g: DGLGraph, *inputs: Any, kinds: Any = None) -> Any:
    """Return what the vertices push. An input of None for a vertex is zeros; ``inputs`` have a row per node."""
    n = g.num_nodes()
    children: list[list[int]] = [[] for _ in range(n)]
    for u, v in zip(*(end.tolist() for end in g.edges()), strict=True):
        children[v].append(u)
    states: dict[int, list[torch.Tensor]] = {}
    pushed: dict[int, tuple[torch.Tensor, ...]] = {}
    while len(pushed) < n:
        ready = [v for v in range(n) if v not in pushed and all(u in pushed for u in children[v])]
        assert ready, "a cycle"
        for v in ready:
            function = functions[0 if kinds is None else int(kinds[v])]
            rows, below = [x[v : v + 1] for x in inputs], [states.get(u) for u in children[v]]
            _run_vertex(function, v, rows, below, states, pushed)
    results = [torch.cat([pushed[v][i] for v in range(n)]) for i in range(len(pushed[0]))] if n else []
    return results[0] if len(results) == 1 else tuple(results)


def _run_vertex(function: VertexFunction, v: int, inputs: Any, below: list, states: dict, pushed: dict) -> None:
    pack, sizes = function._packed, function.state_sizes
    dtype = next((p.dtype for p in function.parameters()), inputs[0].dtype if inputs else torch.float32)

    def gather(k: int) -> Any:
        return pack(*(below[k] if k < len(below) else [torch.zeros(1, size, dtype=dtype) for size in sizes]))

    def gather_all() -> PlainChildren:
        empty = [torch.zeros(0, size, dtype=dtype) for size in sizes]
        return PlainChildren(pack, [torch.cat([e, *(s[j] for s in below)]) for j, e in enumerate(empty)])

    def scatter(*given: torch.Tensor, **named: torch.Tensor) -> None:
        states[v] = [*given, *(named[name] for name in function._state_names or [] if name in named)]

    verbs = {
        "pull": lambda: inputs[0] if len(inputs) == 1 else tuple(inputs),
        "gather": gather,
        "gather_all": gather_all,
        "scatter": scatter,
        "push": lambda *values: pushed.__setitem__(v, values),
    }
    function.__dict__.update(verbs)
    try:
        function.forward()
    finally:
        for name in verbs:
            del function.__dict__[name]
