"""The same networks written with dglite, with DGL and with PyTorch Geometric.

Each library gets its graph in the form that suits it: DGL 32-bit ids and all sparse formats, PyTorch Geometric cached
normalisation, and a ``SparseTensor`` for sums and means where torch-sparse is installed, an ``edge_index`` elsewhere.
Layers of dglite and DGL are given their activation; dglite's own cross entropy serves dglite, torch's the others.
Hyper-parameters and the initial distributions of the weights are the same; a network for one library is made from the
same code as for the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from common import OURS, load_dgl, load_pyg, sparse_tensor
from torch import nn

__all__ = ["DGL", "GAT", "GCN", "PYG", "SAGE", "Library", "Network", "library", "train_step"]

DGL, PYG = "DGL 2.1", "PyG"
GCN, GAT, SAGE = "GCN", "GAT", "SAGE"
"""Kinds of networks."""


class Library(Protocol):
    """What a network needs of a library."""

    nn: Any

    def graph(self, src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> Any:
        """Return the library's graph of edges ``src[i] -> dst[i]``."""

    def layer(
        self, kind: str, in_feats: int, out_feats: int, heads: int, attn_drop: float, activation: Activation | None
    ) -> nn.Module:
        """Return one layer of a kind; GAT's gives ``heads * out_feats`` features."""

    def apply(self, layer: nn.Module, graph: Any, x: Any) -> torch.Tensor:
        """Return what the layer, and its activation, make of node features."""

    def cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
        """Return the mean cross entropy of ``nodes``, of all by default."""


Activation = Callable[[torch.Tensor], torch.Tensor]


class MessagePassingLibrary:
    """dglite or DGL: they have the same modules."""

    def __init__(self, module: Any, layers: Any, prepare: Callable[[Any], Any]) -> None:
        self.module, self.nn, self.prepare = module, layers, prepare
        self.loss = getattr(layers.functional, "cross_entropy", _cross_entropy)

    def graph(self, src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> Any:
        """Return the graph, in the form that suits the library."""
        return self.prepare(self.module.graph((src, dst), num_nodes=num_nodes))

    def layer(
        self, kind: str, in_feats: int, out_feats: int, heads: int, attn_drop: float, activation: Activation | None
    ) -> nn.Module:
        """Return one layer."""
        if kind == SAGE:
            return self.nn.SAGEConv(in_feats, out_feats, "mean", activation=activation)
        if kind == GCN:
            return self.nn.GraphConv(in_feats, out_feats, activation=activation, allow_zero_in_degree=True)
        return self.nn.GATConv(
            in_feats, out_feats, heads, attn_drop=attn_drop, activation=activation, allow_zero_in_degree=True
        )

    def apply(self, layer: nn.Module, graph: Any, x: Any) -> torch.Tensor:
        """Apply a layer, heads side by side."""
        return layer(graph, x).flatten(1)

    def cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
        """Return the loss by the library's own function, where it has one."""
        return self.loss(logits, labels, nodes)


class GeometricLibrary:
    """PyTorch Geometric."""

    def __init__(self, layers: Any) -> None:
        self.nn = layers

    def graph(self, src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> Any:
        """Return the ``edge_index``, and the matrix of the same graph, None without torch-sparse."""
        edge_index = torch.stack([src, dst]).long()
        return edge_index, sparse_tensor(edge_index, num_nodes)

    def layer(
        self, kind: str, in_feats: int, out_feats: int, heads: int, attn_drop: float, activation: Activation | None
    ) -> nn.Module:
        """Return one layer. Self-loops are those of the graph, as in the other libraries."""
        if kind == GCN:
            layer = self.nn.GCNConv(in_feats, out_feats, cached=True, add_self_loops=False)
        elif kind == GAT:
            layer = self.nn.GATConv(in_feats, out_feats, heads, dropout=attn_drop, add_self_loops=False)
        else:
            layer = self.nn.SAGEConv(in_feats, out_feats)
        layer.activation = activation
        return layer

    def apply(self, layer: nn.Module, graph: Any, x: Any) -> torch.Tensor:
        """Apply a layer; attention computes a score per edge, for which a ``SparseTensor`` is no help."""
        edge_index, matrix = graph
        x = layer(x, edge_index if matrix is None or isinstance(layer, self.nn.GATConv) else matrix)
        return x if layer.activation is None else layer.activation(x)

    def cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
        """Return torch's loss."""
        return _cross_entropy(logits, labels, nodes)


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor, nodes: torch.Tensor | None) -> torch.Tensor:
    return F.cross_entropy(logits, labels) if nodes is None else F.cross_entropy(logits[nodes], labels[nodes])


def library(name: str) -> Library | None:
    """Return a library by name, None where it is not installed."""
    if name == OURS:
        dglite = importlib.import_module("dglite")
        return MessagePassingLibrary(dglite, dglite.nn, lambda graph: graph)
    if name == DGL:
        dgl = load_dgl()
        return None if dgl is None else MessagePassingLibrary(dgl, importlib.import_module("dgl.nn"), _for_dgl)
    return None if load_pyg() is None else GeometricLibrary(importlib.import_module("torch_geometric.nn"))


def _for_dgl(graph: Any) -> Any:
    graph = graph.int()
    graph.create_formats_()
    return graph


class Network(nn.Module):
    """Layers of one kind, with an activation and dropout between them.

    ``sizes`` are the widths of input, hidden layers and output; GAT has ``heads`` heads of the given width in hidden
    layers, one head in the last unless it is the only one.
    """

    def __init__(self, library: Library, kind: str, sizes: Sequence[int], heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.apply_layer, self.cross_entropy = library.apply, library.cross_entropy
        activation = F.elu if kind == GAT else F.relu
        last = len(sizes) - 2
        layers, in_feats = [], sizes[0]
        for i, out_feats in enumerate(sizes[1:]):
            own_heads = heads if kind == GAT and (i < last or last == 0) else 1
            layers.append(
                library.layer(kind, in_feats, out_feats, own_heads, dropout, activation if i < last else None)
            )
            in_feats = own_heads * out_feats
        self.layers = nn.ModuleList(layers)
        # Where layers take sparse features, so does this dropout.
        self.first_dropout = getattr(library.nn, "FeatureDropout", nn.Dropout)(dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, graph: Any, x: Any) -> torch.Tensor:
        """Return the output of the last layer, ``(num_nodes, sizes[-1] * heads of the last layer)``."""
        for i, layer in enumerate(self.layers):
            x = self.apply_layer(layer, graph, self.dropout(x) if i else self.first_dropout(x))
        return x


def train_step(
    network: Network,
    optimizer: torch.optim.Optimizer,
    graph: Any,
    x: Any,
    labels: torch.Tensor,
    nodes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Do one step of training on the cross entropy of ``nodes``, of all by default; return the loss."""
    network.train()
    loss = network.cross_entropy(network(graph, x), labels, nodes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
