"""What each process does in benchmarks/distributed.py, and how processes are started on this machine.

Bytes are predicted from the partition and the batches alone: see :func:`predicted_batches` and :func:`predicted_step`.
"""

from __future__ import annotations

import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from common import OURS
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dglite
from dglite.dataloading import NeighborSampler, ScheduledFeatures
from dglite.distributed import DistEmbedding, DistGraph, DistNodeDataLoader, FeatureSplit, FullGraph, node_split
from dglite.distributed.optim import SparseAdam
from dglite.nn import SAGEConv

NAME, AHEAD = "g", "with a worker ahead, ms"
FANOUTS, HIDDEN, CLASSES, EMBEDDING = [10, 10], 32, 8, 16
AMPLE = 1 << 34
"""Bytes for a schedule in which every row fits."""


# -- processes ---------------------------------------------------------------------------------------------------------
def _run(rank: int, world: int, folder: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    result = function(rank, *args)
    Path(folder, str(rank)).write_bytes(pickle.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def together(world: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what ``function(rank, *args)`` returns in each of ``world`` new processes."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_run, (world, folder, function, args), nprocs=world)
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(world)]


def loopback_bytes() -> int:
    """Return what this machine has sent to itself by the network so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.split()[0] == "lo:")


def proportional() -> int:
    """Return this process's resident bytes, a page that n processes share counted as an nth."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


# -- batches -----------------------------------------------------------------------------------------------------------
class GraphSAGE(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = SAGEConv(width, HIDDEN, "mean", activation=torch.relu)
        self.second = SAGEConv(HIDDEN, CLASSES, "mean")

    def forward(self, blocks: Any, x: torch.Tensor) -> torch.Tensor:
        return self.second(blocks[1], self.first(blocks[0], x))


def make_loader(
    graph: DistGraph, batch_size: int, workers: int = 0, labels: bool = True, source: Any = None
) -> DistNodeDataLoader:
    """Return a loader of this rank's share of the training nodes; ``source`` is where features come from."""
    features: Any = ["x"] if source is None else {"x": source}
    sampler = NeighborSampler(FANOUTS, prefetch_node_feats=features, prefetch_labels=["y"] if labels else [])
    nodes = node_split(graph.ndata["train"], graph.get_partition_book())
    return DistNodeDataLoader(graph, nodes, sampler, batch_size=batch_size, shuffle=True, num_workers=workers)


def train_epoch(rank: int, config: str, batch_size: int) -> dict[str, Any]:
    """Train GraphSAGE on features and embeddings for an epoch; return the batches, and what was counted."""
    graph = DistGraph(NAME, config)
    table = DistEmbedding(graph.num_nodes(), EMBEDDING, "table", part_policy=graph.get_node_partition_policy())
    network = GraphSAGE(graph.ndata["x"].shape[1] + EMBEDDING)
    model = DistributedDataParallel(network)
    optimizer, sparse = torch.optim.Adam(model.parameters()), SparseAdam([table], lr=0.01)
    loader = make_loader(graph, batch_size, workers=1)
    inputs, seeds = [], []
    graph.barrier()
    before, of_rows, of_batches = loopback_bytes(), graph.exchange.sent.copy(), loader.exchange.sent.copy()
    graph.barrier()
    for source, own, blocks in loader:
        inputs.append(source.numpy().astype(np.int64))
        seeds.append(own.numpy().astype(np.int64))
        logits = model(blocks, torch.cat([blocks[0].srcdata["x"], table(source)], 1))
        loss = nn.functional.cross_entropy(logits, blocks[-1].dstdata["y"], reduction="sum")
        (loss / batch_size).backward()
        optimizer.step(), sparse.step()
        optimizer.zero_grad(), sparse.zero_grad()
    graph.barrier()
    after = loopback_bytes()
    graph.barrier()
    return {
        "inputs": inputs,
        "seeds": seeds,
        "loader": loader.exchange.sent - of_batches,
        "table": graph.exchange.sent - of_rows,
        "wire": after - before,
        "parameters": sum(p.numel() for p in network.parameters()),
    }


BARRIERS = 3
"""Between the copy of the counters and their last reading."""


def predicted_batches(bounds: np.ndarray, results: list[dict[str, Any]], width: int) -> dict[str, int]:
    """Return the bytes of an epoch of :func:`train_epoch` that all ranks send, by kind.

    A row of another part is sent for once a batch: 8 bytes for its id there, the row back; an embedding's id and
    gradient go to its owner once more. Each request has the number of rows by tensor in 8 bytes, and each exchange
    begins with 24 bytes from each rank to each other. The model's gradients are summed along a ring.
    """
    rows = labels = 0
    for rank, of in enumerate(results):
        first, last = bounds[rank], bounds[rank + 1]
        rows += sum(int(((ids < first) | (ids >= last)).sum()) for ids in of["inputs"])
        labels += sum(int(((ids < first) | (ids >= last)).sum()) for ids in of["seeds"])
    world, batches = len(results), len(results[0]["inputs"])
    pairs = world * (world - 1)
    return {
        "counts": 24 * pairs * (3 * batches + BARRIERS),
        "ids": 8 * (3 * rows + labels + 3 * pairs * batches),
        "features": 4 * width * rows + 8 * labels,
        "embeddings": 4 * EMBEDDING * rows,
        "gradients of embeddings": 4 * EMBEDDING * rows,
        "gradients of the model": 2 * (world - 1) * 4 * results[0]["parameters"] * batches,
    }


def counted_batches(results: list[dict[str, Any]]) -> dict[str, int]:
    """Return what was counted by all ranks of :func:`train_epoch`, by kind; torch does not count its own."""

    def total(exchange: str, kind: str) -> int:
        return sum(of[exchange][kind] for of in results)

    return {
        "counts": total("loader", "counts") + total("table", "counts"),
        "ids": total("loader", "ids") + total("table", "ids"),
        "features": total("loader", "features"),
        "embeddings": total("table", "features"),
        "gradients of embeddings": total("table", "gradients"),
    }


def cache_rates(rank: int, config: str, batch_size: int, shares: list[float]) -> list[dict[str, float]]:
    """Return for each size of the cache the hit rate, and the bytes of features sent, in an epoch.

    Once rows are chosen by sampling another epoch, before; once they are scheduled by Belady's rule.
    """
    graph = DistGraph(NAME, config)
    x, loader, results = graph.ndata["x"], make_loader(graph, batch_size, labels=False), []
    for share in shares:
        x.cache(loader.hot_rows(int(share * graph.num_nodes())))
        for _ in range(2):
            hits, misses, sent = x.hits, x.misses, loader.exchange.sent["features"]
            for _ in loader:
                pass
        hits, misses = x.hits - hits, x.misses - misses
        sent = loader.exchange.sent["features"] - sent
        result = {"hits": hits, "misses": misses, "bytes": sent, "fetched": misses, "scheduled bytes": sent}
        x.cache([])
        planned, room = ScheduledFeatures(x, AMPLE), int(share * graph.num_nodes())
        _last_of_epochs(graph, batch_size, planned)
        if room:
            scheduled = ScheduledFeatures(x, AMPLE - (planned.capacity - room) * x.local[0].nbytes)
            sent = _last_of_epochs(graph, batch_size, scheduled)
            result |= {"fetched": scheduled.planned_reads, "scheduled bytes": sent}
        results.append(result)
    return results


def _last_of_epochs(graph: DistGraph, batch_size: int, source: ScheduledFeatures) -> int:
    """Go through two epochs, the same each time; return the bytes of features that were sent in the second."""
    dglite.seed(1)
    loader = make_loader(graph, batch_size, labels=False, source=source)
    for _ in range(2):
        sent = loader.exchange.sent["features"]
        for _ in loader:
            pass
    return loader.exchange.sent["features"] - sent


def time_batches(rank: int, config: str, batch_size: int, epochs: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of a batch, sampled and with its features, over epochs after the first.

    Once sampled and fetched in turns, and once ahead by threads.
    """
    graph, results = DistGraph(NAME, config), {}
    for workers, name in enumerate((OURS, AHEAD)):
        loader, seconds, rows = make_loader(graph, batch_size, workers, labels=False), [], 0
        for _ in range(epochs + 1):
            graph.barrier()
            start = time.perf_counter()
            for inputs, _, _ in loader:
                rows += len(inputs)
            seconds.append((time.perf_counter() - start) / len(loader))
        results[name] = {"seconds": statistics.median(seconds[1:]), "rows": rows / len(loader) / (epochs + 1)}
    return results


def memory_of_rank(rank: int, config: str, batch_size: int) -> dict[str, int]:
    """Return how much a rank's memory has grown with the graph open and all of its part read, and at most in training.

    Everything is imported and compiled before, on a graph of a few nodes.
    """
    warm = dglite.rand_graph(100, 1000)
    NeighborSampler([2]).sample(warm, torch.arange(10))
    dist.barrier()
    before = proportional()
    dist.barrier()
    graph = DistGraph(NAME, config)
    float(graph.ndata["x"].local.sum())
    sum(int(of.max()) for of in graph.topology.adj_tensors("csc")[:2])
    graph.barrier()
    opened = proportional() - before
    graph.barrier()
    most = opened
    for step, _ in enumerate(make_loader(graph, batch_size, workers=1)):
        if step % 4 == 0:
            most = max(most, proportional() - before)
    graph.barrier()
    return {"opened": opened, "most": most}


# -- the whole graph ---------------------------------------------------------------------------------------------------
def train_step(rank: int, path: str, starts: list[int], widths: list[int]) -> dict[str, dict[str, int]]:
    """Make a step of a GCN by halos and by columns; return the bytes that were counted, by kind."""
    edges = np.load(path)
    src, dst = edges["src"], edges["dst"]
    mine = (dst >= starts[rank]) & (dst < starts[rank + 1])
    halos = FullGraph((torch.from_numpy(src[mine]), torch.from_numpy(dst[mine])), starts)
    result = dict(halos.bytes)
    weights = halos.gcn_weights()
    whole = dglite.graph((src, dst), num_nodes=starts[-1])
    columns = FeatureSplit(whole, starts)
    x = torch.randn(halos.num_nodes(), widths[0])
    results = {"making": result}
    for name, graph, edge_weight in (("nodes", halos, weights), ("features", columns, None)):
        torch.manual_seed(1)
        first, second = nn.Linear(*widths), nn.Linear(widths[1], CLASSES)
        graph.bytes.clear()
        h = first(graph.aggregate(x, edge_weight)).relu()
        second(graph.aggregate(h, edge_weight)).square().mean().backward()
        results[name] = dict(graph.bytes)
    return results


def halo_sizes(src: np.ndarray, dst: np.ndarray, starts: list[int]) -> list[int]:
    """Return for each part how many different nodes of others its edges come from."""
    sizes = []
    for first, last in pairwise(starts):
        of = np.zeros(starts[-1], bool)
        of[src[(dst >= first) & (dst < last)]] = True
        of[first:last] = False
        sizes.append(int(of.sum()))
    return sizes


def predicted_step(halo: int, starts: list[int], widths: list[int]) -> dict[str, dict[str, int]]:
    """Return the bytes that all ranks receive in :func:`train_step`, by kind.

    Features are given, so that only the second sum has gradients to send.
    """
    counts, nodes = np.diff(starts), starts[-1]
    world = len(counts)

    def turned(width: int) -> int:
        columns = np.diff([width * part // world for part in range(world + 1)])
        return 2 * 4 * int(((nodes - counts) * columns).sum())

    return {
        "making": {"ids": 8 * (halo + world * (world - 1))},
        "nodes": {"halos": 4 * halo * sum(widths), "gradients": 4 * halo * widths[1]},
        "features": {"columns": sum(map(turned, widths)), "gradients": turned(widths[1])},
    }
