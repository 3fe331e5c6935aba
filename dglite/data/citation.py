"""The citation networks Cora, Citeseer and Pubmed with the split of Planetoid.

Yang, Cohen and Salakhutdinov, "Revisiting semi-supervised learning with graph embeddings", 2016. The papers are nodes,
in the order that the literature uses: labelled training papers, then the other papers, then the test papers.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from ..structure.distinct import distinct
from ..transforms import reorder_graph
from .dataset import Folder, Transform, fetch
from .numeric_pickle import CsrMatrix, read_numeric_pickle
from .published import OneGraph
from .splits import mask_at

_URL = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_NUM_VALIDATION = 500

_SHA256 = {
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
}
"""Checksums of downloads. Citeseer and Pubmed are held to the counts in ``_PUBLISHED`` instead."""


class Counts(NamedTuple):
    """The size of a data set."""

    nodes: int
    features: int
    classes: int
    training: int
    test: int


_PUBLISHED = {
    "cora": Counts(nodes=2708, features=1433, classes=7, training=140, test=1000),
    "citeseer": Counts(nodes=3327, features=3703, classes=6, training=120, test=1000),
    "pubmed": Counts(nodes=19717, features=500, classes=3, training=60, test=1000),
}


class Papers(NamedTuple):
    """A citation network as arrays."""

    src: np.ndarray
    dst: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    num_training: int
    test: np.ndarray
    num_classes: int


class CitationGraphDataset(OneGraph):
    """One citation network, read from the files ``ind.<name>.*`` of Planetoid.

    The graph has ``ndata['feat']`` (float32, each row sums to 1, or to 0 for papers without words), ``ndata['label']``
    (int64) and the boolean ``ndata['train_mask']``, ``['val_mask']``, ``['test_mask']``. Each citation is an edge in
    both directions and occurs once, in the order of DGL: by source, and the neighbours of a paper as the files first
    name them. The same is there as arrays: ``features``, ``labels``, ``onehot_labels`` and the three masks; ``graph``
    is the NetworkX graph. Papers that are in no file but the graph's (Citeseer has 15) are isolated nodes
    with zero features and label 0, and in no mask.

    Parameters
    ----------
    name
        ``"cora"``, ``"citeseer"``, ``"pubmed"``, or the middle of the file names of a network in the same format.
    raw_dir
        Folder that has the files, itself or in ``planetoid/``. Files that are in neither place are downloaded to
        ``planetoid/``.
    verbose
        Print the counts.
    reverse_edge
        With False, each citation is one edge, from the paper of smaller id, which the files list first.
    reorder
        Renumber the papers by reverse Cuthill-McKee, and sort edges by destination; see :func:`dglite.reorder_graph`.
    """

    num_classes: int
    """The number of labels; ``num_labels`` is the same."""
    _files = tuple(f"ind.{{self.name}}.{part}" for part in _PARTS)
    _subfolders = ".", "planetoid"
    _home = 1

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ) -> None:
        self.reverse_edge, self._reorder, self._published = reverse_edge, reorder, (name.lower(), None)
        super().__init__(raw_dir, force_reload, verbose, transform)

    @property
    def raw_path(self) -> str:
        """The folder that has all of this network's files, else the folder for downloads."""
        return str(self._folder)

    @property
    def _name_in_dgl(self) -> str:
        return "cora_v2" if self.name == "cora" else self.name

    def _folders(self) -> list[Path]:
        folders = super()._folders()
        return [*folders, Path(self.raw_dir) / self._name_in_dgl]

    def _missing(self, folder: Path) -> list[str]:
        stem = self._stem(folder)
        return [file for part in _PARTS if not (folder / (file := f"ind.{stem}.{part}")).is_file()]

    def _stem(self, folder: Path) -> str:
        """Return the middle of the file names in a folder."""
        return self._name_in_dgl if folder.name.startswith(self._name_in_dgl) else self.name

    def _fetch(self) -> None:
        if self.name not in _PUBLISHED:
            raise DGLError(f"only {', '.join(_PUBLISHED)} can be downloaded")
        folder = self._folder
        for file_name in self._missing(folder):
            fetch(f"{_URL}/{file_name}", folder, _SHA256.get(file_name))

    def process(self) -> None:
        """Read the files and build the graph."""
        folder = self._folder
        papers = read_planetoid(folder, self._stem(folder), self.reverse_edge)
        num_nodes = len(papers.labels)
        self._check_counts(papers)
        self.num_classes = self.num_labels = papers.num_classes
        g = graph((papers.src, papers.dst), num_nodes=num_nodes)
        training = np.arange(papers.num_training)
        validation = np.arange(papers.num_training, min(papers.num_training + _NUM_VALIDATION, num_nodes))
        for name, nodes in (("train", training), ("val", validation), ("test", papers.test)):
            g.ndata[f"{name}_mask"] = mask_at(nodes, num_nodes)
        for name, column in (("label", papers.labels), ("feat", papers.features)):
            g.ndata[name] = backend.active.from_numpy(column)
        self._graph = reorder_graph(g, "rcmk", "dst", store_ids=False) if self._reorder else g
        if self.verbose:
            print(
                f"{self.name}: {num_nodes} nodes, {len(papers.src)} edges, {papers.features.shape[1]} features, "
                f"{papers.num_classes} classes; {len(training)} training, {len(validation)} validation, "
                f"{len(papers.test)} test nodes"
            )

    # -- as arrays, for scripts of DGL's first versions ---------------------------------------------------------------
    features = property(lambda self: self._array("feat"), doc="``(num_nodes, num_features)``, float32.")
    labels = property(lambda self: self._array("label"), doc="``(num_nodes,)``, int64.")
    train_mask = property(lambda self: self._array("train_mask"), doc="``(num_nodes,)``, bool.")
    val_mask = property(lambda self: self._array("val_mask"), doc="``(num_nodes,)``, bool.")
    test_mask = property(lambda self: self._array("test_mask"), doc="``(num_nodes,)``, bool.")

    @property
    def onehot_labels(self) -> np.ndarray:
        """``(num_nodes, num_classes)``, 1 at each paper's label."""
        return np.eye(self.num_classes, dtype=np.int64)[self.labels]

    @cached_property
    def graph(self) -> Any:
        """The citations as a ``networkx.DiGraph``, the same at each access: what scripts change in it stays."""
        import networkx  # takes a tenth of a second, and only scripts of old need it

        result = networkx.DiGraph()
        result.add_nodes_from(range(self._graph.num_nodes()))
        result.add_edges_from(zip(*(ids.tolist() for ids in self._graph.edges()), strict=True))
        return result

    def _array(self, name: str) -> np.ndarray:
        return backend.active.to_numpy(self._graph.ndata[name])

    def _check_counts(self, papers: Papers) -> None:
        num_nodes, num_features = papers.features.shape
        counts = Counts(num_nodes, num_features, papers.num_classes, papers.num_training, len(papers.test))
        expected = _PUBLISHED.get(self.name, counts)
        if counts != expected:
            raise DGLError(
                f"the files of {self.name} in {self.raw_path} hold {counts}; published are {expected}. "
                "Remove them to have them downloaded again"
            )


def read_planetoid(folder: Path, name: str, reverse_edge: bool = True) -> Papers:
    """Read the eight files ``ind.<name>.*`` in ``folder``.

    Rows of ``allx`` are the first nodes; row ``i`` of ``tx`` is node ``test.index[i]``. Nodes that neither covers keep
    zero features.
    """
    parts = {part: read_numeric_pickle(folder / f"ind.{name}.{part}") for part in _PARTS[:-1]}
    try:
        test = np.array((folder / f"ind.{name}.test.index").read_text().split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise DGLError(f"ind.{name}.test.index in {folder} has a line that is no number ({error})") from error
    _check_shapes(parts, test, f"ind.{name}.* in {folder}")
    neighbours = parts["graph"]
    num_known = parts["allx"].shape[0]
    num_nodes = max(num_known, int(test.max(initial=-1)) + 1, len(neighbours))
    if num_nodes > 4 * max(num_known + len(test), len(neighbours)):  # some are in no other file, but never most
        raise DGLError(f"ind.{name}.test.index in {folder} names node {num_nodes - 1}, far beyond those of other files")
    features = np.zeros((num_nodes, parts["allx"].shape[1]), dtype=np.float32)
    one_hot = np.zeros((num_nodes, parts["ally"].shape[1]), dtype=np.int64)
    features[:num_known], one_hot[:num_known] = parts["allx"].toarray(), parts["ally"]
    features[test], one_hot[test] = parts["tx"].toarray(), parts["ty"]
    total = features.sum(axis=1, keepdims=True)
    np.divide(features, total, out=features, where=total != 0)
    src, dst = _edges(neighbours, num_nodes, reverse_edge, f"ind.{name}.graph in {folder}")
    return Papers(src, dst, features, one_hot.argmax(axis=1), len(parts["y"]), np.sort(test), one_hot.shape[1])


def _check_shapes(parts: dict[str, Any], test: np.ndarray, where: str) -> None:
    """Raise ``DGLError`` unless the files are of the expected kinds and agree with each other."""
    kinds = {"x": CsrMatrix, "tx": CsrMatrix, "allx": CsrMatrix, "y": np.ndarray, "ty": np.ndarray, "ally": np.ndarray}
    for part, kind in {**kinds, "graph": dict}.items():
        if not isinstance(parts[part], kind):
            raise DGLError(f"part {part} of {where} is a {type(parts[part]).__name__}; expected {kind.__name__}")
    shapes = {part: parts[part].shape for part in kinds}
    widths_agree = all(
        len(shapes[part]) == 2 and shapes[part][1] == shapes["all" + part.lstrip("t")][1]
        for part in ("x", "tx", "y", "ty")
    )
    rows_agree = (
        shapes["x"][0] == shapes["y"][0] <= shapes["allx"][0] == shapes["ally"][0]
        and shapes["tx"][0] == shapes["ty"][0] == len(test) == len(distinct(test))
        and (test >= shapes["allx"][0]).all()
    )
    if not (widths_agree and rows_agree):
        raise DGLError(f"the parts of {where} contradict each other: {shapes}, {len(test)} lines in test.index")


def _edges(neighbours: dict[int, list[int]], num_nodes: int, both: bool, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct citations: both directions, or each from the node that the files list first.

    They are in the order of a ``networkx.Graph`` made of the lists: nodes as listed, and the neighbours of each in the
    order in which a pair of the two was first seen from either side.
    """
    try:
        owners = np.fromiter(neighbours, np.int64)
        src = np.repeat(owners, [len(row) for row in neighbours.values()])
        dst = np.fromiter((node for row in neighbours.values() for node in row), np.int64, count=len(src))
    except (TypeError, ValueError) as error:
        raise DGLError(f"{where} is not a dict of lists of node numbers ({error})") from error
    listed = np.concatenate([owners, np.stack([src, dst], axis=1).reshape(-1)])
    outside = listed[(listed < 0) | (listed >= num_nodes)]
    if len(outside):
        raise DGLError(f"{where} names node {outside[0]}; there are {num_nodes} nodes")
    nodes, first_seen = np.unique(listed, return_index=True)
    rank = np.empty(num_nodes, np.int64)
    rank[nodes[np.argsort(first_seen)]] = np.arange(len(nodes))
    from_, to = np.stack([src, dst, dst, src], axis=1).reshape(-1, 2).T  # each pair, then its reverse
    _, first = np.unique(from_ * num_nodes + to, return_index=True)
    first = first[np.lexsort((first, rank[from_[first]]))]
    src, dst = from_[first], to[first]
    selected = slice(None) if both else rank[src] <= rank[dst]
    return src[selected], dst[selected]


class _NamedCitations(CitationGraphDataset):
    """Base of the networks that have a class of their own, constructed without a name."""

    _own_name: str

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        reverse_edge: bool = True,
        transform: Transform = None,
        reorder: bool = False,
    ) -> None:
        super().__init__(self._own_name, raw_dir, force_reload, verbose, reverse_edge, transform, reorder)


@final
class CoraGraphDataset(_NamedCitations):
    """Cora: 2,708 papers on machine learning, 10,556 directed edges, 1,433 features, 7 classes, 140 training nodes."""

    _own_name = "cora"


@final
class CiteseerGraphDataset(_NamedCitations):
    """Citeseer: 3,327 papers on computing, 9,228 directed edges, 3,703 features, 6 classes, 120 training nodes."""

    _own_name = "citeseer"


@final
class PubmedGraphDataset(_NamedCitations):
    """Pubmed: 19,717 papers on diabetes, 88,651 directed edges, 500 features, 3 classes, 60 training nodes."""

    _own_name = "pubmed"
