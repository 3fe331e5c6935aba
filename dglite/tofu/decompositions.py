"""Decompositions of ATen operators in a captured step, and their results on the meta device."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._library import simple_registry
from torch._subclasses import FakeTensorMode
from torch.fx import Node

from ..errors import DGLError
from .nodes import argument_key

aten = torch.ops.aten

_TABLE: dict[Any, Callable[..., Any]] = {}
_DATA_DEPENDENT = {aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default}

_OTHER_SHAPES = {aten._embedding_bag.default, aten._embedding_bag_forward_only.default}
"""Operators whose outputs on the meta device have other shapes than elsewhere."""

_COMPARISONS: dict[Any, Callable[[float, float], bool]] = {
    aten.lt.Scalar: operator.lt,
    aten.le.Scalar: operator.le,
    aten.gt.Scalar: operator.gt,
    aten.ge.Scalar: operator.ge,
}
_LARGEST_RANDOM = 1.0 - 2.0**-24

_KEPT = (
    aten.threshold_backward,
    aten.gelu_backward,
    aten.silu_backward,
    aten._scaled_dot_product_flash_attention_for_cpu,
)
"""Kept whole: in pieces, they hold more at a time."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return what operators are written as: Core ATen, and batch normalisation as its sums."""
    if not _TABLE:
        _TABLE.update(core_aten_decompositions())
        _TABLE.update(
            get_decompositions(
                [
                    aten._native_batch_norm_legit.no_stats,
                    aten._native_batch_norm_legit_functional,
                    aten._native_batch_norm_legit_no_training,
                    aten.native_batch_norm_backward,
                    aten.native_group_norm,
                    aten.mse_loss,
                ]
            )
        )
        for packet in (aten.native_batch_norm, aten.cudnn_batch_norm, aten._native_batch_norm_legit, *_KEPT):
            _TABLE.pop(packet.default, None)
    return _TABLE


_RANDOM = {aten.bernoulli_.float: aten.bernoulli.p, aten.normal_.default: aten.normal_functional.default}


def operator_name(func: Any) -> str:
    """Return the name of an operator without its namespace and overload."""
    return str(func._schema.name).split("::")[-1]


def functional_form(func: Any) -> Any:
    """Return the operator that computes what one writes in place, or into ``out=``, or None."""
    packet = getattr(aten, operator_name(func).removesuffix("_"), None)
    arguments = [(a.name, str(a.type)) for a in func._schema.arguments if not a.is_out]
    for overload in [] if packet is None else [getattr(packet, name) for name in packet.overloads()]:
        schema = overload._schema
        if not schema.is_mutable and [(a.name, str(a.type)) for a in schema.arguments] == arguments:
            return _RANDOM.get(func, overload)
    return _RANDOM.get(func)


def depends_on_data(func: Any, args: Any) -> bool:
    if func in _DATA_DEPENDENT:
        return True
    if func is aten.index.Tensor:
        return any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
    return torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


@functools.cache
def is_composite(func: Any) -> bool:
    """Return whether torch composes an operator of others, with their gradients."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in func.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


def fake_kernel(name: str) -> Any:
    """Return what says the shapes of the outputs of an operator that a library registers, or None."""
    entry = simple_registry.singleton.find(name)
    kernel = (entry.fake_impl if hasattr(entry, "fake_impl") else entry.abstract_impl).kernel  # the second in torch 2.4
    return None if kernel is None else kernel.func


def always(node: Any) -> bool | None:
    """Return the value of a comparison of a random number with a bound that it never, or always, is below, else None.

    Libraries draw a number to skip a layer with a probability, which may be 0.
    """
    if node.target not in _COMPARISONS or getattr(node.args[0], "target", None) is not aten.rand.default:
        return None
    compare, bound = _COMPARISONS[node.target], node.args[1]
    least, most = compare(0.0, bound), compare(_LARGEST_RANDOM, bound)
    return least if least == most else None


def known_value(node: Node, constants: Mapping[str, torch.Tensor]) -> Any:
    """Return the number that a node is, if that depends on no input and on no random number, else None.

    Modules compare masks that they have made, to find out which one they are.
    """
    order: dict[Node, None] = {}
    stack = [node]
    while stack:
        above = [n for n in stack[-1].all_input_nodes if n not in order]
        stack += above
        if not above:
            order[stack.pop()] = None
    named = {name.replace(".", "_"): value for name, value in constants.items()}
    values: dict[Node, Any] = {}
    for each in order:
        if each.op == "placeholder" and each.target in named:
            values[each] = named[each.target]
        elif each.op == "placeholder" or torch.Tag.nondeterministic_seeded in getattr(each.target, "tags", ()):
            return None
        else:
            args, kwargs = torch.fx.node.map_arg((each.args, each.kwargs), values.__getitem__)
            target: Any = each.target
            values[each] = target(*args, **kwargs)
    return values[node].item()


def described(func: Any, args: Any, kwargs: Any) -> Any:
    """Return an operator's outputs on the meta device: of one that a library registers, by its fake kernel."""
    if func in _OTHER_SHAPES:
        raise DGLError(f"{func} (nn.EmbeddingBag) cannot be split: use nn.Embedding, and a sum or mean of its rows")
    if func.namespace in ("aten", "prims"):
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            raise DGLError(f"{func} does not say the shapes of its outputs: write the module without it") from error
    kernel = fake_kernel(func.name())
    if kernel is None:
        raise DGLError(f"{func} has no fake kernel, so its shapes are unknown: add torch.library.register_fake for it")
    with FakeTensorMode(allow_non_fake_inputs=True):
        return meta_like(kernel(*args, **kwargs))


class MetaOutputs:
    """Outputs of operators on the meta device, computed once for equal arguments: layers and time steps are alike."""

    def __init__(self) -> None:
        self._outputs: dict[Any, Any] = {}

    def __call__(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what `described` does."""
        if func.is_view or any(not x.is_meta or x.is_complex() for x in tensors_in((args, *kwargs.values()))):
            return described(func, args, kwargs)
        key = func, argument_key((args, kwargs), [])
        if key not in self._outputs:
            self._outputs[key] = described(func, args, kwargs)
        return meta_like(self._outputs[key])


def meta_like(value: Any) -> Any:
    """Return dense tensors, in tuples, lists or dicts, as new ones on the meta device."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {name: meta_like(item) for name, item in value.items()}
    return type(value)(map(meta_like, value)) if isinstance(value, list | tuple) else value


def tensors_in(out: Any) -> list[torch.Tensor]:
    """Return the tensors among an operator's arguments or outputs: one, or those in lists and tuples."""
    if isinstance(out, torch.Tensor):
        return [out]
    return [x for item in out for x in tensors_in(item)] if isinstance(out, list | tuple) else []
