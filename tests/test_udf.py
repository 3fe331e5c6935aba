"""Batches that user functions receive: columns are gathered when read, once, and may be set and removed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dglite.errors import DGLError
from dglite.udf import Columns, EdgeBatch, NodeBatch, checked, function_name


def columns(log: list[str]) -> Columns:
    def read(name: str) -> torch.Tensor:
        log.append(name)
        return torch.ones(2)

    return Columns("source nodes", ("h", "w"), read)


def test_only_what_is_read_is_gathered_and_once() -> None:
    log: list[str] = []
    result = columns(log)
    assert list(result) == ["h", "w"] and len(result) == 2 and "h" in result and "q" not in result
    assert log == []
    assert result["h"] is result["h"] and result.get("h") is not None
    assert log == ["h"]
    assert [name for name, _ in result.items()] == ["h", "w"] and log == ["h", "w"]
    assert result.get("q") is None and repr(result) == "Columns(source nodes: 'h', 'w')"


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(KeyError, match="no 'q' on the source nodes; there are: 'h', 'w'"):
        columns([])["q"]
    with pytest.raises(KeyError, match="no 'q' on the source nodes"):
        columns([]).pop("q")


def test_columns_that_are_set_or_removed_are_noted() -> None:
    result, new = columns([]), torch.zeros(2)
    assert not result.changes
    result["q"] = new
    assert result["q"] is new and list(result) == ["h", "w", "q"] and result.changes == {"q": new}
    assert result.pop("h").tolist() == [1, 1] and result.pop("h", None) is None and list(result) == ["w", "q"]
    assert result.changes["h"] is None and list(result.changes) == ["q", "h"] and not columns([]).changes


def test_batches_have_sizes_ids_and_types() -> None:
    none = columns([])
    edges = EdgeBatch(none, none, none, 2, lambda: (1, 2, 3), ("user", "rates", "item"), dict)
    assert len(edges) == edges.batch_size() == 2 and edges.edges() == (1, 2, 3)
    assert edges.canonical_etype == ("user", "rates", "item")
    nodes = NodeBatch(none, none, 3, lambda: [0, 1, 2], "item", dict)
    assert len(nodes) == nodes.batch_size() == 3 and nodes.nodes() == [0, 1, 2] and nodes.ntype == "item"
    for batch, name in ((edges, "src"), (nodes, "data")):
        with pytest.raises(AttributeError):
            setattr(batch, name, {})


def test_results_are_checked() -> None:
    def function() -> None: ...

    cpu = torch.device("cpu")
    table = {"x": torch.ones(2, 3)}
    assert checked(table, (2,), "nodes", cpu, function) is table
    for result, match in (
        (torch.ones(2), "function function returned Tensor; expected a dict"),
        ({1: torch.ones(2)}, "a column called 1"),
        ({"x": [1, 2]}, "returned list for 'x'"),
        ({"x": torch.ones(3)}, r"'x' of shape \(3,\); expected the first axes to be \(2,\), the number of nodes"),
        ({"x": torch.tensor(1.0)}, r"shape \(\)"),
        ({"x": torch.ones(2, device="meta")}, "'x' on meta; the graph is on cpu"),
    ):
        with pytest.raises(DGLError, match=match):
            checked(result, (2,), "nodes", cpu, function)


def test_functions_are_named_for_people() -> None:
    class Callable:
        def __call__(self, batch: Any) -> None: ...

        def method(self, batch: Any) -> None: ...

    assert function_name(columns) == "columns"
    assert function_name(Callable()) == "Callable"
    assert function_name(Callable().method) == "Callable.method"
    assert function_name(lambda batch: None) == "<lambda>"
