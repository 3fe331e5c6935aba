"""Partitioned embedding tables: rows are sent to the ranks that read them, gradients to the owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..backend import Tensor
from ..errors import DGLError
from ..nn import NodeEmbedding
from .checkpoint import from_original_order, in_original_order
from .fetch import send_to_owners
from .tensor import DistTensor, PartitionPolicy


class DistEmbedding(NodeEmbedding):
    """An embedding table with a row for each node of a type, partitioned like the graph.

    :class:`dglite.distributed.optim.SparseAdam` and ``SparseAdagrad`` train it, row by row; each row, and what an
    optimizer keeps for it, is on the rank that owns the node. Making and calling the table, and ``optimizer.step()``,
    are exchanges: all ranks make them, also those that have nothing to read. A row that was read several times, by
    whichever ranks, has the mean of its gradients.

    Raises DGLError: there is no policy; on any rank, it is for another number of rows, or ``init_func`` returns another
    shape.

    Parameters
    ----------
    num_embeddings, embedding_dim
        rows, as many as there are nodes, and columns.
    name
        the key of the table's state in an optimizer's ``state_dict()``.
    init_func
        fills the rows that this rank owns, float32 (rows, embedding_dim), and returns them; 0 unless given.
    part_policy
        who owns which rows: ``g.get_node_partition_policy(ntype)``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str,
        init_func: Callable[[Tensor], Tensor] | None = None,
        part_policy: PartitionPolicy | None = None,
    ) -> None:
        def rows(shape: tuple[int, ...], dtype: Any) -> Tensor:
            table = torch.zeros(shape, dtype=dtype)
            return table if init_func is None else init_func(table)

        def table() -> DistTensor:
            shape = num_embeddings, embedding_dim
            return DistTensor(shape, torch.float32, f"embeddings {name!r}", rows, part_policy)

        if isinstance(part_policy, PartitionPolicy):
            self._rows = part_policy.exchange.together(f"making embeddings {name!r}", table)
        else:
            self._rows = table()  # raises
        self.weight, self.optm_state, self.trace = self._rows.local, None, []
        self.num_embeddings, self.embedding_dim, self.name = num_embeddings, embedding_dim, name
        self.world_size = self._rows.exchange.world

    def _rows_at(self, node_ids: Tensor) -> Tensor:
        return self._rows.rows(node_ids)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._rows.exchange.rank

    @property
    def dist_tensor(self) -> DistTensor:
        """The table as a :class:`DistTensor`; ``weight`` is the rows that this rank owns."""
        return self._rows

    def gathered_gradients(self, read: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
        """Return the places of the rows that this rank owns and all ranks' gradients of them."""
        table, exchange = self._rows, self._rows.exchange
        ids, grads = super().gathered_gradients(read) or (torch.empty(0, dtype=torch.int64), table.local[:0])
        ids, grads = ids.cpu(), grads.cpu().to(table.dtype)
        step, failed = f"gradients of {table.name}", self._not_finite(grads)
        rows = ids.numpy().astype(np.int64, copy=False)
        places, values = send_to_owners(exchange, step, "gradients", table.ranges, rows, grads, failed)
        return (torch.from_numpy(places), values) if len(places) else None

    def _not_finite(self, grads: Tensor) -> DGLError | None:
        if bool(torch.isfinite(grads).all()):
            return None
        return DGLError(f"gradients of {self._rows.name} are not finite; the loss is NaN or infinite")

    def wait_for_writes(self) -> None:
        """Wait until all ranks have changed their rows, where others read them without asking."""
        if self._rows.shared is not None:
            self._rows.exchange.barrier()

    # -- the whole table ---------------------------------------------------------------------------------------------
    def all_set_embedding(self, values: Tensor) -> None:
        """Write the whole table, of which each rank takes its rows; all ranks call it.

        Raises ``DGLError`` for another shape.
        """
        if tuple(values.shape) != self._rows.shape:
            raise DGLError(f"{self._rows.name}: got shape {tuple(values.shape)}; expected {self._rows.shape}")
        with torch.no_grad():
            self.weight.copy_(values[slice(*self._rows.ranges.range_of(self.rank))])
        self.wait_for_writes()

    def all_get_embedding(self) -> Tensor:
        """Return the whole table, on the CPU; all ranks call it."""
        return self._rows.rows(np.arange(self.num_embeddings))

    def state_dict(self) -> dict[str, Tensor]:
        """Return ``weight``, a ``DTensor`` of rows in the nodes' order before partitioning; all ranks call it.

        ``torch.distributed.checkpoint`` saves and loads it, and that of a sparse optimizer, for any number of ranks.
        """
        return {"weight": in_original_order(self._rows, self.weight)}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Read what :meth:`state_dict` gave, or a whole table in that order; all ranks call it.

        Raises DGLError: the state has other keys, or another shape.
        """
        if set(state_dict) != {"weight"} or tuple(state_dict["weight"].shape) != self._rows.shape:
            shapes = {key: tuple(value.shape) for key, value in state_dict.items()}
            raise DGLError(f"{self._rows.name}: expected a weight of shape {self._rows.shape}, got {shapes}")
        self.weight.copy_(from_original_order(self._rows, state_dict["weight"]))
        self._rows.set_cache(())

    def all_get_optm_state(self) -> list[Tensor]:
        """Return what an optimizer keeps, in the nodes' order before partitioning; all ranks call it."""
        return [in_original_order(self._rows, state) for state in self.optm_state or ()]

    def all_set_optm_state(self, states: Sequence[Tensor]) -> None:
        """Write what an optimizer keeps, given in that order; all ranks call it."""
        super().all_set_optm_state([from_original_order(self._rows, state) for state in states])
