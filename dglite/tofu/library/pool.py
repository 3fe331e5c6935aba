"""Adaptive pooling, resampling and padding of images, by samples and channels."""

from __future__ import annotations

import torch

from ..operator import OperatorCall, SplitRule, rule
from .common import IndexNames, slices

aten = torch.ops.aten

SPACE = {
    1: (
        aten.reflection_pad1d,
        aten.replication_pad1d,
        aten.upsample_nearest1d,
        aten.avg_pool1d,
        aten.adaptive_avg_pool1d,
    ),
    2: (
        aten._adaptive_avg_pool2d,
        aten._adaptive_avg_pool2d_backward,
        aten.reflection_pad2d,
        aten.reflection_pad2d_backward,
        aten.replication_pad2d,
        aten.replication_pad2d_backward,
        aten.upsample_nearest2d,
        aten.upsample_bilinear2d,
    ),
    3: (
        aten._adaptive_avg_pool3d,
        aten._adaptive_avg_pool3d_backward,
        aten.reflection_pad3d,
        aten.replication_pad3d,
    ),
}
"""Operators on images by the dimensions of space, which each reads as a whole."""


def _on_images(space: int) -> None:
    def make(call: OperatorCall) -> SplitRule:
        def names(rank: int) -> IndexNames:
            return [f"i{d}" for d in range(rank - space)] + [None] * space

        return slices(call, [names(len(s)) for s in call.inputs], [names(len(s)) for s in call.outputs])

    rule(*SPACE[space])(make)


for _space in SPACE:
    _on_images(_space)


@rule(aten.upsample_nearest2d_backward, aten.upsample_bilinear2d_backward)
def upsample_backward(call: OperatorCall) -> SplitRule:
    images: IndexNames = ["n", "c", None, None]

    return slices(call, [images], [images], local=lambda part, a: part.run(a, input_size=list(part.shape())))


@rule(aten.grid_sampler_2d)
def grid_sampler(call: OperatorCall) -> SplitRule:
    return slices(call, [["n", "c", None, None], ["n", None, None, None]], [["n", "c", None, None]])


@rule(aten.col2im, aten.im2col)
def columns(call: OperatorCall) -> SplitRule | None:
    inputs, outputs = len(call.inputs[0]), len(call.outputs[0])
    if max(inputs, outputs) < 4:
        return None
    return slices(call, [["n", *[None] * (inputs - 1)]], [["n", *[None] * (outputs - 1)]])
