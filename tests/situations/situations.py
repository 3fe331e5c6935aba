"""How torch may look on while an operation runs, and what is right then."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from tests.situations.operations import Operation, Tensors

Function = Callable[..., list[torch.Tensor]]
Outcome = tuple[list[torch.Tensor], list[torch.Tensor]]
"""What there is, and what there should be."""


def function_of(operation: Operation) -> Function:
    """Return the operation as a function that returns the tensors of its result in a list."""

    def call(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [x for x in pytree.tree_leaves(operation.call(*xs)) if isinstance(x, torch.Tensor)]

    return call


def other(xs: Tensors) -> Tensors:
    """Return other values of the same shapes."""
    return tuple(x.roll(1, 0) * 1.25 - 0.03 for x in xs)


def differentiable(results: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(x for x in results if x.is_floating_point())


# -- programs that are recorded ----------------------------------------------------------------------------------------
def made_fx(function: Function, xs: Tensors) -> Outcome:
    """A program of ``make_fx`` on real tensors, called with other values."""
    with torch.no_grad():
        return make_fx(lambda *ys: function(*ys))(*xs)(*other(xs)), function(*other(xs))


def made_fx_of_shapes(function: Function, xs: Tensors) -> Outcome:
    """A program of ``make_fx`` on symbolic tensors."""
    with torch.no_grad():
        return make_fx(lambda *ys: function(*ys), tracing_mode="symbolic", _allow_non_fake_inputs=True)(*xs)(
            *other(xs)
        ), function(*other(xs))


def jit_traced(function: Function, xs: Tensors) -> Outcome:
    """A program of ``torch.jit.trace``, called with other values."""
    with torch.no_grad():
        traced = torch.jit.trace(lambda *ys: tuple(function(*ys)), xs, check_trace=False)
        return list(traced(*other(xs))), function(*other(xs))


# -- tensors without values --------------------------------------------------------------------------------------------
def fake(function: Function, xs: Tensors) -> Outcome:
    """Fake tensors, with their mode active."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        result = function(*(mode.from_tensor(x) for x in xs))
    return _shapes(result), _shapes(function(*xs))


def fake_outside(function: Function, xs: Tensors) -> Outcome:
    """Fake tensors, after the mode is left."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(x) for x in xs]
    with torch.no_grad():
        return _shapes(function(*fakes)), _shapes(function(*xs))


def meta(function: Function, xs: Tensors) -> Outcome:
    """Meta tensors: layers' parameters are on the CPU, and refused beside them by torch."""
    with torch.no_grad():
        return _shapes(function(*(x.to("meta") for x in xs))), _shapes(function(*xs))


def _shapes(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.zeros(x.shape, dtype=x.dtype) for x in xs]


# -- modes and classes -------------------------------------------------------------------------------------------------
class Watching(TorchDispatchMode):
    """Sees every operation."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class WatchingFunctions(TorchFunctionMode):
    """Sees every function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """Holds another tensor and has no memory."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        self = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), dtype=inner.dtype, requires_grad=False
        )
        self.inner = inner
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrap(x: Any) -> Any:
            return x.inner if isinstance(x, Wrapped) else x

        def wrap(x: Any) -> Any:
            return cls(x) if isinstance(x, torch.Tensor) and not isinstance(x, Wrapped) else x

        return pytree.tree_map(wrap, func(*pytree.tree_map(unwrap, args), **pytree.tree_map(unwrap, kwargs or {})))


class Stranger(Wrapped):
    """Knows torch's operations only."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "dglite":
            return NotImplemented
        return super().__torch_dispatch__(func, types, args, kwargs)


class Named(torch.Tensor):
    """An ordinary tensor of another class."""


def watched(function: Function, xs: Tensors) -> Outcome:
    """An active dispatch mode."""
    with torch.no_grad(), Watching():
        result = function(*xs)
    return result, function(*xs)


def watched_functions(function: Function, xs: Tensors) -> Outcome:
    """An active function mode."""
    with torch.no_grad(), WatchingFunctions():
        result = function(*xs)
    return result, function(*xs)


def wrapped(function: Function, xs: Tensors) -> Outcome:
    """A class that wraps tensors and knows all operations."""
    with torch.no_grad():
        result = function(*map(Wrapped, xs))
    return [x.inner if isinstance(x, Wrapped) else x for x in result], function(*xs)


def strange(function: Function, xs: Tensors) -> Outcome:
    """A class that wraps tensors and knows no operations of dglite's."""
    with torch.no_grad():
        result = function(*map(Stranger, xs))
    return [x.inner if isinstance(x, Wrapped) else x for x in result], function(*xs)


def named(function: Function, xs: Tensors) -> Outcome:
    """A subclass that has memory, with gradients."""
    result = function(*(x.clone().as_subclass(Named).requires_grad_() for x in xs))
    return [x.detach().as_subclass(torch.Tensor) for x in result], function(*xs)


def distributed(function: Function, xs: Tensors) -> Outcome:
    """DTensor, on one rank."""
    from torch.distributed import HashStore, init_process_group, is_initialized
    from torch.distributed.device_mesh import init_device_mesh

    from dglite.backend.torch_dtensor import DTensor, Replicate

    if not is_initialized():
        init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    with torch.no_grad():
        result = function(*(DTensor.from_local(x, mesh, [Replicate()]) for x in xs))
    return [x.to_local() if isinstance(x, DTensor) else x for x in result], function(*xs)


def inference(function: Function, xs: Tensors) -> Outcome:
    """Inference mode, with tensors that were made in it."""
    with torch.inference_mode():
        result = function(*(x.clone() for x in xs))
    return result, function(*xs)


# -- signs and strides -------------------------------------------------------------------------------------------------
def negated(function: Function, xs: Tensors) -> Outcome:
    """Contiguous memory of the other sign, with gradients."""
    return _with_gradients(function, [torch._neg_view(-x) for x in xs], xs)


def conjugated(function: Function, xs: Tensors) -> Outcome:
    """The imaginary part of a conjugate: the other sign, with strides."""
    return _with_gradients(function, [torch.complex(x + 1, -x).conj().imag for x in xs], xs)


def _with_gradients(function: Function, views: list[torch.Tensor], xs: Tensors) -> Outcome:
    outcome = []
    for inputs in (views, [x.clone() for x in xs]):
        inputs = [x.detach().requires_grad_() for x in inputs]
        results = function(*inputs)
        outcome.append([x.detach() for x in results] + _gradients(results, inputs))
    return outcome[0], outcome[1]


def _gradients(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    total = sum((x.sin().sum() for x in results if x.requires_grad), torch.zeros((), dtype=torch.float64))
    if not total.requires_grad:
        return []
    return list(torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True))


def strided(function: Function, xs: Tensors) -> Outcome:
    """Every second number of memory, with gradients."""
    return _with_gradients(function, [torch.stack([x, -x], -1)[..., 0] for x in xs], xs)


def expanded(function: Function, xs: Tensors) -> Outcome:
    """Rows that are all the first one, in its memory, with gradients."""
    rows = [x[:1].expand_as(x) if x.dim() and len(x) else x for x in xs]
    return _with_gradients(function, rows, tuple(x.contiguous() for x in rows))


# -- transforms --------------------------------------------------------------------------------------------------------
def batched(function: Function, xs: Tensors) -> Outcome:
    """``vmap`` over all inputs."""
    if not xs:
        return [], []
    several = xs, other(xs), other(other(xs))
    result = torch.vmap(lambda *ys: tuple(function(*ys)))(*(torch.stack(x) for x in zip(*several, strict=True)))
    return list(result), [torch.stack(x) for x in zip(*(function(*ys) for ys in several), strict=True)]


def _has_derivative(function: Function, xs: Tensors) -> bool:
    return bool(xs) and bool(differentiable(function(*xs)))


def _total(function: Function) -> Callable[..., torch.Tensor]:
    return lambda *xs: sum((x.sin().sum() for x in differentiable(function(*xs))), torch.zeros((), dtype=torch.float64))


def transformed(function: Function, xs: Tensors) -> Outcome:
    """``torch.func.grad``."""
    if not _has_derivative(function, xs):
        return [], []
    result = torch.func.grad(_total(function), tuple(range(len(xs))))(*xs)
    return list(result), _reference_gradients(function, xs)


def _reference_gradients(function: Function, xs: Tensors) -> list[torch.Tensor]:
    inputs = [x.clone().requires_grad_() for x in xs]
    return _gradients(function(*inputs), inputs) or [torch.zeros_like(x) for x in xs]


def _directions(xs: Tensors) -> Tensors:
    return tuple(x.cos().nan_to_num() for x in xs)  # padding and masks may not be finite


def _tangents(function: Function, xs: Tensors) -> list[torch.Tensor]:
    """Return tangents by the gradient of each element: there may be no second derivative."""
    inputs = [x.clone().requires_grad_() for x in xs]
    tangents = list[torch.Tensor]()
    for result in differentiable(function(*inputs)):
        rows = []
        for element in result.reshape(-1):
            some = element.requires_grad
            parts = torch.autograd.grad(element, inputs, retain_graph=True, allow_unused=True) if some else ()
            pairs = zip(parts, _directions(xs), strict=some)
            rows.append(sum(((part * x).sum() for part, x in pairs if part is not None), result.new_zeros(())))
        tangents.append(torch.stack(rows).reshape(result.shape).to(result.dtype) if rows else result.detach())
    return tangents


def pushed(function: Function, xs: Tensors) -> Outcome:
    """``torch.func.jvp``, of inputs that need no gradient."""
    if not _has_derivative(function, xs):
        return [], []
    with torch.no_grad():
        result = torch.func.jvp(lambda *ys: differentiable(function(*ys)), xs, _directions(xs))[1]
    return list(result), _tangents(function, xs)


def dual(function: Function, xs: Tensors) -> Outcome:
    """Forward-mode AD, of inputs that need no gradient."""
    if not _has_derivative(function, xs):
        return [], []
    with torch.no_grad(), forward_ad.dual_level():
        results = differentiable(function(*map(forward_ad.make_dual, xs, _directions(xs))))
        result = [forward_ad.unpack_dual(x).tangent for x in results]
    return [torch.zeros_like(x) if y is None else y for x, y in zip(results, result, strict=True)], _tangents(
        function, xs
    )


def gradients_in_batches(function: Function, xs: Tensors) -> Outcome:
    """``is_grads_batched``."""
    inputs = [x.clone().requires_grad_() for x in xs]
    results = [x for x in function(*inputs) if x.requires_grad]
    actual, want = list[torch.Tensor](), list[torch.Tensor]()
    for result in results:
        outer = torch.stack([result.detach().cos(), result.detach().sin()])
        options = {"retain_graph": True, "allow_unused": True}
        actual += [
            x for x in torch.autograd.grad(result, inputs, outer, is_grads_batched=True, **options) if x is not None
        ]
        loops = [torch.autograd.grad(result, inputs, one, **options) for one in outer]
        want += [torch.stack(pair) for pair in zip(*loops, strict=True) if pair[0] is not None]
    return actual, want


def returned(function: Function, xs: Tensors) -> Outcome:
    """The function that ``torch.func.vjp`` returns, called when the transform is over."""
    if not _has_derivative(function, xs):
        return [], []
    value, backward = torch.func.vjp(_total(function), *xs)
    return list(backward(torch.ones_like(value))), _reference_gradients(function, xs)


def linearized(function: Function, xs: Tensors) -> Outcome:
    """The linear function that ``torch.func.linearize`` returns."""
    if not _has_derivative(function, xs):
        return [], []
    _, push = torch.func.linearize(lambda *ys: differentiable(function(*ys)), *xs)
    return list(push(*_directions(xs))), _tangents(function, xs)


def batches_of_batches(function: Function, xs: Tensors) -> Outcome:
    """``vmap`` of ``vmap``, the outer one over the last axis."""
    if not xs:
        return [], []
    several = [[xs, other(xs)], [other(other(xs)), xs]]
    inputs = [torch.stack([torch.stack([ys[i] for ys in row]) for row in several], -1) for i in range(len(xs))]
    inner = torch.vmap(lambda *ys: tuple(function(*ys)))
    result = torch.vmap(inner, in_dims=-1)(*inputs)
    rows = [[torch.stack(x) for x in zip(*(function(*ys) for ys in row), strict=True)] for row in several]
    return list(result), [torch.stack(x) for x in zip(*rows, strict=True)]


def hessian(function: Function, xs: Tensors) -> Outcome:
    """The gradient of a gradient, beside the derivative of ``torch.func.hessian``."""
    if not _has_derivative(function, xs):
        return [], []
    total = _total(function)
    return list(torch.autograd.functional.hessian(lambda x: total(x, *xs[1:]), xs[0])), list(
        torch.func.hessian(lambda x: total(x, *xs[1:]))(xs[0])
    )


def gradient_of_batches(function: Function, xs: Tensors) -> Outcome:
    """The gradient of what ``vmap`` returns: its batches do not say that they require one."""
    if not _has_derivative(function, xs):
        return [], []
    several = xs, other(xs)
    inputs = [torch.stack(x).requires_grad_() for x in zip(*several, strict=True)]
    total = torch.vmap(_total(function))(*inputs).sum()
    gradients = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    want = [torch.stack(x) for x in zip(*(_reference_gradients(function, ys) for ys in several), strict=True)]
    return list(gradients), want


def functionalized(function: Function, xs: Tensors) -> Outcome:
    """``torch.func.functionalize``, alone and of a gradient."""
    with torch.no_grad():
        result = list(torch.func.functionalize(lambda *ys: tuple(function(*ys)))(*xs))
    if not _has_derivative(function, xs):
        return result, function(*xs)
    gradient = torch.func.grad(_total(function), tuple(range(len(xs))))
    return result + list(torch.func.functionalize(gradient)(*xs)), function(*xs) + _reference_gradients(function, xs)


def program_in_forward_mode(function: Function, xs: Tensors) -> Outcome:
    """A program of ``make_fx``, recorded outside and run with dual numbers: it calls operators, not functions."""
    return dual(_program(function, xs), xs)[0], dual(function, xs)[1]


def program_transformed(function: Function, xs: Tensors) -> Outcome:
    """A program of ``make_fx``, recorded outside, in ``torch.func.grad``."""
    return transformed(_program(function, xs), xs)[0], transformed(function, xs)[1]


def _program(function: Function, xs: Tensors) -> Function:
    """Return a program that keeps what gradients need."""
    return make_fx(lambda *ys: function(*ys))(*(x.requires_grad_() for x in other(xs)))  # type: ignore[no-any-return]


def program_in_autocast(function: Function, xs: Tensors) -> Outcome:
    """A program of float32, called inside of autocast with an input in bfloat16: to some digits."""
    singles = [x.float() for x in xs]
    with torch.no_grad():
        program = make_fx(lambda *ys: function(*ys))(*singles)
        mixed = [x.bfloat16() if i == 0 else x for i, x in enumerate(singles)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            results = program(*mixed)
        want = function(*(x.float() for x in mixed))
    close = [
        y if torch.allclose(x.float(), y.float(), 0.1, 0.1 * max(1.0, float(y.abs().max())), True) else x.float()
        for x, y in zip(results, want, strict=True)
    ]
    return close, want


# -- what keeps and computes again -------------------------------------------------------------------------------------
def checkpointed(function: Function, xs: Tensors) -> Outcome:
    """``torch.utils.checkpoint``."""
    inputs = [x.clone().requires_grad_() for x in xs]
    results = checkpoint(lambda *ys: tuple(function(*ys)), *inputs, use_reentrant=False)
    return _gradients(list(results), inputs), _plain_gradients(function, xs)


def checkpointed_reentrant(function: Function, xs: Tensors) -> Outcome:
    """``torch.utils.checkpoint`` as it was first."""
    inputs = [x.clone().requires_grad_() for x in xs]
    results = checkpoint(lambda *ys: tuple(function(*ys)), *inputs, use_reentrant=True)
    total = sum((x.sin().sum() for x in results if x.requires_grad), torch.zeros((), dtype=torch.float64))
    if not total.requires_grad:
        return [], []
    total.backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs], _plain_gradients(function, xs)


def written_to(function: Function, xs: Tensors) -> Outcome:
    """Inputs that are written to between forward and backward: torch's error, or gradients that need them not."""
    leaves = [x.clone().requires_grad_() for x in xs]
    inputs = [x * 1 for x in leaves]
    results = [x * 1 for x in function(*inputs)]
    with torch.no_grad():
        for x in inputs:
            x.mul_(3)
    try:
        return _gradients(results, leaves), _plain_gradients(function, xs)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return [], []


def packed(function: Function, xs: Tensors) -> Outcome:
    """Saved tensors that are written to memory elsewhere and read back."""
    inputs = [x.clone().requires_grad_() for x in xs]
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.numpy(force=True).copy(), torch.from_numpy):
        results = function(*inputs)
    return _gradients(results, inputs), _plain_gradients(function, xs)


def watched_with_gradients(function: Function, xs: Tensors) -> Outcome:
    """An active dispatch mode, forward and backward."""
    inputs = [x.clone().requires_grad_() for x in xs]
    with Watching():
        watched = _gradients(function(*inputs), inputs)
    return watched, _plain_gradients(function, xs)


def _plain_gradients(function: Function, xs: Tensors) -> list[torch.Tensor]:
    inputs = [x.clone().requires_grad_() for x in xs]
    return _gradients(function(*inputs), inputs)


SITUATIONS: dict[str, Callable[[Function, Tensors], Outcome]] = {
    "make_fx": made_fx,
    "make_fx, symbolic": made_fx_of_shapes,
    "jit.trace": jit_traced,
    "fake": fake,
    "fake, outside of the mode": fake_outside,
    "meta": meta,
    "dispatch mode": watched,
    "function mode": watched_functions,
    "wrapper": wrapped,
    "wrapper that knows no operator": strange,
    "subclass with memory": named,
    "DTensor": distributed,
    "inference mode": inference,
    "negative bit": negated,
    "part of a conjugate": conjugated,
    "strided": strided,
    "expanded": expanded,
    "vmap": batched,
    "vmap of vmap": batches_of_batches,
    "linearize": linearized,
    "hessian": hessian,
    "func.grad": transformed,
    "func.jvp": pushed,
    "forward mode": dual,
    "is_grads_batched": gradients_in_batches,
    "vjp, called later": returned,
    "gradient of vmap": gradient_of_batches,
    "functionalize": functionalized,
    "program in forward mode": program_in_forward_mode,
    "program in func.grad": program_transformed,
    "program in autocast": program_in_autocast,
    "checkpoint": checkpointed,
    "reentrant checkpoint": checkpointed_reentrant,
    "written to before backward": written_to,
    "saved tensors elsewhere": packed,
    "dispatch mode with gradients": watched_with_gradients,
}


RIGHT = "right"


def judge(situation: str, operation: Operation) -> str:
    """Return :data:`RIGHT`, or the error that an operation raises, or what is wrong with it, in a situation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result, want = SITUATIONS[situation](function_of(operation), operation.inputs)
            torch.testing.assert_close(result, want, equal_nan=True)
        except AssertionError as error:
            return f"wrong: {' '.join(str(error).split())}"
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return RIGHT
