"""An embedding table that is trained by the optimizers of :mod:`dglite.optim`, which update only the rows in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backend import Tensor, framework
from ..errors import DGLError
from . import functional

__all__ = ["NodeEmbedding"]


class NodeEmbedding:
    """A table of embeddings for nodes, of which a step reads and updates few rows.

    It is no parameter of a module: calling it returns rows that a loss is derived by, and
    :class:`dglite.optim.SparseAdam` or :class:`dglite.optim.SparseAdagrad` changes the rows that were read. One process
    only, and torch: in a group of several processes it raises ``DGLError``; there,
    :class:`dglite.distributed.DistEmbedding` is the same, and ``torch.nn.Embedding(..., sparse=True)`` in
    ``DistributedDataParallel`` for tables that each process can hold.

    Parameters
    ----------
    num_embeddings, embedding_dim
        Rows and columns.
    name
        The key of the table's state in an optimizer's ``state_dict()``.
    init_func
        Fills the table, float32 (num_embeddings, embedding_dim), and returns it; 0 unless given.
    device
        Where the table is; the CPU unless given.
    partition
        How rows are shared between processes in DGL: must be None.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str,
        init_func: Callable[[Tensor], Tensor] | None = None,
        device: Any = None,
        partition: Any = None,
    ) -> None:
        functional.require_torch(self)
        group = framework.distributed
        ranks = group.get_world_size() if group.is_available() and group.is_initialized() else 0
        if ranks > 1 or partition is not None:
            raise DGLError(
                f"NodeEmbedding {name!r} would be shared by {ranks} processes, partition={partition!r}; dglite keeps "
                "such tables in one process. Use dglite.distributed.DistEmbedding, or torch.nn.Embedding(..., "
                "sparse=True) in DistributedDataParallel"
            )
        table = framework.zeros(num_embeddings, embedding_dim, device="cpu" if device is None else device)
        self._tensor = table if init_func is None else init_func(table)
        if tuple(self._tensor.shape) != (num_embeddings, embedding_dim):
            raise DGLError(
                f"NodeEmbedding {name!r}: init_func returned shape {tuple(self._tensor.shape)}; expected "
                f"{(num_embeddings, embedding_dim)}"
            )
        self._num_embeddings, self._embedding_dim, self._name = num_embeddings, embedding_dim, name
        self._world_size = ranks
        self._optm_state: tuple[Tensor, ...] | None = None
        self._trace: list[tuple[Tensor, Tensor]] = []

    def __call__(self, node_ids: Tensor, device: Any = "cpu") -> Tensor:
        """Return the rows (ids, embedding_dim) on a device; where gradients are recorded, optimizers learn of them."""
        rows = self._rows_at(node_ids).to(device)
        if framework.is_grad_enabled():
            rows.requires_grad_()
            self._trace.append((node_ids.to(device), rows))
        return rows

    def _rows_at(self, node_ids: Tensor) -> Tensor:
        return self._tensor.detach()[node_ids.to(self._tensor.device)]

    @property
    def weight(self) -> Tensor:
        """The whole table, (num_embeddings, embedding_dim)."""
        return self._tensor

    @property
    def num_embeddings(self) -> int:
        """How many rows there are."""
        return self._num_embeddings

    @property
    def embedding_dim(self) -> int:
        """How many columns there are."""
        return self._embedding_dim

    @property
    def name(self) -> str:
        """The name that the table was given."""
        return self._name

    @property
    def rank(self) -> int:
        """The number of this process: 0 in a group of one, -1 without a group."""
        return 0 if self._world_size else -1

    @property
    def world_size(self) -> int:
        """How many processes there are: 1 in a group of one, 0 without a group."""
        return self._world_size

    @property
    def store(self) -> None:
        """None: nothing is shared between processes."""
        return None

    @property
    def partition(self) -> None:
        """None: nothing is shared between processes."""
        return None

    # -- what optimizers ask for ------------------------------------------------------------------------------------
    @property
    def trace(self) -> list[tuple[Tensor, Tensor]]:
        """The ids and rows that calls returned, whose gradients an optimizer reads."""
        return self._trace

    def _gathered(self, read: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
        """Return ids, and gradients (ids, embedding_dim), of what was read; None where nothing was."""
        if not read:
            return None
        ids = framework.cat([ids.reshape(-1) for ids, _ in read])
        return ids, framework.cat([grad.reshape(-1, self._embedding_dim) for _, grad in read])

    def reset_trace(self) -> None:
        """Forget what calls returned."""
        self._trace = []

    @property
    def optm_state(self) -> tuple[Tensor, ...] | None:
        """What an optimizer keeps for the table."""
        return self._optm_state

    def set_optm_state(self, state: tuple[Tensor, ...]) -> None:
        """Set what an optimizer keeps for the table."""
        self._optm_state = state

    # -- the whole table --------------------------------------------------------------------------------------------
    def all_set_embedding(self, values: Tensor) -> None:
        """Write the whole table. Raises ``DGLError`` for another shape."""
        if values.shape != self._tensor.shape:
            raise DGLError(
                f"NodeEmbedding {self._name!r}: got a table of shape {tuple(values.shape)}; expected "
                f"{tuple(self._tensor.shape)}"
            )
        with framework.no_grad():
            self._tensor.copy_(values)

    def all_get_embedding(self) -> Tensor:
        """Return the whole table, on the CPU."""
        return self._tensor.detach().cpu()

    def _all_get_optm_state(self) -> Sequence[Tensor]:
        """Return what an optimizer keeps, on the CPU."""
        return tuple(state.cpu() for state in self._optm_state or ())

    def _all_set_optm_state(self, states: Sequence[Tensor]) -> None:
        """Write what an optimizer keeps."""
        for own, state in zip(self._optm_state or (), states, strict=True):
            own.copy_(state)
