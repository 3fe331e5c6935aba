"""torch's API for the array backends: tensors, ``nn``, ``optim``, ``no_grad``, as far as layers and examples use it.

As large as dglite's layers and examples need. ``dglite.backend.framework`` is this package with an array library, and
torch itself with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd import Tensor, apply, as_array
from ..conversions import require_device
from ..grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from ..library import library
from ..operations import dtype_of, functions
from ..shapes import unsqueeze
from . import nn, optim

__all__ = [
    "Tensor",
    "arange",
    "as_tensor",
    "bool",
    "cat",
    "concat",
    "empty",
    "enable_grad",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_tensor",
    "manual_seed",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "optim",
    "rand",
    "randint",
    "randn",
    "randperm",
    "set_grad_enabled",
    "stack",
    "tensor",
    "zeros",
    "zeros_like",
]

float16, float32, float64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
int32, int64, bool = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.bool_)
_NAMES = (
    "exp log sqrt abs sign tanh sigmoid relu sin cos square sum mean max min prod logsumexp softmax log_softmax argmax "
    "argmin any all add sub mul div pow maximum minimum where matmul reshape flatten squeeze unsqueeze transpose "
    "permute split chunk nonzero count_nonzero clamp isnan sort topk cumsum norm gather index_select"
).split()
globals().update({_name: functions[_name] for _name in _NAMES})
__all__ += _NAMES


# -- make tensors ------------------------------------------------------------------------------------------------------
def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Tensor:
    """Copy numbers, lists or an array into a tensor; floats become float32 unless they come in an array."""
    array = as_array(data)
    return _as_dtype(array.copy(), dtype or array.dtype, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Make a tensor of data, sharing memory where nothing has to change."""
    require_device(device)
    tensor = data if isinstance(data, Tensor) else Tensor(as_array(data))
    return tensor if dtype is None else functions["astype"](tensor, dtype)  # type: ignore[no-any-return]


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the array's memory."""
    return Tensor(library.xp.asarray(array))


def is_tensor(x: object) -> Any:
    """Whether ``x`` is a tensor."""
    return isinstance(x, Tensor)


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape


def _as_dtype(array: Any, dtype: Any, device: Any, requires_grad: Any = False) -> Tensor:
    require_device(device)
    return functions["astype"](Tensor(array), dtype).requires_grad_(requires_grad)  # type: ignore[no-any-return]


def _filled(make: str) -> Callable[..., Tensor]:
    def call(*shape: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Tensor:
        dtype = dtype_of(dtype or float32)
        return _as_dtype(getattr(library.xp, make)(_sizes(shape), dtype), dtype, device, requires_grad)

    return call


zeros, ones, empty = _filled("zeros"), _filled("ones"), _filled("empty")


def full(shape: Sequence[int], value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor filled with ``value``."""
    return _as_dtype(library.xp.full(tuple(shape), value), dtype or as_array(value).dtype, device)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Return zeros of x's shape and dtype."""
    return zeros(x.shape, dtype=dtype or x.dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Return ones of x's shape and dtype."""
    return ones(x.shape, dtype=dtype or x.dtype)


def eye(size: int, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the identity matrix."""
    return _as_dtype(library.xp.eye(size), dtype or float32, device)


def arange(*bounds: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return numbers from ``start`` up to ``stop`` in steps."""
    numbers = library.xp.arange(*bounds)
    usual = int64 if numbers.dtype.kind == "i" else float32
    return _as_dtype(numbers, dtype or usual, device)


# -- random numbers ----------------------------------------------------------------------------------------------------
def manual_seed(seed: int) -> None:
    """Restart the generator, so that what follows can be repeated."""
    library.seed(seed)


def rand(*shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return numbers from 0 to 1."""
    return _as_dtype(library.uniform(_sizes(shape)), dtype or float32, device)


def randn(*shape: Any, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Tensor:
    """Return normal numbers of mean 0 and variance 1."""
    return _as_dtype(library.normal(_sizes(shape)), dtype or float32, device, requires_grad)


def randint(low: int, high: Any, size: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Return integers from ``low`` up to, without, ``high``; with two arguments the first is ``high``."""
    low, high, size = (0, low, high) if size is None else (low, high, size)
    numbers = library.generator.integers(low, high, tuple(size))
    return _as_dtype(library.xp.asarray(numbers), dtype or int64, device)


def randperm(count: int, device: Any = None) -> Tensor:
    """Return 0 .. count - 1 in random order."""
    return _as_dtype(library.xp.asarray(library.generator.permutation(count)), int64, device)


# -- join --------------------------------------------------------------------------------------------------------------
def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join along an axis."""
    return apply("concat", *tensors, axis=dim)


concat = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join along a new axis."""
    return cat([unsqueeze(x, dim) for x in tensors], dim)
