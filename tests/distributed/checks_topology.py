"""What ranks check together of a structure in parts; see test_topology.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed

import dglite
from dglite.dataloading import LaborSampler, MultiLayerFullNeighborSampler, NeighborSampler, as_edge_prediction_sampler
from dglite.dataloading.negative_sampler import GlobalUniform, Uniform
from dglite.distributed import DistEdgeDataLoader, DistGraph, DistNodeDataLoader, DistTensor, edge_split, node_split
from dglite.errors import DGLError
from tests.distributed.checks import everywhere, message, rank, world
from tests.distributed.graphs import hetero, homogeneous
from tests.patience import PATIENCE

NAMES = [
    "edges_and_degrees_are_found",
    "batches_are_those_of_a_replicated_topology",
    "typed_batches_are",
    "batches_of_edges_are",
    "shared_batches",
    "ranks_without_seeds_and_graphs_without_edges",
    "what_owners_cannot_draw_is_refused",
    "what_fails_on_an_owner_fails_everywhere",
    "hot_rows_are_those_of_a_replicated_topology",
]


@cache
def reference(name: str) -> dglite.DGLGraph:
    """Return a graph: of one type, of several, of int32 ids, or of two nodes a part and no edges."""
    if name == "h":
        g = hetero()
        src, dst = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 0, 0])  # items are few, and one only has these
        edges = {etype: g.edges(etype=etype) for etype in g.canonical_etypes} | {("user", "likes", "item"): (src, dst)}
        graph = dglite.heterograph(edges, {"user": 13, "item": 9})
        graph.edges["buys"].data["w"] = g.edges["buys"].data["w"]
        return graph
    if name == "empty":
        return dglite.graph(([], []), num_nodes=8)
    g = homogeneous(60, 400)
    g.edata["mask"] = torch.arange(400) % 3 != 0
    return g.int() if name == "int" else g


@cache
def opened(folder: Path, name: str, topology: str) -> DistGraph:
    g = DistGraph(name, folder / name / f"{name}.json", timeout=PATIENCE, topology=topology)
    if topology == "replicated":  # which reads weights from the structure
        for etype in g.canonical_etypes:
            for feature in g.frame("edge", etype):
                old = g.original_ids("edge", etype, range(g.num_edges(etype)))
                g.topology.edges[etype].data[feature] = reference(name).edges[etype].data[feature][old]
    return g


def both(folder: Path, name: str) -> list[DistGraph]:
    return [opened(folder, name, topology) for topology in ("replicated", "partitioned")]


def lists(ids: Any) -> Any:
    return {key: lists(own) for key, own in ids.items()} if isinstance(ids, dict) else (str(ids.dtype), ids.tolist())


def written(batch: Any) -> list[Any]:
    """Return all that is in a batch."""
    inputs, *between, blocks = batch
    results = [lists(inputs)]
    for result in [x for x in between if isinstance(x, dglite.DGLGraph)] + blocks:
        for etype in result.canonical_etypes:
            src, dst = result.edges(etype=etype, order="eid")
            data = result.edges[etype].data
            results.append(
                (src.tolist(), dst.tolist(), {k: lists(data[k]) for k in ("_ID", "edge_weights") if k in data})
            )
        for nodes, types in ((result.srcnodes, result.srctypes), (result.dstnodes, result.dsttypes)):
            results.append([lists(nodes[ntype].data[dglite.NID]) for ntype in types])
    return results + [lists(x) for x in between if not isinstance(x, dglite.DGLGraph)]


def compare(folder: Path, name: str, make: Any, loader: Any = DistNodeDataLoader, of: Any = None) -> None:
    results = []
    for g in both(folder, name):
        dglite.seed(3)
        of = node_split(range(g.num_nodes()), g) if of is None else of
        batches = loader(g, of, make(), batch_size=7, shuffle=True, num_workers=len(results))
        results.append([written(batch) for _ in range(2) for batch in batches])
    assert results[0] == results[1]


def edges_and_degrees_are_found(folder: Path) -> None:
    for name in ("g", "int"):
        (whole, parts), draw = both(folder, name), np.random.default_rng(rank())
        for ids in (draw.integers(0, 400, 30), range(400), [] if rank() == 0 else [5, 5]):
            for actual, expected in zip(parts.find_edges(ids), whole.find_edges(ids), strict=True):
                assert torch.equal(actual, expected) and actual.dtype == expected.dtype
            old = [g.original_ids("edge", None, ids) for g in (whole, parts)]
            assert torch.equal(*old)
        nodes = draw.integers(0, 60, 9)
        assert torch.equal(parts.in_degrees(nodes), whole.in_degrees(nodes))
        assert parts.in_degrees(nodes).dtype == whole.in_degrees(nodes).dtype
    assert "edge id 400" in message(lambda: parts.find_edges([400] if rank() == 0 else []))
    with pytest.raises(DGLError, match="no process has it all"):
        parts.topology  # noqa: B018


def batches_are_those_of_a_replicated_topology(folder: Path) -> None:
    for make in (
        lambda: NeighborSampler([3, 2]),
        lambda: NeighborSampler([3, -1, 0]),
        lambda: NeighborSampler([4, 2], replace=True),
        lambda: NeighborSampler([3, 2], prob="w"),
        lambda: NeighborSampler([3, 2], prob="w", replace=True),
        lambda: NeighborSampler([-1, 3], mask="mask"),
        lambda: LaborSampler([3, 2]),
        lambda: LaborSampler([3, -1], prob="w", layer_dependency=True),
        lambda: LaborSampler([3, 2], batch_dependency=3),
    ):
        compare(folder, "g", make)
    for make in (
        lambda: NeighborSampler([3, 2]),
        lambda: LaborSampler([3, 2]),
        lambda: MultiLayerFullNeighborSampler(1),
    ):
        compare(folder, "int", make)


def typed_batches_are(folder: Path) -> None:
    g = opened(folder, "h", "partitioned")
    of = {"user": node_split(range(13), g, "user"), "item": [] if rank() == 0 else [0, 1]}
    fanouts = {"follows": 2, "buys": 3, "bought-by": -1, "likes": 1}
    for make in (
        lambda: NeighborSampler([fanouts, 2]),
        lambda: NeighborSampler([2, {**fanouts, "buys": 0}], prob="w"),
        lambda: LaborSampler([2, fanouts]),
        lambda: LaborSampler([2, 2], prob="w"),
    ):
        compare(folder, "h", make, of=of)


def batches_of_edges_are(folder: Path) -> None:
    reverse = (torch.arange(400) + 1) % 400
    of = edge_split(range(60), opened(folder, "g", "partitioned"))
    for options in (
        {},
        {"exclude": "self", "negative_sampler": Uniform(2)},
        {"exclude": "reverse_id", "reverse_eids": reverse},
        {"exclude": lambda eids: (eids + 1) % 400},
    ):
        for make in (
            lambda: NeighborSampler([-1, 3]),
            lambda: NeighborSampler([4, 3], replace=True),
            lambda: NeighborSampler([3, 3], prob="w"),
            lambda: LaborSampler([3, 3]),
        ):
            result = lambda o=options, m=make: as_edge_prediction_sampler(m(), **o)  # noqa: E731
            compare(folder, "g", result, DistEdgeDataLoader, of)
    g = opened(folder, "h", "partitioned")
    of = {"buys": edge_split(range(40), g, "buys"), "bought-by": [] if rank() == 0 else [1, 2]}
    for make in (lambda: NeighborSampler([3, 2]), lambda: NeighborSampler([3, 2], prob="w")):
        options = {"exclude": "reverse_types", "reverse_etypes": {"buys": "follows", "bought-by": "bought-by"}}
        result = lambda o=options, m=make: as_edge_prediction_sampler(m(), negative_sampler=Uniform(1), **o)  # noqa: E731
        compare(folder, "h", result, DistEdgeDataLoader, of)


def shared_batches(folder: Path) -> Any:
    """Return this rank's batches by number, which are to be the same for any number of ranks and either topology."""
    results: dict[Any, Any] = {}
    for g in both(folder, "g"):
        nids = torch.argsort(g.original_ids("node", None, range(60)))[:50]
        for name, sampler in {
            "neighbours": NeighborSampler([3, 2], prefetch_node_feats=["x"]),
            "labor": LaborSampler([3, 2], prefetch_node_feats=["x"]),
            "importance": LaborSampler([3, 2], importance_sampling=2, prefetch_node_feats=["x"]),
        }.items():
            if g.partitioned is not None and name == "importance":
                continue
            dglite.seed(5)
            for step, (inputs, seeds, blocks) in enumerate(
                DistNodeDataLoader(g, nids, sampler, batch_size=6, shuffle=True, shared=True, num_workers=1)
            ):
                old = [g.original_ids("node", None, ids).tolist() for ids in (inputs, seeds)]
                edges = [g.original_ids("edge", None, block.edata[dglite.EID]).tolist() for block in blocks]
                result = old, edges, blocks[0].srcdata["x"].tolist()
                if len(seeds):
                    number = name, step * world() + rank()
                    assert results.setdefault(number, result) == result
    return results


def ranks_without_seeds_and_graphs_without_edges(folder: Path) -> None:
    compare(folder, "g", lambda: NeighborSampler([2, 2]), of=range(20) if rank() == world() - 1 else range(0))
    compare(folder, "g", lambda: NeighborSampler([2, 2]), of=range(0))
    for make in (lambda: NeighborSampler([2, 2]), lambda: LaborSampler([2])):
        compare(folder, "empty", make)


def what_owners_cannot_draw_is_refused(folder: Path) -> None:
    g, nodes = opened(folder, "g", "partitioned"), range(4)

    class Own(NeighborSampler):
        def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
            return super().sample_blocks(g, seed_nodes, exclude_eids)

    for sampler, text in (
        (NeighborSampler([2], edge_dir="out"), "in-edges only"),
        (NeighborSampler([2], time="t", edge_time="t"), "by time"),
        (LaborSampler([2], importance_sampling=1), "importance_sampling"),
        (Own([2]), "Own cannot sample a partitioned topology"),
        (NeighborSampler([2], prob="unknown"), "not an edge feature"),
        (NeighborSampler([{"_E": 2, "other": 1}]), "other"),
    ):
        assert text in message(lambda s=sampler: DistNodeDataLoader(g, nodes, s))
    assert "node id 60" in message(lambda: DistNodeDataLoader(g, [60] if rank() == 0 else [1], NeighborSampler([2])))
    negative = {"negative_sampler": GlobalUniform(1)}
    assert "GlobalUniform" in message(lambda: DistEdgeDataLoader(g, nodes, NeighborSampler([2]), **negative))
    path = folder / "g" / "g.json"
    assert "not understood" in message(lambda: DistGraph("g", path, timeout=PATIENCE, topology="both"))
    if world() > 1:
        kinds = ["replicated", "partitioned"]
        assert "differs" in message(lambda: DistGraph("g", path, timeout=PATIENCE, topology=kinds[rank() > 0]))
        fanouts = [2 + (rank() > 0)]
        assert "differs" in message(lambda: DistNodeDataLoader(g, nodes, NeighborSampler(fanouts)))


def what_fails_on_an_owner_fails_everywhere(folder: Path) -> None:
    g = opened(folder, "g", "partitioned")
    policy, bad = g.get_edge_partition_policy(), world() - 1
    g.edata["bad"] = DistTensor(
        (400,), torch.float32, "bad", lambda *_: torch.full((policy.get_part_size(),), -float(rank() == bad)), policy
    )
    for workers in (0, 1):
        sampler = NeighborSampler([1, 1], prob="bad")
        batches = DistNodeDataLoader(g, range(60), sampler, batch_size=60, num_workers=workers)
        text = message(lambda b=batches: next(iter(b)))
        assert text.startswith(f"rank {bad}: DGLError: the weight of"), text
    g.barrier()
    del g.edata["bad"]


def hot_rows_are_those_of_a_replicated_topology(folder: Path) -> None:
    results = []
    for g in both(folder, "g"):
        dglite.seed(8)
        batches = DistNodeDataLoader(g, node_split(range(60), g), NeighborSampler([2, 2]), batch_size=7, shuffle=True)
        results.append(batches.hot_rows(5).tolist())
    assert results[0] == results[1] and all(everywhere(True))
    assert distributed.is_initialized()
