"""Operations registered in ``torch.library``: what torch compiles, exports, traces and transforms of dglite.

Each operation is ``dglite::<name>(Tensor[] inputs, Tensor src, Tensor dst, SymInt num_src, SymInt num_dst, str recipe)
-> (result, aux)``. It is made of its ``RegisteredOp`` alone, so what it computes is written once, for programs and for
eager calls. Eager calls on plain tensors do not come this way: torch's dispatcher costs more than a small kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ..errors import DGLError
from .protocols import RESULT, MakeOp, RunAgain
from .torch_breaks import left_to_python
from .torch_plain import as_in_mode, is_transformed, refuse_class

_LIBRARY = torch.library.Library("dglite", "DEF")
_SIGNATURE = "(Tensor[] inputs, Tensor src, Tensor dst, SymInt num_src, SymInt num_dst, str recipe) -> (Tensor, Tensor)"
_TAGS = tuple(
    getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "cudagraph_unsafe") if hasattr(torch.Tag, name)
)
"""A captured CUDA graph would read the sorted edges of the graph that it was captured with; older torch has no such
tag, and captures nothing with operators whose structure is on the CPU."""
_AUTOCAST = {kind: getattr(torch._C.DispatchKey, f"Autocast{kind.upper()}") for kind in ("cpu", "cuda")}
"""By kind of device: where torch's dispatcher asks before autograd while autocast is on."""
_NOTHING = ((0,), "uint8")
_OPERATORS: dict[str, Any] = {}
"""The registered operations by name."""
_KERNELS: dict[Any, Callable[..., Any]] = {}
"""By operator: the function that computes its results from plain tensors."""
_MAKERS: dict[Any, MakeOp] = {}
"""What makes the operation of a call, by operator."""
_keys_of: Callable[[Any], object] = getattr(torch._C.DispatchKeySet, "raw_repr", repr)
"""A set of torch's dispatch keys as what can be compared: a number, or in torch 2.4 a text."""
_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_DEVICES = [torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)) for name in ("CUDA", "PrivateUse1")]
_DENSE = {_keys_of(keys) for keys in (_HOST, *_DEVICES, *(_HOST | device for device in _DEVICES))}
"""What is left to ask for ordinary tensors, of which a graph's may be on the CPU and the features on a device: the
kernel, which is called without torch's dispatcher."""
_IS_DENSE: dict[object, bool] = {}
"""Whether one of :data:`_DENSE` is left of a set of keys below autograd, for the sets that came: to intersect two takes
longer than to look it up."""
_NO_AUX = torch.empty(0, dtype=torch.uint8)
"""What an operation returns beside its result that keeps nothing for the gradient: nobody can write to it."""
_MOST_SIGNATURES = 1024
_DECOMPOSITIONS: dict[Any, Any] = {}
"""By operator; not in torch's own table, from which fake tensors would take descriptions."""


def decompositions() -> dict[Any, Any]:
    """Return, for each registered operation, a function that computes its result by torch's own operations."""
    aten = torch.ops.aten
    return {
        aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.argsort.stable: _stable_argsort,
        aten.index_add.default: _index_add,
        **_DECOMPOSITIONS,
    }


def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    """Return the number of each item's segment by operations that ONNX has; items are numbered segment by segment."""
    if output_size is None:
        return NotImplemented
    ends = repeats.cumsum(0)
    # An item's segment is how many segments end before it or at it.
    marks = ends.new_zeros(output_size + 1).index_add(0, ends, torch.ones_like(ends))
    return marks.cumsum(0)[:output_size].to(repeats.dtype)


def _index_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor:
    """Add rows by an operation that ONNX Runtime computes in one thread.

    ``index_add`` becomes ScatterND there, whose threads lose sums where they add to one row at the same time.
    """
    if alpha != 1 or source.dim() == 0:
        return NotImplemented
    shape = [1] * source.dim()
    shape[dim] = -1
    return x.scatter_add(dim, index.long().reshape(shape).expand(source.shape), source)


def _stable_argsort(x: torch.Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> torch.Tensor:
    """Return the order of a vector by sorts that need not be stable, since ONNX has these alone."""
    if x.dim() != 1:
        return NotImplemented
    values, order = x.sort(descending=descending)
    positions = torch.arange(x.shape[0], device=x.device)
    groups = values.ne(values.roll(1)).logical_and(positions > 0).to(torch.int64).cumsum(0)
    keys = torch.zeros_like(positions).scatter(0, order, groups) * x.shape[0] + positions
    return keys.sort().indices


def with_relu(operator: Any, inputs: Sequence[Any], *structure: Any) -> str | None:
    """Return the recipe of a call of an operator with a ReLU behind it; None if there is none, or it is not ours."""
    make = _MAKERS.get(operator)
    return None if make is None else make(structure[:-1], structure[-1], (False,) * len(inputs), False).with_relu()


def kernel_of(target: Any) -> Any:
    """Return what computes the results of a program's step from plain tensors, without torch's dispatcher.

    That is what a step calls, unless it is one of the registered operations.
    """
    return _KERNELS.get(target, target)


def call(
    name: str, inputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], counts: Sequence[int], recipe: str
) -> torch.Tensor:
    """Return the result of a registered operation: see :func:`call_both`."""
    return call_both(name, inputs, tensors, counts, recipe)[0]


def call_both(
    name: str, inputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], counts: Sequence[int], recipe: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result of a registered operation, and what it keeps for the gradient.

    Raises ``DGLError``: a tensor is of a class that does not know dglite's operations, as DTensor does not; the
    exporter of ONNX that traces by ``torch.jit`` asks.
    """
    operator = _OPERATORS.get(name)
    if operator is None:
        raise DGLError("operations for torch's compilers are those of DGLITE_BACKEND=torch; start the process with it")
    if torch.compiler.is_compiling():
        return operator(list(inputs), *tensors, *counts, recipe)  # type: ignore[no-any-return]
    if torch._C._get_tracing_state() is not None and torch.onnx.is_in_onnx_export():
        raise DGLError(
            "torch.onnx.export(dynamo=False) knows none of dglite's operations. Export the portable program, in which "
            "the graph is an input: torch.onnx.export(dglite.export(model, g, x, portable=True), f=..., dynamo=True)"
        )
    tensors = as_in_mode(tensors, inputs)
    try:
        return operator(list(inputs), *tensors, *counts, recipe)  # type: ignore[no-any-return]
    except (NotImplementedError, RuntimeError, TypeError, AttributeError) as error:
        refuse_class(inputs, str(operator), error)
        raise


def _kernel(make: MakeOp, run_again: RunAgain | None) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return what computes results; inputs are compared with the structure once for each signature."""
    signatures: set[Any] = set()  # of inputs that fit their structure

    def compute(
        inputs: list[torch.Tensor], src: torch.Tensor, dst: torch.Tensor, num_src: int, num_dst: int, recipe: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        structure = src, dst, num_src, num_dst
        if run_again is not None:
            result = run_again(structure, recipe, inputs)
            if result is not None:
                return result, _NO_AUX
        op = make(structure, recipe, (False,) * len(inputs), True)
        signature: Any = recipe, src.shape, dst.shape, num_src, num_dst
        for x in inputs:
            signature += (x.shape, x.dtype, x.device)
        if signature not in signatures:
            op.describe(*inputs)  # nobody else has compared them with this structure
            if len(signatures) >= _MOST_SIGNATURES:
                signatures.clear()
            signatures.add(signature)
        op.check_values(*inputs)
        result = op.forward(*inputs)
        return result, _NO_AUX if op.aux is None else op.aux

    return compute


def register(name: str, make: MakeOp, run_again: RunAgain | None, dtypes: Mapping[str, torch.dtype]) -> None:
    """Register the operation that ``make`` makes: its kernel, its description (a fake kernel), gradient and batches."""
    compute = _kernel(make, run_again)

    def describe(inputs: list[torch.Tensor], *structure: Any) -> tuple[Any, ...]:
        *relation, recipe = structure
        _require_values_of_all(inputs, relation)
        op = make(relation, recipe, (False,) * len(inputs), False)
        return _described(op.describe(*inputs), inputs, op.device, dtypes)

    def decompose(inputs: list[torch.Tensor], *structure: Any) -> tuple[torch.Tensor, torch.Tensor]:
        src, dst, *others = structure
        return composed(inputs, src.long(), dst.long(), *others)  # ONNX has no scatter operations on other integers

    def composed(inputs: list[torch.Tensor], *structure: Any) -> tuple[torch.Tensor, torch.Tensor]:
        *relation, recipe = structure
        result = make(relation, recipe, (False,) * len(inputs), False).composed(*inputs)
        return result, torch.empty(_NOTHING[0], dtype=dtypes[_NOTHING[1]])

    def differentiable(keyset: Any, inputs: list[torch.Tensor], *structure: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if forward_ad._current_level >= 0 or is_transformed():  # a program runs in there: its calls come here alone
            return composed(inputs, *structure)
        recorded = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        if not recorded and _is_dense(keyset):
            return compute(inputs, *structure)
        below = keyset & torch._C._after_autograd_keyset
        if recorded:
            return _Differentiable.apply(_OPERATORS[name], make, below, structure, *inputs)  # type: ignore[no-any-return]
        with torch._C._AutoDispatchBelowAutograd():
            return _OPERATORS[name].redispatch(below, inputs, *structure)  # type: ignore[no-any-return]

    def batched(info: Any, in_dims: Any, inputs: list[torch.Tensor], *structure: Any) -> tuple[Any, tuple[Any, Any]]:
        if any(dim is not None for dim in in_dims[1:]):
            raise DGLError("vmap goes over the graph's edges; it may go over features and parameters, of one graph")
        *relation, recipe = structure
        op = make(relation, recipe, (False,) * len(inputs), False)
        if not op.batch_axis:  # what it is composed of has rules
            result = torch.vmap(op.composed, tuple(in_dims[0]), randomness="different")(*inputs)
            return (result, result.new_empty(_NOTHING[0], dtype=dtypes[_NOTHING[1]])), (0, None)
        folded = fold_batch(info.batch_size, inputs, in_dims[0], op.alike)
        result, aux = _OPERATORS[name](folded, *structure)
        return (result, aux), (op.batch_axis, None if aux.dtype is torch.uint8 else op.batch_axis)

    left_to_python(compute)
    _LIBRARY.define(name + _SIGNATURE, tags=_TAGS)
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    full_name = f"dglite::{name}"
    torch.library.register_fake(full_name, describe, lib=_LIBRARY)
    _LIBRARY.impl(name, differentiable, "Autograd", with_keyset=True)
    for kind, key in _AUTOCAST.items():
        _LIBRARY.impl(name, _in_autocast(name, kind), key.name)
    if hasattr(torch.library, "register_vmap"):  # from torch 2.5 on
        torch.library.register_vmap(full_name, batched, lib=_LIBRARY)
    operator = _OPERATORS[name] = getattr(torch.ops.dglite, name).default
    _DECOMPOSITIONS[operator], _MAKERS[operator], _KERNELS[operator] = decompose, make, compute


def _in_autocast(name: str, kind: str) -> Callable[..., Any]:
    """Return what runs the operator of a name where autocast is on for a kind of device."""
    excluded = torch._C.DispatchKeySet(_AUTOCAST[kind])

    def call(inputs: list[torch.Tensor], *structure: Any) -> Any:
        inputs = _of_one_dtype(inputs, kind)
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return _OPERATORS[name](inputs, *structure)

    return call


def _of_one_dtype(inputs: list[torch.Tensor], kind: str) -> list[torch.Tensor]:
    """Return inputs as autocast wants them on a kind of device: if features differ in dtype, all in autocast's.

    A program that was recorded outside of autocast may be called inside of it. float64 is never cast: kernels refuse it
    beside others. Single numbers are no features.
    """
    dtypes = {x.dtype for x in inputs if x.dim() and x.is_floating_point()}
    if len(dtypes) < 2 or torch.float64 in dtypes:
        return inputs
    dtype = torch.get_autocast_dtype(kind)
    return [x.to(dtype) if x.dim() and x.is_floating_point() else x for x in inputs]


def _is_dense(keyset: Any) -> bool:
    """Whether all tensors of a call are ordinary ones."""
    keys = _keys_of(keyset)
    dense = _IS_DENSE.get(keys)
    if dense is None:
        dense = _IS_DENSE[keys] = _keys_of(keyset & torch._C._after_autograd_keyset) in _DENSE
    return dense


class _Differentiable(torch.autograd.Function):
    """A call of an operator that autograd records. Gradients are made of registered operators again."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, operator: Any, make: MakeOp, keyset: Any, structure: tuple[Any, ...], *inputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            result, aux = operator.redispatch(keyset, list(inputs), *structure)
        src, dst, num_src, num_dst, recipe = structure
        ctx.make = lambda src, dst: make((src, dst, num_src, num_dst), recipe, ctx.needs_input_grad[4:], False)
        ctx.shapes = [tuple(x.shape) for x in inputs]
        saved = ctx.make(src, dst).saved
        ctx.save_for_backward(*[result if i == RESULT else inputs[i] for i in saved], aux, src, dst)
        ctx.mark_non_differentiable(aux)
        return result, aux

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        *saved, aux, src, dst = ctx.saved_tensors
        op = ctx.make(src, dst)
        op.shapes, op.aux = ctx.shapes, aux
        read: list[torch.Tensor | None] = [None] * (len(ctx.shapes) + 1)
        for i, x in zip(op.saved, saved, strict=True):
            read[i] = x
        return *(None,) * 4, *op.backward(read, grad, ctx.needs_input_grad[4:])


def _require_values_of_all(inputs: Sequence[torch.Tensor], relation: Sequence[Any]) -> None:
    """Raise :class:`DGLError` unless all of the inputs are on the meta device, or none of a call's tensors.

    Single numbers may be elsewhere, and so may edges that have values. Torch would describe the result of any mixture.
    """
    # A fake tensor is a meta tensor inside; its device is the one that it stands for.
    edges = {x.device.type == "meta" for x in relation[:2]}
    without, tensors = {x.device.type == "meta" for x in inputs if x.dim()}, (*inputs, *relation[:2])
    if len(edges) > 1 or len(without) > 1 or (without == {False} and any(x.device.type == "meta" for x in tensors)):
        raise DGLError(
            "got tensors with values and tensors without (on the meta device) in one call; move all to one device"
        )


def _described(
    results: Sequence[Any], inputs: Sequence[torch.Tensor], device: Any, dtypes: Mapping[str, torch.dtype]
) -> tuple[torch.Tensor, ...]:
    """Return tensors of the shapes and dtypes of an operation's result and of what it keeps, which may be None."""
    near = inputs[0].device if inputs else "cpu"
    devices = near if device is None else device, near if results[1] else "cpu"
    return tuple(
        torch.empty(tuple(shape), dtype=dtypes[dtype], device=device)
        for (shape, dtype), device in zip([result or _NOTHING for result in results], devices, strict=True)
    )


def fold_batch(
    size: int, inputs: Sequence[torch.Tensor], dims: Sequence[int | None], alike: bool
) -> list[torch.Tensor]:
    """Return inputs whose first feature axis is the batch, (rows, batch, *feat): of length 1 where one has none.

    Features broadcast from the right, so shorter ones get axes of length 1 behind the batch. ``alike`` inputs do not
    broadcast: those without a batch are repeated.
    """
    feats = [x.dim() - 1 - (dim is not None) for x, dim in zip(inputs, dims, strict=True)]
    folded = []
    for x, dim, count in zip(inputs, dims, feats, strict=True):
        x = x.unsqueeze(1) if dim is None else x.movedim(dim, 1)
        rows, batch, *feat = x.shape
        x = x.reshape(rows, batch, *(1,) * (max(feats) - count), *feat)
        folded.append(x.expand(rows, size, *x.shape[2:]) if alike else x)
    return folded
