"""What the NumPy and CuPy backends share: tensors of dglite's autograd tape over their arrays."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from ..config import num_cores
from ..errors import DGLError
from ..opspec import OPERATORS
from . import toolkit
from .autograd import Tensor, apply, as_array, backward, record
from .base import Backend
from .grad_mode import enable_grad, is_grad_enabled, no_grad
from .library import HOST, Device, library
from .memory import new_array
from .operations import dtype_of, functions
from .protocols import DifferentiableOp

_HAS_KERNELS = "array libraries run kernels; operations are not composed of theirs"


class ArrayBackend(Backend):
    """Tensors are ``dglite.backend.autograd.Tensor``. Arrays that are given become tensors without gradient."""

    tensor_type = Tensor
    device_type = Device
    framework = toolkit
    modules = ("numpy", "cupy", "torch", "dglite.backend")
    functions: Mapping[str, Callable[..., Tensor]] = {
        name: functions[name] for name, entry in OPERATORS.items() if entry.torch is not None
    }

    def is_tensor(self, x: object) -> bool:
        return isinstance(x, Tensor)

    def asarray(self, x: object, dtype: str | None = None, device: object = None) -> Tensor:
        tensor = x if isinstance(x, Tensor) else Tensor(as_array(x))
        if tensor.dtype.kind not in "biufc":
            raise TypeError(
                f"got {type(x).__name__}, of which NumPy makes {tensor.dtype}; expected numbers: encode "
                "text, for instance by numpy.unique(values, return_inverse=True)[1]"
            )
        return tensor if dtype is None else self.astype(tensor, dtype)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.data if isinstance(x.data, np.ndarray) else x.data.get()

    def from_numpy(self, array: np.ndarray, device: object = None) -> Tensor:
        return Tensor(library.xp.asarray(array))

    def is_layer(self, x: object) -> bool:
        return isinstance(x, toolkit.nn.Module)

    def layers_in(self, layer: Any) -> Iterable[Any]:
        return layer.modules()  # type: ignore[no-any-return]

    def sparse_parts(self, x: Tensor) -> tuple[str, np.ndarray, np.ndarray, Tensor]:
        raise DGLError("tensors of this backend are dense; sparse matrices are SciPy's")

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return x.shape  # not the array's: what stands for a tensor knows its shape without computing it

    def dtype(self, x: Tensor) -> str:
        return _name(x.dtype)

    def device(self, x: Tensor) -> Any:
        return x.device

    def cpu(self) -> Any:
        return HOST

    def on_cpu(self, x: Tensor) -> bool:
        return x.device is HOST

    def traits(self, x: object) -> tuple[tuple[int, ...], str, Device] | None:
        return (x.shape, _name(x.dtype), x.device) if isinstance(x, Tensor) else None

    def requires_grad(self, *xs: Tensor) -> bool:
        return is_grad_enabled() and any(x.requires_grad for x in xs)

    def version(self, x: Tensor) -> int | None:
        return x._writes[0]

    def contiguous(self, x: Tensor) -> Tensor:
        return x if x.data.flags.c_contiguous else apply("clone", x)

    def copy(self, x: Tensor) -> Tensor:
        return apply("clone", x)

    def empty(self, shape: Sequence[int], dtype: str, device: Any) -> Tensor:
        return Tensor(_memory(tuple(shape), dtype_of(dtype)))

    def new_empty(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return Tensor(_memory(tuple(shape), x.dtype))

    def full(self, shape: Sequence[int], value: float, dtype: str, device: Any) -> Tensor:
        array = _memory(tuple(shape), dtype_of(dtype))
        array[...] = value
        return Tensor(array)

    def sparse_coo(self, indices: np.ndarray, values: Tensor, shape: tuple[int, int]) -> Any:
        return scipy.sparse.coo_array((self.to_numpy(values), tuple(indices)), shape)

    def to_device(self, x: Tensor, device: Any, non_blocking: bool = False) -> Tensor:
        return functions["to"](x, str(device))  # type: ignore[no-any-return]

    def astype(self, x: Tensor, dtype: str) -> Tensor:
        return functions["astype"](x, dtype)  # type: ignore[no-any-return]

    def take(self, x: Tensor, rows: np.ndarray | Tensor) -> Tensor:
        return apply("take", x, rows=as_array(rows))

    def put_sum(self, x: Tensor, index: Tensor, count: int) -> Tensor:
        raise DGLError(_HAS_KERNELS)

    def put_extreme(self, x: Tensor, index: Tensor, count: int, largest: bool, fill: Any) -> Tensor:
        raise DGLError(_HAS_KERNELS)

    def pick(self, x: Tensor, index: Tensor) -> Tensor:
        raise DGLError(_HAS_KERNELS)

    def put(self, x: Tensor, rows: np.ndarray | Tensor, values: Tensor) -> Tensor:
        return apply("put", x, values, rows=as_array(rows))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return functions["reshape"](x, tuple(shape))  # type: ignore[no-any-return]

    def broadcast_to(self, x: Tensor, feat: Sequence[int]) -> Tensor:
        rows, *x_feat = x.shape
        padded = self.reshape(x, (rows, *(1,) * (len(feat) - len(x_feat)), *x_feat))
        return apply("broadcast_to", padded, shape=(rows, *feat))

    def concat(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        return toolkit.cat(xs, axis)

    def stack(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        return toolkit.stack(xs, axis)

    def unbind(self, x: Tensor) -> Sequence[Tensor]:
        return [apply("index", x, key=i) for i in range(len(x))]

    def split(self, x: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        return functions["split"](x, list(sizes))  # type: ignore[no-any-return]

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return toolkit.nn.functional.linear(x, weight, bias)

    def swap_last(self, x: Tensor) -> Tensor:
        return functions["transpose"](x, -1, -2)  # type: ignore[no-any-return]

    def segment_mm(self, x: Tensor, matrices: Tensor, offsets: np.ndarray) -> Tensor:
        out = library.xp.empty((*x.shape[:-1], matrices.shape[-1]), x.dtype)
        for r, (begin, end) in enumerate(pairwise(offsets.tolist())):
            rows = library.xp.moveaxis(x.data[begin:end], 0, -2)
            out[begin:end] = library.xp.moveaxis(rows @ matrices.data[r], -2, 0)
        return Tensor(out)

    def segment_outer(self, x: Tensor, y: Tensor, offsets: np.ndarray) -> Tensor:
        out = library.xp.zeros((len(offsets) - 1, *x.shape[1:], y.shape[-1]), x.dtype)
        for r, (begin, end) in enumerate(pairwise(offsets.tolist())):
            turned = library.xp.moveaxis(x.data[begin:end], 0, -1)
            out[r] = turned @ library.xp.moveaxis(y.data[begin:end], 0, -2)
        return Tensor(out)

    def dropout_mask(self, x: Tensor, p: float) -> Tensor:
        return toolkit.nn.functional.dropout_mask(x, p)

    def sum(self, x: Tensor, axis: int | Sequence[int], keepdims: bool = False) -> Tensor:
        return apply("sum", x, axis=axis if isinstance(axis, int) else tuple(axis), keepdims=keepdims)

    def max(self, x: Tensor, axis: int) -> Tensor:
        return functions["max"](x, axis).values  # type: ignore[no-any-return]

    def min(self, x: Tensor, axis: int) -> Tensor:
        return functions["min"](x, axis).values  # type: ignore[no-any-return]

    def prod(self, x: Tensor, axis: int) -> Tensor:
        return apply("prod", x, axis=axis, keepdims=False)

    def random_state(self) -> bytes:
        return pickle.dumps(library.generator.bit_generator.state)

    def restore_random_state(self, state: bytes) -> None:
        library.generator.bit_generator.state = pickle.loads(state)

    def apply(self, op: DifferentiableOp, *inputs: Tensor) -> Tensor:
        return record(op, *inputs)

    def call(self, name: str, *arguments: Any) -> Tensor:
        raise DGLError(f"{name}: array libraries have no compiler that would ask for registered operations")

    def structure_tensors(
        self, src: np.ndarray, dst: np.ndarray, owner: Any, num_src: int, num_dst: int
    ) -> tuple[Tensor, Tensor]:
        return Tensor(src), Tensor(dst)

    def require(self, condition: Tensor, message: str) -> None:
        if not condition:
            raise DGLError(message)

    def detach(self, x: Tensor) -> Tensor:
        return x.detach()

    def gradients(
        self, function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor, needs: Sequence[bool]
    ) -> list[Tensor | None]:
        leaves = [Tensor(x.data, needed) for x, needed in zip(inputs, needs, strict=True)]
        with enable_grad():
            result = function(*leaves)
        with no_grad():
            backward(result, grad.data)
        return [leaf.grad for leaf in leaves]

    def draw_seed(self) -> int:
        return int(library.generator.integers(2**63 - 1))

    def num_threads(self) -> int:
        return _requested.threads or _threads()

    def set_num_threads(self, count: int) -> None:
        _requested.threads = count


def _memory(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return an uninitialised array; a large one of NumPy's lies in memory of the pool."""
    return new_array(shape, dtype) if library.xp is np else library.xp.empty(shape, dtype)


class _Asked(threading.local):
    """How many threads a thread was told to use; 0 for what the process may."""

    threads = 0


_requested = _Asked()


@cache
def _name(dtype: np.dtype) -> str:
    return dtype.name


@cache
def _threads() -> int:
    """Return ``OMP_NUM_THREADS``, else the number of cores that the process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if setting.isdigit() and int(setting):
        return int(setting)
    return num_cores()
