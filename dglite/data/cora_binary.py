"""Pairs of neighbourhoods in Cora, for classification into two classes by a line graph network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..batch import batch
from ..convert import graph
from ..errors import DGLError
from .dataset import Folder, Graphs, Transform
from .numeric_pickle import CooMatrix, read_numeric_pickle
from .published import SITE, PublishedDataset
from .raw import lines_of

if TYPE_CHECKING:
    import scipy.sparse


@final
class CoraBinary(Graphs, PublishedDataset):
    """Small graphs cut out of Cora, with labels 0 and 1 of their nodes (Chen et al., 2019).

    Each item is (graph, matrix of a line graph's messages, labels).

    Raises DGLError: a file is missing and not to be had, damaged, or does not fit the others.

    Attributes
    ----------
    graphs : list of DGLGraph
    pmpds : list of scipy.sparse.coo_matrix
    labels : list of ndarray
        int64 (num_nodes,).
    """

    _published = "cora_binary", f"{SITE}/cora_binary.zip"
    _files = "graphs.txt", "pmpds.pkl", "labels.txt"

    def __init__(
        self, raw_dir: Folder = None, force_reload: bool = False, verbose: bool = True, transform: Transform = None
    ) -> None:
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the files."""
        edges, matrices, labels = self._paths
        self.graphs = [graph(tuple(part.T)) for part in _parts(edges, 2)]
        self.labels = [part[:, 0] for part in _parts(labels, 1)]
        self.pmpds = [_matrix(triple, matrices) for triple in read_numeric_pickle(matrices)]
        if not len(self.graphs) == len(self.pmpds) == len(self.labels):
            raise DGLError(
                f"{edges.parent} has {len(self.graphs)} graphs, {len(self.pmpds)} matrices and labels of "
                f"{len(self.labels)} graphs: files of one data set have as many of each"
            )

    def __getitem__(self, index: int) -> tuple[Any, scipy.sparse.coo_matrix, np.ndarray]:  # type: ignore[override]
        return super().__getitem__(index), self.pmpds[index], self.labels[index]

    @staticmethod
    def collate_fn(cur: Sequence[tuple[Any, scipy.sparse.coo_matrix, np.ndarray]]) -> tuple[Any, ...]:
        """Return a batch of items: the graphs as one, the matrices along a diagonal, the labels one after the other."""
        graphs, matrices, labels = zip(*cur, strict=True)
        from scipy.sparse import block_diag  # 0.2 s, which `import dglite` must not pay

        return batch(graphs), block_diag(matrices), np.concatenate(labels)


def _parts(path: Path, columns: int) -> list[np.ndarray]:
    """Return the numbers after each line ``graph ...``, int64 (lines, columns), of the parts that have any."""
    parts: list[list[list[int]]] = []
    for line, where in lines_of(path):
        if line.startswith("graph"):
            parts.append([])
            continue
        try:
            row = [int(word) for word in line.split()]
            if len(row) != columns:
                raise ValueError(f"it has {len(row)} numbers")
            parts[-1].append(row)
        except (ValueError, IndexError) as error:
            raise DGLError(f"{where} is not {columns} integers after a line 'graph': {error}") from None
    return [np.array(part, np.int64) for part in parts if part]


def _matrix(triple: Any, path: Path) -> scipy.sparse.coo_matrix:
    if not isinstance(triple, CooMatrix):
        raise DGLError(f"{path} has {type(triple).__name__} in it; expected a list of SciPy COO matrices")
    from scipy.sparse import coo_matrix  # 0.2 s, which `import dglite` must not pay

    return coo_matrix((triple.values, (triple.rows, triple.columns)), triple.shape)
