"""Stages of a pipe: objects that turn a batch into a batch, which any iterable pipe of torch's may stand between."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import IterDataPipe
from torch.utils.data.datapipes.iter import Mapper

from ...dataloading.order import check_count
from ...dataloading.transfer import moved
from .minibatch import MiniBatch

__all__ = [
    "Bufferer",
    "CombineCachedAndFetchedInSubgraph",
    "CopyTo",
    "EndMarker",
    "FeatureFetcherStartMarker",
    "FetchInsubgraphData",
    "MiniBatchTransformer",
    "Prefetcher",
    "Waiter",
    "datapipe_graph_to_adjlist",
    "find_dps",
    "replace_dp",
    "to_graph",
    "traverse_dps",
]


def functional(name: str) -> Callable[[Any], Any]:
    """Let every pipe have a stage as a method, as torch's ``functional_datapipe`` does; DGL's own, if loaded, stays."""

    def register(stage: Any) -> Any:
        if name not in IterDataPipe.functions:
            IterDataPipe.register_datapipe_as_function(name, stage)
        return stage

    return register


@functional("transform")
class MiniBatchTransformer(IterDataPipe):
    """A stage: applies a function to each batch.

    Subclasses may also define the function as a method and pass it to ``super().__init__``. :class:`DataLoader` calls
    stages from its threads, for several batches at a time: keep no state in ``self``, and draw random numbers from
    ``dgl.random`` or ``dglite.random.generator()``.

    Raises TypeError: ``transformer`` is no function; when a batch comes: it did not return a MiniBatch for a MiniBatch.

    Parameters
    ----------
    datapipe
        the pipe before.
    transformer
        a function of the batch, which returns a batch; None for the batch as it is.
    """

    def __init__(self, datapipe: Any, transformer: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        if transformer is not None and not callable(transformer):
            raise TypeError(f"a stage must be a function of the batch, got {transformer!r}")
        self.datapipe, self.transformer = datapipe, transformer

    def __iter__(self) -> Iterator[Any]:
        return _iterate(self)

    def __call__(self, batch: Any) -> Any:
        """Return a batch after this stage."""
        if self.transformer is None:
            return batch
        result = self.transformer(batch)
        if isinstance(batch, MiniBatch) and not isinstance(result, MiniBatch):
            raise TypeError(f"stage {_name(self)} returned {type(result).__name__}; it must return the MiniBatch")
        return result


def _name(stage: MiniBatchTransformer) -> str:
    if type(stage) is not MiniBatchTransformer:
        return type(stage).__name__
    function = stage.transformer
    function = getattr(function, "func", function)  # of functools.partial
    return f"transform({getattr(function, '__qualname__', type(function).__name__)})"


def source_of(pipe: Any) -> Any:
    """Return the pipe that a pipe reads from: its attribute that is one, or None."""
    return next((x for x in vars(pipe).values() if isinstance(x, IterDataPipe)), None)


def applied_by(pipe: Any) -> Callable[[Any], Any] | None:
    """Return the function that a pipe applies to each item, or None where it iterates in a way of its own."""
    if isinstance(pipe, MiniBatchTransformer) and type(pipe).__iter__ is MiniBatchTransformer.__iter__:
        return pipe
    if isinstance(pipe, Mapper) and type(pipe).__iter__ is Mapper.__iter__:
        return pipe._apply_fn  # type: ignore[no-any-return]
    return None


def rewired(pipe: Any, source: Any) -> Any:
    """Return a copy of a pipe that reads from ``source``."""
    copied = copy.copy(pipe)
    old = source_of(pipe)
    for name, value in vars(pipe).items():
        if value is old:
            setattr(copied, name, source)
    return copied


def _iterate(stage: Any) -> Iterator[Any]:
    """Yield the batches of a pipe whose last stages are applied to each, without a loader."""
    functions: list[Callable[[Any], Any]] = []
    pipe = stage
    while (function := applied_by(pipe)) is not None:
        functions.insert(0, function)
        pipe = source_of(pipe)
    if pipe is None:
        raise TypeError(f"stage {_name(stage)} has no pipe before it that gives batches")
    if hasattr(pipe, "batches"):
        yield from pipe.batches(functions)
        return
    for batch in pipe:
        for function in functions:
            batch = function(batch)
        yield batch


@functional("copy_to")
class CopyTo(MiniBatchTransformer):
    """Moves batches, or whatever else a pipe gives, to a device.

    Parameters
    ----------
    device
        where to.
    non_blocking
        accepted; a loader copies on a stream of its own.
    """

    def __init__(self, datapipe: Any, device: Any, non_blocking: Any = False) -> None:
        super().__init__(datapipe, self._copy)
        self.device = device

    def _copy(self, batch: Any) -> Any:
        return batch.to(self.device) if hasattr(batch, "to") else moved(batch, self.device)


class _AsItIs(MiniBatchTransformer):
    """A stage that only marks a place, or stands for work that threads of the loader do anyway; takes any arguments."""

    def __init__(self, datapipe: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(datapipe)


@functional("mark_end")
class EndMarker(_AsItIs):
    """Marks the end of a pipe."""


@functional("mark_feature_fetcher_start")
class FeatureFetcherStartMarker(_AsItIs):
    """Marks where features begin to be fetched."""


@functional("fetch_insubgraph_data")
class FetchInsubgraphData(_AsItIs):
    """Does nothing: in-edges need not be fetched before sampling."""


@functional("combine_cached_and_fetched_insubgraph")
class CombineCachedAndFetchedInSubgraph(_AsItIs):
    """Does nothing: in-edges are not cached."""


@functional("wait")
class Waiter(_AsItIs):
    """Waits for batches, which are ready."""

    def __call__(self, batch: Any) -> Any:
        if not isinstance(batch, MiniBatch) and hasattr(batch, "wait"):
            batch.wait()
        return batch


@functional("buffer")
class Bufferer(_AsItIs):
    """Keeps batches ready, which :class:`DataLoader` does by its threads: see ``num_workers``."""

    def __init__(self, datapipe: Any, buffer_size: int = 1) -> None:
        super().__init__(datapipe)
        self.buffer_size = check_count(buffer_size, "buffer_size", 1)


@functional("prefetch")
class Prefetcher(Bufferer):
    """Keeps batches ready; see :class:`Bufferer`."""

    def __init__(self, datapipe: Any, buffer_size: int = 10) -> None:
        super().__init__(datapipe, buffer_size)


# -- chains of pipes ---------------------------------------------------------------------------------------------------
DataPipeGraph = dict[int, tuple[Any, Any]]


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """Return ``{id(pipe): (pipe, the same of the pipes that it reads from)}``."""
    sources = [x for x in vars(datapipe).values() if isinstance(x, IterDataPipe)]
    return {id(datapipe): (datapipe, {key: x for source in sources for key, x in traverse_dps(source).items()})}


def datapipe_graph_to_adjlist(datapipe_graph: DataPipeGraph) -> dict[int, tuple[Any, list[int]]]:
    """Return for each pipe of :func:`traverse_dps`, by id, the pipe and the ids of those that it reads from."""
    listed: dict[int, tuple[Any, list[int]]] = {}
    for key, (pipe, sources) in datapipe_graph.items():
        listed[key] = pipe, list(sources)
        listed.update(datapipe_graph_to_adjlist(sources))
    return listed


def find_dps(graph: DataPipeGraph, dp_type: type) -> list[Any]:
    """Return the pipes of a type, each once."""
    return [pipe for pipe, _ in datapipe_graph_to_adjlist(graph).values() if type(pipe) is dp_type]


def replace_dp(graph: DataPipeGraph, old_datapipe: Any, new_datapipe: Any) -> DataPipeGraph:
    """Let the pipes that read from a pipe read from another one, and return the new graph."""
    (last, _), *_ = graph.values()
    if last is old_datapipe:
        return traverse_dps(new_datapipe)
    for pipe, _ in datapipe_graph_to_adjlist(graph).values():
        for name, value in list(vars(pipe).items()):
            if value is old_datapipe and pipe is not new_datapipe:
                setattr(pipe, name, new_datapipe)
    return traverse_dps(last)


def to_graph(dp: Any, *, debug: bool = False) -> Any:
    """Return a picture of the chain of pipes, a ``graphviz.Digraph``.

    Raises ImportError: graphviz is not installed.
    """
    import graphviz  # type: ignore[import-not-found]  # optional

    picture = graphviz.Digraph()
    while dp is not None:
        source = source_of(dp)
        picture.node(str(id(dp)), type(dp).__name__)
        if source is not None:
            picture.edge(str(id(source)), str(id(dp)))
        dp = source
    return picture
