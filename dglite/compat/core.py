"""``dgl.core``: results of message passing on a graph of one edge type, returned instead of written to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import function as fn
from ..backend import Tensor
from ..graph import DGLGraph

Columns = dict[str, Tensor]


def is_builtin(func: object) -> bool:
    """Whether a message or reduce function is one of ``dgl.function``."""
    return isinstance(func, fn.MessageFunction | fn.ReduceFunction)


def message_passing(g: DGLGraph, mfunc: Any, rfunc: Any, afunc: Any = None) -> Columns:
    """Return the columns that ``update_all`` would write to the destination nodes."""
    g = g.local_var()
    return _written(g.dstdata, lambda: g.update_all(mfunc, rfunc, afunc))


def invoke_gspmm(graph: DGLGraph, mfunc: Any, rfunc: Any) -> Columns:
    """Return the columns of a built-in message and reduction."""
    return message_passing(graph, mfunc, rfunc)


def invoke_gsddmm(graph: DGLGraph, func: Any) -> Columns:
    """Return the columns that a built-in message function computes for the edges."""
    graph = graph.local_var()
    return _written(graph.edata, lambda: graph.apply_edges(func))


def invoke_node_udf(graph: DGLGraph, nid: Any, ntype: str | None, func: Callable[..., Any]) -> Columns:
    """Return the columns that a function computes for nodes ``nid``."""
    results: list[Columns] = []
    graph.local_var().filter_nodes(lambda nodes: _collect(func(nodes), nodes, results), nid, ntype)
    return results[0]


def invoke_edge_udf(graph: DGLGraph, eid: Any, etype: Any, func: Callable[..., Any]) -> Columns:
    """Return the columns that a function computes for edges ``eid``."""
    results: list[Columns] = []
    graph.local_var().filter_edges(lambda edges: _collect(func(edges), edges, results), eid, etype)
    return results[0]


def invoke_udf_reduce(graph: DGLGraph, func: Callable[..., Any], msgdata: Mapping[str, Tensor]) -> Columns:
    """Return the columns that a reduce function makes of messages, rows of ``msgdata`` by edge id."""
    graph = graph.local_var()
    graph.edata.update(msgdata)
    messages = [fn.copy_e(name, name) for name in msgdata]
    return _written(graph.dstdata, lambda: graph.update_all(messages, func))


def _written(frame: Any, call: Callable[[], None]) -> Columns:
    before = dict(frame)
    call()
    return {name: column for name, column in frame.items() if column is not before.get(name)}


def _collect(columns: Columns, batch: Any, results: list[Columns]) -> Any:
    """Append the columns that a function returned for a batch; every row passes the filter that it runs in."""
    results.append(columns)
    return np.ones(len(batch), dtype=bool)
