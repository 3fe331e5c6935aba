"""GNNExplainer, for graphs of one type and of several."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, final

from ...backend import Tensor, active
from ...errors import DGLError
from ...frame import EID, NID
from ...graph import DGLGraph
from ...subgraph import khop_in_subgraph
from .masklearner import MaskLearner


@final
class GNNExplainer(MaskLearner):
    r"""GNNExplainer of Ying et al., "GNNExplainer: generating explanations for graph neural networks", 2019.

    Weights the features and the edges so that the model predicts what it predicted from as few of them as possible:

    .. math:: \min_{F, M} -\log p(\hat y \mid \sigma(M) \odot A, \sigma(F) \odot X)
        + \alpha_1 \sum_e \sigma(M_e) + \alpha_2 \overline{H(\sigma(M))}
        + \beta_1 \overline{\sigma(F)} + \beta_2 \overline{H(\sigma(F))}

    where :math:`\hat y` is the class predicted, a bar is a mean, and :math:`H(p) = -p \log p - (1 - p) \log(1 - p)`
    is the entropy.

    Parameters
    ----------
    model
        The model, called as ``model(graph=, feat=)`` and ``model(graph=, feat=, eweight=)``: eweight (num_edges,)
        multiplies the messages. It returns logits, (num_nodes, num_classes) for nodes or (1, num_classes) for a graph.
    num_hops
        How many steps messages take in the model: only nodes so near take part.
    lr, num_epochs
        Learning rate and number of steps of Adam.
    alpha1, alpha2
        Weights of the sum of the edges' mask and of its entropy.
    beta1, beta2
        Weights of the mean of the features' mask and of its entropy.
    log
        Show a progress bar.

    The model's modes, and what requires a gradient in it, are afterwards as they were. Masks are drawn from torch's
    generator. Needs torch's autograd: with another backend, constructing it raises ``DGLError``.

    Examples
    --------
    >>> import torch
    >>> from dglite import graph
    >>> from dglite.nn import GraphConv
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = GraphConv(4, 2)
    ...
    ...     def forward(self, graph, feat, eweight=None):
    ...         return self.conv(graph, feat, edge_weight=eweight)
    >>> path = graph(([0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]))
    >>> explainer = GNNExplainer(Model(), num_hops=1, num_epochs=10, log=False)
    >>> new_id, near, feat_mask, edge_mask = explainer.explain_node(3, path, torch.ones(5, 4))
    >>> near.ndata["_ID"].tolist(), new_id.tolist(), feat_mask.shape, edge_mask.shape
    ([2, 3, 4], [1], torch.Size([4]), torch.Size([4]))
    """

    typed = False

    def explain_node(
        self, node_id: Any, graph: DGLGraph, feat: Tensor, **kwargs: Any
    ) -> tuple[Tensor, DGLGraph, Tensor, Tensor]:
        """Explain the prediction for one node.

        Raises DGLError: several nodes were given, or a node that does not exist; the graph has several types; features
        or the model's output do not have a row for each node; the output does not depend on ``eweight``.

        Parameters
        ----------
        node_id
            The node.
        graph
            A homogeneous graph.
        feat
            Features (num_nodes, size).
        kwargs
            Further arguments of the model. Of tensors with a row for each node or edge, it gets those of the subgraph.

        Returns
        -------
        (Tensor, DGLGraph, Tensor, Tensor)
            The node's id in the subgraph, (1,); the subgraph of the nodes within ``num_hops`` steps to the node, with
            old ids in ``ndata[dglite.NID]`` and ``edata[dglite.EID]``; how much each feature counts, (size,), and each
            edge of the subgraph, (num_edges,): between 0 and 1.
        """
        features = self._features(graph, feat)
        near, new_id = khop_in_subgraph(graph, node_id, self.num_hops)
        node, num_nodes = self._only(new_id), near.num_nodes()
        nodes, edges = near.ndata[NID].long(), near.edata[EID].long()
        for name, value in kwargs.items():
            if active.is_tensor(value) and value.ndim:
                if value.shape[0] == graph.num_nodes():
                    kwargs[name] = value[nodes]
                elif value.shape[0] == graph.num_edges():
                    kwargs[name] = value[edges]
        features = {ntype: x[nodes] for ntype, x in features.items()}
        read = partial(self._logits_of_node, node=node, num_nodes=num_nodes)
        return new_id, near, *self._learn(near, features, read, f"Explain node {node_id}", kwargs)

    def explain_graph(self, graph: DGLGraph, feat: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Explain the prediction for a graph.

        Raises DGLError: the graph has several types, features do not have a row for each node, or the model's output is
        not (1, num_classes) or does not depend on ``eweight``.

        Parameters
        ----------
        graph
            A homogeneous graph.
        feat
            Features (num_nodes, size).
        kwargs
            Further arguments of the model.

        Returns
        -------
        (Tensor, Tensor)
            How much each feature counts, (size,), and each edge, (num_edges,): between 0 and 1.
        """
        features = self._features(graph, feat)
        return self._learn(graph, features, self._logits_of_graph, "Explain graph", kwargs)


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
        """Explain the prediction for node ``node_id`` of type ``ntype``, as :meth:`GNNExplainer.explain_node`.

        ``feat`` are features (num_nodes, size) by node type; types without features get no mask. Further arguments of
        the model are given to it as they are.

        Raises DGLError as for one type; features are not by node type, or the model's output has none for ``ntype``.

        Returns
        -------
        (Tensor, DGLGraph, dict, dict)
            The node's id in the subgraph, (1,); the subgraph; how much each feature counts by node type, (size,), and
            each edge of the subgraph by canonical edge type, (num_edges,): between 0 and 1.
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
        """Explain the prediction for a graph, as :meth:`GNNExplainer.explain_graph`.

        ``feat`` are features (num_nodes, size) by node type; types without features get no mask.

        Raises DGLError as for one type, and features are not by node type.

        Returns
        -------
        (dict, dict)
            How much each feature counts by node type, (size,), and each edge by canonical edge type, (num_edges,):
            between 0 and 1.
        """
        features = self._features(graph, feat)
        return self._learn(graph, features, self._logits_of_graph, "Explain graph", kwargs)
