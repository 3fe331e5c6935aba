"""Functions inside of compiled ones that make graphs or read ids: parts of the program, or left to Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from inspect import isfunction

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
import dglite.sparse as sp
from dglite import ops
from dglite.unread import _functions
from tests.versions import compiles_whole

Function = Callable[[dglite.DGLGraph, torch.Tensor], torch.Tensor]


def _graph(size: int, seed: int = 0) -> tuple[dglite.DGLGraph, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(size, (2, 3 * size), generator=generator)
    return dglite.graph(tuple(ends), num_nodes=size), torch.rand(size, 2, generator=generator)


def _sum(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    return ops.copy_u_sum(g, x)


def _loops_with_features(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.edata["w"] = ops.u_add_v(g, x, x)
        looped = dglite.add_self_loop(g, fill_data="mean")
        return ops.u_mul_e_sum(looped, x, looped.edata["w"])


def _heterograph(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    u, v = g.edges()
    counts = {"a": x.shape[0], "b": x.shape[0] + 1}
    h = dglite.heterograph({("a", "r", "b"): (u, v), ("b", "s", "a"): (v, u)}, num_nodes_dict=counts)
    return _sum(h["r"], x)[:-1] + _sum(h["s"], torch.cat([x, x[:1]]))


READ: dict[str, Function] = {
    "graph": lambda g, x: _sum(dglite.graph(g.edges()[::-1], num_nodes=g.num_nodes()), x),
    "graph of int32": lambda g, x: _sum(dglite.graph(tuple(end.int() for end in g.edges()), num_nodes=len(x)), x),
    "block": lambda g, x: _sum(dglite.create_block(g.edges(), num_src_nodes=len(x), num_dst_nodes=len(x) + 1), x),
    "add_self_loop": lambda g, x: _sum(dglite.add_self_loop(g), x),
    "add_self_loop twice": lambda g, x: _sum(dglite.add_self_loop(g.add_self_loop()), x),
    "loops with features": _loops_with_features,
    "reverse": lambda g, x: _sum(dglite.reverse(g), x),
    "edges and ids": lambda g, x: torch.cat([g.edges("eid")[:3], *g.edges(), g.nodes()]).float(),
    "degrees": lambda g, x: x * g.in_degrees()[:, None] + g.out_degrees()[:, None],
    "heterograph": _heterograph,
    "from_coo": lambda g, x: sp.spmm(sp.from_coo(*g.edges()[::-1], shape=(len(x), len(x))), x),
}

LEFT: dict[str, Function] = {
    "graph without a number": lambda g, x: _sum(dglite.graph(g.edges()), x[: int(torch.cat(g.edges()).max()) + 1]),
    "from_coo": lambda g, x: sp.from_coo(*g.edges()[::-1], shape=(len(x), len(x))) @ x,
    "adjacency": lambda g, x: g.adj() @ x,
    "to_bidirected of a graph made inside": lambda g, x: _sum(
        dglite.to_bidirected(dglite.graph(g.edges(), num_nodes=len(x))), x
    ),
    "remove_self_loop": lambda g, x: _sum(dglite.remove_self_loop(g), x),
    "to_simple": lambda g, x: _sum(dglite.to_simple(g), x),
    "line_graph": lambda g, x: _sum(dglite.line_graph(g), ops.u_add_v(g, x, x)),
    "khop_graph": lambda g, x: _sum(dglite.khop_graph(g, 2), x),
    "node_subgraph": lambda g, x: _sum(dglite.node_subgraph(g, torch.arange(3)), x[:3]),
    "edge_subgraph": lambda g, x: _sum(dglite.edge_subgraph(g, [0, 2], relabel_nodes=False), x),
    "batch": lambda g, x: _sum(dglite.batch([g, g]), torch.cat([x, x])),
    "unbatch": lambda g, x: torch.stack([h.num_edges() * x.sum() for h in dglite.unbatch(dglite.batch([g, g]))]),
    "random_walk_pe": lambda g, x: x[:, :1] * dglite.random_walk_pe(g, 2),
    "knn_graph": lambda g, x: _sum(dglite.knn_graph(x, 2), x),
    "topk_nodes": lambda g, x: _topk(g, x),
    "find_edges": lambda g, x: x[g.find_edges(torch.tensor([0, 1]))[0]],
    "in_degrees of some": lambda g, x: x[:2] * g.in_degrees([0, 1])[:, None],
    "bfs": lambda g, x: x[torch.cat(dglite.bfs_nodes_generator(g, 0))],
    "add_edges of lists": lambda g, x: _sum(dglite.add_edges(g, [0], [1]), x),
}


def _topk(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        return dglite.topk_nodes(g, "h", 2)[0]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", READ)
@compiles_whole
def test_graphs_made_of_tensors_are_part_of_the_program(name: str) -> None:
    function, counter = READ[name], CompileCounterWithBackend("eager")
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for size in (5, 7, 11, 4):
        g, x = _graph(size, seed=size)
        torch.testing.assert_close(compiled(g, x), function(g, x))
    assert counter.frame_count <= 2


@pytest.mark.parametrize("name", LEFT)
def test_what_reads_ids_breaks_the_program_and_is_right(name: str) -> None:
    function = LEFT[name]
    compiled = torch.compile(lambda g, x: function(g, 2 * x) + 1, backend="eager")
    for size in (5, 7):
        g, x = _graph(size, seed=size)
        torch.testing.assert_close(compiled(g, x), function(g, 2 * x) + 1)


@compiles_whole
def test_fullgraph_says_why_it_cannot_be() -> None:
    compiled = torch.compile(lambda g, x: _sum(dglite.to_bidirected(g), x), fullgraph=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="it reads ids, of which a program has no values"):
        compiled(*_graph(5))


@compiles_whole
def test_wrong_ids_in_a_program_are_refused_when_it_runs() -> None:
    compiled = torch.compile(
        lambda u, v, x: _sum(dglite.graph((u, v), num_nodes=3), x), fullgraph=True, backend="eager"
    )
    u, x = torch.tensor([0, 2]), torch.ones(3, 1)
    assert compiled(u, u, x).tolist() == [[1], [0], [1]]
    with pytest.raises(dglite.DGLError, match="source node"):
        compiled(u + 1, u, x)


@compiles_whole
def test_a_graph_that_a_program_returns_is_a_graph() -> None:
    result = torch.compile(lambda g: dglite.add_self_loop(g), fullgraph=True, backend="eager")(_graph(5)[0])
    eager = dglite.add_self_loop(_graph(5)[0])
    assert result.has_edges_between(3, 3) and torch.equal(result.in_degrees(), eager.in_degrees())
    assert [x.tolist() for x in result.edges()] == [x.tolist() for x in eager.edges()]
    assert torch.equal(dglite.to_simple(result).in_degrees(), dglite.to_simple(eager).in_degrees())


def test_marks_are_on_functions_themselves_and_do_not_load_the_compiler() -> None:
    functions = list(_functions())
    assert len(functions) > 100 and all(isfunction(f) and f._torchdynamo_disable for f in functions)
    code = "import sys, dglite; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
