"""Peptides of the long range graph benchmark: Dwivedi et al., "Long range graph benchmark", 2022."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from .dataset import Folder, GraphsWithLabels, Transform
from .numeric_pickle import read_numeric_pt
from .published import PublishedDataset
from .raw import edges_in, float_tensor, long_tensor

_PARTS = ("train", "val", "test")


class _Peptides(GraphsWithLabels, PublishedDataset):
    """15,535 peptides as graphs of their heavy atoms.

    Graphs have ``ndata["feat"]`` (int64, (atoms, 9)) and ``edata["feat"]`` (int64, (bonds both ways, 3)): OGB's
    descriptions of atoms and bonds. They are read from the benchmark's graphs; DGL makes them from SMILES by RDKit.

    Raises DGLError: a file is missing and not to be had, damaged, or holds other content.

    Attributes
    ----------
    graphs, labels
        The graphs, those to train on first, and float32 (15535, tasks).
    """

    _files = tuple(f"{part}.pt" for part in _PARTS)
    _subfolders = "{self.name}/{self.name}", "{self.name}", "."
    num_tasks: int

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool | None = None,
        verbose: bool | None = None,
        transform: Transform = None,
    ) -> None:
        super().__init__(raw_dir, bool(force_reload), bool(verbose), transform)

    def process(self) -> None:
        """Read the graphs."""
        self.graphs, labels, self._ends = [], list[np.ndarray](), [0]
        for path in self._paths:
            for number, sample in enumerate(read_numeric_pt(path)):
                g, label = self._read(sample, number, path)
                self.graphs.append(g)
                labels.append(label)
            self._ends.append(len(self.graphs))
        self.labels = float_tensor(np.concatenate(labels) if labels else np.zeros((0, self.num_tasks)))

    def _read(self, sample: Any, number: int, path: Path) -> tuple[DGLGraph, np.ndarray]:
        try:
            atoms, bonds, (src, dst), label = (np.asarray(part) for part in sample)
            label = label.reshape(1, self.num_tasks)
            if atoms.ndim != 2 or len(bonds) != len(src):
                raise ValueError(f"atoms of shape {atoms.shape}, {len(bonds)} descriptions of {len(src)} bonds")
        except (TypeError, ValueError) as error:
            raise DGLError(
                f"peptide {number} of {path} is not descriptions of atoms and of bonds, the bonds' ends, and "
                f"{self.num_tasks} labels: {error}"
            ) from error
        g = graph(edges_in(src, dst, len(atoms), path), num_nodes=len(atoms))
        g.ndata["feat"], g.edata["feat"] = long_tensor(atoms), long_tensor(bonds)
        return g, label

    def get_idx_split(self) -> dict[str, Any]:
        """Return the published split: int64 numbers of graphs by ``"train"``, ``"val"`` and ``"test"``."""
        ranges = (np.arange(first, last) for first, last in zip(self._ends, self._ends[1:], strict=False))
        return {part: backend.active.from_numpy(ids) for part, ids in zip(_PARTS, ranges, strict=True)}


@final
class PeptidesFunctionalDataset(_Peptides):
    """Which of ten functions a peptide has: average precision is the measure."""

    _published = "peptidesfunc", "https://www.dropbox.com/s/ycsq37q8sxs1ou8/peptidesfunc.zip?dl=1"
    num_tasks = num_classes = 10


@final
class PeptidesStructuralDataset(_Peptides):
    """Eleven properties of a peptide's shape, normalised: the mean absolute error is the measure."""

    _published = "peptidesstruct", "https://www.dropbox.com/s/zgv4z8fcpmknhs8/peptidesstruct.zip?dl=1"
    num_tasks = 11
