"""Graphs from and to tables."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import dglite
from dglite.errors import DGLError


def edge_table() -> pd.DataFrame:
    return pd.DataFrame(
        {"src": ["ann", "bob", "ann"], "dst": ["bob", "eve", "eve"], "w": [0.5, 0.25, 1.0], "note": ["x", "y", "z"]}
    )


def node_table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["eve", "ann", "bob", "zoe"],
            "age": [1, 2, 3, 4],
            "income": [1.0, 2.0, 3.0, 4.0],
            "member": [True, False, True, True],
            "emb": [np.full(3, i, dtype=np.float64) for i in range(4)],
            "city": pd.Categorical(["a", "b", None, "a"]),
            "born": pd.to_datetime(["2000-01-01"] * 4),
        }
    )


def named_edges(g: dglite.DGLGraph) -> list[tuple[str, str]]:
    src, dst = (g.node_names[ids.numpy()].tolist() for ids in g.edges())
    return list(zip(src, dst, strict=True))


def test_text_ids_are_numbered_and_kept() -> None:
    g = dglite.from_pandas(edge_table())
    assert named_edges(g) == [("ann", "bob"), ("bob", "eve"), ("ann", "eve")]
    assert g.node_names.tolist() == ["ann", "bob", "eve"] and list(g.edata) == ["w"]
    for other in (copy.copy(g), pickle.loads(pickle.dumps(g)), g.clone()):
        assert other.node_names.tolist() == g.node_names.tolist()


def test_a_node_table_gives_order_features_and_nodes_without_edges() -> None:
    g = dglite.from_pandas(edge_table(), node_table())
    assert g.node_names.tolist() == ["eve", "ann", "bob", "zoe"]
    assert named_edges(g) == [("ann", "bob"), ("bob", "eve"), ("ann", "eve")]
    kinds = {name: (tuple(x.shape[1:]), x.dtype) for name, x in g.ndata.items()}
    assert kinds == {
        "age": ((), torch.int64),
        "income": ((), torch.float32),
        "member": ((), torch.bool),
        "emb": ((3,), torch.float32),
        "city": ((), torch.int64),
    }
    assert g.ndata["city"].tolist() == [0, 1, -1, 0] and g.ndata["emb"][2].tolist() == [2.0] * 3


def test_columns_are_joined_to_features() -> None:
    g = dglite.from_pandas(edge_table(), node_table(), node_features={"x": ["age", "income", "emb"]}, edge_features="w")
    assert g.ndata["x"].tolist()[1] == [2.0, 2.0, 1.0, 1.0, 1.0] and list(g.ndata) == ["x"] and list(g.edata) == ["w"]
    assert dglite.from_pandas(edge_table(), edge_features=[]).edata == {}
    ints = dglite.from_pandas(edge_table(), node_table(), node_features={"x": ["age", "member"]})
    assert ints.ndata["x"].dtype == torch.int64


@pytest.mark.parametrize("names", [("source", "target"), ("u", "v"), ("from", "to"), ("anything", "else")])
def test_columns_of_ids_are_known_by_name_or_place(names: tuple[str, str]) -> None:
    table = pd.DataFrame({names[0]: [5, 9], names[1]: [9, 7], "src": [0, 0]})
    g = dglite.from_pandas(table)
    assert g.node_names.tolist() == [5, 7, 9] and torch.stack(g.edges()).tolist() == [[0, 2], [2, 1]]
    swapped = dglite.from_pandas(table, source=names[1], target=names[0])
    assert torch.stack(swapped.edges()).tolist() == [[2, 1], [0, 2]]


def test_numbers_without_gaps_stay_as_they_are() -> None:
    g = dglite.from_pandas({"src": [2, 0, 1], "dst": [0, 1, 2]}, idtype=torch.int32)
    assert torch.stack(g.edges()).tolist() == [[2, 0, 1], [0, 1, 2]] and g.idtype == torch.int32


def test_ids_may_be_of_several_types() -> None:
    g = dglite.from_pandas(pd.DataFrame({"src": ["b", 1], "dst": [1, "a"]}, dtype=object))
    assert g.node_names.tolist() == [1, "a", "b"] and torch.stack(g.edges()).tolist() == [[2, 0], [0, 1]]


def test_missing_numbers() -> None:
    table = edge_table().assign(
        n=pd.array([1, None, 3], dtype="Int64"), f=[1.0, None, 2.0], b=pd.array([True, None, False], dtype="boolean")
    )
    g = dglite.from_pandas(table)
    for name in "nfb":
        assert g.edata[name].dtype == torch.float32 and g.edata[name].isnan().tolist() == [False, True, False]


def test_several_types_share_ids() -> None:
    rates = pd.DataFrame({"user": ["ann", "bob"], "film": ["alien", "brazil"], "stars": [5, 4]})
    knows = pd.DataFrame({"a": ["bob", "eve"], "b": ["ann", "bob"]})
    films = pd.DataFrame({"id": ["brazil", "alien", "cube"], "year": [1985, 1979, 1997]})
    g = dglite.from_pandas({("user", "rates", "film"): rates, ("user", "knows", "user"): knows}, {"film": films})
    assert {k: v.tolist() for k, v in g.node_names.items()} == {
        "film": ["brazil", "alien", "cube"],
        "user": ["ann", "bob", "eve"],
    }
    assert torch.stack(g.edges(etype="rates")).tolist() == [[0, 1], [1, 0]]
    assert torch.stack(g.edges(etype="knows")).tolist() == [[1, 2], [0, 1]]
    assert g.nodes["film"].data["year"].tolist() == [1985, 1979, 1997]
    edges, nodes = dglite.to_pandas(g)
    assert edges["user", "rates", "film"].to_dict("list") == {
        "src": ["ann", "bob"],
        "dst": ["alien", "brazil"],
        "stars": [5, 4],
    }
    again = dglite.from_pandas(edges, nodes)
    assert repr(again) == repr(g)


def test_there_and_back() -> None:
    g = dglite.from_pandas(edge_table(), node_table())
    edges, nodes = dglite.to_pandas(g)
    assert edges["src"].tolist() == ["ann", "bob", "ann"] and nodes["id"].tolist() == ["eve", "ann", "bob", "zoe"]
    again = dglite.from_pandas(edges, nodes)
    assert torch.equal(torch.stack(again.edges()), torch.stack(g.edges()))
    assert all(torch.equal(again.ndata[name], g.ndata[name]) for name in g.ndata) and set(again.ndata) == set(g.ndata)


def test_a_graph_without_names_or_edges() -> None:
    edges, nodes = dglite.to_pandas(dglite.graph(([], []), num_nodes=2))
    assert (len(edges), nodes["id"].tolist()) == (0, [0, 1])
    g = dglite.from_pandas(edges, nodes)
    assert (g.num_nodes(), g.num_edges()) == (2, 0)
    named = dglite.from_pandas(edge_table())
    named.add_nodes(1)
    assert dglite.to_pandas(named)[1]["id"].tolist() == [0, 1, 2, 3]


def test_tables_like_those_of_polars_and_arrow() -> None:
    class Column:
        def __init__(self, values: list[Any]) -> None:
            self.values = values

        def to_numpy(self) -> np.ndarray:
            return np.array(self.values, dtype=object if isinstance(self.values[0], str) else None)

    class Polars:
        def __init__(self, columns: dict[str, Column]) -> None:
            self._columns, self.columns = columns, list(columns)

        def __getitem__(self, name: str) -> Column:
            return self._columns[name]

    class Arrow:
        def __init__(self, columns: dict[str, Column]) -> None:
            self._columns, self.column_names, self.columns = columns, list(columns), list(columns.values())

        def __getitem__(self, name: str) -> Column:
            return self._columns[name]

    data = {"src": Column(["a", "b"]), "dst": Column(["b", "c"]), "w": Column([1.0, 2.0])}
    for table in (Polars(data), Arrow(data)):
        g = dglite.from_pandas(table)
        assert named_edges(g) == [("a", "b"), ("b", "c")] and g.edata["w"].tolist() == [1.0, 2.0]


MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "unknown id": (lambda e, n: dglite.from_pandas(e, n[:2]), ["row 1", "'bob'", "'src'", "node table"]),
    "other dtype": (
        lambda e, n: dglite.from_pandas({"src": [1], "dst": [2]}, {"id": ["1", "2"]}),
        ["row 0", "1", "int64"],
    ),
    "twice": (lambda e, n: dglite.from_pandas(e, pd.concat([n, n])), ["'eve' twice", "drop_duplicates"]),
    "missing id": (lambda e, n: dglite.from_pandas({"src": ["a", None], "dst": ["b", "c"]}), ["row 1", "'src'"]),
    "missing node id": (lambda e, n: dglite.from_pandas(e, {"id": ["ann", None]}), ["row 1", "'id'"]),
    "no column": (lambda e, n: dglite.from_pandas(e, source="from"), ["source='from'", "'src'"]),
    "no feature": (lambda e, n: dglite.from_pandas(e, edge_features=["weight"]), ["'weight'", "'w'"]),
    "date feature": (lambda e, n: dglite.from_pandas(e, n, node_features=["born"]), ["'born'", "dt.days"]),
    "text feature": (lambda e, n: dglite.from_pandas(e, edge_features=["note"]), ["'note'", "astype('category')"]),
    "one column": (lambda e, n: dglite.from_pandas({"src": [1]}), ["2 or more", "target="]),
    "a tensor": (lambda e, n: dglite.from_pandas(torch.zeros(2, 3)), ["Tensor", "dglite.graph"]),
    "nodes by type": (lambda e, n: dglite.from_pandas(e, {"user": n}), ["dictionary by node type", "edges"]),
    "a key of two": (lambda e, n: dglite.from_pandas({("user", "film"): e}), ["('user', 'film')", "edge type"]),
    "an unknown node type": (
        lambda e, n: dglite.from_pandas({("user", "knows", "user"): e}, {"film": n}),
        ["'film'", "['user']"],
    ),
    "a block": (lambda e, n: dglite.to_pandas(dglite.create_block(([0], [0]))), ["block_to_graph"]),
    "in a layer": (lambda e, n: dglite.nn.GraphConv(2, 2)(e, torch.ones(3, 2)), ["dglite.from_pandas"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_say_what_to_do(name: str) -> None:
    call, words = MISTAKES[name]
    with pytest.raises(DGLError) as error:
        call(edge_table(), node_table())
    assert not [word for word in words if word not in str(error.value)], str(error.value)


def test_a_feature_with_the_name_of_an_id() -> None:
    g = dglite.graph(([0], [1]))
    g.edata["src"] = torch.ones(1)
    with pytest.raises(DGLError, match="rename it"):
        dglite.to_pandas(g)


def test_without_pandas_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        dglite.from_pandas({"src": [0], "dst": [1]})
