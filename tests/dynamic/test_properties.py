"""Laws: over any graph without cycles, the engine gives what the plain evaluation gives; orders are orders."""

from __future__ import annotations

import networkx
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import dynamic
from dglite.dynamic.execution.order import order_of
from tests.dynamic.plain import evaluate
from tests.dynamic.programs import ChildSumTreeLSTM, Mixed

PROGRAMS = {kind: kind(2, 3).double() for kind in (ChildSumTreeLSTM, Mixed)}


@st.composite
def dags(draw: st.DrawFn) -> dglite.DGLGraph:
    """A graph whose edges, several between the same nodes allowed, follow some order of its nodes."""
    n = draw(st.integers(1, 9))
    order = draw(st.permutations(range(n)))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=14))
    edges = [(order[min(a, b)], order[max(a, b)]) for a, b in pairs if a != b]
    src, dst = zip(*edges, strict=True) if edges else ((), ())
    return dglite.graph((list(src), list(dst)), num_nodes=n)


@settings(max_examples=25, deadline=None)
@given(dags(), st.sampled_from(list(PROGRAMS)), st.integers(0, 99), st.tuples(st.booleans(), st.booleans()))
def test_the_engine_equals_the_plain_sweep(
    g: dglite.DGLGraph, kind: type, seed: int, switches: tuple[bool, bool]
) -> None:
    program, generator = PROGRAMS[kind], torch.Generator().manual_seed(seed)
    x = torch.randn(g.num_nodes(), 2, dtype=torch.float64, generator=generator, requires_grad=True)
    tensors = [x, *program.parameters()]
    with dynamic.options(eager=switches[0], lazy=switches[1]):
        ours, plain = (y if isinstance(y, tuple) else (y,) for y in (program(g, x), evaluate([program], g, x)))
        weights = [torch.randn(y.shape, dtype=y.dtype, generator=generator) for y in plain]
        results = []
        for outs in (ours, plain):
            loss = sum((out * weight).sum() for out, weight in zip(outs, weights, strict=True))
            results.append([*outs, *torch.autograd.grad(loss, tensors, allow_unused=True)])
    for a, b in zip(*results, strict=True):
        if a is None or b is None:
            assert all(value is None or not value.any() for value in (a, b))
        else:
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(dags(), st.booleans(), st.data())
def test_orders(g: dglite.DGLGraph, with_kinds: bool, data: st.DataObject) -> None:
    n = g.num_nodes()
    kinds = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))) if with_kinds else None
    order = order_of(g.adjacency(), kinds, 3 if with_kinds else 1)
    assert sorted(order.nodes.tolist()) == list(range(n))
    assert (order.nodes[order.places] == np.arange(n)).all()
    nx_graph = networkx.DiGraph()
    nx_graph.add_nodes_from(range(n))
    src, dst = (end.tolist() for end in g.edges())
    nx_graph.add_edges_from(zip(src, dst, strict=True))
    levels = {v: level for level, nodes in enumerate(networkx.topological_generations(nx_graph)) for v in nodes}
    seen: list[int] = []
    for group, first, last in order.segments.tolist():
        nodes = order.nodes[first:last].tolist()
        assert len({levels[v] for v in nodes}) == 1
        assert {2 * (0 if kinds is None else kinds[v]) + (levels[v] > 0) for v in nodes} == {group}
        assert all(u in seen for v in nodes for u in nx_graph.predecessors(v))
        seen += nodes
    assert sorted(seen) == list(range(n))
    for v in range(n):
        row = order.places[v]
        children = order.nodes[order.children[order.bounds[row] : order.bounds[row + 1]]].tolist()
        assert children == [u for u, w in zip(src, dst, strict=True) if w == v]
        entries = order.parent_entries[order.parent_bounds[row] : order.parent_bounds[row + 1]]
        assert (order.children[entries] == row).all()
