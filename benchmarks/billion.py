"""Tables of any size to a graph on disk with a memory limit, and batches of it: seconds, rates and resident memory.

    python benchmarks/billion.py                            100M nodes, 1.2G edges, 25 GB of features: 105 GB of disk
    python benchmarks/billion.py --nodes 1e7 --edges 1e8                        10 GB of disk
    python benchmarks/billion.py --nodes 2e6 --edges 2e7 --width 16 --memory "500 MB" --limits "200 MB"
    python benchmarks/billion.py --sparse-ids               ids with gaps, which need a look-up
    python benchmarks/billion.py --apart                    features written as an array, not converted: 55 GB of disk
    python benchmarks/billion.py --folder /mnt/disk         where files are made; they are removed afterwards

Edges are of a power law, in Parquet files of 10M rows, sources and destinations in random order. Converting runs in a
process of its own, whose anonymous memory (``RssAnon``, without pages of files that the system may drop) is watched.
Then GraphSAGE [15, 10, 5] trains on some batches with features on disk: without a cache, in memory, and by schedules
with limits of memory, whose hits are beside Belady's bound, computed in another way, and whose losses are compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import save, table

from dglite.data import GraphFolder, convert_tables, estimate_conversion
from dglite.dataloading import DataLoader, MappedFeatures, NeighborSampler, ScheduledFeatures, TensorFeatures
from dglite.errors import DGLError
from dglite.nn import SAGEConv

FILE, GROUP, HIDDEN, KEPT = 10_000_000, 1_000_000, 64, 1_000_000_000
"""Rows of a file, and of a row group; width of the model; the minimum number of edges at which results are kept."""


def node_ids(numbers: np.ndarray, sparse: bool) -> np.ndarray:
    """Return the ids of nodes; sparse ones are 63 bits, in no order."""
    return numbers * 6364136223846793005 & (2**63 - 1) if sparse else numbers


def write_nodes(path: Path, num_nodes: int, width: int, sparse: bool) -> None:
    """Write the Parquet file of nodes, with their features unless ``width`` is 0."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), *([("x", pa.list_(pa.float16(), width))] if width else [])])
    rows = max(1, min(GROUP, (1 << 26) // (2 * max(width, 1))))
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for first in range(0, num_nodes, rows):
            ids = np.arange(first, min(first + rows, num_nodes))
            columns = [pa.array(node_ids(ids, sparse))]
            if width:
                x = rng.random((len(ids), width), np.float32).astype(np.float16)
                columns.append(pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), width))
            writer.write_table(pa.table(columns, schema=schema))


def write_features(path: Path, num_nodes: int, width: int) -> None:
    """Write the features of nodes as an array."""
    rng = np.random.default_rng(0)
    features = np.lib.format.open_memmap(path, "w+", np.float16, (num_nodes, width))
    for first in range(0, num_nodes, GROUP):
        rows = features[first : first + GROUP]
        rows[:] = rng.random(rows.shape, np.float32)
        features.flush()


def write_edges(folder: Path, num_nodes: int, num_edges: int, sparse: bool) -> None:
    """Write the Parquet files of edges."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    for number, first in enumerate(range(0, num_edges, FILE)):
        schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
        with pq.ParquetWriter(folder / f"edges{number:04}.parquet", schema) as writer:
            for start in range(first, min(first + FILE, num_edges), GROUP):
                count = min(GROUP, num_edges - start)
                src, dst = ((rng.random(count) ** power * num_nodes).astype(np.int64) for power in (1, 3))
                writer.write_table(pa.table({"src": node_ids(src, sparse), "dst": node_ids(dst, sparse)}))


def resident() -> int:
    """Return the anonymous memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10


def convert(folder: Path, memory: str) -> None:
    """Convert, and print as JSON the seconds and the highest anonymous memory beyond what was there before."""
    before, highest, is_done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not is_done.wait(0.02):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    convert_tables(folder / "nodes.parquet", str(folder / "edges*.parquet"), folder / "graph", memory=memory)
    seconds = time.perf_counter() - start
    is_done.set()
    watcher.join()
    print(json.dumps({"seconds": seconds, "memory": highest - before}))


class Model(torch.nn.Module):
    """GraphSAGE of three layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(SAGEConv(w, HIDDEN, "mean") for w in (width, HIDDEN, HIDDEN))

    def forward(self, blocks: list, x: torch.Tensor) -> torch.Tensor:
        """Return the result of the last layer."""
        for layer, block in zip(self.layers, blocks, strict=True):
            x = layer(block, x).relu()
        return x


class Part(NamedTuple):
    """A part of an epoch: seconds to the first batch and for each other, rows of all, their losses, highest memory."""

    first: float
    seconds: float
    rows: list[np.ndarray]
    losses: list[float]
    memory: int


def epoch(folder: GraphFolder, store: Any, batches: int, workers: int) -> Part:
    """Go through some batches of 1000 seeds, and train with them; the same ones for any store."""
    g = folder.graph
    sampler = NeighborSampler([15, 10, 5], prefetch_node_feats={"x": store})
    seeds = torch.from_numpy(np.random.default_rng(1).choice(g.num_nodes(), 1000 * batches, replace=False))
    generator = torch.Generator().manual_seed(0)
    rows, losses, highest, start = [], [], 0, 0.0
    torch.manual_seed(0)
    model: Any = None
    begin = time.perf_counter()
    for inputs, _, blocks in DataLoader(g, seeds, sampler, batch_size=1000, num_workers=workers, generator=generator):
        start = start or time.perf_counter()
        rows.append(inputs.numpy().astype(np.int32 if g.num_nodes() < 2**31 else np.int64))
        x = blocks[0].srcdata["x"].float()
        model = model or Model(x.shape[1])
        loss = (model(blocks, x) - 1).square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.01 * weight.grad
        losses.append(loss.item())
        highest = max(highest, resident())
    return Part(start - begin, (time.perf_counter() - start) / max(batches - 1, 1), rows, losses, highest)


def fewest_reads(requests: list[np.ndarray], capacity: int, num_rows: int) -> int:
    """Return the reads of Belady's rule, from the times of next use of all rows, batch after batch."""
    never = len(requests)
    due, following = np.full(num_rows, never, np.int32), []
    for number in reversed(range(never)):
        following.append(due[requests[number]])
        due[requests[number]] = number
    due[:] = never
    reads = 0
    for rows in requests:
        reads += int((due[rows] == never).sum())
        due[rows] = following.pop()
        waiting = np.flatnonzero(due < never)
        if len(waiting) > capacity:
            due[waiting[np.argpartition(due[waiting], capacity)[capacity:]]] = never
    return reads


def forget(path: Path) -> None:
    """Let the system drop a file's pages."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bandwidth(path: Path) -> float:
    """Return the bytes a second of reading a file from its beginning, at most 4 GB of it, from the disk."""
    forget(path)
    start, count = time.perf_counter(), 0
    with path.open("rb", buffering=0) as file:
        while count < 4 << 30 and (part := len(file.read(1 << 24))):
            count += part
    return count / (time.perf_counter() - start)


def train(folder: GraphFolder, path: Path, batches: int, limits: list[str]) -> list[dict[str, Any]]:
    """Return a record for each way to hold features: rates, hits beside Belady's bound, whether losses are the same."""

    def mapped() -> MappedFeatures:
        forget(path)
        return MappedFeatures(path, widen=False)

    row_bytes = mapped().rows([0]).nbytes
    epoch(folder, mapped(), 1, 0)  # compiles
    plain = epoch(folder, mapped(), batches, 1)
    asked = sum(map(len, plain.rows))

    def record(store: str, workers: int, part: Part, **more: Any) -> dict[str, Any]:
        result = {"store": store, "workers": workers, "first": part.first, "seconds": part.seconds}
        result |= {"rows": asked / batches, "same": part.losses == plain.losses, **more}
        print(json.dumps(result), flush=True)
        return result

    records = [record("mapped", 1, plain)]
    if path.stat().st_size < os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.7:
        in_memory = epoch(folder, TensorFeatures(np.load(path), widen=False), batches, 1)
        records.append(record("in memory", 1, in_memory))
    for limit, workers in itertools.product(limits, (1, 2)):
        store, before = ScheduledFeatures(mapped(), limit), resident()
        try:
            part = epoch(folder, store, batches, workers)
        except DGLError as error:
            print(f"{limit}: {error}")
            continue
        hits = {"hits": store.hit_rate}
        hits["bound"] = 1 - fewest_reads(part.rows, store.capacity, folder.graph.num_nodes()) / asked
        read = store.misses * row_bytes
        records.append(record(f"schedule, {limit}", workers, part, read=read, memory=part.memory - before, **hits))
    return records


def stores_table(records: list[dict[str, Any]]) -> str:
    """Return one row for each way to hold features."""
    header = ["features", "workers", "s to the first batch", "s for each other", "thousand rows a second"]
    header += ["MB read", "hits", "Belady's bound", "MB more memory", "losses"]
    rows = []
    for each in records:
        row = [each["store"], f"{each['workers']}", f"{each['first']:.1f}", f"{each['seconds']:.2f}"]
        row.append(f"{each['rows'] / each['seconds'] / 1e3:,.0f}")
        if "hits" in each:
            row += [f"{each['read'] / 1e6:,.0f}", f"{each['hits']:.2%}", f"{each['bound']:.2%}"]
            row.append(f"{each['memory'] / 2**20:,.0f}")
        else:
            row += [""] * 4
        rows.append([*row, "the same" if each["same"] else "OTHER"])
    return table(header, rows)


def billion_table(record: dict[str, Any]) -> str:
    """Return the sizes, the conversion, and a table of the ways to hold features."""
    seconds, memory = record["convert"]["seconds"], record["convert"]["memory"] / 2**30
    text = (
        f"{record['nodes']:,} nodes, {record['edges']:,} edges, {record['width']} features of float16. Converted with "
        f'`memory="{record["memory"]}"` in {seconds:,.0f} s with {memory:.1f} GB more memory at most; opened in '
        f"{record['open']:.3f} s. {record['batches']} batches of 1,000 seeds, fan-outs [15, 10, 5]. No features were "
        "in memory before each row; the structure came into memory with the first ones, so that only the last rows are "
        f"alike. From beginning to end, the disk reads {record['disk'] / 1e6:,.0f} MB a second."
    )
    return f"{text}\n\n{stores_table(record['stores'])}"


def main() -> None:
    """Run the steps, print, save."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=float, default=1e8)
    options.add_argument("--edges", type=float, default=1.2e9)
    options.add_argument("--width", type=int, default=128)
    options.add_argument("--memory", default="8 GB")
    options.add_argument("--batches", type=int, default=20)
    options.add_argument("--limits", nargs="+", default=["1 GB", "4 GB"], help="memory for features, by Belady's rule")
    options.add_argument("--sparse-ids", action="store_true")
    options.add_argument("--apart", action="store_true", help="write features as an array after the conversion")
    options.add_argument("--folder", type=Path)
    options.add_argument("--convert", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.convert:
        convert(arguments.convert, arguments.memory)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        num_nodes, sparse = int(arguments.nodes), arguments.sparse_ids
        write_nodes(folder / "nodes.parquet", num_nodes, 0 if arguments.apart else arguments.width, sparse)
        write_edges(folder, num_nodes, int(arguments.edges), sparse)
        tables = folder / "nodes.parquet", str(folder / "edges*.parquet"), folder / "graph"
        print(estimate_conversion(*tables, memory=arguments.memory))
        command = [sys.executable, __file__, "--convert", name, "--memory", arguments.memory]
        converted = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(json.dumps(converted), flush=True)
        start = time.perf_counter()
        graph = GraphFolder(folder / "graph")
        num_edges = graph.graph.num_edges()
        opened = time.perf_counter() - start
        for path in folder.glob("*.parquet"):
            path.unlink()
        features = folder / "features.npy" if arguments.apart else graph.feature_file("_N", "x")
        if arguments.apart:
            write_features(features, num_nodes, arguments.width)
        record = {
            "nodes": num_nodes,
            "edges": num_edges,
            "width": arguments.width,
            "memory": arguments.memory,
            "batches": arguments.batches,
            "convert": converted,
            "open": opened,
            "disk": bandwidth(features),
        }
        record["stores"] = train(graph, features, arguments.batches, arguments.limits)
    print(billion_table(record))
    if num_edges >= KEPT:
        save("billion", record)


if __name__ == "__main__":
    main()
