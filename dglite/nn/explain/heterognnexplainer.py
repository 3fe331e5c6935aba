"""GNNExplainer for heterogeneous graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from ...frame import NID
from ...graph import DGLGraph
from ...subgraph import khop_in_subgraph
from .masklearner import MaskLearner


@final
class HeteroGNNExplainer(MaskLearner):
    """GNNExplainer for heterogeneous graphs: a mask of features by node type, and one of edges by edge type.

    Parameters are those of :class:`GNNExplainer`; each type adds its terms to the loss. The model is called with
    dictionaries, ``feat`` by node type and ``eweight`` by canonical edge type. It returns logits, a dictionary by node
    type to explain nodes, or a tensor (1, num_classes) to explain a graph.

    Examples
    --------
    >>> import torch
    >>> from dglite import heterograph
    >>> from dglite.nn import GraphConv, HeteroGraphConv
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = HeteroGraphConv({"plays": GraphConv(4, 2), "played": GraphConv(4, 2)})
    ...
    ...     def forward(self, graph, feat, eweight=None):
    ...         weights = {etype: {"edge_weight": x} for etype, x in (eweight or {}).items()}
    ...         return self.conv(graph, feat, mod_kwargs=weights)
    >>> g = heterograph({("user", "plays", "game"): ([0, 1], [0, 0]), ("game", "played", "user"): ([0, 0], [0, 1])})
    >>> explainer = HeteroGNNExplainer(Model(), num_hops=1, num_epochs=10, log=False)
    >>> feat = {ntype: torch.ones(g.num_nodes(ntype), 4) for ntype in g.ntypes}
    >>> center, near, feat_mask, edge_mask = explainer.explain_node("game", 0, g, feat)
    >>> near.num_nodes("user"), feat_mask["user"].shape, edge_mask["user", "plays", "game"].shape
    (2, torch.Size([4]), torch.Size([2]))
    """

    typed = True

    def explain_node(
        self, ntype: str, node_id: Any, graph: DGLGraph, feat: dict[str, Tensor], **kwargs: Any
    ) -> tuple[Tensor, DGLGraph, dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """Explain the prediction for one node of a type.

        Parameters
        ----------
        ntype, node_id
            The node.
        graph
            A heterogeneous graph.
        feat
            Features (num_nodes, size) by node type. Types without features get no mask.
        kwargs
            Further arguments of the model, given to it as they are.

        Returns
        -------
        (Tensor, DGLGraph, dict, dict)
            The node's id in the subgraph, (1,); the subgraph of the nodes within ``num_hops`` steps to the node, with
            old ids in ``ndata[dglite.NID]`` and ``edata[dglite.EID]``; how much each feature counts by node type,
            (size,), and each edge of the subgraph by canonical edge type, (num_edges,): between 0 and 1.

        Raises
        ------
        DGLError
            Several nodes were given, or a node that does not exist; features are not by node type; features or the
            model's output for ``ntype`` do not have a row for each node; the output does not depend on ``eweight``.
        """
        features = self._features(graph, feat)
        near, new_ids = khop_in_subgraph(graph, {ntype: node_id}, self.num_hops)
        node = self._only(new_ids[ntype])
        features = {name: x[near.nodes[name].data[NID].long()] for name, x in features.items()}

        def read(output: Any) -> Tensor:
            if not isinstance(output, Mapping) or ntype not in output:
                returned = list(output) if isinstance(output, Mapping) else type(output).__name__
                raise DGLError(
                    "HeteroGNNExplainer.explain_node: the model must return a dictionary by node type that has "
                    f"{ntype!r}; got {returned}"
                )
            return self._logits_of_node(output[ntype], node, near.num_nodes(ntype))

        title = f"Explain node {node_id} with type {ntype}"
        return new_ids[ntype], near, *self._learn(near, features, read, title, kwargs)

    def explain_graph(
        self, graph: DGLGraph, feat: dict[str, Tensor], **kwargs: Any
    ) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """Explain the prediction for a graph.

        Parameters
        ----------
        graph
            A heterogeneous graph.
        feat
            Features (num_nodes, size) by node type. Types without features get no mask.
        kwargs
            Further arguments of the model.

        Returns
        -------
        (dict, dict)
            How much each feature counts by node type, (size,), and each edge by canonical edge type, (num_edges,):
            between 0 and 1.

        Raises
        ------
        DGLError
            Features are not by node type or do not have a row for each node, or the model's output is not
            (1, num_classes) or does not depend on ``eweight``.
        """
        features = self._features(graph, feat)
        return self._learn(graph, features, self._logits_of_graph, "Explain graph", kwargs)
