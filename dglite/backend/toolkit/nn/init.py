"""Fill parameters before training: functions that write into a tensor and return it."""

from __future__ import annotations

import math
from typing import Any

from ....errors import DGLError
from ...autograd import Tensor
from ...grad_mode import no_grad
from ...library import library

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2)}


def calculate_gain(nonlinearity: str, param: float = 0.01) -> float:
    """Return the factor by which weights grow so that an activation keeps the variance."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + param**2))
    if nonlinearity not in _GAINS:
        raise DGLError(f"no gain is known for {nonlinearity!r}; expected one of {', '.join((*_GAINS, 'leaky_relu'))}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Return (fan in, fan out): the second axis and the first, times the axes behind."""
    if tensor.ndim < 2:
        raise DGLError(f"a tensor of shape {tensor.shape} has no fans; at least two axes are needed")
    behind = math.prod(tensor.shape[2:])
    return tensor.shape[1] * behind, tensor.shape[0] * behind


def _write(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        tensor.write()
    tensor.data[...] = values
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    return _write(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return _write(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return _write(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Draw from a to b."""
    return _write(tensor, a + (b - a) * library.uniform(tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Draw from a normal distribution."""
    return _write(tensor, mean + std * library.normal(tensor.shape))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draw from Glorot's uniform distribution (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draw from Glorot's normal distribution."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Draw from He's uniform distribution for a leaky ReLU of slope ``a`` (He et al., 2015)."""
    bound = calculate_gain("leaky_relu", a) * math.sqrt(3 / _fans(tensor)[0])
    return uniform_(tensor, -bound, bound)
