"""``GraphDataLoader``: batches of the graphs of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

import numpy as np

from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from .collator import GraphCollator
from .dataloader import Batch, Batch_co
from .loader import Loader
from .order import check_function


class Indexed(Protocol[Batch_co]):
    """What has a length and items by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Batch_co: ...


class GraphDataLoader(Loader, Generic[Batch]):
    """Iterates over batches of a data set whose samples are graphs, alone or with labels.

    Raises DGLError: the data set is empty; TypeError: the data set has no length or items, or ``collate_fn`` is no
    function; ValueError: a number is out of range, a flag is neither True nor False, or arguments exclude each other.

    Parameters
    ----------
    dataset
        a sequence: anything with ``__len__`` and ``__getitem__``, called from the worker threads.
    collate_fn
        makes a batch of a list of samples; by default :class:`GraphCollator`'s, by which graphs become one batched
        graph. With ``batch_size=None`` it is called with each sample, if it is given.
    use_ddp, ddp_seed
        as for :class:`DataLoader`.
    kwargs
        ``batch_size`` (1), ``shuffle``, ``drop_last``, ``num_workers``, ``generator``, ``sampler``, ``batch_sampler``
        and what else :class:`DataLoader` takes.
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Batch]: ...

    @overload
    def __init__(self, dataset: Any, collate_fn: Callable[[list[Any]], Batch], **kwargs: Any) -> None: ...
    @overload
    def __init__(self: GraphDataLoader[DGLGraph], dataset: Indexed[DGLGraph], **kwargs: Any) -> None: ...
    @overload  # a list of two at run time, of which checkers know the type of each as a tuple
    def __init__(
        self: GraphDataLoader[tuple[DGLGraph, Tensor]], dataset: Indexed[tuple[DGLGraph, Any]], **kwargs: Any
    ) -> None: ...
    @overload
    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None: ...
    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        if not (callable(getattr(dataset, "__len__", None)) and callable(getattr(dataset, "__getitem__", None))):
            raise TypeError(
                f"a {type(dataset).__name__} has no length or no items; make it a list, or use torch's DataLoader with "
                "collate_fn=GraphCollator().collate"
            )
        if isinstance(dataset, DGLGraph):
            raise TypeError(
                "GraphDataLoader takes a data set or list of graphs, got one graph; sample from one graph by "
                "DataLoader(g, node_ids, NeighborSampler([10, 10]))"
            )
        super().__init__(len(dataset), batch_size, drop_last, shuffle, use_ddp, ddp_seed, **kwargs)
        self.dataset = dataset
        collate = check_function(collate_fn, "collate_fn")
        self.collate_fn = GraphCollator().collate if collate is None and batch_size is not None else collate

    def set_epoch(self, epoch: int) -> None:
        """Do as :meth:`DataLoader.set_epoch`, with ``use_ddp`` only, as in DGL.

        Raises DGLError: ``use_ddp`` was not set.
        """
        if not self.use_ddp:
            raise DGLError("set_epoch is for use_ddp=True; otherwise epochs count themselves")
        super().set_epoch(epoch)

    def _make(self, positions: np.ndarray) -> Any:
        samples = [self.dataset[i] for i in positions.tolist()]
        if self.batch_size is None:
            return samples[0] if self.collate_fn is None else self.collate_fn(samples[0])
        assert self.collate_fn is not None
        return self.collate_fn(samples)
