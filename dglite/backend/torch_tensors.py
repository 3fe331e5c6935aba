"""Tensors of PyTorch: facts, creation, rows and shapes, reductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from ..errors import DGLError
from . import torch_copies, torch_memory, torch_segments, torch_structure
from .base import Backend, native
from .memory import LARGE
from .torch_plain import (
    PLAIN,
    address,
    has_gradient_inside,
    is_recorded,
    is_transformed,
    is_watched,
    needs_operator,
    readable,
    refuse,
    refuse_class,
)

DTYPE_NAMES = {
    getattr(torch, name): name
    for name in ("float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split())
}


class _Dtypes(dict[str, torch.dtype]):
    """torch's dtypes by name."""

    def __missing__(self, name: str) -> torch.dtype:
        raise DGLError(f"got a tensor of dtype {name}; convert it first, e.g. x.dequantize() or x.float()")


DTYPES = _Dtypes({name: dtype for dtype, name in DTYPE_NAMES.items()})
_CPU = torch.device("cpu")
_DENSE = torch.strided
_SPLIT = 1 << 14
"""Half of the minimum number of values for which torch uses several threads."""


def _current_stream(device: torch.device) -> int:
    """Return the handle of torch's current stream; asked for in every call, so without an object of it."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch's own compiled programs call
    if raw is None:
        return int(torch.cuda.current_stream(device).cuda_stream)
    return int(raw(torch.cuda.current_device() if device.index is None else device.index))


class TorchTensors(Backend):
    """What a backend does with tensors alone; see :class:`~.torch.TorchBackend`."""

    def is_tensor(self, x: object) -> bool:
        return isinstance(x, torch.Tensor)

    def asarray(self, x: object, dtype: str | None = None, device: object = None) -> torch.Tensor:
        if isinstance(x, np.ndarray):
            x = native(x)
            x = x if x.flags.writeable else x.copy()  # a write to the tensor would end the process
        return torch.as_tensor(x, dtype=None if dtype is None else DTYPES[dtype], device=device)  # type: ignore[arg-type]

    def to_numpy(self, x: torch.Tensor) -> np.ndarray:
        if is_watched() or type(x) not in PLAIN or x.is_meta:
            x = readable(x)
            with torch_structure.outside_of_programs():
                return _numpy_of(x)
        if not x.is_cpu:
            torch_copies.report_wait(x.device, x.nbytes)
        return _numpy_of(x)

    def from_numpy(self, array: np.ndarray, device: object = None) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if device is None or device == _CPU else torch_copies.to_device(tensor, device, True)

    def map_file(self, path: Any, size: int) -> np.ndarray:
        # Unlike a map of NumPy's, it keeps no file open: there may be one in each of thousands of data sets' files.
        storage: Any = torch.UntypedStorage.from_file(str(path), False, size)
        return torch.empty(0, dtype=torch.uint8).set_(storage).numpy()

    def is_layer(self, x: object) -> bool:
        return isinstance(x, torch.nn.Module)

    def layers_in(self, layer: torch.nn.Module) -> Iterable[torch.nn.Module]:
        return layer.modules()

    def shape(self, x: torch.Tensor) -> tuple[int, ...]:
        return x.shape

    def dtype(self, x: torch.Tensor) -> str:
        try:
            return DTYPE_NAMES[x.dtype]
        except KeyError:  # one that no kernel takes, such as float8: errors name it
            return str(x.dtype)

    def device(self, x: torch.Tensor) -> torch.device:
        return x.device

    def cpu(self) -> torch.device:
        return _CPU

    def on_cpu(self, x: torch.Tensor) -> bool:
        return x.is_cpu

    def traits(self, x: object) -> tuple[tuple[int, ...], str, torch.device] | None:
        if not isinstance(x, torch.Tensor):
            return None
        try:
            shape = x.shape
        except RuntimeError:
            refuse(x)
        return shape, DTYPE_NAMES.get(x.dtype) or str(x.dtype), x.device

    def requires_grad(self, *xs: torch.Tensor) -> bool:
        for x in xs:
            if x.requires_grad:
                return torch.is_grad_enabled()
        return is_transformed() and torch.is_grad_enabled() and any(map(has_gradient_inside, xs))

    def needs_grad(self, xs: Sequence[torch.Tensor]) -> tuple[bool, ...]:
        recorded = torch.is_grad_enabled()
        return tuple([recorded and x.requires_grad for x in xs])

    def signature(self, xs: Sequence[torch.Tensor | None]) -> tuple[Any, ...] | None:
        recorded, kind, parts = torch.is_grad_enabled(), "cpu", list[Any]()
        for x in xs:
            if x is None:
                parts += (None,)
                continue
            if type(x) not in PLAIN or x.layout is not _DENSE or x.is_meta:
                return None
            parts += (x.shape, x.dtype, recorded and x.requires_grad)
            if not x.is_cpu:
                device = x.device
                parts.append(device)
                kind = device.type
        return None if torch.is_autocast_enabled(kind) or is_watched() else tuple(parts)

    def plain(self, xs: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], list[int]] | None:
        signature: list[Any] = []
        addresses, device, recorded = [], None, torch.is_grad_enabled()
        # Inside a transform, even the memory for a result is wrapped.
        if needs_operator(()):
            return None
        try:
            for x in xs:
                if type(x) not in PLAIN or not x.is_contiguous() or x.is_neg():
                    return None
                address = x.data_ptr()
                if not address:  # no elements, or zeros without memory
                    return None
                signature += (x.shape, x.dtype)
                if recorded and x.requires_grad:
                    signature.append(True)
                addresses.append(address)
                if not x.is_cpu:
                    device = x.device
                    signature.append(device)
        except RuntimeError:  # a sparse layout, or a transform has wrapped it
            return None
        if device is not None:
            signature.append(self.stream(device))
        return tuple(signature), addresses

    def stream(self, device: Any) -> int:
        device = device if type(device) is torch.device else torch.device(device)
        return _current_stream(device) if device.type == "cuda" else 0

    def version(self, x: torch.Tensor) -> int | None:
        return None if x.is_inference() else x._version

    address = staticmethod(address)

    def contiguous(self, x: torch.Tensor) -> torch.Tensor:
        # The imaginary part of a conjugate is stored with the other sign and a bit that says so.
        try:
            return x.contiguous() if not x.is_neg() else x.resolve_neg().contiguous()
        except RuntimeError:
            if x.layout is _DENSE:
                raise
            refuse(x)

    def dense(self, xs: Sequence[torch.Tensor | None]) -> tuple[list[Any], list[int]]:
        dense, addresses = list[Any](), list[int]()
        for x in xs:
            if x is not None:
                x = self.contiguous(x)
            dense.append(x)
            addresses.append(0 if x is None else address(x))
        return dense, addresses

    def copy(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def copy_numbers(self, source: np.ndarray, target: np.ndarray) -> None:
        if not torch_memory.is_large(source.size) or not source.flags.writeable or is_watched():
            target[...] = source
        else:
            torch.from_numpy(target).copy_(torch.from_numpy(source))

    def is_sparse(self, x: torch.Tensor) -> bool:
        return x.layout is not _DENSE

    def sparse_parts(self, x: torch.Tensor) -> tuple[str, np.ndarray, np.ndarray, torch.Tensor]:
        if x.ndim != 2 or x.dense_dim():
            raise DGLError(f"sparse features have shape {tuple(x.shape)}; expected (rows, columns) of numbers")
        if x.layout is torch.sparse_csr:
            return "csr", x.crow_indices().numpy(), x.col_indices().numpy(), x.values()
        if x.layout is not torch.sparse_coo:
            raise DGLError(
                f"sparse features have layout {x.layout}; expected torch.sparse_csr or torch.sparse_coo: convert them "
                "by x.to_sparse_csr()"
            )
        stored = x.coalesce() if x.requires_grad else x  # torch derives values of coalesced tensors only
        rows, columns = stored._indices().numpy()
        return "coo", rows, columns, stored.values() if x.requires_grad else stored._values()

    def empty(self, shape: Sequence[int], dtype: str, device: Any) -> torch.Tensor:
        if torch_memory.is_large(prod(shape)):
            return torch_memory.empty(shape, DTYPES[dtype], device)
        return torch.empty(shape, dtype=DTYPES[dtype], device=device)

    def new_empty(self, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        if type(x) in torch_memory.PLAIN and prod(shape) >= LARGE:
            return torch_memory.empty(shape, x.dtype, x.device)
        return x.new_empty(*shape)  # one by one: torch takes half a microsecond longer to read a tuple

    def full(self, shape: Sequence[int], value: float, dtype: str, device: Any) -> torch.Tensor:
        if torch_memory.is_large(prod(shape)):
            return torch_memory.empty(shape, DTYPES[dtype], device).fill_(value)
        return torch.full(tuple(shape), value, dtype=DTYPES[dtype], device=device)

    def sparse_coo(self, indices: np.ndarray, values: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        index = torch.from_numpy(indices.astype(np.int64)).to(values.device)
        return torch.sparse_coo_tensor(index, values, shape, check_invariants=False)

    def to_device(self, x: torch.Tensor, device: Any, non_blocking: bool = False) -> torch.Tensor:
        return x if x.device == device else torch_copies.to_device(x, device, non_blocking)

    def astype(self, x: torch.Tensor, dtype: str) -> torch.Tensor:
        return x if x.dtype is DTYPES[dtype] else x.to(DTYPES[dtype])

    def take(self, x: torch.Tensor, rows: np.ndarray | torch.Tensor) -> torch.Tensor:
        index = _index(rows, x.device)
        try:
            return x.index_select(0, _in_batches(index))
        except RuntimeError as error:  # DTensors take rows by DTensors
            refuse_class((x,), "a gather of rows", error)
            raise

    def put(self, x: torch.Tensor, rows: np.ndarray | torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_copy(0, _index(rows, x.device), values)

    def put_sum(self, x: torch.Tensor, index: torch.Tensor, count: int) -> torch.Tensor:
        out, index = x.new_zeros(count, *x.shape[1:]), _in_batches(index)
        return out.index_add(0, index, x) if index.dim() == 1 else out.scatter_add(0, index, x)

    def put_extreme(self, x: torch.Tensor, index: torch.Tensor, count: int, largest: bool, fill: Any) -> torch.Tensor:
        index = index.long().reshape(-1, *(1,) * (x.dim() - 1)).expand(x.shape)
        out = x.new_zeros(count, *x.shape[1:]) + fill
        return out.scatter_reduce(0, index, x, "amax" if largest else "amin", include_self=False)

    def pick(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.gather(0, index)

    def reshape(self, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        shape = tuple(shape)
        # A view of the same shape would be recorded; but a compiler would compare sizes that it does not know.
        if type(x) in PLAIN and not is_recorded() and x.shape == shape:
            return x
        return x.reshape(shape)

    def broadcast_to(self, x: torch.Tensor, feat: Sequence[int]) -> torch.Tensor:
        rows, *x_feat = x.shape
        return x.reshape(rows, *(1,) * (len(feat) - len(x_feat)), *x_feat).expand(rows, *feat)

    def concat(self, xs: Sequence[torch.Tensor], axis: int = 0) -> torch.Tensor:
        return torch.cat(tuple(xs), dim=axis)

    def stack(self, xs: Sequence[torch.Tensor], axis: int = 0) -> torch.Tensor:
        return torch.stack(tuple(xs), dim=axis)

    def split(self, x: torch.Tensor, sizes: Sequence[int]) -> Sequence[torch.Tensor]:
        return x.split_with_sizes(list(sizes))

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight, bias)

    def swap_last(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(-1, -2)

    segment_mm = staticmethod(torch_segments.segment_mm)
    segment_outer = staticmethod(torch_segments.segment_outer)

    def dropout_mask(self, x: torch.Tensor, p: float) -> torch.Tensor:
        # torch's own dropout draws Bernoulli numbers, which on a CPU takes three times as long as all of this.
        uniform = torch.rand(x.shape, device=x.device)  # float32: bfloat16 would round the probability
        return uniform.ge_(p).to(x.dtype).mul_(1 / (1 - p) if p < 1 else 0.0)

    def sum(self, x: torch.Tensor, axis: int | Sequence[int], keepdims: bool = False) -> torch.Tensor:
        if x.is_cpu and not is_recorded() and type(x.numel()) is int and x.numel() >= _SPLIT:
            axes = {i % x.dim() for i in ((axis,) if isinstance(axis, int) else axis)}
            if all(size == 1 for i, size in enumerate(x.shape) if i not in axes):
                # torch cuts such a sum by its number of threads, and no other: the last bits would depend on it.
                whole = x.numel() // _SPLIT * _SPLIT
                flat = x.reshape(-1)
                total = self.sum(torch.cat([flat[:whole].view(-1, _SPLIT).sum(1), flat[whole:]]), 0)
                return total.reshape([1] * x.dim() if keepdims else [n for i, n in enumerate(x.shape) if i not in axes])
        return x.sum(dim=axis, keepdim=keepdims)  # type: ignore[arg-type]

    def max(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return x.max(dim=axis).values

    def min(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return x.min(dim=axis).values

    def prod(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return x.prod(dim=axis)


def _numpy_of(x: torch.Tensor) -> np.ndarray:
    try:
        return (x.float() if x.dtype is torch.bfloat16 else x).numpy(force=True)
    except (TypeError, NotImplementedError) as error:
        raise DGLError(
            f"expected an ordinary dense tensor on a device with memory, got layout {x.layout}, dtype {x.dtype} on "
            f"{x.device}; x.to_dense() of a sparse one and x.dequantize() of a quantized one return it"
        ) from error


def _in_batches(index: torch.Tensor) -> torch.Tensor:
    """Return ids as torch before 2.7 needs them in ``vmap``, whose gathers, gradients' too, are of int64 alone."""
    return index.long() if index.dtype is torch.int32 and is_transformed() else index


def _index(rows: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    if isinstance(rows, torch.Tensor):
        return rows
    return torch.from_numpy(rows) if device == _CPU else torch_copies.to_device(torch.from_numpy(rows), device, True)
