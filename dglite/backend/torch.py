"""PyTorch: autograd, CPU and CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, final

import torch

from ..opspec import OPERATORS
from . import torch_arrays, torch_export, torch_library, torch_memory, torch_program, torch_record, torch_structure
from .protocols import MakeOp, Recipe, RunAgain, Watch
from .torch_breaks import compiled_within_others, left_to_python
from .torch_deferred import DeferredTensor, can_defer, deferred_of
from .torch_plain import (
    are_read,
    ids_of,
    innermost,
    is_exporting,
    is_forward_mode,
    is_recorded,
    is_symbol,
    is_transformed,
    is_watched,
    needs_operator,
    refuse_class,
)
from .torch_tensors import DTYPE_NAMES, DTYPES, TorchTensors
from .torch_transforms import transformed


def _extremum(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return ``torch.maximum`` or ``torch.minimum`` for a tensor and a number, too."""

    def either(x: Any, y: Any) -> torch.Tensor:
        like = x if isinstance(x, torch.Tensor) else y
        return function(torch.as_tensor(x, dtype=like.dtype), torch.as_tensor(y, dtype=like.dtype))

    return either


@final
class TorchBackend(TorchTensors):
    """Tensors are ``torch.Tensor``."""

    name = "torch"
    tensor_type = torch.Tensor
    device_type = torch.device
    framework = torch
    modules = ("torch", "numpy", "dglite.backend")
    functions: Mapping[str, Callable[..., torch.Tensor]] = {
        **{name: attrgetter(entry.torch)(torch) for name, entry in OPERATORS.items() if entry.torch is not None},
        "maximum": _extremum(torch.maximum),
        "minimum": _extremum(torch.minimum),
    }

    def random_state(self) -> bytes:
        with torch_structure.outside_of_programs():
            return torch.get_rng_state().numpy().tobytes()

    def restore_random_state(self, state: bytes) -> None:
        with torch_structure.outside_of_programs():
            torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def defer(self, recipe: Recipe) -> torch.Tensor:
        return DeferredTensor.make(recipe, recipe.sources[0].dtype)

    def any_deferred(self, *xs: torch.Tensor) -> bool:
        return DeferredTensor in map(type, xs)

    def recipe_of(self, x: torch.Tensor) -> Recipe | None:
        deferred = deferred_of(x)
        return deferred.recipe if deferred is not None and deferred.usable() else None

    def pass_by(self, x: torch.Tensor) -> None:
        deferred = deferred_of(x)
        if deferred is not None:
            deferred.consumed = True

    def watched(self, x: torch.Tensor, watch: Watch) -> torch.Tensor:
        if x.requires_grad and not torch.compiler.is_compiling():
            x.register_hook(watch)
        return x

    def detach(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    def gradients(
        self,
        function: Callable[..., torch.Tensor],
        inputs: Sequence[torch.Tensor],
        grad: torch.Tensor,
        needs: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = [x.view_as(x) for x in inputs]  # one tensor given twice has a gradient for each place
            targets = [x for x, needed in zip(inputs, needs, strict=True) if needed]
            grads = iter(torch.autograd.grad(function(*inputs), targets, grad, create_graph=again))
        return [next(grads) if needed else None for needed in needs]

    def draw_seed(self) -> int:
        return int(torch.randint(2**63 - 1, ()))

    # No call in between: every operation asks.
    apply = staticmethod(torch_record.apply)
    unbind = staticmethod(torch_record.unbind)
    compiling = staticmethod(is_recorded)
    exporting = staticmethod(is_exporting)
    is_symbol = staticmethod(is_symbol)
    needs_operator = staticmethod(needs_operator)
    is_forward_mode = staticmethod(is_forward_mode)
    are_read = staticmethod(are_read)
    ids_of = staticmethod(ids_of)
    num_threads = staticmethod(torch.get_num_threads)
    can_defer = staticmethod(can_defer)

    product = staticmethod(torch_memory.product)
    add_product = staticmethod(torch_memory.add_product)
    times = staticmethod(torch_memory.times)
    relu_gradient = staticmethod(torch_memory.relu_gradient)
    is_pooled = staticmethod(torch_memory.is_pooled)

    def register(self, name: str, make: MakeOp, run_again: RunAgain | None = None) -> None:
        torch_library.register(name, make, run_again, DTYPES)

    register_container = staticmethod(torch_export.register_container)
    dynamic_shapes = staticmethod(torch_export.dynamic_shapes)
    export = staticmethod(torch_export.export)
    load_program = staticmethod(torch_program.load_program)
    call = staticmethod(torch_library.call)
    transformed = staticmethod(transformed)
    out_of_memory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)  # torch 2.4 has the second alone
    arrays_on = staticmethod(torch_arrays.arrays_on)
    structure_tensors = staticmethod(torch_structure.make_tensors)
    structure_of = staticmethod(torch_structure.structure_of)
    left_to_python = staticmethod(left_to_python)
    compiled_within_others = staticmethod(compiled_within_others)

    def lasting(self) -> AbstractContextManager[None]:
        return torch_structure.outside_of_programs() if is_watched() else torch.inference_mode(False)

    def require(self, condition: torch.Tensor, message: str) -> None:
        if is_transformed():  # a batch of conditions is one of booleans, and all have to hold
            condition = innermost(condition).all()
            with torch_structure.outside_of_programs():
                torch._assert_async(condition, message)
            return
        try:
            torch._assert_async(condition, message)
        except NotImplementedError as error:
            refuse_class((condition,), "a check of values", error)
            raise

    def autocast_dtype(self) -> str | None:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                return DTYPE_NAMES[torch.get_autocast_dtype(kind)]
        return None

    def set_num_threads(self, count: int) -> None:
        torch.set_num_threads(count)
