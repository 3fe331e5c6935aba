"""Graphs from and to tables of edges and of nodes: pandas, and what has columns as it has, Polars and Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arguments import explained
from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from .columns import ID, column_of_ids, usual_ends
from .edges import graph, heterograph

if TYPE_CHECKING:
    from pandas import DataFrame

    class TableOrDict(DataFrame, Mapping[Any, DataFrame]):  # type: ignore[misc]
        """A pandas table or, of a graph with several types, a dictionary of tables by type."""
else:
    TableOrDict = Any

_EXPECTED = "a pandas, Polars or Arrow table, or a dictionary of columns"
Features = Sequence[str] | Mapping[str, str | Sequence[str]] | None


class Ends(NamedTuple):
    """The columns of ids of an edge table, and the table."""

    table: Any
    source: str
    target: str


@explained
def from_pandas(
    edges: Any,
    nodes: Any = None,
    *,
    source: str | None = None,
    target: str | None = None,
    node_id: str | None = None,
    edge_features: Features = None,
    node_features: Features = None,
    idtype: Any = None,
    device: Any = None,
) -> DGLGraph:
    """Make a graph of a table of edges and, if there is one, a table of nodes.

    Ids may be anything: texts, dates, numbers with gaps. Nodes are numbered in the order of the node table, without one
    in the sorted order of the ids in the edge table. The ids are kept as ``g.node_names``, a NumPy array with the id of
    each node, by node type where there are several; :func:`to_pandas` writes them back. Edges keep the order of their
    rows. ``g.node_names`` is an attribute of this graph, its copies and pickles; subgraphs have ``ndata[dglite.NID]``
    to look ids up: ``g.node_names[sub.ndata[dglite.NID].numpy()]``.

    Raises DGLError: a column does not exist, is text where numbers are needed, or has missing ids; a node id occurs
    twice, or an edge has an id that the node table lacks; ImportError: pandas is not installed.

    Parameters
    ----------
    edges
        A table with a row for each edge: of pandas, Polars or Arrow, or a dictionary of columns. For several types a
        dictionary from (source type, edge type, destination type) to such tables; node types share their ids.
    nodes
        A table with a row for each node, in which every id of the edge table occurs, and occurs once; or a dictionary
        from node type to such tables. It may have nodes without edges.
    source, target
        The columns of ids in edge tables. By default ``src`` and ``dst``, ``source`` and ``target``, ``src_id`` and
        ``dst_id``, ``u`` and ``v``, ``from`` and ``to``, ``head`` and ``tail``, else the first two columns.
    node_id
        The column of ids in node tables. By default ``id``, ``node_id``, ``node``, ``name`` or ``index``, else the
        first column.
    edge_features, node_features
        Which other columns become features of the graph: names, or a dictionary from the name of a feature to a column
        or to columns that are put side by side, ``{"x": ["age", "income"]}`` for instance, whose tensor is
        (num_nodes, 2). By default every column of numbers, booleans or arrays; columns of text and of dates are left
        out. Types whose table has none of the columns are passed over.
    idtype, device
        As :func:`dglite.graph` takes them.

    Returns
    -------
    The graph. Features are float32 for floats, int64 for integers and bool for booleans, of shape (num_rows,); a column
    of arrays or lists of one length k gives (num_rows, k), the codes of a categorical column int64, -1 where it is
    missing. Integers and booleans of which some are missing become float32, those being NaN.

    Examples
    --------
    >>> import pandas, dglite
    >>> follows = pandas.DataFrame({"src": ["ann", "bob", "ann"], "dst": ["bob", "eve", "eve"], "since": [3, 5, 8]})
    >>> g = dglite.from_pandas(follows)
    >>> g.edges(), g.node_names.tolist()
    ((tensor([0, 1, 0]), tensor([1, 2, 2])), ['ann', 'bob', 'eve'])
    >>> g.edata["since"]
    tensor([3, 5, 8])
    """
    if not isinstance(edges, Mapping) or not all(isinstance(key, tuple) for key in edges) or not edges:
        triples = {("_N", "_E", "_N"): edges}
        if isinstance(nodes, Mapping) and nodes and all(_is_table(value) for value in nodes.values()):
            raise DGLError(
                "nodes is a dictionary by node type, so edges must be one, too: {(source type, edge type, destination "
                "type): table}"
            )
        node_tables = {} if nodes is None else {"_N": nodes}
    else:
        triples, node_tables = dict(edges), dict(nodes or {})
        _check_types(triples, node_tables)
    tables = {etype: _ends(_table(table, "edges"), source, target) for etype, table in triples.items()}
    node_tables = {ntype: _table(table, "nodes") for ntype, table in node_tables.items()}
    id_columns = {
        ntype: column_of_ids("nodes", [*table.columns], node_id, ID, "node_id", 0)
        for ntype, table in node_tables.items()
    }
    names, numbers = _numbered(tables, node_tables, id_columns)
    data = {etype: (numbers[etype, 0], numbers[etype, 1]) for etype in tables}
    counts = {ntype: len(ids) for ntype, ids in names.items()}
    if list(triples) == [("_N", "_E", "_N")]:
        g = graph(data["_N", "_E", "_N"], num_nodes=counts["_N"], idtype=idtype, device=device)
    else:
        g = heterograph(data, counts, idtype=idtype, device=device)
    for ntype, table in node_tables.items():
        _write(g.nodes[ntype].data, table, {id_columns[ntype]}, node_features, "node_features", len(node_tables) > 1)
    for etype, ends in tables.items():
        end_columns = {ends.source, ends.target}
        _write(g.edges[etype].data, ends.table, end_columns, edge_features, "edge_features", len(tables) > 1)
    g.__dict__["node_names"] = names["_N"] if list(names) == ["_N"] else names
    return g


@explained
def to_pandas(g: DGLGraph) -> tuple[TableOrDict, TableOrDict]:
    """Return the edges and the nodes of a graph as pandas tables, which :func:`from_pandas` takes back.

    The edge table has the columns ``src`` and ``dst``, the node table ``id``: the ids of ``g.node_names`` where the
    graph was made by :func:`from_pandas` and has as many nodes still, else node numbers. Features follow under their
    names; one of several numbers for each row is a column of arrays. A graph of several types gives two dictionaries of
    tables, by canonical edge type and by node type. A graph without edges or nodes gives tables without rows.

    Raises DGLError: the graph is a block, whose source and destination nodes are numbered apart, or a feature is called
    as a column of ids; ImportError: pandas is not installed.

    Examples
    --------
    >>> import dglite
    >>> edges, nodes = dglite.to_pandas(dglite.graph(([0, 1], [1, 2])))
    >>> edges["dst"].tolist(), len(nodes)
    ([1, 2], 3)
    """
    require_graph(g)
    if g.is_block:
        raise DGLError("to_pandas takes graphs, not blocks; dglite.block_to_graph(block) makes a graph of one")
    pandas = _pandas()
    names = g.__dict__.get("node_names", {})
    names = names if isinstance(names, Mapping) else {g.ntypes[0]: names}
    names = {n: ids if len(ids := names.get(n, ())) == g.num_nodes(n) else np.arange(g.num_nodes(n)) for n in g.ntypes}
    nodes: Any = {
        ntype: pandas.DataFrame({"id": names[ntype], **_columns(g.nodes[ntype].data, "id")}) for ntype in g.ntypes
    }
    edges: Any = {}
    for etype, adjacency in zip(g.canonical_etypes, g.adjacencies, strict=True):
        src, dst = (names[end][ids] for end, ids in zip(etype[::2], adjacency.endpoints(), strict=True))
        features = _columns(g.edges[etype].data, "src", "dst")
        edges[etype] = pandas.DataFrame({"src": src, "dst": dst, **features})
    if len(nodes) == 1 and len(edges) == 1:
        return edges.popitem()[1], nodes.popitem()[1]
    return edges, nodes


def _columns(data: Mapping[str, Any], *ids: str) -> dict[str, Any]:
    """Return features as columns of a table."""
    for name in ids:
        if name in data:
            raise DGLError(
                f"a feature is called {name!r} as the column of ids; rename it: data['new'] = data.pop({name!r})"
            )
    arrays = {name: active.to_numpy(active.detach(value)) for name, value in data.items()}
    return {name: array if array.ndim == 1 else list(array) for name, array in arrays.items()}


# -- tables -----------------------------------------------------------------------------------------------------------
def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install pandas", name="pandas") from error
    return pandas


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "columns")


def _table(table: Any, argument: str) -> Any:
    """Return a table as pandas': itself, or one of the same columns."""
    pandas = _pandas()
    if isinstance(table, pandas.DataFrame):
        return table
    if isinstance(table, Mapping):
        return pandas.DataFrame(dict(table))
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if not isinstance(names, list) or not hasattr(table, "__getitem__"):
        hint = ""
        if active.is_tensor(table):
            hint = "; a torch edge_index is for dglite.graph((edge_index[0], edge_index[1]))"
        elif isinstance(table, str):
            hint = f"; read the file, pandas.read_csv({table!r:.40}) for instance, or let dglite.from_tables read it"
        raise DGLError(f"{argument} must be {_EXPECTED}, got {type(table).__name__}{hint}")
    return pandas.DataFrame({name: table[name].to_numpy() for name in names})


def _check_types(triples: dict[Any, Any], nodes: Mapping[str, Any]) -> None:
    for etype in triples:
        if len(etype) != 3:
            raise DGLError(f"edges has the key {etype!r}; expected (source type, edge type, destination type)")
    joined = {name for src, _, dst in triples for name in (src, dst)}
    unknown = [name for name in nodes if name not in joined]
    if unknown:
        raise DGLError(f"nodes has a table for {unknown[0]!r}; the edges' node types are {sorted(joined)}")


def _ends(table: Any, source: str | None, target: str | None) -> Ends:
    names = [*table.columns]
    usual = usual_ends(names)
    first = column_of_ids("edges", names, source, usual[:1], "source", 0)
    second = column_of_ids("edges", names, target, usual[1:], "target", 1)
    if first == second:
        raise DGLError(f"source and target are both {first!r}; there are the columns {names}")
    return Ends(table, first, second)


def _numbered(
    tables: dict[Any, Ends], nodes: Mapping[str, Any], id_columns: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[tuple[Any, int], np.ndarray]]:
    """Return the ids of each node type in order, and for each end of each edge type the numbers of its nodes."""
    pandas = _pandas()
    uses: dict[str, list[tuple[Any, int, Any]]] = {}
    for etype, (table, source, target) in tables.items():
        for end, (ntype, name) in enumerate(((etype[0], source), (etype[2], target))):
            column = table[name]
            if column.isna().any():
                row = int(column.isna().to_numpy().argmax())
                raise DGLError(f"row {row} of the edge table has no id in the column {name!r}; drop such rows first")
            uses.setdefault(ntype, []).append((etype, end, column))
    names: dict[str, np.ndarray] = {}
    numbers: dict[tuple[Any, int], np.ndarray] = {}
    for ntype in sorted(uses):
        columns = [column for *_, column in uses[ntype]]
        if ntype in nodes:
            ids = pandas.Index(nodes[ntype][id_columns[ntype]])
            _check_ids(ids, id_columns[ntype])
            codes = [_looked_up(ids, column) for column in columns]
        else:
            joined = pandas.concat(columns, ignore_index=True)
            whole, ids = pandas.factorize(joined, sort=True)
            codes = np.split(whole, np.cumsum([len(column) for column in columns])[:-1])
        names[ntype] = np.asarray(ids)
        numbers |= {(etype, end): each for (etype, end, _), each in zip(uses[ntype], codes, strict=True)}
    return names, numbers


def _check_ids(ids: Any, name: str) -> None:
    if ids.hasnans:
        raise DGLError(f"row {int(ids.isna().argmax())} of the node table has no id in the column {name!r}")
    if not ids.is_unique:
        twice = ids[ids.duplicated()][0]
        raise DGLError(f"the node table has the id {twice!r} twice in the column {name!r}; drop_duplicates({name!r})")


def _looked_up(ids: Any, column: Any) -> np.ndarray:
    codes = np.asarray(ids.get_indexer(column))
    if len(codes) and codes.min() < 0:
        row = int((codes < 0).argmax())
        other = f"; it has ids of {ids.dtype}, the edges of {column.dtype}" if ids.dtype != column.dtype else ""
        raise DGLError(
            f"row {row} of the edge table has the id {column.iloc[row]!r} in {column.name!r}, which the node table "
            f"does not have{other}"
        )
    return codes


# -- features ---------------------------------------------------------------------------------------------------------
def _write(data: Any, table: Any, ids: set[str], features: Features, argument: str, several: bool) -> None:
    """Write the columns that a user asked for, or those of numbers, as features."""
    if features is None:
        for name in table.columns:
            array = None if name in ids else _array(table[name])
            if array is not None:
                data[str(name)] = active.from_numpy(array)
        return
    if isinstance(features, str):
        features = [features]
    columns_of = dict(features) if isinstance(features, Mapping) else {name: name for name in features}
    for feature, names in columns_of.items():
        columns = [names] if isinstance(names, str) else list(names)
        missing = [name for name in columns if name not in table.columns]
        if missing and several and len(missing) == len(columns):
            continue
        if missing:
            raise DGLError(f"{argument} names {missing[0]!r}, which is no column; there are {list(table.columns)}")
        arrays = [_number_column(table, name, argument) for name in columns]
        if not isinstance(names, str):
            dtype = np.result_type(*arrays)
            flat = [
                x.reshape(len(x), -1).astype(np.float32 if dtype.kind == "f" else dtype, copy=False) for x in arrays
            ]
            arrays = [np.concatenate(flat, axis=1)]
        data[feature] = active.from_numpy(arrays[0])


def _number_column(table: Any, name: str, argument: str) -> np.ndarray:
    array = _array(table[name])
    if array is None:
        dtype = str(table[name].dtype)
        code = (
            "(table[{0!r}] - table[{0!r}].min()).dt.days"
            if "datetime" in dtype
            else ("table[{0!r}].astype('category').cat.codes")
        )
        raise DGLError(
            f"{argument} names {name!r}, a column of {dtype}, not of numbers; encode it, for instance by "
            f"{code.format(name)}"
        )
    return array


def _array(column: Any) -> np.ndarray | None:
    """Return a column as numbers, None for text, dates and other things."""
    if str(column.dtype) == "category":
        return np.array(column.cat.codes, dtype=np.int64)
    kind = getattr(column.dtype, "kind", "O")
    if kind == "b":
        return np.array(column, dtype=bool) if not column.isna().any() else np.array(column.astype(float), np.float32)
    if kind in "iu":
        if column.isna().any():  # pandas' integers that may be missing
            return np.array(column.astype("float64"), dtype=np.float32)
        return np.array(column, dtype=np.int64)
    if kind == "f":
        return np.array(column, dtype=np.float32)
    if kind != "O" or not len(column) or not isinstance(column.iloc[0], np.ndarray | list | tuple):
        return None
    rows = [np.asarray(row) for row in column]
    if len({row.shape for row in rows}) > 1 or rows[0].dtype.kind not in "iufb":
        return None
    stacked = np.stack(rows)
    return stacked.astype({"f": np.float32, "b": bool}.get(stacked.dtype.kind, np.int64))
