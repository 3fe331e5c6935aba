"""What a backend runs and defers: operations with hand-written gradients, and recipes of tensors not read yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

RESULT = -1
"""Position of an operation's own result among what its gradient reads."""

Tensor = Any
"""A tensor of the active framework."""

Description = tuple[Sequence[int], str]
"""Shape and dtype of a tensor."""


class DifferentiableOp(Protocol):
    """One call of an operation with a hand-written gradient.

    ``backward`` is written with differentiable operations, so that second derivatives exist.
    """

    @property
    def saved(self) -> Sequence[int]:
        """Positions of the inputs that ``backward`` reads; the others are not kept alive and come as None.

        ``RESULT`` among them stands for the result of ``forward``, which ``backward`` then finds after the inputs.
        """

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the result; inputs carry no gradient here."""

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> Sequence[Tensor | None]:
        """Return d(loss)/d(input) for each input with ``needs[i]``, else None."""


class RegisteredOp(DifferentiableOp, Protocol):
    """A differentiable operation that a compiler can keep in its programs, where objects do not last.

    The program holds tensors, numbers and text, from which one object computes the result and another, later, the
    gradient: so whatever the gradient reads beyond inputs and result is a tensor in ``aux``.
    """

    aux: Tensor | None
    """A further result of ``forward`` that ``backward`` reads, such as an argmax: never a view of an input, or None."""
    shapes: Sequence[tuple[int, ...]]
    """Shapes of the inputs, which ``backward`` may read."""
    device: Any
    """Where the result is, if not with the first input; without inputs, None is the CPU."""
    batch_axis: int
    """The axis of results and of ``aux`` that a batch becomes, if it is the first feature axis of the inputs.

    0 without one."""
    alike: bool
    """Whether inputs have one shape of features, instead of shapes that broadcast."""

    def describe(self, *inputs: Tensor) -> tuple[Description, Description | None]:
        """Return shape and dtype of the result and of ``aux``, from inputs that have no values.

        Wrong inputs are refused here as they are by ``forward``.
        """

    def with_relu(self) -> str | None:
        """Return the recipe of this operation with a ReLU behind it, or None if it has no such form."""

    def check_values(self, *inputs: Tensor) -> None:
        """Refuse ids among inputs, which others than ``forward``'s usual callers pass, that are out of range."""

    def composed(self, *inputs: Tensor) -> Tensor:
        """Return what ``forward`` does, made of the library's own operations on tensors of the structure."""


class TransformedOp(RegisteredOp, Protocol):
    """A registered operation that transforms of functions take apart."""

    name: ClassVar[str]
    adj: Any
    """The structure, whose ``tensors`` are the ends of every edge."""

    @property
    def is_real(self) -> bool:
        """Whether the structure has values, instead of tensors that may have none yet."""

    def recipe(self) -> str:
        """Return the parameters of this operation, without inputs and structure, as text."""

    def again(self) -> TransformedOp:
        """Return the same operation for another call."""


MakeOp = Callable[[Sequence[Any], str, Sequence[bool], bool], RegisteredOp]
"""Makes an operation of ``(structure, recipe, needs, real)``: the tensors, counts and text that a program holds, which
inputs need a gradient, and whether it is going to compute (``forward``) or only to describe and derive."""
RunAgain = Callable[[Sequence[Any], str, Sequence[Any]], Any]
"""Runs an operation of ``(structure, recipe, inputs)`` as an earlier call on this structure and equal shapes did, or
returns None."""


class Watch:
    """Gradient hooks of a deferred tensor that was optimised away, called where it is computed after all.

    ``hooks`` may change the gradient, as torch's hooks do; ``keep`` sees the result.
    """

    __slots__ = ("hooks", "keep")

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Callable[[Tensor], Tensor | None]] = OrderedDict()
        self.keep: Callable[[Tensor], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.hooks) or self.keep is not None

    def __call__(self, grad: Tensor) -> Tensor:
        """Return the gradient that is passed on."""
        grad = self.hooked(grad)
        if self.keep is not None:
            self.keep(grad)
        return grad

    def hooked(self, grad: Tensor) -> Tensor:
        """Return what the hooks make of a gradient."""
        for hook in tuple(self.hooks.values()):
            changed = hook(grad)
            grad = grad if changed is None else changed
        return grad


class Recipe(Protocol):
    """How a tensor is computed that has not been read yet."""

    @property
    def watch(self) -> Watch:
        """Who asks for the tensor's gradient."""

    @property
    def shape(self) -> Sequence[int]:
        """The tensor's shape."""

    @property
    def sources(self) -> Sequence[Tensor]:
        """What it is computed from, all of its dtype and on its device."""

    def on(self, sources: Sequence[Tensor]) -> Recipe:
        """Return the same for other sources."""

    def compute(self, *sources: Tensor) -> Tensor:
        """Return its values, differentiable in the sources."""

    def plus(self, term: Tensor) -> Recipe | None:
        """Return the recipe of its sum with an ordinary tensor, None where that takes the values."""

    def leaky_relu(self, slope: float) -> Recipe | None:
        """Return the recipe of its leaky ReLU, None where that takes the values."""

    def dropout(self, p: float) -> Recipe | None:
        """Return the recipe of what dropout makes of it, None where that takes the values."""
