"""Attention over the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...graph import DGLGraph
from ...ops import core
from ...ops.core import Attention, Score
from .. import functional
from ..base import TorchLayer, nn
from .timeencoding import TimeEncoding

_BY_ENDS: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)
_BY_EDGE: Expr = Operand(Side.E, 0) * Operand(Side.V, 1)


@final
class TGATConv(TorchLayer):
    r"""Attention over the edges of the past, of Xu et al., "Inductive representation learning on temporal graphs",
    2020, and of the embeddings of Rossi et al., "Temporal graph networks for deep learning on dynamic graphs", 2020.

    .. math::
        \alpha_{uv} &= \mathrm{softmax}_u \big(W_q [h_v \| \phi(0)] \cdot W_k [h_u \| e_{uv} \| \phi(t_v - t_{uv})]
        / \sqrt{d}\big) \\
        h_v' &= W_2 \,\mathrm{ReLU}\big(W_1 [\sum_u \alpha_{uv} W_v [h_u \| e_{uv} \| \phi(t_v - t_{uv})]
        \,\|\, h_v]\big)

    for each head, or with ``merge="sum"`` :math:`h_v' = \sum_u \alpha_{uv} W_v [\ldots] + W_1 h_v`;
    :math:`\phi` is a :class:`TimeEncoding`. The features of an edge are multiplied with matrices node by
    node, after they are added up, so that nothing as large as edges and heads is made but the scores. A node without
    in-edges has a sum of 0. It needs torch.

    Parameters
    ----------
    in_feats
        Size of the nodes' features, or of sources' and destinations'.
    edge_feats
        Size of the edges' features, 0 for none.
    time_feats
        Size of the encoding of times.
    out_feats
        Size of the result.
    num_heads
        Heads, of size ``out_feats // num_heads``.
    attn_drop
        Dropout of the weights.
    merge
        ``"mlp"`` merges the sum and the node's features as the papers do; ``"sum"`` adds them, as PyG's and TGM's
        examples of TGN do: it has fewer weights and learns in fewer steps.

    Shapes
    ------
    feat (num_src, in_feats), age (num_edges,) or (num_edges, 1), edge_feat (num_edges, edge_feats)
    -> (num_dst, out_feats)
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        edge_feats: int,
        time_feats: int,
        out_feats: int,
        num_heads: int = 2,
        attn_drop: float = 0.0,
        merge: Literal["mlp", "sum"] = "mlp",
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads, out_feats=out_feats)
        functional.require_sizes(self, in_feats=in_feats, edge_feats=edge_feats)
        functional.require_multiple(self, "out_feats", out_feats, num_heads=num_heads)
        self._in_src_feats, self._in_dst_feats = functional.pair_of_sizes(in_feats)
        self._edge_feats, self._out_feats, self._num_heads = edge_feats, out_feats, num_heads
        self.time_encoding = TimeEncoding(time_feats)
        self.attn_drop = nn.Dropout(attn_drop)
        of_edge = edge_feats + time_feats
        self.fc_query = nn.Linear(self._in_dst_feats + time_feats, out_feats)
        self.fc_key = nn.Linear(self._in_src_feats, out_feats)
        self.fc_key_edge = nn.Linear(of_edge, out_feats, bias=False)
        self.fc_value = nn.Linear(self._in_src_feats, out_feats)
        self.fc_value_edge = nn.Linear(of_edge, out_feats, bias=False)
        if merge not in ("mlp", "sum"):
            raise DGLError(f'TGATConv: merge={merge!r} is not known; expected "mlp" or "sum"')
        self._adds = merge == "sum"
        self.fc_merge = nn.Linear(self._in_dst_feats + (0 if self._adds else out_feats), out_feats)
        self.fc_out = nn.Identity() if self._adds else nn.Linear(out_feats, out_feats)

    def reset_parameters(self) -> None:
        """Draw all matrices as ``torch.nn.Linear`` does, and set the frequencies of times as they were."""
        of_nodes, of_edges = (self.fc_query, self.fc_key, self.fc_value), (self.fc_key_edge, self.fc_value_edge)
        for module in (self.time_encoding, *of_nodes, *of_edges, self.fc_merge):
            module.reset_parameters()
        if isinstance(self.fc_out, nn.Linear):
            self.fc_out.reset_parameters()

    def forward(
        self, graph: DGLGraph, feat: Tensor | tuple[Tensor, Tensor], age: Tensor, edge_feat: Tensor | None = None
    ) -> Tensor:
        """Return the new features of the destination nodes.

        Raises DGLError: rows or widths are not what the layer was constructed with.

        Parameters
        ----------
        age
            for each edge, how much earlier it is than the time at which its destination is looked at; of a block of
            :class:`dglite.dataloading.NeighborSampler` with times:
            ``block.dstdata["_TIME"][block.edges()[1]] - block.edata["t"]``.
        """
        adjacency = functional.adjacency_of(graph)
        widths = self._in_src_feats, self._in_dst_feats
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, widths=widths)
        of_edge = self._edge_features(adjacency, age, edge_feat)
        now = self.time_encoding(age.new_zeros(1)).expand(destination.shape[0], -1)
        query = self._by_head(self.fc_query(framework.cat([destination, now], 1)))
        scores = self._scores(adjacency, query, source, of_edge)
        attended = self._attended(adjacency, self._by_head(self.fc_value(source)), scores, of_edge)
        if self._adds:
            return attended + self.fc_merge(destination)
        merged = self.fc_merge(framework.cat([attended, destination], 1))
        return self.fc_out(nn.functional.relu(merged))

    if TYPE_CHECKING:
        __call__ = forward

    def _edge_features(self, adjacency: Any, age: Tensor, edge_feat: Tensor | None) -> Tensor:
        """Return what edges add to keys and values."""
        functional.require_rows(self, "age", age, adjacency.num_edges, "edges")
        encoded = self.time_encoding(age.reshape(-1))
        if edge_feat is None and not self._edge_feats:
            return encoded
        functional.require_rows(self, "edge_feat", edge_feat, adjacency.num_edges, "edges")
        assert edge_feat is not None
        functional.require_width(self, "edge_feat", edge_feat, self._edge_feats)
        return framework.cat([edge_feat, encoded], 1)

    def _by_head(self, x: Tensor) -> Tensor:
        return functional.by_head(x, self._num_heads)

    def _scores(self, adjacency: Any, query: Tensor, source: Tensor, of_edge: Tensor) -> Tensor:
        """Return the scores (num_edges, num_heads); queries are brought to the edges' features, not these to keys."""
        functional.compute_weights(self.fc_key_edge, of_edge)
        key_edge = self.fc_key_edge.weight.unflatten(0, (self._num_heads, -1))
        edge_query = framework.einsum("nhd,hdf->nhf", query, key_edge)
        by_ends = core.sddmm(adjacency, _BY_ENDS, (self._by_head(self.fc_key(source)), query), dot=True)
        by_edge = core.sddmm(adjacency, _BY_EDGE, (of_edge[:, None], edge_query), dot=True)
        return (by_ends + by_edge)[:, :, 0] * (self._out_feats // self._num_heads) ** -0.5

    def _attended(self, adjacency: Any, value: Tensor, scores: Tensor, of_edge: Tensor) -> Tensor:
        """Return the attended values (num_dst, out_feats)."""
        attention = Attention(
            Score.ADDITIVE, slope=1.0, dropout=self.attn_drop.p * self.training, edges=True, edge_features=True
        )
        none = [scores.new_zeros(count, self._num_heads) for count in (adjacency.num_src, adjacency.num_dst)]
        result, edge_sums, _ = functional.attention_with_edges(adjacency, attention, value, (*none, scores), of_edge)
        functional.compute_weights(self.fc_value_edge, of_edge)
        return (result + functional.by_each_head(edge_sums, self.fc_value_edge.weight)).flatten(1)
