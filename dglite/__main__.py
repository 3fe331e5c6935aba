"""``python -m dglite``: what is installed, where compiled kernels and data are, and whether the CPU's and GPU's kernels
are right."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

import dglite

from . import config
from . import function as fn
from .backend import Tensor, active, framework
from .convert import graph
from .graph import DGLGraph
from .ops import edge_softmax
from .ops.devices import why_no_kernels
from .sampling import sample_neighbors

_PACKAGES = {name: (name,) for name in ("numpy", "torch", "llvmlite")} | {
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy")
}
"""By name, what it may be installed as."""
_NODES, _EDGES, _WIDTH = 60, 400, 8


def main() -> int:
    """Print versions, settings and a self-check of a few kernels against NumPy, on the CPU and on a GPU of torch's.

    Return 0, or 1 where one is wrong.
    """
    for name, value in _facts():
        print(f"{name:10}{value}")
    began = time.perf_counter()
    failed = [name for device in _devices() for name, check in CHECKS.items() if not _passes(name, check, device)]
    took = f"{time.perf_counter() - began:.1f} s"
    print(f"self-check {'failed: ' + ', '.join(failed) if failed else 'ok'} ({took})")
    return 1 if failed else 0


# -- what is there -----------------------------------------------------------------------------------------------------
def _facts() -> list[tuple[str, str]]:
    packages = ", ".join(f"{name} {_version(*names)}" for name, names in _PACKAGES.items())
    cache, count, size = config.cache_dir(), 0, 0
    for path in cache.rglob("*"):
        with suppress(OSError):  # another process may be removing it
            if path.is_file():
                count, size = count + 1, size + path.stat().st_size
    return [
        ("dglite", f"{dglite.__version__}, {Path(__file__).parent}"),
        ("python", f"{platform.python_version()}, {platform.platform()}"),
        ("packages", packages),
        ("backend", f"{active.name}, {active.num_threads()} threads"),
        ("GPU", _gpu()),
        ("kernels", f"{cache} ({count} files, {size / 2**20:.1f} of {config.cache_limit() >> 20} MB)"),
        ("data", str(config.data_dir())),
        ("memory", _memory()),
    ]


def _memory() -> str:
    limit, keeps_pages = config.pool_limit(), "MALLOC_TRIM_THRESHOLD_" in os.environ
    pool = f"pool of {limit / 2**30:.1f} GB at most" if limit else "no pool (DGLITE_POOL)"
    more = "; MALLOC_ settings of docs/memory.md speed up large tensors of torch's own"
    return pool + ("" if keeps_pages or sys.platform != "linux" or active.name != "torch" else more)


def _version(*names: str) -> str:
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "not installed"


def _gpu() -> str:
    """Name the GPU that the backend's tensors can be on, or say why there is none."""
    if active.name == "cupy":
        return str(active.device(active.from_numpy(np.zeros(1, np.float32))))
    if active.name != "torch":
        return f"none that the {active.name} backend can use"
    if not framework.cuda.is_available():
        built = framework.version.cuda or getattr(framework.version, "hip", None)
        return f"none: torch {'sees no GPU; its driver may be missing' if built else 'is built without CUDA'}"
    size, missing = framework.cuda.get_device_properties().total_memory / 2**30, why_no_kernels("cuda:0")
    text = f"{framework.cuda.get_device_name()}, {size:.0f} GB, CUDA {framework.version.cuda}"
    return f"{text}, but {missing}" if missing else f"{text}; g.to('cuda') moves a graph there"


def _devices() -> list[str]:
    """Return where to check kernels: on the CPU, and on a GPU of torch's for which there are some."""
    has_gpu = active.name == "torch" and framework.cuda.is_available() and not why_no_kernels("cuda:0")
    return ["cpu", "cuda"] if has_gpu else ["cpu"]


# -- self-check --------------------------------------------------------------------------------------------------------
def _passes(name: str, check: Callable[[_Sample], None], device: str = "cpu") -> bool:
    where = "" if device == "cpu" else f" on {device}"
    try:
        check(_Sample(device))
    except Exception as error:  # whatever it is, it is what the reader has to know
        print(f"{name:24}FAILED{where}: {' '.join(str(error).split())[:300] or type(error).__name__}")
        return False
    print(f"{name:24}ok{where}")
    return True


class _Sample:
    """A random graph, the last of its nodes without in-edges, with features as NumPy arrays."""

    def __init__(self, device: str) -> None:
        self.device = None if device == "cpu" else device
        random = np.random.default_rng(0)
        self.src, self.dst = random.integers(0, _NODES, _EDGES), random.integers(0, _NODES - 1, _EDGES)
        self.x = random.standard_normal((_NODES, _WIDTH)).astype(np.float32)
        self.w = random.standard_normal((_EDGES, 1)).astype(np.float32)

    def graph(self) -> DGLGraph:
        g = graph((self.src, self.dst), num_nodes=_NODES, device=self.device)
        g.ndata["x"], g.edata["w"] = self.tensor(self.x), self.tensor(self.w)
        return g

    def tensor(self, array: np.ndarray) -> Tensor:
        """Return an array as a tensor where the graph is."""
        return active.from_numpy(array, self.device)

    def reduced(self, messages: np.ndarray, ufunc: np.ufunc, start: float) -> np.ndarray:
        """Return messages reduced by destination, ``start`` for nodes without messages."""
        result = np.full((_NODES, *messages.shape[1:]), start, np.float64)
        ufunc.at(result, self.dst, messages)
        return result


def _same(result: object, expected: np.ndarray) -> None:
    np.testing.assert_allclose(active.to_numpy(result), expected, rtol=1e-4, atol=1e-5)


def _sum(sample: _Sample) -> None:
    g = sample.graph()
    g.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
    _same(g.ndata["h"], sample.reduced(sample.x[sample.src], np.add, 0))


def _weighted_mean(sample: _Sample) -> None:
    g = sample.graph()
    g.update_all(fn.u_mul_e("x", "w", "m"), fn.mean("m", "h"))
    degrees = np.bincount(sample.dst, minlength=_NODES).clip(1)[:, None]
    _same(g.ndata["h"], sample.reduced(sample.x[sample.src] * sample.w, np.add, 0) / degrees)


def _max(sample: _Sample) -> None:
    g = sample.graph()
    g.update_all(fn.copy_u("x", "m"), fn.max("m", "h"))
    expected = sample.reduced(sample.x[sample.src], np.maximum, -np.inf)
    _same(g.ndata["h"], np.where(np.isinf(expected), 0, expected))


def _dot(sample: _Sample) -> None:
    g = sample.graph()
    g.apply_edges(fn.u_dot_v("x", "x", "s"))
    _same(g.edata["s"], (sample.x[sample.src] * sample.x[sample.dst]).sum(1, keepdims=True))


def _softmax(sample: _Sample) -> None:
    exponents = np.exp(sample.w)
    _same(
        edge_softmax(sample.graph(), sample.tensor(sample.w)),
        exponents / sample.reduced(exponents, np.add, 0)[sample.dst],
    )


def _sampled(sample: _Sample) -> None:
    frontier = sample_neighbors(sample.graph(), sample.tensor(np.arange(_NODES)), 2)
    _same(frontier.in_degrees(), np.bincount(sample.dst, minlength=_NODES).clip(max=2))
    present = set(zip(sample.src.tolist(), sample.dst.tolist(), strict=True))
    if not present.issuperset(zip(*(active.to_numpy(end).tolist() for end in frontier.edges()), strict=True)):
        raise ValueError("an edge is drawn that the graph does not have")


CHECKS: dict[str, Callable[[_Sample], None]] = {
    "sum of neighbours": _sum,
    "weighted mean": _weighted_mean,
    "maximum": _max,
    "dot product of ends": _dot,
    "softmax over edges": _softmax,
    "sampled neighbours": _sampled,
}
"""What is compared, by the name that is printed."""


if __name__ == "__main__":
    sys.exit(main())
