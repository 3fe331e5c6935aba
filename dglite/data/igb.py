"""Folders of the Illinois Graph Benchmark, IGB and IGBH, read where they are.

Khatua et al., "IGB: Addressing the gaps in labeling, features, heterogeneity, and size of public graph datasets for
deep learning research", 2023.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..backend import active
from ..convert import graph, heterograph
from ..errors import DGLError
from ..graph import DGLGraph
from .raw import npy_of

_WIDTH = 1024
"""Features of each node, float32."""
_NPY = b"\x93NUMPY"
_LABELS = {19: "node_label_19.npy", 2983: "node_label_2K.npy"}
_LABELLED = {(269_346_174, 19): 227_130_858, (269_346_174, 2983): 157_675_969}
"""By numbers of papers and classes: of the largest set, only the first papers have labels."""


class IGBFolder:
    """A folder of one size of IGB (papers that cite papers) or IGBH (papers, authors, institutes and fields of study).

    Features stay in their files, of which only the pages that are read come into memory; edges are copied, 8 bytes for
    each. Nothing is downloaded, and no self-loops are added: see :func:`dglite.add_self_loop`.

    Raises DGLError: a file is missing, or not what is expected.

    Parameters
    ----------
    path
        the folder of a size, ``igb/tiny`` for example, with ``processed`` in it; or ``processed`` itself. A folder
        ``paper__cites__paper`` with ``edge_index.npy``, (num_edges, 2), makes an edge type, a folder ``paper`` with
        ``node_feat.npy`` a node type.
    num_classes
        19, or 2983.

    Attributes
    ----------
    graph
        the graph, homogeneous where papers are all there is. Papers have ``"label"``, int64, and the boolean
        ``"train_mask"``, ``"val_mask"`` and ``"test_mask"``: the first 60, the next 20 and the last 20 percent of those
        with labels.

    Examples
    --------
    ::

        folder = dglite.data.IGBFolder("igb/tiny")
        features = dglite.dataloading.MappedFeatures(folder.feature_file("paper"))
        sampler = dglite.dataloading.NeighborSampler([10, 10], prefetch_node_feats={"feat": features})
    """

    graph: DGLGraph

    def __init__(self, path: str | os.PathLike[str], num_classes: int = 19) -> None:
        folder = Path(path)
        self.path = folder / "processed" if (folder / "processed").is_dir() else folder
        if num_classes not in _LABELS:
            raise DGLError(f"IGB has labels of 19 or 2983 classes, not {num_classes}")
        files: dict[tuple[str, str, str], Path] = {}
        for file in sorted(self.path.glob("*__*__*/edge_index.npy")):
            source, relation, target = file.parent.name.split("__", 2)
            files[source, relation, target] = file
        if not files:
            raise DGLError(f"{self.path} has no folder like paper__cites__paper with an edge_index.npy")
        self.num_classes = num_classes
        ntypes = sorted({end for etype in files for end in (etype[0], etype[-1])})
        counts = {ntype: len(self.features(ntype)) for ntype in ntypes}
        edges = {etype: _edges(file, etype, counts) for etype, file in files.items()}
        if {*edges} == {("paper", "cites", "paper")}:
            self.graph = graph(edges["paper", "cites", "paper"], num_nodes=counts["paper"])
        else:
            self.graph = heterograph(edges, counts)
        if "paper" in counts:
            self._set_labels(counts["paper"])

    def feature_file(self, ntype: str) -> Path:
        """Return the file with the features of a node type.

        Those of the sizes large and full have no header in some copies: :meth:`features` reads them, too.
        """
        return self.path / ntype / "node_feat.npy"

    def features(self, ntype: str) -> np.ndarray:
        """Return the features of a node type, mapped: (num_nodes, 1024) float32, or as the file says."""
        return _rows(self.feature_file(ntype), _WIDTH)

    def _set_labels(self, num_papers: int) -> None:
        labels = _rows(self.path / "paper" / _LABELS[self.num_classes], 1).reshape(-1)
        if len(labels) != num_papers:
            raise DGLError(f"{self.path / 'paper'} has {len(labels)} labels of {num_papers} papers")
        data = self.graph.nodes["paper" if len(self.graph.ntypes) > 1 else self.graph.ntypes[0]].data
        labelled = _LABELLED.get((num_papers, self.num_classes), num_papers)
        values = np.full(num_papers, -1, np.int64)
        values[:labelled] = labels[:labelled]
        data["label"] = active.from_numpy(values)
        ends = np.cumsum([0, int(labelled * 0.6), int(labelled * 0.2)]).tolist() + [labelled]
        for name, first, last in zip(("train", "val", "test"), ends[:-1], ends[1:], strict=True):
            mask = np.zeros(num_papers, bool)
            mask[first:last] = True
            data[f"{name}_mask"] = active.from_numpy(mask)


def _rows(path: Path, width: int) -> np.ndarray:
    """Return a mapped array; a file without a header is of float32 rows."""
    if not path.is_file():
        raise DGLError(f"{path} is missing; IGB's folder is to have it")
    with path.open("rb") as file:
        if file.read(len(_NPY)) == _NPY:
            return npy_of(path, mapped=True)
    if path.stat().st_size % (4 * width):
        raise DGLError(f"{path} has {path.stat().st_size:,} bytes and no header, which are no rows of {width} float32")
    return np.memmap(path, np.float32, "r").reshape(-1, width)


def _edges(path: Path, etype: tuple[str, str, str], counts: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    ends = npy_of(path, mapped=True)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise DGLError(f"{path} holds {ends.dtype} of shape {ends.shape}; expected integers of shape (num_edges, 2)")
    for column, ntype in enumerate((etype[0], etype[-1])):
        if len(ends) and not 0 <= int(ends[:, column].min()) <= int(ends[:, column].max()) < counts[ntype]:
            raise DGLError(
                f"{path} has ids from {ends[:, column].min()} to {ends[:, column].max()}; "
                f"there are {counts[ntype]} nodes of type {ntype!r}"
            )
    return ends[:, 0], ends[:, 1]
