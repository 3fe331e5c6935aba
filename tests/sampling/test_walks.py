"""Random walks: every step is an edge, chosen with the right probability."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.sampling import node2vec_random_walk, pack_traces, random_walk, walks
from tests.sampling.graphs import assert_distributed, hetero, random_graph


def check_walks(g, traces, edges, etypes):
    """Assert that each step follows the edge it names, and that walks end only where there is no way on."""
    for t, etype in enumerate(etypes):
        here, there, edge = traces[:, t].long(), traces[:, t + 1].long(), edges[:, t].long()
        going = there >= 0
        src, dst = g.find_edges(edge[going], etype)
        assert torch.equal(src.long(), here[going]) and torch.equal(dst.long(), there[going])
        assert (edge[~going] == -1).all()
        stuck = here[~going & (here >= 0)]
        assert (g.out_degrees(stuck, etype) == 0).all()


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("prob", [None, "w"])
def test_each_step_is_an_edge(idtype, prob):
    g = random_graph(idtype=idtype)
    g.edata["w"] = torch.rand(400) + 0.01
    nodes = torch.arange(60, dtype=idtype).repeat(3)
    traces, edges, types = random_walk(g, nodes, length=7, prob=prob, return_eids=True)
    assert traces.shape == (180, 8) and edges.shape == (180, 7) and types.tolist() == [0] * 8
    assert traces.dtype == edges.dtype == types.dtype == idtype
    assert torch.equal(traces[:, 0], nodes)
    check_walks(g, traces, edges, [None] * 7)


def test_metapaths():
    g = hetero()
    metapath = ["plays", ("game", "known", "user"), "follows", "follows"]
    traces, edges, types = random_walk(g, [0, 1, 2, 3], metapath=metapath, return_eids=True)
    assert types.tolist() == [1, 0, 1, 1, 1]
    assert [g.ntypes[i] for i in types] == ["user", "game", "user", "user", "user"]
    check_walks(g, traces, edges, metapath)
    assert traces[3].tolist() == [3, -1, -1, -1, -1]


def test_walks_without_steps_or_walkers():
    g = random_graph()
    assert random_walk(g, [3, 3], length=0)[0].tolist() == [[3], [3]]
    assert random_walk(g, [], length=4)[0].shape == (0, 5)
    assert random_walk(g, [3, 3], metapath=[])[1].tolist() == [0]


def test_steps_are_chosen_uniformly_and_by_weight():
    dglite.seed(1)
    g = dglite.graph(([0, 0, 0, 0], [1, 2, 3, 3]))
    g.edata["w"] = torch.tensor([0.0, 1.0, 2.0, 4.0])
    start = np.zeros(6000, np.int64)
    _, edges, _ = random_walk(g, start, length=1, return_eids=True)
    assert_distributed(np.bincount(edges.ravel(), minlength=4), np.ones(4))
    _, edges, _ = random_walk(g, start, length=1, prob="w", return_eids=True)
    assert_distributed(np.bincount(edges.ravel(), minlength=4), [0, 1, 2, 4])


def test_steps_of_one_walk_are_independent():
    dglite.seed(2)
    g = dglite.graph(([0, 0, 1, 1], [0, 1, 0, 1]))
    traces, _ = random_walk(g, np.zeros(8000, np.int64), length=3)
    codes = (traces[:, 1:] * torch.tensor([1, 2, 4])).sum(1)
    assert_distributed(np.bincount(codes, minlength=8), np.ones(8))


def test_a_node_whose_edges_all_have_weight_zero_ends_the_walk():
    g = dglite.graph(([0, 1, 2], [1, 2, 3]))
    g.edata["w"] = torch.tensor([True, False, True])
    assert random_walk(g, [0, 1, 2], length=2, prob="w")[0].tolist() == [[0, 1, -1], [1, -1, -1], [2, 3, -1]]


def test_restarts():
    dglite.seed(3)
    g = dglite.graph(([0, 1], [1, 0]))
    nodes = np.zeros(8000, np.int64)
    lengths = (random_walk(g, nodes, length=3, restart_prob=0.25)[0] >= 0).sum(1)
    assert_distributed(np.bincount(lengths, minlength=5), [0, 0.25, 0.25 * 0.75, 0.25 * 0.75**2, 0.75**3])
    stops = torch.tensor([0.0, 1.0, 0.0])
    assert (random_walk(g, nodes[:9], length=3, restart_prob=stops)[0] == torch.tensor([0, 1, -1, -1])).all()
    assert (random_walk(g, nodes[:9], length=3, restart_prob=1)[0][:, 1:] == -1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either a metapath"),
        ({"length": -1}, "integer >= 0"),
        ({"length": 2, "prob": "nope"}, "not an edge feature"),
        ({"length": 2, "prob": "w"}, "edge 1 is negative, infinite or NaN"),
        ({"length": 2, "restart_prob": 1.5}, "a number from 0 to 1"),
        ({"length": 2, "restart_prob": [0.5, -0.5]}, "a number from 0 to 1"),
        ({"length": 2, "restart_prob": [0.5]}, "expected one number for each of 2"),
        ({"metapath": ["nope"]}, "nope"),
    ],
)
def test_bad_input(arguments, message):
    g = dglite.graph(([0, 1], [1, 0]))
    g.edata["w"] = torch.tensor([1.0, math.nan])
    with pytest.raises(DGLError, match=message):
        random_walk(g, [0, 1], **arguments)


@pytest.mark.parametrize("return_eids", [False, True])
def test_walks_that_no_memory_holds(return_eids):
    g = dglite.graph(([0, 1], [1, 0]))
    nodes = torch.zeros(1, dtype=torch.int64).expand(1 << 22)
    with pytest.raises(DGLError, match=r"4194304 walks of 65536 steps take .* GiB, which there are not"):
        random_walk(g, nodes, length=1 << 16, return_eids=return_eids)
    with pytest.raises(DGLError, match="GiB, which there are not"):
        node2vec_random_walk(g, nodes, 1, 1, 1 << 16, return_eids=return_eids)


def test_bad_types_and_nodes():
    with pytest.raises(DGLError, match="cannot follow"):
        random_walk(hetero(), [0], metapath=["plays", "plays"])
    with pytest.raises(DGLError, match="give a metapath"):
        random_walk(hetero(), [0], length=2)
    with pytest.raises(DGLError, match="does not exist"):
        random_walk(random_graph(), [60], length=2)


def test_packed_traces():
    traces = torch.tensor([[0, 1, -1], [1, 2, 3], [-1, -1, -1]])
    packed = pack_traces(traces, torch.tensor([0, 1, 0]))
    assert [x.tolist() for x in packed] == [[0, 1, 1, 2, 3], [0, 1, 0, 1, 0], [2, 3, 0], [0, 2, 5]]
    with pytest.raises(DGLError, match="need types"):
        pack_traces(traces, torch.tensor([0, 1]))


# -- node2vec ----------------------------------------------------------------------------------------------------------
SECOND_ORDER = ([0, 1, 1, 1, 1, 0, 2], [1, 0, 2, 3, 3, 2, 0])
"""From 0 to 1 or 2; from 1 back to 0, to 2, which 0 has an edge to, or along one of two edges to 3."""


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 2), (4, 0.25), (1e-6, 1), (1e6, 1e6)])
def test_second_order_steps(weighted, p, q):
    dglite.seed(4)
    g = dglite.graph(SECOND_ORDER)
    g.edata["w"] = torch.tensor([1, 2, 1, 3, 1, 0, 1]) if weighted else torch.tensor([1, 1, 1, 1, 1, 0, 1])
    prob = "w" if weighted else None
    traces, edges = node2vec_random_walk(g, np.zeros(12_000, np.int64), p, q, 2, prob, return_eids=True)
    check_walks(g, traces, edges, [None, None])
    second = edges[traces[:, 1] == 1][:, 1]
    biases = np.array([0, 1 / p, 1, 1 / q, 1 / q, 0, 0])
    assert_distributed(np.bincount(second, minlength=7), biases * (g.edata["w"].numpy() if weighted else 1))


def test_second_order_walks_end():
    g = dglite.graph(([0, 1, 2], [1, 2, 3]))
    assert node2vec_random_walk(g, [0, 3], 1, 2, 4).tolist() == [[0, 1, 2, 3, -1], [3, -1, -1, -1, -1]]
    g.edata["w"] = torch.tensor([1.0, 0.0, 1.0])
    assert node2vec_random_walk(g, [0], 1, 2, 2, "w").tolist() == [[0, 1, -1]]


def test_second_order_bad_input():
    g = dglite.graph(([0, 1], [1, 0]))
    for p, q in ((0, 1), (1, -1), (math.nan, 1), (math.inf, 1)):
        with pytest.raises(DGLError, match=r"p and q must be above 0|p must be a number, got nan"):
            node2vec_random_walk(g, [0], p, q, 2)
    g.edata["w"] = torch.tensor([1.0, -2.0])
    with pytest.raises(DGLError, match="weight of edge 1"):
        node2vec_random_walk(g, [0], 1, 1, 3, "w")
    with pytest.raises(DGLError, match="one node type"):
        node2vec_random_walk(hetero(), [0], 1, 1, 3)


@pytest.mark.parametrize("return_eids", [False, True])
def test_long_walks_do_not_depend_on_where_they_are_cut(return_eids: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = torch.arange(30)
    g, results = dglite.graph((ring.repeat(2), torch.cat([(ring + 1) % 30, (ring + 7) % 30]))), []
    for steps in (1 << 22, 1):  # 64 steps are the least
        monkeypatch.setattr(walks, "_STEPS_PER_CALL", steps)
        dglite.seed(1)
        first = random_walk(g, [0, 1, 2], length=200, restart_prob=0.01, return_eids=return_eids)
        second = node2vec_random_walk(g, [0, 1, 2], 0.5, 2.0, 200, return_eids=return_eids)
        results.append([*first, *(second if return_eids else [second])])
    assert all(x.tolist() == y.tolist() for x, y in zip(*results, strict=True))


def test_a_metapath_goes_before_a_length():
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    traces, _ = random_walk(g, [0], metapath=["_E", "_E"], length=5)
    assert traces.tolist() == [[0, 1, 2]]
