"""What ranks check together; see test_ranks.py."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.distributed import checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel

import dglite
from dglite.dataloading import NeighborSampler, ScheduledFeatures, as_edge_prediction_sampler
from dglite.dataloading.negative_sampler import Uniform
from dglite.distributed import (
    DistEdgeDataLoader,
    DistEmbedding,
    DistGraph,
    DistNodeDataLoader,
    DistTensor,
    PartitionPolicy,
    edge_split,
    load_checkpoint,
    node_split,
    save_checkpoint,
)
from dglite.distributed.book import Ranges
from dglite.distributed.checkpoint import from_original_order, in_original_order
from dglite.distributed.optim import SparseAdagrad, SparseAdam
from dglite.errors import DGLError
from dglite.nn import NodeEmbedding
from tests.distributed.graphs import hetero, homogeneous
from tests.distributed.networks import NETWORKS
from tests.patience import PATIENCE

NAMES = [
    "rows_are_those_of_the_graph",
    "bytes_are_those_of_remote_rows",
    "rows_are_written_to_their_owners",
    "errors_are_the_same_everywhere",
    "nodes_and_edges_are_split",
    "a_graph_answers_as_one_that_is_whole",
    "hot_rows_stay",
    "scheduled_rows_are_fetched_once",
    "scheduled_rows_that_are_written_are_fetched_again",
    "shared_batches",
    "own_batches_have_features",
    "a_loop_is_left_early",
    "a_failed_batch_fails_everywhere",
    "typed_batches_have_features",
    "batches_of_edges",
    "a_place_in_an_epoch_is_kept",
    "gradients_of_networks",
    "embeddings_are_trained_where_they_are",
    "a_checkpoint_is_gone_on_from",
    "torch_saves_and_loads_what_has_a_state",
    "a_checkpoint_is_whole_or_not_there",
    "checkpoints_that_do_not_fit",
    "partitions_that_do_not_fit",
]


def rank() -> int:
    return distributed.get_rank()


def world() -> int:
    return distributed.get_world_size()


@cache
def opened(folder: Path, name: str = "g") -> DistGraph:
    return DistGraph(name, folder / name / f"{name}.json", verify=True, timeout=PATIENCE)


@cache
def reference(name: str = "g") -> dglite.DGLGraph:
    return homogeneous(60, 400) if name == "g" else hetero()


def everywhere(value: Any) -> list[Any]:
    results = [None] * world()
    distributed.all_gather_object(results, value)
    return results


def message(call: Any, error: type[Exception] = DGLError) -> str:
    """Return the message of the error that a call raises on all ranks."""
    with pytest.raises(error) as raised:
        call()
    result = everywhere(str(raised.value))
    assert len(set(result)) == 1, result
    return result[0]


def rows_are_those_of_the_graph(folder: Path) -> None:
    g, whole = opened(folder), reference()
    assert g.num_nodes() == 60 and g.num_edges() == 400 and set(g.ndata) == {"x", "half", "y", "train"}
    draw = np.random.default_rng(rank())
    for ids in (draw.integers(0, 60, 50), torch.arange(60), [] if rank() else [3, 3, 3], range(0)):
        old = g.original_ids("node", None, ids)
        for name in ("x", "half", "y", "train"):
            assert torch.equal(g.ndata[name][ids], whole.ndata[name][old]), name
            assert g.ndata[name].dtype == whole.ndata[name].dtype and len(g.ndata[name]) == 60
    ids = draw.integers(0, 400, 30)
    assert torch.equal(g.edata["w"].rows(ids), whole.edata["w"][g.original_ids("edge", None, ids)])
    out = torch.empty(2, 4)
    assert g.ndata["x"].rows([5, 1], out) is out and torch.equal(out, g.ndata["x"][[5, 1]])


def bytes_are_those_of_remote_rows(folder: Path) -> None:
    g = opened(folder)
    before = g.exchange.sent.copy()
    g.ndata["x"][list(range(60)) * 2]
    first, last = g.get_partition_book().ranges_of("node").range_of(rank())
    sent = g.exchange.sent - before
    others = world() - 1
    assert sent["ids"] == 8 * (60 - (last - first) + others) and sent["features"] == 16 * (last - first) * others


def rows_are_written_to_their_owners(folder: Path) -> None:
    g = opened(folder)
    policy = g.get_node_partition_policy()
    table = DistTensor((60, 2), torch.float32, "table", lambda shape, dtype: torch.full(shape, -1.0), policy)
    mine = np.arange(rank(), 60, world())
    table[mine] = torch.tensor(mine, dtype=torch.float64)[:, None].expand(-1, 2)
    assert torch.equal(table[range(60)], torch.arange(60.0)[:, None].expand(-1, 2))
    table[[7, 7] if rank() == 0 else []] = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) if rank() == 0 else 0
    assert table[[7]].tolist() == [[3.0, 4.0]]
    table[[8]] = float(rank())
    assert table[[8]].tolist() == [[world() - 1.0] * 2]
    with pytest.raises(DGLError, match="expected 60 rows"):
        DistTensor((59, 2), torch.float32, part_policy=policy)
    assert DistTensor((60, 2), torch.float32).ranges is policy.ranges
    with pytest.raises(DGLError, match="needs a part_policy"):
        DistTensor((60, 2), torch.float32, part_policy="node")


def errors_are_the_same_everywhere(folder: Path) -> None:
    g, last = opened(folder), world() - 1
    x = g.ndata["x"]
    assert f"rank {last}: DGLError" in message(lambda: x[torch.zeros(2) if rank() == last else [1]])
    assert "id 60 does not exist" in message(lambda: x[[60] if rank() == 0 else [1]])
    assert "integers" in message(lambda: x.__setitem__([0.5] if rank() == 0 else [1], 0))
    assert "expand" in message(lambda: x.__setitem__([1], torch.zeros(3, 3, 3) if rank() == 0 else 0))
    if world() > 1:
        assert "different things" in message(lambda: x[[1]] if rank() else g.ndata["y"][[1]])
        assert "different things" in message(lambda: x[[1]] if rank() else g.barrier())
    assert "no nodes of type 'user'" in message(lambda: g.nodes["user"])
    assert "unknown" in message(lambda: loader(g, range(4), names=["unknown"] if rank() == last else ["x"]))
    assert "node id 60" in message(lambda: loader(g, [60] if rank() == last else [1]))
    assert "batch_size" in message(lambda: loader(g, [1], batch_size=0 if rank() == last else 1))
    assert "drop_last" in message(lambda: loader(g, [1], drop_last=3 if rank() == last else True))
    assert "generator" in message(lambda: loader(g, [1], generator=3 if rank() == last else None))
    if world() > 1:
        assert "differs between ranks" in message(lambda: loader(g, [1], batch_size=1 + rank()))
    assert "integers" in message(lambda: loader(g, [0.5] if rank() == last else [1]))
    assert "feature 'v'" in message(lambda: DistEdgeDataLoader(g, [1], edges("v" if rank() == last else "w")))
    policy = g.get_node_partition_policy()
    rows = 59 if rank() == last else 60
    assert f"rank {last}: DGLError" in message(lambda: DistEmbedding(rows, 3, "table", part_policy=policy))
    typed, given = opened(folder, "h"), {"user": [1]} if rank() != last else {"robot": [1]}
    assert "robot" in message(lambda: DistNodeDataLoader(typed, given, NeighborSampler([2])))
    names = {"user": ["x"]} if rank() != last else {"robot": ["x"]}
    assert "robot" in message(
        lambda: DistNodeDataLoader(typed, {"user": [1]}, NeighborSampler([2], prefetch_labels=names))
    )
    assert torch.equal(x[[5]], reference().ndata["x"][g.original_ids("node", None, [5])])  # and nothing hangs


def loader(g: DistGraph, ids: Any, names: Any = ("x",), **options: Any) -> DistNodeDataLoader:
    sampler = NeighborSampler([3, 2], prefetch_node_feats=list(names), prefetch_labels=["y"])
    return DistNodeDataLoader(g, ids, sampler, **options)


def edges(name: str) -> Any:
    return as_edge_prediction_sampler(NeighborSampler([2]), prefetch_labels=[name])


def nodes_and_edges_are_split(folder: Path) -> None:
    g = opened(folder)
    book, chosen = g.get_partition_book(), reference().ndata["train"][g.original_ids("node", None, range(60))]
    for even in (True, False):
        mine = node_split(g.ndata["train"], book, force_even=even)
        assert torch.equal(mine, node_split(chosen, g, force_even=even))
        assert torch.equal(torch.cat(everywhere(mine)), chosen.nonzero().flatten())
        if even:
            assert max(map(len, everywhere(mine))) - min(map(len, everywhere(mine))) <= 1
        else:
            assert (book.nid2partid(mine) == rank()).all()
    assert torch.equal(torch.cat(everywhere(edge_split(range(10, 50), book))), torch.arange(10, 50))
    by_rank = [node_split(chosen, g, rank=i, node_trainer_ids=chosen) for i in range(world())]
    assert torch.equal(torch.cat(by_rank), chosen.nonzero().flatten())
    with pytest.raises(DGLError, match="there are"):
        node_split(chosen, g, rank=world())
    with pytest.raises(DGLError, match="mask"):
        node_split(torch.ones(3, dtype=torch.bool), book)
    assert "no mask" in message(lambda: node_split(g.ndata["y"], book))


def a_graph_answers_as_one_that_is_whole(folder: Path) -> None:
    g = opened(folder)
    whole, nodes = g.topology, torch.arange(60)
    assert g.idtype == torch.int64 and g.device == whole.device
    (etype,) = g.canonical_etypes
    assert g.to_canonical_etype("_E") == etype and g.get_ntype_id("_N") == g.get_etype_id(etype) == 0
    assert torch.equal(g.out_degrees(nodes), whole.out_degrees(nodes))
    assert g.node_attr_schemes()["x"].shape == g.ndata["x"].shape[1:] and "w" in g.edge_attr_schemes()
    if rank() == 0:  # none of them is an exchange
        assert g.in_subgraph([0, 5]).num_edges() == whole.in_degrees([0, 5]).sum()
        assert g.sample_neighbors([0, 5], 2, replace=True).num_edges() == 4
        assert torch.equal(g.edge_subgraph([3, 1]).edata[dglite.EID], torch.tensor([3, 1]))


def hot_rows_stay(folder: Path) -> None:
    g, whole = opened(folder), reference()
    x = g.ndata["x"]
    batches = loader(g, node_split(range(60), g), batch_size=5)
    hot = batches.hot_rows(4)
    assert (g.get_partition_book().nid2partid(hot) != rank()).all() and len(hot) == (4 if world() > 1 else 0)
    x.cache(hot)
    before = g.exchange.sent["features"]
    assert torch.equal(x[hot], whole.ndata["x"][g.original_ids("node", None, hot)])
    assert everywhere(g.exchange.sent["features"] == before) == [True] * world()
    assert x.hit_rate == (1 if world() > 1 else 0)
    ids = np.arange(60)
    assert torch.equal(x[ids], whole.ndata["x"][g.original_ids("node", None, ids)])
    assert (x.hits, x.misses) == (2 * len(hot), 60 - len(x.local) - len(hot))
    x[[0] if rank() == 0 else []] = x.local[:1] if rank() == 0 else 0
    x[hot]
    assert x.hits == 0


def wide(g: DistGraph) -> DistTensor:
    """Return a tensor of nodes whose row i is 64 times i."""
    first, last = g.get_partition_book().ranges_of("node").range_of(rank())
    rows = torch.arange(first, last, dtype=torch.float32)[:, None].expand(-1, 64).contiguous()
    return DistTensor((60, 64), torch.float32, "wide", lambda shape, dtype: rows, g.get_node_partition_policy())


def epochs(g: DistGraph, source: Any, write: Any = None, **options: Any) -> list[Any]:
    """Return what two epochs of batches read of a source; ``write`` is called after the second batch."""
    sampler = NeighborSampler([3, 2], prefetch_node_feats={"x": source}, prefetch_labels={"x": source})
    dglite.seed(9)
    batches = DistNodeDataLoader(g, node_split(range(60), g), sampler, batch_size=5, shuffle=True, **options)
    seen = []
    for _ in range(2):
        for step, (inputs, _, blocks) in enumerate(batches):
            seen.append((inputs.tolist(), blocks[0].srcdata["x"].tolist(), blocks[-1].dstdata["x"].tolist()))
            if write is not None and step == 1:
                write()
    return seen


def scheduled_rows_are_fetched_once(folder: Path) -> None:
    g = opened(folder)
    x = wide(g)
    expected, remote = epochs(g, x), x.misses
    for options in ({"num_workers": 2}, {}):
        ample = ScheduledFeatures(x, memory=1 << 20)
        assert epochs(g, ample, **options) == expected
        assert ample.hits + ample.misses == remote and ample.planned_reads == ample.distinct
        assert x.misses == remote
        assert ample.misses <= 60 - len(x.local)  # of two epochs: rows stay for the second
    assert "the plan reads" in repr(ample)
    tight = ScheduledFeatures(x, memory=(1 << 20) - 256 * (ample.capacity - 12))
    assert epochs(g, tight) == expected
    assert tight.hits + tight.misses == remote and tight.capacity < 30
    assert world() == 1 or ample.misses < tight.misses < remote
    single = ScheduledFeatures(x, memory="1 MB", batches=1)
    assert epochs(g, single) == expected
    assert single.hits + single.misses == remote and (world() == 1 or single.hits > 0)
    little = ScheduledFeatures(x, memory=900 if rank() == world() - 1 else "1 MB")
    assert "memory=900 bytes is too little" in message(lambda: epochs(g, little))
    if world() > 1:
        assert "what a DistNodeDataLoader is given" in message(lambda: epochs(g, ample if rank() else x))


def scheduled_rows_that_are_written_are_fetched_again(folder: Path) -> None:
    g = opened(folder)

    def write_to(x: DistTensor) -> Any:
        mine = np.arange(rank(), 60, world())
        return lambda: x.__setitem__(mine, x[mine] + 100)

    plain, scheduled = wide(g), wide(g)
    assert epochs(g, plain, write_to(plain)) == epochs(g, ScheduledFeatures(scheduled, "1 MB"), write_to(scheduled))


def original(g: DistGraph, batch: Any) -> Any:
    """Return a batch with its ids of before: nodes, and each block's ends and edges."""
    blocks = []
    for block in batch[2]:
        src, dst = block.edges()
        ends = block.srcdata, block.dstdata
        old = [g.original_ids("node", None, data[dglite.NID]).tolist() for data in ends]
        edges = g.original_ids("edge", None, block.edata[dglite.EID]).tolist()
        blocks.append((*old, src.tolist(), dst.tolist(), edges))
    x, y = batch[2][0].srcdata["x"].tolist(), batch[2][-1].dstdata["y"].tolist()
    return g.original_ids("node", None, batch[1]).tolist(), blocks, x, y


def shared_batches(folder: Path) -> Any:
    """Return this rank's batches by number, which are to be the same for any number of ranks."""
    g = opened(folder)
    dglite.seed(5 + 7 * (rank() > 0))  # the first rank's counts
    nids = sorted_by_original(g)[:50].flip(0)
    batches = loader(g, nids, batch_size=6, shuffle=True, shared=True, num_workers=2)
    results = {}
    for epoch in range(2):
        for step, batch in enumerate(batches):
            if len(batch[1]):
                results[epoch, step * world() + rank()] = original(g, batch)
    assert len(batches) == -(-9 // world())
    return results


def sorted_by_original(g: DistGraph) -> torch.Tensor:
    return torch.argsort(g.original_ids("node", None, range(60)))


def own_batches_have_features(folder: Path) -> None:
    g, whole = opened(folder), reference()
    nids = range(10) if rank() == 0 else range(0)
    for workers in (0, 2):
        batches = loader(g, nids, batch_size=4, num_workers=workers, shuffle=True)
        for _ in range(2):
            seen = []
            for inputs, seeds, blocks in batches:
                old = g.original_ids("node", None, inputs)
                assert torch.equal(blocks[0].srcdata["x"], whole.ndata["x"][old])
                old = g.original_ids("node", None, seeds)
                assert torch.equal(blocks[-1].dstdata["y"], whole.ndata["y"][old])
                seen.append(seeds)
            assert len(seen) == len(batches) == 3 and sorted(torch.cat(seen).tolist()) == list(nids)
    assert len(loader(g, range(9), batch_size=4, drop_last=True)) == 2


def a_loop_is_left_early(folder: Path) -> None:
    g = opened(folder)
    batches = loader(g, range(40), batch_size=2, num_workers=1)
    for steps in (1, 3, 20):
        for step, (inputs, _, blocks) in enumerate(batches):
            old = g.original_ids("node", None, inputs)
            assert torch.equal(blocks[0].srcdata["x"], reference().ndata["x"][old])
            if step + 1 == steps:
                break
    g.barrier()


class Fails(NeighborSampler):
    """Fails on one rank in the second batch."""

    error: Exception

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        if rank() == world() - 1 and 2 in seed_nodes:
            raise self.error
        return super().sample_blocks(g, seed_nodes, exclude_eids)


def a_failed_batch_fails_everywhere(folder: Path) -> None:
    g = opened(folder)
    for workers in (0, 1):
        for error, text in ((ValueError("no more"), "ValueError: no more"), (StopIteration(), "RuntimeError: StopIt")):
            Fails.error = error
            batches = DistNodeDataLoader(g, range(8), Fails([2]), batch_size=2, num_workers=workers)
            running = iter(batches)
            next(running)
            assert message(lambda r=running: next(r)).startswith(f"rank {world() - 1}: {text}")
            assert list(running) == []
            assert len(next(iter(batches))) == 3


def typed_batches_have_features(folder: Path) -> None:
    g, whole = opened(folder, "h"), reference("h")
    assert g.nodes["user"].data["x"].shape == (13, 4) and list(g.nodes) == ["item", "user"]
    sampler = NeighborSampler(
        [2, 2], prefetch_node_feats={"user": ["x"], "item": ["x"]}, prefetch_edge_feats={"buys": ["w"]}
    )
    nids = {"user": node_split(range(13), g, "user"), "item": [0, 1]} if rank() == 0 else {"user": [], "item": [2]}
    count = 0
    for _, _, blocks in DistNodeDataLoader(g, nids, sampler, batch_size=2, num_workers=1):
        for ntype in ("user", "item"):
            old = g.original_ids("node", ntype, blocks[0].srcnodes[ntype].data[dglite.NID])
            assert torch.equal(blocks[0].srcnodes[ntype].data["x"], whole.nodes[ntype].data["x"][old])
        for block in blocks:
            old = g.original_ids("edge", "buys", block.edges["buys"].data[dglite.EID])
            assert torch.equal(block.edges["buys"].data["w"], whole.edges["buys"].data["w"][old])
        count += sum(len(block) for block in [blocks[-1].dstnodes["user"].data[dglite.NID]])
    assert count == (len(nids["user"]) if rank() == 0 else 0)


def batches_of_edges(folder: Path) -> None:
    g, whole = opened(folder), reference()
    sampler = NeighborSampler([2], prefetch_node_feats=["x"])
    given = as_edge_prediction_sampler(sampler, negative_sampler=Uniform(2), prefetch_labels=["w"])
    eids = edge_split(range(30), g)
    for inputs, pairs, negative, blocks in DistEdgeDataLoader(g, eids, given, batch_size=8, num_workers=1):
        old = g.original_ids("node", None, inputs)
        assert torch.equal(blocks[0].srcdata["x"], whole.ndata["x"][old])
        old = g.original_ids("edge", None, pairs.edata[dglite.EID])
        assert torch.equal(pairs.edata["w"], whole.edata["w"][old]) and negative.num_edges() == 2 * pairs.num_edges()
    other = DistEdgeDataLoader(g, eids, sampler, exclude="self", negative_sampler=Uniform(1), batch_size=8)
    assert len(next(iter(other))) == 4


def a_place_in_an_epoch_is_kept(folder: Path) -> None:
    g = opened(folder)
    batches = loader(g, range(20), batch_size=4, shuffle=True)
    running = iter(batches)
    next(running), next(running)
    state = batches.state_dict()
    rest = [original(g, batch) for batch in running]
    again = loader(g, range(20), batch_size=4, shuffle=True, num_workers=1)
    again.load_state_dict(state)
    assert [original(g, batch) for batch in again] == rest and len(rest) == 3
    assert batches.state_dict() == again.state_dict() == state | {"epoch": 1, "position": 0}


def gradients_of_networks(folder: Path) -> Any:
    """Return by network the losses and gradients of steps of four batches each, however many ranks make them."""
    dglite.seed(1)
    return {name: losses_and_gradients(folder, name) for name in NETWORKS}


def losses_and_gradients(folder: Path, network: str) -> list[tuple[float, dict[str, np.ndarray]]]:
    typed = network == "RGCN"
    g = opened(folder, "h" if typed else "g")
    torch.manual_seed(0)
    # A relation without edges in a batch, or to items in the last layer, has no gradient.
    model = DistributedDataParallel(NETWORKS[network]().double(), find_unused_parameters=typed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if typed:
        old = torch.argsort(g.original_ids("node", "user", range(13)))[:12]
        names, labels = {"user": ["x"], "item": ["x"]}, {"user": ["y"]}
        sampler = NeighborSampler([2, 2], prefetch_node_feats=names, prefetch_labels=labels)
        batches = DistNodeDataLoader(g, {"user": old}, sampler, batch_size=3, shuffle=True, shared=True)
    else:
        batches = loader(g, sorted_by_original(g)[:24], batch_size=6, shuffle=True, shared=True)
    results = []
    for _ in range(2):
        total = torch.zeros((), dtype=torch.float64)
        for _, _, blocks in batches:
            labels = blocks[-1].dstnodes["user"].data["y"] if typed else blocks[-1].dstdata["y"]
            loss = nn.functional.cross_entropy(model(blocks), labels) / len(batches)
            loss.backward()  # each call averages over ranks, so that sums of averages are averages
            total += loss.detach()
        distributed.all_reduce(total)
        grads = {key: p.grad.clone().numpy() for key, p in model.named_parameters() if p.grad is not None}
        results.append((total.item() / world(), grads))
        optimizer.step()
        optimizer.zero_grad()
    return results


def embeddings_are_trained_where_they_are(folder: Path) -> None:
    g = opened(folder)
    draw = torch.Generator().manual_seed(3)
    start = torch.rand(60, 3, generator=draw)
    for optimizer in (SparseAdam, SparseAdagrad):
        table = DistEmbedding(60, 3, "table", part_policy=g.get_node_partition_policy())
        alone = NodeEmbedding.__new__(NodeEmbedding)
        alone.weight, alone.num_embeddings, alone.embedding_dim = start.clone(), 60, 3
        alone.name, alone.world_size, alone.optm_state, alone.trace = "alone", 1, None, []
        table.all_set_embedding(start)
        distributed_step, alone_step = optimizer([table], lr=0.1), optimizer([alone], lr=0.1)
        for step in range(3):
            ids = [
                torch.randint(60, (r * 4,), generator=torch.Generator().manual_seed(9 * step + r))
                for r in range(world())
            ]
            (table(ids[rank()]) ** 2).sum().backward()
            for own in ids:
                (alone(own) ** 2).sum().backward()
            for one in (distributed_step, alone_step):
                one.step(), one.zero_grad()
            torch.testing.assert_close(table.all_get_embedding(), alone.weight)
        assert len(table.weight) == len(g.get_partition_book().partid2nids(rank()))
        (table(torch.tensor([1])) * (float("nan") if rank() == 0 else 1)).sum().backward()
        assert "not finite" in message(distributed_step.step)
    with pytest.raises(DGLError, match="expected 60 rows"):
        DistEmbedding(61, 3, "table", part_policy=g.get_node_partition_policy())


class Training:
    """A model, a table, their optimizers, and a loader, whose steps are of four batches for any number of ranks."""

    def __init__(self, g: DistGraph) -> None:
        torch.manual_seed(0), dglite.seed(2 + rank())
        self.model = NETWORKS["GraphSAGE"]().double()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.rows = DistEmbedding(60, 4, "rows", part_policy=g.get_node_partition_policy())
        self.sparse = SparseAdam([self.rows], lr=0.1)
        self.batches = loader(g, sorted_by_original(g)[:48], batch_size=4, shuffle=True, shared=True, num_workers=1)
        self.running: Any = None

    @property
    def state(self) -> dict[str, Any]:
        names = "model", "optimizer", "rows", "sparse", "batches"
        return {name: getattr(self, name) for name in names}

    def step(self) -> float:
        total = torch.zeros((), dtype=torch.float64)
        for _ in range(4 // world()):
            if (batch := next(self.running, None) if self.running else None) is None:
                self.running = iter(self.batches)
                batch = next(self.running)
            inputs, _, blocks = batch
            blocks[0].srcdata["x"] = blocks[0].srcdata["x"] + self.rows(inputs)
            loss = nn.functional.cross_entropy(self.model(blocks), blocks[-1].dstdata["y"]) / 4
            loss.backward()
            total += loss.detach()
        for value in (total, *(param.grad for param in self.model.parameters())):
            distributed.all_reduce(value)
        for one in (self.optimizer, self.sparse):
            one.step(), one.zero_grad()
        return total.item()


def a_checkpoint_is_gone_on_from(folder: Path) -> Any:
    """Return losses of a training, from a checkpoint of other ranks if there is one, in the middle of an epoch."""
    training, given = Training(opened(folder)), folder / "given"
    first = load_checkpoint(training.state, given) if given.exists() else 0
    losses = {first + i: training.step() for i in range(2)}
    save_checkpoint(training.state, folder / "own", first + 2)
    return losses | {first + 2 + i: training.step() for i in range(2 if given.exists() else 6)}


def torch_saves_and_loads_what_has_a_state(folder: Path) -> None:
    g = opened(folder)
    names = "model", "rows", "sparse", "batches"
    one, other = Training(g), Training(g)
    one.step()
    dcp.save({name: one.state[name] for name in names}, checkpoint_id=folder / "torch")
    dcp.load({name: other.state[name] for name in names}, checkpoint_id=folder / "torch")
    assert torch.equal(one.rows.weight, other.rows.weight) and other.rows.weight.any()
    assert all(map(torch.equal, one.rows.optm_state, other.rows.optm_state))
    assert one.batches.state_dict() == other.batches.state_dict()
    whole = one.rows.state_dict()["weight"].full_tensor()
    other.rows.all_set_embedding(torch.zeros(60, 4))
    other.rows.load_state_dict({"weight": whole})
    assert torch.equal(one.rows.weight, other.rows.weight)
    nodes = range(60)
    assert torch.equal(one.rows.dist_tensor[nodes], whole[g.original_ids("node", None, nodes)])
    assert "expected a weight" in message(lambda: other.rows.load_state_dict({"weight": whole[1:]}))
    few = DistTensor((3, 2), torch.int32, "few", None, PartitionPolicy(g.exchange, Ranges([0] + [3] * world(), "row")))
    few.local += 1
    saved = in_original_order(few, few.local)
    assert torch.equal(saved.full_tensor(), torch.ones(3, 2, dtype=torch.int32))
    assert torch.equal(from_original_order(few, saved), few.local)


class Unwritable(torch.Tensor):
    """A tensor that cannot be saved."""

    def detach(self) -> Any:
        raise OSError("the disk is full")


def a_checkpoint_is_whole_or_not_there(folder: Path) -> None:
    place = folder / "several"
    assert load_checkpoint({}, place) is None
    for step in range(3):
        save_checkpoint({"x": torch.tensor([step]), "epoch": step}, place, step)
    assert len(list(place.iterdir())) == 3
    assert "the disk is full" in message(lambda: save_checkpoint({"x": Unwritable(torch.zeros(2))}, place, 3))
    left = sorted(path.name for path in place.iterdir())
    assert len(left) == 4 and left[2].startswith("00000003")
    results = {"x": torch.tensor([7]), "epoch": 0}
    assert load_checkpoint(results, place) == 2 and results["x"].tolist() == [2] and results["epoch"] == 2
    save_checkpoint(results, place, 2, keep=1)
    distributed.barrier()
    assert len(list(place.iterdir())) == 2


def checkpoints_that_do_not_fit(folder: Path) -> None:
    place, last = folder / "odd", world() - 1
    assert "step=-1" in message(lambda: save_checkpoint({}, place, -1 if rank() == last else 0))
    if world() > 1:
        assert "differs between ranks" in message(lambda: save_checkpoint({}, place, rank()))
        assert "differs between ranks" in message(lambda: load_checkpoint({str(rank()): 1}, place))
        own = folder / f"own{rank()}"
        assert "give a folder that all ranks share" in message(lambda: save_checkpoint({}, own, 1))
    assert not place.exists()
    x = torch.ones(2)
    own = save_checkpoint({"x": x}, place, 1)
    assert "missing" in message(lambda: load_checkpoint({"x": x, "y": x}, place)).lower()
    assert "Size mismatch" in message(lambda: load_checkpoint({"x": torch.ones(3)}, place))
    distributed.barrier()
    if rank() == 0:
        shutil.rmtree(own)
    distributed.barrier()
    assert "is not there" in message(lambda: load_checkpoint({"x": x}, place))
    if rank() == 0:
        (place / "checkpoints.json").write_text("[1]")
    distributed.barrier()
    assert "checkpoints.json is damaged" in message(lambda: load_checkpoint({"x": x}, place))


def partitions_that_do_not_fit(folder: Path) -> None:
    def refused(config: Path, name: str = "g", **options: Any) -> str:
        return message(lambda: DistGraph(name, config, timeout=PATIENCE, **options))

    good, last = folder / "g" / "g.json", world() - 1
    assert "is of graph 'g', not of 'other'" in refused(good, "other")
    assert "3 parts, but there are" in refused(folder / "three" / "g.json")
    assert "cannot be read" in refused(good if rank() != last else folder / "nowhere.json")
    if world() > 1:
        assert "version of the partition differs" in refused(good if rank() else folder / "again" / "g.json")
    own = folder / f"copy{rank()}"
    shutil.copytree(folder / "g", own)
    feats = own / f"part{rank()}" / "node_feats.safetensors"
    whole = feats.read_bytes()
    if rank() == last:
        feats.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "is damaged" in refused(own / "g.json", verify=True)
    if rank() == last:
        feats.unlink()
    assert f"rank {last}: DGLError" in refused(own / "g.json")
