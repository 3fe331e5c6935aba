"""Which kernels an operation runs: the CPU's, the GPU's, or none. The only place that decides this.

Both have the same kernels by the same names. The host's are started with a number of threads and the words of a
structure in its memory; a GPU's with a stream and a structure that was copied there once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from .. import kernels
from ..backend import Tensor, active
from ..expr import Expr, Side, operands_of
from ..kernels.words import EDGE_LIST
from ..structure.adjacency import Adjacency
from ..structure.arrays import arrays_on
from ..structure.compressed import Compressed
from ..structure.derived import CacheKey, cache_key, variant

_WORDS: CacheKey[tuple[array[int], str, Compressed, bool]] = cache_key(
    "kernel words", "the words that kernels read of a CSC, its dtype, the CSC, and whether edge ids are among them"
)
_ON_GPU: CacheKey[Any] = cache_key("structure on a GPU", "the CSC in the memory of a GPU, by stream")
_ARRAYS_ON_GPU: CacheKey[Any] = cache_key(
    "arrays on a GPU", "further arrays in the memory of a GPU, by name and stream"
)


_SHORT_ROW = 16
"""Numbers in a row that is read again for each edge rather than edges sorted for it: a cache line of float32."""
_NEAR = 1 << 19
"""Numbers in the rows of all destinations that a core's cache holds beside the sources': 2 MiB of float32."""


class _EdgeList(NamedTuple):
    """The words of edges in their order, the dtype of their ids, and the ends, which the words have the addresses of.

    No words where the edges were sorted already; ``stays`` says whether they are never sorted for this.
    """

    words: array[int] | None
    id_dtype: str
    ends: tuple[np.ndarray, ...]
    stays: bool


_EDGE_LIST: CacheKey[_EdgeList] = cache_key("edge list", "what kernels read of the edges in their order")


class KernelDevice(Protocol):
    """What starts kernels."""

    @property
    def queue(self) -> Any:
        """Where kernels run: a number of threads on the CPU, a stream on a GPU; their last argument."""

    def kernels(self, name: str) -> ModuleType:
        """Return the module of kernels ``name``."""

    def structure(self, adj: Adjacency, edges: bool = True) -> tuple[Any, str]:
        """Return the CSC as kernels take it and the dtype of its ids.

        Without ``edges``, for a kernel that reads no edge ids, these are not made.
        """

    def edges(self, adj: Adjacency, expr: Expr, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, str, bool]:
        """Return the edges, in any order, as kernels of a value per edge take them, and the dtype of their ids.

        And whether later calls may read the same. ``shapes`` are those of the rows of the operands of ``expr``.
        """

    def array(self, adj: Adjacency, name: str, array: Any) -> int:
        """Return the address of an array, or of a tensor there, that belongs to the structure.

        It is kept with the structure under ``name``.
        """


@lru_cache(maxsize=4096)
def _reads_nodes(expr: Expr) -> bool:
    return any(operand.side is not Side.E for operand in operands_of(expr))


@final
class Cpu:
    """The CPU, which Python runs on."""

    @property
    def queue(self) -> int:
        return active.num_threads()

    kernels = staticmethod(kernels.compiled)

    def structure(self, adj: Adjacency, edges: bool = True) -> tuple[Any, str]:
        prepared = adj.cache.get(_WORDS)
        if prepared is None or (edges and not prepared[3]):
            prepared = self._prepared(adj, edges)
        return prepared[0], prepared[1]

    def _prepared(self, adj: Adjacency, edges: bool) -> tuple[Any, str, Compressed, bool]:
        """Return the words, the dtype, the CSC, and whether its edge ids are among the words; keep them.

        The words hold the addresses of the CSC, so it is kept with them, one and the same as long as the structure
        lives: kernels of other threads read it, and a structure that is restricted to other formats would free it.
        """
        with adj.lock:
            prepared = adj.cache.get(_WORDS)
            if prepared is None or (edges and not prepared[3]):
                csc = adj.csc() if prepared is None else prepared[2]
                complete = edges or csc.has_edge_ids
                addresses = csc.addresses if complete else (*csc.row_addresses, 0)
                words = array("q", (*addresses, adj.num_dst, adj.num_edges))
                prepared = adj.cache[_WORDS] = (words, str(csc.indptr.dtype), csc, complete)
        return prepared

    def edges(self, adj: Adjacency, expr: Expr, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, str, bool]:
        """Return the edges in their order the first time, unless they are sorted by destination; then sorted.

        Sorting takes longer than a value per edge, and saves time when it comes again: edges of one destination share
        its row, which at once is worth it where that is long. Edges that are no more than destinations share little,
        and the empty rows cost more: they are never sorted for this, and neither are those whose nodes nothing reads,
        or where the rows of all destinations stay in a cache.
        """
        edges = adj.cache.get(_EDGE_LIST)
        widths = [prod(shapes[x.slot]) for x in operands_of(expr) if x.side is not Side.E]
        width = max(widths, default=0)
        near = width <= _SHORT_ROW and adj.num_dst * width <= _NEAR
        again = near or edges is not None
        sorts = edges is not None and not (near or edges.stays) and (_WORDS in adj.cache or _reads_nodes(expr))
        if edges is None:
            edges = adj.cache.setdefault(_EDGE_LIST, self._edge_list(adj, width <= _SHORT_ROW))
        structure = self.structure(adj) if sorts or edges.words is None else (edges.words, edges.id_dtype)
        return *structure, again

    def _edge_list(self, adj: Adjacency, short: bool) -> _EdgeList:
        """Return the edges in their order, unless sorting them pays at once; rows of nodes are ``short`` or not."""
        formats = adj.formats
        unsorted = "coo" in formats and "csc" not in formats
        stays = adj.few_edges or (unsorted and adj.num_edges <= adj.num_dst)
        if not stays and not (unsorted and short):
            return _EdgeList(None, "", (), False)
        src, dst = map(np.ascontiguousarray, adj.endpoints())
        words = array("q", (dst.ctypes.data, src.ctypes.data, 0, EDGE_LIST, adj.num_edges))
        return _EdgeList(words, "int32" if dst.itemsize == 4 else "int64", (src, dst), stays)

    def array(self, adj: Adjacency, name: str, array: np.ndarray) -> int:
        return int(array.ctypes.data)


@final
class Gpu:
    """A device that ``runner`` starts kernels on.

    What is copied there is kept for one stream: memory that two streams share would need events between them.
    """

    def __init__(self, runner: Any, device: Any = None) -> None:
        self.runner, self.device = runner, device

    @property
    def queue(self) -> Any:
        return self.runner

    def kernels(self, name: str) -> ModuleType:
        return kernels.compiled(name, "cuda")

    def structure(self, adj: Adjacency, edges: bool = True) -> tuple[Any, str]:
        prepared = adj.cache.get(variant(_ON_GPU, self.runner))
        if prepared is None or (edges and not prepared.ids_known):
            prepared = self._prepared(adj, edges)
        return prepared, prepared.index

    def _prepared(self, adj: Adjacency, edges: bool) -> Any:
        """Return the structure on the GPU and keep it, made once: kernels of other threads read it."""
        with adj.lock:
            prepared = adj.cache.get(variant(_ON_GPU, self.runner))
            if prepared is None:
                prepared = adj.cache[variant(_ON_GPU, self.runner)] = self._fitting(adj)
            if edges:
                prepared.add_edge_ids(self.runner, lambda: adj.csc().edge_ids)
        return prepared

    def _fitting(self, adj: Adjacency) -> Any:
        """Return the CSC on the GPU; an error for too little memory says how much the edges need, and what to do."""
        try:
            return self._copied(adj)
        except active.out_of_memory as error:
            stored = np.dtype(adj.index_dtype).itemsize * (adj.num_dst + 1 + 2 * adj.num_edges)
            error.add_note(
                f"the {adj.num_edges} edges of this relation take {stored} bytes on {self.device} to compute with, and "
                "twice that while they are sorted, beside what features take. A graph that is larger than the device "
                "can stay on the host: train on samples of it, DataLoader(g, ids, sampler, device=...), or give it the "
                "one format that is read first: g = g.formats(['csc'])"
            )
            raise

    def _copied(self, adj: Adjacency) -> Any:
        """Return the CSC on the GPU; sorted there where the host has not done it, or the edges were made there."""
        structure = self.kernels("graph.structure")
        there = adj.made_on(self.device)
        if there is not None:
            (src, dst), index = map(active.contiguous, there), active.dtype(there[0])
            ends, listed = (active.address(dst), active.address(src)), adj.rows_there()
            if listed is not None:
                indptr = _Memory(active.contiguous(arrays_on(self.device).astype(listed[0], index)))
                counts = adj.num_dst, adj.num_edges
                return structure.Structure.of_rows(self.runner, index, *counts, indptr, _Memory(src), listed[1])
            return structure.Structure.sort_there(self.runner, index, *ends, adj.num_dst, adj.num_edges)
        if "csc" in adj.formats:
            csc = adj.csc()
            return structure.Structure.upload(self.runner, csc.indptr, csc.indices)
        src, dst = adj.endpoints()
        return structure.Structure.sort(self.runner, dst, src, adj.num_dst)

    def memory(self, tensor: Tensor) -> _Memory:
        """Return a tensor on this device as memory that kernels take."""
        return _Memory(active.contiguous(tensor))

    def tensor(self, memory: Any, count: int, dtype: str) -> Tensor:
        """Return the numbers that a kernel has left in memory of this device as a tensor of ``dtype`` in it."""
        return arrays_on(self.device).viewed(memory.tensor, dtype)[:count]

    def edges(self, adj: Adjacency, expr: Expr, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, str, bool]:
        return *self.structure(adj), True

    def array(self, adj: Adjacency, name: str, array: Any) -> int:
        key = variant(_ARRAYS_ON_GPU, name, self.runner)
        upload = adj.cache.get(key)
        if upload is None:
            memory = _Memory(active.contiguous(array)) if active.is_tensor(array) else self.runner.upload(array)
            upload = adj.cache.setdefault(key, memory)
        return int(upload.address)


HOST = Cpu()


class RunnerMaker(Protocol):
    """What makes kernels run on one type of devices."""

    def why_unavailable(self) -> str:
        """Return why no kernel can be started on such a device; nothing where they can."""

    def runner(self, number: int, stream: int, allocator: Any) -> Any:
        """Return what starts kernels on a stream of device ``number``."""


class _Cuda:
    """NVIDIA's GPUs."""

    def why_unavailable(self) -> str:
        return str(kernels.compiled("run.launch", "cuda").why_unavailable())

    def runner(self, number: int, stream: int, allocator: Any) -> Any:
        return kernels.compiled("run.launch", "cuda").StreamRunner(number, stream, allocator)


RUNNERS: dict[str, RunnerMaker] = {"cuda": _Cuda()}
"""By the type of a device, what runs kernels there."""


def why_no_kernels(device: Any) -> str:
    """Return why operations on tensors of ``device`` are composed of the library's own; nothing where kernels run."""
    kind = str(device).partition(":")[0]
    if kind == "cpu":
        return ""
    return RUNNERS[kind].why_unavailable() if kind in RUNNERS else f"dglite has no kernels for {kind} devices"


def device_of(x: Tensor) -> KernelDevice:
    """Return what works on ``x``, in the order of the tensor library's current stream."""
    if active.on_cpu(x):
        return HOST
    device = active.device(x)
    return _gpu(device, active.stream(device))


def device_on(device: Any) -> KernelDevice:
    """Return what samples from a graph on ``device`` and numbers its nodes, in the order of the current stream.

    That is the host for a device on which no kernel can be started: it has the structure in any case.
    """
    if str(device) == "cpu" or why_no_kernels(device):
        return HOST
    return _gpu(device, active.stream(device))


@lru_cache(maxsize=256)
def _gpu(device: Any, stream: int) -> Gpu:
    kind, _, number = str(device).partition(":")
    return Gpu(RUNNERS[kind].runner(int(number or 0), stream, _Allocator(device)), device)


class _Allocator:
    """Memory of a device from the tensor library, which hands it out again in the order of the stream."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def empty(self, num_bytes: int) -> _Memory:
        return _Memory(active.empty((num_bytes,), "uint8", self.device))

    def upload(self, array: np.ndarray) -> _Memory:
        whole = array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C")
        return _Memory(active.from_numpy(whole, self.device))


class _Memory:
    """A tensor as memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.address = tensor, active.address(tensor)
