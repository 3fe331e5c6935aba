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
from ....kernels.cpu.dynamic import recording
from ....kernels.cpu.dynamic.batching import PLACE_BITS
from ...program.views import start_in_row
from ..execution.matrices import EmbeddingLookup, WeightProduct
from .kinds import DTYPES, TensorKind, kind_of, of_row
from .pointwise import as_lazy, refs_of
from .signatures import Signature, copies
from .tensor import LazyTensor, UntraceableBody, install, later, recorder_by

_VIEWS = (
    "reshape",
    "view",
    "unsqueeze",
    "flatten",
    "unflatten",
    "narrow",
    "select",
    "chunk",
    "split",
    "unbind",
)
"""Functions that choose parts of a value, or give it another shape."""


# -- products with a shared weight -------------------------------------------------------------------------------------
def _first_linear(input: Any, weight: Any, bias: Any = None) -> LazyTensor:
    if type(input) is not LazyTensor or type(weight) is LazyTensor or type(bias) is LazyTensor:
        return later.record(F.linear, (input, weight, bias), {})
    return _product(input, weight, bias, turned=False)


linear = recorder_by(recording.by_weights, None, _first_linear)
"""``linear(input, weight, bias=None)`` records ``input @ weight.T + bias``."""


def matmul(x: Any, y: Any) -> LazyTensor:
    """Record a product; where the second factor is a matrix of parameters, or the first is one and a vector follows."""
    if type(x) is LazyTensor and isinstance(y, Tensor) and y.dim() == 2 and x._kind.shape:
        return _product(x, y, None, turned=True)
    if isinstance(x, Tensor) and type(y) is LazyTensor and x.dim() == 2 and len(y._kind.shape) == 1:
        return _product(y, x, None, turned=False)
    return later.record(torch.matmul, (x, y), {})


def _product(x: LazyTensor, weight: Tensor, bias: Tensor | None, turned: bool) -> LazyTensor:
    kind, tensors = x._kind, [weight] if bias is None else [weight, bias]
    if any(tensor.dtype != kind.dtype for tensor in tensors):
        dtypes = " and a bias of ".join(str(tensor.dtype) for tensor in tensors)
        raise DGLError(
            f"a product of {kind!r} with a weight of {dtypes}: these must be of one dtype, e.g. model.float()"
        )
    if kind.dtype not in DTYPES or not kind.numel or (bias is not None and bias.shape != weight.shape[:1]):
        function = torch.matmul if turned else F.linear
        return later.record(function, (x, weight) if turned else (x, weight, bias), {})
    session = x._session
    row, ids = of_row(kind), (id(weight),) if turned else (id(weight), id(bias))
    entry = session.caches.get((row, *ids))
    if entry is None:
        features, columns = weight.shape if turned else reversed(weight.shape)
        if not kind.shape or kind.shape[-1] != features:
            raise DGLError(
                f"a product of {kind!r} with a weight for {features} features; the last axis of a sample's value must "
                "have as many elements (there is no batch axis)"
            )
        out = kind_of((*row.shape[:-1], columns), kind.dtype)
        product = WeightProduct(row, out, weight, bias, turned)
        signature = session.own_signature(f"linear{list(row.shape)}->{list(out.shape)}", product)
        signature.key = "linear", row, id(weight), id(bias), turned
        if len(row.shape) == 2:
            signature.form, signature.lengths = (*signature.key[2:], kind.dtype), row.shape[:1]
        entry = session.caches[(row, *ids)] = signature, columns
    signature, columns = entry
    out = kind_of((*kind.shape[:-1], columns), kind.dtype)
    if not turned:
        by_bias = session.products.setdefault(kind, {}).setdefault(id(weight), {})
        by_bias[id(bias)] = signature.number, out
    return session.record(signature, (x._ref,), out)


# -- side by side ------------------------------------------------------------------------------------------------------
def _first_cat(tensors: Sequence[Any], dim: int = 0) -> LazyTensor:
    like = next(x for x in tensors if type(x) is LazyTensor)
    lazies = [as_lazy(x, like) for x in tensors]
    kinds = [x._kind for x in lazies]
    shape, dtype, axis = kinds[0].shape, kinds[0].dtype, axis_of(lazies[0], dim)
    others = {(kind.dtype, len(kind.shape), kind.shape[:axis], kind.shape[axis + 1 :]) for kind in kinds}
    if len(others) > 1 or math.prod(shape[:axis]) != 1 or dtype not in DTYPES:
        return later.record(torch.cat, (lazies, dim), {})
    key = dim, *kinds
    if key not in _side:
        whole = kind_of((*shape[:axis], sum(kind.shape[axis] for kind in kinds), *shape[axis + 1 :]), dtype)
        _side[key] = copies(f"cat{list(whole.shape)}", [kind.numel for kind in kinds], dtype), whole
    signature, whole = _side[key]
    if len(kinds) <= _MOST_FOUND:
        table: Any = _side_by_kinds
        for part in (len(kinds), dim, *kinds[:-1]):
            table = table.setdefault(part, {})
        table[kinds[-1]] = signature.number, whole
    return lazies[0]._session.record(signature, refs_of(lazies), whole)


_side: dict[tuple[Any, ...], tuple[Signature, TensorKind]] = {}
_side_by_kinds: dict[int, Any] = {}
"""The same by the number of tensors, axis, and kinds, one after the other, for few tensors."""
_MOST_FOUND = 8

cat = recorder_by(recording.by_kinds_of_list, _side_by_kinds, _first_cat, 0)
"""``cat(tensors, dim=0)`` records ``torch.cat``; parts that follow each other are copied in one indexed pass."""


def stack(tensors: Sequence[Any], dim: int = 0) -> LazyTensor:
    """Record ``torch.stack``: one more axis, which is no operation, and ``cat`` along it."""
    like = next(x for x in tensors if type(x) is LazyTensor)
    return cat([as_lazy(x, like).unsqueeze(dim) for x in tensors], dim)


# -- parts, which need no operation ------------------------------------------------------------------------------------
def axis_of(x: LazyTensor, dim: int) -> int:
    """Return an axis counted from the front."""
    axes = len(x._kind.shape)
    if not -axes <= dim < axes:
        raise IndexError(f"axis {dim} of a lazy tensor of shape {list(x._kind.shape)} (one sample, no batch axis)")
    return dim % axes


def _hashable(x: Any) -> Any:
    kind = type(x)
    if kind is slice:
        return slice, x.start, x.stop, x.step
    return tuple([_hashable(item) for item in x]) if kind is tuple or kind is list else x


def _viewed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what records a function that chooses parts of a value, or gives it another shape.

    Where a part is elements that follow each other it is a place in the value, and no operation.
    """
    parts_by_kind: dict[TensorKind, dict[tuple[Any, ...], Any]] = {}
    unusual: dict[Any, Any] = {}
    """What has other options, or is no place in the value: None."""

    def first(x: LazyTensor, *args: Any, **named: Any) -> Any:
        kind, key = x._kind, tuple([_hashable(arg) for arg in args])
        options = kind, key, *named.items()
        entry = parts_by_kind.get(kind, {}).get(key) if not named else None
        if entry is None and options not in unusual:
            entry = _parts_of(function, kind, args, named)
            if entry is None or named:
                _keep(unusual, options, entry)
            else:
                _keep(parts_by_kind.setdefault(kind, {}), key, entry)
        entry = unusual[options] if entry is None else entry
        if entry is None:
            return later.record(function, (x, *args), named)
        several, *places = entry
        pairs = zip(places[::2], places[1::2], strict=True)
        lazies = tuple([LazyTensor(x._session, x._ref + start, of_part) for start, of_part in pairs])
        return lazies if several else lazies[0]

    return recorder_by(recording.by_options, parts_by_kind, first)  # type: ignore[no-any-return]


def _keep(table: dict[Any, Any], key: Any, entry: Any) -> None:
    if len(table) >= _MOST_KNOWN:
        table.clear()
    table[key] = entry


_MOST_KNOWN = 4096


def _parts_of(
    function: Callable[..., Any], kind: TensorKind, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Return whether a function gives several parts, then place in bytes and kind of each; None if they have none."""
    whole = torch.empty(kind.shape, dtype=kind.dtype, device="meta")
    call = f"{function.__name__} of one sample's {kind!r}, which has no batch axis"
    try:
        returned = function(whole, *args, **named)
    except IndexError as error:
        raise IndexError(f"{call}: {error}") from error
    except (RuntimeError, TypeError) as error:
        raise DGLError(f"{call}: {str(error).splitlines()[0]}") from error
    parts = [returned] if isinstance(returned, Tensor) else list(returned)
    places: list[Any] = [int(not isinstance(returned, Tensor))]
    for part in parts:
        start = start_in_row(whole.unsqueeze(0), part.unsqueeze(0))
        if start is None:
            return None
        places += [start * kind.item, kind_of(part.shape, part.dtype)]
    return tuple(places)


def getitem(x: Any, key: Any) -> LazyTensor:
    """Return a part of the first axis (no operation), or record the indexing, of a tensor by a lazy index also."""
    if type(x) is not LazyTensor:
        return _lookup(x, key) if type(key) is LazyTensor else later.record(Tensor.__getitem__, (x, key), {})
    if type(key) is int and x._kind in _rows:
        length, kind = _rows[x._kind]
        if not -length <= key < length:
            raise IndexError(f"index {key} of an axis of {length} elements")
        return LazyTensor(x._session, x._ref + key % length * kind.nbytes, kind)
    shape = x._kind.shape
    if type(key) is int and shape:
        _rows[x._kind] = shape[0], kind_of(shape[1:], x._kind.dtype)
        return getitem(x, key)
    if type(key) is LazyTensor or isinstance(key, Tensor):
        return _lookup(x, key)
    if any(isinstance(part, LazyTensor | Tensor) for part in (key if isinstance(key, tuple) else ())):
        return later.record(Tensor.__getitem__, (x, key), {})
    return _part(x, key)  # type: ignore[no-any-return]


_part = _viewed(Tensor.__getitem__)
_rows: dict[TensorKind, tuple[int, TensorKind]] = {}
"""Length of the first axis and kind of what lies along it."""


def squeeze(x: LazyTensor, *dims: Any, **named: Any) -> Any:
    """Return it without axes of length 1; the samples of a cell's body, how many there are, are no such axis."""
    if x._session.tracing and not dims and not named:
        raise UntraceableBody("the body squeezes all axes")
    return _squeezed(x, *dims, **named)


_squeezed = _viewed(Tensor.squeeze)


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
    is_lookup = type(input) is LazyTensor and type(weight) is not LazyTensor
    if is_lookup and len(input._kind.shape) == 1:
        return _lookups(input, weight, padding_idx)
    row = input._session.integer_at(input._ref) if is_lookup and not input._kind.shape else None
    if row is None:
        return later.record(F.embedding, (input, weight), {})
    if not 0 <= row < weight.shape[0]:
        raise IndexError(f"row {row} of an embedding of {weight.shape[0]} rows")
    table = input._session.give(weight)
    if row == padding_idx:
        table = input._session.give(input._session.caches.setdefault(("padding", id(weight)), weight.detach()))
    return getitem(table, row)


_UNSIGNED = {4: np.uint32, 8: np.uint64}


def _lookups(input: LazyTensor, weight: Tensor, padding_idx: int | None) -> LazyTensor:
    """Record the rows of a table that a vector of numbers tells, all at once."""
    session, kind = input._session, kind_of((*input._kind.shape, *weight.shape[1:]), weight.dtype)
    external = session.given_at.get(input._ref >> PLACE_BITS)
    if external is not None and external.numel():
        numbers = external.numpy()
        if numbers.view(_UNSIGNED[numbers.dtype.itemsize]).max() >= len(weight):  # a negative one is very large
            raise IndexError(
                f"rows {numbers.min()} to {numbers.max()} of an embedding of {len(weight)} rows; numbers are from 0 to "
                f"{len(weight) - 1}"
            )
    key = "lookups", input._kind, id(weight), padding_idx
    signature = session.caches.get(key)
    if signature is None:
        lookup = EmbeddingLookup(input._kind, kind, weight, padding_idx)
        signature = session.caches[key] = session.own_signature(f"embedding{list(kind.shape)}", lookup)
        signature.key, signature.lengths = key, input._kind.shape
        signature.form = "lookups", input._kind.dtype, id(weight), padding_idx
    return session.record(signature, (input._ref,), kind)


def _lookup(x: Any, index: Any) -> LazyTensor:
    """Record the indexing by a tensor; one number that is known already is a place."""
    is_number = not index.dim() and not index.dtype.is_floating_point and index.dtype is not torch.bool
    position = index._session.integer_at(index._ref) if is_number and type(index) is LazyTensor else None
    if is_number and isinstance(index, Tensor):
        position = int(index)
    if position is not None:
        return getitem(x if type(x) is LazyTensor else index._session.give(x), position)
    if is_number:
        return torch.index_select(x, 0, index.reshape(1))[0]  # type: ignore[return-value]
    return later.record(Tensor.__getitem__, (x, index), {})  # type: ignore[no-any-return]


install(
    {
        **{f.__name__: f for f in (matmul, stack, squeeze, embedding)},
        "linear": linear,
        **dict.fromkeys(("contiguous", "clone"), unchanged),
        **{name: _viewed(getattr(Tensor, name)) for name in _VIEWS},
        **dict.fromkeys(("mm", "mv", "__matmul__"), matmul),
        **dict.fromkeys(("cat", "concat", "concatenate"), cat),
        "__getitem__": getitem,
        "__rmatmul__": lambda self, other: matmul(other, self),
    }
)
