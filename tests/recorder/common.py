"""Graphs and comparisons for the tests of recorded functions: what is recorded must equal what runs as written."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import dglite
from dglite.function import MessageFunction
from dglite.scheduler import Relation, messages_of

SRC = [0, 0, 1, 2, 2, 3, 3, 1, 0, 4, 3, 1, 1, 2]
DST = [1, 2, 2, 3, 3, 3, 0, 1, 1, 0, 3, 2, 2, 0]
"""Parallel edges, self-loops, in-degrees 3 and 4; of six nodes two receive nothing, one of these is alone."""


class ForReal:
    """Calls a user's function and counts: an object that writes to itself is never recorded, but runs as written."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, batch: Any) -> Any:
        self.calls += 1
        return self.function(batch)


def for_real(function: Any) -> Any:
    """Return the function to be executed as written; built-ins as they are."""
    return ForReal(function) if callable(function) else function


def compiled(source: str, **names: Any) -> Any:
    """Return the function ``f`` that the source text defines, with ``names`` among its globals."""
    filename = f"<{source}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = {"torch": torch, "F": torch.nn.functional, **names}
    exec(compile(source, filename, "exec"), scope)
    return scope["f"]


def values(rows: int, *feat: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Return numbers of either sign between 0.2 and 1.5 in size."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.rand(rows, *feat, generator=generator, dtype=torch.float64) * 1.3 + 0.2
    sign = torch.where(torch.rand(rows, *feat, generator=generator) < 0.5, -1.0, 1.0)
    return (size * sign).to(dtype)


def multigraph(
    feat: Sequence[int] = (3,), dtype: torch.dtype = torch.float64, idtype: torch.dtype = torch.int64
) -> Any:
    """Return a graph of 6 nodes and 14 edges: ``h`` and ``p`` (above 0) on nodes, ``w`` (E, 1) and ``k`` on edges."""
    g = dglite.graph((SRC, DST), num_nodes=6, idtype=idtype)
    g.ndata["h"] = values(6, *feat, dtype=dtype, seed=1)
    g.ndata["p"] = values(6, *feat, dtype=dtype, seed=2).abs()
    g.edata["w"] = values(14, 1, dtype=dtype, seed=3)
    g.edata["k"] = values(14, *feat, dtype=dtype, seed=4)
    return g


def bipartite(feat: Sequence[int] = (3,), dtype: torch.dtype = torch.float64) -> Any:
    """Return a relation from 5 nodes to 7 others with the same columns."""
    g = dglite.heterograph({("a", "to", "b"): (SRC, [d + 2 for d in DST])}, num_nodes_dict={"a": 5, "b": 7})
    for ntype, rows, seed in (("a", 5, 1), ("b", 7, 5)):
        g.nodes[ntype].data["h"] = values(rows, *feat, dtype=dtype, seed=seed)
        g.nodes[ntype].data["p"] = values(rows, *feat, dtype=dtype, seed=seed + 1).abs()
    g.edata["w"] = values(14, 1, dtype=dtype, seed=3)
    g.edata["k"] = values(14, *feat, dtype=dtype, seed=4)
    return g


def relation_of(g: Any) -> Relation:
    """Return the only relation of a graph, all edges of it."""
    canonical = g.canonical_etypes[0]
    nodes = g.dst_frame(canonical)
    return Relation(
        g.adjacencies[0], g.src_frame(canonical), g.edge_frame(canonical), nodes, nodes, canonical, g.device, g
    )


def recorded(message: Any, g: Any) -> list[Tensor] | None:
    """Return the tensors that a recording of ``message`` brought along; None if it is not recorded."""
    relation = relation_of(g)
    result = messages_of(message, 0, relation)
    if not isinstance(result, tuple) or not all(isinstance(one, MessageFunction) for one in result):
        return None
    return list(relation.captured)


def assert_recorded(message: Any, g: Any, rows: int = 1) -> None:
    """Assert that ``message`` is recorded and brings along no tensor of more than ``rows`` rows."""
    captured = recorded(message, g)
    assert captured is not None, "the function is not recorded"
    largest = max((x.shape[0] for x in captured), default=0)
    assert largest <= rows, f"a tensor of {largest} rows was captured"


def reason(g: Any, message: Any, reduce: Any = None) -> str:
    """Return what ``explain`` says about how users' functions are run."""
    return str(dglite.explain(g, message, reduce))


def columns_of(g: Any) -> dict[str, Tensor]:
    """Return all features of a graph with one edge type."""
    source, _, destination = g.canonical_etypes[0]
    return {
        **{f"src {k}": x for k, x in g.nodes[source].data.items()},
        **{f"dst {k}": x for k, x in g.nodes[destination].data.items()},
        **{f"edge {k}": x for k, x in g.edata.items()},
    }


def outcome(
    make: Callable[[], Any], verb: Callable[[Any], None], parameters: Sequence[Tensor] = (), seed: int = 3
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the columns that ``verb`` wrote on a fresh graph, and the gradients of the features and parameters."""
    g = make()
    leaves = {}
    for name, column in columns_of(g).items():
        if column.is_floating_point():
            leaves[name] = column.requires_grad_()
    before = {name: id(column) for name, column in columns_of(g).items()}
    torch.manual_seed(seed)
    verb(g)
    written = {name: x for name, x in columns_of(g).items() if before.get(name) != id(x)}
    total = sum(
        (x.double() * torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).reshape(x.shape)).sum()
        for x in written.values()
        if x.requires_grad
    )
    gradients = {}
    if isinstance(total, Tensor):
        expected = [*leaves.values(), *parameters]
        names = [*leaves, *(f"parameter {i}" for i in range(len(parameters)))]
        grads = torch.autograd.grad(total, expected, allow_unused=True)
        gradients = {
            name: torch.zeros_like(leaf) if grad is None else grad
            for name, leaf, grad in zip(names, expected, grads, strict=True)
        }
    return {name: x.detach() for name, x in written.items()}, gradients


def assert_same(result: Mapping[str, Tensor], expected: Mapping[str, Tensor], **tolerance: float) -> None:
    """Assert that two tables have the same columns, shapes, dtypes and, but for rounding, values."""
    assert result.keys() == expected.keys()
    for name, x in result.items():
        torch.testing.assert_close(
            x, expected[name], equal_nan=True, msg=lambda m, name=name: f"{name}: {m}", **tolerance
        )


def assert_as_for_real(
    message: Any,
    reduce: Any,
    make: Callable[[], Any] = multigraph,
    parameters: Sequence[Tensor] = (),
    **tolerance: float,
) -> None:
    """Assert that ``update_all`` gives the same values and gradients whether the functions may be recorded or not.

    It is run twice, since what was learned in the first call is used in the second.
    """
    expected = outcome(make, lambda g: g.update_all(for_real(message), for_real(reduce)), parameters)
    for _ in range(2):
        result = outcome(make, lambda g: g.update_all(message, reduce), parameters)
        for actual, want in zip(result, expected, strict=True):
            assert_same(actual, want, **tolerance)
