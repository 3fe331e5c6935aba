"""Damages files of every format and reads them, in a process of its own.

``python -m tests.io.damage CASES FORMAT ...`` does so CASES times for each FORMAT, by default for all of them. A reader
may return something or raise a DGLError that names the file. Anything else is printed and makes the process fail: other
errors, a DGLError that a lack of memory caused, a read of over five seconds of processor time. The address space is
limited to a little more than the process has; what NumPy and Python allocate is counted.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import resource
import signal
import sys
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dglite
from dglite import DGLError, nn
from dglite.data import CitationGraphDataset, SSTDataset, WikiNERDataset
from dglite.data.dataset import DGLDataset
from dglite.data.utils import extract_archive, loadtxt
from dglite.io import load_graphs, load_info, load_labels, load_tensors, save_graphs, save_info, save_tensors
from tests.data import planetoid_files
from tests.io.graphs import batched, block, heterogeneous, homogeneous

HERE = Path(__file__).parent
RATIO = 4
"""How much more than the file a reader may allocate, archives included: they are unpacked to the disk."""
SLACK = {"tar.xz": 9 << 20}
"""Bytes that a reader may allocate beside, 1 MiB by default: objects of Python. XZ has a dictionary of 8 MiB."""


def graphs(path: Path) -> None:
    for g in load_graphs(path)[0]:
        for etype in g.canonical_etypes:
            u, v = g.all_edges(etype=etype)
            assert len(u) == len(v)
    for values in load_labels(path).values():
        values.sum()


def tensors(path: Path) -> None:
    for x in load_tensors(path).values():
        if len(x):
            x[torch.tensor([0])] + x[-1:]


def unpacked(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        extract_archive(path, Path(folder) / "out")


class Cached(DGLDataset):
    """A data set that was processed before: a copy that cannot be read is made again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(str(path))

    def has_cache(self) -> bool:
        return True

    def load(self) -> None:
        self.graphs = load_graphs(self.path)[0]

    def process(self) -> None:
        self.graphs = [homogeneous()]

    def __getitem__(self, index: int) -> Any:
        return self.graphs[index]

    def __len__(self) -> int:
        return len(self.graphs)


def _saved(save: Callable[[Path], Any], name: str = "x") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _tar(compress: Callable[[bytes], bytes] = bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("a.txt", "inner/b.txt", "x" * 150):
            info = tarfile.TarInfo(name)
            info.size = 300
            archive.addfile(info, io.BytesIO(b"abc" * 100))
    return compress(buffer.getvalue())


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.txt", "inner/b.txt"):
            archive.writestr(name, b"abc" * 100)


def _planetoid(part: str) -> tuple[str, Callable[[], bytes], Callable[[Path], Any]]:
    def read(path: Path) -> None:
        planetoid_files.write(path.parent, "tiny") if not (path.parent / "ind.tiny.x").exists() else None
        content = (path.parent / f"ind.tiny.{part}").read_bytes()
        (path.parent / f"ind.tiny.{part}").write_bytes(path.read_bytes())
        try:
            CitationGraphDataset("tiny", raw_dir=path.parent, verbose=False)
        finally:
            (path.parent / f"ind.tiny.{part}").write_bytes(content)

    def content() -> bytes:
        return _saved(lambda path: planetoid_files.write(path.parent, "tiny"), f"ind.tiny.{part}")

    return f"ind.tiny.{part}", content, read


STATE = {"w": torch.rand(3, 2), "n": torch.tensor(3), "b": torch.ones(2, dtype=torch.float64)}
INFO = {"a": [1, 2.5, (3, None)], "t": torch.arange(6), "b": b"bytes", "s": np.array(["x", "yy"]), "c": 1 + 2j,
        "z": np.array([1j, 2]), "deep": {"x": {1, 2}, "y": frozenset(["q"])}, "big": 2**70}  # fmt: skip
TENSORS = {"f": torch.rand(4, 3), "c": torch.rand(5, dtype=torch.complex128), "h": torch.ones(3).bfloat16()}
GRAPHS = lambda path: save_graphs(  # noqa: E731
    path, [homogeneous(), heterogeneous(), homogeneous(), batched(), block()], {"y": torch.arange(5)}, ["coo", "csr"]
)


def compressed() -> bytes:
    """Return a file with a graph whose structure is compressed, of several blocks, some with indices in full."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 300, 2000) % rng.choice([9, 300], 2000, p=[0.8, 0.2]), rng.integers(0, 300, 2000)
    g = dglite.graph((src, dst), num_nodes=300)
    return _saved(lambda path: save_graphs(path, g, compress=True))


FORMATS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], Any]]] = {
    "graphs": ("x.bin", lambda: _saved(GRAPHS), graphs),
    "compressed": ("x.bin", compressed, graphs),
    "cache": ("x.bin", lambda: _saved(GRAPHS), Cached),
    "dgl, homogeneous": ("x.bin", (HERE / "dgl_2_1_homogeneous.bin").read_bytes, graphs),
    "dgl, heterogeneous": ("x.bin", (HERE / "dgl_2_1_heterogeneous.bin").read_bytes, graphs),
    "dgl, formats": ("x.bin", (HERE / "dgl_2_1_formats.bin").read_bytes, graphs),
    "tensors": ("x.bin", lambda: _saved(lambda path: save_tensors(path, TENSORS)), tensors),
    "info": ("x.bin", lambda: _saved(lambda path: save_info(path, INFO)), load_info),
    "npz": ("x.npz", lambda: _saved(lambda path: nn.save_state_dict(STATE, path), "x.npz"), nn.load_state_dict),
    "deflated": (
        "x.npz",
        lambda: _saved(lambda path: np.savez_compressed(path, a=np.zeros(999), b=np.ones((2, 2), ">i4")), "x.npz"),
        nn.load_state_dict,
    ),
    "safetensors": (
        "x.safetensors",
        lambda: _saved(lambda path: nn.save_state_dict(STATE, path), "x.safetensors"),
        nn.load_state_dict,
    ),
    "zip": ("x.zip", lambda: _saved(_zip), unpacked),
    "tar": ("x.tar", _tar, unpacked),
    "tgz": ("x.tgz", lambda: _tar(gzip.compress), unpacked),
    "tar.bz2": ("x.tar.bz2", lambda: _tar(bz2.compress), unpacked),
    "tar.xz": ("x.tar.xz", lambda: _tar(lzma.compress), unpacked),
    "gz": ("x.gz", lambda: gzip.compress(b"abc" * 100), unpacked),
    "pickle of a matrix": _planetoid("allx"),
    "pickle of labels": _planetoid("ally"),
    "pickle of a graph": _planetoid("graph"),
    "test nodes": _planetoid("test.index"),
    "trees": (
        "train.txt",
        lambda: b"(3 (2 It) (4 works))\n(1 (0 Not) (2 \xc3\xa9))\n",
        lambda path: list(SSTDataset("train", raw_dir=path.parent)),
    ),
    "tagged words": (
        "dev.txt",
        lambda: b"A|I-PER b|O\nc|O \xc3\xa9|O\n",
        lambda path: WikiNERDataset(raw_dir=path.parent),
    ),
    "table": ("x.csv", lambda: b"1,2,3\n4,5,6\n7,8,9\n", lambda path: loadtxt(path, ",")),
}

NUMBERS = [2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**9]


def damaged(content: bytes, choose: random.Random) -> bytes:
    """Return the content with some damage."""
    result = bytearray(content)
    # Most of a DGL file's first 4096 bytes are not read.
    first = 4096 if len(result) > 5000 and result[32:4000] == bytes(3968) and choose.random() < 0.9 else 0
    for _ in range(choose.choice([1, 1, 1, 4])):
        at = choose.randrange(first, len(result)) if len(result) > first else 0
        kind = choose.randrange(7)
        if kind <= 2 and result:
            result[at] = choose.choice(
                [0, 1, 127, 128, 255, result[at] ^ 1 << choose.randrange(8), choose.randrange(256)]
            )
        elif kind == 3:
            width = choose.choice([4, 8])
            place = at - at % choose.choice([1, width])
            result[place : place + width] = (choose.choice(NUMBERS) % 2 ** (8 * width)).to_bytes(width, "little")
        elif kind == 4:
            result[at:at] = choose.randbytes(choose.choice([1, 8, 40]))
        elif kind == 5:
            del result[at : at + choose.choice([1, 8, 40])]
        elif any(byte in b"0123456789" for byte in result):  # numbers that are written in digits
            digits = [i for i, byte in enumerate(result) if byte in b"0123456789"]
            at = choose.choice(digits)
            result[at : at + 1] = str(choose.choice([*NUMBERS, -1, 10**30])).encode()
    if choose.random() < 0.15:
        result = result[: choose.randrange(len(result) + 1)]
    return bytes(result) if choose.random() < 0.98 else choose.randbytes(choose.randrange(200))


def fault(read: Callable[[Path], Any], path: Path, allowed: int) -> str | None:
    """Return what a reader does wrong, or None."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    signal.setitimer(signal.ITIMER_PROF, 5)
    try:
        read(path)
    except DGLError as error:
        chain: BaseException | None = error
        while chain is not None:
            if isinstance(chain, MemoryError):
                return f"asks for too much memory: {error}"
            chain = chain.__cause__ or chain.__context__
        if path.name not in str(error) and str(path.parent) not in str(error):
            return f"names no file: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    used = tracemalloc.get_traced_memory()[1] - before
    return f"allocates {used} bytes, {allowed} are allowed" if used > allowed else None


def check(name: str, count: int, seed: int = 0) -> list[str]:
    """Return what went wrong with files of one format."""
    file, make, read = FORMATS[name]
    results = []
    choose = random.Random(f"{name} {seed}")
    content = make()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(content)
        read(path)  # sound; and everything is loaded that reading needs
        for i in range(count):
            variant = damaged(content, choose)
            path.write_bytes(variant)
            allowed = len(variant) * RATIO + SLACK.get(name, 1 << 20)
            if fault(read, path, allowed) and (why := fault(read, path, allowed)):  # the first may have loaded a module
                results.append(f"{name}, case {i}: {why:.300}")
    return results


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main(count: int, names: list[str]) -> int:
    for name in names:
        check(name, 5)
    limit = _address_space() + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    tracemalloc.start()
    results = [line for name in names for line in check(name, count, seed=1)]
    print("\n".join(results))
    return bool(results)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:] or list(FORMATS)))
