"""Multi-layer perceptrons over the latest events."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ...backend import Tensor, framework
from .. import functional
from ..base import Layer, TorchLayer, nn
from .sequences import event_features
from .timeencoding import TimeEncoding


class _Mixer(Layer):
    """One layer of Tolstikhin et al., "MLP-Mixer", 2021: a perceptron over events, then one over features."""

    def __init__(self, num_events: int, width: int, dropout: float) -> None:
        super().__init__()
        self.event_norm, self.feature_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_events = _perceptron(num_events, max(num_events // 2, 1), dropout)
        self.over_features = _perceptron(width, 4 * width, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return the new features (n, num_events, width)."""
        x = x + self.over_events(self.event_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_features(self.feature_norm(x))


def _perceptron(width: int, hidden: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
    )


@final
class GraphMixer(TorchLayer):
    r"""Embeddings of nodes from their latest events, of Cong et al., "Do we really need complicated model architectures
    for temporal networks?", 2023.

    The features of each of the latest ``num_neighbors`` events, with a fixed encoding of its age, pass an MLP-Mixer,
    missing events as zeros, and are averaged; that, beside the node's own features, is mapped to ``out_feats``. The
    mean is over the events that there are, 0 without any: where nodes have few of them, a mean over all
    ``num_neighbors``, which the paper's formula has, hardly learns. It needs torch.

    Parameters
    ----------
    node_feats, edge_feats
        Sizes of the features of nodes and of events, 0 for none.
    time_feats
        Size of the encoding of ages.
    hidden_feats, out_feats
        Width of the mixer, and of the result.
    num_neighbors
        Number of events, k.
    num_layers
        Layers of the mixer.
    dropout
        Dropout inside the mixer.

    Shapes
    ------
    events (n, k) ids, -1 for none; age (n, k); edge_feat (n, k, edge_feats), node_feat (n, node_feats)
    -> (n, out_feats)
    """

    def __init__(
        self,
        node_feats: int,
        edge_feats: int,
        time_feats: int,
        hidden_feats: int,
        out_feats: int,
        num_neighbors: int,
        num_layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, node_feats=node_feats, edge_feats=edge_feats, num_layers=num_layers)
        functional.require_sizes(self, least=1, num_neighbors=num_neighbors, hidden_feats=hidden_feats)
        self._node_feats, self._edge_feats, self._num_neighbors = node_feats, edge_feats, num_neighbors
        self.time_encoding = TimeEncoding(time_feats, learned=False)
        self.fc_event = nn.Linear(edge_feats + time_feats, hidden_feats)
        self.mixers = nn.Sequential(*(_Mixer(num_neighbors, hidden_feats, dropout) for _ in range(num_layers)))
        self.norm = nn.LayerNorm(hidden_feats)
        self.fc_out = nn.Linear(hidden_feats + node_feats, out_feats)

    def forward(
        self, events: Tensor, age: Tensor, edge_feat: Tensor | None = None, node_feat: Tensor | None = None
    ) -> Tensor:
        """Return a row for each node.

        Raises DGLError: a shape is not what the layer was constructed with.

        Parameters
        ----------
        events
            ``edges`` of :func:`dglite.sampling.latest_neighbors`; only where they are -1 counts.
        age
            how long ago each was: the node's time less ``times``.
        """
        x = event_features(self, events, age, edge_feat, self._num_neighbors, self._edge_feats)
        there = (events >= 0)[..., None]
        rows = self.norm(self.mixers(self.fc_event(x) * there)) * there
        mixed = rows.sum(1) / there.sum(1).clamp(min=1)
        if self._node_feats:
            functional.require_rows(self, "node_feat", node_feat, len(events), "nodes")
            assert node_feat is not None
            functional.require_width(self, "node_feat", node_feat, self._node_feats)
            mixed = framework.cat([mixed, node_feat], 1)
        return self.fc_out(mixed)

    if TYPE_CHECKING:
        __call__ = forward
