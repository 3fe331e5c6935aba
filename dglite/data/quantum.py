"""Molecules with computed quantum-chemical properties: QM7b and QM9.

Blum and Reymond, 2009; Montavon et al., 2013; Ramakrishnan et al., "Quantum chemistry structures and properties of 134
kilo molecules", 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from .dataset import GraphsWithLabels
from .published import PublishedDataset
from .raw import float_tensor, npz_of

__all__ = ["QM7bDataset", "QM9Dataset", "QM9EdgeDataset"]

_DGL = "https://data.dgl.ai/dataset"
_KEYS = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv")
_EDGE_KEYS = (*_KEYS, "U0_atom", "U_atom", "H_atom", "G_atom", "A", "B", "C")


class QM7bDataset(GraphsWithLabels, PublishedDataset):
    """QM7b: 7,211 molecules, 14 properties to predict. Read with SciPy, which must be installed.

    Nodes are atoms; edges are the non-zero entries of the Coulomb matrix, ``edata['h']``, (num_edges, 1), float32.
    Labels are float32, (14,).

    Parameters
    ----------
    raw_dir
        Folder that has ``qm7b.mat``, itself or in ``qm7b/``, or receives it.
    force_reload, verbose
        Accepted for DGL's sake; the file is read each time.
    transform
        Function of a graph, applied each time one is read.
    """

    num_tasks = num_labels = num_classes = 14
    _sha1 = "4102c744bb9d6fd7b40ac67a300e49cd87e28392"

    def __init__(
        self,
        raw_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        url = "http://deepchem.io.s3-website-us-west-1.amazonaws.com/datasets/qm7b.mat"
        super().__init__("qm7b", url, raw_dir, None, (), force_reload, verbose, transform)

    def _file_names(self) -> tuple[str, ...]:
        return ("qm7b.mat",)

    def _subfolders(self) -> tuple[str, ...]:
        return ".", self.name

    def process(self) -> None:
        """Read the file and build the graphs."""
        from scipy.io import loadmat  # takes a tenth of a second, and only this data set needs it

        path = self._folder / "qm7b.mat"
        try:
            content = loadmat(path, variable_names=("T", "X"))
            labels, matrices = (np.asarray(content[name]) for name in ("T", "X"))
        except Exception as error:  # a damaged file raises nearly anything: zlib.error, struct.error, KeyError ...
            raise DGLError(f"{path} is not read as a .mat file with T and X: {error!r}") from error
        numbers = labels.dtype.kind in "iuf" and matrices.dtype.kind in "iuf" and labels.ndim == 2
        if not numbers or matrices.ndim != 3 or matrices.shape[:2] != (len(labels), matrices.shape[-1]):
            raise DGLError(f"{path} has T of {labels.shape} and X of {matrices.shape}; expected (n, 14), (n, 23, 23)")
        self.graphs = []
        for matrix in matrices:
            src, dst = matrix.nonzero()
            made = graph((src, dst))
            made.edata["h"] = float_tensor(matrix[src, dst].reshape(-1, 1))
            self.graphs.append(made)
        self.labels = self.label = float_tensor(labels)


class _Molecules(PublishedDataset):
    """Base of the two sets of QM9, whose atoms lie one molecule after the other in a ``.npz`` file."""

    _file: str

    def _file_names(self) -> tuple[str, ...]:
        return (self._file,)

    def _subfolders(self) -> tuple[str, ...]:
        return ".", self.name

    def _arrays(self, names: Sequence[str]) -> list[np.ndarray]:
        return npz_of(self._folder / self._file, names)

    def _starts(self, counts: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """Return where each molecule begins in columns that have ``counts`` rows for each."""
        wrong = counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any()
        if wrong or any(len(column) != counts.sum() for column in columns):
            raise DGLError(f"{self._folder / self._file} has counts that do not fit its arrays")
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"molecule {index} of {len(self)}")
        return index % len(self)


def _known(keys: Sequence[str], known: Sequence[str]) -> list[str]:
    if unknown := [key for key in keys if key not in known]:
        raise DGLError(f"label_keys has {unknown[0]!r}; expected some of {', '.join(known)}")
    return list(keys)


class QM9Dataset(_Molecules):
    """QM9: 130,831 molecules, 12 properties to predict, edges between atoms that are near to each other.

    Graphs have ``ndata['R']`` (positions in angstrom, float32) and ``ndata['Z']`` (atomic numbers, int64). Labels are
    float32, (num_tasks,). Graphs are made when they are read.

    Parameters
    ----------
    label_keys
        Properties: some of mu, alpha, homo, lumo, gap, r2, zpve, U0, U, H, G, Cv.
    cutoff
        Atoms at most that far from each other have edges in both directions.
    raw_dir
        Folder that has ``qm9_eV.npz``, itself or in ``qm9/``, or receives it.
    force_reload, verbose
        Accepted for DGL's sake; the file is read each time.
    transform
        Function of a graph, applied each time one is read.
    """

    _file = "qm9_eV.npz"

    def __init__(
        self,
        label_keys: Sequence[str],
        cutoff: float = 5.0,
        raw_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.cutoff, self.label_keys = cutoff, _known(label_keys, _KEYS)
        super().__init__("qm9", f"{_DGL}/{self._file}", raw_dir, None, (), force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file."""
        self.N, self.R, self.Z, *labels = self._arrays(["N", "R", "Z", *self.label_keys])
        self.N_cumsum = self._starts(self.N, self.R, self.Z)
        if self.R.ndim != 2 or any(column.shape != self.N.shape for column in labels):
            raise DGLError(f"{self._folder / self._file} has positions of {self.R.shape}, or labels of another length")
        self.label = np.stack(labels, axis=1) if labels else np.zeros((len(self.N), 0))

    @property
    def num_tasks(self) -> int:
        """How many properties are asked for."""
        return int(self.label.shape[1])

    num_labels = num_classes = num_tasks

    def __len__(self) -> int:
        return len(self.N)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return molecule ``index`` and its properties; ``IndexError`` where there is none."""
        index = self._checked(index)
        atoms = slice(*self.N_cumsum[index : index + 2])
        positions = self.R[atoms]
        near = np.linalg.norm(positions[:, None] - positions[None], axis=-1) <= self.cutoff
        np.fill_diagonal(near, False)
        made = graph(near.nonzero(), num_nodes=len(positions))
        made.ndata["R"] = float_tensor(positions)
        made.ndata["Z"] = backend.active.from_numpy(self.Z[atoms].astype(np.int64))
        return (made if self._transform is None else self._transform(made)), float_tensor(self.label[index])


class QM9EdgeDataset(_Molecules):
    """QM9 with bonds as edges: 130,831 molecules, 19 properties to predict.

    Graphs have ``ndata['pos']`` (3 columns), ``ndata['attr']`` (11) and ``edata['edge_attr']`` (4), all float32. Labels
    are float32: (num_tasks,) for the ``label_keys`` given, (1, 19) without, as in DGL. Graphs are made when they are
    read.

    Parameters
    ----------
    label_keys
        Properties, some of ``keys``; default all.
    raw_dir
        Folder that has ``qm9_edge.npz``, itself or in ``qm9Edge/``, or receives it.
    force_reload, verbose
        Accepted for DGL's sake; the file is read each time.
    transform
        Function of a graph, applied each time one is read.
    """

    keys = _EDGE_KEYS
    _file = "qm9_edge.npz"

    def __init__(
        self,
        label_keys: Sequence[str] | None = None,
        raw_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        known = None if label_keys is None else _known(label_keys, self.keys)
        self.label_keys = None if known is None else [self.keys.index(key) for key in known]
        self.num_labels = self.num_tasks = len(self.keys if known is None else known)
        super().__init__("qm9Edge", f"{_DGL}/{self._file}", raw_dir, None, (), force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file."""
        self.n_node, self.n_edge, self.node_attr, self.node_pos = self._arrays(
            ("n_node", "n_edge", "node_attr", "node_pos")
        )
        self.edge_attr, self.targets, self.src, self.dst = self._arrays(("edge_attr", "targets", "src", "dst"))
        self.n_cumsum = self._starts(self.n_node, self.node_attr, self.node_pos)
        self.ne_cumsum = self._starts(self.n_edge, self.edge_attr, self.src, self.dst)
        if not len(self.n_node) == len(self.n_edge) == len(self.targets) or self.targets.shape[1:] != (len(self.keys),):
            raise DGLError(f"{self._folder / self._file} has arrays for different numbers of molecules or properties")

    def __len__(self) -> int:
        return len(self.n_node)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return molecule ``index`` and its properties; ``IndexError`` where there is none."""
        index = self._checked(index)
        atoms, bonds = (slice(*starts[index : index + 2]) for starts in (self.n_cumsum, self.ne_cumsum))
        made = graph((self.src[bonds], self.dst[bonds]), num_nodes=int(self.n_node[index]))
        made.ndata["pos"], made.ndata["attr"] = float_tensor(self.node_pos[atoms]), float_tensor(self.node_attr[atoms])
        made.edata["edge_attr"] = float_tensor(self.edge_attr[bonds])
        label = float_tensor(self.targets[index][self.label_keys])
        return (made if self._transform is None else self._transform(made)), label
