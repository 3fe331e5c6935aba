"""Random strides, paddings, dilations and shapes: parts make the whole whatever they are."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable

import pytest
import torch

from dglite.tofu.verify import verify

aten = torch.ops.aten
CASES = 600 if os.environ.get("DGLITE_TEST_FULL") else 40


def r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def convolution(draw: random.Random) -> None:
    taps, stride, padding, dilation = draw.randint(1, 5), draw.randint(1, 4), draw.randint(0, 4), draw.randint(1, 3)
    transposed, groups = draw.random() < 0.4, draw.choice([1, 1, 2])
    extra = draw.randint(0, max(stride, dilation) - 1) if transposed else 0
    channels = 2 * groups
    x, w = r(2, channels, draw.randint(2, 13)), r(channels, 2, taps)
    rest = [stride], [padding], [dilation], transposed, [extra], groups
    try:
        out = aten.convolution(x, w, None, *rest)
    except RuntimeError:  # no window fits
        return
    verify(aten.convolution.default, (x, w, r(channels), *rest))
    verify(aten.convolution_backward.default, (torch.randn_like(out), x, w, [channels], *rest, [True, True, True]))


def pooling(draw: random.Random) -> None:
    taps, stride, dilation = draw.randint(1, 4), draw.randint(1, 4), draw.randint(1, 2)
    padding, ceil = draw.randint(0, taps // 2), draw.random() < 0.2
    x = r(2, draw.randint(2 * taps, 12), 5)
    window = [taps, 1], [stride, 1], [padding, 0]
    out, where = aten.max_pool2d_with_indices(x, *window, [dilation, 1], ceil)
    verify(aten.max_pool2d_with_indices.default, (x, *window, [dilation, 1], ceil))
    grad = torch.randn_like(out)
    verify(aten.max_pool2d_with_indices_backward.default, (grad, x, *window, [dilation, 1], ceil, where))
    for count_pad in (True, False):
        grad = torch.randn_like(aten.avg_pool2d(x, *window, ceil, count_pad))
        verify(aten.avg_pool2d.default, (x, *window, ceil, count_pad))
        verify(aten.avg_pool2d_backward.default, (grad, x, *window, ceil, count_pad, None))


def view(draw: random.Random) -> None:
    shape = [draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4))]
    rest, results = math.prod(shape), list[int]()
    while rest > 1 and len(results) < 3:
        results.append(draw.choice([n for n in range(1, rest + 1) if rest % n == 0]))
        rest //= results[-1]
    verify(aten.view.default, (r(*shape), [*results, rest]))


def slice_(draw: random.Random) -> None:
    dim = draw.randint(0, 2)
    verify(aten.slice.Tensor, (r(4, 6, 7), dim, draw.randint(-7, 7), draw.randint(-7, 9), draw.randint(1, 3)))


def pad(draw: random.Random) -> None:
    widths = [draw.randint(-1, 3) for _ in range(2 * draw.randint(1, 3))]
    verify(aten.constant_pad_nd.default, (r(3, 4, 5), widths, 1.5))


@pytest.mark.parametrize("sample", [convolution, pooling, view, slice_, pad])
def test_parts_make_the_whole(sample: Callable[[random.Random], None]) -> None:
    draw = random.Random(0)
    torch.manual_seed(0)
    for _ in range(CASES):
        sample(draw)
