"""Each operation on lazy tensors against torch: values and gradients of several samples in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLError, dynamic

WEIGHT = torch.linspace(-1, 1, 42, dtype=torch.float64).reshape(6, 7)
BIAS = torch.linspace(0, 1, 6, dtype=torch.float64)

VECTORS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: torch.sub(x, y),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1),
    "neg": lambda x, y: -x,
    "numbers": lambda x, y: 1 - 2 * x / 3 + 0.5,
    "number over": lambda x, y: 2 / (x * x + 1),
    "scalar": lambda x, y: x * y[2] + y.sum(),
    "scalar first": lambda x, y: y[2] - x,
    "maximum": lambda x, y: torch.maximum(x, y) - torch.minimum(x, 2 * y),
    "exp": lambda x, y: torch.exp(x),
    "log": lambda x, y: (x * x + 1).log(),
    "sqrt": lambda x, y: torch.sqrt(x * x + 1),
    "abs": lambda x, y: torch.abs(x) + abs(y),
    "power of a number": lambda x, y: 2**x,
    "square": lambda x, y: x.square(),
    "tanh": lambda x, y: torch.tanh(x),
    "sigmoid": lambda x, y: x.sigmoid(),
    "softplus": lambda x, y: F.softplus(x),
    "softplus with options": lambda x, y: F.softplus(x, beta=2),
    "relu": lambda x, y: F.relu(x) + torch.relu(y),
    "relu at 0": lambda x, y: F.relu(x * 0),
    "gelu": lambda x, y: F.gelu(x),
    "pow": lambda x, y: (x * x + 1) ** 1.5,
    "clamp": lambda x, y: torch.clamp(x, -0.5, 0.5),
    "sum": lambda x, y: x.sum() * y,
    "sum of an axis": lambda x, y: torch.stack([x, y]).sum(0),
    "mean": lambda x, y: torch.mean(x) + y.mean(0),
    "max": lambda x, y: x.max() + torch.max(y, 0).values,
    "topk": lambda x, y: x.topk(2).values,
    "softmax": lambda x, y: F.softmax(x, dim=0) * torch.softmax(y, -1),
    "log softmax": lambda x, y: x.log_softmax(-1) + F.log_softmax(y, dim=0),
    "linear": lambda x, y: F.linear(x, WEIGHT, BIAS),
    "linear of rows": lambda x, y: F.linear(torch.stack([x, y]), WEIGHT),
    "linear of some rows": lambda x, y: F.linear(torch.stack([x, y, x]).tanh()[1:], WEIGHT),
    "matmul": lambda x, y: x @ WEIGHT.T,
    "nothing": lambda x, y: F.pad(x[7:], (1, 0)) * y[7:].cumsum(0).sum() + x,
    "last axes exchanged": lambda x, y: torch.outer(x, y).mT[0],
    "row of a table, by a computed number": lambda x, y: WEIGHT[x.argmax() % 6] + x[y.argmin()],
    "rows of a table, by computed numbers": lambda x, y: WEIGHT[x.argsort() % 6] * y,
    "matrix first": lambda x, y: WEIGHT @ x + torch.mv(WEIGHT, y),
    "dot": lambda x, y: x @ y,
    "outer": lambda x, y: torch.outer(x, y),
    "bilinear": lambda x, y: torch.einsum("i,j->ij", x, y).flatten(),
    "cat": lambda x, y: torch.cat([x, y, x]),
    "cat of a tensor": lambda x, y: torch.cat([x, BIAS]),
    "stack": lambda x, y: torch.stack([x, y]).tanh(),
    "stack along another": lambda x, y: torch.stack([x, y], dim=1),
    "cat of rows": lambda x, y: torch.cat([torch.stack([x, y]), torch.stack([y, x])], dim=1),
    "chunk": lambda x, y: torch.cat([part * k for k, part in enumerate(x.chunk(3), 1)]),
    "split": lambda x, y: x.split([3, 4])[1] * y.split(4)[0][:4],
    "rows of a split": lambda x, y: torch.stack([x, y]).split(3, dim=1)[2],
    "index": lambda x, y: x[2] * y[-1] + x[1:3].sum(),
    "index with a tensor": lambda x, y: x[torch.tensor([0, 2, 2])],
    "index of two": lambda x, y: torch.stack([x, y])[1, 3],
    "reshape": lambda x, y: torch.cat([x, y]).reshape(2, 7).view(-1)[3:9].unsqueeze(0).squeeze(0),
    "flatten": lambda x, y: torch.stack([x, y]).flatten(),
    "transpose": lambda x, y: torch.stack([x, y]).t() @ torch.stack([y, x]),
    "unbind": lambda x, y: sum(torch.stack([x, y]).unbind(0)),
    "broadcast": lambda x, y: torch.stack([x, y]) * x,
    "twice": lambda x, y: x * x + x,
    "where": lambda x, y: torch.where(torch.tensor([True, False] * 3 + [True]), x, y),
    "where, numbers": lambda x, y: torch.where(x > y, 1.0, y) + x.where(x != y, torch.zeros(7)),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, torch.tensor(3.0)) + torch.masked_fill(y, x < 0, -1),
    "masked softmax": lambda x, y: torch.softmax(torch.stack([x, y]).masked_fill(y > 9, float("-inf")), 1)[1],
    "logical": lambda x, y: x * (torch.logical_xor(x > 0, y > 0) | torch.logical_not(x)) + (x.bool() & (y >= 0)),
    "any and all": lambda x, y: x * (y > 0).any() + y * torch.stack([x, y]).isfinite().all(dim=0),
    "comparison of two dtypes": lambda x, y: x * (x.float() >= y.float()).to(torch.int32) + (x > 0).type_as(y),
    "whole numbers": lambda x, y: x * ((y * 4).long() // 3 % 2 == 1) + (y.long() & 1),
    "keywords": lambda x, y: torch.cat(tensors=[*x.chunk(chunks=2, dim=0), y.narrow(dim=0, start=1, length=2)], dim=-1),
    "linear by keywords": lambda x, y: F.linear(input=x, weight=WEIGHT, bias=BIAS) + F.linear(y, WEIGHT, bias=None),
    "sizes as a list": lambda x, y: x.view([7, 1])[:, 0] + torch.stack([x, y]).view(torch.Size([7, 2])).sum([1]),
    "outer of a list": lambda x, y: torch.einsum("i,j->ji", [x, y]).diagonal() + torch.einsum("...i,...i->...", x, y),
    "cross entropy": lambda x, y: F.cross_entropy(x, torch.tensor(3)),
    "smoothed": lambda x, y: F.cross_entropy(x, torch.tensor(3), label_smoothing=0.1),
    "no label": lambda x, y: F.cross_entropy(x, torch.tensor(-100), reduction="sum"),
    "nll": lambda x, y: F.nll_loss(torch.log_softmax(x, 0), torch.tensor(1)),
    "mse": lambda x, y: F.mse_loss(x, y),
    "layer norm": lambda x, y: F.layer_norm(x, (7,), y),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name: str) -> None:
    function = VECTORS[name]
    x, y = torch.randn(4, 7, requires_grad=True), torch.randn(4, 7, requires_grad=True)
    expected = torch.stack([function(a, b) for a, b in zip(x, y, strict=True)])
    weights = torch.randn_like(expected)
    grads = torch.autograd.grad((weights * expected).sum(), [x, y], allow_unused=True)
    lazies = [function(a, b) for a, b in zip(dynamic.lazy(x), dynamic.lazy(y), strict=True)]
    assert lazies[0].shape == expected.shape[1:]
    values = torch.stack(dynamic.run(lazies))
    torch.testing.assert_close(values, expected, rtol=1e-10, atol=1e-12)
    result = torch.autograd.grad((weights * values).sum(), [x, y], allow_unused=True)
    for a, b in zip(result, grads, strict=True):
        assert (a is None or not a.any()) if b is None else a is not None
        if b is not None:
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


MODULES = {
    "linear": (lambda: nn.Linear(7, 3), lambda m, x: m(x)),
    "two layers": (lambda: nn.Sequential(nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2, bias=False)), lambda m, x: m(x)),
    "lstm": (lambda: nn.LSTMCell(7, 3), lambda m, x: torch.cat(m(x, (x[:3], x[2:5])))),
    "gru": (lambda: nn.GRUCell(7, 3), lambda m, x: m(x, x[:3])),
    "rnn": (lambda: nn.RNNCell(7, 3), lambda m, x: m(x, x[:3])),
    "norm": (lambda: nn.LayerNorm(7), lambda m, x: m(x)),
    "bias": (lambda: nn.Linear(7, 7), lambda m, x: m.bias * x + m.weight[2] + m.bias[0]),
    "shared": (lambda: nn.Linear(7, 7), lambda m, x: m(m(x) @ m.weight)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    make, call = MODULES[name]
    module, x = make(), torch.randn(5, 7, requires_grad=True)
    expected = torch.stack([call(module, row) for row in x])
    tensors = [x, *module.parameters()]
    grads = torch.autograd.grad(expected.square().sum(), tensors)
    values = torch.stack(dynamic.run([call(module, row) for row in dynamic.lazy(x)]))
    torch.testing.assert_close(values, expected)
    for ours, grad in zip(torch.autograd.grad(values.square().sum(), tensors), grads, strict=True):
        torch.testing.assert_close(ours, grad)


@pytest.mark.parametrize("rows", [3, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_few_and_of_many_rows(dtype: torch.dtype, rows: int) -> None:
    """Of widths that kernels take, from both sides, with results that are used where they are."""
    first, second = nn.Linear(32, 64, dtype=dtype), nn.Linear(64, 64, bias=False, dtype=dtype)
    matrix, x = torch.randn(64, 32, dtype=dtype, requires_grad=True), torch.randn(rows, 32, dtype=dtype)

    def call(row: Any) -> Any:
        hidden = first(row)
        return ((second(hidden) + hidden) @ matrix).sum()

    tensors = [*first.parameters(), *second.parameters(), matrix]
    expected = torch.autograd.grad(torch.stack([call(row) for row in x]).sum(), tensors)
    dynamic.backward([call(row) for row in dynamic.lazy(x)])
    for tensor, grad in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor.grad, grad, rtol=1e-3, atol=1e-3)


def test_gradients_are_added_and_seen_by_hooks() -> None:
    layer, x, seen = nn.Linear(64, 64), torch.randn(3, 64), list[torch.Tensor]()
    layer.weight.register_hook(seen.append)
    for _ in range(2):
        dynamic.backward([layer(row).sum() for row in dynamic.lazy(x)])
    expected = x.sum(0).expand(64, -1)
    torch.testing.assert_close(layer.weight.grad, 2 * expected)
    assert len(seen) == 2
    torch.testing.assert_close(seen[0], expected)  # and the second backward has left it alone


def test_parts_without_elements() -> None:
    assert [part.shape for part in dynamic.lazy(torch.zeros(3, 0))] == 3 * [(0,)]


def test_embedding_rows_are_no_operations() -> None:
    table = nn.Embedding(5, 3, padding_idx=2)
    ids = torch.tensor([4, 2, 4, 0])
    table(ids).square().sum().backward()
    expected, table.weight.grad = table.weight.grad, None
    rows = [table(i) for i in (dynamic.lazy(4), dynamic.lazy(torch.tensor(2)), *dynamic.lazy(ids)[2:])]
    dynamic.backward([(row * row).sum() for row in rows])
    torch.testing.assert_close(table.weight.grad, expected)
    assert dynamic.last_run().operations == 8


def test_a_computed_index_is_looked_up_too() -> None:
    table = nn.Embedding(5, 3)
    best = torch.argmax(dynamic.lazy(torch.tensor([0.0, 1.0, 3.0])), 0)
    torch.testing.assert_close(dynamic.run(table(best)), table.weight[2])


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_drawn_for_each_sample(training: bool) -> None:
    x = dynamic.lazy(torch.ones(64))
    first, second = dynamic.run([F.dropout(x, 0.5, training) for _ in range(2)])
    assert (not torch.equal(first, second)) == training
    assert set(first.tolist()) == ({0.0, 2.0} if training else {1.0})


def test_results_of_other_dtypes() -> None:
    x = dynamic.lazy(torch.tensor([1.0, 5.0, 2.0]))
    values, indices = torch.max(x, 0)
    assert [t.item() for t in dynamic.run([values, indices])] == [5.0, 1]
    whole = dynamic.lazy(torch.arange(3)) + dynamic.lazy(torch.arange(3))
    assert dynamic.run(whole).tolist() == [0, 2, 4]
    small = dynamic.lazy(torch.arange(3, dtype=torch.int32)) * 2
    assert dynamic.run(small).dtype == torch.int32


def test_inputs_that_are_not_contiguous() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    lazy = dynamic.lazy(x.T)
    dynamic.backward([(lazy[i] * lazy[i]).sum() for i in range(4)])
    torch.testing.assert_close(x.grad, 2 * x.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 31, 32, 33, 200])
def test_widths_around_those_of_vectors(width: int, dtype: torch.dtype) -> None:
    x = torch.randn(3, width, dtype=dtype, requires_grad=True)
    expected = torch.tanh(x) * x
    (grad,) = torch.autograd.grad(expected.sum(), [x])
    values = torch.stack(dynamic.run([torch.tanh(row) * row for row in dynamic.lazy(x)]))
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(torch.autograd.grad(values.sum(), [x])[0], grad)


def test_gradients_by_differences() -> None:
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        rows = dynamic.lazy(x)
        state = torch.tanh(rows[0] @ w)
        for row in rows[1:]:
            state = torch.sigmoid(state @ w + row) * state
        return torch.stack(dynamic.run([state, *rows]))

    assert torch.autograd.gradcheck(function, (x, w), fast_mode=True)


BOOLEANS: dict[str, Callable[..., Any]] = {
    "where": lambda x, y, b: torch.where(x > y, x, y * 2),
    "where with a number": lambda x, y, b: torch.where(x >= 0.1, x, 0.0),
    "masked_fill": lambda x, y, b: x.masked_fill(y < 0, -1.0) * x,
    "not": lambda x, y, b: torch.where(~(x > y), x, y),
    "and, or, xor": lambda x, y, b: torch.where(((x > y) & (x > 0)) | ((y > 0) ^ b), x, y),
    "logical": lambda x, y, b: torch.where(torch.logical_and(x > y, b).logical_not(), x, y),
    "product": lambda x, y, b: x * (y > 0) + (x > 0) * y,
    "float": lambda x, y, b: (x > 0).double() * y,
    "a boolean input": lambda x, y, b: torch.where(b, x, y),
    "any": lambda x, y, b: x * (y > 0).any(),
    "sum": lambda x, y, b: (y > 0).sum() * x,
    "cross entropy of labels": lambda x, y, b: F.binary_cross_entropy_with_logits(x, (y > 0).double()),
}


@pytest.mark.parametrize("wrap", [lambda f: f, dynamic.cell], ids=["operation", "cell"])
@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans(name: str, wrap: Any) -> None:
    if wrap is dynamic.cell and name in ("any", "sum", "cross entropy of labels"):
        pytest.skip("these mix the rows of a cell's body")
    form, b = BOOLEANS[name], torch.tensor([[True, False, True], [False, False, True]])
    x, y = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
    sample = wrap(form)
    ours = dynamic.run([sample(dynamic.lazy(x)[i], dynamic.lazy(y)[i], dynamic.lazy(b)[i]) for i in range(2)])
    theirs = [form(x[i], y[i], b[i]) for i in range(2)]
    for result, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(result, expected)
    for result, expected in zip(
        torch.autograd.grad(sum(z.square().sum() for z in ours), [x, y], create_graph=True, allow_unused=True),
        torch.autograd.grad(sum(z.square().sum() for z in theirs), [x, y], allow_unused=True),
        strict=True,
    ):
        missing = torch.zeros(2, 3)
        torch.testing.assert_close(missing if result is None else result, missing if expected is None else expected)


def test_boolean_results() -> None:
    x = dynamic.lazy(torch.tensor([1.0, -1.0]))
    assert (x > 0).dtype is torch.bool and (x > 0).value().tolist() == [True, False]
    flags, flag = dynamic.run([(x > 0) & dynamic.lazy(True), dynamic.lazy(True)])
    assert flags.dtype is torch.bool and flags.tolist() == [True, False] and flag.item() is True
    with pytest.raises(DGLError, match="branches on a value"):
        bool(dynamic.lazy(torch.ones(2)).sum() > 0)
