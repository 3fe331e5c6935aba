"""Graphs in CSV files, described by a file ``meta.yaml`` in the same folder."""

from __future__ import annotations

import ast
import csv
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backend import active
from ..convert import heterograph
from ..errors import DGLError, DGLWarning
from ..graph import DGLGraph
from ..io import load_graphs, save_graphs
from ..structure.distinct import contains
from .dataset import DGLDataset, Transform
from .raw import yaml_of
from .splits import Subset

Columns = dict[str, np.ndarray]
Parser = Callable[[Any], Mapping[str, Any]]

_NODES, _EDGES = "_V", ("_V", "_E", "_V")


class CSVTable(NamedTuple):
    """A CSV file: its path, the columns that are ids, the graph of each row, the others as features, and lines."""

    path: Path
    ids: tuple[np.ndarray, ...]
    graph_ids: np.ndarray
    data: Columns
    lines: list[int]
    """The number of the line on which each row ends."""

    def line(self, row: int) -> str:
        """Return the file and line of a row, for messages."""
        return f"line {self.lines[row]} of {self.path}"


class CSVDataset(DGLDataset):
    """Graphs read from CSV files: nodes, edges, and features of both, one file per type, and facts about the graphs.

    The folder has a file ``meta.yaml`` (read with PyYAML, which must be installed)::

        dataset_name: shop
        separator: ","                    # the default
        node_data:
        - file_name: users.csv
          ntype: user                     # default _V
        edge_data:
        - file_name: likes.csv
          etype: [user, likes, user]      # default [_V, _E, _V]
        graph_data:                       # needed if there are several graphs
          file_name: graphs.csv

    Files of nodes have a column ``node_id``, those of edges ``src_id`` and ``dst_id``, that of graphs ``graph_id``, and
    the first two may have ``graph_id``, which is 0 by default. ``node_id_field`` and the like in ``meta.yaml`` give
    them other names. All other columns become features of that name: numbers, ``True`` and ``False``, or lists of
    numbers in quotes, ``"1.5, 2"``. Real numbers are float32.

    Nodes are numbered in the order of their ids, which may be words. Every graph has all types, so that graphs can be
    batched. A graph that only ``graph_data`` names is empty.

    ``dataset[i]`` is graph i; with one column of facts ``(graph, fact)``, with several ``(graph, dict)``, each fact a
    vector; with a vector of ints for i a :class:`~dglite.data.Subset`. The result is kept beside the files and made
    again when one of them changes.

    Raises DGLError: a file is missing or not as described: which one, and where, is said; ImportError: PyYAML is not
    installed; or pandas, where a parser is given.

    Parameters
    ----------
    data_path
        The folder.
    force_reload
        Read the CSV files even if they have not changed.
    verbose
        Accepted for DGL's sake.
    ndata_parser, edata_parser
        Function of a ``pandas.DataFrame``, of all columns but ids, to arrays by name; one for all files, or a dict of
        them by node type or edge type.
    gdata_parser
        The same for ``graph_data``.
    transform
        Function of a graph, applied each time one is read.

    Attributes
    ----------
    graphs
        The graphs.
    data
        Facts by name, ``(num_graphs, size)``.
    labels
        The only one of them; undefined for none or several.
    """

    META_YAML_NAME = "meta.yaml"

    def __init__(
        self,
        data_path: str | Path,
        force_reload: bool = False,
        verbose: bool = True,
        ndata_parser: Parser | Mapping[str, Parser] | None = None,
        edata_parser: Parser | Mapping[tuple[str, str, str], Parser] | None = None,
        gdata_parser: Parser | None = None,
        transform: Transform = None,
    ) -> None:
        self.graphs: list[DGLGraph] = []
        self.data: dict[str, Any] = {}
        self._parsers = ndata_parser, edata_parser, gdata_parser
        if not isinstance(data_path, str | Path):
            raise TypeError(f"data_path must be the folder of meta.yaml, got {data_path!r:.60}")
        self._folder = Path(data_path)
        self._meta = _read_meta(self._folder / self.META_YAML_NAME)
        super().__init__(
            self._meta["dataset_name"],
            raw_dir=data_path,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def process(self) -> None:
        """Read the CSV files and build the graphs."""
        of_nodes, of_edges, of_graphs = self._parsers
        nodes = {
            meta["ntype"]: self._table(meta, ("node_id",), _parser_of(of_nodes, meta["ntype"]))
            for meta in self._meta["node_data"]
        }
        edges = {
            meta["etype"]: self._table(meta, ("src_id", "dst_id"), _parser_of(of_edges, meta["etype"]))
            for meta in self._meta["edge_data"]
        }
        listed, facts = np.zeros(1, np.int64), Columns()
        if self._meta["graph_data"] is not None:
            table = self._table(self._meta["graph_data"], ("graph_id",), of_graphs)
            _check_once(table, np.arange(len(table.lines)), "graph")
            (listed,), facts = table.ids, table.data
        self.graphs = _graphs(nodes, edges, listed.tolist())
        self.data = {name: _tensor(_two_axes(values), name) for name, values in facts.items()}
        self._name_label()

    def _table(self, meta: Mapping[str, Any], fields: Sequence[str], parser: Parser | None) -> CSVTable:
        path = self._folder / meta["file_name"]
        separator = self._meta["separator"]
        columns, lines = _read_columns(path, separator)
        names = [meta.get(f"{field}_field") or field for field in fields]
        lacks = [name for name in names if name not in columns]
        if lacks:
            raise DGLError(f"{path} has no column {lacks[0]!r}; it has {list(columns)}")
        ids = tuple(columns.pop(name) for name in names)
        graph_name = meta.get("graph_id_field") or "graph_id"
        graph_ids = columns.pop(graph_name, np.zeros(len(ids[0]), np.int64))
        if parser is None:
            read = {name: _numbers(cells, name, path) for name, cells in columns.items()}
            return CSVTable(path, ids, graph_ids, read, lines)
        data = {name: np.asarray(values) for name, values in parser(_frame(path, separator, columns)).items()}
        for name, values in data.items():
            if len(values) != len(ids[0]):
                raise DGLError(f"the parser made {len(values)} rows of {name!r} from {len(ids[0])} in {path}")
        return CSVTable(path, ids, graph_ids, data, lines)

    def _name_label(self) -> None:
        if len(self.data) == 1:
            (self.labels,) = self.data.values()

    # -- the copy that is kept -------------------------------------------------------------------------------------
    @property
    def _file(self) -> Path:
        return Path(self.save_path) / f"{self.name}.bin"

    def has_cache(self) -> bool:
        """Whether the graphs have been kept, and no file has changed since."""
        described = [*self._meta["node_data"], *self._meta["edge_data"], self._meta["graph_data"] or {}]
        names = [self.META_YAML_NAME, *(meta["file_name"] for meta in described if meta)]
        sources = [self._folder / name for name in names]
        if not self._file.is_file() or not all(source.is_file() for source in sources):
            return False
        return self._file.stat().st_mtime_ns >= max(source.stat().st_mtime_ns for source in sources)

    def save(self) -> None:
        """Keep the graphs."""
        save_graphs(self._file, self.graphs, self.data)

    def load(self) -> None:
        """Read the graphs that were kept."""
        graphs, self.data = load_graphs(self._file)
        self.graphs = list(graphs)
        self._name_label()

    # -- elements --------------------------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> Any:
        if active.is_tensor(index) and len(active.shape(index)) == 1:
            return Subset(self, active.to_numpy(index))
        g = self.graphs[index] if self._transform is None else self._transform(self.graphs[index])
        if not self.data:
            return g
        if len(self.data) == 1:
            return g, self.labels[index]
        return g, {name: values[index] for name, values in self.data.items()}

    def __len__(self) -> int:
        return len(self.graphs)


def _parser_of(parsers: Any, kind: Any) -> Parser | None:
    """Return the parser of a type, the only parser, or None."""
    if isinstance(parsers, Mapping):
        return parsers.get(kind)
    return parsers  # type: ignore[no-any-return]


# -- files -------------------------------------------------------------------------------------------------------------
def _read_meta(path: Path) -> dict[str, Any]:
    """Return the content of ``meta.yaml``, with defaults filled in."""
    entries = yaml_of(path, "it describes the CSV files")
    if str(entries.get("version", "1.0.0")) != "1.0.0":
        raise DGLError(f"{path} has version {entries['version']}; expected 1.0.0")
    meta = {"separator": ",", "graph_data": None, **entries}
    for name, kind in (("dataset_name", str), ("node_data", list), ("edge_data", list)):
        if not isinstance(meta.get(name), kind):
            raise DGLError(f"{path} needs {name}, a {kind.__name__}; got {meta.get(name)!r:.80}")
    meta["node_data"] = [{"ntype": _NODES, **_described(file, path)} for file in meta["node_data"]]
    edges = [{"etype": _EDGES, **_described(file, path)} for file in meta["edge_data"]]
    meta["edge_data"] = [{**file, "etype": tuple(file["etype"])} for file in edges]
    if meta["graph_data"] is not None:
        _described(meta["graph_data"], path)
    _check_types(meta, path)
    return meta


def _described(file: Any, path: Path) -> dict[str, Any]:
    if not isinstance(file, dict) or not isinstance(file.get("file_name"), str):
        raise DGLError(f"{path} describes a file without file_name: {file!r:.80}")
    return file


def _check_types(meta: Mapping[str, Any], path: Path) -> None:
    """Raise ``DGLError`` unless types occur once and edges are between node types that there are."""
    ntypes = [file["ntype"] for file in meta["node_data"]]
    etypes = [file["etype"] for file in meta["edge_data"]]
    for types in (ntypes, etypes):
        twice = next((kind for kind in types if types.count(kind) > 1), None)
        if twice is not None:
            raise DGLError(f"{path} has two files for type {twice}; put the rows into one")
    for etype in etypes:
        if len(etype) != 3 or etype[0] not in ntypes or etype[2] not in ntypes:
            raise DGLError(f"{path} has edges {etype}; expected [source, name, destination] of the node types {ntypes}")


def _read_columns(path: Path, separator: str) -> tuple[Columns, list[int]]:
    """Read a CSV file with a header; columns are int64, float64, bool, or text. Return them and each row's line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            lines = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, TypeError, csv.Error) as error:
        raise DGLError(f"{path} is not readable: {error}") from error
    header = lines.pop(0)[1] if lines else []
    for line, row in lines:
        if len(row) != len(header):
            raise DGLError(
                f"line {line} of {path} has {len(row)} cells, {row!r:.80}; expected {len(header)}, as in line 1"
            )
    rows = [row for _, row in lines]
    columns = {name.strip(): _typed([row[i] for row in rows]) for i, name in enumerate(header)}
    if columns.pop("", None) is not None:
        warnings.warn(f"{path} has a column without a name, which is left out", DGLWarning, stacklevel=2)
    return columns, [line for line, _ in lines]


def _typed(cells: list[str]) -> np.ndarray:
    """Return cells as integers if all are, else real numbers (NaN where empty), else truth values, else text."""
    text = np.array(cells, dtype=str)
    for dtype, values in ((np.int64, text), (np.float64, np.where(text == "", "nan", text))):
        try:
            return values.astype(dtype)
        except (ValueError, OverflowError):
            continue
    return text == "True" if ((text == "True") | (text == "False")).all() else text


def _numbers(cells: np.ndarray, name: str, path: Path) -> np.ndarray:
    """Return a column of features: text is taken as lists of numbers."""
    if cells.dtype.kind != "U":
        return cells
    try:
        return np.array([ast.literal_eval(cell) for cell in cells.tolist()])
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:  # of many open brackets
        raise DGLError(
            f"column {name!r} of {path} has text that is no list of numbers of one length ({error}); give a parser"
        ) from error


def _frame(path: Path, separator: str, columns: Columns) -> Any:
    """Return the columns of a file that are no ids, as pandas reads them."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("parsers get a pandas.DataFrame, and pandas is not installed: pip install pandas") from error
    return pandas.read_csv(path, sep=separator)[list(columns)]


# -- graphs ------------------------------------------------------------------------------------------------------------
def _graphs(nodes: dict[str, CSVTable], edges: dict[Any, CSVTable], listed: list[Any]) -> list[DGLGraph]:
    """Return the graphs in the order in which they are listed."""
    rows = {kind: _rows_by_graph(table.graph_ids) for kind, table in (*nodes.items(), *edges.items())}
    graph_ids = set(listed)
    unlisted = sorted({str(i) for by_graph in rows.values() for i in by_graph if i not in graph_ids})
    if unlisted:
        raise DGLError(f"nodes or edges are of graphs {unlisted[:5]}; graph_data, or 0 without it, has {listed[:5]}")
    return [_graph(nodes, edges, {kind: by_graph.get(i, []) for kind, by_graph in rows.items()}) for i in listed]


def _rows_by_graph(graph_ids: np.ndarray) -> dict[Any, np.ndarray]:
    order = np.argsort(graph_ids, kind="stable")
    names, first = np.unique(graph_ids[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, first[1:]), strict=False))  # of no rows, one part and no name


def _graph(nodes: dict[str, CSVTable], edges: dict[Any, CSVTable], rows: dict[Any, Any]) -> DGLGraph:
    rows = {kind: np.asarray(of_kind, np.int64) for kind, of_kind in rows.items()}
    names: dict[str, np.ndarray] = {}
    for ntype, table in nodes.items():
        names[ntype], first = _check_once(table, rows[ntype], "node")
        rows[ntype] = rows[ntype][first]
    ends = {
        etype: tuple(_numbered(table, i, rows[etype], names[etype[2 * i]], etype) for i in (0, 1))
        for etype, table in edges.items()
    }
    g = heterograph(ends, {ntype: len(ids) for ntype, ids in names.items()})
    for kind, table in (*nodes.items(), *edges.items()):
        view = g.nodes[kind] if kind in nodes else g.edges[kind]
        for name, values in table.data.items():
            view.data[name] = _tensor(values[rows[kind]], name)
    return g


def _check_once(table: CSVTable, rows: np.ndarray, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids in some rows, sorted, and where each is; raise ``DGLError`` for one that is there twice."""
    ids = table.ids[0][rows]
    names, first = np.unique(ids, return_index=True)
    if len(first) < len(rows):
        again = (~contains(first, np.arange(len(rows)))).argmax()
        raise DGLError(f"{table.line(rows[again])} has {label} {ids[again]}, which occurs twice; remove one of them")
    return names, first


def _numbered(table: CSVTable, end: int, rows: np.ndarray, names: np.ndarray, etype: Any) -> np.ndarray:
    """Return the position of each id of an end of edges among the sorted ids of the nodes."""
    ids = table.ids[end][rows]
    if not len(ids):
        return np.zeros(0, np.int64)
    ids = ids.astype(str) if names.dtype.kind == "U" else ids
    numbers, missing = np.zeros(len(ids), np.int64), np.ones(len(ids), bool)
    if len(names) and (ids.dtype.kind == "U") == (names.dtype.kind == "U"):
        numbers = np.minimum(np.searchsorted(names, ids), len(names) - 1)
        missing = names[numbers] != ids
    if missing.any():
        wrong = int(missing.argmax())
        raise DGLError(
            f"{table.line(rows[wrong])}: edges {etype} name node {ids[wrong]}, and no node of type {etype[2 * end]!r} "
            "in the graph has that id; add the node, or remove the edge"
        )
    return numbers


def _two_axes(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), int(np.prod(values.shape[1:])))


def _tensor(values: np.ndarray, name: str) -> Any:
    if values.dtype.kind not in "biuf":
        raise DGLError(f"{name!r} has values of dtype {values.dtype}; expected numbers")
    return active.from_numpy(np.ascontiguousarray(values, np.float32 if values.dtype == np.float64 else values.dtype))
