"""What persistent processors do on a GPU, case by case: one program, whose scripts are written here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dglite.expr import Expr, Operand, Side
from dglite.kernels.cuda.dynamic import persistent as cuda
from dglite.kernels.cuda.run.emulate import Emulator
from tests.kernels.cuda.emulated import needs_compiler

pytestmark = needs_compiler

BLOCKS = [1, 2, 3]
FORMS = ("cross_entropy", "nll_loss", "softmax", "log_softmax")


def e(slot: int) -> Expr:
    return Operand(Side.E, slot)


PRODUCT = cuda.FormulaStep((e(0).call("tanh") * e(1), e(0) + 1.0), (False, True), False, False, "float64")
ADDED = cuda.FormulaStep((e(0), e(0) * 2.0), (False,), True, False, "float64")
TOTAL = cuda.FormulaStep((e(0) * e(1),), (False, False), True, True, "float64")
MATRICES = (cuda.Matrix(37, 45, "float64"), cuda.Matrix(37, 45, "float64"), cuda.Matrix(5, 3, "float32"))
SLOTS = ((1, False), (0, False), (1, True))
"""Of the first matrix a warp holds one group, and reads others from memory; of the second none; all of the third."""
MOMENTUM = ((2, e(3) * e(2) + e(1)), (0, e(0) - e(4) * e(2)))
CASES: tuple[cuda.Case, ...] = (
    *(PRODUCT, ADDED, TOTAL),
    *(cuda.Rowwise(form, gradient, "float64") for form in FORMS for gradient in (False, True)),
    *(cuda.Times(form, matrix) for matrix in range(3) for form in ("dots", "sums")),
    *(cuda.Summed(form, cuda.KEPT, 0, "float64") for form in ("outer", "totals")),
    cuda.Summed("outer", MOMENTUM, 1, "float32"),
    *(cuda.CLEAR, cuda.LOSSES),
)


@cache
def gpu(blocks: int, backwards: bool) -> Emulator:
    return Emulator(blocks, backwards)


class Script:
    """Instructions, and the matrices that they multiply with."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.keep: list[Any] = []
        self.status = np.zeros(cuda.STATUS_WORDS, np.int64)
        self.matrices = [np.zeros((m.height, m.width), m.dtype) for m in MATRICES]

    def do(self, case: cuda.Case, words: Sequence[int], who: int = -1, apart: bool = True) -> None:
        """Add an instruction; its words are counted from the second."""
        held = np.array([0, *words], np.int64)
        self.keep.append(held)
        self.rows.append([cuda.FIRST_CASE + CASES.index(case), held.ctypes.data, who, int(apart)])

    def wait(self) -> None:
        self.rows.append([cuda.WAIT, 0, 0, 0])

    def run(self, blocks: int, backwards: bool = False, scratch_bytes: int = cuda.SCRATCH_BYTES) -> None:
        script = np.array(self.rows, np.int64)
        table = np.array([word for m in self.matrices for word in (m.ctypes.data, m.strides[0])], np.int64)
        runner = gpu(blocks, backwards)
        scratch = runner.empty(max(scratch_bytes, 8))
        words = [script.ctypes.data, len(script), self.status.ctypes.data, table.ctypes.data, scratch.address]
        program = cuda.persistent_program(CASES, MATRICES, 2, SLOTS)
        runner.launch_together(program, "run", blocks, [*words, scratch_bytes])


def values(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def at(x: np.ndarray) -> tuple[int, int, int]:
    """Return the place of the rows of a matrix."""
    return x.ctypes.data, x.strides[0], 0


def listed(addresses: Sequence[int], script: Script) -> tuple[int, int, int]:
    """Return the place of rows at addresses."""
    held = np.array(addresses, np.int64)
    script.keep.append(held)
    return int(held[0]), 0, held.ctypes.data


@pytest.mark.parametrize("who", [-1, 1])
@pytest.mark.parametrize("apart", [False, True])
def test_formulas_over_rows(apart, who):
    script, x, factors, y, z = Script(), values(7, 300), values(7, 1), np.zeros((7, 300)), np.zeros((7, 300))
    order = [3, 1, 0, 2, 6, 5, 4]
    rows = listed([x[i].ctypes.data for i in order], script)
    script.do(PRODUCT, [7, 300, *at(y), *at(z), *rows, *at(factors)], who, apart)
    script.run(2)
    np.testing.assert_allclose(y, np.tanh(x[order]) * factors, rtol=1e-14)
    np.testing.assert_allclose(z, x[order] + 1.0, rtol=1e-14)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_rows_that_are_added_to_several_times_or_not_there(blocks):
    script, x, into, unused = Script(), values(5, 40), np.ones((2, 40)), np.ones((2, 40))
    y = listed([into[i].ctypes.data if i >= 0 else 0 for i in (0, 1, 0, -1, 0)], script)
    z = listed([unused[0].ctypes.data, 0, 0, 0, 0], script)
    script.do(ADDED, [5, 40, *y, *z, *at(x)], apart=False)
    script.run(blocks)
    np.testing.assert_allclose(into, 1.0 + np.array([x[0] + x[2] + x[4], x[1]]), rtol=1e-14)
    np.testing.assert_allclose(unused, 1.0 + np.array([2 * x[0], 0 * x[1]]), rtol=1e-14)


def test_sums_over_columns():
    script, x, w, total = Script(), values(11, 70), values(11, 70), np.ones(2)
    places = listed([total[i % 2 :].ctypes.data if i != 4 else 0 for i in range(11)], script)
    script.do(TOTAL, [11, 70, *places, *at(x), *at(w)], who=0)
    script.run(2)
    sums = (x * w).sum(1)
    np.testing.assert_allclose(total, 1.0 + np.array([sums[[0, 2, 6, 8, 10]].sum(), sums[1::2].sum()]), rtol=1e-12)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_softmax_and_losses(form, adds, blocks):
    rows, width = 19, 70
    x, labels = values(rows, width), np.arange(rows, dtype=np.int64) % width
    labels[3] = -100
    labelled = form in ("cross_entropy", "nll_loss")
    y, grad = np.zeros((rows, 1 if labelled else width)), values(rows, 1 if labelled else width)
    into, error = values(rows, width), np.zeros(1, np.int64)
    before = into.copy()
    script = Script()
    words = [rows, width, x.ctypes.data, x.strides[0], labels.ctypes.data, 8, y.ctypes.data, y.strides[0]]
    words += [grad.ctypes.data, grad.strides[0], into.ctypes.data, into.strides[0], adds, error.ctypes.data]
    script.do(cuda.Rowwise(form, False, "float64"), words)
    script.wait()
    script.do(cuda.Rowwise(form, True, "float64"), words)
    script.run(blocks)
    expected = torch.tensor(x, requires_grad=True)
    function = getattr(F, form)
    result = function(expected, torch.tensor(labels), reduction="none") if labelled else function(expected, 1)
    result.backward(torch.tensor(grad).reshape(result.shape))
    np.testing.assert_allclose(y.reshape(result.shape), result.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(into, expected.grad.numpy() + (before if adds else 0), rtol=1e-12, atol=1e-14)
    assert error[0] == 0


@pytest.mark.parametrize("label", [1, 70, -1])
def test_a_label_out_of_range_ends_the_script_before_the_update(label):
    x, labels, y = values(2, 70), np.array([1, label]), np.zeros((2, 1))
    script, summed, into, numbers = Script(), values(4, 3), np.ones((1, 3)), np.array([0.0, 1.0])
    error = script.status.ctypes.data + 8 * cuda.ERROR
    words = [2, 70, *at(x)[:2], labels.ctypes.data, 8, *at(y)[:2], 0, 0, 0, 0, 0, error]
    script.do(cuda.Rowwise("cross_entropy", False, "float64"), words)
    script.wait()
    script.rows.append([cuda.CHECK, 0, 0, 0])
    words = [4, 1, 3, *at(summed)[:2], *at(into)[:2], *at(summed)[:2], numbers.ctypes.data]
    script.do(cuda.Summed("totals", cuda.KEPT, 0, "float64"), words)
    script.run(2)
    assert script.status[cuda.ERROR] == (0 if label == 1 else 2 * label + 1)
    np.testing.assert_allclose(into[0], summed.sum(0) if label == 1 else 1.0)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("matrix", range(3))
@pytest.mark.parametrize("scratch", [cuda.SCRATCH_BYTES, 0])
def test_products(matrix, rows, blocks, scratch):
    spec = MATRICES[matrix]
    script = Script()
    m = script.matrices[matrix] = values(spec.height, spec.width, dtype=spec.dtype)
    x, start = values(rows, spec.width, dtype=spec.dtype), values(1, spec.height, dtype=spec.dtype)
    back, into = values(rows, spec.height, dtype=spec.dtype), values(rows, spec.width, dtype=spec.dtype)
    y, alone, before = np.zeros_like(back), np.zeros_like(back), into.copy()
    size = [rows, spec.height, spec.width]
    for result, who in ((y, -1), (alone, 0)):
        words = [*size, *at(x)[:2], *at(m)[:2], *at(result)[:2], start.ctypes.data, 0]
        script.do(cuda.Times("dots", matrix), words, who)
    twice = 2 * back
    for x_of in (back, twice):  # one after the other, with the same scratch memory
        words = [*size, *at(x_of)[:2], *at(m)[:2], *at(into)[:2], *at(into)[:2]]
        script.do(cuda.Times("sums", matrix), words)
    script.run(blocks, scratch_bytes=scratch)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if spec.dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(y, x @ m.T + start, **tolerance)
    np.testing.assert_array_equal(alone, y)
    np.testing.assert_allclose(into, before + 3 * (back @ m), **tolerance)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize(("rows", "height", "width"), [(1, 5, 3), (33, 6, 300), (3, 130, 140)])
def test_gradients_of_matrices(rows, height, width, blocks):
    """Few tiles, which blocks share, and many, one for each warp."""
    script, x, y = Script(), values(rows, height), values(rows, width)
    kept, fresh, totals = values(height, width), np.full((height, width), np.nan), np.full((1, width), np.nan)
    before, numbers = kept.copy(), np.array([[0.5, -2.0], [0.0, 1.0]])
    for into, (keep, _) in ((kept, numbers), (fresh, numbers[::-1])):
        words = [rows, height, width, *at(x)[:2], *at(into)[:2], *at(y)[:2], keep.ctypes.data]
        script.do(cuda.Summed("outer", cuda.KEPT, 0, "float64"), words)
    words = [rows, 1, width, *at(y)[:2], *at(totals)[:2], *at(y)[:2], numbers[1].ctypes.data]
    script.do(cuda.Summed("totals", cuda.KEPT, 0, "float64"), words)
    script.rows.insert(0, [cuda.CHECK, 0, 0, 0])
    script.run(blocks)
    np.testing.assert_allclose(kept, 0.5 * before - 2.0 * (x.T @ y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fresh, x.T @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(totals[0], y.sum(0), rtol=1e-12, atol=1e-12)


def test_a_gradient_goes_into_parameter_and_state_at_once():
    script, x, y = Script(), values(9, 5, dtype="float32"), values(9, 7, dtype="float32")
    parameter, state = values(5, 7, dtype="float32"), np.ones((5, 7), "float32")
    want = 0.5 * state + x.T @ y
    expected, numbers = parameter - 0.1 * want, np.array([0.5, 0.1], "float32")
    words = [9, 5, 7, *at(x)[:2], *at(parameter)[:2], *at(y)[:2], numbers.ctypes.data, state.ctypes.data]
    script.rows.append([cuda.CHECK, 0, 0, 0])
    script.do(cuda.Summed("outer", MOMENTUM, 1, "float32"), words)
    script.run(2)
    np.testing.assert_allclose(state, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(parameter, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("repeated", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_and_memory(dtype, repeated):
    script, total, memory = Script(), np.full(1, 0.5), np.ones(999)
    losses, grads = values(300, dtype=dtype), np.zeros(300, dtype)
    places = losses.ctypes.data + np.arange(300) * losses.itemsize
    starts = grads.ctypes.data + np.arange(300) // (1 + repeated) * losses.itemsize
    script.do(cuda.CLEAR, [memory.ctypes.data, 998 * 8])
    words = [total.ctypes.data, 300, losses.itemsize, places.ctypes.data, starts.ctypes.data, repeated]
    script.do(cuda.LOSSES, words, who=1)
    script.run(2)
    assert not memory[:998].any() and memory[998] == 1
    assert total[0] == pytest.approx(0.5 + losses.astype("float64").sum())
    np.testing.assert_array_equal(grads, np.bincount(np.arange(300) // (1 + repeated), minlength=300))


def test_no_barrier_is_missing_inside_a_case():
    """Threads that take turns the other way round find the same bits."""
    results = []
    for backwards in (False, True):
        script, x, w, total = Script(), values(11, 45), values(11, 45), np.zeros(11)
        m = script.matrices[0] = values(37, 45)
        y, back, kept = np.zeros((11, 37)), np.zeros((11, 45)), np.zeros((37, 45))
        numbers, size = np.array([0.0, 1.0]), [11, 37, 45]
        script.do(TOTAL, [11, 45, total.ctypes.data, 8, 0, *at(x), *at(w)], who=0)
        script.do(cuda.Times("dots", 0), [*size, *at(x)[:2], *at(m)[:2], *at(y)[:2], 0, 0])
        script.wait()
        for matrix in (0, 1):
            script.do(cuda.Times("sums", matrix), [*size, *at(y)[:2], *at(m)[:2], *at(back)[:2], 0, 0])
            script.wait()
        script.rows.append([cuda.CHECK, 0, 0, 0])
        words = [*size, *at(y)[:2], *at(kept)[:2], *at(back)[:2], numbers.ctypes.data]
        script.do(cuda.Summed("outer", cuda.KEPT, 0, "float64"), words)
        script.matrices[1] = m
        script.run(3, backwards)
        results.append([total, y, back, kept])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_registers_are_given_to_matrices_in_turn():
    wide, narrow = cuda.Matrix(1280, 512, "float32"), cuda.Matrix(5, 256, "float32")
    assert cuda.slots_of((wide, narrow), 1, 132) == ((2, True), (1, True))
    assert cuda.slots_of((wide, narrow), 2, 132) == ((1, True), (1, True))
    assert cuda.slots_of((wide, narrow), 4, 16) == ((2, False), (0, False))
    assert cuda.slots_of((cuda.Matrix(8, 4000, "float32"),), 1, 132) == ((0, False),)
