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

_VERSIONS = {"tgbl-wiki": 2, "tgbl-review": 2, "tgbl-coin": 2, "tgbl-flight": 2}
"""Versions of the files, in their names; the first is in none."""
_FILTERED = frozenset(["tkgl-polecat", "tkgl-icews", "tkgl-yago"])
"""Sets whose destinations are ranked among all but those that are true at the same time."""


class _Links(NamedTuple):
    """Events in the order of the file: ends, times and what else there is of them."""

    src: np.ndarray
    dst: np.ndarray
    times: np.ndarray
    feat: np.ndarray
    weight: np.ndarray | None = None
    types: np.ndarray | None = None
    names: np.ndarray | None = None
    """Of the nodes, as text, by number."""


class LinkPropPredDataset:
    """One of TGB's data sets of links.

    They are tgbl-wiki, -subreddit, -lastfm, -uci, -enron, -review, -coin, -comment and -flight; of typed links the
    knowledge graphs tkgl-polecat, -icews, -yago, -wikidata and -smallpedia, and thgl-myket, -github, -forum and
    -software, whose nodes have types, too.

    ``data[0]`` is a graph with an edge for each event, from source to destination, in the order of time. It has
    ``edata['t']`` (num_edges,), int64 or float64, ``edata['feat']`` (num_edges, num_features), float32, where there are
    features, ``edata['weight']`` of -review, -coin and -comment, ``edata['type']``, int64, of typed links, and the
    boolean ``edata['train_mask']``, ``['val_mask']`` and ``['test_mask']``: the first 70, the next 15 and the last 15
    percent by time; of tkgl-yago 80, 10 and 10. Nodes are numbered as TGB does it. ``ndata['type']``, int64, are the
    types of the nodes of thgl sets, and ``ndata['feat']``, float32, the airports' features of tgbl-flight: kind and
    continent as 0 and 1, region, longitude and latitude. Of tkgl sets TGB adds the reverse of each link, with its type
    plus the number of types; here they are left to the model. Nothing is downloaded. Evaluate with
    :func:`dglite.metrics.mrr`.

    Raises DGLError: the name is not one of these, a file is missing, or not what is expected.

    Parameters
    ----------
    name
        the data set's name.
    root
        folder that has the data set's, ``tgbl_wiki`` for example, as TGB unpacks it; or that folder itself.

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
        self._graph = _graph_of(self._events, name)
        if name == "tgbl-flight":
            feat = _airports(self._folder / f"airport_node_feat{self._version}.csv", self._events.names)
            self._graph.ndata["feat"] = active.from_numpy(feat, None)
        if name.startswith("thgl"):
            types = _node_types(self._folder / f"{name}_nodetype.csv", self._events.names)
            self._graph.ndata["type"] = active.from_numpy(types, None)

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

        Raises DGLError: there is no such split, or its file does not have an edge.

        Parameters
        ----------
        split
            ``"val"`` or ``"test"``.
        """
        if self.name in _FILTERED:
            raise DGLError(
                f"{self.name} ranks a destination among all nodes but those of conflicts({split!r}); a table of them "
                "would have a column for each node"
            )
        edges, rows, path = self._by_event(split)
        return active.from_numpy(edges, None), active.from_numpy(_rows(rows, path), None)

    def conflicts(self, split: str) -> tuple[Tensor, list[np.ndarray]]:
        """Return the ids of the edges of a split, and for each the destinations that it is not ranked among.

        These are true at the same time, of the same source and type. Of tkgl-polecat, -icews and -yago; errors are
        those of :meth:`negatives`.
        """
        if self.name not in _FILTERED:
            raise DGLError(f"{self.name} lists what destinations are ranked among: negatives({split!r})")
        edges, rows, _ = self._by_event(split)
        return active.from_numpy(edges, None), rows

    def _by_event(self, split: str) -> tuple[np.ndarray, list[np.ndarray], Path]:
        """Return the edges of a split, what its file says of each, and the file."""
        if split not in ("val", "test"):
            raise DGLError(f'split is {split!r}; expected "val" or "test"')
        assert self._folder is not None
        path = self._folder / f"{self.name}_{split}_ns{self._version}.pkl"
        if not path.is_file():
            raise DGLError(f"{path} is missing; it comes with the data set")
        by_event = plain(read_numeric_pickle(path))
        edges = np.flatnonzero(active.to_numpy(self._graph.edata[f"{split}_mask"]))
        x = self._events
        columns, key = [x.src, x.dst, x.times], "source, destination, time"
        if x.types is not None:
            columns, key = [x.times, x.src, x.types], "time, source, type"
        events = zip(*(column[edges].tolist() for column in columns), strict=True)
        try:
            rows = [np.asarray(by_event[event]).reshape(-1) for event in events]
        except (KeyError, TypeError) as error:
            raise DGLError(f"{path} has no destinations for the edge ({key}) {error}") from error
        return edges, rows, path


def _rows(rows: list[np.ndarray], path: Path) -> np.ndarray:
    """Return rows of one length, int64."""
    sizes = np.array([len(row) for row in rows], np.int64)
    if not len(rows) or not sizes.all():
        raise DGLError(f"{path} has an edge without destinations")
    places = np.cumsum(sizes)[:, None] - sizes[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    table: np.ndarray = np.concatenate(rows).astype(np.int64)[places]
    return table


def _graph_of(events: _Links, name: str) -> DGLGraph:
    num_nodes = int(max(events.src.max(initial=-1), events.dst.max(initial=-1))) + 1
    g = graph((active.from_numpy(events.src, None), active.from_numpy(events.dst, None)), num_nodes=num_nodes)
    columns = {"t": events.times}
    if events.feat.shape[1]:
        columns["feat"] = events.feat
    if events.weight is not None:
        columns["weight"] = events.weight
    if events.types is not None:
        columns["type"] = events.types
    # TGB takes quantiles of knowledge graphs after adding the reverse of each link.
    times = np.concatenate([events.times] * 2) if name.startswith("tkgl") else events.times
    before_val, before_test = np.quantile(times, [0.8, 0.9] if name == "tkgl-yago" else [0.7, 0.85])
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
    columns = {name: x[order] for name, x in events._asdict().items() if x is not None and name != "names"}
    return events._replace(**columns)


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


def _numbered(
    path: Path, num_columns: int, texts: tuple[int, ...] = ()
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return a table whose columns 1 and 2 are names, these numbered in the order in which they come, and the names.

    Columns ``texts`` are texts, too; others are numbers.
    """
    table = _frame(path, dtype=dict.fromkeys((1, 2, *texts), str), keep_default_na=False)
    import pandas

    if table.shape[1] < num_columns:
        raise DGLError(f"{path} has columns {[str(x) for x in table.dtypes]}; expected time, two names and numbers")
    for i in (i for i in (0, *range(3, num_columns)) if i not in texts and table.dtypes.iloc[i].kind not in "iuf"):
        bad = int(pandas.to_numeric(table[i], errors="coerce").isna().to_numpy().argmax())
        raise DGLError(f"line {2 + bad} of {path} has {table[i].iloc[bad]!r} in column {i + 1}; expected a number")

    ends = table[[1, 2]].to_numpy().reshape(-1)  # source, destination, source ...
    numbers, names = pandas.factorize(ends)
    numbers = numbers.astype(np.int64).reshape(-1, 2)
    return table, np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1]), names


def _weighted(path: Path) -> _Links:
    """Read lines of time, source, destination and weight, whose logarithm to the base of 2 is taken."""
    table, src, dst, _ = _numbered(path, 4)
    weight = table[3].to_numpy(np.float64)
    weight = np.log2(np.where(weight == 0, 1, weight)).astype(np.float32)
    return _Links(src, dst, table[0].to_numpy(), np.empty((len(src), 0), np.float32), weight)


def _comments(path: Path) -> _Links:
    """Read lines of time, source, destination, number of words and score: the words, by 5,000, are the feature."""
    table, src, dst, _ = _numbered(path, 5)
    words = table[3].to_numpy(np.float32)[:, None] / 5000
    return _Links(src, dst, table[0].to_numpy(), words, table[4].to_numpy(np.float32))


def _typed(path: Path) -> _Links:
    """Read lines of time, source, destination and type, a number."""
    table, src, dst, names = _numbered(path, 4)
    return _Links(src, dst, table[0].to_numpy(), np.empty((len(src), 0), np.float32), None, _whole(table, path), names)


def _named_types(path: Path) -> _Links:
    """Read lines of time, source, destination and type, a name; types are numbered in the order in which they come."""
    import pandas

    table, src, dst, names = _numbered(path, 4, (3,))
    types = pandas.factorize(table[3].to_numpy())[0].astype(np.int64)
    return _Links(src, dst, table[0].to_numpy(), np.empty((len(src), 0), np.float32), None, types, names)


def _forum(path: Path) -> _Links:
    """Read lines of time, source, destination, type, number of words and score: both, by 10,000, are features."""
    table, src, dst, names = _numbered(path, 6)
    feat = table[[4, 5]].to_numpy(np.float32) / 10_000
    return _Links(src, dst, table[0].to_numpy(), feat, None, _whole(table, path), names)


def _whole(table: Any, path: Path) -> np.ndarray:
    types = table[3].to_numpy(np.float64)
    bad = ~((types >= 0) & (types == np.floor(types)) & (types < 2**31))
    if bad.any():
        raise DGLError(f"line {2 + bad.argmax()} of {path} has the type {types[bad.argmax()]}; expected 0, 1, 2 ...")
    result: np.ndarray = types.astype(np.int64)
    return result


def _flights(path: Path) -> _Links:
    """Read lines of day, in seconds or as 2019-01-31, airports, call sign and type of the aircraft: 16 characters."""
    import pandas

    table, src, dst, names = _numbered(path, 5, (0, 3, 4))
    days = table[0].astype(str)
    try:
        if days.str.isdigit().all():
            times = days.to_numpy(np.float64)
        else:  # in UTC; TGB takes midnight where it runs
            times = (pandas.to_datetime(days, format="%Y-%m-%d") - pandas.Timestamp(0)).dt.total_seconds().to_numpy()
    except ValueError as error:
        raise DGLError(f"{path} has a day that is neither seconds nor a date: {error}") from error
    kind = table[4].where(table[4].str.len() <= 8, "")
    return _Links(src, dst, times, np.hstack([_characters(table[3], 8), _characters(kind, 8)]), None, None, names)


def _characters(texts: Any, size: int) -> np.ndarray:
    """Return TGB's numbers of characters, float32 (len(texts), size): 0 to 9, letters from 30 on, -1 behind the end."""
    padded = texts.str.upper().str.slice(0, size).str.pad(size, "right", "!").to_numpy().astype(f"U{size}")
    codes = padded.view(np.uint32).reshape(len(padded), size).astype(np.int64)
    is_digit = (codes >= ord("0")) & (codes <= ord("9"))
    return np.where(codes == ord("!"), -1, np.where(is_digit, codes - ord("0"), codes - 35)).astype(np.float32)


def _airports(path: Path, names: Any) -> np.ndarray:
    """Return the features of the nodes, from lines of code, kind, continent, region, longitude and latitude."""
    table = _of_nodes(path, names, 6, (0, 1, 2, 3))
    kinds, continents = (_one_hot(table[i]) for i in (1, 2))
    places = table[[4, 5]].to_numpy(np.float32)
    width = kinds.shape[1] + continents.shape[1] + 9
    feat = np.zeros((len(names), width), np.float32)
    feat[table["node"]] = np.hstack([kinds, continents, _characters(table[3], 7), places])
    return feat


def _one_hot(column: Any) -> np.ndarray:
    import pandas

    codes, values = pandas.factorize(column)
    return np.eye(len(values), dtype=np.float32)[codes]


def _node_types(path: Path, names: Any) -> np.ndarray:
    """Return the types of the nodes, from lines of a node's name and a type; 0 of those that have no line, as TGB."""
    table = _of_nodes(path, names, 2, (0,))
    types = np.zeros(len(names), np.int64)
    types[table["node"]] = table[1]
    return types


def _of_nodes(path: Path, names: Any, num_columns: int, texts: tuple[int, ...]) -> Any:
    """Return a table of nodes with column ``node``, their numbers, without those that have no events."""
    import pandas

    if not path.is_file():
        raise DGLError(f"{path} is missing; it comes with the data set")
    table = _frame(path, dtype=dict.fromkeys(texts, str), keep_default_na=False)
    kinds = [x.kind for x in table.dtypes]
    if table.shape[1] < num_columns or any(kinds[i] not in "iuf" for i in range(num_columns) if i not in texts):
        raise DGLError(f"{path} has columns {[str(x) for x in table.dtypes]}; expected names and then numbers")
    table["node"] = pandas.Index(names).get_indexer(table[0])
    return table[table["node"] >= 0]


_READERS: dict[str, Callable[[Path], _Links]] = {
    **dict.fromkeys(("tgbl-wiki", "tgbl-subreddit", "tgbl-lastfm", "tgbl-uci", "tgbl-enron"), _jodie),
    "tgbl-review": _weighted,
    "tgbl-coin": _weighted,
    "tgbl-comment": _comments,
    "tgbl-flight": _flights,
    **dict.fromkeys(("tkgl-polecat", "tkgl-icews", "tkgl-yago", "thgl-myket", "thgl-github", "thgl-software"), _typed),
    **dict.fromkeys(("tkgl-wikidata", "tkgl-smallpedia"), _named_types),
    "thgl-forum": _forum,
}
