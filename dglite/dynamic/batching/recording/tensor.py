"""Lazy tensors: handles that record what is done to them. Plain objects, since a tensor subclass costs ten times more.

A handle is a session, a place in it (node in the upper bits, bytes from the beginning of the node's result in the
lower) and a kind. So what only chooses a part of a value, or an axis more or less, is a handle with another place or
kind, and no operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from ....errors import DGLError
from ....kernels.cpu.compile.written import Kernel
from ....kernels.cpu.dynamic import recording
from .kinds import TensorKind

_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""What records a torch function, by that function."""


class _LateBindings:
    """What modules that are built on this one set: what records any other torch function, and what computes."""

    record: Callable[..., Any]
    value: Callable[..., torch.Tensor]
    backward: Callable[..., torch.Tensor]


later = _LateBindings()


class UntraceableBody(DGLError):
    """The body of a cell does what cannot be recorded for one sample; it is run on stacked tensors then."""


def mixing_samples(name: str) -> DGLError:
    """Return the error of a function that combines the rows of a cell's body."""
    return DGLError(
        f"{name} in a cell's body mixes rows, which are samples: it works across dimension 0. Operate on dimension 1 "
        "and up (dim=-1), or call it on lazy tensors outside of the cell"
    )


if TYPE_CHECKING:  # so that modules and functions of torch take lazy tensors, and their results may be annotated
    _Base = torch.Tensor
else:
    _Base = object


class LazyTensor(_Base):
    """A value that will be computed together with others like it. Made by :func:`dglite.dynamic.lazy`.

    To type checkers it is a ``torch.Tensor``, and so is what torch's functions make of it; ``lazy(x)`` of such a result
    is ``x`` as a lazy tensor.
    """

    __slots__ = ("_kind", "_ref", "_session")

    def __init__(self, session: Any, ref: int, kind: TensorKind) -> None:
        self._session, self._ref, self._kind = session, ref, kind

    # -- what is known without computing ------------------------------------------------------------------------
    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """Shape of one sample's value."""
        return torch.Size(self._lengths())

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """The value's dtype."""
        return self._kind.dtype

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """How many axes one sample's value has."""
        return len(self._kind.shape)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where it is computed: where the tensors are that its session was given."""
        return self._session.device

    is_nested = is_cuda = is_sparse = is_quantized = is_mkldnn = is_meta = False
    layout = torch.strided

    @property
    def T(self) -> Any:  # type: ignore[override]
        """The transposed matrix."""
        return self.t()

    @property
    def mT(self) -> Any:  # type: ignore[override]
        """The value with its last two axes exchanged."""
        return self.transpose(-2, -1)

    def dim(self) -> int:
        """Return how many axes one sample's value has."""
        return len(self._kind.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape of one sample's value, or the length of an axis."""
        lengths = self.shape if dim in (None, 0, -self.ndim) else self._kind.shape
        return lengths if dim is None else lengths[dim]

    def numel(self) -> int:
        """Return how many elements one sample's value has."""
        return self.shape.numel()

    def _lengths(self) -> tuple[int, ...]:
        if self._session.tracing:  # the first axis stands for the samples
            raise UntraceableBody("the body of a cell asks how many samples there are")
        return self._kind.shape

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self._kind.dtype.is_floating_point

    # -- computing ----------------------------------------------------------------------------------------------
    def value(self, strategy: str = "agenda") -> torch.Tensor:
        """Compute this value, with what it needs, and return it; recording goes on afterwards.

        The result is a tensor of its own, without gradient: it is for looking at (a parser's scores). What has been
        computed is not computed again.
        """
        return later.value(self, strategy)

    def item(self) -> Any:
        """Compute this value and return its one element as a Python number."""
        return self.value().item()

    def backward(self) -> None:  # type: ignore[override]
        """Compute this scalar and add its gradient to the parameters'; see :func:`dglite.dynamic.backward`."""
        later.backward(self)

    # -- recording ----------------------------------------------------------------------------------------------
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.unbind())

    def __len__(self) -> int:
        if not self._kind.shape:
            raise TypeError("len() of a lazy tensor without axes")
        return self._lengths()[0]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"LazyTensor({self._kind!r})"

    def __bool__(self) -> bool:
        raise DGLError(
            "Python branches on a value that a lazy tensor does not have yet. Ask for x.value(), which computes it and "
            "lets recording go on; or write the choice with torch.where, torch.maximum and the like, as in a cell"
        )

    __float__ = __int__ = __index__ = __bool__  # type: ignore[assignment]

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise DGLError("a lazy tensor has no value yet; x.value().numpy() computes it")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise DGLError("lazy tensors are not written to in place; make a new one, with torch.cat or torch.where")


def _record_other(
    function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Record a function of torch that has no entry of its own."""
    return later.record(function, args, kwargs or {})


def recorder_by(kernel: Kernel, table: Any, otherwise: Callable[..., Any], default: Any = None) -> Any:
    """Return what records by a kernel of :mod:`dglite.kernels.cpu.dynamic.recording`."""
    return recording.recorder(kernel, LazyTensor, table, otherwise, default)


append = recorder_by(recording.append, None, lambda session: session.make_room())
"""``append(session, kind, number of nodes, *words)`` records nodes and returns a lazy tensor of the first."""


def install(named: dict[str, Callable[..., Any]]) -> None:
    """Let functions record what torch has under their names: as functions, as methods, and in ``nn.functional``."""
    for name, record in named.items():
        for owner in (torch, torch.Tensor, F):
            function = getattr(owner, name, None)
            if function is not None:
                _FUNCTIONS[function] = record
        if hasattr(torch.Tensor, name):
            setattr(LazyTensor, name, recording.method(record))


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: LazyTensor, *args: Any, **kwargs: Any) -> Any:
        return LazyTensor.__torch_function__(function, (), (self, *args), kwargs)

    return method


def _no_attribute(name: str) -> property:
    def refuse(self: LazyTensor) -> Any:
        raise AttributeError(f"a lazy tensor has no attribute {name!r}; x.value() gives the tensor, which has")

    return property(refuse)


def _install_what_tensors_have() -> None:
    """Give lazy tensors the methods of torch's, one by one: with ``__getattr__`` every attribute would be slower."""
    for name in set(dir(torch.Tensor)) - set(dir(LazyTensor)):
        if not name.startswith("_"):
            attribute = getattr(torch.Tensor, name)
            setattr(LazyTensor, name, _as_method(attribute) if callable(attribute) else _no_attribute(name))


_install_what_tensors_have()
LazyTensor.__torch_function__ = recorder_by(recording.of_torch, _FUNCTIONS, _record_other)  # type: ignore[method-assign]
