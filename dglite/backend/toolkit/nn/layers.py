"""Dense layers that graph layers use, with torch's parameter names and initial values."""

from __future__ import annotations

from typing import Any, final

from ....errors import DGLError
from ...autograd import Tensor
from ...library import library
from . import functional, init
from .module import Module, Parameter


def _empty(*shape: int) -> Parameter:
    return Parameter(library.xp.empty(shape, "float32"))


class Linear(Module):
    r"""``x W^T + b``: (\*, in_features) -> (\*, out_features)."""

    bias: Tensor | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _empty(out_features, in_features)
        self.register_parameter("bias", _empty(out_features) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from -1/sqrt(in_features) to 1/sqrt(in_features)."""
        bound = self.in_features**-0.5 if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Any) -> Tensor:
        """Return the product."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Dropout(Module):
    """Set elements to 0 with probability ``p`` while training, and divide the others by ``1 - p``."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise DGLError(f"got dropout {p}; expected a probability, 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, x: Any) -> Any:
        """Return the input, with elements dropped while training."""
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"p={self.p}"


class Identity(Module):
    """Return the input; arguments of the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return x


class _Activation(Module):
    """An activation with at most one number as its parameter. ``inplace`` is accepted; results are new here."""

    name: str

    def __init__(self, inplace: bool = False, **settings: float) -> None:
        super().__init__()
        self._settings = settings

    def forward(self, x: Any) -> Any:
        """Return the function of the input."""
        return getattr(x, self.name)(**self._settings)


@final
class ReLU(_Activation):
    """``max(x, 0)``."""

    name = "relu"


@final
class Tanh(_Activation):
    """The hyperbolic tangent."""

    name = "tanh"


@final
class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))``."""

    name = "sigmoid"


@final
class LeakyReLU(_Activation):
    """``x`` above 0, ``negative_slope * x`` elsewhere."""

    name = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace, negative_slope=negative_slope)
        self.negative_slope = negative_slope


@final
class ELU(_Activation):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere."""

    name = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, alpha=alpha)


@final
class SiLU(_Activation):
    """``x / (1 + exp(-x))``."""

    name = "silu"


@final
class Softplus(_Activation):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` exceeds ``threshold``."""

    name = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)
        self.beta, self.threshold = beta, threshold
