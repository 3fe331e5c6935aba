"""Sampling on a GPU: the CPU's draws for the same seed, on the device, where the host reads sizes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    DataLoader,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    as_edge_prediction_sampler,
)
from dglite.sampling import random_walk, sample_labors, sample_neighbors, sample_neighbors_fused
from tests.fake_device.device import DEVICE, recorded
from tests.fake_device.test_structure import EDGES, NODES, SMALL, block_contents, few, listed, make, on_host, types


def weighted(device: str, moved: bool = False, dtype: torch.dtype = torch.int64) -> dglite.DGLGraph:
    """Return a graph with weights, of which some are 0, and masks."""
    g, generator = make(device, dtype, moved), torch.Generator().manual_seed(1)
    weights = torch.rand(EDGES, generator=generator)
    weights[weights < 0.3] = 0
    g.edata["p"], g.edata["mask"] = weights.to(device), (weights > 0.6).to(device)
    g.edata["double"], g.edata["count"] = g.edata["p"].double()[:, None], (g.edata["p"] * 5).long()
    g.edata["half"] = g.edata["p"].half()
    return g


def some_edges(device: str) -> torch.Tensor:
    return (torch.arange(200) * 3 % EDGES).to(device)


def weighed(sample: tuple[dglite.DGLGraph, list[torch.Tensor]]) -> dglite.DGLGraph:
    """Return the graph of a sample of LABOR, with its edges' weights."""
    g, weights = sample
    for i, values in enumerate(weights):
        if len(values):
            g.edge_frame_at(i)["edge_weights"] = values
    return g


def dependent_blocks(g: dglite.DGLGraph, seeds: torch.Tensor) -> list[dglite.DGLGraph]:
    """Return the blocks of three batches whose random numbers change slowly."""
    sampler = LaborSampler([3, 2], batch_dependency=3)
    sampler.set_seed(5)
    return [block for _ in range(3) for block in sampler.sample(g, seeds)[2]]


Work = Callable[[dglite.DGLGraph, torch.Tensor], Any]
DRAWS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "with replacement": {"replace": True},
    "by weight": {"prob": "p"},
    "by weight, with replacement": {"prob": "p", "replace": True},
    "by a mask": {"prob": "mask"},
    "by a column of doubles": {"prob": "double"},
    "by integers": {"prob": "count"},
    "by halves, with replacement": {"prob": "half", "replace": True},
    "out-edges": {"edge_dir": "out"},
    "out-edges by weight": {"edge_dir": "out", "prob": "p"},
}
OF_GRAPH: dict[str, Work] = {
    "more than there are": lambda g, seeds: sample_neighbors(g, seeds, 10**9),
    "all": lambda g, seeds: sample_neighbors(g, seeds, -1),
    "all by weight": lambda g, seeds: sample_neighbors(g, seeds, -1, prob="p"),
    "none": lambda g, seeds: sample_neighbors(g, seeds, 0),
    "without features": lambda g, seeds: sample_neighbors(g, seeds, 2, copy_ndata=False, copy_edata=False),
    "no seeds": lambda g, seeds: sample_neighbors(g, seeds[:0], 3),
    "by a tensor": lambda g, seeds: sample_neighbors(g, seeds, 3, prob=[g.edata["p"]]),
    "LABOR": lambda g, seeds: sample_labors(g, seeds, 5)[0],
    "LABOR, all": lambda g, seeds: sample_labors(g, seeds, -1)[0],
    "LABOR of out-edges": lambda g, seeds: sample_labors(g, seeds, 5, edge_dir="out")[0],
    "blocks": lambda g, seeds: NeighborSampler([3, 2]).sample(g, seeds)[2],
    "blocks of all": lambda g, seeds: MultiLayerFullNeighborSampler(2).sample(g, seeds)[2],
    "blocks by weight": lambda g, seeds: NeighborSampler([3, 2], prob="p").sample(g, seeds)[2],
    "blocks with a mask": lambda g, seeds: NeighborSampler([3, -1], mask="mask").sample(g, seeds)[2],
    "blocks of out-edges": lambda g, seeds: NeighborSampler([3, 2], edge_dir="out").sample(g, seeds)[2],
    "blocks without edges": lambda g, seeds: NeighborSampler([3, 2]).sample(g, seeds, some_edges(str(g.device)))[2],
    "blocks of LABOR": lambda g, seeds: LaborSampler([3, 2]).sample(g, seeds)[2],
    "a block without features": lambda g, seeds: sample_neighbors_fused(
        g, seeds, 3, copy_ndata=False, copy_edata=False
    ),
    "a block": lambda g, seeds: dglite.to_block(dglite.in_subgraph(g, seeds), torch.cat([seeds, seeds[:1] * 0])),
    "a block of all": lambda g, seeds: dglite.to_block(g),
    "a block with a node twice": lambda g, seeds: dglite.to_block(dglite.in_subgraph(g, seeds), seeds.repeat(2)),
    "a block without destinations": lambda g, seeds: dglite.to_block(g, include_dst_in_src=False),
    "a block of given sources": lambda g, seeds: dglite.to_block(
        g, src_nodes=torch.arange(NODES - 1, -1, -1, device=seeds.device), include_dst_in_src=False
    ),
}
LABOR: dict[str, dict[str, Any]] = {
    "by weight": {"prob": "p"},
    "by a mask, all": {"fanout": -1, "prob": "mask"},
    "out-edges by weight": {"prob": "double", "edge_dir": "out"},
    "one round of importances": {"importance_sampling": 1},
    "two rounds of importances, by weight": {"importance_sampling": 2, "prob": "p"},
    "importances that converge": {"importance_sampling": -1},
    "mixed seeds": {"random_seed": [3, 4], "seed2_contribution": 0.3},
    "mixed seeds by weight": {"random_seed": [3, 4], "seed2_contribution": 0.3, "prob": "half"},
}
for name, options in LABOR.items():
    OF_GRAPH[f"LABOR, {name}"] = lambda g, seeds, options=options: weighed(
        sample_labors(g, seeds, **{"fanout": 5, **options})
    )
    OF_GRAPH[f"LABOR, {name}: without some"] = lambda g, seeds, options=options: weighed(
        sample_labors(g, seeds, **{"fanout": 2, **options}, exclude_edges=some_edges(str(g.device)))
    )
OF_GRAPH |= {
    "LABOR by weight, no seeds": lambda g, seeds: weighed(sample_labors(g, seeds[:0], 3, prob="p")),
    "LABOR by importance, no seeds": lambda g, seeds: weighed(sample_labors(g, seeds[:0], 3, importance_sampling=1)),
    "blocks of LABOR by weight": lambda g, seeds: LaborSampler([3, 2], prob="p").sample(g, seeds[2:])[2],
    "blocks of LABOR by importance": lambda g, seeds: LaborSampler([3, 2], importance_sampling=-1).sample(g, seeds[2:])[
        2
    ],
    "blocks of LABOR of batches that depend": lambda g, seeds: dependent_blocks(g, seeds),
    "blocks of LABOR without edges": lambda g, seeds: LaborSampler([3, 2]).sample(g, seeds, some_edges(str(g.device)))[
        2
    ],
}
for name, options in DRAWS.items():
    OF_GRAPH[f"{name}: few"] = lambda g, seeds, options=options: sample_neighbors(g, seeds, 3, **options)
    OF_GRAPH[f"{name}: many"] = lambda g, seeds, options=options: sample_neighbors(g, seeds, 40, **options)
    OF_GRAPH[f"{name}: without some"] = lambda g, seeds, options=options: sample_neighbors(
        g, seeds, 6, exclude_edges=some_edges(str(g.device)), **options
    )
SEEDS = few(7, 3, 20, 3, 0)


def compare(name: str, device: str, moved: bool, dtype: torch.dtype) -> None:
    """Compare what a case gives on the CPU and on a device, twice: the second time from what is cached."""
    results = []
    for place in ("cpu", device):
        g, seeds = weighted(place, moved, dtype), SEEDS(place)
        dglite.seed(3)
        results.append([[block_contents(x) for x in listed(OF_GRAPH[name](g, seeds))] for _ in range(2)])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("moved", "dtype"), [(False, torch.int64), (True, torch.int32)], ids=["made there", "moved there"]
)
@pytest.mark.parametrize("name", list(OF_GRAPH))
def test_draws_are_the_cpus(name, moved, dtype):
    compare(name, DEVICE, moved, dtype)


@pytest.mark.parametrize("name", list(OF_GRAPH))
def test_ids_stay_on_the_device(name):
    g, seeds = weighted(DEVICE), SEEDS(DEVICE)
    with recorded() as events:
        result = listed(OF_GRAPH[name](g, seeds))
    to_host = [int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")]
    assert max(to_host, default=0) <= SMALL
    assert all(x.made_on(g.device) is not None for sample in result for x in sample.adjacencies if x.num_edges)


def test_threads_of_a_loader_make_nothing_on_the_host():
    g = weighted(DEVICE)
    batches = DataLoader(g, torch.arange(NODES, device=DEVICE), NeighborSampler([3, 4]), batch_size=5, num_workers=1)
    with recorded() as events:
        assert sum(len(blocks[-1].dstdata[dglite.NID]) for _, _, blocks in batches) == NODES
    assert max(int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")) <= SMALL


@pytest.mark.parametrize(
    "sampler", [NeighborSampler([3, 4, 2]), NeighborSampler([3, 4, 2], prob="p")], ids=["uniform", "by weight"]
)
def test_a_batch_waits_once(sampler):
    g = weighted(DEVICE)
    batches = iter(DataLoader(g, torch.arange(NODES, device=DEVICE), sampler, batch_size=5, shuffle=True))
    for _ in range(3):
        with recorded() as events:
            next(batches)
        assert len(events.waits) == 1


OF_TYPES: dict[str, Work] = {
    "uniform": lambda g, seeds: sample_neighbors(g, seeds, 2),
    "by type": lambda g, seeds: sample_neighbors(g, seeds, {"to": 1, "of": -1, "in": 0}),
    "by type, with replacement": lambda g, seeds: sample_neighbors(g, seeds, {"to": 1, "of": 4, "in": 2}, replace=True),
    "weights of a type": lambda g, seeds: sample_neighbors(g, seeds, 2, prob="p"),
    "without edges of a type": lambda g, seeds: sample_neighbors(g, seeds, 2, exclude_edges={"of": seeds["b"]}),
    "LABOR": lambda g, seeds: sample_labors(g, seeds, {"to": 1, "of": 2, "in": 1})[0],
    "LABOR by weight": lambda g, seeds: weighed(sample_labors(g, seeds, 1, prob="p")),
    "LABOR by importance": lambda g, seeds: weighed(sample_labors(g, seeds, 1, importance_sampling=2)),
    "LABOR without edges of a type": lambda g, seeds: weighed(
        sample_labors(g, seeds, 1, exclude_edges={"of": seeds["b"]})
    ),
    "blocks of LABOR by weight": lambda g, seeds: LaborSampler([2, 1], prob="p").sample(
        g, {"a": seeds["a"], "b": seeds["b"][1:]}
    )[2],
    "blocks": lambda g, seeds: NeighborSampler([{"to": 1, "of": 2, "in": 1}, 2]).sample(g, seeds)[2],
    "blocks of one type": lambda g, seeds: NeighborSampler([2, 1]).sample(g, {"b": seeds["b"]})[2],
    "blocks by weight": lambda g, seeds: NeighborSampler([2, 1], prob="p").sample(g, seeds)[2],
    "a block": lambda g, seeds: dglite.to_block(sample_neighbors(g, seeds, 2)),
}


def compare_types(name: str, device: str) -> None:
    results = []
    for place in ("cpu", device):
        g = types(place)
        g.edges["of"].data["p"] = (torch.arange(12) % 3).to(place)
        dglite.seed(3)
        result = OF_TYPES[name](g, {"a": few(5, 3, 0)(place), "b": few(2, 5, 2)(place)})
        results.append([block_contents(x) for x in listed(result)])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(OF_TYPES))
def test_relations_of_several_types(name):
    compare_types(name, DEVICE)


def test_blocks_by_time_have_edges_without_times():
    results = []
    for place in ("cpu", DEVICE):
        g = types(place)
        g.edges["of"].data["t"], g.nodes["a"].data["t"] = torch.arange(12).to(place), torch.arange(10).to(place)
        dglite.seed(3)
        sampler = NeighborSampler([2, 2], time="t", edge_time="t")
        results.append([block_contents(x) for x in sampler.sample(g, {"a": few(5, 0)(place)})[2]])
    assert len(results[0][1][0][0][0]) == 4  # of the type "in", without times
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


def timed(device: str, times: str) -> dglite.DGLGraph:
    """Return a graph with weights and with times of its nodes and edges, ``"integers"``, ``"floats"`` or both."""
    g, generator = weighted(device), torch.Generator().manual_seed(2)
    nodes, edges = (torch.randint(10, (n,), generator=generator) for n in (NODES, EDGES))
    g.ndata["t"] = (nodes + 0.5 if times in ("floats", "integers of edges") else nodes).to(device)
    dates = edges / 2 if times in ("floats", "floats of edges") else edges
    if dates.is_floating_point():
        dates[::7] = torch.nan
    g.edata["t"] = dates.to(device)
    return g


BY_TIME: dict[str, dict[str, Any]] = {
    "uniform": {},
    "all": {"fanouts": [-1, 3]},
    "with replacement": {"replace": True},
    "by weight": {"prob": "p"},
    "by weight, with replacement": {"prob": "p", "replace": True},
    "last": {"temporal_strategy": "last"},
    "all of the last": {"fanouts": [2, -1], "temporal_strategy": "last"},
}
KINDS = ["integers", "floats", "floats of edges", "integers of edges"]


def compare_times(name: str, kind: str, exclude: bool, device: str) -> None:
    results = []
    for place in ("cpu", device):
        g, options = timed(place, kind), {"fanouts": [3, 2], **BY_TIME[name]}
        sampler = NeighborSampler(time="t", edge_time="t", **options)
        dglite.seed(3)
        seeds, excluded = few(*range(1, NODES))(place), some_edges(place) if exclude else None
        results.append([block_contents(x) for _ in range(2) for x in sampler.sample_blocks(g, seeds, excluded)[2]])
    assert any(len(edges[0][0]) for edges, _ in results[0])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("exclude", [False, True], ids=["all edges", "without some"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(BY_TIME))
def test_samples_by_time_are_the_cpus(name, kind, exclude):
    compare_times(name, kind, exclude, DEVICE)


def test_samples_by_time_stay_on_the_device():
    g, sampler = timed(DEVICE, "floats"), NeighborSampler([3, 2], time="t", edge_time="t", temporal_strategy="last")
    seeds = few(*range(1, NODES))(DEVICE)
    sampler.sample_blocks(g, seeds)
    with recorded() as events:
        blocks = sampler.sample_blocks(g, seeds)[2]
    assert max(int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")) <= SMALL
    assert all(x.made_on(g.device) is not None for block in blocks for x in block.adjacencies)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_bad_times_are_refused(device):
    g = timed(device, "floats")
    g.ndata["t"][3] = torch.nan
    with pytest.raises(DGLError, match="time of '_N' node 3 is NaN"):
        NeighborSampler([2], time="t", edge_time="t").sample(g, few(1, 3)(device))
    with pytest.raises(DGLError, match="edge_time='when' is not an edge feature of any type"):
        NeighborSampler([2], time="t", edge_time="when").sample(g, few(1)(device))
    with pytest.raises(DGLError, match="there is no node feature 'when'"):
        NeighborSampler([2], time="when", edge_time="t").sample(g, few(1)(device))


LOADERS: dict[str, Callable[[], Any]] = {
    "nodes": lambda: NeighborSampler([3, 2]),
    "nodes by weight": lambda: NeighborSampler([3, 2], prob="p"),
    "nodes, with replacement": lambda: NeighborSampler([3, 40], replace=True),
    "LABOR": lambda: LaborSampler([3, 2], layer_dependency=True),
    "LABOR by weight": lambda: LaborSampler([3, 2], prob="p", importance_sampling=1),
    "LABOR of edges": lambda: as_edge_prediction_sampler(LaborSampler([3, 2]), exclude="self"),
    "edges": lambda: as_edge_prediction_sampler(NeighborSampler([3, 20]), exclude="self"),
    "edges, with replacement": lambda: as_edge_prediction_sampler(NeighborSampler([5], replace=True), exclude="self"),
    "edges, all neighbours": lambda: as_edge_prediction_sampler(NeighborSampler([-1, 4]), exclude="self"),
    "edges by weight": lambda: as_edge_prediction_sampler(NeighborSampler([3, 20], prob="p"), exclude="self"),
    "edges by time": lambda: as_edge_prediction_sampler(NeighborSampler([3, 2], time="count", edge_time="count")),
    "edges and pairs": lambda: as_edge_prediction_sampler(
        NeighborSampler([4, 2]), negative_sampler=dglite.dataloading.negative_sampler.Uniform(2)
    ),
}


def compare_loader(name: str, device: str) -> None:
    results = []
    for place in ("cpu", device):
        g, seeds = weighted(place), few(*range(0, NODES, 2))(place)
        dglite.seed(3)
        batches = list(DataLoader(g, seeds, LOADERS[name](), batch_size=4, shuffle=True))
        graphs = [x for batch in batches for part in batch for x in listed(part) if isinstance(x, dglite.DGLGraph)]
        results.append([block_contents(x) for x in graphs])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(LOADERS))
def test_batches_are_the_cpus(name):
    compare_loader(name, DEVICE)


def test_edges_and_pairs_stay_on_the_device():
    """The host reads how many there are of each, and whether ids exist."""
    g = weighted(DEVICE)
    sampler = as_edge_prediction_sampler(
        NeighborSampler([4, 2]), exclude="self", negative_sampler=dglite.dataloading.negative_sampler.Uniform(2)
    )
    batches = iter(DataLoader(g, some_edges(DEVICE), sampler, batch_size=50))
    next(batches)
    with recorded() as events:
        next(batches)
    assert max(int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")) <= SMALL
    assert len(events.waits) == 6


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_bad_input_is_refused(device):
    g = weighted(device)
    for work in (lambda ids: sample_neighbors(g, ids, 2), lambda ids: NeighborSampler([2, 2]).sample(g, ids)):
        with pytest.raises(DGLError, match="node id 21 does not exist"):
            work(few(0, 21)(device))
        with pytest.raises(DGLError, match="node id -1 is negative"):
            work(few(0, -1)(device))
    with pytest.raises(DGLError, match="edge id 600 does not exist"):
        sample_neighbors(g, few(1)(device), 2, exclude_edges=few(600)(device))
    with pytest.raises(DGLError, match="prob of edge type '_E' has shape"):
        sample_neighbors(g, few(1)(device), 2, prob=torch.ones(3, device=device))
    g.edata["p"][g.in_edges(few(3)(device), form="eid")[5]] = -1
    with pytest.raises(DGLError, match=r"the weight of '_E' edge \d+ is negative, infinite or NaN"):
        NeighborSampler([2, 2], prob="p").sample(g, few(3)(device))
    g.edata["p"] = g.edata["p"].abs()
    NeighborSampler([2, 2], prob="p").sample(g, few(3)(device))


WALKS: dict[str, dict[str, Any]] = {
    "uniform": {"length": 5},
    "with edges": {"length": 5, "return_eids": True},
    "with restarts": {"length": 5, "restart_prob": 0.3},
    "with restarts by step": {"length": 2, "restart_prob": torch.tensor([0.0, 0.5])},
    "by weight": {"length": 4, "prob": "p", "return_eids": True},
    "no steps": {"length": 0},
}


def compare_walks(name: str, device: str, dtype: torch.dtype) -> None:
    results = []
    for place in ("cpu", device):
        g = weighted(place, dtype=dtype)
        dglite.seed(3)
        results.append([random_walk(g, few(7, 3, 20, 3, 0)(place), **WALKS[name]) for _ in range(2)])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


def compare_metapath(device: str) -> None:
    results = []
    for place in ("cpu", device):
        g = types(place)
        g.edges["of"].data["p"] = (torch.arange(12) % 3).to(place)
        dglite.seed(3)
        options = {"metapath": ["in", "in", "to", "of"], "return_eids": True}
        results.append([random_walk(g, few(3, 0, 1)(place), prob=prob, **options) for prob in (None, "p")])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", list(WALKS))
def test_walks_are_the_cpus(name, dtype):
    compare_walks(name, DEVICE, dtype)


def test_walks_along_several_types():
    compare_metapath(DEVICE)


def test_walks_read_answers_alone():
    g, starts = weighted(DEVICE), few(*range(NODES))(DEVICE)
    with recorded() as events:
        traces, _ = random_walk(g, starts, length=4, prob="p", restart_prob=0.1)
    assert str(traces.device) == DEVICE
    assert max(int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")) <= SMALL
    g.edata["p"][:] = torch.nan
    with pytest.raises(DGLError, match=r"the weight of '_E' edge \d+ is negative, infinite or NaN"):
        random_walk(g, starts, length=4, prob="p")


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_nodes_that_a_block_lacks(device):
    g = dglite.graph(few(1, 2, 3)(device).repeat(2, 1).unbind(), num_nodes=4)
    with pytest.raises(DGLError, match="dst_nodes lacks node 2 of type '_N', which has in-edges"):
        dglite.to_block(g, few(3, 1)(device))
    with pytest.raises(DGLError, match="src_nodes lacks node 3 of type '_N', which has out-edges"):
        dglite.to_block(g, src_nodes=few(1, 2)(device), include_dst_in_src=False)
    with pytest.raises(DGLError, match="must begin with the 3 destination nodes"):
        dglite.to_block(g, src_nodes=few(2, 1, 3)(device))
