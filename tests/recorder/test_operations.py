"""Every spelling of an operation that tensors have is recorded, and is what it is as written: values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite.ops import core
from tests.recorder.common import (
    assert_as_for_real,
    assert_recorded,
    assert_same,
    compiled,
    for_real,
    multigraph,
    outcome,
    reason,
    recorded,
)

ELEMENTWISE = """
    -x | torch.neg(x) | x.neg() | +x | abs(x) | torch.abs(x) | x.abs() | torch.absolute(x) | x.sign()
    torch.sign(x)
    x + y | torch.add(x, y) | x.add(y) | x + 1.5 | 1.5 + x | torch.add(x, other=y)
    x - y | torch.sub(x, y) | x.sub(y) | x - 1.5 | 1.5 - x | torch.subtract(x, y)
    x * y | torch.mul(x, y) | x.mul(y) | x * 2 | 3 * x | torch.multiply(x, y) | x * w | w * x | x * x
    x / y | torch.div(x, y) | x.div(y) | x / 3 | 3 / x | torch.true_divide(x, y) | x / w | x.reciprocal()
    torch.exp(x) | x.exp() | torch.expm1(x) | x.expm1() | torch.log(p) | p.log()
    torch.sqrt(p) | p.sqrt() | torch.rsqrt(p) | x.square()
    x ** 2 | x ** 3 | x.pow(2) | torch.pow(x, 4) | p ** 0.5 | p ** 1.5 | p ** -0.5 | x ** -2 | x ** 17 | x ** 20
    torch.tanh(x) | x.tanh() | F.tanh(x) | torch.sigmoid(x) | x.sigmoid() | F.sigmoid(x)
    torch.relu(x) | x.relu() | F.relu(x) | F.leaky_relu(x) | F.leaky_relu(x, 0.2)
    F.leaky_relu(x, negative_slope=0.3)
    F.elu(x) | F.elu(x, alpha=0.5) | F.silu(x) | F.softplus(x) | F.logsigmoid(x)
    torch.clamp(x, -0.5, 0.5) | x.clamp(min=-0.5) | x.clamp(max=0.5) | torch.clip(x, -0.7, 0.9) | x.clamp_min(0.1)
    torch.maximum(x, y) | torch.minimum(x, y) | x.maximum(y)
    torch.where(x > y, x, y) | torch.where(x > 0, x, 0.0) | torch.where(x >= 0.5, 1.0, x) | torch.where(y < x, w, x)
    torch.where(x <= y, x * y, x + y) | torch.where(x == y, x, -x) | torch.where(x != y, x, y)
    torch.where(0 < x, x, y)
    torch.where(torch.gt(x, y), x, y) | torch.where(x.lt(y), x, y) | torch.where(torch.greater_equal(x, y), x, y)
    x.masked_fill(x < 0, 2.0) | x.masked_fill(x > y, float('-inf')).exp() | (x > 0) * x | x * (x > y)
    x * c | c * x | x + c | c - x | x / c | c / x | torch.add(c, x) | torch.mul(x, c) | torch.where(x > c, x, c)
    x * s | s * x | s - x | x / s | x + b | x * r | torch.maximum(x, c)
    x.to(x.dtype) | x.double() | x.type_as(y) | x.to(torch.float64) | x.contiguous()
    torch.exp(-(x - y) ** 2 / 2) * w + c | torch.sigmoid(x * c + y) * torch.tanh(p) | x * 0.1 + y * 0.7 + 1e-3
"""
"""Operations element by element: ``x`` and ``y`` at the ends of an edge, ``p`` positive, ``w`` one number per edge,
``c`` (3,), ``r`` (1, 3) and ``b`` (1,) captured, ``s`` a captured tensor without axes."""

TRAILING = """
    (x * y).sum(-1) | (x * y).sum(-1, keepdim=True) | torch.sum(x * y, dim=-1) | torch.sum(x * c, -1, keepdim=True)
    x.sum(1) | (x * y).sum(dim=1) | x.sum((-1,)) | x.sum(axis=-1) | (x * y).sum(-1, keepdim=True) * x
    torch.exp((x * y).sum(-1, keepdim=True) / 1.7) * x
"""
"""Sums over the last axis."""

ROWWISE = """
    x.unsqueeze(1) * y.unsqueeze(-1) | x[:, None] * y[..., None] | x.view(-1, 3, 1) * y.view(-1, 1, 3)
    x[:, :2] * y[:, 1:]
    x[:, 0] * y[:, -1] | x[..., 0] + y[..., 1] | x.reshape(-1, 1, 3).squeeze(1)
    x.view(x.shape[0], 3, 1).squeeze(-1)
    x @ W | torch.matmul(x, W) | F.linear(x, W, c) | F.linear(x, W) * y | torch.relu(x @ W) * y | linear(x) + y
"""
"""What works on each row alone: it may run on the nodes, of which there are fewer."""


def spellings(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split("|")]


def message_of(text: str, **names: object) -> object:
    source = (
        "def f(edges):\n"
        "    x, y, p, w = edges.src['h'], edges.dst['h'], edges.src['p'], edges.data['w']\n"
        f"    return {{'m': {text}}}\n"
    )
    return compiled(source, **names)


def parameters() -> dict[str, torch.Tensor]:
    given = {
        "c": torch.tensor([0.7, -1.3, 0.4]),
        "r": torch.tensor([[1.1, 0.6, -0.8]]),
        "b": torch.tensor([0.9]),
        "s": torch.tensor(1.7),
        "W": torch.tensor([[0.3, -0.5, 1.2], [0.8, 0.1, -0.4], [-0.6, 0.9, 0.2]]),
    }
    return {name: x.double().requires_grad_() for name, x in given.items()}


def summed(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


def assert_edges_as_for_real(message, given) -> None:
    result, expected = (
        outcome(multigraph, lambda g, f=f: g.apply_edges(f), list(given.values())) for f in (message, for_real(message))
    )
    for actual, want in zip(result, expected, strict=True):
        assert_same(actual, want)


@pytest.mark.parametrize("text", spellings(ELEMENTWISE))
def test_element_by_element(text):
    given = parameters()
    message = message_of(text, **given)
    assert_recorded(message, multigraph())
    assert_edges_as_for_real(message, given)


@pytest.mark.parametrize("text", spellings(TRAILING))
def test_a_sum_over_the_last_axis(text):
    given = parameters()
    message = message_of(text, **given)
    # What is computed from a sum needs the sum first: a number per edge, and no E x width tensor.
    captured = recorded(message, multigraph())
    assert captured is not None and all(x.shape[0] == 1 or x.numel() == x.shape[0] for x in captured)
    assert_edges_as_for_real(message, given)


@pytest.mark.parametrize("text", spellings(ROWWISE))
def test_work_on_each_row_runs_on_nodes(text):
    given = parameters()
    linear = nn.Linear(3, 3).double()
    message = message_of(text, **given, linear=linear)
    assert_recorded(message, multigraph(), rows=6)
    assert_edges_as_for_real(message, {**given, **dict(linear.named_parameters())})


@pytest.mark.parametrize(
    "text", ["x.sum(0) + x", "x.cumsum(1)", "x.double().long() + 0.0", "x[[1, 0] * 7]", "x.flip(0)"]
)
def test_what_is_no_expression_is_computed_and_goes_on(text):
    """The column becomes a tensor, and the function is not run again."""
    message = message_of(text)
    assert recorded(message, multigraph()) is not None, "recording was given up instead of continued"
    assert_edges_as_for_real(message, {})


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("x.double()", "float64"),
        ("x.half()", "float16"),
        ("x.bfloat16()", "bfloat16"),
        ("x.float()", "float32"),
        ("x.to(torch.float64)", "float64"),
        ("x.to(dtype=torch.float16)", "float16"),
        ("x.type_as(d)", "float64"),
        ("x * d", "float64"),
        ("x * d[0]", "float32"),
        ("x > 0", "bool"),
        ("(x > 0).float()", "float32"),
        ("(x > 0) * 2", "int64"),
        ("x.long()", "int64"),
    ],
)
def test_casts_give_the_dtype_that_they_say(text, dtype):
    d = torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64)
    message = message_of(text, d=d)

    def run(function):
        g = multigraph(dtype=torch.float32)
        g.apply_edges(function)
        return g.edata["m"]

    assert run(message).dtype == getattr(torch, dtype)
    torch.testing.assert_close(run(message), run(for_real(message)))


REDUCTIONS = """
    m.sum(1) | m.sum(dim=1) | m.sum(-2) | torch.sum(m, 1) | torch.sum(m, dim=1) | m.sum((1,)) | m.sum([1])
    m.sum(axis=1)
    m.mean(1) | m.mean(dim=1) | m.mean(-2) | torch.mean(m, 1) | torch.mean(m, dim=1)
    m.max(1)[0] | m.max(1).values | m.max(dim=1)[0] | torch.max(m, 1)[0] | torch.max(m, dim=1).values | m.amax(1)
    m.amax(dim=1) | torch.amax(m, dim=1) | torch.amax(m, 1) | m.amax((1,))
    m.min(1)[0] | m.min(1).values | torch.min(m, dim=1)[0] | m.amin(1) | torch.amin(m, 1) | m.amin(dim=-2)
    m.logsumexp(1) | torch.logsumexp(m, 1) | torch.logsumexp(m, dim=1) | torch.logsumexp(m * c, dim=(1,))
    (torch.softmax(m, 1) * m).sum(1) | (F.softmax(m, dim=1) * m).sum(1) | (m.softmax(1) * m).sum(1)
    (torch.softmax(m.sum(-1, keepdim=True), dim=1) * m).sum(1) | (m.softmax(-2) * n.unsqueeze(1)).sum(dim=1)
    m.sum(1, keepdim=True).squeeze(1) | m.mean(1, True)[:, 0] | m.max(1, keepdim=True)[0].squeeze(1)
    m.amax(1, keepdim=True).squeeze(1) | m.logsumexp(1, keepdim=True)[:, 0]
    torch.logsumexp(m, 1, True).view(-1, 3)
    torch.relu(m).sum(1) | (m * c).mean(1) | torch.exp(m - m.max(1, keepdim=True)[0]).sum(1)
    (m ** 2).sum(1).sqrt()
    (m - m.mean(1, keepdim=True)).square().mean(1) | (m * n.unsqueeze(1)).sum(1) | (m * n[:, None]).sum(-1).mean(1)
    (m * n.unsqueeze(1)).sum(-1, keepdim=True).sum(1) * n | m[:, :, 0].sum(1) | m[..., 1:].amax(1) | (m @ W).sum(1)
    m.sum(1) + m.mean(1) * m.amax(1) | torch.relu(linear(m.sum(1)) + n) | torch.cat([n, m.mean(1)], -1)
    torch.where(m > 0, m, 0.5 * m).sum(1) | m.masked_fill(m < 0, float('-inf')).logsumexp(1) | m.sum(1).sum(-1)
    torch.where(m == m.amax(1, keepdim=True), m * n.unsqueeze(1), m).sum(1)
"""
"""Reductions of the messages ``m`` of shape (nodes, degree, 3); ``n`` are the nodes' own features."""


def reducer_of(text: str, **names: object) -> object:
    source = f"def f(nodes):\n    m, n = nodes.mailbox['m'], nodes.data['h']\n    return {{'out': {text}}}\n"
    return compiled(source, **names)


@pytest.mark.parametrize("text", spellings(REDUCTIONS))
def test_reductions_over_messages(text):
    given = parameters()
    linear = nn.Linear(3, 3).double()
    message, reduce = message_of("x * w"), reducer_of(text, **given, linear=linear)
    trained = [*given.values(), *linear.parameters()]
    assert_as_for_real(message, reduce, parameters=trained)
    g = multigraph()
    g.ndata["h"].requires_grad_()
    assert "without fusion" not in reason(g, message, reduce)


@pytest.mark.parametrize("width", [1, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "text", ["m.amax(1)", "m.amin(1)", "torch.where(m == m.max(1, keepdim=True)[0], m, 0.0).sum(1)"]
)
def test_extrema_are_found_among_messages_that_are_computed_on_the_way(text, dtype, width):
    """Equal edges share: some nodes have several messages that are the largest."""

    def sent(edges):
        return {"m": edges.src["h"] * 0.3 + edges.dst["h"]}

    def make():
        return multigraph((width,), dtype)

    coarse = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype)
    tolerance = {} if coarse is None else {"rtol": coarse, "atol": coarse}
    assert_as_for_real(sent, reducer_of(text), make, **tolerance)


@pytest.mark.parametrize(
    "text",
    [
        "m.std(1)",
        "m.median(1)[0]",
        "m.sort(1)[0][:, -1]",
        "m[:, 0]",
        "m.max(1)[1].double()",
        "m.prod(1)",
        "m.sum(1) / len(m)",
    ],
)
def test_what_needs_the_mailbox_itself_is_bucketed(text):
    message, reduce = message_of("x * w"), reducer_of(text)
    assert_as_for_real(message, reduce)
    assert "executed as written, without fusion: it " in reason(multigraph(), message, reduce)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x.sum(3)", IndexError),
        ("x.sum(-3)", IndexError),
        ("x.unsqueeze(5)", IndexError),
        ("x[:, 7]", IndexError),
        ("x + torch.ones(4)", RuntimeError),
        ("x.view(-1, 4)", RuntimeError),
        ("(x > 0) - x", RuntimeError),
        ("-(x > 0)", RuntimeError),
        ("torch.clamp(x)", RuntimeError),
        ("torch.maximum(x, 0.5)", TypeError),
        ("torch.exp(x, y)", TypeError),
        ("x @ torch.ones(2, 2).double()", RuntimeError),
        ("edges.src['missing']", KeyError),
        ("undefined", NameError),
    ],
)
def test_errors_are_those_of_the_tensors(text, error):
    g, message = multigraph(), message_of(text)
    before = set(g.ndata), set(g.edata)
    for function in (message, for_real(message)):
        with pytest.raises(error):
            g.update_all(function, summed)
        with pytest.raises(error):
            g.apply_edges(function)
    assert (set(g.ndata), set(g.edata)) == before


@pytest.mark.parametrize(
    ("text", "error"),
    [("m.sum(5)", IndexError), ("nodes.mailbox['q'].sum(1)", KeyError), ("m.sum(1) + torch.ones(4)", RuntimeError)],
)
def test_errors_of_reducers_are_those_of_the_tensors(text, error):
    g, message, reduce = multigraph(), message_of("x"), reducer_of(text)
    for function in (reduce, for_real(reduce)):
        with pytest.raises(error):
            g.update_all(message, function)
    assert "out" not in g.ndata


def test_numbers_are_compared_in_the_dtype_of_the_column():
    """0.1 in float32 is above 0.1 in float64; tensors compare in float32, also in the lanes at the end of a row."""
    message = message_of("torch.where(x > 0.1, x * 2, x) + torch.where(x == 0.1, x, 0 * x)")
    for feat in ((), (1,), (5,), (16,)):

        def make(feat=feat):
            g = multigraph(feat, torch.float32)
            g.ndata["h"] = torch.full((6, *feat), 0.1)
            return g

        assert_as_for_real(message, summed, make)


@pytest.mark.parametrize(
    "text", ["x * 0.1 + 3.7", "torch.exp(-x.abs()) * y", "p ** 1.7", "torch.tanh(x) + F.elu(y)", "x * c"]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_in_lower_precision(dtype, text):
    kind = getattr(torch, dtype)
    message = message_of(text, c=torch.tensor([0.7, -1.3, 0.4], dtype=kind))
    assert_recorded(message, multigraph(dtype=kind))
    g, h = multigraph(dtype=kind), multigraph()
    exact = message_of(text, c=torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64))
    for k in ("h", "p"):
        h.ndata[k] = g.ndata[k].double()
    g.apply_edges(message)
    h.apply_edges(for_real(exact))
    assert g.edata["m"].dtype == kind
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6}[dtype]
    torch.testing.assert_close(g.edata["m"].double(), h.edata["m"], rtol=tolerance, atol=tolerance)


def test_a_sum_that_is_read_repeatedly_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sums, sddmm = [], core.sddmm

    def counted(adjacency: Any, expr: Any, operands: Any, dot: bool = False) -> Any:
        sums.append(dot)
        return sddmm(adjacency, expr, operands, dot=dot)

    def message(edges: Any) -> dict[str, torch.Tensor]:
        squared = torch.sum(edges.data["x"] ** 2, dim=1, keepdim=True)
        return {"m": torch.cat([torch.exp(-squared / sigma) for sigma in (1.5, 2.5, 3.5)], -1)}

    monkeypatch.setattr(core, "sddmm", counted)
    g = dglite.rand_graph(5, 9)
    g.edata["x"] = torch.rand(9, 3)
    g.apply_edges(message)
    distance = g.edata["x"].square().sum(1, keepdim=True)
    torch.testing.assert_close(g.edata["m"], torch.exp(-distance / torch.tensor([1.5, 2.5, 3.5])))
    assert sums.count(True) == 1
