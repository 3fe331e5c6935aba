"""SubgraphX for heterogeneous graphs."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .search import SubgraphSearcher


@final
class HeteroSubgraphX(SubgraphSearcher):
    """SubgraphX for heterogeneous graphs: parts are connected by edges of any type, and have nodes of any type.

    Parameters are those of :class:`SubgraphX`; ``node_min`` counts the nodes of all types. The model is called with
    features by node type, and returns logits (1, num_classes).

    Examples
    --------
    >>> import torch
    >>> from dglite import heterograph, readout_nodes
    >>> class Model(torch.nn.Module):
    ...     def forward(self, graph, feat):
    ...         with graph.local_scope():
    ...             graph.ndata["h"] = feat
    ...             return readout_nodes(graph, "h", ntype="user") + readout_nodes(graph, "h", ntype="game")
    >>> g = heterograph({("user", "plays", "game"): ([0, 1, 2], [0, 0, 1])})
    >>> feat = {"user": torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 3.0]]), "game": torch.tensor([[0.0, 0.0]] * 2)}
    >>> HeteroSubgraphX(Model(), num_hops=1, node_min=2).explain_graph(g, feat, target_class=1)
    {'game': tensor([1]), 'user': tensor([2])}
    """

    typed = True

    def explain_graph(
        self, graph: DGLGraph, feat: dict[str, Tensor], target_class: int, **kwargs: Any
    ) -> dict[str, Tensor]:
        """Return the nodes of the part of the graph that contributes most to a class, by type.

        Parameters
        ----------
        graph
            A heterogeneous graph of more than ``node_min`` nodes.
        feat
            Features (num_nodes, size) by node type.
        target_class
            The class.
        kwargs
            Further arguments of the model.

        Returns
        -------
        dict
            Ids by node type, ascending, at most ``node_min`` in all; a type of which the part has no nodes is left
            out.

        Raises
        ------
        DGLError
            The graph has too few nodes, or features are not by node type or do not have a row for each node.
        """
        return self._search(graph, feat, target_class, kwargs)
