"""Operations that move, choose or combine whole parts: products with weights, cat, stack, views, lookups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ....errors import DGLError
from ....kernels.cpu.dynamic.batching import PLACE_BITS
from ..execution.matrices import Lookup, Product
from .pointwise import as_lazy, same_session
from .signatures import DTYPES, Signature, TensorKind, copies, gathers, kind_of, shared_signature
from .tensor import LazyTensor, blank, fallback, install, install_methods

__all__ = ["axis_of", "linear"]


def _found(x: LazyTensor, others: Sequence[Any]) -> LazyTensor:
    """Return a lazy tensor among the arguments, which tells the session."""
    return x if type(x) is LazyTensor else next(other for other in others if type(other) is LazyTensor)


# -- products with a shared weight -------------------------------------------------------------------------------------
def linear(input: LazyTensor, weight: Any, bias: Tensor | None = None) -> LazyTensor:
    """Record ``input @ weight.T + bias``."""
    try:
        session = input._session
        signature, kind = session.caches[input._kind, id(weight), id(bias)]
    except (AttributeError, KeyError):
        if type(input) is not LazyTensor or type(weight) is LazyTensor or type(bias) is LazyTensor:
            return fallback.record(F.linear, (input, weight, bias), {})
        return _product(input, weight, bias, turned=False)
    made = blank(LazyTensor)
    made._session, made._ref, made._kind = session, session.count << PLACE_BITS, kind
    session.count += 1
    session.stream += (signature.number, input._ref)
    return made


def matmul(x: Any, y: Any) -> LazyTensor:
    """Record a product; where the second factor is a matrix of parameters, or the first is one and a vector follows."""
    if type(x) is LazyTensor and isinstance(y, Tensor) and y.dim() == 2 and x._kind.shape:
        return _product(x, y, None, turned=True)
    if isinstance(x, Tensor) and type(y) is LazyTensor and x.dim() == 2 and len(y._kind.shape) == 1:
        return _product(y, x, None, turned=False)
    return fallback.record(torch.matmul, (x, y), {})


def _product(x: LazyTensor, weight: Tensor, bias: Tensor | None, turned: bool) -> LazyTensor:
    kind = x._kind
    if kind.dtype not in DTYPES or not kind.numel or weight.dtype != kind.dtype:
        function = torch.matmul if turned else F.linear
        return fallback.record(function, (x, weight) if turned else (x, weight, bias), {})
    session = x._session
    key = (kind, id(weight)) if turned else (kind, id(weight), id(bias))
    known = session.caches.get(key)
    if known is None:
        features, columns = weight.shape if turned else reversed(weight.shape)
        if not kind.shape or kind.shape[-1] != features:
            raise DGLError(
                f"a product of {kind!r} with a weight for {features} features; the last axis of a sample's value must "
                "have as many elements (there is no batch axis)"
            )
        out = kind_of((*kind.shape[:-1], columns), kind.dtype)
        signature = Signature(f"linear{list(kind.shape)}->{list(out.shape)}", 1, out.nbytes)
        signature.matrices = Product(kind, out, session.own_tensor(weight), bias, turned)
        signature.key = "linear", kind, id(weight), id(bias), turned
        if len(kind.shape) == 2:
            signature.form, signature.lengths = (*signature.key[2:], kind.dtype), kind.shape[:1]
        if bias is not None:
            session.own_tensor(bias)
        known = session.caches[key] = session.own_signature(gathers(signature, [kind])), out
    return session.record(known[0], (x._ref,), known[1])


# -- side by side ------------------------------------------------------------------------------------------------------
def cat(tensors: Sequence[Any], dim: int = 0) -> LazyTensor:
    """Record ``torch.cat``; along the first axis it is a copy of each part, in one indexed pass."""
    try:
        signature, kind = _side["cat", dim, *[x._kind for x in tensors]]
    except (AttributeError, KeyError):
        return _first_cat(tensors, dim)
    return _recorded(tensors, signature, kind)


def _first_cat(tensors: Sequence[Any], dim: int) -> LazyTensor:
    like = _found(tensors[0], tensors)
    lazies = [as_lazy(x, like) for x in tensors]
    first = lazies[0]._kind
    along_first = len(first.shape) == 1 if dim == -1 else dim == 0
    alike = all(x._kind.dtype == first.dtype and x._kind.shape[1:] == first.shape[1:] for x in lazies)
    if not along_first or not alike or not first.shape or first.dtype not in DTYPES:
        return fallback.record(torch.cat, (lazies, dim), {})
    shape = (sum(x._kind.shape[0] for x in lazies), *first.shape[1:])
    return _side_by_side(("cat", dim), lazies, shape)


def stack(tensors: Sequence[Any], dim: int = 0) -> LazyTensor:
    """Record ``torch.stack``."""
    like = _found(tensors[0], tensors)
    lazies = [as_lazy(x, like) for x in tensors]
    first = lazies[0]._kind
    if dim != 0 or any(x._kind is not first for x in lazies) or first.dtype not in DTYPES:
        return fallback.record(torch.stack, (lazies, dim), {})
    return _side_by_side(("stack", dim), lazies, (len(lazies), *first.shape))


_side: dict[tuple[Any, ...], tuple[Signature, TensorKind]] = {}


def _side_by_side(name: tuple[str, int], lazies: Sequence[LazyTensor], shape: tuple[int, ...]) -> LazyTensor:
    key = (*name, *[x._kind for x in lazies])
    if key not in _side:
        kind = kind_of(shape, lazies[0]._kind.dtype)
        signature = Signature(f"{name[0]}{list(shape)}", len(lazies), kind.nbytes)
        _side[key] = shared_signature(copies(signature, [x._kind.numel for x in lazies], kind.dtype)), kind
    return _recorded(lazies, *_side[key])


def _recorded(lazies: Sequence[LazyTensor], signature: Signature, kind: TensorKind) -> LazyTensor:
    session, words = lazies[0]._session, [signature.number]
    for x in lazies:
        if x._session is not session:
            same_session(lazies[0], x)
        words.append(x._ref)
    made = blank(LazyTensor)
    made._session, made._ref, made._kind = session, session.count << PLACE_BITS, kind
    session.count += 1
    session.stream += words
    return made


# -- parts, which need no operation ------------------------------------------------------------------------------------
def _view(x: LazyTensor, shape: Sequence[int], first: int = 0) -> LazyTensor:
    return LazyTensor(x._session, x._ref + first * x._kind.item, kind_of(shape, x._kind.dtype))


def chunk(x: LazyTensor, chunks: int, dim: int = 0) -> tuple[LazyTensor, ...]:
    """Return parts of equal length, the last one shorter where that does not go on evenly."""
    return _split_up(torch.chunk, x, chunks, dim)


def split(x: LazyTensor, sizes: int | Sequence[int], dim: int = 0) -> tuple[LazyTensor, ...]:
    """Return parts of the given length or lengths."""
    return _split_up(torch.split, x, sizes if isinstance(sizes, int) else tuple(sizes), dim)


def _split_up(function: Any, x: LazyTensor, sizes: Any, dim: int) -> tuple[LazyTensor, ...]:
    key = function, x._kind, sizes, dim
    parts = _parts.get(key)
    if parts is None:
        if axis_of(x, dim) != 0:
            return fallback.record(function, (x, sizes, dim), {})
        length = x._kind.shape[0]
        parts = _parts[key] = _ranges(x._kind, max(-(-length // sizes), 1) if function is torch.chunk else sizes)
    session, ref, found = x._session, x._ref, []
    for start, kind in parts:
        made = blank(LazyTensor)
        made._session, made._ref, made._kind = session, ref + start, kind
        found.append(made)
    return tuple(found)


_parts: dict[Any, list[tuple[int, TensorKind]]] = {}
"""Place in bytes and kind of each part, by how a kind is split up."""


def _ranges(kind: TensorKind, sizes: int | Sequence[int]) -> list[tuple[int, TensorKind]]:
    length, inner = kind.shape[0], math.prod(kind.shape[1:])
    parts = [min(sizes, length - at) for at in range(0, length, sizes)] if isinstance(sizes, int) else list(sizes)
    if sum(parts) != length:
        raise DGLError(f"parts of lengths {parts} of an axis of {length} elements; they must add up to it")
    starts = [sum(parts[:i]) * inner * kind.item for i in range(len(parts))]
    return [(start, kind_of((part, *kind.shape[1:]), kind.dtype)) for start, part in zip(starts, parts, strict=True)]


def axis_of(x: LazyTensor, dim: int) -> int:
    """Return an axis counted from the front."""
    axes = len(x._kind.shape)
    if not -axes <= dim < axes:
        raise IndexError(f"axis {dim} of a lazy tensor of shape {list(x._kind.shape)} (one sample, no batch axis)")
    return dim % axes


def unbind(x: LazyTensor, dim: int = 0) -> tuple[LazyTensor, ...]:
    """Return the parts along an axis, without it."""
    if axis_of(x, dim) != 0:
        return fallback.record(torch.unbind, (x, dim), {})
    kind, session = x._kind, x._session
    row, found = kind_of(kind.shape[1:], kind.dtype), []
    for ref in range(x._ref, x._ref + kind.shape[0] * row.nbytes, row.nbytes) if row.nbytes else [x._ref] * len(x):
        made = blank(LazyTensor)
        made._session, made._ref, made._kind = session, ref, row
        found.append(made)
    return tuple(found)


def getitem(x: LazyTensor, key: Any) -> LazyTensor:
    """Return a part of the first axis (no operation), or record the indexing."""
    if type(key) is int and x._kind in _rows:
        length, kind = _rows[x._kind]
        if not -length <= key < length:
            raise IndexError(f"index {key} of an axis of {length} elements")
        return LazyTensor(x._session, x._ref + key % length * kind.nbytes, kind)
    shape = x._kind.shape
    if type(key) is int and shape:
        _rows[x._kind] = shape[0], kind_of(shape[1:], x._kind.dtype)
        return getitem(x, key)
    if type(key) is slice and shape and key.step in (None, 1):
        start, stop, _ = key.indices(shape[0])
        return _view(x, (max(stop - start, 0), *shape[1:]), start * math.prod(shape[1:]))
    if type(key) is LazyTensor or isinstance(key, Tensor):
        return _lookup(x, key, torch.Tensor.__getitem__)
    return fallback.record(torch.Tensor.__getitem__, (x, key), {})


_rows: dict[TensorKind, tuple[int, TensorKind]] = {}
"""Length of the first axis and kind of what lies along it."""


def _reshaped(function: Callable[..., Tensor]) -> Callable[..., LazyTensor]:
    """Return what records a function that gives the same elements another shape, which is no operation."""
    kinds: dict[Any, TensorKind] = {}

    def call(x: LazyTensor, *args: Any, **named: Any) -> LazyTensor:
        key = x._kind, *[tuple(arg) if isinstance(arg, list) else arg for arg in args], *named.items()
        kind = kinds.get(key)
        if kind is None:
            if len(kinds) >= _MOST_KINDS:
                kinds.clear()
            try:
                found = function(torch.empty(x._kind.shape, dtype=x._kind.dtype, device="meta"), *args, **named)
            except RuntimeError as error:
                raise DGLError(
                    f"{x._kind.numel} elements of shape {list(x._kind.shape)} do not fill what {function.__name__} was "
                    f"asked for: {str(error).splitlines()[0]}"
                ) from error
            kind = kinds[key] = kind_of(found.shape, found.dtype)
        return LazyTensor(x._session, x._ref, kind)

    return call


_MOST_KINDS = 4096


def unchanged(x: LazyTensor, *args: Any, **kwargs: Any) -> LazyTensor:
    """Return it as it is: lazy tensors do not change, and lie contiguously."""
    return x


# -- lookups -----------------------------------------------------------------------------------------------------------
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> LazyTensor:
    """Return a row of a table: the place where it lies, no operation. Its gradient is added there directly."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise DGLError(
            "an embedding with max_norm, scale_grad_by_freq or sparse is not recorded; look the rows up for all "
            "samples together, rows = dynamic.lazy(embedding(ids)), and use rows[i]"
        )
    if type(input) is not LazyTensor or type(weight) is LazyTensor:
        return fallback.record(F.embedding, (input, weight), {})
    row = None if input._kind.shape else input._session.integer_at(input._ref)
    if row is None and len(input._kind.shape) == 1:
        return _lookups(input, weight, padding_idx)
    if row is None:
        return fallback.record(F.embedding, (input, weight), {})
    if not 0 <= row < weight.shape[0]:
        raise IndexError(f"row {row} of an embedding of {weight.shape[0]} rows")
    table = input._session.give(weight)
    if row == padding_idx:
        table = input._session.give(input._session.cached(("padding", id(weight)), weight.detach))
    return _view(table, weight.shape[1:], row * weight.shape[1])


_UNSIGNED = {4: np.uint32, 8: np.uint64}


def _lookups(input: LazyTensor, weight: Tensor, padding_idx: int | None) -> LazyTensor:
    """Record the rows of a table that a vector of numbers tells, all at once."""
    session, kind = input._session, kind_of((*input._kind.shape, *weight.shape[1:]), weight.dtype)
    known = session.given_at.get(input._ref >> PLACE_BITS)
    if known is not None and known.numel():
        numbers = known.numpy()
        if numbers.view(_UNSIGNED[numbers.dtype.itemsize]).max() >= len(weight):  # a negative one is very large
            raise IndexError(
                f"rows {numbers.min()} to {numbers.max()} of an embedding of {len(weight)} rows; numbers are from 0 to "
                f"{len(weight) - 1}"
            )
    key = "lookups", input._kind, id(weight), padding_idx
    signature = session.caches.get(key)
    if signature is None:
        signature = gathers(Signature(f"embedding{list(kind.shape)}", 1, kind.nbytes), [input._kind])
        signature.matrices = Lookup(input._kind, kind, session.own_tensor(weight), padding_idx)
        signature.key, signature.lengths = key, input._kind.shape
        signature.form = "lookups", input._kind.dtype, id(weight), padding_idx
        session.caches[key] = session.own_signature(signature)
    return session.record(signature, (input._ref,), kind)


def _lookup(x: LazyTensor, index: Any, function: Callable[..., Any]) -> LazyTensor:
    position = None
    if type(index) is LazyTensor and not index._kind.shape:
        position = index._session.integer_at(index._ref)
    elif isinstance(index, Tensor) and index.dim() == 0 and not index.dtype.is_floating_point:
        position = int(index)
    return getitem(x, position) if position is not None else fallback.record(function, (x, index), {})


_SHAPES = ("reshape", "view", "unsqueeze", "squeeze", "flatten", "unflatten")


def _install() -> None:
    named: dict[str, Callable[..., Any]] = {
        **{f.__name__: f for f in (linear, matmul, cat, stack, chunk, split, unbind, embedding)},
        **dict.fromkeys(("contiguous", "clone"), unchanged),
        **{name: _reshaped(getattr(Tensor, name)) for name in _SHAPES},
        "mm": matmul,
        "mv": matmul,
        "concat": cat,
        "concatenate": cat,
        "__getitem__": getitem,
        "__matmul__": matmul,
    }
    install(named)
    methods = ("chunk", "split", "unbind", "matmul", "contiguous", "clone", *_SHAPES)
    install_methods({name: named[name] for name in methods})
    operators = {"getitem": getitem, "matmul": matmul, "rmatmul": lambda self, other: matmul(other, self)}
    for name, operator in operators.items():
        setattr(LazyTensor, f"__{name}__", operator)


_install()
