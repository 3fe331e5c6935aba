"""Operations on whole batches: products with a shared weight, and any other torch function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...execution.products import GradientSums, multiply
from ..recording.kinds import TensorKind


class GradientTarget(NamedTuple):
    """Where the gradient of an input goes, and whether it is added to what is there."""

    place: Tensor
    adds: bool

    def take(self, grad: Tensor | None) -> None:
        """Put a gradient there; None is one of zeros."""
        if self.adds and grad is not None:
            self.place.add_(grad)
        elif not self.adds:
            self.place.zero_() if grad is None else self.place.copy_(grad)


Targets = Sequence[GradientTarget | None]
"""Those of all inputs; None for integers."""


class TorchCall:
    """Any function of stacked tensors, with torch's own gradient. ``call(*inputs)`` returns its results in a list.

    ``form`` names what it computes where that is a function of rows that kernels know (see ``kernels.render_rowwise``).
    ``tensors`` are those that it is known to read besides its inputs.
    """

    tensors: Sequence[Tensor] = ()

    def __init__(
        self,
        kinds: Sequence[TensorKind],
        results: Sequence[TensorKind],
        call: Callable[..., Sequence[Tensor]],
        form: str | None = None,
    ) -> None:
        self.kinds, self.results, self.call, self.form = tuple(kinds), tuple(results), call, form
        self.parameters: dict[int, Tensor] = {}

    @property
    def wants(self) -> bool:
        """Whether the function has been seen to use parameters that want a gradient."""
        return bool(self.parameters)

    def forward(self, inputs: list[Tensor], results: list[Tensor], keep: bool) -> Any:
        """Call the function. ``.data`` keeps torch from counting later writes to the memory that all batches share."""
        if not keep:
            with torch.no_grad():
                self._store(self.call(*self._typed(inputs)), results)
            return None
        with torch.enable_grad():
            leaves = [x.data.requires_grad_(x.is_floating_point()) for x in inputs]
            values = list(self.call(*self._typed(leaves)))
        self._store(values, results)
        for parameter in _leaves_of(values, leaves):
            self.parameters.setdefault(id(parameter), parameter)
        return leaves, values

    def again(self, inputs: list[Tensor], stand_ins: Mapping[int, Tensor]) -> Sequence[Tensor]:
        """Return the results, differentiable, with other tensors in the places of some, by their ids."""
        with _StandInMode(stand_ins):
            return self.call(*self._typed(inputs))

    def _typed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return inputs in the dtypes of their kinds: booleans are stored as integers."""
        return [x if x.dtype is kind.dtype else x.to(kind.dtype) for x, kind in zip(inputs, self.kinds, strict=True)]

    def _store(self, values: Sequence[Tensor], results: list[Tensor]) -> None:
        for value, result in zip(values, results, strict=True):
            result.copy_(value.detach())

    def backward(self, saved: Any, grads: list[Tensor], into: Targets, gradients: GradientSums) -> None:
        """Differentiate the recorded call."""
        leaves, values = saved
        pairs = [(value, grad) for value, grad in zip(values, grads, strict=True) if value.requires_grad]
        float_inputs = [(x, target) for x, target in zip(leaves, into, strict=True) if target is not None]
        parameters = list(self.parameters.values())
        sources = [x for x, _ in float_inputs] + parameters
        gradients_of: Sequence[Tensor | None] = [None] * len(sources)
        if pairs and sources:
            shaped = [g.view(v.shape) for v, g in pairs]
            gradients_of = torch.autograd.grad(
                [v for v, _ in pairs], sources, shaped, allow_unused=True, retain_graph=True
            )
        for (_, target), grad in zip(float_inputs, gradients_of, strict=False):
            target.take(grad)
        for parameter, grad in zip(parameters, gradients_of[len(float_inputs) :], strict=True):
            if grad is not None:
                gradients.add(id(parameter), grad)


class WeightProduct(TorchCall):
    """``x @ weight.T + bias`` for x (*rows, features): one GEMM for a batch.

    Weight gradients wait until the sweep is over: they are one GEMM for all batches together.
    """

    def __init__(self, kind: TensorKind, out: TensorKind, weight: Tensor, bias: Tensor | None, turned: bool) -> None:
        super().__init__([kind], [out], lambda x: [F.linear(x, weight.t() if turned else weight, bias)])
        self.weight, self.bias, self.turned = weight, bias, turned
        self.tensors = [weight] if bias is None else [weight, bias]

    @cached_property
    def matrix(self) -> Tensor:
        """The weight as it is multiplied with, (features, columns)."""
        return self.weight.detach() if self.turned else self.weight.detach().t()

    @property
    def wants(self) -> bool:
        """Whether the weight or the bias wants a gradient."""
        return any(x.requires_grad for x in self.tensors)

    @cached_property
    def stored(self) -> Tensor:
        """The weight or its transpose, whichever lies by rows in memory."""
        weight = self.weight.detach()
        return weight if weight.stride(1) == 1 else weight.t()

    @property
    def forms(self) -> tuple[str, str]:
        """Forms of the kernels that multiply by what is stored, forward and backward."""
        return ("sums", "dots") if self.turned is (self.weight.stride(1) == 1) else ("dots", "sums")

    def forward(self, inputs: list[Tensor], results: list[Tensor], keep: bool) -> None:
        """Multiply many rows."""
        bias = None if self.bias is None else self.bias.detach()
        multiply(self.rows_of(inputs[0]), self.matrix, self.columns_of(results[0]), bias)

    def backward(self, saved: Any, grads: list[Tensor], into: Targets, gradients: GradientSums) -> None:
        """Multiply the gradient by the weight."""
        assert into[0] is not None
        target = self.rows_of(into[0].place)
        multiply(self.columns_of(grads[0]), self.matrix.t(), target, target if into[0].adds else None)

    def add_gradients(self, x: Tensor, grad: Tensor, gradients: GradientSums) -> None:
        """Add those of weight and bias, from all inputs (n, *rows, features) and the gradients of all results."""
        x, grad = self.rows_of(x), self.columns_of(grad)
        if self.weight.requires_grad:
            gradients.add_product(self.weight, *((x, grad) if self.turned else (grad, x)))
        if self.bias is not None and self.bias.requires_grad:
            gradients.add(id(self.bias), grad.sum(0))

    def rows_of(self, x: Tensor) -> Tensor:
        """Return inputs (n, *rows, features) as a matrix."""
        return x if x.dim() == 2 else x.reshape(-1, self.matrix.shape[0])

    def columns_of(self, y: Tensor) -> Tensor:
        """Return results (n, *rows, columns) as a matrix."""
        return y if y.dim() == 2 else y.view(-1, self.matrix.shape[1])


class EmbeddingLookup(TorchCall):
    """Rows of a table, by vectors of numbers."""

    def __init__(self, kind: TensorKind, out: TensorKind, table: Tensor, padding: int | None) -> None:
        super().__init__([kind], [out], lambda numbers: [F.embedding(numbers, table, padding)])
        self.table, self.padding, self.tensors = table, padding, [table]


class _StandInMode(TorchFunctionMode):
    """Puts stand-ins in the places of tensors in the arguments of torch's functions, by the ids of these."""

    def __init__(self, stand_ins: Mapping[int, Tensor]) -> None:
        super().__init__()
        self._stand_ins = stand_ins

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = args, kwargs or {}
        args, kwargs = pytree.tree_map_only(Tensor, lambda x: self._stand_ins.get(id(x), x), call)
        return func(*args, **kwargs)


def _leaves_of(values: Sequence[Tensor], inputs: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the leaf tensors that a recorded call depends on, apart from its inputs."""
    ours = {id(x) for x in inputs}
    pending = [value.grad_fn for value in values if value.grad_fn is not None]
    visited = set(pending)
    while pending:
        step = pending.pop()
        variable = getattr(step, "variable", None)
        if variable is not None and id(variable) not in ours:
            yield variable
        for following, _ in step.next_functions:
            if following is not None and following not in visited:
                visited.add(following)
                pending.append(following)
