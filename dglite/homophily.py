"""How much the labels of neighbours agree: homophily measures and label informativeness.

Each returns a float of float32's precision, as DGL does, and NaN where there is nothing to take a mean of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import explained
from .backend import Tensor
from .errors import DGLError
from .graph import DGLGraph
from .graph.storage import require_graph
from .structure.distinct import distinct
from .structure.ids import array_of

__all__ = [
    "adjusted_homophily",
    "edge_homophily",
    "edge_label_informativeness",
    "linkx_homophily",
    "node_homophily",
    "node_label_informativeness",
]


@explained
def node_homophily(graph: DGLGraph, y: Tensor) -> float:
    """Return the mean over nodes of the fraction of their predecessors that have their label.

    A node without predecessors counts as 0. Pei et al., Geom-GCN (2020). Labels ``y`` are integers, (num_nodes,).

    Raises DGLError: the graph has several types, or there is not one integer label per node; so do the other measures.
    """
    require_graph(graph)
    src, dst, labels = _labelled(graph, y)
    agree = np.bincount(dst, labels[src] == labels[dst], minlength=len(labels))
    degrees = np.bincount(dst, minlength=len(labels))
    return _mean(agree / np.maximum(degrees, 1))


@explained
def edge_homophily(graph: DGLGraph, y: Tensor) -> float:
    """Return the fraction of edges whose ends have the same label, nan without edges.

    ``y`` has an integer for each node, (num_nodes,). Raises ``DGLError`` for another shape or dtype, and for a name.
    Zhu et al., Beyond Homophily (2020).
    """
    require_graph(graph)
    src, dst, labels = _labelled(graph, y)
    return _mean(labels[src] == labels[dst])


@explained
def linkx_homophily(graph: DGLGraph, y: Tensor) -> float:
    """Return how far the homophily of each class exceeds its share of the nodes, averaged over classes but one.

    Classes below their share count as 0, and so do classes whose nodes have no predecessors. Lim et al., Large Scale
    Learning on Non-Homophilous Graphs (2021).
    """
    require_graph(graph)
    src, dst, labels = _labelled(graph, y)
    num_classes = int(labels.max(initial=-1)) + 1
    agree = np.bincount(labels[dst], labels[src] == labels[dst], minlength=num_classes)
    degrees = np.bincount(labels[dst], minlength=num_classes)
    share = np.bincount(labels, minlength=num_classes) / max(len(labels), 1)
    excess = np.maximum(agree / np.maximum(degrees, 1) - share, 0).sum()
    return _rounded(excess / (num_classes - 1) if num_classes > 1 else excess)


@explained
def adjusted_homophily(graph: DGLGraph, y: Tensor) -> float:
    """Return edge homophily adjusted for what the classes' shares of the degrees lead to expect.

    Edges are taken both ways, and once each. At most 1, 0 where edges do not depend on labels, negative where ends tend
    to differ; NaN with a single class or no edges. Platonov et al., Characterizing Graph Datasets for Node
    Classification (2022).
    """
    require_graph(graph)
    src, dst, labels = _undirected(graph, y)
    expected = float((_shares(labels[dst], labels) ** 2).sum())
    agree = (labels[src] == labels[dst]).mean() if len(src) else np.nan
    return _rounded((agree - expected) / (1 - expected)) if expected != 1 else float("nan")


@explained
def edge_label_informativeness(graph: DGLGraph, y: Tensor, eps: float = 1e-8) -> float:
    """Return how much the label of one end of an edge says about the other's, edges drawn uniformly.

    The mutual information of the two labels over the entropy of one. Edges are taken both ways, and once each; ``eps``
    is added to probabilities; NaN with a single class or no edges. Platonov et al., Characterizing Graph Datasets for
    Node Classification (2022).
    """
    require_graph(graph)
    src, dst, labels = _undirected(graph, y)
    if not _varied(dst, labels):
        return float("nan")
    shares = _shares(labels[dst], labels) + eps
    return _informativeness(_joint(src, dst, labels, np.ones(len(src))) + eps, shares, shares)


@explained
def node_label_informativeness(graph: DGLGraph, y: Tensor, eps: float = 1e-8) -> float:
    """Return how much the label of a neighbour says about a node's, nodes drawn uniformly and then their edges.

    Otherwise as :func:`edge_label_informativeness`.
    """
    require_graph(graph)
    src, dst, labels = _undirected(graph, y)
    if not _varied(dst, labels):
        return float("nan")
    weights = 1 / np.bincount(dst, minlength=len(labels))[dst]
    joint = _joint(dst, src, labels, weights) + eps
    return _informativeness(joint, _shares(labels, labels) + eps, _shares(labels[dst], labels) + eps)


def _labelled(graph: DGLGraph, y: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (source, destination) of the edges and the labels as numbers from 0 up."""
    if not graph.is_homogeneous:
        raise DGLError(f"homophily needs one node type and one edge type; got {graph.canonical_etypes}")
    if isinstance(y, str):
        raise DGLError(f"y must be a tensor of labels, g.ndata[{y!r}], not its name")
    labels = array_of(y, "y")
    if labels.shape != (graph.num_nodes(),) or labels.dtype.kind not in "iu":
        raise DGLError(
            f"got labels {labels.dtype} of shape {labels.shape}; expected an integer for each of the "
            f"{graph.num_nodes()} nodes"
        )
    return (*graph.adjacency().endpoints(), labels)


def _mean(values: np.ndarray) -> float:
    return _rounded(values.mean()) if len(values) else float("nan")


def _rounded(value: Any) -> float:
    return float(np.float32(value))


def _undirected(graph: DGLGraph, y: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of edges, each both ways and once, and the labels."""
    src, dst, labels = _labelled(graph, y)
    count = max(len(labels), 1)
    src, dst = src.astype(np.int64), dst.astype(np.int64)
    return *np.divmod(distinct(np.concatenate([src * count + dst, dst * count + src])), count), labels


def _shares(nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each class's share of the chosen labels."""
    return np.bincount(nodes, minlength=int(labels.max(initial=-1)) + 1) / max(len(nodes), 1)


def _varied(nodes: np.ndarray, labels: np.ndarray) -> bool:
    """Whether some of the nodes have another label than others."""
    node_labels = labels[nodes]
    return bool(len(node_labels)) and bool((node_labels != node_labels[0]).any())


def _joint(first: np.ndarray, second: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the distribution of (label of the first end, label of the second), classes by classes."""
    classes = int(labels.max(initial=-1)) + 1
    codes = labels[first].astype(np.int64) * classes + labels[second]
    joint = np.bincount(codes, weights, minlength=classes * classes).reshape(classes, classes)
    return joint / max(float(weights.sum()), np.finfo(float).tiny)


def _informativeness(joint: np.ndarray, label: np.ndarray, neighbour_label: np.ndarray) -> float:
    """Return the mutual information of a joint distribution over the entropy of its first label."""
    information = (joint * np.log(joint / np.outer(label, neighbour_label))).sum()
    return _rounded(information / -(label * np.log(label)).sum())
