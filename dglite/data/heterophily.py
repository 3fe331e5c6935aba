"""Node classification data sets with heterophily: neighbours often have different labels.

Pei et al., "Geom-GCN", 2020; Platonov et al., "A critical look at the evaluation of GNNs under heterophily", 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.distinct import distinct
from ..transforms import to_bidirected
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import edges_in, lines_of, npz_of

_AUTHORS = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
_SPLITS = ("train", "val", "test")
_WIDEST = 1 << 16
"""More columns than that are not written as zeros and ones; Actor has 932."""


class _WithSplits(OneGraph):
    """Base of graphs with ten splits, whose class count is in the files."""

    num_classes: int
    """The number of labels."""

    def __init__(
        self, raw_dir: Folder = None, force_reload: bool = False, verbose: bool = True, transform: Transform = None
    ) -> None:
        super().__init__(raw_dir, force_reload, verbose, transform)

    def _set(self, g: DGLGraph, features: np.ndarray, labels: np.ndarray, masks: dict[str, np.ndarray]) -> None:
        """Keep a graph with these columns; the masks have a row for each split."""
        tensor = backend.active.from_numpy
        g.ndata["feat"], g.ndata["label"] = tensor(features), tensor(labels)
        for split, mask in masks.items():
            if mask.ndim != 2 or mask.shape[1] != g.num_nodes():
                raise DGLError(f"{self._folder} has a {split} mask of {mask.shape[-1:]} for {g.num_nodes()} nodes")
            g.ndata[f"{split}_mask"] = tensor(np.ascontiguousarray(mask.T != 0))
        self._graph = g


class _Heterophilous(_WithSplits):
    """Base of the five graphs of Platonov et al., in a ``.npz`` file each.

    The graph has each edge in both directions, once, ``ndata['feat']`` (num_nodes, num_features), float32,
    ``ndata['label']`` (num_nodes,), int64, and the boolean ``train_mask``, ``val_mask`` and ``test_mask``,
    (num_nodes, 10).

    Examples
    --------
    ::

        data = dglite.data.MinesweeperDataset()
        g, num_classes = data[0], data.num_classes
        train_mask = g.ndata["train_mask"][:, 0]  # of the first split
    """

    _files = ("{self.name}.npz",)
    _subfolders = ".", "{self.name}", "heterophilous"

    def process(self) -> None:
        """Read the file and build the graph."""
        (path,) = self._paths
        names = ("edges", "node_features", "node_labels", *(f"{split}_masks" for split in _SPLITS))
        edges, features, labels, *masks = npz_of(path, names)
        if edges.ndim != 2 or edges.shape[1] != 2 or features.ndim != 2 or labels.shape != features.shape[:1]:
            raise DGLError(
                f"{path} has edges of {edges.shape}, features of {features.shape} and labels of {labels.shape}; "
                "expected (num_edges, 2), (num_nodes, num_features) and (num_nodes,)"
            )
        g = to_bidirected(graph(edges_in(edges[:, 0], edges[:, 1], len(labels), path), num_nodes=len(labels)))
        self.num_classes = len(distinct(labels))
        self._set(g, features, labels, dict(zip(_SPLITS, masks, strict=True)))


class RomanEmpireDataset(_Heterophilous):
    """Roman-empire: 22,662 words of an article, 65,854 edges, 300 features, 18 classes, 10 splits."""

    _published = "roman_empire", f"{_AUTHORS}/roman_empire.npz"


class AmazonRatingsDataset(_Heterophilous):
    """Amazon-ratings: 24,492 products, 186,100 edges, 300 features, 5 classes, 10 splits."""

    _published = "amazon_ratings", f"{_AUTHORS}/amazon_ratings.npz"


class MinesweeperDataset(_Heterophilous):
    """Minesweeper: 10,000 cells of a grid, 78,804 edges, 7 features, 2 classes, 10 splits."""

    _published = "minesweeper", f"{_AUTHORS}/minesweeper.npz"


class TolokersDataset(_Heterophilous):
    """Tolokers: 11,758 workers, 1,038,000 edges, 10 features, 2 classes, 10 splits."""

    _published = "tolokers", f"{_AUTHORS}/tolokers.npz"


class QuestionsDataset(_Heterophilous):
    """Questions: 48,921 users, 307,080 edges, 301 features, 2 classes, 10 splits."""

    _published = "questions", f"{_AUTHORS}/questions.npz"


class _GeomGCN(_WithSplits):
    """Base of the graphs of Geom-GCN: two text files, and a ``.npz`` file for each of ten splits.

    Edges are as in the files, in one direction, from the second node of a line to the first. The graph has
    ``ndata['feat']`` (num_nodes, num_features), float32, ``ndata['label']`` (num_nodes,), int64, and the boolean
    ``train_mask``, ``val_mask`` and ``test_mask``, (num_nodes, 10).

    Parameters
    ----------
    raw_dir
        Folder that has ``out1_node_feature_label.txt``, ``out1_graph_edges.txt`` and the splits
        ``<name>_split_0.6_0.2_<0 to 9>.npz`` in a folder of the data set's name, or receives them.

    Examples
    --------
    ::

        data = dglite.data.ChameleonDataset()
        g, num_classes = dglite.to_bidirected(data[0], copy_ndata=True), data.num_classes
        train_mask = g.ndata["train_mask"][:, 0]  # of the first split
    """

    _files = (
        "out1_node_feature_label.txt",
        "out1_graph_edges.txt",
        *(f"{{self.name}}_split_0.6_0.2_{i}.npz" for i in range(10)),
    )
    _subfolders = ("{self.name}",)  # the names of the files say nothing

    def process(self) -> None:
        """Read the files and build the graph."""
        nodes, edges, *splits = self._paths
        features, labels = self._nodes(nodes)
        if labels.min(initial=0) < 0:
            raise DGLError(f"{nodes} has a label below 0")
        ends = np.array([_numbers(row, 2, 2, at) for row, at in lines_of(edges, 1)], np.int64).reshape(-1, 2)
        dst, src = ends.T
        masks = [npz_of(path, [f"{split}_mask" for split in _SPLITS]) for path in splits]
        for path, parts in zip(splits, masks, strict=True):
            if any(mask.shape != labels.shape for mask in parts):
                raise DGLError(f"{path} has masks of {[len(mask) for mask in parts]} nodes; expected {len(labels)}")
        g = graph(edges_in(src, dst, len(labels), edges), num_nodes=len(labels))
        self.num_classes = int(labels.max(initial=-1)) + 1
        by_split = {split: np.stack([parts[i] for parts in masks]) for i, split in enumerate(_SPLITS)}
        self._set(g, features, labels, by_split)

    def _nodes(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """Return features and labels: a line has the node, its features and its label."""
        rows = []
        labels = []
        for (_, features, label), at in ((_parts(row, 3, at), at) for row, at in lines_of(path, 1)):
            rows.append(_numbers(features, None, 1, at, ",", float))
            labels += _numbers(label, 1, 1, at)
        if len({len(row) for row in rows}) != 1:
            raise DGLError(f"{path} has no lines, or features of different lengths")
        return np.array(rows, np.float32), np.array(labels, np.int64)


def _parts(row: str, count: int, where: str) -> list[str]:
    parts = row.split("\t")
    if len(parts) != count:
        raise DGLError(f"{where} has {len(parts)} columns; expected {count}, separated by tabs")
    return parts


def _numbers(
    text: str, count: int | None, least: int, where: str, separator: str = "\t", kind: Callable[[str], Any] = int
) -> list[Any]:
    """Return the numbers in a line; raise ``DGLError`` for something else, or for another count."""
    try:
        values = [kind(part) for part in text.split(separator)]
    except ValueError as error:
        raise DGLError(f"{where} is not as expected: {error}") from error
    if len(values) < least or (count is not None and len(values) != count):
        raise DGLError(f"{where} has {len(values)} numbers; expected {count or least}")
    return values


class ChameleonDataset(_GeomGCN):
    """Chameleon: 2,277 articles, 36,101 edges, 2,325 features, 5 classes; splits of 1,092 / 729 / 456 nodes."""

    _published = "chameleon", f"{SITE}/chameleon.zip"


class SquirrelDataset(_GeomGCN):
    """Squirrel: 5,201 articles, 217,073 edges, 2,089 features, 5 classes; splits of 2,496 / 1,664 / 1,041 nodes."""

    _published = "squirrel", f"{SITE}/squirrel.zip"


class CornellDataset(_GeomGCN):
    """Cornell: 183 web pages, 298 links, 1,703 features, 5 classes; splits of 87 / 59 / 37 nodes."""

    _published = "cornell", f"{SITE}/cornell.zip"


class TexasDataset(_GeomGCN):
    """Texas: 183 web pages, 325 links, 1,703 features, 5 classes; splits of 87 / 59 / 37 nodes."""

    _published = "texas", f"{SITE}/texas.zip"


class WisconsinDataset(_GeomGCN):
    """Wisconsin: 251 web pages, 515 links, 1,703 features, 5 classes; splits of 120 / 80 / 51 nodes."""

    _published = "wisconsin", f"{SITE}/wisconsin.zip"


class ActorDataset(_GeomGCN):
    """Actor: 7,600 actors, 33,391 edges, 932 features, 5 classes; splits of 3,648 / 2,432 / 1,520 nodes."""

    _published = "actor", f"{SITE}/actor.zip"

    def _nodes(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """Return features and labels: a line has the node, the columns that are 1, and its label."""
        lines = [(*_parts(row, 3, at), at) for row, at in lines_of(path, 1)]
        nodes = [_numbers(node, 1, 1, at)[0] for node, _, _, at in lines]
        columns = [_numbers(text, None, 1, at, ",") for _, text, _, at in lines]
        if sorted(nodes) != list(range(len(nodes))) or not nodes:
            raise DGLError(f"{path} does not number its {len(nodes)} nodes from 0 on")
        widest, least = max(map(max, columns)), min(map(min, columns))
        if least < 0 or widest >= _WIDEST:
            raise DGLError(f"{path} names columns {least} to {widest}; expected 0 to {_WIDEST - 1} at most")
        features, labels = np.zeros((len(nodes), widest + 1), np.float32), np.zeros(len(nodes), np.int64)
        for node, ones, (_, _, label, at) in zip(nodes, columns, lines, strict=True):
            features[node, ones] = 1
            labels[node] = _numbers(label, 1, 1, at)[0]
        return features, labels
