"""Small graphs and operands for the kernel tests, and the comparison that judges them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dglite.expr import Expr, operands_of
from dglite.function import message_function
from dglite.kernels.cpu.graph import panels
from dglite.kernels.cpu.graph.sparse import bind_epilogue, bind_several, bind_spmm
from tests.kernels.walls import at_a_wall

DTYPES = ["float32", "float64", "float16", "bfloat16"]
IDS = ["int32", "int64"]
SHAPES = {
    "equal": ((70,), (70,)),
    "one number": ((), ()),
    "weight per edge": ((37,), (1,)),
    "weight per head": ((2, 8), (2, 1)),
    "wide heads": ((2, 64), (2, 1)),
    "odd heads": ((3, 5), (3, 1)),
    "outer": ((3, 1), (1, 4)),
    "left is narrow": ((1,), (6,)),
    "zero width": ((0,), (0,)),
}
GRAPHS = ["random", "star", "no edges", "no nodes", "one edge"]
TORCH = {name: getattr(torch, name) for name in DTYPES}

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "bfloat16": 6e-2}


@dataclass
class Coo:
    """A relation as the oracle takes it, with its CSC for the kernels."""

    num_src: int
    num_dst: int
    src: np.ndarray
    dst: np.ndarray

    def csc(self, index: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (indptr, indices, edge ids), arrays behind which kernels that look ahead must not read."""
        order = np.argsort(self.dst, kind="stable")
        indptr = np.zeros(self.num_dst + 1, index)
        np.cumsum(np.bincount(self.dst, minlength=self.num_dst), out=indptr[1:])
        return at_a_wall(indptr), at_a_wall(self.src[order].astype(index)), at_a_wall(order.astype(index))


def expression(op: str) -> Expr:
    """Return the expression of a built-in message by name, e.g. ``u_mul_e``."""
    return message_function(op, ("a",) if op.startswith("copy") else ("a", "b"), "m").expr


def graph(kind: str, seed: int = 0) -> Coo:
    """Return a multigraph with self-loops and zero-degree nodes, one with a hub, or a degenerate one."""
    rng = np.random.default_rng(seed)
    if kind == "random":
        return Coo(30, 25, rng.integers(0, 30, 200), rng.integers(0, 24, 200))
    if kind == "star":
        return Coo(40, 30, rng.integers(0, 40, 300), np.where(rng.random(300) < 0.9, 17, rng.integers(0, 30, 300)))
    num_src, num_dst, num_edges = {"no edges": (4, 3, 0), "no nodes": (0, 0, 0), "one edge": (1, 1, 1)}[kind]
    return Coo(num_src, num_dst, np.zeros(num_edges, np.int64), np.zeros(num_edges, np.int64))


def operands(expr: Expr, coo: Coo, shapes: tuple[tuple[int, ...], ...], seed: int = 0) -> list[np.ndarray]:
    """Return float64 operands; values are away from 0 so that they may be divided by."""
    rng = np.random.default_rng(seed)
    rows = {"u": coo.num_src, "e": len(coo.src), "v": coo.num_dst}
    values = []
    for operand in operands_of(expr):
        size = (rows[operand.side.value], *shapes[operand.slot])
        values.append(rng.uniform(0.5, 1.5, size) * rng.choice([-1.0, 1.0], size))
    return values


def assert_close(result: np.ndarray, want: np.ndarray, dtype: str) -> None:
    """Assert equality to the precision of ``dtype``, relative to the largest value, shapes included."""
    assert result.shape == want.shape, f"shape {result.shape}, expected {want.shape}"
    error = np.abs(result.astype(np.float64) - want).max(initial=0.0)
    scale = max(1.0, np.abs(want).max(initial=0.0))
    assert not np.isnan(error), "the result holds NaN"
    assert error <= TOLERANCE[dtype] * scale, f"off by {error} at values up to {scale}"


def set_cache_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let kernels that are bound from now on believe that a core's cache has ``size`` bytes; forget those of before."""
    monkeypatch.setattr(panels, "near_cache", lambda: panels.Cache(size, size, 1.6, size))
    for bind in (bind_spmm, bind_epilogue, bind_several):
        bind.cache_clear()
