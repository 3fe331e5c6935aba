"""A whole graph over processes gives what one process gives, sends what is planned, and refuses nonsense everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import dglite
from dglite import DGLError
from dglite.distributed import FeatureSplit, FullGraph, plan_full_graph
from dglite.nn import GATConv, GraphConv, HeteroGraphConv, SAGEConv
from tests import forked
from tests.tofu.workers import Workers

NODES, EDGES, WIDTH = 40, 300, 6
STARTS = {1: [0, 40], 2: [0, 25, 40], 4: [0, 11, 11, 30, 40]}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("two"))
    yield workers
    workers.stop()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(4, tmp_path_factory.mktemp("four"))
    yield workers
    workers.stop()


@pytest.fixture(params=[2, 4])
def workers(request: pytest.FixtureRequest) -> Workers:
    return request.getfixturevalue({2: "two", 4: "four"}[request.param])  # type: ignore[no-any-return]


# -- what each process runs --------------------------------------------------------------------------------------------
def whole() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return edges with self-loops, several of one pair, and nodes without any (the last five); and features."""
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NODES - 5, (2, EDGES), generator=generator)
    return src, dst, torch.randn(NODES, WIDTH, dtype=torch.float64, generator=generator)


def part(rank: int, world: int) -> tuple[FullGraph, torch.Tensor, torch.Tensor]:
    """Return this process's part, its features, and which edges it has."""
    src, dst, x = whole()
    first, last = STARTS[world][rank : rank + 2]
    mine = torch.nonzero((dst >= first) & (dst < last)).flatten()
    return FullGraph((src[mine], dst[mine]), STARTS[world]), x[first:last].clone().requires_grad_(), mine


class GCN(nn.Module):
    """Two layers on a block and edge weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GraphConv(WIDTH, WIDTH, norm="none", allow_zero_in_degree=True) for _ in range(2)
        ).double()

    def forward(self, graph: FullGraph, x: torch.Tensor) -> torch.Tensor:
        weight = graph.gcn_weights().double()
        for layer in self.layers:
            x = layer(graph.block, (graph.sources(x), x), edge_weight=weight).tanh()
        return x


class Summed(nn.Module):
    """Two layers of overlapped sums, weighted and averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 4).double(), nn.Linear(4, 3).double()

    def forward(self, graph: FullGraph, x: torch.Tensor) -> torch.Tensor:
        x = graph.aggregate(self.first(x).tanh(), graph.gcn_weights().double())
        return graph.aggregate(self.second(x), reduce="mean")


class OnBlock(nn.Module):
    """One layer, then a sum of what it gives."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer.double()

    def forward(self, graph: FullGraph, x: torch.Tensor) -> torch.Tensor:
        return graph.aggregate(self.layer(graph.block, (graph.sources(x), x)).flatten(1))


MODELS = {
    "GCN": GCN,
    "sums": Summed,
    "GAT": lambda: OnBlock(GATConv(WIDTH, 3, 2, allow_zero_in_degree=True)),
    "SAGE": lambda: OnBlock(SAGEConv(WIDTH, 5, "pool")),
}


def trained(graph: FullGraph, name: str, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs, and the gradients of features and parameters (summed over processes)."""
    torch.manual_seed(1)
    model = MODELS[name]()
    out = model(graph, x)
    weights = torch.linspace(-1, 1, out.shape[1], dtype=out.dtype)
    (out.square() @ weights).sum().backward()
    grads = [p.grad for p in model.parameters()]
    for grad in grads:
        dist.all_reduce(grad, group=graph.exchange._links.group)
    return [out.detach(), x.grad, *grads]


def model_of_part(rank: int, name: str) -> list[torch.Tensor]:
    graph, x, _ = part(rank, dist.get_world_size())
    return trained(graph, name, x)


def model_of_whole(rank: int, name: str) -> list[torch.Tensor] | None:
    """Run on one process, whose group it is alone in."""
    alone = dist.new_group([0])
    if rank:
        return None
    src, dst, x = whole()
    return trained(FullGraph((src, dst), STARTS[1], alone), name, x.requires_grad_())


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_equal_one_process(workers: Workers, name: str) -> None:
    result, expected = workers.run(model_of_part, name), workers.run(model_of_whole, name)[0]
    for i in range(2):
        torch.testing.assert_close(torch.cat([each[i] for each in result]), expected[i], rtol=1e-9, atol=1e-12)
    for each in result:
        torch.testing.assert_close(each[2:], expected[2:], rtol=1e-9, atol=1e-12)


def degrees(rank: int) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    graph, _, _ = part(rank, dist.get_world_size())
    return graph.in_degrees(), graph.out_degrees(), graph.num_nodes(), len(graph.halo["_N"])


def test_degrees_are_those_of_the_whole_graph(workers: Workers) -> None:
    src, dst, _ = whole()
    g = dglite.graph((src, dst), num_nodes=NODES)
    result = workers.run(degrees)
    assert torch.cat([each[0] for each in result]).tolist() == g.in_degrees().tolist()
    assert torch.cat([each[1] for each in result]).tolist() == g.out_degrees().tolist()
    starts = STARTS[len(result)]
    owner = torch.bucketize(torch.arange(NODES), torch.tensor(starts[1:]), right=True)
    assert plan_full_graph(g, [1], len(result), owner).halo_rows == [each[3] for each in result]


def weighted_gradient(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    graph, x, mine = part(rank, dist.get_world_size())
    weight = torch.linspace(0, 1, EDGES, dtype=torch.float64)[mine].requires_grad_()
    graph.aggregate(x, weight).square().sum().backward()
    return mine, weight.grad


def test_gradients_of_edge_weights(workers: Workers) -> None:
    src, dst, x = whole()
    weight = torch.linspace(0, 1, EDGES, dtype=torch.float64).requires_grad_()
    g = dglite.graph((src, dst), num_nodes=NODES)
    dglite.ops.u_mul_e_sum(g, x, weight.reshape(-1, 1)).square().sum().backward()
    for mine, grad in workers.run(weighted_gradient):
        torch.testing.assert_close(grad, weight.grad[mine])


# -- bytes -------------------------------------------------------------------------------------------------------------
def bytes_by_nodes(rank: int) -> tuple[int, int]:
    graph, x, _ = part(rank, dist.get_world_size())
    linear = nn.Linear(WIDTH, 4).double()
    graph.bytes.clear()
    graph.aggregate(linear(graph.aggregate(x.detach()))).sum().backward()
    return graph.bytes["halos"], graph.bytes["gradients"]


def by_features(rank: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    src, dst, x = whole()
    starts = STARTS[dist.get_world_size()]
    split = FeatureSplit(dglite.graph((src, dst), num_nodes=NODES), starts)
    own = x[starts[rank] : starts[rank + 1]].clone().requires_grad_()
    weight = torch.linspace(0, 1, EDGES, dtype=torch.float64)
    torch.manual_seed(1)
    linear = nn.Linear(WIDTH, 3).double()
    out = split.aggregate(linear(split.aggregate(own, weight)).reshape(-1, 3, 1), reduce="mean")
    out.square().sum().backward()
    return out.detach(), own.grad, split.bytes["columns"] + split.bytes["gradients"]


def test_bytes_are_those_of_the_plan(workers: Workers) -> None:
    src, dst, _ = whole()
    starts = torch.tensor(STARTS[len(workers.pipes)])
    owner = torch.bucketize(torch.arange(NODES), starts[1:], right=True)
    g = dglite.graph((src, dst), num_nodes=NODES)
    plan = plan_full_graph(g, [WIDTH, 4], len(workers.pipes), owner, itemsize=8, first_gradient=False)
    result = workers.run(bytes_by_nodes)
    assert sum(map(sum, result)) == plan.node_bytes
    plan_of_columns = plan_full_graph(g, [WIDTH, 3], len(workers.pipes), owner, itemsize=8)
    assert sum(each[2] for each in workers.run(by_features)) == plan_of_columns.feature_bytes
    assert plan.split in str(plan)


def test_columns_give_what_one_process_gives(workers: Workers) -> None:
    src, dst, x = whole()
    g, weight = dglite.graph((src, dst), num_nodes=NODES), torch.linspace(0, 1, EDGES, dtype=torch.float64)
    torch.manual_seed(1)
    linear, x = nn.Linear(WIDTH, 3).double(), x.requires_grad_()
    out = dglite.ops.copy_u_mean(g, linear(dglite.ops.u_mul_e_sum(g, x, weight.reshape(-1, 1))))
    out.square().sum().backward()
    result = workers.run(by_features)
    torch.testing.assert_close(torch.cat([each[0] for each in result]).flatten(1), out.detach())
    torch.testing.assert_close(torch.cat([each[1] for each in result]), x.grad)


# -- several types -----------------------------------------------------------------------------------------------------
TYPED = {
    ("user", "rates", "item"): (torch.tensor([0, 1, 4, 4, 2]), torch.tensor([2, 0, 0, 2, 1])),
    ("item", "rated", "user"): (torch.tensor([2, 0, 1]), torch.tensor([0, 4, 4])),
    ("user", "knows", "user"): (torch.tensor([3, 3, 0]), torch.tensor([0, 1, 0])),
}
TYPED_STARTS = {"user": [0, 3, 5], "item": [0, 1, 3]}


def typed_layer() -> nn.Module:
    torch.manual_seed(2)
    layers = {name: SAGEConv((2, 2), 3, "mean") for _, name, _ in TYPED}
    return HeteroGraphConv(layers, aggregate="sum").double()


def typed_features() -> dict[str, torch.Tensor]:
    return {ntype: torch.arange(2.0 * starts[-1]).double().reshape(-1, 2) for ntype, starts in TYPED_STARTS.items()}


def typed_part(rank: int) -> dict[str, Any]:
    edges = {}
    for etype, (src, dst) in TYPED.items():
        first, last = TYPED_STARTS[etype[2]][rank : rank + 2]
        mine = (dst >= first) & (dst < last)
        if mine.any():  # a process need not know a type of which it has no edges
            edges[etype] = src[mine], dst[mine]
    graph = FullGraph(edges, TYPED_STARTS)
    x = {n: v[TYPED_STARTS[n][rank] : TYPED_STARTS[n][rank + 1]].requires_grad_() for n, v in typed_features().items()}
    out = typed_layer()(graph.block, (graph.sources(x), x))
    sum(value.square().sum() for value in out.values()).backward()
    return {ntype: (out[ntype].detach(), x[ntype].grad) for ntype in x}


def test_several_types(two: Workers) -> None:
    g = dglite.heterograph(TYPED, num_nodes_dict={ntype: starts[-1] for ntype, starts in TYPED_STARTS.items()})
    x = {ntype: value.requires_grad_() for ntype, value in typed_features().items()}
    out = typed_layer()(g, x)
    sum(value.square().sum() for value in out.values()).backward()
    result = two.run(typed_part)
    for ntype in x:
        torch.testing.assert_close(torch.cat([each[ntype][0] for each in result]), out[ntype].detach())
        torch.testing.assert_close(torch.cat([each[ntype][1] for each in result]), x[ntype].grad)


# -- bad input ---------------------------------------------------------------------------------------------------------
def refused(rank: int, case: str) -> str:
    src, dst, starts = torch.tensor([0, 1]), torch.full((2,), 25 * rank), [0, 25, 40]
    if case == "another process's node" and rank:
        dst = torch.tensor([26, 3])
    if case == "no such source":
        src = torch.tensor([0, 40])
    if case == "floats" and rank == 1:
        src = src / 2
    if case == "different starts":
        starts = [0, 25 - rank, 40]
    if case == "starts of three":
        starts = [0, 10, 25, 40]
    try:
        FullGraph({("a", "to", "b"): (src, dst)} if case == "unknown type" else (src, dst), starts)
    except DGLError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("another process's node", "rank 1: .*got id 3; expected ids from 25 to 39"),
        ("no such source", "got id 40; expected ids from 0 to 39"),
        ("floats", "rank 1: .*sources"),
        ("different starts", r"ranges of nodes \(starts\) differs"),
        ("starts of three", "expected 3 ascending numbers"),
        ("unknown type", "has a node type that starts do not have"),
    ],
)
def test_every_process_raises_the_same_error(two: Workers, case: str, message: str) -> None:
    result = two.run(refused, case)
    assert result[0] == result[1]
    assert re.search(message, result[0]), result[0]


def test_plan_refuses() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    for model, parts, assignment, message in (
        ([], 2, None, "no layer"),
        ("gcn", 2, None, "a module or a list"),
        ([4], 0, None, "1 or more"),
        ([4], 2, [0, 1, 2], "from 0 to 1 for each of 3 nodes"),
    ):
        with pytest.raises(DGLError, match=message):
            plan_full_graph(g, model if isinstance(model, list) else object(), parts, assignment)
    assert plan_full_graph(g, nn.Sequential(GraphConv(7, 2)), 2, [0, 1, 1]).node_bytes == 2 * 7 * 4
    assert plan_full_graph(dglite.graph(([], []), num_nodes=0), [3], 2).halo_rows == [0, 0]


# -- what stays behind -------------------------------------------------------------------------------------------------
GROUPS_END = """
import weakref, torch, torch.distributed as dist
from dglite.distributed import FullGraph
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
groups = [weakref.ref(dist.group.WORLD)]

def trains():
    graph = FullGraph((torch.tensor([0, 1]), torch.tensor([1, 2])), [0, 3])
    groups.append(weakref.ref(graph.exchange.group))
    x = torch.ones(3, 2, requires_grad=True)
    graph.aggregate(x).sum().backward()

trains()
dist.destroy_process_group()
assert [group() for group in groups] == [None, None]
"""


def test_no_group_outlives_its_end() -> None:
    """Threads of a group that still runs when Python ends may abort the process."""
    done = forked.run(forked.code, GROUPS_END)
    assert done.returncode == 0, done.stderr
