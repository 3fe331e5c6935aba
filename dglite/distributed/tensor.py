"""``DistTensor``: each rank stores the rows of its part; other rows are fetched from their owners."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from ..backend import Tensor
from ..errors import DGLError
from ..structure.distinct import distinct
from .book import PartitionBook, Ranges
from .collectives import Collectives
from .fetch import fetch, send_to_owners
from .store import RowStore, SharedRows

Initializer = Callable[[tuple[int, ...], Any], Tensor]
"""Of a shape and a dtype, makes a tensor."""


@final
class PartitionPolicy:
    """Which rank owns which rows of a tensor, and how ranks read them.

    Parameters
    ----------
    exchange
        the collectives of the ranks.
    ranges
        the ids of each rank.
    original
        ids of this rank's rows before the graph was partitioned; None if they are the same.
    store
        for one-sided reads and writes; None for collective ones.
    book, names
        the partition book and the persistent tensors of the graph, if the policy is that of a graph.
    """

    def __init__(
        self,
        exchange: Collectives,
        ranges: Ranges,
        original: Tensor | None = None,
        store: RowStore | None = None,
        book: PartitionBook | None = None,
        names: TensorNames | None = None,
    ) -> None:
        self.exchange, self.ranges, self.original, self.store = exchange, ranges, original, store
        self.partition_book, self.names = book, names

    @property
    def is_node(self) -> bool:
        """Whether rows are those of nodes, not of edges."""
        return self.ranges.kind == "node"

    @property
    def type_name(self) -> Any:
        """The type of the nodes or edges."""
        return self.ranges.type

    @property
    def policy_str(self) -> str:
        """``"node~user"`` or ``"edge~user:buys:item"``."""
        type_ = self.type_name
        return f"{self.ranges.kind}~{':'.join(type_) if isinstance(type_, tuple) else type_}"

    def to_partid(self, ids: Any) -> Tensor:
        """Return the rank that owns each row."""
        return torch.from_numpy(self.ranges.owners(self.ranges.checked(ids)))

    @property
    def part_id(self) -> int:
        """The part of this rank."""
        return self.exchange.rank

    def get_size(self) -> int:
        """Return the number of rows of all ranks."""
        return self.ranges.count

    def get_part_size(self) -> int:
        """Return the number of rows of this rank."""
        first, last = self.ranges.range_of(self.exchange.rank)
        return last - first


@final
class TensorNames:
    """The persistent tensors of a graph by name, and the policies that tensors without one are given.

    ``policies``, a method of the graph, returns the policy of each type of nodes and of edges. The graph that was
    opened last counts.
    """

    _last: TensorNames | None = None

    def __init__(self, policies: Callable[[], Sequence[PartitionPolicy]]) -> None:
        self._policies = weakref.WeakMethod(policies)
        self.tensors: dict[tuple[str, str], DistTensor] = {}
        TensorNames._last = self

    @classmethod
    def policy_for(cls, count: int) -> PartitionPolicy:
        """Return the only policy with ``count`` rows. Raises ``DGLError`` where there are several or none."""
        of_graph = None if cls._last is None else cls._last._policies()
        policies = [] if of_graph is None else of_graph()
        fitting = [policy for policy in policies if policy.get_size() == count]
        if len(fitting) == 1:
            return fitting[0]
        types = ", ".join(f"{policy.ranges.label}s: {policy.get_size()}" for policy in (fitting or policies))
        raise DGLError(
            f"{'several' if fitting else 'no'} types have {count} rows ({types or 'no DistGraph is open'}); give "
            "part_policy=g.get_node_partition_policy(ntype) or g.get_edge_partition_policy(etype)"
        )


@final
class DistTensor:
    """A tensor with a row for each node, or edge, of a type, partitioned like the graph.

    Making one is a collective: all ranks call it. So are reading and writing rows, each rank with its own ids, or
    without ids; unless the graph was opened with ``reads="one-sided"``, where each rank reads and writes
    at any moment, and ``g.barrier()`` is what orders writes of one rank and reads of another.

    Raises DGLError: there is no policy; it, the shape and what ``init_func`` makes do not fit; a persistent tensor has
    no name, or one of its name has another shape or dtype.

    Parameters
    ----------
    shape, dtype
        of the whole tensor; there is a row for each id of the policy.
    name
        for errors; alike on all ranks.
    init_func
        of a shape and a dtype, makes the rows that this rank owns; zeros by default.
    part_policy
        which rank owns which rows: ``g.get_node_partition_policy(ntype)`` or ``g.get_edge_partition_policy(etype)``;
        None means the only type of the open graph with as many nodes or edges as there are rows.
    persistent
        rows live as long as the graph: another tensor that is made with this name and policy has the same rows, and
        ``init_func`` is not called again. It needs a name.
    is_gdata, attach
        accepted for DGL's sake.

    Attributes
    ----------
    local
        the rows that this rank owns. Writing to it is this rank's own business.
    shared
        the rows of all ranks if reads are one-sided, else None.
    hits, misses
        rows of others that were found in the cache, and not.
    version
        how often the rows were written by id, which empties caches.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        name: str | None = None,
        init_func: Initializer | None = None,
        part_policy: PartitionPolicy | None = None,
        persistent: bool = False,
        is_gdata: bool = True,
        attach: bool = True,
    ) -> None:
        shape = tuple(shape)
        if part_policy is None and shape:
            part_policy = TensorNames.policy_for(shape[0])
        if not isinstance(part_policy, PartitionPolicy):
            raise DGLError(
                f"a DistTensor needs a part_policy, got {part_policy!r}; see g.get_node_partition_policy(ntype)"
            )
        self.shape, self.dtype, self.part_policy = shape, dtype, part_policy
        self.exchange, self.ranges = part_policy.exchange, part_policy.ranges
        self.name = f"a tensor of {self.ranges.label}s" if name is None else name
        if self.shape[:1] != (self.ranges.count,):
            raise DGLError(f"{self.name} has shape {self.shape}; expected {self.ranges.count} rows")
        if persistent and name is None:
            raise DGLError("a persistent DistTensor needs a name, by which others refer to its rows")
        self.hits = self.misses = self.version = 0
        key, names = (self.ranges.label, self.name), {} if part_policy.names is None else part_policy.names.tensors
        if key in names:
            self.shared, self.local = self._rows_of(names[key])
        else:
            self.shared, self.local = self._new_rows(init_func)
        self._cached_ids, self.cached_rows = np.empty(0, np.int64), self.local[:0]
        if persistent:
            names.setdefault(key, self)

    def _rows_of(self, other: DistTensor) -> tuple[SharedRows | None, Tensor]:
        """Return the rows of the persistent tensor of this name."""
        if (other.shape, other.dtype) != (self.shape, self.dtype):
            raise DGLError(
                f"the persistent tensor {self.name!r} has shape {other.shape} and {other.dtype}; got {self.shape} and "
                f"{self.dtype}: use another name"
            )
        return other.shared, other.local

    def _new_rows(self, init_func: Initializer | None) -> tuple[SharedRows | None, Tensor]:
        expected = (self.part_policy.get_part_size(), *self.shape[1:])
        local = torch.zeros(expected, dtype=self.dtype) if init_func is None else init_func(expected, self.dtype)
        if tuple(local.shape) != expected or local.dtype != self.dtype:
            raise DGLError(
                f"{self.name}: init_func made {tuple(local.shape)} {local.dtype}; expected {expected} {self.dtype}"
            )
        store = self.part_policy.store
        if store is None:
            return None, local
        shared = store.share(self.name, self.ranges, local)
        return shared, shared.local

    def __len__(self) -> int:
        return self.ranges.count

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the rows of all ranks, which are a tensor when they are loaded.

        Raises ``DGLError``: reads are collective, and a single rank pickles.
        """
        if self.shared is None and self.exchange.world > 1:
            raise DGLError(f"{self.name} is on several ranks: read it on all of them, x[:], and save what that returns")
        return self[:].__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"DistTensor({self.name}, shape={self.shape}, dtype={self.dtype}, {len(self.local)} rows here)"

    @property
    def num_rows(self) -> int:
        """Rows of all ranks."""
        return self.ranges.count

    @property
    def tensor_name(self) -> str:
        """The name."""
        return self.name

    def count_nonzero(self) -> int:
        """Return the number of elements of all ranks that are not 0; all ranks call it."""
        counts = self.exchange.gather_objects(f"counting {self.name}", int(torch.count_nonzero(self.local)))
        return sum(counts)

    @property
    def local_partition(self) -> Tensor:
        """The rows that this rank owns."""
        return self.local

    def __getitem__(self, ids: Any) -> Tensor:
        return self.rows(ids)

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, shape (len(ids), *feat), of any rank; all ranks call it unless reads are one-sided.

        Raises RankError: on any rank, an id is no integer or does not exist, or another tensor is read. If reads are
        one-sided: the owner of a row is on another machine, and is gone or does not answer; DGLError: If reads are
        one-sided, an id is no integer or does not exist.
        """
        if self.shared is not None:
            rows = self.shared.read(self.checked(ids))
        else:
            (rows,) = fetch(self.exchange, [(self, ids)])
        return rows if out is None else out.copy_(rows)

    def __setitem__(self, ids: Any, values: Any) -> None:
        """Write rows of any rank; all ranks call it unless writes are one-sided.

        Of a row that several ranks write, the last rank's stays; if writes are one-sided, that of any of them.
        """
        if self.shared is not None:
            rows, new = self._checked_write(ids, values)
            last = _last_of_each(rows)
            self.shared.write(rows[last], new[torch.from_numpy(last)])
            return
        rows, new, failed = np.empty(0, np.int64), self.local[:0], None
        try:
            rows, new = self._checked_write(ids, values)
        except Exception as error:
            failed = error
        step = f"writing {self.name}"
        places, received = send_to_owners(self.exchange, step, "features", self.ranges, rows, new, failed)
        last = _last_of_each(places)
        with torch.no_grad():
            self.local[torch.from_numpy(places[last])] = received[torch.from_numpy(last)]
        self.set_cache(())

    def _checked_write(self, ids: Any, values: Any) -> tuple[np.ndarray, Tensor]:
        rows = self.checked(ids)
        return rows, torch.as_tensor(values, dtype=self.dtype).detach().expand(len(rows), *self.shape[1:])

    def checked(self, ids: Any) -> np.ndarray:
        """Return ids as int64; a slice is a range of ids."""
        return self.ranges.checked(range(*ids.indices(self.ranges.count)) if isinstance(ids, slice) else ids)

    # -- the cache ---------------------------------------------------------------------------------------------------
    def cache(self, ids: Any) -> None:
        """Cache rows of other ranks, such as :func:`dglite.dataloading.hot_rows` chooses; all ranks call it.

        Writing to any row of the tensor empties the cache of every rank.
        """
        if self.shared is not None:
            raise DGLError(f"{self.name} is read one-sidedly, without a cache; open the graph with reads='collective'")
        checked = self.exchange.together(f"caching {self.name}", lambda: distinct(self.ranges.checked(ids)))
        foreign = checked[self.ranges.outside(checked, self.exchange.rank)]
        self.set_cache(())
        rows = self.rows(foreign)
        self.set_cache(foreign, rows)

    def set_cache(self, ids: Any, rows: Tensor | None = None) -> None:
        """Set what is in the cache, by ascending ids, and reset the counters."""
        self._cached_ids, self.version = np.asarray(ids, np.int64), self.version + 1
        self.cached_rows, self.hits, self.misses = self.local[:0] if rows is None else rows, 0, 0

    @property
    def hit_rate(self) -> float:
        """The share of other ranks' rows that were found in the cache; 0 before the first request."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def cache_positions(self, ids: np.ndarray) -> np.ndarray:
        """Return the positions of ids in the cache, -1 for ids that are not in it."""
        if not len(self._cached_ids):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(self._cached_ids, ids), len(self._cached_ids) - 1)
        return np.where(self._cached_ids[at] == ids, at, -1)

    def count(self, hits: int, misses: int) -> None:
        """Count rows of other ranks that were in the cache, and not."""
        self.hits += hits
        self.misses += misses

    def keep(self, ids: np.ndarray, rows: Tensor) -> None:
        """Do nothing with rows that were read: :meth:`cache` says what is cached."""


def _last_of_each(ids: np.ndarray) -> np.ndarray:
    """Return the last position of each distinct id: index_put does not say which of two equal ids it writes."""
    return len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
