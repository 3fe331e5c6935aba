"""PGExplainer, for graphs of one type and of several."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .edgescorer import EdgeScorer


@final
class PGExplainer(EdgeScorer):
    r"""PGExplainer of Luo et al., "Parameterized explainer for graph neural network", 2020.

    One network :math:`f` scores the edges of all graphs or nodes that are explained, from embeddings of their ends:

    .. math:: w_{uv} = f(z_u \Vert z_v), \quad
        m_{uv} = \sigma\big((\log \epsilon - \log(1 - \epsilon) + w_{uv}) / t\big)

    where :math:`\epsilon` is uniform in (0, 1) and :math:`t` is the temperature; without training,
    :math:`m = \sigma(w)`. For a node :math:`v'`, :math:`f` reads :math:`z_{v'}` too. An edge and its reverse get the
    mean of the two. Trained so that the model with edges weighted by :math:`m` predicts what it predicts without:

    .. math:: -\log p(\hat y \mid m) + c \cdot \mathrm{relu}\Big(\sum_e m_e - c\Big) + c' \overline{H(m)}

    Parameters
    ----------
    model
        The model, called as ``model(graph, feat, embed=False)``, which returns logits, ``model(graph, feat,
        embed=True)``, which returns embeddings (num_nodes, num_features), and ``model(graph, feat, edge_weight=)``,
        where edge_weight (num_edges,) multiplies the messages.
    num_features
        The size of the embeddings.
    num_hops
        How many steps messages take in the model; needed to explain nodes.
    explain_graph
        Explain graphs, else nodes.
    coff_budget
        :math:`c`, for small explanations.
    coff_connect
        :math:`c'`, for decided ones.
    sample_bias
        Keeps :math:`\epsilon` so far from 0 and 1.

    The model's modes, and what requires a gradient in it, are afterwards as they were: the losses' gradients reach
    ``elayers``, :math:`f`, only. ``parameters()`` are its parameters. Random numbers are torch's. Needs torch's
    autograd: with another backend, constructing it raises ``DGLError``.

    Examples
    --------
    >>> import torch
    >>> from dglite import graph
    >>> from dglite.nn import GraphConv
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv, self.last = GraphConv(4, 3), torch.nn.Linear(3, 2)
    ...
    ...     def forward(self, graph, feat, embed=False, edge_weight=None):
    ...         h = self.conv(graph, feat, edge_weight=edge_weight)
    ...         return h if embed else self.last(h)
    >>> g, feat = graph(([0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2])), torch.randn(3, 4)
    >>> explainer = PGExplainer(Model(), num_features=3, num_hops=1, explain_graph=False)
    >>> optimizer = torch.optim.Adam(explainer.parameters(), lr=0.01)
    >>> for temperature in (5.0, 2.0, 1.0):
    ...     loss = explainer.train_step_node([0, 1, 2], g, feat, temperature)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> probabilities, edge_weight, near, places = explainer.explain_node(1, g, feat)
    >>> probabilities[places].shape, edge_weight.shape
    (torch.Size([1, 2]), torch.Size([6]))
    """

    typed = False

    def train_step(self, graph: DGLGraph, feat: Tensor, temperature: float, **kwargs: Any) -> Tensor:
        """Return the loss for a batch of graphs, a number to minimise.

        Raises DGLError: the explainer is for nodes, the graph has several types, features or embeddings do not have a
        row for each node, or the model's output does not depend on ``edge_weight``.

        Parameters
        ----------
        graph
            A homogeneous graph or a batch of them.
        feat
            Features (num_nodes, size).
        temperature
            The temperature; usually lowered from 5 to 1.
        kwargs
            Further arguments of the model.
        """
        return self._train_step(graph, feat, temperature, kwargs)

    def train_step_node(self, nodes: Any, graph: DGLGraph, feat: Tensor, temperature: float, **kwargs: Any) -> Tensor:
        """Return the loss for some nodes, a number to minimise.

        ``nodes`` are one or several ids; otherwise as :meth:`train_step`, for an explainer of nodes.
        """
        return self._train_nodes({graph.ntypes[0]: nodes}, graph, feat, temperature, kwargs)

    def explain_graph(
        self, graph: DGLGraph, feat: Tensor, temperature: float = 1.0, training: bool = False, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Explain the prediction for a graph or a batch of graphs.

        Raises DGLError as :meth:`train_step`.

        Parameters
        ----------
        graph
            A homogeneous graph.
        feat
            Features (num_nodes, size).
        temperature, training
            With ``training``, the mask is drawn at this temperature, and the results have gradients.
        kwargs
            Further arguments of the model.

        Returns
        -------
        (Tensor, Tensor)
            The classes' probabilities with the mask, (batch_size, num_classes), and how much each edge counts,
            (num_edges,), between 0 and 1.
        """
        return self._explain_graph(graph, feat, temperature, training, kwargs)

    def explain_node(
        self, nodes: Any, graph: DGLGraph, feat: Tensor, temperature: float = 1.0, training: bool = False, **kwargs: Any
    ) -> tuple[Tensor, Tensor, DGLGraph, Tensor]:
        """Explain the predictions for some nodes.

        Raises DGLError: the explainer is for graphs or has no ``num_hops``, there is no node, the graph has several
        types, or features or embeddings do not have a row for each node.

        Parameters
        ----------
        nodes
            One or several ids.
        graph
            A homogeneous graph.
        feat
            Features (num_nodes, size).
        temperature, training
            With ``training``, the mask is drawn at this temperature, and the results have gradients.
        kwargs
            Further arguments of the model, given to it as they are, with the batch.

        Returns
        -------
        (Tensor, Tensor, DGLGraph, Tensor)
            The classes' probabilities with the mask for each node of the batch, (num_nodes, num_classes); how much
            each edge counts, (num_edges,), between 0 and 1; the batch of the subgraphs within ``num_hops`` steps to
            each node; the ids in it of the nodes explained, in their order.
        """
        return self._explain_nodes({graph.ntypes[0]: nodes}, graph, feat, temperature, training, kwargs)


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
        """Return the loss for a batch of graphs, a number to minimise, as :meth:`PGExplainer.train_step`.

        ``feat`` are features (num_nodes, size) by node type. Raises ``DGLError`` if they are not, and as for one type.
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
        self, graph: DGLGraph, feat: dict[str, Tensor], temperature: float = 1.0, training: bool = False, **kwargs: Any
    ) -> tuple[Tensor, dict[tuple[str, str, str], Tensor]]:
        """Explain the prediction for a graph or a batch of graphs, as :meth:`PGExplainer.explain_graph`.

        ``feat`` are features (num_nodes, size) by node type.

        Raises DGLError as :meth:`train_step`.

        Returns
        -------
        (Tensor, dict)
            The classes' probabilities with the mask, (batch_size, num_classes), and how much each edge counts by
            canonical edge type, (num_edges,), between 0 and 1.
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
        """Explain the predictions for some nodes, as :meth:`PGExplainer.explain_node`.

        ``nodes`` are ids by node type, ``feat`` features (num_nodes, size) of all node types.

        Raises DGLError as for one type, and features are not by node type, or not of all.

        Returns
        -------
        (dict, dict, DGLGraph, dict)
            The classes' probabilities with the mask for the nodes of the batch by type, (num_nodes, num_classes); how
            much each edge counts by canonical edge type, (num_edges,), between 0 and 1; the batch of the subgraphs
            within ``num_hops`` steps to each node; the ids in it of the nodes explained, by type.
        """
        return self._explain_nodes(nodes, graph, feat, temperature, training, kwargs)
