"""A transformer over the latest events of both ends of an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from ...backend import Tensor, framework
from ...errors import DGLError
from .. import functional
from ..base import TorchLayer, nn
from .sequences import event_features
from .timeencoding import TimeEncoding


class EventSequence(NamedTuple):
    """The latest events of n nodes, as :func:`dglite.sampling.latest_neighbors` gives them, and their features.

    Attributes
    ----------
    nodes
        the neighbour (n, k) of each event, or -1.
    age
        how long ago each was, (n, k).
    node_feat, edge_feat
        features of neighbours (n, k, node_feats) and of events (n, k, edge_feats); or None.
    """

    nodes: Tensor
    age: Tensor
    node_feat: Tensor | None = None
    edge_feat: Tensor | None = None


@final
class DyGFormer(TorchLayer):
    r"""Embeddings of both ends of edges from their latest events, of Yu et al., "Towards better dynamic graph learning:
    new architecture and unified library", 2023.

    Of each neighbour it is counted how often it is in the sequences of either end; events with that, their features and
    the encoding of their ages are cut into patches, and the patches of both ends pass one transformer. It needs torch.

    Parameters
    ----------
    node_feats, edge_feats, time_feats
        Sizes of the features of neighbours and of events, 0 for none, and of the encoding of ages.
    channel_feats
        Width that each kind of features is brought to; the transformer is as wide as all of them.
    out_feats
        Size of the result.
    num_neighbors, patch_size
        Number of events, k, and how many are in a patch, which divides it.
    num_heads, num_layers, dropout
        The transformer's.

    Shapes
    ------
    two :class:`EventSequence` of (n, k) -> two tensors (n, out_feats)
    """

    def __init__(
        self,
        node_feats: int,
        edge_feats: int,
        time_feats: int,
        channel_feats: int,
        out_feats: int,
        num_neighbors: int,
        patch_size: int = 1,
        num_heads: int = 2,
        num_layers: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, node_feats=node_feats, edge_feats=edge_feats)
        functional.require_sizes(self, least=1, num_neighbors=num_neighbors, patch_size=patch_size)
        functional.require_multiple(self, "num_neighbors", num_neighbors, patch_size=patch_size)
        width = channel_feats * (2 + bool(node_feats) + bool(edge_feats))
        functional.require_multiple(self, "the transformer's width", width, num_heads=num_heads)
        self._node_feats, self._edge_feats = node_feats, edge_feats
        self._num_neighbors, self._patch_size = num_neighbors, patch_size
        self.time_encoding = TimeEncoding(time_feats)
        self.count_mlp = nn.Sequential(nn.Linear(1, channel_feats), nn.ReLU(), nn.Linear(channel_feats, channel_feats))
        self.fc_count = nn.Linear(patch_size * channel_feats, channel_feats)
        self.fc_node = nn.Linear(patch_size * node_feats, channel_feats) if node_feats else None
        self.fc_edge = nn.Linear(patch_size * edge_feats, channel_feats) if edge_feats else None
        self.fc_time = nn.Linear(patch_size * time_feats, channel_feats)
        layer = nn.TransformerEncoderLayer(
            width, num_heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.transformer = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.fc_out = nn.Linear(width, out_feats)

    def forward(self, src: EventSequence, dst: EventSequence) -> tuple[Tensor, Tensor]:
        """Return a row for each edge's source, and for its destination.

        Raises DGLError: a shape is not what the layer was constructed with, or not the same for both ends.
        """
        if src.nodes.shape != dst.nodes.shape:
            raise DGLError(
                f"DyGFormer: src has events of shape {tuple(src.nodes.shape)}, dst of {tuple(dst.nodes.shape)}; "
                "expected the same"
            )
        patches = framework.cat([self._patches(src, dst), self._patches(dst, src)], 1)
        ends = self.transformer(patches).chunk(2, 1)
        return self.fc_out(ends[0].mean(1)), self.fc_out(ends[1].mean(1))

    if TYPE_CHECKING:
        __call__ = forward

    def _patches(self, events: EventSequence, others: EventSequence) -> Tensor:
        """Return the patches (n, k / patch_size, width) of one end's events."""
        there = (events.nodes >= 0)[..., None]
        edge = event_features(self, events.nodes, events.age, events.edge_feat, self._num_neighbors, self._edge_feats)
        node = edge.new_zeros(*events.nodes.shape, 0) if events.node_feat is None else events.node_feat
        if node.shape != (expected := (*events.nodes.shape, self._node_feats)):
            raise DGLError(f"DyGFormer: node_feat has shape {tuple(node.shape)}; expected {expected}")
        features, encoded = edge.split([self._edge_feats, edge.shape[-1] - self._edge_feats], -1)
        kinds = (
            (self.fc_count, self._counts(events.nodes, others.nodes)),
            (self.fc_node, node),
            (self.fc_edge, features),
            (self.fc_time, encoded),
        )
        size = len(events.nodes), self._num_neighbors // self._patch_size, -1
        parts = [project((x * there).reshape(size)) for project, x in kinds if project is not None]
        return framework.cat(parts, -1)

    def _counts(self, nodes: Tensor, others: Tensor) -> Tensor:
        """Return how often each neighbour is among those of either end, encoded, (n, k, channel_feats)."""
        counts = [(nodes[:, :, None] == x[:, None, :]).sum(-1, keepdim=True) for x in (nodes, others)]
        dtype = self.fc_out.weight.dtype
        return self.count_mlp(counts[0].to(dtype)) + self.count_mlp(counts[1].to(dtype))
