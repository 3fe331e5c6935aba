"""The interface between dglite and a tensor library: the methods that graphs, the scheduler and layers call.

A backend knows tensors and autograd, never graphs. Names follow the Python array API standard where it has one. An
abstract method that a backend lacks fails when the backend is constructed, that is at import, not at use. The others
answer as a library does that has neither compiler nor deferred nor sparse tensors. What concerns compilers and deferred
tensors is in :mod:`.programs`.

Two worlds meet here. *Tensors* are the framework's and carry features and gradients. *Arrays* are NumPy's and carry
structure (node and edge ids, degrees); ``to_numpy`` and ``from_numpy`` share memory between them on the CPU.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..errors import DGLError
from .programs import ProgramInterface
from .protocols import DifferentiableOp, Tensor


def native(array: np.ndarray) -> np.ndarray:
    """Return ``array`` in the form that kernels and tensor libraries take, itself if it has that form.

    That is in this machine's byte order, at an address that its dtype divides, with whole steps forward along each
    axis. A complex128 needs 16 bytes: compilers load it at once, though NumPy is content with 8.

    Raises DGLError: it is a masked array with masked values, of which tensors would have what is behind the mask.
    """
    if type(array) is np.ma.MaskedArray and np.ma.is_masked(array):
        raise DGLError(
            "got a masked array with masked values, which tensors do not have; fill them first, array.filled(0), and "
            "keep the mask as a feature of its own"
        )
    size, flags = array.dtype.itemsize, array.flags
    if flags.carray and size < 16 and array.dtype.isnative:
        return array
    placed = flags.aligned and (size < 16 or array.__array_interface__["data"][0] % 16 == 0)
    forward = flags.c_contiguous or all(step >= 0 and step % size == 0 for step in array.strides)
    if placed and forward and array.dtype.isnative:
        return array
    return np.array(array, array.dtype.newbyteorder("="), order="C")


class Backend(ProgramInterface):
    """One tensor library. Subclasses are final and hold no state."""

    name: str
    """What ``DGLITE_BACKEND`` calls it."""

    functions: Mapping[str, Callable[..., Tensor]]
    """The element-wise functions that expressions call by name (``opspec.OPERATORS``), differentiable."""

    tensor_type: type
    """The library's class of tensors."""

    device_type: type
    """The class of what :meth:`device` returns, which no other library's devices are of."""

    out_of_memory: type[Exception] = MemoryError
    """What is raised where a device's memory does not suffice."""

    guest: Backend | None = None
    """The backend of a second library whose tensors have been given: see ``pairing.py``."""

    framework: Any
    """What layers and scripts use beside dglite, under torch's names: ``nn``, ``optim``, ``no_grad``, ``tensor`` ..."""

    modules: Sequence[str]
    """Packages whose functions on tensors only compute, so that functions of users that call them can be recorded."""

    # -- recognise and exchange ---------------------------------------------------------------------------------
    @abstractmethod
    def is_tensor(self, x: object) -> bool:
        """Whether ``x`` is a tensor of this library."""

    @abstractmethod
    def asarray(self, x: object, dtype: str | None = None, device: object = None) -> Tensor:
        """Make a tensor of a tensor, array, list or number; no copy when nothing has to change."""

    @abstractmethod
    def to_numpy(self, x: Tensor) -> np.ndarray:
        """Return the values as an array without gradient; shares memory on the CPU. bfloat16 comes as float32."""

    @abstractmethod
    def from_numpy(self, array: np.ndarray, device: object = None) -> Tensor:
        """Return a tensor of the array's values; shares memory on the CPU.

        On a GPU it is there in the order of the current stream. The host does not wait, and may change the array.
        """

    def map_file(self, path: Any, size: int) -> np.ndarray:
        """Return the ``size`` bytes of a file, read when they are used. Writing to them does not change the file."""
        return np.asarray(np.memmap(path, np.uint8, "c", shape=(size,)))

    @abstractmethod
    def is_layer(self, x: object) -> bool:
        """Whether ``x`` is a layer of this library: a function with parameters."""

    @abstractmethod
    def layers_in(self, layer: Any) -> Iterable[Any]:
        """Return the layer and all layers inside it."""

    # -- facts --------------------------------------------------------------------------------------------------
    @abstractmethod
    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape."""

    @abstractmethod
    def dtype(self, x: Tensor) -> str:
        """Return the dtype's array-API name: ``"float32"``, ``"bfloat16"``, ``"int64"``, ``"bool"`` ..."""

    @abstractmethod
    def device(self, x: Tensor) -> Any:
        """Return the device; comparable, ``str()`` gives ``"cpu"`` or ``"cuda:0"``."""

    @abstractmethod
    def cpu(self) -> Any:
        """Return this library's CPU device."""

    @abstractmethod
    def on_cpu(self, x: Tensor) -> bool:
        """Whether ``x`` lies in the host's memory."""

    @abstractmethod
    def traits(self, x: Tensor | Any) -> tuple[tuple[int, ...], str, Any] | None:
        """Return shape, dtype and device, None of what is no tensor: one question where a kernel would ask four."""

    @abstractmethod
    def requires_grad(self, *xs: Tensor) -> bool:
        """Whether a gradient is being recorded for one of ``xs`` now."""

    def needs_grad(self, xs: Sequence[Tensor]) -> tuple[bool, ...]:
        """Return for each of ``xs`` whether a gradient is being recorded for it now."""
        return tuple([self.requires_grad(x) for x in xs])

    def signature(self, xs: Sequence[Tensor | None]) -> tuple[Any, ...] | None:
        """Return what the choice of a way depends on, of tensors with values: equal ones go the same way.

        That is shapes, dtypes, devices, and whether gradients are recorded. None for other tensors, inside autocast,
        and of a backend without this: each call is checked then.
        """
        return None

    def plain(self, xs: Sequence[Tensor]) -> tuple[tuple[Any, ...], list[int]] | None:
        """Return shapes and dtypes, and addresses, of tensors that a kernel takes as they are; else None.

        They lie in memory row after row. Calls that are equal in shapes, dtypes, and of which tensors gradients are
        recorded, on a GPU in streams, too, then differ in nothing but addresses. A backend without this answers None,
        and each call is checked.
        """
        return None

    def stream(self, device: Any) -> int:
        """Return the handle of the stream on which the library works on ``device`` now; 0 for the default one."""
        return 0

    @abstractmethod
    def version(self, x: Tensor) -> int | None:
        """Return a number that changes when ``x`` is written in place, or None if writes to it are not counted."""

    @abstractmethod
    def address(self, x: Tensor) -> int:
        """Return the address of the first element of a contiguous tensor."""

    @abstractmethod
    def contiguous(self, x: Tensor) -> Tensor:
        """Return ``x`` laid out row after row; itself when it is already."""

    def dense(self, xs: Sequence[Tensor | None]) -> tuple[list[Any], list[int]]:
        """Return tensors laid out row after row, and where they lie as long as they live: 0 for None."""
        dense = [None if x is None else self.contiguous(x) for x in xs]
        return dense, [0 if x is None else self.address(x) for x in dense]

    @abstractmethod
    def copy(self, x: Tensor) -> Tensor:
        """Return ``x`` in new memory."""

    def copy_numbers(self, source: np.ndarray, target: np.ndarray) -> None:
        """Write the numbers of an array, in its dtype, to one of the same shape: many by several threads."""
        target[...] = source

    def is_sparse(self, x: Tensor) -> bool:
        """Whether ``x`` stores the elements that differ from 0 only."""
        return False

    @abstractmethod
    def sparse_parts(self, x: Tensor) -> tuple[str, np.ndarray, np.ndarray, Tensor]:
        """Return a sparse matrix as ``("csr", indptr, indices, values)`` or ``("coo", rows, columns, values)``.

        Raises ``DGLError``: it is no matrix of numbers, or of another layout.
        """

    # -- create -------------------------------------------------------------------------------------------------
    @abstractmethod
    def empty(self, shape: Sequence[int], dtype: str, device: Any) -> Tensor:
        """Return an uninitialised tensor."""

    @abstractmethod
    def new_empty(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return an uninitialised tensor, of at least one axis, of the dtype and on the device of ``x``."""

    @abstractmethod
    def full(self, shape: Sequence[int], value: float, dtype: str, device: Any) -> Tensor:
        """Return a tensor filled with ``value``."""

    @abstractmethod
    def sparse_coo(self, indices: np.ndarray, values: Tensor, shape: tuple[int, int]) -> Tensor:
        """Return the library's sparse matrix with ``values[i]`` at row ``indices[0, i]``, column ``indices[1, i]``."""

    # -- move and cast ------------------------------------------------------------------------------------------
    @abstractmethod
    def to_device(self, x: Tensor, device: Any, non_blocking: bool = False) -> Tensor:
        """Return ``x`` on ``device``; with ``non_blocking`` in the order of the current stream, as :meth:`from_numpy`.

        Without, it is there when this returns, for every stream, where ``x`` is in ordinary memory of the host.
        """

    @abstractmethod
    def astype(self, x: Tensor, dtype: str) -> Tensor:
        """Return ``x`` as ``dtype``."""

    # -- rows and shapes, all differentiable --------------------------------------------------------------------
    @abstractmethod
    def take(self, x: Tensor, rows: np.ndarray | Tensor) -> Tensor:
        """Return ``x[rows]``."""

    @abstractmethod
    def put(self, x: Tensor, rows: np.ndarray | Tensor, values: Tensor) -> Tensor:
        """Return a copy of ``x`` in which ``rows`` hold ``values``."""

    @abstractmethod
    def put_sum(self, x: Tensor, index: Tensor, count: int) -> Tensor:
        """Return sums of the rows of ``x``: row i is added to row ``index[i]`` of ``count``.

        An ``index`` of the shape of ``x`` says so for each element.
        """

    @abstractmethod
    def put_extreme(self, x: Tensor, index: Tensor, count: int, largest: bool, fill: Any) -> Tensor:
        """Return the largest or smallest of the rows of ``x`` with one ``index``, element by element; else ``fill``."""

    @abstractmethod
    def pick(self, x: Tensor, index: Tensor) -> Tensor:
        """Return ``x[index[i, k], k]`` for every i and k."""

    @abstractmethod
    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return ``x`` with another shape; a view where it can be."""

    @abstractmethod
    def broadcast_to(self, x: Tensor, feat: Sequence[int]) -> Tensor:
        """Return ``x``, (rows, ...), as (rows, *feat): its feature axes aligned from the right and stretched."""

    @abstractmethod
    def concat(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        """Join along an axis."""

    @abstractmethod
    def stack(self, xs: Sequence[Tensor], axis: int = 0) -> Tensor:
        """Join along a new axis."""

    @abstractmethod
    def unbind(self, x: Tensor) -> Sequence[Tensor]:
        """Return x[0], x[1], ... in its memory; writing into one is to autograd no change of the others."""

    @abstractmethod
    def split(self, x: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Cut the first axis into runs of the given sizes."""

    @abstractmethod
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return ``x @ weight.T + bias``, (rows, ..., out)."""

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Tensor:
        """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU; large results in memory of the pool."""
        result = self.linear(x, self.swap_last(weight), bias)
        return result.relu() if relu else result

    def is_pooled(self, *tensors: Tensor) -> bool:
        """Whether products and sums of these matrices are made in memory of the pool: large ones on the CPU."""
        return False

    def relu_gradient(self, grad: Tensor, result: Tensor) -> Tensor:
        """Return ``grad``, 0 where ``result``, a ReLU's, is 0; large ones in memory of the pool."""
        return self.functions["where"](result <= 0, 0.0, grad)

    def add_product(self, total: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """Return ``total + x @ weight`` of matrices, in memory of ``total`` where that is large: it may be lost.

        No gradient is recorded.
        """
        return total + self.product(x, weight, None)

    def times(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``x * y``, of the shape of ``x``; where no gradient is recorded, in memory of the pool."""
        return x * y

    @abstractmethod
    def swap_last(self, x: Tensor) -> Tensor:
        """Return ``x`` with its last two axes swapped."""

    @abstractmethod
    def segment_mm(self, x: Tensor, matrices: Tensor, offsets: np.ndarray) -> Tensor:
        """Return rows ``offsets[r]`` to ``offsets[r + 1]`` times matrix r, for every r; not recorded.

        ``x`` (rows, *batch, in) and ``matrices`` (count, *batch, in, out) give (rows, *batch, out).
        """

    @abstractmethod
    def segment_outer(self, x: Tensor, y: Tensor, offsets: np.ndarray) -> Tensor:
        """Return, for every r, rows ``offsets[r]`` to ``offsets[r + 1]`` of x, transposed, times these rows of y.

        ``x`` (rows, *batch, in) and ``y`` (rows, *batch, out) give (count, *batch, in, out).
        """

    @abstractmethod
    def dropout_mask(self, x: Tensor, p: float) -> Tensor:
        """Return 0 with probability ``p``, else ``1 / (1 - p)``, for every element of ``x``."""

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Return ``x`` with elements dropped with probability ``p``, the others divided by ``1 - p``."""
        return x * self.dropout_mask(x, p)

    # -- reduce -------------------------------------------------------------------------------------------------
    @abstractmethod
    def sum(self, x: Tensor, axis: int | Sequence[int], keepdims: bool = False) -> Tensor:
        """Sum over axes."""

    @abstractmethod
    def max(self, x: Tensor, axis: int) -> Tensor:
        """Maximum over one axis."""

    @abstractmethod
    def min(self, x: Tensor, axis: int) -> Tensor:
        """Minimum over one axis."""

    @abstractmethod
    def prod(self, x: Tensor, axis: int) -> Tensor:
        """Product over one axis."""

    # -- random numbers -----------------------------------------------------------------------------------------
    @abstractmethod
    def random_state(self) -> bytes:
        """Return the state of the library's generator on the CPU."""

    @abstractmethod
    def restore_random_state(self, state: bytes) -> None:
        """Put the generator back to a state."""

    def lasting(self) -> AbstractContextManager[None]:
        """Return a context in which tensors are made that are used later, whatever mode or transform is active now."""
        return nullcontext()

    # -- autograd and threads -----------------------------------------------------------------------------------
    @abstractmethod
    def apply(self, op: DifferentiableOp, *inputs: Tensor) -> Tensor:
        """Run ``op`` on ``inputs`` and record its gradient where one is asked for."""

    def autocast_dtype(self) -> str | None:
        """Return the dtype that matrix products take now, None outside autocast."""
        return None

    @abstractmethod
    def detach(self, x: Tensor) -> Tensor:
        """Return ``x`` without its gradient."""

    @abstractmethod
    def gradients(
        self, function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor, needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """Return d(loss)/d(input) of ``function(*inputs)`` where needed, from the result's ``grad``; differentiable."""

    @abstractmethod
    def draw_seed(self) -> int:
        """Draw a number from 0 up to 2**63 from the library's generator."""

    @abstractmethod
    def num_threads(self) -> int:
        """Return how many threads the library uses when this thread calls it, which kernels follow."""

    @abstractmethod
    def set_num_threads(self, count: int) -> None:
        """Let the library use ``count`` threads when this thread calls it; others that start later may follow."""
