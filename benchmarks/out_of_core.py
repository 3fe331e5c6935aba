"""Random rows of a file of float16 features, as float32, against NumPy's and torch's indexing of the mapped file.

    python benchmarks/out_of_core.py                       a file of 4 GB, which is removed afterwards
    python benchmarks/out_of_core.py --gigabytes 12.8      50M rows
    python benchmarks/out_of_core.py --folder /mnt/disk    where the file is made
    python benchmarks/out_of_core.py --quick               a small file; results are not kept

*Cold* rows come from the disk: the system is told to forget the file before each turn. *Warm* rows are in its cache.
With ``--cached`` a share of the rows, the most frequent of a power law, is kept in memory beside the file. *Direct*
reads go past the system's cache, so that they are always from the disk.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import OURS, parser, save, table

from dglite.dataloading import CachedFeatures, MappedFeatures

WIDTH, TARGET = 128, 3
CACHED, DIRECT = f"{OURS}, cached", f"{OURS}, direct"
CHUNK = 1 << 18


def write_features(path: Path, num_rows: int) -> None:
    """Write a file of random features, chunk after chunk."""
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (num_rows, WIDTH))
    chunk = np.random.default_rng(0).standard_normal((CHUNK, WIDTH), np.float32).astype(np.float16)
    for first in range(0, num_rows, CHUNK):
        part = rows[first : first + CHUNK]
        part[:] = chunk[: len(part)]
    rows.flush()


def forget(path: Path) -> None:
    """Let the system drop the file's pages from memory; a file that is mapped keeps them."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def readers(path: Path, hot: np.ndarray) -> dict[str, Callable[[], Callable[[np.ndarray], Any]]]:
    """Return for each way a function that opens the file, and returns the function that reads rows."""

    def ours() -> Callable[[np.ndarray], Any]:
        return MappedFeatures(path).rows

    def cached() -> Callable[[np.ndarray], Any]:
        return CachedFeatures(MappedFeatures(path), hot).rows

    def numpy() -> Callable[[np.ndarray], Any]:
        mapped = np.load(path, mmap_mode="r")
        return lambda ids: mapped[ids].astype(np.float32)

    def torch_() -> Callable[[np.ndarray], Any]:
        mapped = torch.from_numpy(np.load(path, mmap_mode="c"))
        return lambda ids: mapped.index_select(0, torch.from_numpy(ids)).float()

    def direct() -> Callable[[np.ndarray], Any]:
        return MappedFeatures(path, direct=True).rows

    results = {OURS: ours, DIRECT: direct, "NumPy": numpy, "torch": torch_}
    return {**results, CACHED: cached} if len(hot) else results


def measure(path: Path, ids: list[np.ndarray], hot: np.ndarray, cold: bool) -> dict[str, float]:
    """Return rows per second of each way, by the median of its turns."""
    ways, order = readers(path, hot), random.Random(0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    ways[OURS]()(ids[0][:100])
    for rows in ids:
        for name in order.sample(list(ways), len(ways)):
            if cold:
                forget(path)
            read = ways[name]()
            if cold:
                forget(path)
            else:
                read(rows)
            start = time.perf_counter()
            read(rows)
            seconds[name].append(time.perf_counter() - start)
            del read
    return {name: len(ids[0]) / statistics.median(actual) for name, actual in seconds.items()}


def rates_table(record: dict[str, Any]) -> str:
    """Return one row per condition: thousands of rows per second, and how many times NumPy's."""
    names = list(record["cold"])
    rows = []
    for condition in ("cold", "warm"):
        rates = record[condition]
        ratios = f"{rates[OURS] / rates['NumPy']:.1f}", f"{rates[OURS] / rates['torch']:.1f}"
        rows.append([condition, *(f"{rates[name] / 1e3:,.0f}" for name in names), *ratios])
    return table(["thousands of rows per second", *names, "ratio to NumPy", "to torch"], rows)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--gigabytes", type=float, default=4.0)
    options.add_argument("--rows", type=int, default=100_000, help="rows that are read at a time")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--cached", type=float, default=0.02, help="share of the rows that is kept in memory; 0: none")
    options.add_argument("--folder", help="a folder on the disk to be measured")
    given = options.parse_args()
    gigabytes, count = (0.05, 5_000) if given.quick else (given.gigabytes, given.rows)
    num_rows = int(gigabytes * 1e9 / (2 * WIDTH))
    generator = np.random.default_rng(1)
    names = generator.permutation(num_rows)
    # Rank r is drawn with a probability like r ** -0.5.
    ids = [names[(generator.random(count) ** 2 * num_rows).astype(np.int64)] for _ in range(given.rounds)]
    hot = np.sort(names[: int(given.cached * num_rows)])  # read in the order of the file
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "features.npy"
        write_features(path, num_rows)
        record: dict[str, Any] = {"num_rows": num_rows, "width": WIDTH, "rows": count, "cached": given.cached}
        record |= {condition: measure(path, ids, hot, condition == "cold") for condition in ("cold", "warm")}
    print(rates_table(record))
    if not given.quick:
        save("out_of_core", record)


if __name__ == "__main__":
    main()
