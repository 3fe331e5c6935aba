"""A session: what has been recorded so far, what of it is computed, and what was given from outside."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...errors import DGLError
from ...kernels.cpu.dynamic.batching import EXTERNAL, FIRST_MACRO, PLACE_BITS, PLACE_MASK, OperationGraph, parse
from ...kernels.cpu.dynamic.recording import FIRST_WORD, check_slots
from ...ops import devices
from .recording.kinds import DTYPES, TensorKind, is_recordable, kind_of
from .recording.signatures import Signature, on_matrices, shared, shared_arities
from .recording.tensor import LazyTensor, append

before_computing: list[Callable[[], None]] = []
"""What is called before a session computes: whoever changes parameters meanwhile waits for that here."""


_POOLS = {torch.int64: "q", torch.float32: "f", torch.float64: "d"}


class ExternalTensor(NamedTuple):
    """A tensor from outside, its contiguous values, its version then, its node and kind."""

    tensor: torch.Tensor
    values: torch.Tensor
    version: int
    node: int
    kind: TensorKind


class Session:
    """One growing graph of recorded operations.

    It holds no lazy tensor and no run holds it, so its memory is free as soon as the last lazy tensor is gone.
    Recording appends (signature, *arguments) to ``words``; the arrays take it over when something is computed. These
    are read and written by compiled code, and so is ``products``: numbers of signatures of products and the kinds of
    their results by kind of input, weight and bias, these by their addresses.
    """

    __slots__ = ("__dict__", "__weakref__", "products", "words")

    def __init__(self) -> None:
        self.words = np.zeros(_FIRST_SIZE, np.int64)
        self.words[1] = FIRST_WORD
        self.products: dict[TensorKind, dict[int, dict[int, tuple[int, TensorKind]]]] = {}
        self.own_signatures: list[Signature] = []
        self.caches: dict[Any, Any] = {}
        self.macros: list[list[int]] = []
        self.num_args = 0
        self.tracing = False
        """Whether the body of a cell is being recorded, whose lazy tensors have an axis of length 1 in front."""
        self.started = time.perf_counter()
        self.runs: list[Any] = []
        nothing = np.zeros(0, np.int64)
        self._room = OperationGraph(nothing, np.zeros(1, np.int64), nothing, np.zeros(0, np.bool_))
        self.graph = self._room
        """What was recorded until it was settled last, a part of the arrays that have room for more."""
        self.where = np.zeros(0, np.int64)
        self.external: dict[int, ExternalTensor] = {}
        self.given_at: dict[int, torch.Tensor] = {}
        self.parameters: dict[int, tuple[torch.Tensor, int]] = {}
        self._layouts: dict[int, tuple[torch.Size, torch.dtype]] = {}
        self.device = torch.device("cpu")
        self._new: list[int] = []
        self.pools: dict[torch.dtype, tuple[array, int]] = {}
        self._numbers: dict[tuple[float, torch.dtype], tuple[int, TensorKind]] = {}

    # -- recording ----------------------------------------------------------------------------------------------
    @property
    def count(self) -> int:
        """How many nodes have been recorded."""
        return int(self.words[0])

    @property
    def recorded(self) -> np.ndarray:
        """What has been recorded since it was settled last."""
        return self.words[FIRST_WORD : self.words[1]]

    def make_room(self) -> None:
        """Make room for twice as many words."""
        self.words = _grown(self.words, 2 * len(self.words))

    def record(self, signature: Signature, refs: Sequence[int], kind: TensorKind) -> LazyTensor:
        """Append an operation and return its result."""
        return append(self, kind, 1, signature.number, *refs)  # type: ignore[no-any-return]

    def own_signature(self, name: str, matrices: Any) -> Signature:
        """Return the signature of an operation on matrices, with its number in this session.

        The tensors that it reads live as long, and their changes are noticed.
        """
        for tensor in matrices.tensors:
            self._note_device(tensor)
            self.parameters[id(tensor)] = tensor, version_of(tensor)
            self._layouts[id(tensor)] = tensor.shape, tensor.dtype
        signature = on_matrices(name, matrices)
        self.own_signatures.append(signature)
        signature.number = -len(self.own_signatures)
        return signature

    def own_macro(self, words: list[int]) -> int:
        """Return the number of several nodes that are recorded as one; ``words`` are as :func:`.parse` reads them."""
        self.macros.append(words)
        return FIRST_MACRO + 1 - len(self.macros)

    def signature(self, number: int) -> Signature:
        """Return the signature of a number."""
        return shared[number] if number >= 0 else self.own_signatures[-1 - number]

    def give(self, tensor: torch.Tensor) -> LazyTensor:
        """Return a lazy tensor that stands for a tensor."""
        external = self.external.get(id(tensor))
        if external is None:
            external = self.external[id(tensor)] = self._add_external(tensor)
        return LazyTensor(self, external.node << PLACE_BITS, external.kind)

    def _add_external(self, tensor: torch.Tensor) -> ExternalTensor:
        self._note_device(tensor)
        if not is_recordable(tensor.dtype):
            raise DGLError(
                f"a lazy tensor is float32, float64, int32, int64 or boolean; got {tensor.dtype}: convert it first"
            )
        kind = kind_of(tensor.shape, tensor.dtype)
        node = self.record(shared[EXTERNAL], (), kind)._ref >> PLACE_BITS
        values = self.given_at[node] = tensor.detach().resolve_neg().to(kind.stored).contiguous()
        self._new.append(node)
        return ExternalTensor(tensor, values, version_of(tensor), node, kind)

    def number(self, value: float, dtype: torch.dtype) -> LazyTensor:
        """Return the lazy tensor of a number, with no axes; at the same place each time."""
        place = self._numbers.get((value, dtype))
        if place is None:
            lazy = self._pooled(value, dtype)
            place = self._numbers[value, dtype] = lazy._ref, lazy._kind
        return LazyTensor(self, *place)

    def integer(self, value: int) -> LazyTensor:
        """Return the lazy tensor of an index or label."""
        return self._pooled(value, torch.int64)

    def _pooled(self, value: float, dtype: torch.dtype) -> LazyTensor:
        kind = kind_of((), dtype)
        if dtype not in self.pools:
            ref = self.record(shared[EXTERNAL], (), kind)._ref
            self.pools[dtype] = array(_POOLS[dtype]), ref
        pool, ref = self.pools[dtype]
        pool.append(value)
        return LazyTensor(self, ref + (len(pool) - 1) * kind.item, kind)

    def integer_at(self, ref: int) -> int | None:
        """Return the integer that was given at a place, None if it is a result."""
        pool = self.pools.get(torch.int64)
        node, place = ref >> PLACE_BITS, ref & PLACE_MASK
        if pool is not None and pool[1] >> PLACE_BITS == node:
            return pool[0][place // 8]
        external = self.given_at.get(node)
        return None if external is None else int(external.view(-1)[place // external.itemsize])

    def _note_device(self, tensor: torch.Tensor) -> None:
        device = tensor.device
        if device == self.device or device.type == "cpu":
            return
        reason = devices.why_no_kernels(device)
        if reason or self.device.type != "cpu":
            raise DGLError(
                f"lazy tensors compute on the CPU or on one NVIDIA GPU; got a tensor on {device}"
                + (f", where {reason}" if reason else f" beside others on {self.device}")
            )
        self.device = device

    # -- what the computation reads -----------------------------------------------------------------------------
    def settle(self) -> None:
        """Take what was recorded over into the arrays, and note where what was given lies."""
        stream, count = self.recorded, self.count
        num_nodes, (sigs, argptr, args, done) = len(self.graph.sigs), self._room
        if count > len(sigs):
            size = max(2 * count, 256)
            sigs, done, self.where = (_grown(x, size) for x in (sigs, done, self.where))
            argptr = _grown(argptr, size + 1)
        needed = int(argptr[num_nodes]) + len(stream) + self.num_args
        self.num_args = 0
        if needed > len(args):
            args = _grown(args, max(2 * needed, 512))
        self._room = OperationGraph(sigs, argptr, args, done)
        macros = np.array([word for macro in self.macros for word in macro], np.int64)
        macro_ptr = np.cumsum([0, *map(len, self.macros)])
        arities = np.array(shared_arities, np.int64), np.array([s.arity for s in self.own_signatures], np.int64)
        end = parse(stream, *arities, macros, macro_ptr, num_nodes, self._room)
        self.words[1] = FIRST_WORD
        self.graph = OperationGraph(sigs[:end], argptr[: end + 1], args[: argptr[end]], done[:end])
        for node in self._new:
            self.where[node] = self.given_at[node].data_ptr()
        self._new.clear()
        for pool, ref in self.pools.values():
            self.where[ref >> PLACE_BITS] = pool.buffer_info()[0]

    def differentiable(self) -> list[tuple[torch.Tensor, int]]:
        """Return the tensors that were given and want a gradient, with their nodes."""
        differentiable = [x for x in self.external.values() if x.tensor.requires_grad and x.kind.dtype in DTYPES]
        return [(x.tensor, x.node) for x in differentiable]

    def check_layouts(self) -> None:
        """Raise if a tensor that operations read has become another one, as by ``weight.data = ...``."""
        for key, (shape, dtype) in self._layouts.items():
            tensor = self.parameters[key][0]
            if tensor.shape != shape or tensor.dtype is not dtype:
                raise DGLError(
                    f"a tensor was {list(shape)} of {dtype} when operations with it were recorded, and is "
                    f"{list(tensor.shape)} of {tensor.dtype} now; record them again"
                )

    def check_unchanged(self) -> None:
        """Raise if a tensor that was given has been written to since."""
        versions = [(x.tensor, x.version) for x in self.external.values()]
        for tensor, version in [*versions, *self.parameters.values()]:
            if version_of(tensor) != version:
                raise DGLError(
                    f"a tensor of shape {list(tensor.shape)} was changed in place after lazy operations had used it; "
                    "call backward before optimizer.step()"
                )


def version_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor has been written to; 0 for one of inference mode, which does not count it."""
    return 0 if tensor.is_inference() else tensor._version


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.zeros(size, array.dtype)
    grown[: len(array)] = array
    return grown


_FIRST_SIZE = 256
check_slots(LazyTensor(Session(), 0, kind_of((), torch.float32)), Session())

_current = threading.local()


def current_session() -> Session:
    """Return the session in which new lazy tensors are recorded; each thread has its own."""
    session: Session | None = getattr(_current, "session", None)
    if session is None:
        session = _current.session = Session()
    return session


def end_session(session: Session) -> None:
    """Let the next lazy tensor start a new session if ``session`` is the current one."""
    if getattr(_current, "session", None) is session:
        _current.session = None
