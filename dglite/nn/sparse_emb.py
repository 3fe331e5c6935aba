"""An embedding table that is trained by the optimizers of :mod:`dglite.optim`, which update only the rows in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arguments import explain_constructors
from ..backend import Tensor, framework
from ..errors import DGLError
from ..io.shared_arrays import call_once_and_share
from . import functional
from .base import require_torch


@explain_constructors
class NodeEmbedding:
    """A table of embeddings for nodes, of which a step reads and updates few rows.

    It is no parameter of a module: calling it returns rows that a loss is derived by, and
    :class:`dglite.optim.SparseAdam` or :class:`dglite.optim.SparseAdagrad` changes the rows that were read. It needs
    torch. In a group of several processes, all on one machine, they share one table on the CPU: each makes it, by the
    same name, and calls the optimizer's ``step`` as often; a row is then changed by the gradients of all. On several
    machines, :class:`dglite.distributed.DistEmbedding` is the same.

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

    Attributes
    ----------
    weight
        The whole table, (num_embeddings, embedding_dim).
    world_size
        How many processes share the table: 1 in a group of one, 0 without a group.
    trace
        The ids and rows that calls returned, whose gradients an optimizer reads.
    optm_state
        What an optimizer keeps for the table, or None.
    """

    _is_shared = False  # by several processes

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str,
        init_func: Callable[[Tensor], Tensor] | None = None,
        device: Any = None,
        partition: Any = None,
    ) -> None:
        require_torch(self)
        functional.require_sizes(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        group = framework.distributed
        ranks = group.get_world_size() if group.is_available() and group.is_initialized() else 0
        place = framework.device("cpu" if device is None else device)
        if partition is not None or (ranks > 1 and place.type != "cpu"):
            raise DGLError(
                f"NodeEmbedding {name!r} would be cut among {ranks} processes, device={device!r}, "
                f"partition={partition!r}; dglite shares such tables whole, on the CPU of one machine. Leave both out, "
                "or use dglite.distributed.DistEmbedding"
            )
        self.num_embeddings, self.embedding_dim, self.name = num_embeddings, embedding_dim, name
        self.world_size, self._is_shared = ranks, ranks > 1

        def make_table() -> Tensor:
            table = framework.zeros(num_embeddings, embedding_dim, device=place)
            table = table if init_func is None else init_func(table)
            if tuple(table.shape) != (num_embeddings, embedding_dim):
                raise DGLError(
                    f"NodeEmbedding {name!r}: init_func returned shape {tuple(table.shape)}; expected "
                    f"{(num_embeddings, embedding_dim)}"
                )
            return table

        shape = num_embeddings, embedding_dim
        self.weight = self._shared(make_table, shape, framework.float32) if self._is_shared else make_table()
        self.optm_state: tuple[Tensor, ...] | None = None
        self.trace: list[tuple[Tensor, Tensor]] = []

    def __call__(self, node_ids: Tensor, device: Any = "cpu") -> Tensor:
        """Return the rows (ids, embedding_dim) on a device; where gradients are recorded, optimizers learn of them."""
        if not framework.is_tensor(node_ids) or node_ids.is_floating_point():
            raise DGLError(
                f"{type(self).__name__} takes a tensor of integers, the numbers of rows; got {node_ids!r:.60}"
            )
        rows = self._rows_at(node_ids).to(device)
        if framework.is_grad_enabled():
            rows.requires_grad_()
            self.trace.append((node_ids.to(device), rows))
        return rows

    def _rows_at(self, node_ids: Tensor) -> Tensor:
        return self.weight.detach()[node_ids.to(self.weight.device)]

    @property
    def rank(self) -> int:
        """The number of this process in its group, -1 without a group."""
        return framework.distributed.get_rank() if self.world_size else -1

    def _shared(self, make: Callable[[], Tensor], shape: Sequence[int], dtype: Any) -> Tensor:
        """Return in shared memory what the first process makes."""
        with framework.no_grad():
            return call_once_and_share(make, shape, dtype)

    @property
    def store(self) -> None:
        """None: processes find the table in shared memory by themselves."""
        return None

    @property
    def partition(self) -> None:
        """None: the table is not cut."""
        return None

    # -- what optimizers ask for ------------------------------------------------------------------------------------
    def gathered_gradients(self, read: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
        """Return ids, and gradients (ids, embedding_dim), of what was read; None where nothing was.

        Where processes share the table, they are those that all have read, of rows that this one has to change.
        """
        if not (read or self._is_shared):
            return None
        ids = framework.cat([ids.reshape(-1) for ids, _ in read]) if read else framework.zeros(0, dtype=framework.int64)
        grads = [grad.reshape(-1, self.embedding_dim) for _, grad in read]
        of_rows = framework.cat(grads) if read else self.weight[:0]
        return self._of_all(ids.cpu().long(), of_rows.cpu()) if self._is_shared else (ids, of_rows)

    def _of_all(self, ids: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
        """Return what all processes have, of those rows that this one changes: every ``world_size``-th."""
        group, world = framework.distributed, self.world_size
        counts = [framework.zeros(1, dtype=framework.int64) for _ in range(world)]
        group.all_gather(counts, framework.tensor([len(ids)]))
        most = max(map(int, counts))
        gathered = []
        for mine in (ids, grads):
            padded = mine.new_zeros(most, *mine.shape[1:])
            padded[: len(mine)] = mine
            parts = [framework.empty_like(padded) for _ in range(world)]
            group.all_gather(parts, padded)
            gathered.append(framework.cat([part[: int(count)] for part, count in zip(parts, counts, strict=True)]))
        is_own = gathered[0] % world == self.rank
        return gathered[0][is_own], gathered[1][is_own]

    def wait_for_writes(self) -> None:
        """Wait until all processes that share the table have changed their rows."""
        if self._is_shared:
            framework.distributed.barrier()

    def reset_trace(self, trace: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        """Forget what calls returned, all but ``trace``."""
        self.trace = list(trace)

    def set_optm_state(self, state: tuple[Tensor, ...]) -> None:
        """Set what an optimizer keeps for the table; processes that share it share a copy of this, too."""
        if self._is_shared:
            state = tuple(self._shared(lambda x=x: x, tuple(x.shape), x.dtype) for x in state)  # type: ignore[misc]
        self.optm_state = state

    # -- the whole table --------------------------------------------------------------------------------------------
    def all_set_embedding(self, values: Tensor) -> None:
        """Write the whole table. Raises ``DGLError`` for another shape."""
        if values.shape != self.weight.shape:
            raise DGLError(
                f"NodeEmbedding {self.name!r}: got a table of shape {tuple(values.shape)}; expected "
                f"{tuple(self.weight.shape)}"
            )
        with framework.no_grad():
            self.weight.copy_(values)
        self.wait_for_writes()

    def all_get_embedding(self) -> Tensor:
        """Return the whole table, on the CPU."""
        return self.weight.detach().cpu()

    def all_get_optm_state(self) -> Sequence[Tensor]:
        """Return what an optimizer keeps, on the CPU."""
        return tuple(state.cpu() for state in self.optm_state or ())

    def all_set_optm_state(self, states: Sequence[Tensor]) -> None:
        """Write what an optimizer keeps."""
        for stored, state in zip(self.optm_state or (), states, strict=True):
            stored.copy_(state)
        self.wait_for_writes()
