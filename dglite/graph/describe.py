"""A graph as text and as HTML: its types, their sizes, and the features of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..column import Scheme
from ..tables import html_card, html_table

if TYPE_CHECKING:
    from .storage import DGLGraph

WIDTH = 100
"""Columns up to which a dictionary is written on one line."""


_LABELS = {
    "num_nodes": "nodes",
    "num_src_nodes": "source nodes",
    "num_dst_nodes": "destination nodes",
    "num_edges": "edges",
}


def text_of(graph: DGLGraph) -> str:
    """Return DGL's text of a graph, with the features of every type, and dictionaries aligned where they are long."""
    name, etypes = ("Block" if graph.is_block else "Graph"), graph.canonical_etypes
    several = not graph.is_homogeneous and not (graph.is_block and len(etypes) == 1 and len(graph.ntypes) == 2)
    fields: dict[str, Any] = _counts(graph)
    features: dict[str, Any] = {**_features(graph)}
    if several:
        features = {key: {k: v for k, v in of_types.items() if v} for key, of_types in features.items()}
    else:
        fields = {key: next(iter(of_types.values())) for key, of_types in fields.items()}
        features = {key: next(iter(of_types.values())) for key, of_types in features.items()}
    if graph.batch_size > 1:
        fields["batch_size"] = graph.batch_size
    if several:
        fields["metagraph"] = [(src, dst, etype) for src, etype, dst in etypes]
    always = not several and not graph.is_block
    schemes = {f"{key}_schemes": value for key, value in features.items() if value or always}
    return _written(name, fields, schemes)


def _counts(graph: DGLGraph) -> dict[str, dict[Any, int]]:
    """Return the numbers of nodes and edges by what they count and by type."""
    edges = {etype: x.num_edges for etype, x in zip(graph.canonical_etypes, graph.adjacencies, strict=True)}
    if not graph.is_block:
        return {"num_nodes": {ntype: graph.num_nodes(ntype) for ntype in graph.ntypes}, "num_edges": edges}
    return {
        "num_src_nodes": {ntype: graph.num_src_nodes(ntype) for ntype in graph.srctypes},
        "num_dst_nodes": {ntype: graph.num_dst_nodes(ntype) for ntype in graph.dsttypes},
        "num_edges": edges,
    }


def _features(graph: DGLGraph) -> dict[str, dict[Any, dict[str, Scheme]]]:
    """Return the schemes of features by the name of their property and by type."""
    edges: dict[Any, dict[str, Scheme]] = {etype: graph.edge_attr_schemes(etype) for etype in graph.canonical_etypes}
    if not graph.is_block:
        return {"ndata": {ntype: graph.node_attr_schemes(ntype) for ntype in graph.ntypes}, "edata": edges}
    src_set, dst_set = graph.type_graph.src_set, graph.type_graph.dst_set
    return {
        "srcdata": {ntype: graph.node_frame_at(src_set(ntype)).schemes for ntype in graph.srctypes},
        "dstdata": {ntype: graph.node_frame_at(dst_set(ntype)).schemes for ntype in graph.dsttypes},
        "edata": edges,
    }


def _written(name: str, fields: dict[str, Any], schemes: dict[str, Any]) -> str:
    """Return the fields as DGL writes them: numbers on the first line, then a line for each dictionary."""
    margin = len(name) + 1
    numbers = all(isinstance(fields[key], int) for key in list(fields)[:2])
    separator = ", " if numbers else ",\n" + " " * margin
    text = separator.join(f"{key}={_value(value, margin + len(key) + 1)}" for key, value in fields.items())
    if schemes:
        text += ",\n" + " " * margin
    # DGL puts no comma between the features of nodes and of edges.
    text += ("\n" + " " * margin).join(
        f"{key}={_value(value, margin + len(key) + 1)}" for key, value in schemes.items()
    )
    return f"{name}({text})"


def _value(value: Any, margin: int) -> str:
    """Return a value as Python writes it; a dictionary or list beyond the line with an entry on each, aligned."""
    text = repr(value)
    if margin + len(text) <= WIDTH or not value or not isinstance(value, dict | list):
        return text
    if isinstance(value, list):
        return "[" + (",\n" + " " * (margin + 1)).join(map(repr, value)) + "]"
    width = max(len(repr(key)) for key in value) + 2
    entries = [f"{repr(key) + ':':<{width}}{_value(x, margin + 1 + width)}" for key, x in value.items()]
    return "{" + (",\n" + " " * (margin + 1)).join(entries) + "}"


def html_of(graph: DGLGraph) -> str:
    """Return the graph as a card of HTML: a row for each type of node and of edge, with its features."""
    name = "Block" if graph.is_block else "Graph"
    facts = [_counted(sum(graph.node_counts), "node"), _counted(sum(x.num_edges for x in graph.adjacencies), "edge")]
    if graph.batch_size > 1 and graph.batch_node_counts is not None:
        sizes = np.sum(graph.batch_node_counts, axis=0)  # of all types
        name = f"Batch of {graph.batch_size:,} graphs"
        least, most = int(sizes.min()), int(sizes.max())
        facts.append(f"{f'{least:,} to ' if least < most else ''}{_counted(most, 'node')} in each graph")
    facts += [f"{str(graph.idtype).removeprefix('torch.')} ids", str(graph.device)]
    counts, features = _counts(graph), _features(graph)
    rows = [
        (_LABELS[key], f"{' —'.join(name[:2])}→ {name[2]}" if key == "num_edges" else name, count, _chips(schemes))
        for (key, numbers), of_types in zip(counts.items(), features.values(), strict=True)
        for (name, count), schemes in zip(numbers.items(), of_types.values(), strict=True)
    ]
    head: tuple[str, ...] = ("", "type", "number", "features")
    if {*graph.ntypes, *graph.etypes} == {"_N", "_E"}:
        head, rows = (head[0], *head[2:]), [(row[0], *row[2:]) for row in rows]  # type: ignore[misc]
    return html_card(name, facts, html_table(head, rows, numbers=[len(head) - 2]))


def _chips(schemes: Mapping[str, Any]) -> list[str]:
    """Return each feature with the shape of a row and the dtype."""
    return [
        f"{name} {' x '.join(map(str, scheme.shape))} {str(scheme.dtype).removeprefix('torch.')}".replace("  ", " ")
        for name, scheme in schemes.items()
    ]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
