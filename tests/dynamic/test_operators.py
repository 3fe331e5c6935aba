"""Operators inside of vertex functions, beside the same function called for one vertex after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dglite
from dglite import DGLError, dynamic

Form = Callable[..., Tensor]


CHAIN = dglite.graph(([0, 1, 2], [1, 2, 3]))
X = torch.tensor([[0.5, -1.0, 2.0, 0.0], [1.5, 1.0, -2.0, 0.3], [0.1, -0.2, 0.3, -0.4], [-1.0, 2.0, 0.7, 0.9]])
M = torch.tensor([[1.0], [-1.0], [1.0], [0.0]])
IDS, FLAGS = torch.tensor([0, -1, 2, 1]), torch.tensor([True, False, True, True])
SHARED = torch.tensor([True, False, True, True])


def assigned(x: Tensor, h: Tensor) -> Tensor:
    before = x.exp().sum(1, keepdim=True) * h
    x[h > 0.1] = 0.0
    return x + before


BOOLEANS: dict[str, Form] = {
    "where, (n, 1)": lambda x, m, i, b, h: torch.where(m > 0, x, h),
    "where, (n, k)": lambda x, m, i, b, h: torch.where(x > h, x, h * 2),
    "where of integers": lambda x, m, i, b, h: torch.where((i >= 0)[:, None], x, h),
    "where of a boolean input": lambda x, m, i, b, h: torch.where(b[:, None], x, h),
    "one_hot": lambda x, m, i, b, h: F.one_hot(i.clamp(min=0), 4) * x + h,
    "softmax of masked scores": lambda x, m, i, b, h: (
        torch.softmax(x.masked_fill(x > 0, -torch.inf), 1).nan_to_num() + h
    ),
    "where of state": lambda x, m, i, b, h: torch.where(h > 0.1, h, x),
    "where, numbers": lambda x, m, i, b, h: x + torch.where(h > 0.1, 1.0, 0.5),
    "where, one number": lambda x, m, i, b, h: x + torch.where(h > 0.1, h, 0.0),
    "where, shared condition": lambda x, m, i, b, h: torch.where(SHARED, x, h),
    "method where": lambda x, m, i, b, h: x.where(m > 0, h),
    "masked_fill": lambda x, m, i, b, h: x + h.masked_fill(m > 0, 0.0),
    "masked_fill of an input": lambda x, m, i, b, h: x + h.masked_fill(b[:, None], -1.0),
    "masked_fill, minus infinity": lambda x, m, i, b, h: h + torch.softmax(x.masked_fill(x < 0, -torch.inf), -1),
    "masked_fill, whole mask": lambda x, m, i, b, h: x + h.masked_fill(x.isnan(), 0.0),
    "not": lambda x, m, i, b, h: torch.where(~(m > 0), x, h),
    "not of an input": lambda x, m, i, b, h: torch.where(~b[:, None], x, h),
    "and": lambda x, m, i, b, h: torch.where((m > 0) & (x > 0), x, h),
    "or": lambda x, m, i, b, h: torch.where((m > 0) | (x > h), x, h),
    "xor": lambda x, m, i, b, h: torch.where((m > 0) ^ (x > 0), x, h),
    "and with an input": lambda x, m, i, b, h: torch.where(b[:, None] & (x > 0), x, h),
    "and of integers": lambda x, m, i, b, h: torch.where((i > 0)[:, None] & (x > 0), x, h),
    "logical_and of numbers": lambda x, m, i, b, h: torch.where(torch.logical_and(m, x), x, h),
    "logical_not of numbers": lambda x, m, i, b, h: torch.where(torch.logical_not(x), x + 1, h),
    "eq of booleans": lambda x, m, i, b, h: torch.where((x > 0) == (h > 0), x, h),
    "chained": lambda x, m, i, b, h: torch.where(~((x > 0) & ~(h > 0.2)) | (m > 0), x, h),
    "float": lambda x, m, i, b, h: (x > 0).float().to(x) * x + h,
    "to": lambda x, m, i, b, h: (x > h).to(x.dtype) * x + h,
    "type_as": lambda x, m, i, b, h: (m > 0).type_as(x) * x + h,
    "float of an input": lambda x, m, i, b, h: b[:, None].to(x.dtype) * x + h,
    "times a boolean": lambda x, m, i, b, h: x * (h > 0.1) + h,
    "one minus": lambda x, m, i, b, h: (1 - (m > 0).to(x.dtype)) * x + h,
    "isnan": lambda x, m, i, b, h: torch.where((x / x).isnan(), h, x),
    "isinf, not": lambda x, m, i, b, h: torch.where(~(1 / x).isinf(), h, x),
    "any": lambda x, m, i, b, h: torch.where((x > 1).any(-1, keepdim=True), x, h),
    "all": lambda x, m, i, b, h: torch.where((x > -1).all(1)[:, None], x, h),
    "sum of booleans": lambda x, m, i, b, h: x + h * (x > 0).sum(1, keepdim=True),
    "part": lambda x, m, i, b, h: torch.where((x > 0)[:, :1], x, h),
    "cat": lambda x, m, i, b, h: torch.where(torch.cat([x[:, :2] > 0, h[:, 2:] > 0], 1), x, h),
    "in place": lambda x, m, i, b, h: torch.where((x > 0).logical_and_(m > 0), x, h),
    "assigned where true": lambda x, m, i, b, h: assigned(x * 2, h),
    "bool": lambda x, m, i, b, h: torch.where(x.bool(), x, h),
    "clamp": lambda x, m, i, b, h: h.clamp(min=0.1) + x,
    "maximum": lambda x, m, i, b, h: torch.maximum(h, x),
    "relu mask": lambda x, m, i, b, h: h * (h > 0) + x,
    "whole number of a boolean": lambda x, m, i, b, h: x + h * (x > 0).long(),
    "isfinite, all": lambda x, m, i, b, h: torch.where((1 / x).isfinite().all(-1, keepdim=True), x + h, h),
    "quotients of integers": lambda x, m, i, b, h: torch.where((i // 2 == 1)[:, None] | (i % 2 == 0)[:, None], x, h),
    "integers of 32 bits": lambda x, m, i, b, h: torch.where((i.to(torch.int32) >= 1).unsqueeze(-1), x, h),
    "sorted": lambda x, m, i, b, h: torch.sort(x, dim=1).values + torch.topk(h, 4, dim=1).values * (h != 0),
    "lookup where known": lambda x, m, i, b, h: torch.where((i >= 0)[:, None], X.to(x.dtype)[i.clamp(min=0)] * x, h),
    "bucketize": lambda x, m, i, b, h: x + h * torch.bucketize(x, SHARED.to(x.dtype).sort().values).to(x.dtype),
}

WIDE: dict[str, Form] = {
    "column times row": lambda x, m, i, b, h: m * x + h,
    "column of state": lambda x, m, i, b, h: h[:, :1] * x + h,
    "sum of features": lambda x, m, i, b, h: h / (h.abs().sum(1, keepdim=True) + 1) + x,
    "norm": lambda x, m, i, b, h: h / (h.norm(dim=1, keepdim=True) + 1) + x,
    "column times parameters": lambda x, m, i, b, h: (m * SHARED.to(x.dtype)) * x + h,
    "rows of columns times parameters": lambda x, m, i, b, h: (
        (x.view(-1, 2, 2)[:, :, :1] * SHARED.to(x.dtype)).sum(1) + h
    ),
    "expanded parameters": lambda x, m, i, b, h: SHARED.to(x.dtype).expand(len(x), -1) * x + h,
    "expanded matrix": lambda x, m, i, b, h: (
        torch.bmm(x[:, None], SHARED.to(x.dtype).diag().expand(len(x), 4, 4))[:, 0] + h
    ),
    "repeated parameters": lambda x, m, i, b, h: torch.cat([SHARED.to(x.dtype).repeat(x.size(0), 1), x], 1)[:, 2:6] + h,
    "both directions": lambda x, m, i, b, h: (x - x.mean(-1, keepdim=True)) * m + h,
}


def check(form: Form, dtype: torch.dtype = torch.float64) -> None:
    """Compare values and gradients of a chain."""

    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            h = form(*self.pull(), self.gather(0))
            self.scatter(h)
            self.push(h)

    inputs = [X.to(dtype), M.to(dtype), IDS, FLAGS]
    ours, theirs = ([x.clone().requires_grad_(x.is_floating_point()) for x in inputs] for _ in range(2))
    h, rows = torch.zeros(1, 4, dtype=dtype), []
    for v in range(4):
        h = form(*[x[v : v + 1] for x in theirs], h)
        rows.append(h)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # kernels that could not be translated
        result = Program(state=4)(CHAIN, *ours)
    torch.testing.assert_close(result, torch.cat(rows))
    weight = torch.linspace(0.5, 2, 16, dtype=dtype).view(4, 4)
    (result * weight).sum().backward()
    (torch.cat(rows) * weight).sum().backward()
    for x, y in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(*[torch.zeros_like(z) if z.grad is None else z.grad for z in (x, y)])


@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans(name: str) -> None:
    check(BOOLEANS[name])


@pytest.mark.parametrize("name", ["where, (n, 1)", "and", "masked_fill", "float"])
def test_booleans_in_float32(name: str) -> None:
    check(BOOLEANS[name], torch.float32)


@pytest.mark.parametrize("name", WIDE)
def test_rows_of_one_value_are_broadcast(name: str) -> None:
    check(WIDE[name])


def test_a_boolean_input_of_some_vertices() -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            x, flag = self.pull()
            h = torch.where(flag, x, self.gather(0) + 1)
            self.scatter(h)
            self.push(h)

    flags = dynamic.Partial(torch.tensor([1, 3]), torch.tensor([[True], [False]]))
    result = Program(state=4)(CHAIN, X, flags)
    rows = [torch.ones(4), X[1], X[1] + 1, X[1] + 2]
    torch.testing.assert_close(result, torch.stack(rows))


@pytest.mark.parametrize("verb", ["push", "scatter"])
def test_booleans_are_neither_pushed_nor_scattered(verb: str) -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            h = self.pull() + self.gather(0)
            self.scatter(h > 0 if verb == "scatter" else h)
            self.push(h > 0)

    with pytest.raises(DGLError, match=f"{verb} got booleans"):
        Program(state=4)(CHAIN, X)


def test_indexing_by_a_boolean_is_refused() -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            h = self.pull() + self.gather(0)
            self.scatter(h)
            self.push(h[h[:, 0] > 0])

    with pytest.raises(DGLError, match="looks at the values"):
        Program(state=4)(CHAIN, X)


# -- contractions with parameters --------------------------------------------------------------------------------------
CONTRACTIONS: dict[str, Form] = {
    "einsum with a matrix": lambda x, w, t, h: torch.einsum("ni,ij->nj", h, w) + x,
    "einsum with its transpose": lambda x, w, t, h: torch.einsum("bi, oi -> bo", h, w) + x,
    "einsum without output": lambda x, w, t, h: torch.einsum("bi,ij", h, w) + x,
    "einsum with an ellipsis": lambda x, w, t, h: torch.einsum("...i,ij->...j", h, w) + x,
    "einsum, ellipsis inside": lambda x, w, t, h: torch.einsum("b...i,ij->b...j", h.view(-1, 1, 4), w)[:, 0] + x,
    "einsum, axes that stay": lambda x, w, t, h: torch.einsum("bai,ij->baj", torch.stack([h, x], 1), w).sum(1),
    "einsum, matrix first": lambda x, w, t, h: torch.einsum("ij,nj->ni", w, h) + x,
    "einsum, bilinear form": lambda x, w, t, h: torch.einsum("ni,ij,nj->n", h, w, x)[:, None] + x,
    "einsum, tensor": lambda x, w, t, h: torch.einsum("ni,kij,nj->nk", h, t, x) + x,
    "einsum, outer": lambda x, w, t, h: torch.einsum("ni,nj->nij", h, x).sum(2) + x,
    "einsum, dot": lambda x, w, t, h: torch.einsum("ni,ni->n", h, x)[:, None] + x,
    "einsum, scaled": lambda x, w, t, h: torch.einsum("ni,i->ni", h, w[0]) + x,
    "bilinear": lambda x, w, t, h: torch.nn.functional.bilinear(h, x, t, w[0]) + x,
    "transposed product": lambda x, w, t, h: (w @ h.T).T + x,
    "transposed product, function": lambda x, w, t, h: torch.tanh(w @ h.t() + w[:, :1]).t() + x,
    "transposed, twice": lambda x, w, t, h: (w @ torch.relu(w @ h.transpose(0, 1))).transpose(0, 1) + x,
    "transposed sum": lambda x, w, t, h: (w @ h.T + w.T @ x.T).T,
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_with_parameters(name: str) -> None:
    form = CONTRACTIONS[name]

    class Program(dynamic.VertexFunction):
        def __init__(self) -> None:
            super().__init__(state=4)
            generator = torch.Generator().manual_seed(0)
            self.w = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64, generator=generator))
            self.t = torch.nn.Parameter(torch.randn(4, 4, 4, dtype=torch.float64, generator=generator))

        def forward(self) -> None:
            h = torch.tanh(form(self.pull(), self.w, self.t, self.gather(0)))
            self.scatter(h)
            self.push(h)

    program, rows, h = Program(), list[Tensor](), torch.zeros(1, 4, dtype=torch.float64)
    ours, theirs = (X.double().requires_grad_() for _ in range(2))
    for v in range(4):
        h = torch.tanh(form(theirs[v : v + 1], program.w, program.t, h))
        rows.append(h)
    sources = [*program.parameters(), theirs]
    expected = torch.autograd.grad(torch.cat(rows).square().sum(), sources, allow_unused=True, materialize_grads=True)
    result = program(CHAIN, ours)
    torch.testing.assert_close(result, torch.cat(rows))
    sources[-1] = ours
    grads = torch.autograd.grad(result.square().sum(), sources, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(grads, expected)


@pytest.mark.parametrize("mixing", [lambda h: torch.einsum("ni,mi->nm", h, h), lambda h: h.T @ h, lambda h: h.T.sum(1)])
def test_contractions_of_vertices_are_refused(mixing: Callable[[Tensor], Tensor]) -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            self.scatter(self.gather(0))
            self.push(mixing(self.pull()))

    with pytest.raises(DGLError, match="F "):
        Program(state=4)(CHAIN, X)


# -- reductions over children ------------------------------------------------------------------------------------------
DAG = dglite.graph(([0, 1, 2, 0, 3, 3, 3, 1], [3, 3, 3, 4, 4, 5, 5, 5]))  # several parents, several equal edges
Y = torch.tensor([[0.5, -1.0], [1.5, -1.0], [-0.1, 0.2], [0.3, 0.4], [0.0, 2.0], [1.0, -0.3]])
REDUCTIONS: dict[str, tuple[Callable[[Any, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": (lambda c, x: c.sum(), lambda h, x: h.sum(0)),
    "max": (lambda c, x: c.max(), lambda h, x: h.amax(0)),
    "max of a function": (lambda c, x: c.max(torch.tanh(-2 * c[0])), lambda h, x: torch.tanh(-2 * h).amax(0)),
    "max with the vertex": (lambda c, x: c.max(c.each(x) * c[0]), lambda h, x: (x * h).amax(0)),
    "min": (lambda c, x: c.min(), lambda h, x: h.amin(0)),
    "min of a function": (lambda c, x: c.min(torch.tanh(-2 * c[0])), lambda h, x: torch.tanh(-2 * h).amin(0)),
    "mean": (lambda c, x: c.mean(), lambda h, x: h.mean(0)),
    "mean of a function": (lambda c, x: c.mean(c[0] * c[0]), lambda h, x: (h * h).mean(0)),
    "softmax": (lambda c, x: c.sum(c.softmax(c[0] * 3) * c[0]), lambda h, x: (torch.softmax(h * 3, 0) * h).sum(0)),
    "attention": (
        lambda c, x: c.sum(c.softmax((c.each(x) * c[0]).sum(-1, keepdim=True)) * c[0]),
        lambda h, x: (torch.softmax((x * h).sum(-1, keepdim=True), 0) * h).sum(0),
    ),
    "extreme scores": (
        lambda c, x: c.sum(c.softmax(c[0] * 1e4) * c[0]),
        lambda h, x: (torch.softmax(h * 1e4, 0) * h).sum(0),
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_children(name: str) -> None:
    ours, theirs = REDUCTIONS[name]

    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            x = self.pull()
            h = torch.tanh(x + 0.5 * ours(self.gather_all(), x))
            self.scatter(h)
            self.push(h)

    x, z = (Y.double().requires_grad_() for _ in range(2))
    states, (src, dst) = list[Tensor](), DAG.edges()
    for v in range(6):
        children = src[dst == v].tolist()
        below = theirs(torch.stack([states[u] for u in children]), z[v]) if children else torch.zeros(2).double()
        states.append(torch.tanh(z[v] + 0.5 * below))
    result = Program(state=2)(DAG, x)
    torch.testing.assert_close(result, torch.stack(states))
    weight = torch.linspace(0.5, 2, 12, dtype=torch.float64).view(6, 2)
    (result * weight).sum().backward()
    (torch.stack(states) * weight).sum().backward()
    torch.testing.assert_close(x.grad, z.grad)


def test_reductions_of_states_of_several_sizes() -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            highest = self.gather_all().max()
            self.scatter(a=self.pull() + highest.a, b=highest.b + 1)
            self.push(highest.a, highest.b)

    a, b = Program(state={"a": 2, "b": 3})(DAG, Y)
    assert a.shape == (6, 2) and b.shape == (6, 3)
    torch.testing.assert_close(b[:, 0], torch.tensor([0.0, 0, 0, 1, 2, 2]))


def test_reductions_take_values_of_children() -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            self.push(self.gather_all().softmax(self.pull()))

    with pytest.raises(DGLError, match=r"children.softmax got .* for each vertex; expected a value of each child"):
        Program(state=2)(DAG, Y)
