"""Cells: one node for a user's function, traced into a macro or run on stacked tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLError, dynamic


def lstm(cell: nn.LSTMCell) -> Any:
    return dynamic.cell(lambda x, h, c: cell(x, (h, c)))


def test_a_cell_is_as_many_operations_as_its_fused_body() -> None:
    module = nn.LSTMCell(4, 8)
    h = c = dynamic.lazy(torch.zeros(8))
    h, c = lstm(module)(dynamic.lazy(torch.ones(4)), h, c)
    dynamic.run(h)
    assert [name.split("[")[0] for name, _ in dynamic.last_run().batches] == ["linear", "linear", "lstm gates"]


def test_element_wise_work_is_fused_around_what_is_not() -> None:
    layer = nn.Linear(6, 6)

    @dynamic.cell
    def body(x: Any, y: Any) -> Any:
        a = torch.tanh(x) * y + 1
        b = layer(a)
        return torch.sigmoid(b) * a - x, b

    x, y = torch.randn(3, 6), torch.randn(3, 6)
    pairs = [body(a, b) for a, b in zip(dynamic.lazy(x), dynamic.lazy(y), strict=True)]
    result = dynamic.run([value for pair in pairs for value in pair])
    names = [name.split("[")[0] for name, _ in dynamic.last_run().batches]
    assert names == ["fused", "linear", "fused"]
    expected = body(x, y)
    torch.testing.assert_close(torch.stack(result[::2]), expected[0])
    torch.testing.assert_close(torch.stack(result[1::2]), expected[1])


BODIES = {
    "inputs as they are": lambda x, y: (y, x),
    "one result": lambda x, y: x + y,
    "a list": lambda x, y: [x * 2, y],
    "a constant": lambda x, y: (3 - x) / 2 * y + 1,
    "parts": lambda x, y: torch.cat([x[:, 1:3], y.chunk(2, 1)[1], x], 1),
    "a sum of an axis": lambda x, y: (x * y).sum(1),
    "softmax": lambda x, y: torch.softmax(x, 1) * y,
    "how many": lambda x, y: x + torch.ones(x.shape[0], 6) * y,
    "narrower": lambda x, y: torch.sigmoid(torch.tanh(torch.cat([x, y], 1))[:, :6]) * x,
    "relu": lambda x, y: torch.relu(x * 0) + F.relu(y),
    "many operands": lambda x, y: sum(x.chunk(6, 1)[k] * y.chunk(6, 1)[-k] for k in range(6)),
    "several axes": lambda x, y: torch.stack([x, y], 1),
    "a power": lambda x, y: x**2 * y,
    "a choice": lambda x, y: torch.where(x > 0, x, y),
    "in place": lambda x, y: (x * 2).mul_(y),
    "dropout that drops nothing": lambda x, y: F.dropout(x, 0.5, training=False) + y,
    "columns": lambda x, y: x[:, 1].unsqueeze(1) * y.unflatten(1, (2, 3)).flatten(1),
    "rows of parts": lambda x, y: F.elu((x + y).reshape(-1, 3), 0.5)[:, 1:].reshape(-1, 4) * x[:, :4],
    "along the last axis": lambda x, y: torch.cat([torch.stack([x, y], 1).softmax(-1).flatten(1), x], -1),
    "a column squeezed": lambda x, y: x[:, 2:3].squeeze() + y[:, 1],
    "a mean": lambda x, y: x.mean(1, keepdim=True) * y,
    "einsum": lambda x, y: torch.einsum("bi,bi->b", x, y),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    body = BODIES[name]
    x, y = torch.randn(5, 6, requires_grad=True), torch.randn(5, 6, requires_grad=True)
    expected = body(x, y)
    several = isinstance(expected, list | tuple)
    expected = list(expected) if several else [expected]
    grads = torch.autograd.grad(sum(value.square().sum() for value in expected), [x, y])
    recorded = dynamic.cell(body)
    results = [recorded(a, b) for a, b in zip(dynamic.lazy(x), dynamic.lazy(y), strict=True)]
    assert type(results[0]) is (type(body(x, y)) if several else dynamic.LazyTensor)
    flat = [value for result in results for value in (result if several else [result])]
    values = dynamic.run(flat)
    for k, value in enumerate(expected):
        torch.testing.assert_close(torch.stack(values[k :: len(expected)]), value)
    result = torch.autograd.grad(sum(value.square().sum() for value in values), [x, y])
    for a, b in zip(result, grads, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.Linear])
def test_parameters_of_bodies_that_run_on_stacked_tensors(kind: Any) -> None:
    module = kind(6, 6)

    def body(x: Any, y: Any) -> Any:
        y = torch.softmax(y, 1) * torch.ones(y.shape[0], 6)
        result = module(x, (y, x)) if kind is nn.LSTMCell else module(x, y) if kind is nn.GRUCell else module(x)
        return result[0] * y if kind is nn.LSTMCell else result * y

    x, y = torch.randn(5, 6), torch.randn(5, 6)
    body(x, y).square().sum().backward()
    expected = {name: p.grad for name, p in module.named_parameters()}
    module.zero_grad()
    recorded = dynamic.cell(body)
    state = dynamic.lazy(y)
    first = [recorded(a, state[i]) for i, a in enumerate(dynamic.lazy(x))]
    dynamic.backward([(value * value).sum() for value in first])
    assert ("body" in dynamic.last_run().batches[0][0]) and dynamic.last_run().batches[0][1] == 5
    for name, p in module.named_parameters():
        torch.testing.assert_close(p.grad, expected[name])


def test_functions_without_an_entry_are_operations_of_the_macro() -> None:
    first, norm, second = nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 6, bias=False)

    def body(x: Any, y: Any) -> Any:
        return second(norm(first(x))) * torch.softmax(y, 1) + x**2, F.elu(y, 0.5)

    x, y = torch.randn(5, 6), torch.randn(5, 6)
    sum(value.square().sum() for value in body(x, y)).backward()
    parameters = [*first.parameters(), *norm.parameters(), *second.parameters()]
    expected = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    recorded = dynamic.cell(body)
    results = [recorded(a, b) for a, b in zip(dynamic.lazy(x), dynamic.lazy(y), strict=True)]
    dynamic.backward([(value * value).sum() for result in results for value in result])
    batches = {name.split("[")[0].split("(")[0]: count for name, count in dynamic.last_run().batches}
    assert batches["layer_norm"] == batches["linear"] == batches["softmax"] == 5
    for p, grad in zip(parameters, expected, strict=True):
        torch.testing.assert_close(p.grad, grad)


def test_a_cell_may_use_another_one() -> None:
    inner = dynamic.cell(lambda x: torch.tanh(x) * 2)
    outer = dynamic.cell(lambda x: inner(x) + 1)
    x = torch.randn(3)
    torch.testing.assert_close(dynamic.run(outer(dynamic.lazy(x))), torch.tanh(x) * 2 + 1)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"ignore_index": 1}])
def test_losses_belong_to_a_macro(options: dict[str, Any]) -> None:
    layer, x, labels = nn.Linear(6, 3), torch.randn(4, 6), torch.tensor([0, 2, 1, 2])

    def body(x: Any, label: Any) -> Any:
        return F.cross_entropy(layer(x), label, reduction="none", **options)

    expected = body(x, labels)
    expected.sum().backward()
    grad, layer.weight.grad = layer.weight.grad, None
    recorded = dynamic.cell(body)
    result = dynamic.backward([recorded(a, b) for a, b in zip(dynamic.lazy(x), dynamic.lazy(labels), strict=True)])
    torch.testing.assert_close(result, expected.sum().detach())
    torch.testing.assert_close(layer.weight.grad, grad)
    assert [name.partition("[")[0].partition("(")[0] for name, _ in dynamic.last_run().batches] == [
        "linear",
        "cross_entropy",
    ]


def test_a_loss_of_all_samples_together_is_refused() -> None:
    x = dynamic.lazy(torch.randn(4))
    with pytest.raises(DGLError, match="a row for each sample"):
        dynamic.cell(lambda x, y: F.cross_entropy(x, y))(x, dynamic.lazy(1))


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x - x.mean(0),
        lambda x: x - x.mean(),
        lambda x: x.softmax(0),
        lambda x: torch.sort(x, 0).values,
        lambda x: x.roll(1, 0),
        lambda x: x / x.norm(),
        lambda x: (x @ x.T) @ x,
    ],
)
def test_a_body_that_mixes_samples_is_refused(body: Any) -> None:
    with pytest.raises(DGLError, match="mixes rows"):
        dynamic.cell(body)(dynamic.lazy(torch.ones(3)))


def test_a_method_may_be_a_cell() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        @dynamic.cell
        def step(self, x: Any) -> Any:
            return torch.tanh(self.layer(x))

    model, other = Model(), Model()
    x = torch.randn(3)
    lazy = dynamic.lazy(x)
    result = dynamic.run([model.step(lazy), other.step(lazy), model.step(model.step(lazy))])
    torch.testing.assert_close(result[0], model.step(x[None])[0])
    torch.testing.assert_close(result[1], other.step(x[None])[0])
    torch.testing.assert_close(result[2], model.step(model.step(x[None]))[0])


def test_what_a_body_must_not_do() -> None:
    x = dynamic.lazy(torch.ones(3))
    with pytest.raises(DGLError, match="branches on a value"):
        dynamic.cell(lambda x: x if x else -x)(x)
    with pytest.raises(DGLError, match="sum in a cell's body mixes rows"):
        dynamic.cell(lambda x: torch.softmax(x, 1).sum())(x)
    with pytest.raises(DGLError, match="make the tensor lazy"):
        dynamic.cell(lambda x, y: x + y)(x, torch.ones(3))

    def writes(x: Any) -> Any:
        x[:, 0] = 1
        return x

    with pytest.raises(DGLError, match="in place"):
        dynamic.cell(writes)(x)


def test_rows_of_a_body_have_no_values() -> None:
    x, leaked = dynamic.lazy(torch.ones(3)), list[Any]()

    def body(x: Any) -> Any:
        leaked.append(torch.tanh(x))
        return leaked[-1] * 2

    dynamic.cell(body)(x)
    with pytest.raises(DGLError, match="stand for any sample"):
        dynamic.run(leaked)
    with pytest.raises(DGLError, match="stand for any sample"):
        dynamic.cell(lambda x: x if x.value().sum() > 0 else -x)(dynamic.lazy(torch.ones(3)))


def test_operations_of_a_cell_are_batched_with_those_outside() -> None:
    layer, x = nn.Linear(3, 3), torch.randn(3)
    inside = dynamic.cell(lambda x: torch.tanh(layer(x)))(dynamic.lazy(x))
    outside = torch.tanh(layer(dynamic.lazy(x + 1)))
    result = dynamic.run([inside, outside])
    torch.testing.assert_close(result, [torch.tanh(layer(x)), torch.tanh(layer(x + 1))])
    assert [count for _, count in dynamic.last_run().batches] == [2, 2]
