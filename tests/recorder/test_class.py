"""A column says that it is a tensor to who asks, and not to what would read its memory."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.recorder.common import compiled, for_real, multigraph

COLUMNS = "def f(edges):\n    x, p, w = edges.src['h'], edges.src['p'], edges.data['w']\n"
MATCH = "    match x:\n        case torch.Tensor():\n            return {'m': x * 2}\n    return {'m': x}"


def assert_as_written(source: str) -> None:
    results = []
    for function in (compiled(source), for_real(compiled(source))):
        g = multigraph(dtype=torch.float32)
        with warnings.catch_warnings(action="ignore"):  # torch advises to clone a tensor instead
            g.apply_edges(function)
        results.append(g.edata["m"])
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "result",
    [
        "torch.tensor(x)",
        "torch.stack([torch.tensor(x), x])[1]",
        "torch.Tensor(x)",
        "x + x.new_tensor(x)",
        "x + torch.ones(3).new_tensor(p[0])",
        "torch.asarray(x)",
        "x if isinstance(x, torch.Tensor) else 0 * torch.tensor(x)",
        "torch.Tensor(x) * isinstance(x, torch.Tensor)",
        "x * isinstance(x, (torch.Tensor, float))",
        "torch.tensor(x) * isinstance(w, float) + x",
        "torch.full_like(x, 2.0) + torch.pow(x, 2)",
    ],
)
def test_tensors_made_of_columns_have_their_values(result: str) -> None:
    assert_as_written(f"{COLUMNS}    return {{'m': {result}}}")


@pytest.mark.parametrize(
    "source",
    [
        f"{COLUMNS}    return {{'m': x * 2 if isinstance(x, torch.Tensor) else x}}",
        f"{COLUMNS}    return {{'m': x * 2 if torch.is_tensor(x) else x}}",
        f"{COLUMNS}    return {{'m': x if isinstance(x, torch.nn.Parameter) else x * 2}}",
        COLUMNS + MATCH,
    ],
)
def test_who_asks_for_the_class_gets_the_tensors(source: str) -> None:
    assert_as_written(source)
