"""``dgl.distributed.DistGraph`` and ``DistEmbedding``: with one-sided reads, and DGL's order of arguments."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from ...backend import Tensor
from ...distributed import DistEmbedding as TrainedTable
from ...distributed import DistGraph as PartitionedGraph
from ...distributed import TensorNames
from ...distributed.collectives import Alone, Collectives
from ...errors import DGLError
from . import kvstore, rpc
from .context import has_group
from .loaders import DistEdgeDataLoader, DistNodeDataLoader


class OneSidedGraph(PartitionedGraph):
    """A partitioned graph whose rows each rank reads whenever it likes; all ranks make it.

    Parameters
    ----------
    graph_name
        name that the graph was partitioned under.
    gpb
        accepted: the partition book is read with the parts.
    part_config
        the JSON file that ``partition_graph`` wrote; by default the one that the launcher was given.
    options
        see :class:`dglite.distributed.DistGraph`.
    """

    def __init__(self, graph_name: str, gpb: Any = None, part_config: Any = None, **options: Any) -> None:
        path = os.environ.get("DGL_CONF_PATH") if part_config is None else part_config
        if path is None:
            raise DGLError("give part_config=, the JSON file of the partition, or --part_config to the launcher")
        super().__init__(graph_name, path, **{"reads": "one-sided", **options})
        self._client = kvstore.open_kvstore(self)
        rpc.connect(self)

    def _collectives(self, timeout: float) -> Collectives:
        """Return the exchanges between all processes; of a process that was started alone, without a process group.

        So that a script may make the process group after the graph.
        """
        return Collectives(timeout) if has_group() else Alone(0, 1, timeout)

    def node_loader(self, *args: Any, **options: Any) -> DistNodeDataLoader:
        """Return a loader of batches of nodes."""
        return DistNodeDataLoader(self, *args, **options)

    def edge_loader(self, *args: Any, **options: Any) -> DistEdgeDataLoader:
        """Return a loader of batches of edges."""
        return DistEdgeDataLoader(self, *args, **options)

    def is_pinned(self) -> bool:
        """Return False: structure is mapped from a file."""
        return False

    @property
    def _ndata_store(self) -> Any:
        return self._store("node")

    @property
    def _edata_store(self) -> Any:
        return self._store("edge")

    def _store(self, kind: str) -> Any:
        frames = self._frames[kind]
        return next(iter(frames.values())) if len(frames) == 1 else frames


class DistGraphServer:
    """Accepts DGL's arguments; ranks read each other's rows, so that there is nothing to serve."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.arguments = args, kwargs

    def start(self) -> None:
        """Return at once."""


class NamedEmbedding(TrainedTable):
    """An embedding table, as :class:`dglite.distributed.DistEmbedding`, whose ``init_func`` gets a shape and a dtype.

    Without a name, tables are numbered; without a policy, the only type with as many nodes or edges is meant.
    """

    _count = 0

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str | None = None,
        init_func: Callable[..., Tensor] | None = None,
        part_policy: Any = None,
    ) -> None:
        if name is None:
            name, NamedEmbedding._count = f"embeddings {NamedEmbedding._count}", NamedEmbedding._count + 1
        if part_policy is None:
            part_policy = TensorNames.policy_for(num_embeddings)

        def rows(table: Tensor) -> Tensor:
            assert init_func is not None
            if len(inspect.signature(init_func).parameters) == 1:
                return init_func(table)
            return init_func(tuple(table.shape), torch.float32)

        super().__init__(num_embeddings, embedding_dim, name, None if init_func is None else rows, part_policy)
