"""Temporal networks: trust between traders, and news events.

Kumar et al., "Edge weight prediction in weighted signed networks", 2016; Jin et al., "Recurrent event network", 2020.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from .dataset import Folder, GraphsMadeWhenRead, Transform
from .published import SITE, PartOfThree, PublishedDataset
from .raw import long_tensor

_FORTNIGHT = 14 * 24 * 3600
_LARGEST = 1 << 53
"""Node numbers and times are below that: they are read as float64."""


def _events_of(path: Path, separator: str) -> np.ndarray:
    """Return the first four numbers of each line, float64; they are finite."""
    try:
        events: np.ndarray = np.loadtxt(path, delimiter=separator, usecols=(0, 1, 2, 3), ndmin=2)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise DGLError(f"{path} is not four numbers a line, separated by {separator!r}: {error}") from error
    wrong = np.flatnonzero(~(np.abs(events) < _LARGEST).all(1))
    if len(wrong) or not len(events):
        raise DGLError(f"{path} has no lines" if not len(events) else f"line {wrong[0] + 1} of {path} has no number")
    return events


def _check_nodes(nodes: np.ndarray, path: Path) -> None:
    """Raise ``DGLError`` for node numbers that are negative, or far larger than there are edges."""
    most = 1000 * len(nodes) + 100_000
    wrong = np.flatnonzero(((nodes < 0) | (nodes >= most)).any(1))
    if len(wrong):
        raise DGLError(
            f"line {wrong[0] + 1} of {path} names nodes {nodes[wrong[0]].tolist()}; expected 0 to {most - 1}"
        )


class _Events(GraphsMadeWhenRead, PublishedDataset):
    """Base of these data sets: graph i has all events up to step i, and is made when it is read."""

    is_temporal = True
    _feature = "rel_type"
    _ends: np.ndarray
    _values: np.ndarray
    _steps: np.ndarray
    start_time: int
    """The first step."""
    end_time: int
    """The last step."""

    def __len__(self) -> int:
        return self.end_time - self.start_time + 1

    def _graph_at(self, number: int) -> DGLGraph:
        so_far = self._steps <= self.start_time + number
        g = graph(tuple(self._ends[so_far].T))
        g.edata[self._feature] = long_tensor(self._values[so_far].reshape(-1, 1))
        return g


class BitcoinOTCDataset(_Events):
    """Bitcoin OTC: who trusts whom, 5,881 traders, 35,592 ratings from -10 to 10; 136 graphs, a fortnight each.

    Graph i has the ratings up to fortnight i, in the order of the file, ``edata['h']`` (num_edges, 1), int64, and nodes
    up to the highest number so far.

    Parameters
    ----------
    raw_dir
        Folder that has ``soc-sign-bitcoinotc.csv.gz``, or receives it; unpacked it may lie there, too, or in
        ``bitcoinotc/``, or as ``bitcoinotc.csv``, DGL's name for it.

    Attributes
    ----------
    graphs
        List of the graphs, made when it is first asked for.
    is_temporal
        True.

    Examples
    --------
    ::

        for g in dglite.data.BitcoinOTCDataset():
            ratings = g.edata["h"]
    """

    _published = "bitcoinotc", "https://snap.stanford.edu/data/soc-sign-bitcoinotc.csv.gz"
    _files = ("soc-sign-bitcoinotc.csv",)
    _sha1 = "c14281f9e252de0bd0b5f1c6e2bae03123938641"
    _feature = "h"

    def _file_names(self) -> tuple[str, ...]:
        by_dgl = any((folder / "bitcoinotc.csv").is_file() for folder in self._folders())
        return ("bitcoinotc.csv",) if by_dgl else self._files

    def process(self) -> None:
        """Read the file."""
        (path,) = self._paths
        events = _events_of(path, ",").astype(np.int64)
        self._ends = events[:, :2] - events[:, :2].min()
        _check_nodes(self._ends, path)
        self._values = events[:, 2]
        self._steps = np.around((events[:, 3] - events[:, 3].min()) / _FORTNIGHT).astype(np.int64)
        self.start_time, self.end_time = 0, int(self._steps.max()) - 1  # as in DGL, without the last fortnight

    @cached_property
    def graphs(self) -> list[DGLGraph]:
        """The graphs."""
        return [self._graph_at(number) for number in range(len(self))]


class _EventDataset(_Events, PartOfThree):
    """Base of two data sets of news: what happened, between whom, when.

    Graph i has the events up to step i of its part, in the order of the file, ``edata['rel_type']`` (num_edges, 1),
    int64, and nodes up to the highest number so far. Graphs are made when they are read.

    Parameters
    ----------
    mode
        ``"train"``, ``"valid"`` or ``"test"``, in any case.

    Attributes
    ----------
    is_temporal
        True.
    start_time, end_time
        First and last step.

    Examples
    --------
    ::

        for g in dglite.data.ICEWS18Dataset(mode="valid"):
            relations = g.edata["rel_type"]
    """

    _files = ("{self.mode}.txt",)
    _subfolders = ("{self.name}",)  # the names of the files say nothing
    _minutes: ClassVar[int]
    """The length of a step, in the unit of the file's times."""

    def __init__(
        self,
        mode: str = "train",
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        super().__init__(mode.lower(), raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file."""
        (path,) = self._paths
        events = _events_of(path, "\t").astype(np.int64)
        self._ends, self._values = events[:, [0, 2]], events[:, 1]
        _check_nodes(self._ends, path)
        self._steps = events[:, 3] // self._minutes
        steps = self._steps[self._steps != -1]
        if not len(steps):
            raise DGLError(f"{path} has no event with a time")
        self.start_time, self.end_time = int(steps.min()), int(steps.max())


class ICEWS18Dataset(_EventDataset):
    """ICEWS18: events between political actors in 2018, 23,033 actors; 240 / 30 / 34 graphs, a day each."""

    _published = "ICEWS18", f"{SITE}/icews18.zip"
    _minutes = 24


class GDELTDataset(_EventDataset):
    """GDELT: events of January 2018; 2,304 / 288 / 384 graphs, a quarter of an hour each."""

    _published = "GDELT", f"{SITE}/gdelt.zip"
    _minutes = 15
    num_nodes = 23033


BitcoinOTC = BitcoinOTCDataset
ICEWS18 = ICEWS18Dataset
GDELT = GDELTDataset
