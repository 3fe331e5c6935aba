"""``DataLoader``, and its older names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from .. import hints
from ..backend import active
from ..errors import DGLError, warn_deprecated
from ..graph import DGLGraph
from ..graph.storage import canonical_device
from ..ops.devices import Gpu, device_on
from .base import Sampler
from .buffers import Buffers
from .edge_sampler import EdgePredictionSampler
from .items import Items
from .loader import Loader, Progress, shortened
from .schedule import Schedule, scheduled_stores
from .transfer import Transfer, moved, on_gpu

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Batch = TypeVarWithDefault("Batch", default=Any)
else:
    Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)


class Samples(Protocol[Batch_co]):
    """A sampler to type checkers, which take what it returns for what the loader yields."""

    def sample(self, g: DGLGraph, indices: Any, /) -> Batch_co: ...


_OF_EDGES = ("g_sampling", "exclude", "reverse_eids", "reverse_etypes", "negative_sampler")


_OF_TORCH = ("dataset", "collate_fn")
"""Arguments of torch's loader that Lightning gives again when it makes one like another: ``indices`` are the first."""


class DataLoader(Loader, Generic[Batch]):
    """Iterates over batches of indices as a sampler makes them of a graph.

    Raises DGLError: there are no indices, they are not integers, or they and the sampler do not fit the graph;
    TypeError: ``graph`` is not a graph, there is an unknown argument, or one of another type, such as a
    ``worker_init_fn`` that is no function; ValueError: a number is out of range, a flag is neither True nor False, or
    arguments exclude each other.

    Parameters
    ----------
    graph
        the graph to sample from.
    indices
        integers, or a dictionary of them by type: ids of nodes or edges, or what else ``graph_sampler`` takes.
    graph_sampler
        an object with ``sample(graph, indices)``, commonly a :class:`Sampler`; batches are what it returns.
    device
        where to put graphs and tensors of a batch; the graph's by default.
    use_ddp, ddp_seed
        give each process of ``torch.distributed`` its share: disjoint, except for some items repeated so that all have
        the same number of batches. Shuffling is by ``ddp_seed``, alike in all processes.
    batch_size, drop_last, shuffle
        indices in a batch; whether to leave out a last batch that is smaller; whether to shuffle in each epoch.
    use_alternate_streams
        False copies to a GPU on the trainer's stream. By default, with workers, they gather features into page-locked
        memory and copy on a stream of their own.
    use_prefetch_thread, pin_prefetcher, use_uva, gpu_cache
        accepted for DGL's sake.
    num_workers
        threads of this process that sample, and gather the features to prefetch, ahead. Batches are the same for any
        number, 0 included, in which case ``next`` does it.
    generator
        torch's or NumPy's, from which the seed of shuffling and sampling is drawn; by default it follows
        :func:`dglite.seed`.
    sampler, batch_sampler
        positions in ``indices``, or lists of them: torch's samplers, instead of ``shuffle`` and ``batch_size``.
    prefetch_factor
        batches that are made or wait at a time, for each thread. By default one for each core at work and two more, at
        most 2 for each thread: more threads than cores need no more memory.
    worker_init_fn
        called in each thread with its number.
    kwargs
        ``pin_memory``, ``persistent_workers``, ``timeout``, ``multiprocessing_context`` are accepted for torch's sake.

    Notes
    -----
    An exception while a batch is made is raised where the batch would have come, with a note of its indices; the loader
    can be iterated again.
    """

    def __init__(
        self,
        graph: DGLGraph,
        indices: Any,
        graph_sampler: Samples[Batch],
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        use_prefetch_thread: bool | None = None,
        use_alternate_streams: bool | None = None,
        pin_prefetcher: bool | None = None,
        use_uva: bool = False,
        gpu_cache: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(graph, DGLGraph):
            raise TypeError(f"DataLoader: {hints.not_a_graph(graph)}")
        if not callable(getattr(graph_sampler, "sample", None)):
            raise TypeError(
                f"{type(graph_sampler).__name__} is no sampler: it has no method sample(graph, indices); pass one such "
                "as NeighborSampler([10, 10])"
            )
        if isinstance(graph_sampler, type):
            raise TypeError(f"{graph_sampler.__name__} is a class; construct it: {graph_sampler.__name__}(...)")
        kwargs = {key: value for key, value in kwargs.items() if key not in _OF_TORCH}
        self._items = Items(indices)
        super().__init__(len(self._items), batch_size, drop_last, shuffle, use_ddp, ddp_seed, **kwargs)
        if isinstance(graph_sampler, Sampler):
            graph_sampler.check(graph, indices)
        self.graph, self.indices, self.graph_sampler = graph, indices, graph_sampler
        self.dataset = self._items if isinstance(indices, Mapping) else indices
        self.device, self.use_uva = graph.device if device is None else device, use_uva
        self._target, self._transfer = device, None
        if device is not None:
            canonical_device(device)  # which says that there is none, before the first batch
        if on_gpu(device):
            self._buffers = Buffers(page_locked=True)
            if self.num_workers and use_alternate_streams is not False:
                self._transfer = Transfer(device)

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Batch]: ...

    def _prepare(self) -> None:
        if self._transfer is not None:
            self._transfer.begin()
        make_formats(self.graph, self.graph_sampler)

    def _maker(self, progress: Progress, batches: list[np.ndarray]) -> Callable[[int], Any]:
        make, stores = super()._maker(progress, batches), scheduled_stores(self.graph_sampler)
        if not stores:
            return make
        draws, sample, g, items = self._draws(progress.epoch), self.graph_sampler.sample, self.graph, self._items

        def sampled(position: int) -> None:
            with draws(position):
                sample(g, items.at(batches[position]))

        in_flight = self._ahead() + 1 if self.num_workers else 2
        schedule = Schedule(sampled, progress.position, len(batches), stores, self.num_workers, in_flight)

        def scheduled(position: int) -> Any:
            with schedule.batch(position):
                return make(position)

        return scheduled

    def _make(self, positions: np.ndarray) -> Any:
        batch = self.graph_sampler.sample(self.graph, self._items.at(positions))
        if self._transfer is not None:
            return self._transfer.copy(batch)
        return batch if self._target is None else moved(batch, self._target)

    def _received(self, batch: Any) -> None:
        if self._transfer is not None:
            self._transfer.received(batch)

    def _describe(self, positions: np.ndarray) -> str:
        seeds = self._items.at(positions)
        if isinstance(seeds, Mapping):
            return "indices " + ", ".join(f"{key!r}: {shortened(active.to_numpy(ids))}" for key, ids in seeds.items())
        return f"indices {shortened(active.to_numpy(seeds))}"


def make_formats(graph: DGLGraph, sampler: Any) -> None:
    """Make the sparse formats that a sampler reads on the host, before threads need them."""
    if isinstance(device_on(graph.device), Gpu):
        return
    formats = sampler.formats if isinstance(sampler, Sampler) else Sampler.formats
    for adjacency in graph.adjacencies:
        for format_ in formats:
            if format_ not in adjacency.allowed:
                continue
            if format_ == "coo":
                adjacency.endpoints()
            else:
                (adjacency.csc() if format_ == "csc" else adjacency.csr()).make_edge_ids()


class NodeDataLoader(DataLoader):
    """Deprecated: :class:`DataLoader` of nodes."""

    def __init__(self, g: DGLGraph, nids: Any, graph_sampler: Any, *args: Any, **kwargs: Any) -> None:
        warn_deprecated("NodeDataLoader", "use DataLoader")
        super().__init__(g, nids, graph_sampler, *args, **kwargs)


class EdgeDataLoader(DataLoader):
    """Deprecated: :class:`DataLoader` of edges by :func:`as_edge_prediction_sampler`, which takes the other arguments.

    ``g_sampling``, ``exclude``, ``reverse_eids``, ``reverse_etypes`` and ``negative_sampler`` are given by name. Blocks
    are of ``g_sampling`` where it is given, from which no edges are then left out.
    """

    def __init__(self, g: DGLGraph, eids: Any, graph_sampler: Any, *args: Any, **kwargs: Any) -> None:
        warn_deprecated("EdgeDataLoader", "use DataLoader with as_edge_prediction_sampler(graph_sampler, ...)")
        of_edges: EdgePredictionSampler[Any] = EdgePredictionSampler(
            graph_sampler, **{x: kwargs.pop(x) for x in _OF_EDGES if x in kwargs}
        )
        super().__init__(g, eids, of_edges, *args, **kwargs)


class DistDataLoader:
    """Batches of a graph over several machines, in processes that each hold a part; see :mod:`dglite.distributed`."""

    _method = "loader"

    def __new__(cls, g: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loader that ``dgl.distributed.DistGraph`` makes. Raises ``DGLError`` for another graph."""
        make = getattr(g, cls._method, None)
        if make is None:
            raise DGLError(
                f"{cls.__name__} loads from a graph over several machines: use that of dglite.distributed; for "
                "processes that each hold the whole graph use DataLoader(..., use_ddp=True)"
            )
        return make(*args, **kwargs)


class DistNodeDataLoader(DistDataLoader):
    """See :class:`DistDataLoader`."""

    _method = "node_loader"


class DistEdgeDataLoader(DistDataLoader):
    """See :class:`DistDataLoader`."""

    _method = "edge_loader"
