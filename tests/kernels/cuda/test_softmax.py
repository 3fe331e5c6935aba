"""Edge softmax and its gradient as rendered for a GPU, run by the emulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dglite.kernels.cuda.graph.softmax import bind_softmax
from dglite.kernels.cuda.graph.structure import Structure
from tests import reference
from tests.kernels.cuda.emulated import GPU, LIMITS, needs_compiler, prepare, uploaded
from tests.kernels.sparse_cases import assert_close, graph
from tests.pairs import cases

CASES = cases(
    ["float32", "float64", "float16", "bfloat16"],
    [1, 3, 8, 300],
    ["random", "star", "no edges", "one edge"],
    ["int32", "int64"],
    list(LIMITS),
)
pytestmark = needs_compiler


def run(dtype: str, heads: int, kind: str, index: str, limit: str, runner=GPU):
    """Return logits, softmax, the gradient that was given and the one that was found."""
    coo, kept = graph(kind), getattr(torch, dtype)
    structure = uploaded(coo, index, limit)
    generator = torch.Generator().manual_seed(1)
    shape = len(coo.src), heads
    logits, grad = (3 * torch.randn(shape, generator=generator).to(kept) for _ in range(2))
    out, result = torch.full(shape, 9.0, dtype=kept), torch.full(shape, 9.0, dtype=kept)
    if len(coo.src):
        forward, backward = (bind_softmax(structure, index, dtype, heads, way, lambda: runner) for way in (False, True))
        forward([logits.data_ptr()], out.data_ptr())
        backward([out.data_ptr(), grad.data_ptr()], result.data_ptr())
    return [tensor.double().numpy() for tensor in (logits, out, grad, result)]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    prepare(lambda runner: [run(*case, runner) for case in CASES])


@pytest.mark.parametrize(("dtype", "heads", "kind", "index", "limit"), CASES)
def test_value_and_gradient_equal_the_oracle(dtype, heads, kind, index, limit):
    coo = graph(kind)
    logits, out, grad, result = run(dtype, heads, kind, index, limit)
    assert_close(out, reference.edge_softmax(coo.dst, logits), dtype)
    sums = np.zeros((coo.num_dst, heads))
    np.add.at(sums, coo.dst, out * grad)
    assert_close(result, out * (grad - sums[coo.dst]), dtype)


@pytest.mark.parametrize("limit", [8, 1 << 20])
def test_rows_around_what_stays_in_registers(limit):
    lengths = np.array([0, 1, 15, 16, 17, 400, 5, 5, 5])  # 400: more chunks of 8 than a block takes at once
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
    generator = np.random.default_rng(0)
    edge_ids = generator.permutation(indptr[-1]).astype("int32")
    structure = Structure.upload(GPU, indptr, np.zeros_like(edge_ids), edge_ids, limit)
    logits = 3 * torch.randn(len(edge_ids), 8, generator=torch.Generator().manual_seed(1))
    rows = [torch.from_numpy(edge_ids[first:last]).long() for first, last in itertools.pairwise(indptr)]
    for row, value in zip(rows[-3:], (-np.inf, np.nan, np.inf), strict=True):
        logits[row[:3]] = value
        logits[row, 0] = value
    out = torch.full_like(logits, 9.0)
    bind_softmax(structure, "int32", "float32", 8, False, lambda: GPU)([logits.data_ptr()], out.data_ptr())
    for row in rows:
        torch.testing.assert_close(out[row], logits[row].double().softmax(0).float(), equal_nan=True)


def test_masked_and_huge_scores():
    coo = graph("one edge")
    coo.num_dst, coo.src, coo.dst = 2, np.zeros(5, int), np.array([0, 0, 0, 1, 1])
    logits = np.array([-np.inf, 3000.0, 3000.0, -np.inf, 0.0])
    out = np.zeros(5)
    run = bind_softmax(uploaded(coo, "int32", "whole"), "int32", "float64", 1, False, lambda: GPU)
    run([logits.ctypes.data], out.ctypes.data)
    np.testing.assert_allclose(out, [0, 0.5, 0.5, 0, 1])
