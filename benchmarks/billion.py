"""Tables of any size to a graph on disk with a memory limit, and batches of it: seconds, rates and resident memory.

    python benchmarks/billion.py                            100M nodes, 1.2G edges, 25 GB of features
    python benchmarks/billion.py --nodes 2e6 --edges 2e7 --width 16 --memory "500 MB"
    python benchmarks/billion.py --sparse-ids               ids with gaps, which need a look-up
    python benchmarks/billion.py --folder /mnt/disk         where files are made; they are removed afterwards

Edges are of a power law, in Parquet files of 10M rows, sources and destinations in random order. Converting runs in a
process of its own, whose anonymous memory (``RssAnon``, without pages of files that the system may drop) is watched.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from dglite.data import GraphFolder, convert_tables, estimate_conversion
from dglite.dataloading import DataLoader, MappedFeatures, NeighborSampler

FILE, GROUP = 10_000_000, 1_000_000
"""Rows of a file, and of a row group."""


def node_ids(numbers: np.ndarray, sparse: bool) -> np.ndarray:
    """Return the ids of nodes; sparse ones are 63 bits, in no order."""
    return numbers * 6364136223846793005 & (2**63 - 1) if sparse else numbers


def write_tables(folder: Path, num_nodes: int, num_edges: int, width: int, sparse: bool) -> None:
    """Write the Parquet files of nodes and edges."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), ("x", pa.list_(pa.float16(), width))])
    rows = max(1, min(GROUP, (1 << 26) // (2 * width)))
    with pq.ParquetWriter(folder / "nodes.parquet", schema, compression="none") as writer:
        for first in range(0, num_nodes, rows):
            ids = np.arange(first, min(first + rows, num_nodes))
            x = rng.random((len(ids), width), np.float32).astype(np.float16)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), width)
            writer.write_table(pa.table([pa.array(node_ids(ids, sparse)), lists], schema=schema))
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
    """Convert, and print the seconds and the highest anonymous memory beyond what was there before."""
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
    print(f"{seconds:.1f} s, {(highest - before) / 2**20:.0f} MB more memory at most")


def load(folder: GraphFolder, batches: int) -> tuple[float, int]:
    """Return seconds for each batch and its mean number of rows of features."""
    g = folder.graph
    store = MappedFeatures(folder.feature_file("_N", "x"))
    sampler = NeighborSampler([15, 10, 5], prefetch_node_feats={"x": store})
    seeds = torch.from_numpy(np.random.default_rng(1).choice(g.num_nodes(), 1000 * batches, replace=False))
    rows, start = 0, time.perf_counter()
    for inputs, _, _ in DataLoader(g, seeds, sampler, batch_size=1000, num_workers=1):
        rows += len(inputs)
    return (time.perf_counter() - start) / batches, rows // batches


def main() -> None:
    """Run the steps and print a line for each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=float, default=1e8)
    options.add_argument("--edges", type=float, default=1.2e9)
    options.add_argument("--width", type=int, default=128)
    options.add_argument("--memory", default="8 GB")
    options.add_argument("--batches", type=int, default=20)
    options.add_argument("--sparse-ids", action="store_true")
    options.add_argument("--folder", type=Path)
    options.add_argument("--convert", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.convert:
        convert(arguments.convert, arguments.memory)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        write_tables(folder, int(arguments.nodes), int(arguments.edges), arguments.width, arguments.sparse_ids)
        tables = folder / "nodes.parquet", str(folder / "edges*.parquet"), folder / "graph"
        print(estimate_conversion(*tables, memory=arguments.memory))
        print("convert    ", end="", flush=True)
        subprocess.run([sys.executable, __file__, "--convert", name, "--memory", arguments.memory], check=True)
        start = time.perf_counter()
        graph = GraphFolder(folder / "graph")
        num_edges = graph.graph.num_edges()
        print(f"open       {time.perf_counter() - start:.3f} s, {num_edges:,} edges")
        seconds, rows = load(graph, arguments.batches)
        rate = rows / seconds / 1e3
        print(f"batch      {1e3 * seconds:.0f} ms, {rows:,} rows of features: {rate:,.0f} thousand a second")


if __name__ == "__main__":
    main()
