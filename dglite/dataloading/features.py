"""Feature stores: tensors, files larger than memory, and a cache of the most used rows.

A :class:`FeatureStore` gives rows. Samplers take stores in place of names: ``prefetch_node_feats={"x": store}``, or by
type ``{"paper": {"x": store}}``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active, backend_of
from ..errors import DGLError
from ..locks import new_lock
from ..structure.distinct import distinct
from ..structure.ids import as_ids, count_of
from .buffers import buffers_here
from .row_files import READERS, DirectRows, Readers, mapped_rows, open_direct, sorted_rows

_WIDENED = {"float16": "widen_float16", "bfloat16": "widen_bfloat16", "int8": "widen_int8"}
_NO_POSITIONS = np.empty(0, np.int64)
_DIRECT_BYTES = 1 << 25
"""Bytes that direct I/O reads before they are widened."""
_COPIED = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
_PROBE, _AT_ONCE = 64, 1 << 15
"""Rows read to measure whether a file's pages are in memory, and rows of each run after that."""
_IN_MEMORY = 4e-6
"""Seconds a row takes at most whose page is in memory. A disk takes a hundred microseconds for one."""


@runtime_checkable
class FeatureStore(Protocol):
    """Rows of features of one kind, in memory or not."""

    @property
    def num_rows(self) -> int:
        """Rows that there are: one for each node, or edge, of a type."""
        ...

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, shape (len(ids), *feat); written to ``out`` and that returned where it is given.

        Called from the threads of a loader, several at a time.
        """
        ...


class _Stored:
    """A store of rows that lie one after the other somewhere in memory.

    Attributes
    ----------
    num_rows, shape
        rows, and the shape of one.
    dtype
        name of the dtype of the result: float32 for widened rows.
    """

    def __init__(self, array: np.ndarray, stored: str, scale: Any, widen: bool) -> None:
        self._array = array
        self.num_rows, self.shape = len(array), array.shape[1:]
        self._count = int(np.prod(self.shape, dtype=np.int64))
        self._widen = _WIDENED.get(stored) if widen else None
        self._scales = _scales(scale, self.num_rows)
        if (stored == "int8" and widen) != (scale is not None):
            raise DGLError(
                f"a scale is for int8 features that are widened to float32; the features are {stored}, "
                + ("and have none: give scale=, or widen=False" if scale is None else "so give no scale")
            )
        self.dtype = "float32" if self._widen else stored
        if self._widen is None and stored not in _COPIED:
            raise DGLError(f"features are {stored}, which is not gathered; expected some of {sorted(_COPIED)}")

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, or write them to ``out`` and return that.

        Raises DGLError: an id is no row, or ``out`` has another shape or dtype or is not contiguous.
        """
        rows = np.ascontiguousarray(as_ids(ids, self.num_rows, "row"))
        target, result = target_of((len(rows), *self.shape), self.dtype, out)
        self.gather(rows, _NO_POSITIONS, target)
        return result

    def gather(self, rows: np.ndarray, places: np.ndarray, target: np.ndarray, run: Any = None) -> None:
        """Write row ``rows[i]`` to ``target[places[i]]``, or to ``target[i]`` without places; nothing is checked.

        ``run`` calls the kernel, :meth:`_run` unless given.
        """
        self._copy(self._array, self._scales, rows, places, target, self._run if run is None else run)

    def _copy(
        self, array: np.ndarray, scales: np.ndarray, rows: np.ndarray, places: np.ndarray, target: np.ndarray, run: Any
    ) -> None:
        """Write rows of an array as :meth:`gather` does."""
        kernels, source, to = _kernels(), array.ctypes.data, target.ctypes.data
        factors = (scales,) if self._widen == "widen_int8" else ()
        if self._widen is None:
            function, size = kernels.gather.copy_rows, self._count * array.itemsize
        else:
            function, size = getattr(kernels.gather, self._widen), self._count
        run(function, len(rows), len(rows) * self._count, source, size, *factors, rows, places, to)

    def _run(self, function: Any, num_rows: int, work: int, *arguments: Any) -> None:
        _kernels().rows.run_rows(function, num_rows, work // 4, active.num_threads(), *arguments)


@final
class TensorFeatures(_Stored):
    """Features in a tensor or array in the host's memory, which is not copied.

    Raises DGLError: the tensor has no rows to index, is elsewhere or of a dtype that is not gathered, or the scale does
    not fit.

    Parameters
    ----------
    x
        features of shape (num_rows, *feat).
    scale
        for int8 features: what they are multiplied by, one number or one for each row.
    widen
        whether float16 and int8 come out as float32; else as they are.
    """

    def __init__(self, x: Any, scale: Any = None, widen: bool = True) -> None:
        library = backend_of(x)
        if library is not None and not library.on_cpu(x):
            raise DGLError(f"the features are on {library.device(x)}; a store is for features in the host's memory")
        if library is not None and library.dtype(x) == "bfloat16":
            raise DGLError("a tensor of bfloat16 is not shared; keep it in a file: see MappedFeatures")
        array = np.ascontiguousarray(np.asarray(x) if library is None else library.to_numpy(x))
        if array.ndim == 0:
            raise DGLError("features have one row for each node or edge; got a single number")
        super().__init__(array, str(array.dtype), scale, widen)


@final
class MappedFeatures(_Stored):
    """Features in a NumPy file (``.npy``), of which only the requested rows are read.

    Several threads read at a time, so that a disk has several requests to serve, and pages around those that are asked
    for are not read. The file must not be made shorter while it is open.

    Raises DGLError: there is no such file, it is no such array, it is shorter than its header says, or dtype or scale
    do not fit. When rows are read: the file has become shorter.

    Parameters
    ----------
    path
        a file that ``numpy.save`` wrote, or ``numpy.lib.format.open_memmap``: an array of shape (num_rows, *feat) in C
        order.
    dtype
        ``"bfloat16"`` for a file of uint16 that are bfloat16's bits; otherwise the file's own.
    scale
        for int8 features: what they are multiplied by, one number or one for each row.
    widen
        whether float16, bfloat16 and int8 come out as float32; bfloat16 always does.
    direct
        read past the page cache (O_DIRECT): for a file much larger than memory, whose pages would only drive out other
        files'. Each call reads its rows again, so let :class:`ScheduledFeatures` or :class:`CachedFeatures` keep them.
        Where the file system refuses that, the reason is logged, and pages are read.

    Attributes
    ----------
    path
        the file.
    direct
        the open file, with counts ``reads`` and ``bytes_read``, or None.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dtype: str | None = None,
        scale: Any = None,
        widen: bool = True,
        direct: bool = False,
    ) -> None:
        array, self._map, start = mapped_rows(Path(path))
        stored = str(array.dtype)
        if dtype is not None and dtype != stored:
            if (dtype, stored) != ("bfloat16", "uint16"):
                raise DGLError(f"{path} holds {stored}, not {dtype}; only bfloat16 is kept as another dtype, uint16")
            stored, widen = dtype, True
        super().__init__(array, stored, scale, widen)
        self.path, self._arguments = Path(path), (path, dtype, scale, widen, direct)
        self._readers, self._row_bytes = Readers(), self._count * array.itemsize
        self.direct = open_direct(self.path, start, self._row_bytes) if direct and array.nbytes else None

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedFeatures, self._arguments

    def gather(self, rows: np.ndarray, places: np.ndarray, target: np.ndarray, run: Any = None) -> None:
        if self.direct is not None:
            self._gather_past_cache(self.direct, rows, places, target)
            return
        size, needed = (0, 0) if self._map is None else (self._map.size(), len(self._map))
        if size < needed:
            raise DGLError(
                f"{self.path} was cut short while it is open: it had {needed} bytes, it has {size}; write it anew and "
                "open it again"
            )
        # The threads that compute read runs of rows, as long as pages are in memory; then readers, which wait for them.
        first, last, run = 0, _PROBE, None
        while first < len(rows):
            part, start = slice(first, last), time.perf_counter()
            super().gather(rows[part], places[part], target if len(places) else target[part], run)
            late = run is None and time.perf_counter() - start > _IN_MEMORY * (last - first)
            run = self._run_readers if late else None
            first, last = last, len(rows) if late else last + _AT_ONCE

    def _gather_past_cache(self, direct: DirectRows, rows: np.ndarray, places: np.ndarray, target: np.ndarray) -> None:
        """Read rows in ascending order; what is to be widened comes part by part, to memory of its own before."""
        at_once = len(rows) if self._widen is None else max(_DIRECT_BYTES // self._row_bytes, 1)
        for first in range(0, len(rows), max(at_once, 1)):
            part = slice(first, first + at_once)
            into = places[part] if len(places) else np.arange(len(rows))[part]
            ids, ordered = sorted_rows(rows[part], into)
            if self._widen is None:
                self._run_readers(direct.read, len(ids), 0, ids, ordered, target.ctypes.data)
                continue
            raw, positions = np.empty((len(ids), self._count), self._array.dtype), np.arange(len(ids))
            self._run_readers(direct.read, len(ids), 0, ids, positions, raw.ctypes.data)
            scales = self._scales[ids] if len(self._scales) > 1 else self._scales
            self._copy(raw, scales, positions, ordered, target, self._run)

    def _run_readers(self, function: Any, num_rows: int, work: int, *arguments: Any) -> None:
        shares = min(4 * READERS, 1 + num_rows // 512)
        if shares == 1:
            function(*arguments, 0, num_rows)
            return
        bounds = [num_rows * i // shares for i in range(shares + 1)]
        readers = self._readers.here()
        done = [readers.submit(function, *(*arguments, bounds[i], bounds[i + 1])) for i in range(shares)]
        for share in done:
            share.result()


@final
class CachedFeatures:
    """A feature store with a cache of some rows in memory.

    Raises DGLError: an id is no row of the store.

    Parameters
    ----------
    store
        where the other rows come from.
    ids
        the rows to keep, such as :func:`hot_rows` chooses; they are read now.

    Attributes
    ----------
    num_rows
        of the store.
    hits, misses
        rows found in the cache, and not, since it was made.
    """

    def __init__(self, store: Any, ids: Any) -> None:
        cached_ids = distinct(as_ids(ids, store.num_rows, "row"))
        self._store, self.num_rows = store, store.num_rows
        self._cache = TensorFeatures(store.rows(cached_ids), widen=False)
        self._slots = np.full(store.num_rows, -1, np.int32)
        self._slots[cached_ids] = np.arange(len(cached_ids), dtype=np.int32)
        self.hits = self.misses = 0
        self._counting = new_lock()

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found in the cache; 0 before any was asked for."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, as the store does."""
        rows = np.ascontiguousarray(as_ids(ids, self.num_rows, "row"))
        target, result = target_of((len(rows), *self._cache.shape), self._cache.dtype, out)
        slots = self._slots[rows]
        hits, misses = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        self._cache.gather(slots[hits], hits, target)
        if len(misses):
            gather_into(self._store, rows[misses], misses, target)
        with self._counting:
            self.hits += len(hits)
            self.misses += len(misses)
        return result


def gather_into(store: Any, rows: np.ndarray, places: np.ndarray, target: np.ndarray) -> None:
    """Write row ``rows[i]`` of a store to ``target[places[i]]``."""
    if isinstance(store, _Stored):
        store.gather(rows, places, target)
    else:
        target[places] = active.to_numpy(store.rows(rows))


@explained
def hot_rows(loader: Iterable[Any], num_rows: int, capacity: int, ntype: Any = None) -> np.ndarray:
    """Return the nodes that a loader's batches need most often, for :class:`CachedFeatures`.

    The loader is gone through once (pre-sampling, as GNNLab does); give it a sampler that prefetches nothing.

    Raises DGLError: a batch has no nodes of the type, or ``capacity`` is no count.

    Parameters
    ----------
    loader
        gives batches that begin with their input nodes.
    num_rows
        nodes of the type.
    capacity
        nodes wanted; fewer are returned where batches need no more.
    ntype
        type of the nodes, where there are several.
    """
    capacity, counts = count_of(capacity, "capacity"), np.zeros(num_rows, np.int64)
    for batch in loader:
        nodes = batch[0]
        if isinstance(nodes, Mapping):
            if ntype not in nodes:
                raise DGLError(f"a batch has input nodes of types {list(nodes)}; give one of them as ntype")
            nodes = nodes[ntype]
        np.add.at(counts, as_ids(nodes, num_rows), 1)
    order = np.argsort(-counts, kind="stable")[:capacity]
    return order[counts[order] > 0]


# -- tensors -----------------------------------------------------------------------------------------------------------
def take_rows(source: Tensor, rows: np.ndarray) -> Tensor:
    """Return rows of a tensor: in this thread's buffers where it has some and no gradient is recorded."""
    if not active.is_tensor(source) or not active.on_cpu(source) or active.requires_grad(source):
        return active.take(source, rows)
    name, shape = active.dtype(source), active.shape(source)
    if name not in _COPIED or active.is_sparse(source) or active.contiguous(source) is not source:
        return active.take(source, rows)
    dtype, count = np.dtype(name), int(np.prod(shape[1:], dtype=np.int64))
    target = buffers_here(len(rows) * count * dtype.itemsize)
    if target.nbytes:
        run, copy = _kernels().rows.run_rows, _kernels().gather.copy_rows
        # A row of any width is a step to anywhere in memory.
        width, work = count * dtype.itemsize, len(rows) * (1 + count // 4)
        arguments = active.address(source), width, np.ascontiguousarray(rows), _NO_POSITIONS, target.ctypes.data
        run(copy, len(rows), work, active.num_threads(), *arguments)
    return active.from_numpy(target.view(dtype).reshape(len(rows), *shape[1:]))


# -- arguments ---------------------------------------------------------------------------------------------------------
@cache
def _kernels() -> SimpleNamespace:
    # Imported at the first gather: importing LLVM takes 0.05 s, and `import dglite` must not pay it.
    from ..kernels.cpu.graph import gather
    from ..kernels.cpu.run import rows

    return SimpleNamespace(gather=gather, rows=rows)


def target_of(shape: tuple[int, ...], dtype: str, out: Any) -> tuple[np.ndarray, Any]:
    """Return an array to write to, and what to return: a tensor over its memory, or ``out``."""
    if out is None:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        array = buffers_here(size).view(dtype).reshape(shape)
        return array, active.from_numpy(array)
    library = backend_of(out)
    array = np.asarray(out) if library is None else library.to_numpy(out)
    fits = array.shape == shape and str(array.dtype) == dtype and array.flags.c_contiguous and array.flags.writeable
    if not fits or (library is not None and not library.on_cpu(out)):
        raise DGLError(f"out is {array.shape} {array.dtype}; expected contiguous {shape} {dtype} in the host's memory")
    return array, out


def _scales(scale: Any, num_rows: int) -> np.ndarray:
    if scale is None:
        return np.ones(1, np.float32)
    array = np.ascontiguousarray(active.to_numpy(scale) if active.is_tensor(scale) else scale, np.float32).reshape(-1)
    if len(array) not in (1, num_rows):
        raise DGLError(f"there are {len(array)} scales; expected one, or one for each of {num_rows} rows")
    return array
