"""The emulated GPU that the tests of the CUDA kernels share, and structures on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dglite.kernels.cuda.graph import structure
from dglite.kernels.cuda.graph.structure import Structure
from dglite.kernels.cuda.run.emulate import Emulator, HostMemory, available
from dglite.kernels.cuda.run.program import CudaProgram
from dglite.ops import devices
from tests.kernels.sparse_cases import Coo

__all__ = ["GPU", "LIMITS", "needs_compiler", "on_gpu", "prepare", "uploaded"]

GPU = Emulator()
LIMITS = {"cut": 16, "whole": 1 << 20}
"""Entries that one team takes at most: with the first, rows of the tests' graphs are cut into chunks."""

needs_compiler = pytest.mark.skipif(not available(), reason="no C++ compiler to emulate a GPU with: set CXX")


def uploaded(coo: Coo, index: str, limit: str) -> Structure:
    """Return the CSC of ``coo`` on the GPU."""
    return Structure.upload(GPU, *coo.csc(index), limit=LIMITS[limit])


class Collector:
    """A runner that runs nothing and remembers what it was to run."""

    def __init__(self) -> None:
        self.programs: dict[str, CudaProgram] = {}

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        if grid[0] * grid[1]:
            self.programs[program.prefix] = program

    def bind(self, program: CudaProgram, kernel: str, grid: tuple[int, int], count: int) -> Callable[[Any], None]:
        return lambda arguments: self.launch(program, kernel, grid, arguments)

    def empty(self, num_bytes: int) -> HostMemory:
        return HostMemory(np.zeros(num_bytes, np.uint8))

    def upload(self, array: np.ndarray) -> HostMemory:
        return GPU.upload(array)

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        return np.zeros(count, dtype)


@contextmanager
def on_gpu(runner: object = GPU, limit: str = "whole") -> Iterator[None]:
    """Let operations on the CPU's tensors run on ``runner``, with rows cut as ``limit`` says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "HOST", devices.Gpu(runner))
        patch.setattr(structure, "row_limit", lambda num_rows, num_entries: LIMITS[limit])
        yield


def prepare(work: Callable[[Collector], object]) -> None:
    """Compile at once all kernels that ``work`` starts."""
    collector = Collector()
    work(collector)
    GPU.prepare(collector.programs.values())
