"""Methods of the tape's tensors that describe, copy, convert and write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DGLError
from .autograd import Tensor, apply, as_array
from .library import library
from .operations import astype, dtype_of, functions, method


# -- describe ----------------------------------------------------------------------------------------------------------
@method()
def size(x: Tensor, dim: int | None = None) -> Any:
    """Return the shape, or the length of an axis."""
    return x.shape if dim is None else x.shape[dim]


@method()
def dim(x: Tensor) -> int:
    """Return the number of axes."""
    return x.ndim


@method("numel", "nelement")
def numel(x: Tensor) -> int:
    """Return the number of elements."""
    return x.data.size  # type: ignore[no-any-return]


@method()
def is_floating_point(x: Tensor) -> bool:
    """Whether the elements are floats."""
    return x.dtype.kind == "f"


# -- to Python and NumPy -----------------------------------------------------------------------------------------------
@method()
def item(x: Tensor) -> Any:
    """Return the only element as a number."""
    return x.data.item()


@method()
def tolist(x: Tensor) -> Any:
    """Return the elements in lists."""
    return x.data.tolist()


@method()
def numpy(x: Tensor) -> np.ndarray:
    """Return the array, whose memory is shared; :class:`DGLError` where a gradient would be lost silently."""
    return x.__array__()


# -- copy and convert --------------------------------------------------------------------------------------------------
@method()
def clone(x: Tensor) -> Tensor:
    """Return a copy, through which gradients flow."""
    return apply("clone", x)


@method()
def contiguous(x: Tensor) -> Tensor:
    """Return x laid out row after row, itself when it is already."""
    return x if x.data.flags.c_contiguous else apply("clone", x)


@method()
def to(x: Tensor, *targets: Any, dtype: Any = None, device: Any = None, **options: Any) -> Tensor:
    """Return x as the dtype, or like the tensor, among ``targets``; a device must be the one that x is on."""
    for target in (dtype, device, *targets):
        if isinstance(target, Tensor):
            x = astype(x, target.dtype)
        elif isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda"):
            require_device(target)
        elif target is not None and not isinstance(target, bool):
            x = astype(x, target)
    return x


def require_device(device: Any) -> None:
    """Raise :class:`DGLError` unless the array library is on ``device``; None is any."""
    here, other = ("cpu", "cupy") if library.xp is np else ("cuda", "numpy")
    if device is not None and str(device).partition(":")[0] != here:
        raise DGLError(
            f"this process computes with {library.xp.__name__} on {here}; for {device} set DGLITE_BACKEND to {other} "
            "or torch"
        )


@method()
def cpu(x: Tensor) -> Tensor:
    """Return x, which must be on the CPU."""
    return to(x, "cpu")


@method()
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Return x in the dtype of another tensor."""
    return astype(x, other.dtype)  # type: ignore[no-any-return]


# -- make alike --------------------------------------------------------------------------------------------------------
def _new(function: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(x: Tensor, *shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return Tensor(function(tuple(sizes), dtype_of(dtype or x.dtype)))

    return call


for _name in ("zeros", "ones", "empty"):
    method(f"new_{_name}")(_new(lambda shape, dtype, _name=_name: getattr(library.xp, _name)(shape, dtype)))


@method()
def new_full(x: Tensor, shape: Any, value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of x's dtype filled with ``value``."""
    return Tensor(library.xp.full(tuple(shape), value, dtype_of(dtype or x.dtype)))


@method()
def new_tensor(x: Tensor, values: Any) -> Tensor:
    """Return values as a tensor of x's dtype."""
    return Tensor(as_array(values).astype(x.dtype))


# -- write -------------------------------------------------------------------------------------------------------------
@method()
def copy_(x: Tensor, values: Any) -> Tensor:
    """Write values, which are broadcast and converted; return x."""
    x.write()
    x.data[...] = as_array(values)
    return x


@method()
def fill_(x: Tensor, value: float) -> Tensor:
    """Write one value everywhere; return x."""
    return copy_(x, value)


@method()
def zero_(x: Tensor) -> Tensor:
    """Write 0 everywhere; return x."""
    return copy_(x, 0)


def _writing(name: str) -> Callable[..., Tensor]:
    def call(x: Tensor, other: Any) -> Tensor:
        return copy_(x, functions[name](x.detach(), other))

    return call


for _name in ("add", "sub", "mul", "div"):
    method(f"{_name}_")(_writing(_name))
