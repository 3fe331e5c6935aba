"""SubgraphX, for graphs of one type and of several."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .search import SubgraphSearcher


@final
class SubgraphX(SubgraphSearcher):
    r"""SubgraphX of Yuan et al., "On explainability of graph neural networks via subgraph explorations", 2021.

    Finds the small connected part of a graph that contributes most to a class, by Monte Carlo tree search: from the
    whole graph down, each step takes one node away and keeps the largest component. Of the children :math:`c` of a
    part it goes to the one with the largest

    .. math:: \frac{W_c}{\max(C_c, 1)} + \lambda R_c \frac{\sqrt{\sum_{c'} C_{c'}}}{1 + C_c}

    where :math:`R_c` is the child's Shapley value, :math:`C_c` how often it was visited, and :math:`W_c` the sum of
    the values at the ends of these visits. The Shapley value is by how much the part's features raise the probability
    of the class, on average over random sets of the nodes near it; a node that does not take part has zeros as
    features.

    Parameters
    ----------
    model
        The model, called as ``model(graph, feat)``; returns logits (1, num_classes). Several rows count as their mean.
    num_hops
        How many steps messages take in the model. Nodes within ``num_hops - 1`` steps of a part are near it.
    coef
        :math:`\lambda`: a larger one visits more parts that were seldom visited.
    high2low
        Try to take away first the nodes of highest degree, else those of lowest.
    num_child
        How many nodes are tried at each step.
    num_rollouts
        How many times the search walks down.
    node_min
        Parts of this many nodes, or fewer, are not divided, and are the possible results.
    shapley_steps
        How many random sets a Shapley value is a mean of.
    log
        Show a progress bar.

    The sets' values are computed on batches of copies of the graph where the model gives the same for a batch as for
    each graph, which is tried first. The model's modes are afterwards as they were. Random numbers are torch's. Needs
    torch: with another backend, constructing it raises ``DGLError``; so do numbers below 1.

    Examples
    --------
    >>> import torch
    >>> from dglite import add_reverse_edges, graph, readout_nodes
    >>> class Model(torch.nn.Module):
    ...     def forward(self, graph, feat):
    ...         with graph.local_scope():
    ...             graph.ndata["h"] = feat
    ...             return readout_nodes(graph, "h")
    >>> path = add_reverse_edges(graph(([0, 1, 2, 3], [1, 2, 3, 4])))
    >>> feat = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 3.0], [0.0, 3.0]])
    >>> SubgraphX(Model(), num_hops=1, node_min=2).explain_graph(path, feat, target_class=1)
    tensor([3, 4])
    """

    typed = False

    def explain_graph(self, graph: DGLGraph, feat: Tensor, target_class: int, **kwargs: Any) -> Tensor:
        """Return the nodes of the part of the graph that contributes most to a class.

        Raises DGLError: the graph has several types or too few nodes, or features do not have a row for each node.

        Parameters
        ----------
        graph
            A homogeneous graph of more than ``node_min`` nodes.
        feat
            Features (num_nodes, size).
        target_class
            The class.
        kwargs
            Further arguments of the model.

        Returns
        -------
        Tensor
            Ids of at most ``node_min`` nodes, ascending, of the graph's id dtype.
        """
        return next(iter(self._search(graph, feat, target_class, kwargs).values()))


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

        Raises DGLError: the graph has too few nodes, or features are not by node type or do not have a row for each
        node.

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
        """
        return self._search(graph, feat, target_class, kwargs)
