"""A call, or several, of each operator that is described, with tensors small enough to run in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dglite.tofu import sums  # noqa: F401  (registers sum_mm)
from tests.versions import has_torch

aten = torch.ops.aten
Sample = tuple[Any, tuple[Any, ...], dict[str, Any]]

torch.manual_seed(0)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64) + 0.5


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape)


def bools(*shape: int) -> torch.Tensor:
    return torch.rand(shape) > 0.5


_samples: list[Sample] = []


def add(target: Any, *args: Any, **kwargs: Any) -> None:
    _samples.append((target, args, kwargs))


def samples() -> list[Sample]:
    return list(_samples)


def pointwise_samples() -> None:
    """Add a call of each operator that torch tags as element-wise."""
    for target in core():
        if torch.Tag.pointwise not in target.tags or target._overloadname == "out":
            continue
        whole = "bitwise" in str(target)
        make: Callable[..., torch.Tensor] = (lambda *s: ints(8, *s)) if whole else positive
        args: list[Any] = []
        for argument in target._schema.arguments:
            kind = str(argument.type)
            if argument.kwarg_only or argument.has_default_value():
                continue
            if kind == "Tensor":
                args.append(make(4, 5) if not args else make(3, 1, 5))
            else:
                args.append(2 if whole else 1.5)
        if target is aten.where.self:
            args[0] = bools(4, 5)
        kwargs = {"rounding_mode": "floor"} if "mode" in target._overloadname else {}
        if target is aten.clamp.default:
            kwargs = {"min": 0.7}
        if target is aten.clamp.Tensor:
            kwargs = {"min": positive(5)}
        add(target, *args, **kwargs)


def core() -> list[Any]:
    """Return the operators of Core ATen."""
    names = {name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    results = []
    for name in sorted(names):
        packet, _, overload = name.partition(".")
        target = getattr(getattr(aten, packet), overload or "default")
        if torch.Tag.core in target.tags:
            results.append(target)
    return results


pointwise_samples()
add(aten.add.Tensor, r(4, 1, 5), r(3, 1), alpha=2)
add(aten.mul.Tensor, r(), r(4, 5))
add(aten.addcmul.default, r(4, 5), r(4, 5), r(5), value=0.5)
add(aten.addcdiv.default, r(4, 5), r(4, 5), positive(4, 5), value=-0.1)
add(aten.lerp.Scalar, r(4, 5), r(4, 5), 0.1)
add(aten.threshold_backward.default, r(4, 5), r(4, 5), 0)
add(aten.gelu_backward.default, r(4, 5), r(4, 5))
add(aten.tanh_backward.default, r(4, 5), r(4, 5))
add(aten.sigmoid_backward.default, r(4, 5), r(4, 5))
add(aten.silu.default, r(4, 5))
add(aten.silu_backward.default, r(4, 5), r(4, 5))
add(aten.square.default, r(4, 5))
add(aten.clone.default, r(4, 5))

# products
add(aten.mm.default, r(4, 5), r(5, 6))
add(torch.ops.dglite.sum_mm.default, [r(4, 8), r(4, 4), r(4, 4)], [r(8, 5), r(4, 5), r(4, 5)])
add(aten.bmm.default, r(3, 4, 5), r(3, 5, 6))
add(aten.matmul.default, r(2, 3, 4, 5), r(3, 5, 6))
add(aten.matmul.default, r(2, 1, 4, 5), r(5, 6))
add(aten.mv.default, r(4, 5), r(5))
add(aten.addmm.default, r(6), r(4, 5), r(5, 6), beta=0.5, alpha=2)
add(aten.addmm.default, r(4, 1), r(4, 5), r(5, 6))
add(aten.addmv.default, r(4), r(4, 5), r(5))

# convolutions
for stride, padding, dilation, size, taps in [
    (1, 1, 1, 7, 3),
    (2, 1, 1, 9, 3),
    (2, 3, 1, 12, 7),
    (1, 2, 2, 8, 3),
    (2, 0, 1, 12, 7),
]:
    conv = [stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0]
    add(aten.convolution.default, r(3, 4, size, 9), r(5, 4, taps, 3), r(5), *conv, 1)
    add(aten.convolution.default, r(2, 4, size, 9), r(6, 2, taps, 3), None, *conv, 2)
    x, w = r(3, 4, size, 9), r(5, 4, taps, 3)
    grad = torch.randn_like(aten.convolution(x, w, None, *conv, 1))
    add(aten.convolution_backward.default, grad, x, w, [5], *conv, 1, [True, True, True])
    add(aten.convolution_backward.default, grad, x, w, [0], *conv, 1, [False, True, False])
    x, w = r(3, 4, size, 9), r(6, 2, taps, 3)
    grad = torch.randn_like(aten.convolution(x, w, None, *conv, 2))
    add(aten.convolution_backward.default, grad, x, w, [6], *conv, 2, [True, True, True])
add(aten.convolution.default, r(2, 3, 6), r(4, 3, 1), r(4), [2], [3], [1], False, [0], 1)
add(aten.convolution.default, r(2, 3, 10), r(4, 3, 4), r(4), [3], [2], [1], False, [0], 1)
add(aten.convolution.default, r(2, 3, 5, 6, 5), r(4, 3, 3, 3, 3), r(4), [1] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1)
add(aten.convolution.default, r(2, 6, 9), r(6, 1, 3), None, [1], [1], [1], False, [0], 6)
add(aten.convolution.default, r(2, 4, 8), r(5, 4, 1), r(5), [2], [0], [1], False, [0], 1)
for stride, padding, extra in [(1, 1, 0), (2, 1, 1), (3, 0, 2), (2, 2, 0)]:
    conv = [stride], [padding], [1], True, [extra]
    x, w = r(3, 4, 6), r(4, 5, 4)
    add(aten.convolution.default, x, w, r(5), *conv, 1)
    grad = torch.randn_like(aten.convolution(x, w, None, *conv, 1))
    add(aten.convolution_backward.default, grad, x, w, [5], *conv, 1, [True, True, True])
add(aten.convolution.default, r(2, 4, 6), r(4, 3, 3), r(6), [2], [1], [1], True, [1], 2)
x, w, grad = r(3, 2, 8), r(4, 2, 1), r(3, 4, 12)
add(aten.convolution_backward.default, grad, x, w, [4], [1], [2], [1], False, [0], 1, [True, True, True])
x, w, grad = r(3, 2, 8), r(4, 2, 1), r(3, 4, 4)
add(aten.convolution_backward.default, grad, x, w, [4], [2], [0], [1], False, [0], 1, [True, True, True])

# views
add(aten.view.default, r(4, 6, 10), [24, 10])
add(aten.view.default, r(4, 6, 10), [4, 6, 2, 5])
add(aten.view.default, r(6, 4), [4, 6])
add(aten.view.default, r(1, 6, 1, 4), [6, 2, 1, 2, 1])
add(aten.view.default, r(24), [4, 6])
add(aten._unsafe_view.default, r(4, 6, 10), [24, 10])
add(aten.reshape.default, r(4, 6, 10), [-1, 10])
add(aten.permute.default, r(4, 5, 6), [2, 0, 1])
add(aten.permute.default, r(4, 5, 6), [-1, 0, 1])
add(aten.unsqueeze.default, r(4, 5), 1)
add(aten.unsqueeze.default, r(4, 5), -1)
add(aten.squeeze.dim, r(4, 1, 5), 1)
add(aten.squeeze.dim, r(4, 1, 5), 0)
add(aten.squeeze.dims, r(4, 1, 5, 1), [1, 3, 0])
add(aten.squeeze.default, r(4, 1, 5, 1))
add(aten.expand.default, r(4, 1, 5), [3, 4, 6, 5])
add(aten.expand.default, r(4, 5), [-1, -1])
add(aten.slice.Tensor, r(9, 5), 0, 2, 8, 3)
add(aten.slice.Tensor, r(9, 5), 1, -4, 9223372036854775807)
add(aten.slice.Tensor, r(9, 5))
add(aten.select.int, r(4, 5, 6), 1, -2)
add(aten.split_with_sizes.default, r(4, 9), [2, 4, 3], 1)
add(aten.split_with_sizes.default, r(4, 9), [3, 3, 3], 1)
add(aten.cat.default, [r(4, 2, 5), r(4, 3, 5)], 1)
add(aten.cat.default, [r(4, 5), r(3, 5), r(2, 5)], -2)
add(aten.flip.default, r(4, 5, 6), [0, 2])
add(aten.flip.default, r(4, 5), [])
add(aten.repeat.default, r(4, 5), [3, 1, 2])
add(aten.diagonal.default, r(4, 5, 4), 1, 0, 2)
add(aten.constant_pad_nd.default, r(4, 5), [2, 1], 7.0)
add(aten.constant_pad_nd.default, r(4, 5), [-1, 2, 1, -1])
add(aten.constant_pad_nd.default, r(4, 5), [0, 0, 5, 6])
add(aten.constant_pad_nd.default, r(4, 5), [0, 3])
add(aten.slice_scatter.default, r(6, 5), r(2, 5), 0, 1, 5, 2)
add(aten.select_scatter.default, r(6, 5), r(5), 0, 2)
add(aten.alias.default, r(4, 5))
add(aten.detach.default, r(4, 5))
add(aten._to_copy.default, r(4, 5), dtype=torch.float32)
add(aten.copy.default, r(4, 5), r(5))

# reductions
for target in (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default):
    add(target, r(4, 5, 6), [1])
    add(target, r(4, 5, 6), [0, -1], True)
add(aten.sum.default, r(4, 5))
add(aten.sum.dim_IntList, r(4, 5), None)
add(aten.mean.default, r(4, 5))
add(aten.mean.dim, r(4, 5), None, True)
add(aten.prod.default, r(4, 5))
add(aten.prod.dim_int, r(4, 5), 0)
add(aten.any.default, bools(4, 5))
add(aten.any.dim, bools(4, 5), 1)
add(aten.any.dims, bools(4, 5), [0], True)
add(aten.max.default, r(4, 5))
add(aten.min.default, r(4, 5))
add(aten.max.dim, r(4, 5, 6), 1)
add(aten.min.dim, r(4, 5, 6), -1, True)
add(aten.argmax.default, r(4, 5, 6), 1)
add(aten.argmin.default, r(4, 5, 6), 1, True)
add(aten.argmax.default, r(4, 5))
add(aten.cumsum.default, r(4, 5), 0)
add(aten.sort.default, r(4, 5))
add(aten.topk.default, r(4, 5), 2, 0)
add(aten.var.correction, r(4, 5, 6), [1], correction=1)
add(aten.var.dim, r(4, 5, 6), [0, 2], True, True)
add(aten.var_mean.correction, r(4, 5, 6), [1], correction=0)

# normalizations
add(aten._softmax.default, r(4, 5, 6), 1, False)
add(aten._log_softmax.default, r(4, 5), -1, False)
for weight, bias in ((r(6), r(6)), (None, None)):
    add(aten.native_layer_norm.default, r(4, 5, 6), [6], weight, bias, 1e-5)
add(aten.native_layer_norm.default, r(4, 5, 6), [5, 6], r(5, 6), None, 1e-5)

# indexing
add(aten.embedding.default, r(7, 4), ints(7, 5, 3))
add(aten.gather.default, r(5, 7, 4), 1, ints(7, 4, 3, 4))
add(aten.index_select.default, r(5, 7, 4), 1, ints(7, 6))
add(aten.scatter.src, r(5, 7), 0, ints(5, 3, 7), r(3, 7))
add(aten.scatter.value, r(5, 7), 0, ints(5, 3, 7), 2.0)
add(aten.scatter_add.default, r(5, 7), 0, ints(5, 3, 7), r(3, 7))
add(aten.scatter_add.default, r(5, 7), 0, ints(5, 3, 4), r(3, 7))
add(aten.scatter_add.default, r(5, 7, 2), 0, ints(5, 3, 4, 2), r(3, 4, 2))
add(aten.scatter_reduce.two, r(5, 7), 0, ints(5, 3, 7), r(3, 7), "amax")
add(aten.index.Tensor, r(5, 7, 4), [None, ints(7, 6)])
add(aten.index.Tensor, r(5, 7, 4), [ints(5, 3, 1), ints(7, 6)])
add(aten.index.Tensor, r(5, 7, 4), [ints(5, 6), None, ints(4, 6)])
add(aten.index_put.default, r(5, 7, 4), [None, ints(7, 6)], r(5, 6, 4), True)
add(aten.index_put.default, r(5, 7, 4), [None, torch.arange(6)], r(5, 6, 4))
add(aten.index_put.default, r(5, 4), [ints(5, 6, 3)], r(6, 3, 4), True)
add(aten.index_put.default, r(5, 7, 4), [ints(5, 3), ints(7, 3)], r(4), True)

# images
for space, size in ((2, (4, 3, 8, 6)), (3, (2, 3, 4, 6, 4))):
    x, window = r(*size), [2] * space
    grad = r(*size[:2], *(n // 2 for n in size[2:]))
    tag = f"{space}d"
    add(getattr(aten, f"max_pool{tag}_with_indices").default, x, window, window)
    _, where = getattr(aten, f"max_pool{tag}_with_indices")(x, window, window)
    backward = getattr(aten, f"max_pool{tag}_with_indices_backward").default
    add(backward, grad, x, window, window, [0] * space, [1] * space, False, where)
    add(getattr(aten, f"avg_pool{tag}").default, x, window, window)
    add(getattr(aten, f"avg_pool{tag}_backward").default, grad, x, window, window, [0] * space, False, True, None)
    add(getattr(aten, f"_adaptive_avg_pool{tag}").default, x, window)
    add(getattr(aten, f"_adaptive_avg_pool{tag}_backward").default, r(*size[:2], *window), x)
for settings in ([3, 3], [2, 2], [1, 1]), ([3, 2], [1, 2], [1, 0]), ([3], [3], [0]):
    x = r(2, 3, 9, 7)
    add(aten.max_pool2d_with_indices.default, x, *settings)
    out, where = aten.max_pool2d_with_indices(x, *settings)
    backward = aten.max_pool2d_with_indices_backward.default
    add(backward, torch.randn_like(out), x, *settings, [1, 1], False, where)
    add(aten.avg_pool2d.default, x, *settings)
    add(aten.avg_pool2d.default, x, *settings, False, False)
    add(aten.avg_pool2d_backward.default, torch.randn_like(out), x, *settings, False, True, None)
add(aten.max_pool2d_with_indices.default, r(3, 9, 7), [2, 2], [2, 2], [0, 0], [2, 1])
add(aten.max_pool2d_with_indices.default, r(3, 9, 7), [2, 2], [2, 2], [0, 0], [1, 1], True)
add(aten.max_pool2d_with_indices.default, ints(9, 3, 9, 7), [3, 3], [2, 2], [1, 1])
add(aten.upsample_bilinear2d.vec, r(4, 3, 5, 6), [7, 8], False, None)
add(aten.upsample_nearest2d_backward.default, r(4, 3, 10, 12), [10, 12], [4, 3, 5, 6])
add(aten.grid_sampler_2d.default, r(4, 3, 5, 6), r(4, 7, 8, 2), 0, 0, False)

# attention and other opaque ones
q, k, v = r(3, 4, 6, 8), r(3, 4, 5, 8), r(3, 4, 5, 8)
flash = aten._scaled_dot_product_flash_attention_for_cpu
for causal, mask in ((False, None), (True, None), (False, r(3, 1, 6, 5)), (False, r(6, 5))):
    add(flash.default, q, k, v, 0.0, causal, attn_mask=mask)
    out, logsumexp = flash(q, k, v, 0.0, causal, attn_mask=mask)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    add(backward, r(3, 4, 6, 8), q, k, v, out, logsumexp, 0.0, causal, attn_mask=mask)
add(aten._cdist_forward.default, r(3, 4, 5), r(3, 6, 5), 2.0, None)
add(aten._fft_r2c.default, r(4, 5, 6), [2], 0, True)
add(aten._fft_c2r.default, torch.complex(r(4, 5, 4), r(4, 5, 4)), [1], 0, 5)

# tensors made of none
add(aten.full.default, [4, 5], 2.0)
add(aten.full_like.default, r(4, 5), 2.0)
add(aten.arange.start_step, 1, 12, 2)
add(aten.arange.start_step, 0.5, 3.0, 0.5, dtype=torch.float64)
add(aten.arange.default, 7)
add(aten.empty.memory_format, [4, 5])
add(aten.empty_strided.default, [4, 5], [1, 4])
add(aten.rand.default, [4, 5])
add(aten.randn.default, [4, 5])
add(aten.native_dropout.default, r(4, 5), 0.5, True)
add(aten.bernoulli.p, r(4, 5), 0.5)

# variants of the above
add(aten._fft_c2c.default, torch.complex(r(4, 5), r(4, 5)), [1], 0, True)
add(aten.new_empty_strided.default, r(4), [4, 5], [1, 4])
for target in (aten.rand_like, aten.randn_like):
    add(target.default, r(4, 5))
if hasattr(aten, "_safe_softmax"):  # from torch 2.5 on
    add(aten._safe_softmax.default, r(4, 5, 6), 1)
add(aten.replication_pad2d_backward.default, r(4, 3, 7, 8), r(4, 3, 5, 6), [1, 1, 1, 1])
add(aten.upsample_bilinear2d_backward.default, r(4, 3, 7, 8), [7, 8], [4, 3, 5, 6], False)
if has_torch("2.7"):  # older ones do not know its shapes
    add(aten.kthvalue.default, r(4, 5), 2, 0)
add(aten.cumprod.default, r(4, 5), 1)
add(aten.logcumsumexp.default, r(4, 5), 1)
add(aten.cummax.default, r(4, 5), 1)
add(aten.cummin.default, r(4, 5), 1)
add(aten.median.dim, r(4, 5), 1)
add(aten.lift_fresh_copy.default, r(4, 5))
