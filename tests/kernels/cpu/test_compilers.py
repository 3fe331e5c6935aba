"""Kernels of every renderer give the same bits, translated to LLVM directly and compiled by Numba."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import dglite
from dglite.config import compiler
from dglite.expr import Operand, Side
from dglite.kernels.cpu.compile import jit
from dglite.kernels.cpu.dynamic.kernels import formula_kernel, reduce_kernel, rowwise_kernel, run_kernel, step_kernel
from dglite.kernels.cpu.graph.attention import dropout_multipliers
from dglite.kernels.cpu.run.launch import launch
from dglite.kernels.render.rows import RowAccess, StepSpec
from dglite.ops import core
from dglite.opspec import Reducer
from tests import forked
from tests.kernels.cpu import test_matrix, test_steps
from tests.kernels.cpu.test_agreement import MESSAGE, adjacency, operands

KINDS = {"spmm", "sddmm", "argmax", "softmax", "attention", "cell", "reductions", "step", "matrix"}
KINDS |= {"rowwise", "dropout"}
X, Y = Operand(Side.E, 0), Operand(Side.E, 1)
FORMULA = X * 0.3 + Y * X.call("tanh") - Y


def on_graphs() -> dict[str, torch.Tensor]:
    """Return results and gradients of messages, of a softmax and of attention."""
    results, adj = {}, adjacency()
    for width, dtype in ((33, torch.float32), (7, torch.float16)):
        rows = [x.requires_grad_() for x in operands(width, dtype)]
        for reducer in (Reducer.SUM, Reducer.MEAN, Reducer.MAX):
            out = core.spmm(adj, MESSAGE, reducer, rows)
            names = [f"{reducer} {width} {i}" for i in range(4)]
            grads = torch.autograd.grad(out, rows, torch.ones_like(out))
            results |= dict(zip(names, (out, *grads), strict=True))
        results[f"dot {width}"] = core.sddmm(adj, X * Y, [rows[2], rows[2] + 1], dot=True)
    g = dglite.graph(adj.endpoints(), num_nodes=20)
    scores = operands(3, torch.float32)[0].requires_grad_()
    weights = dglite.ops.edge_softmax(g, scores)
    results |= {"softmax": weights, "of softmax": torch.autograd.grad(weights.square().sum(), scores)[0]}
    # Not by layers: a product of torch's may have other bits in other memory.
    wide, narrow = (x.view(20, 3, -1) for x in (operands(18, torch.float32)[1], scores.detach()))
    for score, given in ((core.Score.ADDITIVE, (narrow, narrow * 2)), (core.Score.GATV2, (wide * 2, wide[0]))):
        x = wide.clone().requires_grad_()
        out = core.attention(adj, core.Attention(score), x, given)
        results |= {f"{score}": out, f"of {score}": torch.autograd.grad(out.square().sum(), x)[0]}
    return results


def on_rows() -> dict[str, np.ndarray]:
    """Return what the kernels of dynamic networks make of rows."""
    results, (x, y, m) = {}, (part.numpy().copy() for part in operands(37, torch.float32))
    place = [number for part in (x, y, np.zeros_like(x)) for number in (part.ctypes.data, part.strides[0])]
    out = np.zeros_like(x)
    words = [37, *place[:2], 0, 0, *place[2:4], 0, 0, out.ctypes.data, out.strides[0]]
    launch(formula_kernel((FORMULA,), (RowAccess.SAME, RowAccess.SAME), "float32", 37), [0, 20, *words])
    results["cell"] = out.copy()
    bounds = np.arange(0, 42, 2)
    index = np.arange(40)[::-1] % 20
    words = [37, bounds.ctypes.data, *place[:2], index.ctypes.data, out.ctypes.data, out.strides[0]]
    launch(reduce_kernel(RowAccess.INDEXED, "float32", 37), [0, 20, *words])
    results["sums"] = out.copy()
    test_steps.run(step_kernel(StepSpec((FORMULA,), (False, False), True, False, "float32")), 37, out, [x, y], False)
    results["step"] = out.copy()
    for form in ("dots", "outer"):
        result, scale = np.zeros((3, 20), np.float32) if form == "dots" else m.copy(), np.array([2, 3], np.float32)
        given = (x[:3], m, result) if form == "dots" else (y[:3, :20].copy(), result, x[:3])
        test_matrix.run(form, *given, (0, 0) if form == "dots" else (scale.ctypes.data, 0), 2)
        results[form] = result
    for gradient in (False, True):
        result, error, labels = np.zeros(20, np.float32), np.zeros(1, np.int64), np.arange(20)
        kernel = rowwise_kernel("cross_entropy", gradient, "float32")
        words = [kernel, 20, 37, *place[:2], labels.ctypes.data, 8, result.ctypes.data, 4]
        words += [x.ctypes.data, x.strides[0], out.ctypes.data, out.strides[0], 0, error.ctypes.data]
        test_matrix.call(kernel, np.array(words, np.int64).ctypes.data, 0, 1)
        results[f"loss {gradient}"] = out.copy() if gradient else result
    left, result = x[:, :20].copy(), np.zeros((20, 37), np.float32)
    places = [n for part in (left, m, result) for n in (part.ctypes.data, part.strides[0])]
    launch(run_kernel("sums", "float32"), [0, 20, *m.shape, *places])
    return results | {"run": result}


def results() -> dict[str, np.ndarray]:
    drawn = np.zeros((20, 3), np.float32)
    dropout_multipliers("float32", 20, 3, 0.4, 1, drawn.ctypes.data, 1)
    return {name: x.detach().numpy() for name, x in on_graphs().items()} | on_rows() | {"dropout": drawn}


def save(path: Path) -> None:
    """Write the results to a file, and print the names of the kernels."""
    assert compiler() == "numba"
    np.savez(path, **results())
    print(*jit._addresses)


def test_both_give_the_same_bits(tmp_path: Path) -> None:
    done = forked.run(save, tmp_path / "found.npz", DGLITE_COMPILER="numba")
    assert done.returncode == 0, done.stderr
    assert {name.rpartition("_")[0] for name in done.stdout.split()} >= KINDS
    result, expected = np.load(tmp_path / "found.npz"), results()
    assert result.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_array_equal(result[name], x, err_msg=name)
