"""Node classification on one published graph: citations, co-authors, purchases, posts, photographs, articles.

Shchur et al., "Pitfalls of graph neural network evaluation", 2018; Hamilton et al., "Inductive representation learning
on large graphs", 2017; Zeng et al., "GraphSAINT", 2020; Mernyei and Cangea, "Wiki-CS", 2020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..io.npz import read_npz
from ..transforms import reorder_graph, to_bidirected
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import csr_in, edges_in, float_tensor, json_of, long_tensor, mask_of, npy_of, npz_of, sparse_edges_of


def _in_near_order(g: DGLGraph) -> DGLGraph:
    """Return the graph as DGL orders it: nodes by reverse Cuthill-McKee, edges by destination."""
    return reorder_graph(g, "rcmk", "dst", store_ids=False)


class _Benchmark(OneGraph):
    """Base of the five graphs of the GNN benchmark: ``<name>.npz`` in the layout of its authors.

    The graph has each edge in both directions, once, ``ndata['feat']`` (num_nodes, num_features), float32, and
    ``ndata['label']`` (num_nodes,), int64. Nodes are ordered as in DGL, by reverse Cuthill-McKee with SciPy, which must
    be installed; edges by destination.

    Examples
    --------
    ::

        data = dglite.data.AmazonCoBuyPhotoDataset()
        g = data[0]
        feat, label = g.ndata["feat"], g.ndata["label"]
        layer = dglite.nn.GraphConv(feat.shape[1], data.num_classes)
    """

    _files = ("{self.name}.npz",)
    num_classes: int

    def process(self) -> None:
        """Read the file and build the graph."""
        (path,) = self._paths
        names = [f"{part}_{kind}" for part in ("adj", "attr") for kind in ("data", "indices", "indptr", "shape")]
        arrays = read_npz(path, (*names, "attr_matrix", "labels"))
        adjacency = csr_in(arrays, "adj_", path)
        num_nodes = adjacency.shape[0]
        features = arrays.get("attr_matrix")
        try:
            features = csr_in(arrays, "attr_", path).toarray() if features is None else features
        except ValueError as error:
            raise DGLError(f"{path} has features that are {error}") from error
        labels = arrays.get("labels", np.zeros(0))
        if features.ndim != 2 or len(features) != num_nodes or labels.shape != (num_nodes,):
            raise DGLError(
                f"{path} has {num_nodes} nodes, features of {features.shape} and labels of {labels.shape}; these differ"
            )
        src = np.repeat(np.arange(num_nodes), np.diff(adjacency.indptr))
        g = to_bidirected(graph(edges_in(src, adjacency.indices, num_nodes, path), num_nodes=num_nodes))
        g.ndata["feat"], g.ndata["label"] = float_tensor(features), long_tensor(labels)
        self._graph = _in_near_order(g)


class CoraFullDataset(_Benchmark):
    """Cora in full: 19,793 papers, 126,842 edges (65,311 citations), 8,710 features, 70 classes."""

    _published = "cora_full", f"{SITE}/cora_full.zip"
    num_classes = 70


class CoauthorCSDataset(_Benchmark):
    """Coauthors in computer science: 18,333 authors, 163,788 edges (81,894 pairs), 6,805 features, 15 classes."""

    _published = "coauthor_cs", f"{SITE}/coauthor_cs.zip"
    num_classes = 15


class CoauthorPhysicsDataset(_Benchmark):
    """Coauthors in physics: 34,493 authors, 495,924 edges (247,962 pairs), 8,415 features, 5 classes."""

    _published = "coauthor_physics", f"{SITE}/coauthor_physics.zip"
    num_classes = 5


class AmazonCoBuyComputerDataset(_Benchmark):
    """Computers bought together: 13,752 goods, 491,722 edges (245,778 pairs), 767 features, 10 classes."""

    _published = "amazon_co_buy_computer", f"{SITE}/amazon_co_buy_computer.zip"
    num_classes = 10


class AmazonCoBuyPhotoDataset(_Benchmark):
    """Photo goods bought together: 7,650 goods, 238,163 edges (119,043 pairs), 745 features, 8 classes."""

    _published = "amazon_co_buy_photo", f"{SITE}/amazon_co_buy_photo.zip"
    num_classes = 8


def CoraFull(**kwargs: Any) -> CoraFullDataset:
    """Return ``CoraFullDataset(**kwargs)``: DGL's older name."""
    return CoraFullDataset(**kwargs)


def AmazonCoBuy(name: str) -> _Benchmark:
    """Return the data set of ``"computers"`` or of ``"photo"``; ``DGLError`` for other names."""
    return _one_of({"computers": AmazonCoBuyComputerDataset, "photo": AmazonCoBuyPhotoDataset}, name)


def Coauthor(name: str) -> _Benchmark:
    """Return the data set of ``"cs"`` or of ``"physics"``; ``DGLError`` for other names."""
    return _one_of({"cs": CoauthorCSDataset, "physics": CoauthorPhysicsDataset}, name)


def _one_of(sets: dict[str, type[_Benchmark]], name: str) -> _Benchmark:
    if name not in sets:
        raise DGLError(f"the data set is called {name!r}; expected {' or '.join(map(repr, sets))}")
    return sets[name]()


class RedditDataset(OneGraph):
    """Reddit: 232,965 posts, 114,615,892 edges, 602 features, 41 classes; splits of 153,431 / 23,831 / 55,703.

    The graph has ``ndata['feat']`` (num_nodes, 602), float32, ``ndata['label']`` (num_nodes,), int64, and the boolean
    ``train_mask``, ``val_mask`` and ``test_mask``, (num_nodes,). Nodes are ordered as in DGL, by reverse Cuthill-McKee
    with SciPy, which must be installed; edges by destination.

    Parameters
    ----------
    self_loop
        Read the file that has an edge from each node to itself.
    raw_dir
        Folder that has ``reddit_graph.npz`` and ``reddit_data.npz``, itself or in ``reddit/``, or receives them;
        ``reddit_self_loop`` for both with ``self_loop``, but for the data.

    Examples
    --------
    ::

        g = dglite.data.RedditDataset(self_loop=True)[0]
        train = g.ndata["train_mask"].nonzero().squeeze(1)
    """

    _files = "{self.name}_graph.npz", "reddit_data.npz"
    num_classes = 41

    def __init__(
        self,
        self_loop: bool = False,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        name = "reddit_self_loop" if self_loop else "reddit"
        self._published = name, f"{SITE}/{name}.zip"
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the files and build the graph."""
        structure, path = self._paths
        src, dst, num_nodes = sparse_edges_of(structure)
        features, labels, kinds = npz_of(path, ("feature", "label", "node_types"))
        shapes = features.shape[:1], labels.shape, kinds.shape
        if features.ndim != 2 or shapes != ((num_nodes,),) * 3:
            raise DGLError(
                f"{path} has feature of {features.shape}, label of {labels.shape}, node_types of {kinds.shape}; "
                f"{structure} has {num_nodes} nodes"
            )
        g = graph((src, dst), num_nodes=num_nodes)
        for number, name in enumerate(("train_mask", "val_mask", "test_mask"), 1):
            g.ndata[name] = backend.active.from_numpy(kinds == number)
        g.ndata["feat"], g.ndata["label"] = float_tensor(features), long_tensor(labels)
        self._graph = _in_near_order(g)


class _Saint(OneGraph):
    """Base of two graphs of GraphSAINT: ``adj_full.npz``, ``feats.npy``, ``class_map.json`` and ``role.json``.

    The graph has ``ndata['feat']`` (num_nodes, num_features), float32, ``ndata['label']``, int64, and the boolean
    ``train_mask``, ``val_mask`` and ``test_mask``, (num_nodes,). Labels are (num_nodes,) for Flickr, -1 for a node that
    has none, and (num_nodes, 100) of 0 and 1 for Yelp. Edges are in the order of the matrix's rows.

    Parameters
    ----------
    reorder
        Order nodes by reverse Cuthill-McKee, with SciPy, and edges by destination.

    Examples
    --------
    ::

        data = dglite.data.FlickrDataset()
        g, num_classes = data[0], data.num_classes
        feat, train_mask = g.ndata["feat"], g.ndata["train_mask"]
    """

    _files = "adj_full.npz", "feats.npy", "class_map.json", "role.json"
    _subfolders = ("{self.name}",)  # the names of the files say nothing
    num_classes: int

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
        reorder: bool = False,
    ) -> None:
        self._reorder = reorder
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the files and build the graph."""
        structure, features, classes, roles = self._paths
        src, dst, num_nodes = sparse_edges_of(structure)
        g = graph((src, dst), num_nodes=num_nodes)
        g.ndata["feat"] = float_tensor(npy_of(features, num_nodes))
        g.ndata["label"] = self._labels(classes, num_nodes)
        role = json_of(roles, ("tr", "va", "te"))
        for name, key in (("train_mask", "tr"), ("val_mask", "va"), ("test_mask", "te")):
            g.ndata[name] = mask_of(role[key], num_nodes, roles)
        self._graph = _in_near_order(g) if self._reorder else g

    def _labels(self, path: Path, num_nodes: int) -> Any:
        by_node = json_of(path)
        try:
            nodes = np.array([int(node) for node in by_node], np.int64)
            values = np.array(list(by_node.values()))
        except (ValueError, TypeError, OverflowError) as error:
            raise DGLError(f"{path} has a key that is no node number, or labels of different lengths") from error
        edges_in(nodes, nodes, num_nodes, path)
        several = values.ndim == 2 and len(nodes) == num_nodes
        if values.dtype.kind not in "iuf" or not (values.ndim == 1 or several):
            raise DGLError(f"{path} has labels of shape {values.shape} and {values.dtype} for {num_nodes} nodes")
        labels = np.full((num_nodes, *values.shape[1:]), -1, np.int64)
        labels[nodes] = values
        return long_tensor(labels)


class FlickrDataset(_Saint):
    """Flickr: 89,250 photographs, 899,756 edges, 500 features, 7 classes."""

    _published = "flickr", f"{SITE}/flickr.zip"
    num_classes = 7


class YelpDataset(_Saint):
    """Yelp: 716,847 customers, 13,954,819 edges, 300 features, 100 classes, of which a node has several."""

    _published = "yelp", f"{SITE}/yelp.zip"
    num_classes = 100


class WikiCSDataset(OneGraph):
    """Wiki-CS: 11,701 articles, 431,726 edges (216,123 links), 300 features, 10 classes, 20 splits.

    The graph has each edge in both directions, once, ``ndata['feat']`` (num_nodes, 300), float32, ``ndata['label']``
    (num_nodes,), int64, and boolean masks: ``train_mask``, ``val_mask`` and ``stopping_mask`` (num_nodes, 20), and
    ``test_mask`` (num_nodes,). Nodes are ordered as in DGL, by reverse Cuthill-McKee with SciPy, which must be
    installed; edges by destination.

    Examples
    --------
    ::

        g = dglite.data.WikiCSDataset()[0]
        train_mask = g.ndata["train_mask"][:, 0]  # of the first split
    """

    _published = "wiki_cs", f"{SITE}/wiki_cs.zip"
    _files = ("data.json",)
    _subfolders = ("{self.name}",)  # the name of the file says nothing
    num_classes = 10

    def process(self) -> None:
        """Read the file and build the graph."""
        (path,) = self._paths
        splits = ("train_masks", "val_masks", "stopping_masks")
        content = json_of(path, ("features", "labels", "links", "test_mask", *splits))
        try:
            counts = [len(row) for row in content["links"]]
            src, dst = np.repeat(np.arange(len(counts)), counts), np.array([j for js in content["links"] for j in js])
            features, labels = np.array(content["features"], np.float32), np.array(content["labels"], np.int64)
            masks = {name[:-1]: np.array(content[name], bool).T for name in splits}
            masks["test_mask"] = np.array(content["test_mask"], bool)
        except (TypeError, ValueError, OverflowError) as error:
            raise DGLError(f"{path} has a table that is no table of numbers: {error}") from error
        shapes = features.shape[:1], labels.shape, *(mask.shape[:1] for mask in masks.values())
        if features.ndim != 2 or any(shape != (len(counts),) for shape in shapes):
            raise DGLError(f"{path} has links of {len(counts)} nodes, and features, labels or masks of other lengths")
        g = to_bidirected(graph(edges_in(src, dst, len(counts), path), num_nodes=len(counts)))
        g.ndata["feat"], g.ndata["label"] = float_tensor(features), long_tensor(labels)
        for name, mask in masks.items():
            g.ndata[name] = backend.active.from_numpy(np.ascontiguousarray(mask))
        self._graph = _in_near_order(g)
