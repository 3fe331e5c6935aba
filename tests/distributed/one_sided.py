"""What ranks check of one-sided reads; see test_one_sided.py."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed

import dglite
from dglite.dataloading import NeighborSampler
from dglite.distributed import DistEdgeDataLoader, DistEmbedding, DistGraph, DistNodeDataLoader, DistTensor, node_split
from dglite.distributed import store as store_module
from dglite.distributed.optim import SparseAdam
from dglite.errors import DGLError
from tests.distributed.checks import everywhere, message, original, rank, reference, world
from tests.patience import PATIENCE

NAMES = [
    "one_rank_reads_alone",
    "rows_of_other_machines_are_read_alone",
    "writes_are_read_after_a_barrier",
    "loaders_of_ranks_differ",
    "types_are_read_alone",
    "several_ranks_share_a_part",
    "persistent_tensors_share_rows",
    "policies_are_inferred",
    "embeddings_are_read_alone",
    "arguments_that_do_not_fit",
]


@cache
def opened(folder: Path, name: str = "g", machines: int = 1, parts: str = "") -> DistGraph:
    """Return a graph whose ranks behave as if they ran on several machines."""
    store_module.machine_name = lambda: f"machine {rank() % machines}"  # type: ignore[assignment]
    return DistGraph(name, folder / (parts or name) / f"{name}.json", timeout=PATIENCE, reads="one-sided")


def one_rank_reads_alone(folder: Path, machines: int = 1) -> None:
    g, whole = opened(folder, machines=machines), reference()
    if rank() == 0:  # nobody else takes part
        for ids in (np.random.default_rng(0).integers(0, 60, 50), torch.arange(60), [3, 3, 3], range(0), slice(10, 50)):
            old = torch.arange(60)[ids] if isinstance(ids, slice) else ids
            old = g.original_ids("node", None, old)
            for name in ("x", "half", "y", "train"):
                assert torch.equal(g.ndata[name][ids], whole.ndata[name][old]), name
        edges = torch.randint(400, (30,))
        assert torch.equal(g.edata["w"][edges], whole.edata["w"][g.original_ids("edge", None, edges)])
        with pytest.raises(DGLError, match="id 60 does not exist"):
            g.ndata["x"][[60]]
        with pytest.raises(DGLError, match="integers"):
            g.ndata["x"][[0.5]]
    assert torch.equal(node_split(g.ndata["train"]), node_split(whole.ndata["train"][sorted_ids(g)], g))
    g.barrier()


def sorted_ids(g: DistGraph) -> torch.Tensor:
    return g.original_ids("node", None, range(60))


def rows_of_other_machines_are_read_alone(folder: Path) -> None:
    one_rank_reads_alone(folder, world())
    store = opened(folder, machines=world()).store
    assert store is not None and sum(store.neighbors) == 1


def writes_are_read_after_a_barrier(folder: Path) -> None:
    for machines in {1, world()}:
        g = opened(folder, machines=machines)
        table = DistTensor((60, 2), torch.float32, "table", lambda shape, dtype: torch.full(shape, -1.0))
        if rank() == world() - 1:
            table[range(0, 60, 2)] = torch.arange(0.0, 60, 2)[:, None].expand(-1, 2)
            table[[7, 7]] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        g.barrier()
        expected = torch.where(torch.arange(60) % 2 == 0, torch.arange(60.0), torch.tensor(-1.0))
        expected = expected[:, None].repeat(1, 2)
        expected[7] = torch.tensor([3.0, 4.0])
        assert torch.equal(table[:], expected) and table.count_nonzero() == 118
        bfloat = DistTensor((60,), torch.bfloat16, "bfloat", lambda shape, dtype: torch.ones(shape, dtype=dtype))
        assert torch.equal(bfloat[:], torch.ones(60, dtype=torch.bfloat16))
        g.barrier()


def loaders_of_ranks_differ(folder: Path) -> None:
    g, whole = opened(folder, machines=world()), reference()
    sampler = NeighborSampler([3, 2], prefetch_node_feats=["x"], prefetch_labels=["y"])
    for workers in (0, 2):
        for _ in range(1 + rank()):  # one rank makes more loaders than another
            batches = DistNodeDataLoader(g, range(10 + 5 * rank()), sampler, batch_size=4, num_workers=workers)
            count = 0
            for inputs, seeds, blocks in batches:
                old = g.original_ids("node", None, inputs)
                assert torch.equal(blocks[0].srcdata["x"], whole.ndata["x"][old]) and len(seeds)
                assert torch.equal(g.ndata["x"][inputs], whole.ndata["x"][old])  # beside the loader's thread
                original(g, (inputs, seeds, blocks))
                count += 1
            assert count == len(batches) == -(-(10 + 5 * rank()) // 4)
    pairs = DistEdgeDataLoader(g, range(rank(), 20), NeighborSampler([2]), batch_size=6)
    assert sum(pos.num_edges() for _, pos, _ in pairs) == 20 - rank()
    with pytest.raises(DGLError, match="reads='collective'"):
        DistNodeDataLoader(g, range(4), sampler, shared=True)
    g.barrier()


def types_are_read_alone(folder: Path) -> None:
    g, whole = opened(folder, "h", world()), reference("h")
    if rank() == world() - 1:
        for ntype, count in (("user", 13), ("item", 9)):
            old = g.original_ids("node", ntype, range(count))
            assert torch.equal(g.nodes[ntype].data["x"][:], whole.nodes[ntype].data["x"][old])
    g.barrier()


def several_ranks_share_a_part(folder: Path) -> None:
    for reads in ("one-sided", "collective"):
        for name in ("g", "h"):
            g = DistGraph(name, folder / f"{name} in one" / f"{name}.json", timeout=PATIENCE, reads=reads)
            whole, book = reference(name), g.get_partition_book()
            assert book.num_partitions() == world() and book.partid == rank()
            for kind, frames in (("node", whole.nodes), ("edge", whole.edges)):
                for type_, ranges in book.ranges_by_type(kind).items():
                    ids = torch.arange(ranges.count)
                    old = g.original_ids(kind, type_, ids)
                    for column, tensor in g.frame(kind, type_).items():
                        assert torch.equal(tensor[ids], frames[type_].data[column][old])
                        first, last = ranges.range_of(rank())
                        assert len(tensor.local) == last - first
            for etype in g.canonical_etypes:  # an edge belongs to the rank of its destination
                ids = book.partid2eids(rank(), etype)
                _, dst = g.find_edges(ids, etype)
                assert (book.nid2partid(dst, etype[2]) == rank()).all()
            halo = g.local_partition()
            assert halo.num_edges() == whole.num_edges()  # the part of this machine
    g.barrier()


def persistent_tensors_share_rows(folder: Path) -> None:
    for g in (opened(folder), DistGraph("g", folder / "g" / "g.json", timeout=PATIENCE)):
        policy = g.get_node_partition_policy()
        first = DistTensor((60, 2), torch.float32, "kept", part_policy=policy, persistent=True)
        first[range(60)] = torch.ones(60, 2)
        g.barrier()
        again = DistTensor((60, 2), torch.float32, "kept", part_policy=policy)
        assert torch.equal(again[range(60)], torch.ones(60, 2)) and again.name == "kept"
        other = DistTensor((60, 2), torch.float32, "other", part_policy=policy)
        assert not other[range(60)].any()
        with pytest.raises(DGLError, match="use another name"):
            DistTensor((60, 3), torch.float32, "kept", part_policy=policy)
        with pytest.raises(DGLError, match="needs a name"):
            DistTensor((60, 2), torch.float32, part_policy=policy, persistent=True)
        g.barrier()


def policies_are_inferred(folder: Path) -> None:
    g = DistGraph("h", folder / "h" / "h.json", timeout=PATIENCE, reads="one-sided")
    for count, label in ((13, "'user' node"), (9, "'item' node"), (50, "('user', 'buys', 'item') edge")):
        assert DistTensor((count,), torch.int64).part_policy.ranges.label == label
    with pytest.raises(DGLError, match="no types have 7 rows"):
        DistTensor((7,), torch.int64)
    del g


def embeddings_are_read_alone(folder: Path) -> None:
    g = opened(folder, machines=world())
    table = DistEmbedding(60, 3, "rows", lambda x: x.fill_(1.0), g.get_node_partition_policy())
    optimizer = SparseAdam([table], lr=0.1)
    if rank() == 0:
        with torch.no_grad():
            assert torch.equal(table(torch.arange(60)), torch.ones(60, 3))
    table(torch.arange(60)[rank() :: world()]).sum().backward()
    if rank() == world() - 1:
        update = optimizer.update
        optimizer.update = lambda *rows: (time.sleep(0.5), update(*rows))  # the others read while it has not written
    optimizer.step()
    assert torch.allclose(table(torch.arange(60)), torch.full((60, 3), 0.9))
    g.barrier()
    table.all_set_embedding(torch.full((60, 3), 5.0))
    assert torch.equal(table(torch.arange(60)), torch.full((60, 3), 5.0))
    g.barrier()


def arguments_that_do_not_fit(folder: Path) -> None:
    def refused(**options: Any) -> str:
        return message(lambda: DistGraph("g", folder / "g" / "g.json", timeout=PATIENCE, **options))

    assert "reads='never'" in refused(reads="never")
    assert "reads='collective'" in refused(reads="one-sided", topology="partitioned")
    with pytest.raises(DGLError, match="without a cache"):
        opened(folder).ndata["x"].cache([1])
    with pytest.raises(DGLError, match="partition book"):
        node_split(range(3))
    assert dglite.distributed.DistTensor is DistTensor
    shared = Path("/dev/shm")
    if shared.is_dir():  # what is mapped has no name, so that nothing is left of a rank that is killed
        assert not [path for path in shared.iterdir() if f"rows-{os.getpid()}-" in path.name]
    if world() > 1:
        assert everywhere(opened(folder).exchange.sent["features"]) == [0] * world()
    distributed.barrier()
