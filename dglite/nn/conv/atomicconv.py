"""Atomic convolution."""

from __future__ import annotations

import math
from typing import final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer, nn


@final
class RadialPooling(Layer):
    r"""Radial pooling of distances: :math:`\exp(-\gamma_k (r - \mu_k)^2)\, f_k(r)` with :math:`f_k(r) = \frac12
    (\cos(\pi r / R_k) + 1)` up to the cut-off :math:`R_k`, 0 beyond; (num_edges, 1) -> (K, num_edges, 1)."""

    def __init__(self, interaction_cutoffs: Tensor, rbf_kernel_means: Tensor, rbf_kernel_scaling: Tensor) -> None:
        super().__init__()
        self.interaction_cutoffs = nn.Parameter(interaction_cutoffs.reshape(-1, 1, 1))
        self.rbf_kernel_means = nn.Parameter(rbf_kernel_means.reshape(-1, 1, 1))
        self.rbf_kernel_scaling = nn.Parameter(rbf_kernel_scaling.reshape(-1, 1, 1))

    def forward(self, distances: Tensor) -> Tensor:
        """Return the pooled distances."""
        apart = distances - self.rbf_kernel_means
        bell = framework.exp(-self.rbf_kernel_scaling * (apart * apart))
        wave = 0.5 * (framework.cos(math.pi * distances / self.interaction_cutoffs) + 1)
        return bell * framework.where(distances <= self.interaction_cutoffs, wave, framework.zeros_like(wave))


@final
class AtomicConv(Layer):
    r"""Atomic convolution of Gomes et al., "Atomic convolutional networks for predicting protein-ligand binding
    affinity", 2017.

    .. math:: h_v' = \big[\sum_{u \to v} [h_u = a]\; \exp(-\gamma_k (r_{uv} - \mu_k)^2)\, f_k(r_{uv})\big]_{a, k}

    with :math:`f_k(r) = \frac12 (\cos(\pi r / R_k) + 1)` up to the cut-off :math:`R_k`, 0 beyond. Product and sum are
    one kernel.

    Parameters
    ----------
    interaction_cutoffs, rbf_kernel_means, rbf_kernel_scaling
        :math:`R, \mu, \gamma`, tensors (K,).
    features_to_use
        The values a of a node's feature with filters of their own, (T,); without them the feature itself is the factor.

    Shapes
    ------
    feat (num_nodes, 1), distances (num_edges, 1) -> (num_nodes, K * T)
    """

    features_to_use: Tensor | None

    def __init__(
        self,
        interaction_cutoffs: Tensor,
        rbf_kernel_means: Tensor,
        rbf_kernel_scaling: Tensor,
        features_to_use: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.radial_pooling = RadialPooling(interaction_cutoffs, rbf_kernel_means, rbf_kernel_scaling)
        self.num_channels = 1 if features_to_use is None else len(features_to_use)
        self.features_to_use = None
        if features_to_use is not None:
            self.features_to_use = nn.Parameter(features_to_use, requires_grad=False)

    def forward(self, graph: DGLGraph, feat: Tensor, distances: Tensor) -> Tensor:
        """Return the new features; raises ``DGLError`` for wrong widths and numbers of rows."""
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat)
        functional.require_rows(self, "distances", distances, adjacency.num_edges, "edges", 1)
        pooled = self.radial_pooling(distances)[:, :, 0].T
        if self.features_to_use is not None:
            feat = (feat == self.features_to_use).to(pooled.dtype)
        channels, kernels = feat.shape[1], pooled.shape[1]
        total = functional.reduce_neighbours(adjacency, feat[:, :, None], Reducer.SUM, pooled[:, None, :])
        return total.reshape(graph.num_nodes(), channels * kernels)
