"""Reduced messages inside a recorded reducer: one row per node, with row-wise operations only.

A recorded reducer is called once for all nodes, where it would be called once for the nodes of each degree. That is the
same as long as every row of what it computes depends on the same row of what it was given. Only operations of which
this is known are done; anything else raises :class:`Unrecordable`, and the reducer is run in degree buckets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..backend import Tensor, library_of
from ..backend import active as backend
from ..formulas import ALIASES, FORMULAS
from .deferred import Deferred, Unrecordable, deferred_in, is_deferred, real, realised


class NodeColumn(Deferred):
    """A tensor (num_nodes, *feat) of which row i belongs to node i.

    ``stored``: its memory may be a column of the graph, or a reduction to be recognised as such: do not write to it.
    """

    __slots__ = ("stored",)
    in_place = True

    def __init__(self, value: Tensor, stored: bool = False) -> None:
        self.computed, self.stored = value, stored

    def _compute(self) -> Tensor:
        assert self.computed is not None
        return self.computed

    def _tensor_type(self) -> type:
        return backend.tensor_type if backend.guest is None else library_of([real(self)]).tensor_type

    def _dispatch(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        operands = list(deferred_in((*args, *kwargs.values())))
        for operand in operands:
            if operand.takes_rows:
                return operand._dispatch(name, function, args, kwargs)
        if not all(is_rows(operand) for operand in operands):
            raise Unrecordable(f"it calls {name!r} on positions in a mailbox")
        rule = _RULES.get(name.strip("_") if name.startswith("__") else name)
        if rule is None or not rule(args, kwargs):
            raise Unrecordable(f"it calls {name!r} on reduced messages, which may mix nodes")
        stored = any(operand.stored for operand in operands) and name not in _FRESH  # type: ignore[attr-defined]
        if kwargs.get("inplace") and any(operand.stored for operand in operands):  # type: ignore[attr-defined]
            raise Unrecordable(f"it calls {name!r} in place")
        count = backend.shape(real(operands[0]))[0]
        return _wrapped(function(*realised(args), **realised(kwargs)), count, stored)

    def _attribute(self, name: str) -> Any:
        if name in ("ndim", "dtype", "device", "requires_grad"):
            return getattr(real(self), name)
        if name == "dim":
            return lambda: len(backend.shape(real(self)))
        if name == "shape":
            return _Shape(backend.shape(real(self)))
        if name == "size":
            return lambda dim=None: self.shape if dim is None else self.shape[dim]
        if name not in _RULES:
            raise Unrecordable(f"it reads {name!r} of reduced messages")

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._dispatch(name, getattr(self._tensor_type(), name), (self, *args), kwargs)

        return method


class _Shape:
    """A shape whose number of rows must not be read: it differs from bucket to bucket."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)

    def __len__(self) -> int:
        return len(self._shape)

    def __getitem__(self, key: Any) -> Any:
        if 0 in (range(len(self._shape))[key] if isinstance(key, slice) else [range(len(self._shape))[key]]):
            raise Unrecordable("it asks how many nodes there are")
        return self._shape[key]

    def __iter__(self) -> Any:
        raise Unrecordable("it asks how many nodes there are")

    def __eq__(self, other: object) -> bool:
        raise Unrecordable("it asks how many nodes there are")

    __hash__ = None  # type: ignore[assignment]


def is_rows(x: object) -> bool:
    """Whether ``x`` has a row for every node; ``isinstance`` would ask for its claimed class too."""
    return issubclass(type(x), NodeColumn)


def _wrapped(result: Any, count: int, stored: bool) -> Any:
    """Return the tensors in a result as rows."""
    if isinstance(result, tuple | list):
        return type(result)([_wrapped(x, count, stored) for x in result])
    if not backend.is_tensor(result) or backend.shape(result)[:1] != (count,):
        raise Unrecordable("it makes something else than rows of reduced messages")
    return NodeColumn(result, stored)


def _refuse(method: str) -> Callable[..., Any]:
    def call(self: NodeColumn, *args: Any, **kwargs: Any) -> Any:
        raise Unrecordable("it looks at the values of all nodes")

    call.__name__ = call.__qualname__ = method
    return call


for _name in ("bool", "float", "int", "len", "iter", "contains", "array"):
    setattr(NodeColumn, f"__{_name}__", _refuse(f"__{_name}__"))


# -- which operations work on each row alone ---------------------------------------------------------------------------
_RowRule = Callable[[Sequence[Any], Mapping[str, Any]], bool]
_RULES: dict[str, _RowRule] = {}
_NEW = f"""
    {" ".join((*FORMULAS, *ALIASES))}
    floordiv floor_divide mod remainder fmod pow float_power invert and or xor isclose
    logical_and logical_or logical_not logical_xor
    exp2 log1p sgn sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh hypot erfc erfinv lgamma digamma
    ceil floor round trunc frac nan_to_num isnan isinf isfinite logit softshrink hardshrink hardsigmoid hardswish
    threshold fmax fmin where addcdiv masked_fill zeros_like ones_like full_like empty_like clone
"""
"""Element-wise operations whose result is new memory, unless they are told to work in place."""
_PERHAPS_NEW = "pos positive dropout detach contiguous to type type_as float double half bfloat16 int long short bool"
_FRESH = frozenset((*FORMULAS, *ALIASES, *(_NEW + "linear matmul mm bmm cat concat concatenate stack").split()))


def _rule(names: str) -> Callable[[_RowRule], _RowRule]:
    def register(rule: _RowRule) -> _RowRule:
        _RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


def _axes(x: Any) -> int:
    return len(backend.shape(real(x) if is_deferred(x) else x))


@_rule(_NEW + _PERHAPS_NEW)
def _elementwise(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Rows of one number of axes, with tensors whose first axis is not laid along the nodes."""
    values = [*args, *kwargs.values()]
    axes = {_axes(x) for x in values if is_rows(x)}
    if len(axes) != 1 or any(isinstance(x, list | tuple | dict) for x in values):
        return False
    most = axes.pop()
    others = [backend.shape(x) for x in values if not is_deferred(x) and backend.is_tensor(x)]
    return all(len(shape) < most or (len(shape) == most and shape[0] == 1) for shape in others)


def _dims(value: Any, axes: int) -> bool:
    """Whether ``value`` names axes of features alone."""
    dims = list(value) if isinstance(value, list | tuple) else [value]
    whole = all(isinstance(dim, int) and not isinstance(dim, bool) for dim in dims)
    return bool(dims) and whole and all(-axes <= dim < axes and dim % axes > 0 for dim in dims)


def _axis_argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, default: Any) -> Any:
    """Return the argument for an axis."""
    if len(args) > place:
        return args[place]
    return kwargs.get("dim", kwargs.get("axis", kwargs.get("dims", kwargs.get("start_dim", default))))


def _along(place: int, default: Any = None, more: int = 0) -> _RowRule:
    """Return the rule of what works along an axis: the argument in ``place``."""

    def rule(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if not args or not is_rows(args[0]) or sum(is_rows(x) for x in (*args, *kwargs.values())) > 1:
            return False
        return _dims(_axis_argument(args, kwargs, place, default), _axes(args[0]) + more)

    return rule


_rule("""
    sum mean prod amax amin argmax argmin std var all any median mode logsumexp softmax log_softmax softmin
    cumsum cumprod unbind select narrow squeeze flatten count_nonzero nansum nanmean
""")(_along(1))
_rule("sort argsort glu")(_along(1, -1))
_rule("topk")(_along(2, -1))
_rule("norm split chunk normalize repeat_interleave roll")(_along(2))
_rule("unsqueeze")(_along(1, more=1))


@_rule("max min")
def _extremum(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    other = len(args) > 1 and backend.is_tensor(args[1])
    return _elementwise(args, kwargs) if other else _along(1)(args, kwargs)


@_rule("transpose swapaxes swapdims")
def _transpose(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return not kwargs and len(args) == 3 and _dims(args[1:], _axes(args[0]))


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers that a method is given, one after the other or as one list; none where others are there."""
    sizes = tuple(args[1]) if len(args) == 2 and isinstance(args[1], list | tuple) else tuple(args[1:])
    return sizes if is_rows(args[0]) and all(type(size) is int for size in sizes) else ()


@_rule("view reshape")
def _view(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = () if kwargs else _sizes(args)
    count = math.prod(backend.shape(real(args[0]))[1:])
    return sizes[:1] == (-1,) and min(sizes[1:], default=1) > 0 and math.prod(sizes[1:]) == count


@_rule("expand")
def _expand(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = () if kwargs else _sizes(args)
    return sizes[:1] == (-1,) and len(sizes) == _axes(args[0])


@_rule("repeat")
def _repeat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = () if kwargs else _sizes(args)
    return sizes[:1] == (1,) and len(sizes) == _axes(args[0])


@_rule("permute")
def _permute(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = () if kwargs else _sizes(args)
    return sizes[:1] == (0,) and _dims(sizes[1:], _axes(args[0]))


@_rule("flip")
def _flip(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return _dims(kwargs.get("dims") or _sizes(args), _axes(args[0]))


@_rule("getitem")
def _getitem(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    x, key = args
    if not is_rows(x) or type(key) is not tuple:
        return False
    if any(part is not None and part is not Ellipsis and type(part) not in (int, slice) for part in key):
        return False
    num_axes = sum(type(part) in (int, slice) for part in key)
    return num_axes < _axes(x) if key[0] is Ellipsis else key[0] == slice(None)


@_rule("stack")
def _stack(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return _side_by_side(args, kwargs, 1)


@_rule("cat concat concatenate")
def _joined(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return _side_by_side(args, kwargs, 0)


def _side_by_side(args: Sequence[Any], kwargs: Mapping[str, Any], more: int) -> bool:
    """Whether rows are joined along an axis of features, of which the result has ``more``."""
    parts = args[0] if args else kwargs.get("tensors")
    if not isinstance(parts, list | tuple) or not all(is_rows(x) for x in parts):
        return False
    axes = {_axes(x) for x in parts}
    return len(axes) == 1 and _dims(_axis_argument(args, kwargs, 1, 0), axes.pop() + more)


@_rule("matmul mm bmm")
def _product(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Rows by a matrix of the function's own, or matrices of rows by one another."""
    if kwargs or len(args) != 2:
        return False
    left, right = args
    if is_rows(left) and is_rows(right):
        return _axes(left) == _axes(right) >= 3
    if is_rows(left):
        return _axes(left) >= 2 and backend.is_tensor(right) and _axes(right) <= 2
    return _axes(right) >= 3 and _axes(left) == 2


@_rule("linear layer_norm rms_norm group_norm prelu")
def _layer(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Rows with parameters; the last axes may be normalised, the first not."""
    if not is_rows(args[0]) or any(is_deferred(x) for x in (*args[1:], *kwargs.values())):
        return False
    normalised = kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())
    sizes = len(normalised) if isinstance(normalised, list | tuple) else 1
    return _axes(args[0]) > sizes


@_rule("gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell")
def _cell(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    states = args[1] if isinstance(args[1], list | tuple) else [args[1]]
    rows = [args[0], *states]
    return not kwargs and all(is_rows(x) and _axes(x) == 2 for x in rows) and not any(map(is_deferred, args[2:]))
