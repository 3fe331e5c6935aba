"""Products of the rows of a batch: however operands lie, few rows or many, by our kernels and by torch."""

from __future__ import annotations

import pytest
import torch

from dglite.dynamic.execution.products import add_rows, multiply
from dglite.kernels.cpu.rows import products


@pytest.fixture(autouse=True, params=[True, False], ids=["our kernels", "torch"])
def faster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "is_faster", lambda dtype, *sizes: request.param)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_products_with_a_start_that_lies_anyhow(rows: int, turned: bool) -> None:
    x, weight = torch.randn(rows, 20)[:, :17], torch.randn(9, 17).t() if turned else torch.randn(17, 9)
    starts = None, torch.randn(9), torch.randn(18)[::2], torch.randn(rows, 9), torch.randn(9, rows).t()
    for start in starts:
        expected = x @ weight + (0 if start is None else start)
        out = torch.full((rows, 12), torch.nan)[:, :9]
        multiply(x, weight, out, start)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    multiply(x, weight, out, out)
    torch.testing.assert_close(out, x @ weight + expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_rows_times_rows(rows: int) -> None:
    x, y, out = torch.randn(rows, 20)[:, :17], torch.randn(9, rows).t(), torch.full((17, 9), torch.nan)
    add_rows(x, y, out, False)
    torch.testing.assert_close(out, x.t() @ y, rtol=1e-5, atol=1e-4)
    add_rows(x, y.contiguous(), out, True)
    torch.testing.assert_close(out, 2 * (x.t() @ y), rtol=1e-5, atol=1e-4)
