"""Molecules with computed quantum-chemical properties: QM7b and QM9.

Blum and Reymond, 2009; Montavon et al., 2013; Ramakrishnan et al., "Quantum chemistry structures and properties of 134
kilo molecules", 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..convert import graph
from ..errors import DGLError
from .dataset import Folder, GraphsMadeWhenRead, GraphsWithLabels, Transform
from .joined import Joined, starts
from .published import SITE, PublishedDataset
from .raw import float_tensor, long_tensor, mat_of, npz_of

_KEYS = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv")
_EDGE_KEYS = (*_KEYS, "U0_atom", "U_atom", "H_atom", "G_atom", "A", "B", "C")


class QM7bDataset(GraphsWithLabels, PublishedDataset):
    """QM7b: 7,211 molecules, 14 properties to predict. Read with SciPy, which must be installed.

    Nodes are atoms; edges are the non-zero entries of the Coulomb matrix, ``edata['h']``, (num_edges, 1), float32.
    Labels are float32, (14,).
    """

    _published = "qm7b", "http://deepchem.io.s3-website-us-west-1.amazonaws.com/datasets/qm7b.mat"
    _files, _subfolders = ("qm7b.mat",), (".", "{self.name}")
    _sha1 = "4102c744bb9d6fd7b40ac67a300e49cd87e28392"
    num_tasks = num_labels = num_classes = 14

    def process(self) -> None:
        """Read the file and build the graphs."""
        (path,) = self._paths
        labels, matrices = mat_of(path, ("T", "X")).values()
        numbers = labels.dtype.kind in "iuf" and matrices.dtype.kind in "iuf" and labels.ndim == 2
        if not numbers or matrices.ndim != 3 or matrices.shape[:2] != (len(labels), matrices.shape[-1]):
            raise DGLError(f"{path} has T of {labels.shape} and X of {matrices.shape}; expected (n, 14), (n, 23, 23)")
        self.graphs = []
        for matrix in matrices:
            src, dst = matrix.nonzero()
            g = graph((src, dst))
            g.edata["h"] = float_tensor(matrix[src, dst].reshape(-1, 1))
            self.graphs.append(g)
        self.labels = self.label = float_tensor(labels)


class _Molecules(GraphsMadeWhenRead, PublishedDataset):
    """Base of the two sets of QM9, whose atoms lie one molecule after the other in a ``.npz`` file."""

    _subfolders = ".", "{self.name}"

    def _arrays(self, names: Sequence[str]) -> list[np.ndarray]:
        return npz_of(self._paths[0], names)

    def _label(self, number: int) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define _label(number), which returns properties")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return molecule ``index`` and its properties; ``IndexError`` if there is no such molecule."""
        return super().__getitem__(index), float_tensor(self._label(self._number(index)))

    def _starts(self, counts: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """Return the offset of each molecule in columns of ``counts`` rows for each."""
        wrong = counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any()
        if wrong or any(len(column) != counts.sum() for column in columns):
            raise DGLError(f"{self._paths[0]} has counts that do not fit its arrays")
        return starts(counts)


def _checked_keys(keys: Sequence[str], all_keys: Sequence[str]) -> list[str]:
    if unknown := [key for key in keys if key not in all_keys]:
        raise DGLError(f"label_keys has {unknown[0]!r}; expected some of {', '.join(all_keys)}")
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
    """

    _published = "qm9", f"{SITE}/qm9_eV.npz"
    _files = ("qm9_eV.npz",)

    def __init__(
        self,
        label_keys: Sequence[str],
        cutoff: float = 5.0,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        self.cutoff, self.label_keys = cutoff, _checked_keys(label_keys, _KEYS)
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file."""
        self.N, self.R, self.Z, *labels = self._arrays(["N", "R", "Z", *self.label_keys])
        self.N_cumsum = self._starts(self.N, self.R, self.Z)
        if self.R.ndim != 2 or any(column.shape != self.N.shape for column in labels):
            raise DGLError(f"{self._paths[0]} has positions of {self.R.shape}, or labels of another length")
        self.label = np.stack(labels, axis=1) if labels else np.zeros((len(self.N), 0))

    @property
    def num_tasks(self) -> int:
        """The number of requested properties."""
        return int(self.label.shape[1])

    num_labels = num_classes = num_tasks

    def __len__(self) -> int:
        return len(self.N)

    def _graph_at(self, number: int) -> Any:
        atoms = slice(*self.N_cumsum[number : number + 2])
        positions = self.R[atoms]
        near = np.linalg.norm(positions[:, None] - positions[None], axis=-1) <= self.cutoff
        np.fill_diagonal(near, False)
        g = graph(near.nonzero(), num_nodes=len(positions))
        g.ndata["R"], g.ndata["Z"] = float_tensor(positions), long_tensor(self.Z[atoms])
        return g

    def _label(self, number: int) -> np.ndarray:
        return self.label[number]


class QM9EdgeDataset(_Molecules):
    """QM9 with bonds as edges: 130,831 molecules, 19 properties to predict.

    Graphs have ``ndata['pos']`` (3 columns), ``ndata['attr']`` (11) and ``edata['edge_attr']`` (4), all float32. Labels
    are float32: (num_tasks,) for the ``label_keys`` given, (1, 19) without, as in DGL. Graphs are made when they are
    read.

    Parameters
    ----------
    label_keys
        Properties, some of ``keys``; default all.
    """

    _published = "qm9Edge", f"{SITE}/qm9_edge.npz"
    _files = ("qm9_edge.npz",)
    keys = _EDGE_KEYS

    def __init__(
        self,
        label_keys: Sequence[str] | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        names = None if label_keys is None else _checked_keys(label_keys, self.keys)
        self.label_keys = None if names is None else [self.keys.index(key) for key in names]
        self.num_labels = self.num_tasks = len(self.keys if names is None else names)
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file."""
        self.n_node, self.n_edge, self.node_attr, self.node_pos = self._arrays(
            ("n_node", "n_edge", "node_attr", "node_pos")
        )
        self.edge_attr, self.targets, self.src, self.dst = self._arrays(("edge_attr", "targets", "src", "dst"))
        self.n_cumsum = self._starts(self.n_node, self.node_attr, self.node_pos)
        self.ne_cumsum = self._starts(self.n_edge, self.edge_attr, self.src, self.dst)
        if not len(self.n_node) == len(self.n_edge) == len(self.targets) or self.targets.shape[1:] != (len(self.keys),):
            raise DGLError(f"{self._paths[0]} has arrays for different numbers of molecules or properties")
        pos, attr, bonds = (x.astype(np.float32, copy=False) for x in (self.node_pos, self.node_attr, self.edge_attr))
        ndata, edata = {"pos": pos, "attr": attr}, {"edge_attr": bonds}
        self._all = Joined(self.src, self.dst, self.n_cumsum, self.ne_cumsum, ndata, edata)

    def __len__(self) -> int:
        return len(self.n_node)

    def _graph_at(self, number: int) -> Any:
        return self._all.graph(number)

    def _label(self, number: int) -> np.ndarray:
        return self.targets[number][self.label_keys]
