"""The Temporal Graph Benchmark's data sets of link prediction, read from a folder, without the package ``py-tgb``.

Huang et al., "Temporal graph benchmark for machine learning on temporal graphs", 2023.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backend import Tensor, active
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from .numeric_pickle import plain, read_numeric_pickle

_VERSIONS = {"tgbl-wiki": 2, "tgbl-review": 2, "tgbl-coin": 2}
"""Versions of the files, in their names; the first is in none."""


class _Links(NamedTuple):
    """Events in the order of the file: ends, times and what else there is of them."""

    src: np.ndarray
    dst: np.ndarray
    times: np.ndarray
    feat: np.ndarray
    weight: np.ndarray | None = None


class LinkPropPredDataset:
    """One of TGB's data sets of links: tgbl-wiki, -subreddit, -lastfm, -uci, -enron, -review, -coin, -comment.

    ``data[0]`` is a graph with an edge for each event, from source to destination, in the order of time. It has
    ``edata['t']`` (num_edges,), int64 or float64, ``edata['feat']`` (num_edges, num_features), float32, where there are
    features, ``edata['weight']`` of -review, -coin and -comment, and the boolean ``edata['train_mask']``,
    ``['val_mask']`` and ``['test_mask']``: the first 70, the next 15 and the last 15 percent by time. Nodes are
    numbered as TGB does it. Nothing is downloaded. Evaluate with :func:`dglite.metrics.mrr`.

    Parameters
    ----------
    name
        the data set's name.
    root
        folder that has the data set's, ``tgbl_wiki`` for example, as TGB unpacks it; or that folder itself.

    Raises
    ------
    DGLError
        The name is not one of these, a file is missing, or not what is expected.

    Examples
    --------
    ::

        data = dglite.data.tgb.LinkPropPredDataset("tgbl-wiki", root="datasets")
        g = data[0]
        edges, negatives = data.negatives("val")  # (num_val,), (num_val, 999)
    """

    def __init__(self, name: str, root: str | os.PathLike[str] = "datasets") -> None:
        if name not in _READERS:
            raise DGLError(f"{name!r} is not one of the data sets of links that are read: {', '.join(_READERS)}")
        self.name = name
        self._version = f"_v{_VERSIONS[name]}" if name in _VERSIONS else ""
        folder, edges = name.replace("-", "_"), f"{name}_edgelist{self._version}.csv"
        folders = Path(root) / folder, Path(root)
        self._folder = next((x for x in folders if (x / edges).is_file()), None)
        if self._folder is None:
            raise DGLError(
                f"there is no {edges} in {folders[0]} or {folders[1]}; unpack what TGB publishes as {name} there, or "
                f"let its package do it: tgb.linkproppred.dataset.LinkPropPredDataset({name!r})"
            )
        self._events = _in_order(_READERS[name](self._folder / edges), self._folder / edges)
        self._graph = _graph_of(self._events)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> DGLGraph:
        if index not in (0, -1):
            raise IndexError(f"{self.name} is one graph, [0]; got [{index}]")
        return self._graph

    def __repr__(self) -> str:
        return f"LinkPropPredDataset({self.name!r}, {len(self._events.src):,} events)"

    def negatives(self, split: str) -> tuple[Tensor, Tensor]:
        """Return the ids of the edges of a split, and the destinations that each is ranked among, one row for each.

        Where an edge has fewer than others, which is rare, its row ends with copies of its last one.

        Parameters
        ----------
        split
            ``"val"`` or ``"test"``.

        Raises
        ------
        DGLError
            There is no such split, or its file does not have an edge.
        """
        if split not in ("val", "test"):
            raise DGLError(f'split is {split!r}; expected "val" or "test"')
        assert self._folder is not None
        path = self._folder / f"{self.name}_{split}_ns{self._version}.pkl"
        if not path.is_file():
            raise DGLError(f"{path} is missing; it comes with the data set")
        by_event = plain(read_numeric_pickle(path))
        edges = np.flatnonzero(active.to_numpy(self._graph.edata[f"{split}_mask"]))
        ends = zip(*(x[edges].tolist() for x in self._events[:3]), strict=True)
        try:
            rows = [np.asarray(by_event[event]).reshape(-1) for event in ends]
        except (KeyError, TypeError) as error:
            raise DGLError(f"{path} has no destinations for the edge (source, destination, time) {error}") from error
        return active.from_numpy(edges, None), active.from_numpy(_rows(rows, path), None)


def _rows(rows: list[np.ndarray], path: Path) -> np.ndarray:
    """Return rows of one length, int64."""
    sizes = np.array([len(row) for row in rows], np.int64)
    if not len(rows) or not sizes.all():
        raise DGLError(f"{path} has an edge without destinations")
    places = np.cumsum(sizes)[:, None] - sizes[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    table: np.ndarray = np.concatenate(rows).astype(np.int64)[places]
    return table


def _graph_of(events: _Links) -> DGLGraph:
    num_nodes = int(max(events.src.max(initial=-1), events.dst.max(initial=-1))) + 1
    g = graph((active.from_numpy(events.src, None), active.from_numpy(events.dst, None)), num_nodes=num_nodes)
    columns = {"t": events.times}
    if events.feat.shape[1]:
        columns["feat"] = events.feat
    if events.weight is not None:
        columns["weight"] = events.weight
    before_val, before_test = np.quantile(events.times, [0.7, 0.85])
    columns["train_mask"] = events.times <= before_val
    columns["val_mask"] = (events.times > before_val) & (events.times <= before_test)
    columns["test_mask"] = events.times > before_test
    for name, column in columns.items():
        g.edata[name] = active.from_numpy(np.ascontiguousarray(column), None)
    return g


def _in_order(events: _Links, path: Path) -> _Links:
    """Return events in the order of their times, which are int64 where they are whole."""
    times = events.times.astype(np.float64)
    if not len(times):
        raise DGLError(f"{path} has no events")
    if not np.isfinite(times).all():
        raise DGLError(f"line {2 + np.isfinite(times).argmin()} of {path} has a time that is no number")
    events = events._replace(times=times.astype(np.int64) if (times == np.floor(times)).all() else times)
    if (np.diff(times) >= 0).all():
        return events
    order = np.argsort(times, kind="stable")
    weight = None if events.weight is None else events.weight[order]
    return _Links(events.src[order], events.dst[order], events.times[order], events.feat[order], weight)


# -- files -------------------------------------------------------------------------------------------------------------
def _frame(path: Path, **options: Any) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("TGB's files are read by pandas, which is not installed: pip install pandas") from error
    try:
        return pandas.read_csv(path, header=None, skiprows=1, **options)
    except (ValueError, pandas.errors.ParserError) as error:
        raise DGLError(f"{path} is no table of comma-separated values with a header: {error}") from error


def _jodie(path: Path) -> _Links:
    """Read lines of user, item, time, label and features; items are numbered after users."""
    table = _frame(path)
    if table.shape[1] < 4 or any(kind.kind not in "iuf" for kind in table.dtypes):
        raise DGLError(
            f"{path} has columns {[str(x) for x in table.dtypes]}; expected user, item, time, label and numbers"
        )
    users, items = (table[i].to_numpy().astype(np.int64) for i in (0, 1))
    if min(users.min(initial=0), items.min(initial=0)) < 0:
        raise DGLError(f"{path} has a negative number of a user or an item")
    return _Links(users, items + users.max(initial=-1) + 1, table[2].to_numpy(), table.iloc[:, 4:].to_numpy(np.float32))


def _numbered(path: Path, num_columns: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a table whose columns 1 and 2 are names, and these numbered in the order in which they come."""
    table = _frame(path, dtype={1: str, 2: str}, keep_default_na=False)
    if table.shape[1] < num_columns or any(table.dtypes.iloc[i].kind not in "iuf" for i in (0, *range(3, num_columns))):
        raise DGLError(f"{path} has columns {[str(x) for x in table.dtypes]}; expected time, two names and numbers")
    import pandas

    names = table[[1, 2]].to_numpy().reshape(-1)  # source, destination, source ...
    numbers = pandas.factorize(names)[0].astype(np.int64).reshape(-1, 2)
    return table, np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])


def _weighted(path: Path) -> _Links:
    """Read lines of time, source, destination and weight, whose logarithm to the base of 2 is taken."""
    table, src, dst = _numbered(path, 4)
    weight = table[3].to_numpy(np.float64)
    weight = np.log2(np.where(weight == 0, 1, weight)).astype(np.float32)
    return _Links(src, dst, table[0].to_numpy(), np.empty((len(src), 0), np.float32), weight)


def _comments(path: Path) -> _Links:
    """Read lines of time, source, destination, number of words and score: the words, by 5,000, are the feature."""
    table, src, dst = _numbered(path, 5)
    words = table[3].to_numpy(np.float32)[:, None] / 5000
    return _Links(src, dst, table[0].to_numpy(), words, table[4].to_numpy(np.float32))


_READERS: dict[str, Callable[[Path], _Links]] = {
    **dict.fromkeys(("tgbl-wiki", "tgbl-subreddit", "tgbl-lastfm", "tgbl-uci", "tgbl-enron"), _jodie),
    "tgbl-review": _weighted,
    "tgbl-coin": _weighted,
    "tgbl-comment": _comments,
}
