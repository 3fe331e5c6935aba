"""PGExplainer for heterogeneous graphs."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .edgescorer import EdgeScorer


@final
class HeteroPGExplainer(EdgeScorer):
    """PGExplainer for heterogeneous graphs: one network scores edges of all types.

    Parameters are those of :class:`PGExplainer`. The model is called with dictionaries, features by node type and
    ``edge_weight`` by canonical edge type. It returns embeddings by node type, all of size ``num_features``, and
    logits: by node type to explain nodes, or a tensor (batch_size, num_classes) to explain graphs. An edge's reverse
    is one of any type.

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
    ...     def forward(self, graph, feat, embed=False, edge_weight=None):
    ...         weights = {etype: {"edge_weight": x} for etype, x in (edge_weight or {}).items()}
    ...         return self.conv(graph, feat, mod_kwargs=weights)
    >>> g = heterograph({("user", "plays", "game"): ([0, 1], [0, 0]), ("game", "played", "user"): ([0, 0], [0, 1])})
    >>> feat = {ntype: torch.ones(g.num_nodes(ntype), 4) for ntype in g.ntypes}
    >>> explainer = HeteroPGExplainer(Model(), num_features=2, num_hops=1, explain_graph=False)
    >>> explainer.train_step_node({"game": [0]}, g, feat, temperature=5.0).backward()
    >>> probabilities, edge_weight, near, places = explainer.explain_node({"game": [0]}, g, feat)
    >>> probabilities["game"][places["game"]].shape, edge_weight["user", "plays", "game"].shape
    (torch.Size([1, 2]), torch.Size([2]))
    """

    typed = True

    def train_step(self, graph: DGLGraph, feat: dict[str, Tensor], temperature: float, **kwargs: Any) -> Tensor:
        """Return the loss for a batch of graphs, a number to minimise.

        Parameters
        ----------
        graph
            A heterogeneous graph or a batch of them.
        feat
            Features (num_nodes, size) by node type.
        temperature
            The temperature; usually lowered from 5 to 1.
        kwargs
            Further arguments of the model.

        Raises
        ------
        DGLError
            The explainer is for nodes, features are not by node type, or features or embeddings do not have a row for
            each node.
        """
        return self._train_step(graph, feat, temperature, kwargs)

    def train_step_node(
        self, nodes: dict[str, Any], graph: DGLGraph, feat: dict[str, Tensor], temperature: float, **kwargs: Any
    ) -> Tensor:
        """Return the loss for some nodes, a number to minimise.

        ``nodes`` are ids by node type; otherwise as :meth:`train_step`, for an explainer of nodes. All node types need
        features.
        """
        return self._train_nodes(nodes, graph, feat, temperature, kwargs)

    def explain_graph(
        self,
        graph: DGLGraph,
        feat: dict[str, Tensor],
        temperature: float = 1.0,
        training: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[tuple[str, str, str], Tensor]]:
        """Explain the prediction for a graph or a batch of graphs.

        Parameters
        ----------
        graph
            A heterogeneous graph.
        feat
            Features (num_nodes, size) by node type.
        temperature, training
            With ``training``, the mask is drawn at this temperature, and the results have gradients.
        kwargs
            Further arguments of the model.

        Returns
        -------
        (Tensor, dict)
            The classes' probabilities with the mask, (batch_size, num_classes), and how much each edge counts by
            canonical edge type, (num_edges,), between 0 and 1.

        Raises
        ------
        DGLError
            As :meth:`train_step`.
        """
        return self._explain_graph(graph, feat, temperature, training, kwargs)

    def explain_node(
        self,
        nodes: dict[str, Any],
        graph: DGLGraph,
        feat: dict[str, Tensor],
        temperature: float = 1.0,
        training: bool = False,
        **kwargs: Any,
    ) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor], DGLGraph, dict[str, Tensor]]:
        """Explain the predictions for some nodes.

        Parameters
        ----------
        nodes
            Ids by node type.
        graph
            A heterogeneous graph.
        feat
            Features (num_nodes, size) by node type, of all types.
        temperature, training
            With ``training``, the mask is drawn at this temperature, and the results have gradients.
        kwargs
            Further arguments of the model, given to it as they are, with the batch.

        Returns
        -------
        (dict, dict, DGLGraph, dict)
            The classes' probabilities with the mask for the nodes of the batch by type, (num_nodes, num_classes); how
            much each edge counts by canonical edge type, (num_edges,), between 0 and 1; the batch of the subgraphs
            within ``num_hops`` steps to each node; the ids in it of the nodes explained, by type.

        Raises
        ------
        DGLError
            The explainer is for graphs or has no ``num_hops``, there is no node, features are not by node type, or
            features or embeddings do not have a row for each node.
        """
        return self._explain_nodes(nodes, graph, feat, temperature, training, kwargs)
