"""Biases from distances, in the graph and in space."""

from __future__ import annotations

import math
from typing import final

from ...backend import Tensor, framework
from ...errors import DGLError
from .. import functional
from ..base import Layer, TorchLayer, nn


@final
class SpatialEncoder(Layer):
    """A learned bias for each distance of shortest paths, of Ying et al., "Do transformers really perform bad for graph
    representation?", 2021.

    A distance of -1, of nodes that no path joins, has 0 and is not trained; distances beyond ``max_dist`` have the
    bias of that.

    Parameters
    ----------
    max_dist
        The largest distance with a bias of its own.
    num_heads
        How many biases there are for a pair.

    Shapes
    ------
    dist (batch_size, N, N) integers -> (batch_size, N, N, num_heads)
    """

    def __init__(self, max_dist: int, num_heads: int = 1) -> None:
        super().__init__()
        self.max_dist, self.num_heads = max_dist, num_heads
        self.embedding_table = nn.Embedding(max_dist + 2, num_heads, padding_idx=0)

    def forward(self, dist: Tensor) -> Tensor:
        """Return the biases."""
        return self.embedding_table(dist.clamp(-1, self.max_dist) + 1)


@final
class SpatialEncoder3d(TorchLayer):
    r"""Biases from distances in space, of Shi et al., "Benchmarking Graphormer on large-scale molecular modeling
    datasets", 2022.

    .. math:: b_{ij} = W_2\, \mathrm{gelu}(W_1 \psi_{ij}), \quad
              \psi^k_{ij} = \mathcal{N}\big(\gamma_{ij} \|r_i - r_j\| + \beta_{ij};\ \mu_k, |\sigma_k| + 0.01\big)

    :math:`\gamma_{ij}` and :math:`\beta_{ij}` are sums of a number learned for the type of i and one for that of j.
    It needs torch.

    Parameters
    ----------
    num_kernels
        How many normal distributions there are.
    num_heads
        How many biases there are for a pair.
    max_node_type
        Types of nodes are numbers from 0 to below this.

    Shapes
    ------
    coord (batch_size, N, 3), node_type (batch_size, N) integers -> (batch_size, N, N, num_heads)
    """

    def __init__(self, num_kernels: int, num_heads: int = 1, max_node_type: int = 100) -> None:
        super().__init__()
        self.num_kernels, self.num_heads, self.max_node_type = num_kernels, num_heads, max_node_type
        self.means = nn.Parameter(framework.empty(num_kernels))
        self.stds = nn.Parameter(framework.empty(num_kernels))
        self.linear_layer_1 = nn.Linear(num_kernels, num_kernels)
        self.linear_layer_2 = nn.Linear(num_kernels, num_heads)
        self.gamma = nn.Embedding(2 * max_node_type + 3, 1, padding_idx=0)
        self.beta = nn.Embedding(2 * max_node_type + 3, 1, padding_idx=0)
        nn.init.uniform_(self.means, 0, 3)
        nn.init.uniform_(self.stds, 0, 3)
        nn.init.constant_(self.gamma.weight, 1)
        nn.init.constant_(self.beta.weight, 0)

    def forward(self, coord: Tensor, node_type: Tensor | None = None) -> Tensor:
        """Return the biases; without types of nodes distances are taken twice, and nothing is added to them.

        Raises ``DGLError`` for other shapes.
        """
        if coord.ndim != 3:
            raise DGLError(f"SpatialEncoder3d: coord has shape {tuple(coord.shape)}; expected (batch_size, N, 3)")
        if node_type is not None:
            functional.require_pairs(self, "node_type", node_type, tuple(coord.shape[:2]))
        gamma, beta = (self._of_pairs(table, node_type) for table in (self.gamma, self.beta))
        distances = gamma * framework.cdist(coord, coord)[..., None] + beta
        deviations = self.stds.abs() + 0.01
        densities = framework.exp(-0.5 * ((distances - self.means) / deviations) ** 2)
        densities = densities / (math.sqrt(2 * math.pi) * deviations)
        return self.linear_layer_2(nn.functional.gelu(self.linear_layer_1(densities)))

    def _of_pairs(self, table: nn.Embedding, node_type: Tensor | None) -> Tensor:
        """Return the sum of the numbers of both nodes' types, (batch_size, N, N, 1)."""
        if node_type is None:
            functional.compute_weights(table)
            return 2 * table.weight[0].detach()
        return table(node_type + 2)[:, :, None] + table(node_type + self.max_node_type + 3)[:, None]
