"""PyTorch Geometric's layers for the compared operations.

Apart from the other files because ``MessagePassing`` writes code from the signatures and sources of these classes,
which neither annotations kept as strings nor classes made inside a function survive.
"""

from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

__all__ = ["Aggregate", "Score"]


class Aggregate(MessagePassing):
    """Reduces ``x`` of the sources, times an edge weight if there is one."""

    def forward(self, edge_index: Tensor, x: Tensor, weight: OptTensor = None) -> Tensor:
        """Return one row per node."""
        return self.propagate(edge_index, x=x, weight=weight)

    def message(self, x_j: Tensor, weight: OptTensor) -> Tensor:
        """Return one message per edge."""
        return x_j if weight is None else x_j * weight


class Score(MessagePassing):
    """Combines ``x`` of the source and ``y`` of the destination of each edge."""

    def forward(self, edge_index: Tensor, x: Tensor, y: Tensor, dot: bool) -> Tensor:
        """Return one row per edge."""
        return self.edge_updater(edge_index, x=x, y=y, dot=dot)

    def edge_update(self, x_j: Tensor, y_i: Tensor, dot: bool) -> Tensor:
        """Return one score per edge."""
        return (x_j * y_i).sum(-1, keepdim=True) if dot else x_j + y_i
