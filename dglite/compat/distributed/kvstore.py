"""``dgl.distributed.kvstore``: tensors of the open graph by name."""

from __future__ import annotations

from typing import Any

from ...distributed import DistTensor
from ...errors import DGLError

_clients: list[KVClient] = []


class KVClient:
    """Reads and writes rows of a graph's tensors by their names, such as ``"node~_N~x"`` or ``"edge~_N:_E:_N~w"``."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    @property
    def partition_book(self) -> Any:
        """The partition book."""
        return self.graph.get_partition_book()

    @property
    def client_id(self) -> int:
        """The number of this process."""
        rank: int = self.graph.rank()
        return rank

    def barrier(self) -> None:
        """Wait for all processes."""
        self.graph.barrier()

    def _tensors(self) -> dict[str, DistTensor]:
        tensors: dict[str, DistTensor] = {}
        for kind in ("node", "edge"):
            for type_ in self.partition_book.ranges_by_type(kind):
                label = f"{kind}~{':'.join(type_) if isinstance(type_, tuple) else type_}"
                tensors |= {f"{label}~{name}": tensor for name, tensor in self.graph.frame(kind, type_).items()}
        return tensors

    def gdata_name_list(self) -> list[str]:
        """Return the names of the graph's features."""
        return list(self._tensors())

    def data_name_list(self) -> list[str]:
        """Return the names of the graph's features and of persistent tensors."""
        return [*self._tensors(), *(name for _, name in self.graph.names.tensors)]

    def _tensor(self, name: str) -> DistTensor:
        tensors = self._tensors() | {key: tensor for (_, key), tensor in self.graph.names.tensors.items()}
        if name not in tensors:
            raise DGLError(f"there is no tensor {name!r}; there are {sorted(tensors)}")
        return tensors[name]

    def get_data_meta(self, name: str) -> tuple[Any, tuple[int, ...], Any]:
        """Return the dtype, the shape and the policy of a tensor."""
        tensor = self._tensor(name)
        return tensor.dtype, tensor.shape, tensor.part_policy

    def pull(self, name: str, id_tensor: Any) -> Any:
        """Return rows."""
        return self._tensor(name)[id_tensor]

    def push(self, name: str, id_tensor: Any, data_tensor: Any) -> None:
        """Write rows."""
        self._tensor(name)[id_tensor] = data_tensor


def open_kvstore(graph: Any) -> KVClient:
    """Make a graph the one whose tensors :func:`get_kvstore` has."""
    _clients[:] = [KVClient(graph)]
    return _clients[0]


def get_kvstore() -> KVClient:
    """Return the tensors of the graph that was opened last. Raises ``DGLError`` where none was."""
    if not _clients:
        raise DGLError("no DistGraph is open")
    return _clients[0]


def close_kvstore() -> None:
    """Forget the open graph."""
    _clients.clear()
