"""Operations on the tape's tensors: functions that are methods, too, under torch's and NumPy's names.

Axes are ``dim`` as in torch; reductions take ``axis`` too, with which ``max`` and ``min`` give values alone.
"""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DGLError
from ..formulas import ALIASES, FORMULAS, Formula
from ..opspec import COMPARISONS
from .autograd import Tensor, apply, as_array, not_torchs

_Extremum = namedtuple("_Extremum", "values indices")
_F32 = np.dtype(np.float32)

functions: dict[str, Callable[..., Any]] = {}
"""Every function by name. As methods of tensors they are called on their first argument."""


def method(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function a method of tensors under these names, its own by default."""

    def install(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (function.__name__,):
            setattr(Tensor, name, function)
            functions[name] = overridable(function, name)
        return function

    return install


def overridable(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the function such that an argument that stands for a tensor is asked first, by torch's protocol."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if not issubclass(type(x), Tensor):
                not_torchs(x)
                handler = getattr(type(x), "__torch_function__", None)
                if handler is not None:
                    return handler(call, (), args, kwargs)
        return function(*args, **kwargs)

    call.__name__ = name
    return call


def dtype_of(dtype: Any) -> np.dtype:
    """Return the dtype that a name, type or dtype means; :class:`DGLError` for one that NumPy lacks."""
    try:
        return np.dtype(str(dtype).rpartition(".")[2] if not isinstance(dtype, type) else dtype)
    except TypeError:
        raise DGLError(f"NumPy has no dtype {dtype}; use float32, or the torch backend") from None


# -- element-wise ------------------------------------------------------------------------------------------------------
_OF_INTEGERS = frozenset("neg abs sign square relu clamp clamp_min clamp_max".split())


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        if name not in _OF_INTEGERS and x.data.dtype.kind in "iub":
            x = astype(x, _F32)
        return apply(name, x)

    call.__name__ = name
    return call


def _by_formula(formula: Formula) -> Callable[..., Tensor]:
    """Return torch's function of that name: options as there, integers computed in float32."""

    def call(*args: Any, **kwargs: Any) -> Tensor:
        operands, options = formula.arguments(*args, **kwargs)
        values = list(operands.values())
        if formula.name not in _OF_INTEGERS:
            values = [astype(x, _F32) if isinstance(x, Tensor) and x.dtype.kind in "iub" else x for x in values]
        return apply(formula.name, *values, names=tuple(operands), **options)

    call.__name__, call.__doc__ = formula.name, formula.expression.__doc__
    return call


for _name, _formula in FORMULAS.items():
    if _formula.operands == ("input",) and not _formula.options:
        method(_name)(_unary(_name))
    elif _name not in (*COMPARISONS, "add", "sub", "mul", "div", "maximum", "minimum"):
        method(_name)(_by_formula(_formula))
for _name in ("log1p", "sin", "cos"):
    method(_name)(_unary(_name))


def attach(name: str, value: Any) -> None:
    """Give tensors a method or property that has no function in the table."""
    setattr(Tensor, name, value)


attach("__neg__", functions["neg"])
attach("__abs__", functions["abs"])
attach("__pos__", lambda self: self)


def promoted(x: Any, y: Any, division: bool = False) -> tuple[Any, Any]:
    """Return operands such that NumPy computes in the dtype that torch would choose.

    Integers take the width of the floats that they meet, float32 without any if floats are needed; a
    tensor without axes does not widen one with axes.
    """
    x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
    dtype_x, dtype_y = getattr(x, "dtype", None), getattr(y, "dtype", None)
    if dtype_x is None or dtype_y is None:
        array, number = (y, x) if dtype_x is None else (x, y)
        if array.dtype.kind in "iub" and (division or isinstance(number, float)):
            array = astype(array, _F32)
        return (number, array) if dtype_x is None else (array, number)
    floats = dtype_x.kind == "f", dtype_y.kind == "f"
    if floats == (False, False):
        return (astype(x, _F32), astype(y, _F32)) if division else (x, y)
    if not floats[1] or (floats[0] and y.ndim == 0 < x.ndim):
        return x, astype(y, dtype_x)
    if not floats[0] or x.ndim == 0 < y.ndim:
        return astype(x, dtype_y), y
    return x, y


_OPERANDS = (Tensor, np.ndarray, np.generic, int, float)


def _binary(name: str) -> Callable[[Any, Any], Tensor]:
    division = name in ("div", "power")

    def call(x: Any, y: Any) -> Tensor:
        if type(x) is not Tensor or type(y) is not Tensor or x.data.dtype != y.data.dtype or division:
            x, y = promoted(x, y, division)
        return apply(name, x, y)

    call.__name__ = name
    return call


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Tensor]:
    return lambda x, y: Tensor(function(_plain(x), _plain(y)))


def _plain(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else x


def _operator(function: Callable[[Any, Any], Tensor], reflected: bool = False) -> Callable[[Tensor, Any], Any]:
    def call(self: Tensor, other: Any) -> Any:
        # By type, since what stands for a tensor claims to be one: its own operators come first.
        if not issubclass(type(other), _OPERANDS):
            not_torchs(other)
            return NotImplemented
        return function(other, self) if reflected else function(self, other)

    return call


for _name, _spelling in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "power": "pow"}.items():
    _function = method(_name)(_binary(_name))
    setattr(Tensor, f"__{_spelling}__", _operator(_function))
    setattr(Tensor, f"__r{_spelling}__", _operator(_function, reflected=True))
for _name in ("maximum", "minimum"):
    method(_name)(_binary(_name))
for _name in COMPARISONS:
    _function = method(_name)(_compare(getattr(operator, _name)))
    setattr(Tensor, f"__{_name}__", _operator(_function))
for _name in ("and_", "or_", "xor", "mod", "floordiv"):
    _function = method(_name.strip("_"))(_compare(getattr(operator, _name)))
    setattr(Tensor, f"__{_name.strip('_')}__", _operator(_function))
    setattr(Tensor, f"__r{_name.strip('_')}__", _operator(_function, reflected=True))
attach("__invert__", lambda self: Tensor(~self.data))


for _alias, _name in ALIASES.items():
    method(_alias)(functions[_name])


@method("pow")
def power(x: Any, exponent: Any) -> Tensor:
    """Return ``x ** exponent``."""
    return functions["power"](x, exponent)  # type: ignore[no-any-return]


@method("where")
def _where(x: Tensor, condition: Any, other: Any) -> Tensor:
    """Return x where the condition holds, ``other`` elsewhere."""
    return where(condition, x, other)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return x where the condition holds, y elsewhere."""
    x, y = (Tensor(x), Tensor(y)) if not (isinstance(x, Tensor) or isinstance(y, Tensor)) else promoted(x, y)
    return apply("where", _plain(condition), x, y)


functions["where"] = overridable(where, "where")


@method()
def masked_fill(x: Tensor, mask: Any, value: float) -> Tensor:
    """Return x with ``value`` where the mask holds."""
    return apply("where", _plain(mask), value, x)


def astype(x: Any, dtype: Any) -> Any:
    """Return x in another dtype, or x itself if it has that dtype."""
    dtype = dtype_of(dtype)
    if x.dtype == dtype:
        return x
    return apply("astype", x, dtype=dtype) if dtype.kind == "f" else Tensor(as_array(x).astype(dtype))


method("astype", "type")(astype)
for _name, _dtype in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}.items():
    method(_name)(lambda x, _dtype=_dtype: astype(x, _dtype))


# -- reductions --------------------------------------------------------------------------------------------------------
def _axes(dim: Any, axis: Any) -> Any:
    dim = axis if dim is None else dim
    return tuple(dim) if isinstance(dim, list) else dim


def _reduction(name: str) -> Callable[..., Tensor]:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False) -> Tensor:
        return apply(name, x, axis=_axes(dim, axis), keepdims=keepdim or keepdims)

    call.__name__ = name
    return call


for _name in ("sum", "mean", "amax", "amin", "prod", "logsumexp"):
    method(_name)(_reduction(_name))


def _extremum(name: str, position: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None, keepdims: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return functions[f"{name}imum"](x, dim)
        if dim is None:
            return apply(f"a{name}", x, axis=axis, keepdims=keepdims)
        indices = np.expand_dims(position(x.data, dim), dim)
        values = apply("pick", x, indices=indices, axis=dim)
        return (
            _Extremum(values, Tensor(indices))
            if keepdim
            else _Extremum(functions["squeeze"](values, dim), Tensor(np.squeeze(indices, dim)))
        )

    call.__name__ = name
    return call


method("max")(_extremum("max", np.argmax))
method("min")(_extremum("min", np.argmin))


def _plain_reduction(function: Callable[..., Any]) -> Callable[..., Tensor]:
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Tensor:
        return Tensor(function(x.data, axis=_axes(dim, axis), keepdims=keepdim))

    return call


for _name in ("argmax", "argmin", "any", "all", "count_nonzero"):
    method(_name)(_plain_reduction(getattr(np, _name)))
for _name in ("isnan", "isinf", "isfinite", "logical_not", "floor", "ceil", "round"):
    method(_name)(lambda x, _name=_name: Tensor(getattr(np, _name)(x.data)))


@method()
def var(x: Tensor, dim: Any = None, keepdim: bool = False, *, correction: int = 1) -> Tensor:
    """Return the variance, over n - ``correction``."""
    centred = x - functions["mean"](x, dim, True)
    total = functions["sum"](centred * centred, dim, keepdim)
    return total / max(x.data.size // max(total.data.size, 1) - correction, 0)  # type: ignore[no-any-return]


@method()
def std(x: Tensor, dim: Any = None, keepdim: bool = False, *, correction: int = 1) -> Tensor:
    """Return the standard deviation."""
    return functions["sqrt"](var(x, dim, keepdim, correction=correction))  # type: ignore[no-any-return]


@method()
def norm(x: Tensor, p: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the p-norm."""
    if p == 2:
        return functions["sqrt"](functions["sum"](x * x, dim, keepdim))  # type: ignore[no-any-return,operator]
    total = functions["sum"](functions["abs"](x) ** p, dim, keepdim)
    return total ** (1 / p)  # type: ignore[no-any-return]


for _name in ("softmax", "log_softmax", "cumsum"):
    method(_name)(lambda x, dim=None, *, axis=None, _name=_name: apply(_name, x, axis=_axes(dim, axis)))


@method()
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> _Extremum:
    """Return (values, indices), sorted along an axis; equal elements keep their order."""
    order = np.argsort(-x.data if descending else x.data, axis=dim, kind="stable")
    return _Extremum(apply("pick", x, indices=order, axis=dim), Tensor(order))


@method()
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> _Extremum:
    """Return (values, indices) of the k largest, or smallest, in order."""
    values, indices = sort(x, dim, descending=largest)
    cut = (slice(None),) * (dim % x.ndim) + (slice(k),)
    return _Extremum(values[cut], indices[cut])
