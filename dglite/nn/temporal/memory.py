"""What nodes remember of their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from .. import functional
from ..base import TorchLayer, nn
from .timeencoding import TimeEncoding


@final
class TGNMemory(TorchLayer):
    r"""Memory of nodes that events update, of Rossi et al., "Temporal graph networks for deep learning on dynamic
    graphs", 2020.

    An event of nodes i and j at time t leaves each a message; of several in a batch the latest counts. A node's memory
    is updated when it is next needed, so that the loss of a batch trains what the batch before it left:

    .. math:: s_i \leftarrow \mathrm{GRU}\big(\mathrm{message}([s_i \| s_j \| e_{ij}(t) \| \phi(t - t_i)]), s_i\big)

    where :math:`t_i` is the time of i's last update. State, and messages that wait, are buffers: they are saved by
    ``state_dict``. Everything is done for all nodes of a batch at once. It needs torch.

    Parameters
    ----------
    num_nodes
        Number of nodes.
    raw_msg_dim, memory_dim, time_dim
        Sizes of an event's features, of the memory and of the encoding of times.
    message_module
        Maps messages (n, 2 * memory_dim + raw_msg_dim + time_dim) to (n, message_dim); None leaves them as they are.
    message_dim
        Size of what ``message_module`` returns; not needed without one.

    Shapes
    ------
    nodes (n,) -> memory (n, memory_dim), times of the last update (n,), float64
    """

    memory: Tensor
    last_update: Tensor
    _other: Tensor
    _raw_msg: Tensor
    _time: Tensor
    _waits: Tensor

    def __init__(
        self,
        num_nodes: int,
        raw_msg_dim: int,
        memory_dim: int,
        time_dim: int,
        message_module: Any = None,
        message_dim: int | None = None,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, num_nodes=num_nodes, raw_msg_dim=raw_msg_dim)
        functional.require_sizes(self, least=1, memory_dim=memory_dim)
        self.num_nodes, self.raw_msg_dim, self.memory_dim = num_nodes, raw_msg_dim, memory_dim
        self.message_module = message_module
        if message_dim is None:
            message_dim = 2 * memory_dim + raw_msg_dim + time_dim
        self.time_encoding = TimeEncoding(time_dim)
        self.updater = nn.GRUCell(message_dim, memory_dim)
        self.register_buffer("memory", framework.zeros(num_nodes, memory_dim))
        self.register_buffer("last_update", framework.zeros(num_nodes, dtype=framework.float64))
        self.register_buffer("_other", framework.zeros(num_nodes, memory_dim))
        self.register_buffer("_raw_msg", framework.zeros(num_nodes, raw_msg_dim))
        self.register_buffer("_time", framework.zeros(num_nodes, dtype=framework.float64))
        self.register_buffer("_waits", framework.zeros(num_nodes, dtype=framework.bool))

    def reset_parameters(self) -> None:
        """Draw the weights as torch does, and forget all events."""
        self.time_encoding.reset_parameters()
        self.updater.reset_parameters()
        if hasattr(self.message_module, "reset_parameters"):
            self.message_module.reset_parameters()
        self.reset_state()

    def reset_state(self) -> None:
        """Forget all events, as is done when an epoch begins."""
        for buffer in self.buffers(recurse=False):
            buffer.zero_()

    def forward(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the memory of nodes after the events so far, and the times of the last; nodes may be repeated.

        It has a gradient for the weights. Nothing is written: :meth:`update_state` does that.
        """
        distinct, places = framework.unique(nodes, return_inverse=True)
        memory, times = self._updated(distinct)
        return memory[places], times[places]

    if TYPE_CHECKING:
        __call__ = forward

    def update_state(self, src: Tensor, dst: Tensor, t: Tensor, raw_msg: Tensor) -> None:
        """Take in a batch of events, once its loss has been computed.

        Raises DGLError: there are not as many times, features or destinations as sources, or features of another width;
        a time is NaN; or a node's events are all earlier than those of a batch before. The memory is then as it was.

        Parameters
        ----------
        src, dst
            (n,) nodes of each event.
        t
            (n,) their times.
        raw_msg
            (n, raw_msg_dim) their features.
        """
        count = len(src)
        for argument, x in (("dst", dst), ("t", t), ("raw_msg", raw_msg)):
            functional.require_rows(self, argument, x, count, "events")
        functional.require_width(self, "raw_msg", raw_msg, self.raw_msg_dim)
        if not count:
            return
        if (t != t).any():
            raise DGLError(f"TGNMemory: the time of event {int((t != t).nonzero()[0])} is NaN")
        with framework.no_grad():
            nodes, places = framework.unique(framework.cat([src, dst]), return_inverse=True)
            memory, times = self._updated(nodes)
            rank = framework.empty_like(src, dtype=framework.int64)
            rank[framework.argsort(t, stable=True)] = framework.arange(count, device=src.device)
            # A node's latest event; where it is both ends of it, the second one.
            latest = rank.new_zeros(len(nodes))
            latest.scatter_reduce_(0, places, framework.cat([2 * rank, 2 * rank + 1]), "amax", include_self=False)
            event = framework.empty_like(rank).scatter_(0, rank, framework.arange(count, device=src.device))[
                latest // 2
            ]
            other = places.reshape(2, count)[1 - latest % 2, event]
            event_times = t[event].to(self._time.dtype)
            if (event_times < times).any():
                raise DGLError(self._backwards(nodes, times, event_times))
            self.memory[nodes], self.last_update[nodes] = memory, times
            self._other[nodes], self._raw_msg[nodes] = memory[other], raw_msg[event]
            self._time[nodes], self._waits[nodes] = event_times, True

    def _backwards(self, nodes: Tensor, times: Tensor, event_times: Tensor) -> str:
        first = int((event_times < times).nonzero()[0])
        node, before, now = int(nodes[first]), times[first].item(), event_times[first].item()
        return (
            f"TGNMemory: node {node} has an event at time {now:g}, after one at time {before:g}; give batches in the "
            "order of time, and call reset_state() when an epoch begins"
        )

    def _updated(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return memory and times of distinct nodes, after the messages that wait."""
        memory, times, event_times = self.memory[nodes], self.last_update[nodes], self._time[nodes]
        elapsed = self.time_encoding(event_times - times)
        message = framework.cat([memory, self._other[nodes], self._raw_msg[nodes], elapsed], 1)
        if self.message_module is not None:
            message = self.message_module(message)
        waits = self._waits[nodes]
        updated = self.updater(message, memory)
        return framework.where(waits[:, None], updated, memory), framework.where(waits, event_times, times)
