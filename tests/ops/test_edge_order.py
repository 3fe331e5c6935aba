"""g-SDDMM on edges in their order: the values, bits and gradients of the sorted edges, whatever formats there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import function as fn
from dglite import ops
from dglite.structure.adjacency import Adjacency

_RNG = np.random.default_rng(0)
WIDTHS = [(), (1,), (3,), (16,), (2, 20)]


def random_edges(num_src: int, num_dst: int, num_edges: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random edges, a fifth of them parallel to others, a tenth of them between nodes of one number."""
    src, dst = _RNG.integers(0, num_src, num_edges), _RNG.integers(0, num_dst, num_edges)
    fifth, tenth = num_edges // 5, num_edges // 10
    src[:fifth], dst[:fifth] = src[num_edges - fifth :], dst[num_edges - fifth :]
    src[-tenth or num_edges :] = dst[-tenth or num_edges :] % num_src
    return src, dst


SIZES = {
    "few edges": (30_000, 20_000, 400),
    "as many edges as nodes": (500, 400, 400),
    "many edges": (50, 40, 3000),
    "long rows": (10, 2, 3000),
    "enough for threads": (4000, 3000, 40_000),
    "one edge": (3, 2, 1),
    "no edges": (30_000, 20_000, 0),
}
FORMATS = {
    "coo": lambda adj: adj,
    "csr": lambda adj: (adj.csr(), adj)[1],
    "csc": lambda adj: (adj.csc(), adj)[1],
    "csc only": lambda adj: adj.restrict(("csc",)),
    "csr only": lambda adj: adj.restrict(("csr",)),
    "reversed": lambda adj: Adjacency.from_coo(adj.num_dst, adj.num_src, *adj.coo()[::-1]).reverse(),
}


@pytest.mark.parametrize("idtype", ["int32", "int64"])
@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_values_are_those_of_gathered_rows(size: str, formats: str, idtype: str) -> None:
    num_src, num_dst, num_edges = SIZES[size]
    src, dst = random_edges(*SIZES[size])
    plain = Adjacency(num_src, num_dst, num_edges, np.dtype("int64"))
    plain.index_dtype = np.dtype(idtype)  # as counts beyond int32 have it
    plain._endpoints = src.astype(idtype), dst.astype(idtype)
    adj = FORMATS[formats](plain)
    adj.index_dtype = np.dtype(idtype)
    for shape in WIDTHS:
        u, v, e = (torch.randn(count, *shape) for count in (num_src, num_dst, num_edges))
        for _ in range(3):  # in their order, then sorted, then as the time before
            assert torch.equal(ops.u_sub_v(adj, u, v), u[src] - v[dst])
        assert torch.equal(ops.e_sub_v(adj, e, v), e - v[dst])
        assert torch.equal(ops.u_mul_e(adj, u, e), u[src] * e)
        assert torch.equal(ops.copy_v(adj, v), v[dst])


@pytest.mark.parametrize("size", SIZES)
def test_bits_do_not_depend_on_the_order(size: str) -> None:
    num_src, num_dst, _ = SIZES[size]
    pair = random_edges(*SIZES[size])
    u, v = torch.randn(num_src, 4, 37), torch.randn(num_dst, 1, 37)
    adj = Adjacency.from_coo(num_src, num_dst, *pair)
    sorted_adj = Adjacency.from_coo(num_src, num_dst, *pair)
    sorted_adj.csc()
    first, second, ordered = (ops.u_dot_v(x, u, v) for x in (adj, adj, sorted_adj))
    assert torch.equal(first, second) and torch.equal(first, ordered)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    src, dst = random_edges(50, 40, 3000)
    u, v = torch.randn(50, 5).to(dtype), torch.randn(40, 5).to(dtype)
    assert torch.equal(ops.u_add_v(Adjacency.from_coo(50, 40, src, dst), u, v), u[src] + v[dst])


def test_ends_with_gaps_between_them() -> None:
    pairs = np.stack(random_edges(20_000, 20_000, 300), 1).astype(np.int32)  # each end is every other number
    adj = Adjacency.from_coo(20_000, 20_000, pairs[:, 0], pairs[:, 1], copy=False)
    x = torch.randn(20_000, 2)
    assert torch.equal(ops.u_add_v(adj, x, x), x[pairs[:, 0].tolist()] + x[pairs[:, 1].tolist()])


@pytest.mark.parametrize("size", SIZES)
def test_gradients_are_those_of_gathered_rows(size: str) -> None:
    num_src, num_dst, num_edges = SIZES[size]
    src, dst = random_edges(*SIZES[size])
    adj = Adjacency.from_coo(num_src, num_dst, src, dst)
    u, v = torch.randn(num_src, 6, dtype=torch.float64), torch.randn(num_dst, 6, dtype=torch.float64)
    factor, results = torch.randn(num_edges, 1, dtype=torch.float64), []
    for score in (lambda x, y: ops.u_dot_v(adj, x, y), lambda x, y: (x[src] * y[dst]).sum(-1, keepdim=True)):
        x, y = u.clone().requires_grad_(), v.clone().requires_grad_()
        loss = (score(x, y) * factor).square().sum()
        first = torch.autograd.grad(loss, (x, y), create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), (x, y))
        results.append((*first, *second))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("num_edges", "width", "sorted_after"),
    [
        (400, 64, [False] * 3),
        (40_000, 64, [False] * 3),
        (80_000, 1, [False] * 3),  # the rows of destinations stay in a cache
        (80_000, 16, [False, True, True]),
        (80_000, 64, [True] * 3),
        (40, 1, [False] * 3),
    ],
)
def test_edges_are_sorted_where_that_pays(num_edges: int, width: int, sorted_after: list[bool]) -> None:
    g = dglite.graph(random_edges(40_000, 40_000, num_edges), num_nodes=40_000)
    x, seen = torch.randn(40_000, width), []
    for _ in range(3):
        ops.u_add_v(g, x, x)
        seen.append("csc" in g.formats()["created"])
    assert seen == sorted_after


def test_edges_are_not_sorted_for_what_reads_no_nodes() -> None:
    src, dst = random_edges(200, 200, 3000)
    g = dglite.graph((src, dst), num_nodes=200)
    g.edata["e"] = torch.randn(3000, 64)
    for _ in range(3):
        g.apply_edges(lambda edges: {"m": edges.data["e"] * 2})
        assert torch.equal(g.edata["m"], g.edata["e"] * 2)
    assert "csc" not in g.formats()["created"]
    x = torch.randn(200, 64)
    assert torch.equal(ops.u_add_v(g, x, x), x[src] + x[dst])


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("num_edges", [0, 400, 3000])
def test_apply_edges_of_several_edge_types(num_edges: int, idtype: torch.dtype) -> None:
    counts = {"user": 20_000, "game": 300}
    types: dict[Any, Any] = {
        ("user", "follows", "user"): random_edges(20_000, 20_000, num_edges),
        ("user", "plays", "game"): random_edges(20_000, 300, num_edges),
        ("game", "played by", "user"): random_edges(300, 20_000, num_edges),
    }
    g = dglite.heterograph(types, num_nodes_dict=counts, idtype=idtype)
    for ntype, count in counts.items():
        g.nodes[ntype].data["h"] = torch.randn(count, 4)
    g.apply_edges(fn.u_mul_v("h", "h", "s"))
    for (utype, etype, vtype), (src, dst) in types.items():
        expected = g.nodes[utype].data["h"][src] * g.nodes[vtype].data["h"][dst]
        assert torch.equal(g.edges[etype].data["s"], expected)
