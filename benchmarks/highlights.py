"""The ten rows with which README.md and docs/performance.md begin, taken from what other scripts have measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from common import RESULTS

OURS, DGL, PYG = "dglite", "DGL 2.1", "PyG"
Record = Mapping[str, Any]


class Row(NamedTuple):
    """A measurement: what, where its times are, how it was measured, and the page that has all of its kind."""

    name: str
    file: str
    key: str
    is_it: Callable[[Record], bool]
    how: str
    page: str


def _is(**values: Any) -> Callable[[Record], bool]:
    return lambda record: all(record[name] == value for name, value in values.items())


_MODELS = "whole graph, 33k nodes, 859k edges"
_LAYERS = "one layer, width 64, 892k edges"
_BATCHES = "1M nodes, 20M edges, no workers; PyG samples by torch-sparse"
ROWS = (
    Row("GCN, hidden 256: training step", "models", "synthetic", _is(case="GCN, hidden 256"), _MODELS, "models"),
    Row("GAT, 8 heads x 8: training step", "models", "synthetic", _is(case="GAT, 8 heads x 8"), _MODELS, "models"),
    Row("GraphSAGE layer, mean", "layers", "records", _is(layer="SAGEConv, mean"), _LAYERS, "layers"),
    Row("R-GCN layer", "layers", "records", _is(layer="RelGraphConv"), _LAYERS, "layers"),
    Row("Chebyshev layer", "layers", "records", _is(layer="ChebConv"), _LAYERS, "layers"),
    Row(
        "neighbour sampling: a batch",
        "minibatch",
        "records",
        _is(case="GraphSAGE", part="loader", workers=0),
        _BATCHES,
        "dataloading",
    ),
    Row(
        "neighbour sampling: training step",
        "minibatch",
        "records",
        _is(case="GraphSAGE", part="steps", workers=0),
        _BATCHES,
        "dataloading",
    ),
    Row(
        "functions of your own: gate, sum",
        "udf",
        "pairs",
        _is(pair="gate, sum", graph="20k/400k"),
        "forward, 20k nodes, 400k edges",
        "functions",
    ),
    Row("a call: `update_all`", "overhead", "records", _is(call="update_all(copy_u, sum)"), "tiny graph", "calls"),
    Row(
        "`add_reverse_edges`",
        "graphs",
        "records",
        _is(call="100,000 nodes, 1,000,000 edges: add_reverse_edges"),
        "100k nodes, 1M edges",
        "graphs",
    ),
)


def seconds_of(row: Row) -> dict[str, float]:
    """Return the time of each library."""
    records: Iterable[Record] = json.loads((RESULTS / f"{row.file}.json").read_text())[row.key]
    (record,) = filter(row.is_it, records)
    return dict(record["seconds"])


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} us"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def _beside(seconds: Mapping[str, float], peer: str) -> str:
    return f"{_time(seconds[peer])}, {seconds[peer] / seconds[OURS]:.1f} x" if peer in seconds else ""


def highlights_table(link: Callable[[str], str]) -> str:
    """Return the rows as Markdown; ``link`` turns the name of a page of performance into the target of a link."""
    lines = [f"| what | {OURS} | {DGL} | {PYG} | how |", "|---|---:|---:|---:|---|"]
    for row in ROWS:
        seconds = seconds_of(row)
        how = f"[{row.how}]({link(row.page)})"
        cells = [row.name, _time(seconds[OURS]), _beside(seconds, DGL), _beside(seconds, PYG), how]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
