"""A small reverse-mode autograd tape for array libraries that have none: a tensor class that records operations.

``Tensor`` wraps an array. Operations on tensors that require a gradient leave a node that knows its operands and how to
turn the gradient of its result into theirs; :func:`backward` walks the nodes from the last to the first. First
derivatives only. Arithmetic follows torch where NumPy differs: integers meet floats in the floats' width.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DGLError
from .base import native
from .grad_mode import mode, no_grad
from .library import HOST, Device, library, mixture, not_torchs
from .protocols import RESULT, DifferentiableOp
from .rules import RULES, sum_to

# -- tensors -----------------------------------------------------------------------------------------------------------
Gradients = Callable[[Any], Sequence[Any]]
"""Maps the gradient of a node's result to the gradients of its operands, None for operands that need none."""


class TapeNode:
    """One recorded operation: the operands that want a gradient (None for others), and all tensors that were read.

    ``number`` grows with time; ``written`` counts what had been written to the tensors until then.
    """

    __slots__ = ("gradients", "name", "number", "operands", "read", "written")

    def __init__(
        self, name: str, operands: tuple[Tensor | None, ...], read: list[Tensor], gradients: Gradients
    ) -> None:
        self.name, self.operands, self.read, self.gradients = name, operands, read, gradients
        self.number = next(_numbers)
        self.written = _writes(read)


_numbers = itertools.count()


def _writes(tensors: list[Tensor]) -> int:
    return sum([x._writes[0] for x in tensors])


class Tensor:
    """An array with the tape node that computed it.

    Attributes
    ----------
    data
        The array. Writing to it is not noticed; ``x[...] = y`` and methods that end in ``_`` are.
    grad
        d(loss)/d(tensor) after ``loss.backward()``, for tensors that were made with ``requires_grad``.
    """

    __slots__ = ("__weakref__", "_node", "_writes", "data", "grad", "requires_grad")
    __hash__ = object.__hash__

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        """Wrap an array, without a copy; lists and numbers become arrays, floats float32."""
        if type(data) is not library.xp.ndarray:
            data = as_array(data)
        self.data: Any = data
        self.grad: Tensor | None = None
        self.requires_grad = False
        self._node: TapeNode | None = None
        self._writes = [0]
        if requires_grad:
            self.requires_grad_()

    # -- facts --------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        shape: tuple[int, ...] = self.data.shape
        return shape

    @property
    def dtype(self) -> np.dtype:
        """dtype of the elements."""
        return self.data.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.data.ndim  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """``"cpu"``, or ``"cuda:0"`` for an array of CuPy's."""
        device = self.data.device
        return HOST if type(device) is str else Device(f"cuda:{device.id}")

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return self._node is None

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        text = np.array2string(_host(self.data), separator=", ", prefix="tensor(", precision=4, threshold=100)
        more = "" if self.dtype in _USUAL else f", dtype={self.dtype}"
        return f"tensor({text}{more}{', requires_grad=True' if self.requires_grad else ''})"

    def __format__(self, spec: str) -> str:
        return format(self.data.item(), spec) if spec and self.data.ndim == 0 else repr(self)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __index__(self) -> int:
        return operator.index(self.data.item() if self.data.ndim == 0 else self.data)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.data, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self._node is not None:
            raise DGLError("a tensor that an operation made cannot be copied with its history; copy x.detach()")
        return _restored(type(self), self.data.copy(), self.requires_grad)

    # -- protocols of torch and NumPy ---------------------------------------------------------------------------
    @classmethod
    def __torch_function__(cls, *call: Any) -> Any:
        """Refuse: one of torch's functions, operators or layers was given a tensor of ours."""
        raise DGLError(mixture(library.xp.__name__, "torch"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise DGLError("a tensor that requires a gradient is not made an array silently; use x.detach().numpy()")
        array = _host(self.data)
        return np.array(array, dtype, copy=copy) if dtype is not None or copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Run a NumPy function such as ``np.exp`` or ``np.maximum`` on tensors, recorded."""
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        if method != "__call__" or options:
            return NotImplemented
        function = _COMPARISONS.get(name)
        if function is not None:
            return Tensor(function(*map(as_array, inputs)))
        rule = RULES.get(name)
        return NotImplemented if rule is None else apply(name, *inputs)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write()
        self.data[as_key(key)] = as_array(value)

    def __getitem__(self, key: Any) -> Tensor:
        return self._viewing(apply("index", self, key=as_key(key)))

    # -- gradients ----------------------------------------------------------------------------------------------
    def write(self) -> None:
        """Note that the array is going to be written to; refuse where that would spoil gradients."""
        if self.requires_grad and mode.enabled:
            raise DGLError("a tensor that requires a gradient is not written in place; do so under no_grad()")
        self._writes[0] += 1

    def backward(self, gradient: Any = None, retain_graph: bool | None = None) -> None:
        """Add d(self)/d(leaf), times ``gradient``, to ``grad`` of every leaf; a number needs no ``gradient``.

        What operations kept for it is then forgotten, unless ``retain_graph`` is set. Raises ``RuntimeError`` where a
        part of the way was forgotten before, as torch does.
        """
        if gradient is None and self.data.size != 1:
            raise DGLError(f"backward() of a tensor of shape {self.shape} needs a gradient of that shape")
        if not self.requires_grad:
            raise DGLError("backward() of a tensor that depends on nothing that requires a gradient")
        seed = np.ones_like(self.data) if gradient is None else as_array(gradient)
        backward(self, np.broadcast_to(seed, self.shape), bool(retain_graph))

    def detach(self) -> Tensor:
        """Return the same values without gradient."""
        return self._viewing(Tensor(self.data))

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient, or not; return self."""
        if self._node is not None and not requires_grad:
            raise DGLError("only leaves can be told not to require a gradient; use x.detach()")
        if requires_grad and self.data.dtype.kind != "f":
            raise DGLError(f"a tensor of dtype {self.data.dtype} has no gradient; only floats do")
        self.requires_grad = requires_grad
        return self

    def _viewing(self, view: Tensor) -> Tensor:
        """Return ``view``, which may share memory with this tensor, so that writing to one is noticed at both."""
        view._writes = self._writes
        return view


_USUAL = (np.dtype(np.float32), np.dtype(np.int64), np.dtype(bool))
_UFUNCS = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
    "not_equal": "ne",
}
"""NumPy's names of functions, where they differ from ours."""
_COMPARISONS = {name: getattr(operator, name) for name in ("gt", "ge", "lt", "le", "eq", "ne")}


def _restored(kind: type[Tensor], data: Any, requires_grad: bool) -> Tensor:
    tensor = kind(data)
    tensor.requires_grad = requires_grad
    return tensor


def _host(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


def as_array(x: Any) -> Any:
    """Return the array of a tensor, list or number; lists of floats become float32, as torch has it."""
    if isinstance(x, Tensor):
        return x.data
    xp = library.xp
    if isinstance(x, np.ndarray | np.generic | xp.ndarray):
        return xp.asarray(native(x) if isinstance(x, np.ndarray) else x)
    array = xp.asarray(
        [as_array(part) for part in x] if isinstance(x, list | tuple) and _holds_tensors(x) else not_torchs(x)
    )
    return array.astype(np.float32) if array.dtype == np.float64 and not _holds_arrays(x) else array


def _holds_tensors(parts: Sequence[Any]) -> bool:
    return bool(parts) and isinstance(parts[0], Tensor)


def _holds_arrays(x: Any) -> bool:
    return isinstance(x, list | tuple) and bool(x) and isinstance(x[0], np.ndarray | np.generic | Tensor)


def as_key(key: Any) -> Any:
    """Return an index with arrays in the place of tensors and lists."""
    if isinstance(key, tuple):
        return tuple([as_key(part) for part in key])
    if isinstance(key, Tensor):
        return key.data
    return library.xp.asarray(key, None if len(key) else np.int64) if isinstance(key, list) else key


# -- recording ---------------------------------------------------------------------------------------------------------
def apply(name: str, *operands: Any, **static: Any) -> Tensor:
    """Run the operation ``name`` of the table on tensors, arrays and numbers; record it where a gradient is wanted."""
    rule = RULES[name]
    arrays = [x.data if isinstance(x, Tensor) else not_torchs(x) for x in operands]
    out = rule.value(*arrays, **static)
    result = Tensor(out)
    if not mode.enabled:
        return result
    read = [x for x in operands if isinstance(x, Tensor)]
    if not _any_needs_gradient(read):
        return result
    targets = tuple([x if isinstance(x, Tensor) and x.requires_grad else None for x in operands])

    def gradients(g: Any) -> list[Any]:
        grads: list[Any] = []
        for place, x in enumerate(targets):
            part = None
            if x is not None and rule.each is not None:
                part = rule.each(place, g, out, *arrays, **static)
            elif x is not None:
                gradient = rule.gradients[place]
                part = None if gradient is None else gradient(g, out, *arrays, **static)
            grads.append(
                part if part is None or part.shape == arrays[place].shape else sum_to(part, arrays[place].shape)
            )
        return grads

    result.requires_grad, result._node = True, TapeNode(name, targets, read, gradients)
    return result


def _any_needs_gradient(tensors: Sequence[Tensor]) -> bool:
    """Whether one of the tensors requires a gradient."""
    return any(x.requires_grad for x in tensors)


def record(op: DifferentiableOp, *inputs: Tensor) -> Tensor:
    """Run one of dglite's own operations, and record its gradient where one is wanted."""
    enabled, mode.enabled = mode.enabled, False
    try:
        value: Tensor = op.forward(*inputs)
    finally:
        mode.enabled = enabled
    if not enabled or not _any_needs_gradient(inputs):
        return value
    needs = tuple([x.requires_grad for x in inputs])
    saved: list[Tensor | None] = [None] * (len(inputs) + 1)
    for i in op.saved:
        saved[i] = value if i == RESULT else inputs[i]

    def gradients(g: Any) -> list[Any]:
        # Arithmetic with arrays may have widened it, and kernels take one dtype.
        grad = Tensor(g if g.dtype == value.dtype else g.astype(value.dtype))
        grads = op.backward(saved, grad, needs)
        return [None if part is None else part.data for part in grads]

    targets = tuple([x if x.requires_grad else None for x in inputs])
    result = Tensor(value.data, requires_grad=True)
    result._node = TapeNode(type(op).__name__, targets, [x for x in saved if x is not None], gradients)
    return result


_KEEP_NOTHING = frozenset(
    ["add", "sub", "sum", "mean", "astype", "reshape", "permute", "broadcast_to", "concat", "clone"]
)
"""Operations whose gradients read no values: torch keeps nothing of these, and goes back through them at will."""


def _spent(_: Any) -> Sequence[Any]:
    raise RuntimeError(
        "backward() goes back through this part of the computation a second time, and the first one has freed what was "
        "kept; give retain_graph=True to the first, or compute it again"
    )


def backward(root: Tensor, gradient: Any, retain_graph: bool = False) -> None:
    """Add d(root)/d(leaf) times ``gradient`` to ``grad`` of every leaf that requires one.

    Raises DGLError: an operand was written to after it had been read; RuntimeError: an operation was gone through
    before, without ``retain_graph``.
    """
    with no_grad():
        if root._node is None:
            _accumulate(root, gradient)
            return
        pending: dict[int, tuple[TapeNode, Any]] = {root._node.number: (root._node, gradient)}
        queue = [-root._node.number]
        while queue:
            node, g = pending.pop(-heapq.heappop(queue))
            if node.written != _writes(node.read):
                raise DGLError(f"an operand of {node.name!r} was written in place before backward(); copy it first")
            parts = node.gradients(g)
            if not retain_graph and node.name not in _KEEP_NOTHING:
                node.gradients, node.read, node.written = _spent, [], 0
            for x, part in zip(node.operands, parts, strict=True):
                if x is None or part is None:
                    continue
                if x._node is None:
                    _accumulate(x, part)
                    continue
                partial = pending.get(x._node.number)
                if partial is None:
                    heapq.heappush(queue, -x._node.number)
                pending[x._node.number] = x._node, part if partial is None else partial[1] + part


def _accumulate(leaf: Tensor, part: Any) -> None:
    """Add to a leaf's gradient, whose memory is not shared."""
    if leaf.grad is None:
        leaf.grad = Tensor(part.copy() if part.dtype == leaf.data.dtype else part.astype(leaf.data.dtype))
    else:
        leaf.grad.data = leaf.grad.data + part
