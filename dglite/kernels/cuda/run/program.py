"""A kernel's source, and what runs it: a GPU, or the emulator."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

BLOCK = 256
"""Threads of every block (``BLOCK`` in common.cuh)."""
SOURCE = Path(__file__).parents[1] / "source"
"""Where the text that programs begin with lies."""
CPP_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "int",
    "int64": "long long",
}


@dataclass(frozen=True, eq=False)
class CudaProgram:
    """Kernels that are compiled together.

    ``parts`` names the files of this folder that come before ``body``; ``prefix`` begins the names of the kernels in
    it, and is unlike any other program's, so that many programs can be compiled as one.
    """

    prefix: str
    parts: tuple[str, ...]
    body: str
    kernels: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """Everything a compiler needs."""
        return library(self.parts) + self.body

    def name(self, kernel: str) -> str:
        """Return the name of a kernel in the text."""
        return f"{self.prefix}_{kernel}"


def make_program(kind: str, parts: tuple[str, ...], body: str, kernels: tuple[str, ...]) -> CudaProgram:
    """Return the program whose kernels are called ``NAME_<kernel>`` in ``body``: NAME is made unique here."""
    prefix = f"{kind}_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    return CudaProgram(prefix, parts, body.replace("NAME", prefix), kernels)


@cache
def library(parts: tuple[str, ...]) -> str:
    """Return the text of the named files."""
    return "".join((SOURCE / f"{part}.cuh").read_text(encoding="utf-8") for part in parts)


_DOUBLE, _BITS = struct.Struct("d"), struct.Struct("q")


class Memory(Protocol):
    """Memory of a device, freed with its last reference; on a stream, after the kernels that were given it."""

    @property
    def address(self) -> int:
        """Address of the first byte."""


class Runner(Protocol):
    """Runs kernels in order, on one stream of one device. Nothing here waits for the device."""

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        """Start ``kernel`` on ``grid`` blocks of ``BLOCK`` threads. Each word is 64 bits: an address, a size, a double.

        A grid without blocks starts nothing.
        """

    def bind(self, program: CudaProgram, kernel: str, grid: tuple[int, int], count: int) -> Callable[[array], None]:
        """Return what starts ``kernel`` with ``count`` arguments that were :func:`packed`, any number of times."""

    @property
    def blocks(self) -> int:
        """How many blocks run at once, if no more than one fits on a multiprocessor."""

    def launch_together(self, program: CudaProgram, kernel: str, blocks: int, words: Sequence[int | float]) -> None:
        """Start ``kernel`` on at most :attr:`blocks` blocks that wait for each other."""

    def empty(self, num_bytes: int) -> Memory:
        """Return uninitialised memory."""

    def upload(self, array: np.ndarray) -> Memory:
        """Return a copy of ``array`` on the device."""

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to memory of the device."""

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        """Return a copy of ``count`` values on the host, when all that was started has run: the one call that waits."""


def packed(words: Sequence[int | float]) -> array:
    """Return arguments as 64 bits each: doubles, and numbers from -2**63 up to 2**64."""
    try:
        return array("q", words)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return array("q", [word if type(word) is int and word < 2**63 else as_word(word) for word in words])


def as_word(word: int | float) -> int:
    """Return a double, or a number up to 2**64, as the 64 bits of it in a signed number."""
    if isinstance(word, float):
        bits: int = _BITS.unpack(_DOUBLE.pack(word))[0]
        return bits
    return word if word < 2**63 else word - 2**64


def blocks_for(threads: int) -> int:
    """Return the number of blocks for ``threads`` threads."""
    return -(-threads // BLOCK)
