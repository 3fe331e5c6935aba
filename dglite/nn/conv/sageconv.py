"""GraphSAGE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ... import function as fn
from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ...udf import NodeBatch
from .. import functional
from ..base import Layer, nn
from ..sparsefeatures import SparseFeatures
from ..sparselinear import FeatureDropout, SparseLinear

_AGGREGATORS = ("mean", "gcn", "pool", "lstm")


@final
class SAGEConv(Layer):
    r"""GraphSAGE of Hamilton, Ying and Leskovec, "Inductive representation learning on large graphs", 2017.

    .. math:: h_v' = \mathrm{norm}(\sigma(W_s h_v + W_n\, \mathrm{aggregate}_{u \to v}(w_{uv} h_u) + b))

    Parameters
    ----------
    in_feats
        Size of the input's last axis, or a pair (source, destination).
    out_feats
        Size of the output.
    aggregator_type
        ``"mean"``; ``"pool"``, the maximum of ``relu(fc_pool(h))``; ``"lstm"``, the last state of an LSTM over the
        neighbours in edge order; ``"gcn"``, the mean over the neighbours and the node itself, without :math:`W_s`.
    feat_drop
        Dropout of the input.
    bias
        Whether :math:`b` is learned.
    norm, activation
        Applied to the result, the activation first.

    A node without in-edges aggregates to 0.

    Shapes
    ------
    feat (num_src, in_feats) -> (num_dst, out_feats); except with ``"lstm"``, feat may be a SciPy or torch sparse matrix
    """

    bias: Tensor | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        aggregator_type: str,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        if aggregator_type not in _AGGREGATORS:
            raise DGLError(
                f"aggregator_type={aggregator_type!r} is not known; expected one of {', '.join(_AGGREGATORS)}"
            )
        self._in_src_feats, self._in_dst_feats = functional.pair_of_sizes(in_feats)
        self._out_feats = out_feats
        self._aggre_type = aggregator_type
        if aggregator_type == "gcn" and self._in_src_feats != self._in_dst_feats:
            raise DGLError(
                'aggregator_type="gcn" adds a node to its neighbours, so both sides need one size; got '
                f"in_feats={in_feats}"
            )
        self.feat_drop = FeatureDropout(feat_drop)
        functional.require_norm(self, norm)
        self.norm = norm
        self.activation = activation
        if aggregator_type == "pool":
            self.fc_pool = SparseLinear(self._in_src_feats, self._in_src_feats)
        if aggregator_type == "lstm":
            self.lstm = nn.LSTM(self._in_src_feats, self._in_src_feats, batch_first=True)
        self.fc_neigh = SparseLinear(self._in_src_feats, out_feats, bias=False)
        if aggregator_type == "gcn":
            self.register_parameter("bias", nn.Parameter(framework.zeros(out_feats)) if bias else None)
        else:
            self.fc_self = SparseLinear(self._in_dst_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights from Glorot's uniform distribution with the gain of ReLU."""
        gain = nn.init.calculate_gain("relu")
        if self._aggre_type == "pool":
            functional.xavier_uniform_(self.fc_pool.weight, gain=gain)
        if self._aggre_type == "lstm":
            self.lstm.reset_parameters()
        if self._aggre_type != "gcn":
            functional.xavier_uniform_(self.fc_self.weight, gain=gain)
        functional.xavier_uniform_(self.fc_neigh.weight, gain=gain)

    def forward(self, graph: DGLGraph, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features of the destination nodes.

        ``edge_weight`` (num_edges,) multiplies the messages. Raises ``DGLError`` for wrong numbers of rows and
        for sparse features that an LSTM is to read.
        """
        adjacency = functional.adjacency_of(graph)
        widths = self._in_src_feats, self._in_dst_feats
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, widths=widths)
        if edge_weight is not None:
            functional.require_edge_weight(self, edge_weight, adjacency.num_edges)
        if self._aggre_type == "lstm":
            functional.require_dense(source, 'aggregator_type="lstm"')
        separate = isinstance(feat, tuple)
        source = self.feat_drop(source)
        destination = self.feat_drop(destination) if separate else functional.first_rows(source, adjacency.num_dst)
        if self._aggre_type == "gcn":
            result = self._mean_with_self(adjacency, source, destination if separate else None, edge_weight)
        else:
            result = self._with_neighbours(destination, graph, adjacency, source, edge_weight)
        result = functional.activated(result, None, self.activation)
        return result if self.norm is None else self.norm(result)

    def _with_neighbours(
        self, destination: Any, graph: DGLGraph, adjacency: Adjacency, source: Any, edge_weight: Tensor | None
    ) -> Tensor:
        """Aggregate the neighbours, apply ``fc_neigh``, which goes first where messages are narrower then, and add."""
        if self._aggre_type == "pool":
            neighbours = functional.reduce_neighbours(adjacency, self.fc_pool(source).relu(), Reducer.MAX, edge_weight)
        elif self._aggre_type == "lstm":
            neighbours = self._last_state(graph, adjacency, source, edge_weight)
        elif self._product_goes_first(adjacency, source):
            layers = (self.fc_self, destination), (self.fc_neigh, source)
            residual, source = (functional.projected(*layer) for layer in layers)
            return functional.reduce_neighbours(adjacency, source, Reducer.MEAN, edge_weight, residual=residual)
        else:
            neighbours = functional.reduce_neighbours(adjacency, source, Reducer.MEAN, edge_weight)
        return functional.sum_of_projected(self.fc_self, destination, self.fc_neigh, neighbours)

    def _mean_with_self(
        self, adjacency: Adjacency, source: Any, destination: Any, edge_weight: Tensor | None
    ) -> Tensor:
        """Average neighbours and node; without a ``destination``, its rows are the first of the source's."""
        product_first = self._product_goes_first(adjacency, source) or isinstance(destination, SparseFeatures)
        if product_first:
            source = self.fc_neigh(source)
            destination = None if destination is None else self.fc_neigh(destination)
        center = functional.first_rows(source, adjacency.num_dst) if destination is None else destination
        result = functional.mean_with_self(adjacency, source, center, edge_weight)
        result = result if product_first else self.fc_neigh(result)
        return result if self.bias is None else result + self.bias

    def _product_goes_first(self, adjacency: Adjacency, source: Any) -> bool:
        """Whether ``fc_neigh`` goes before the mean; always for sparse features, which it makes dense."""
        sizes = self._in_src_feats, self._out_feats
        return isinstance(source, SparseFeatures) or functional.product_goes_first(source, adjacency.num_dst, *sizes)

    def _last_state(self, graph: DGLGraph, adjacency: Adjacency, source: Tensor, edge_weight: Tensor | None) -> Tensor:
        if adjacency.num_edges == 0:
            return source.new_zeros(adjacency.num_dst, self._in_src_feats)
        graph = graph.local_var()  # its own features: another thread may use the graph
        graph.srcdata["h"] = source
        message = fn.copy_u("h", "m")
        if edge_weight is not None:
            graph.edata["w"] = edge_weight
            message = fn.u_mul_e("h", "w", "m")
        graph.update_all(message, self._run_lstm)
        return graph.dstdata["last"]

    def _run_lstm(self, nodes: NodeBatch) -> dict[str, Tensor]:
        """Reduce messages (nodes, degree, in_feats) to the LSTM's last hidden state."""
        messages = nodes.mailbox["m"]
        if active.autocast_dtype() is None:
            _, (last, _) = self.lstm(messages)
        else:
            # torch's LSTM in bfloat16 runs on some processors only.
            with framework.autocast("cpu", enabled=False):
                _, (last, _) = self.lstm(messages.to(self.fc_neigh.weight.dtype))
        return {"last": last.squeeze(0)}
