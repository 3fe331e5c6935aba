"""Random calls of public functions on small graphs: ``python random_calls.py dglite|dgl FILE`` saves their results.

Both libraries draw the same graphs and arguments. What DGL leaves open is left out: the order of sampled neighbours,
results for empty graphs, arguments of other dtypes than the graph's ids.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch

RELATIONS = [("a", "r", "b"), ("b", "r", "a"), ("a", "s", "a"), ("b", "t", "c"), ("c", "u", "c")]
SEEDS = range(25)
Random = np.random.RandomState


def homogeneous(dgl: Any, r: Random) -> Any:
    num_nodes, num_edges = r.randint(2, 9), r.randint(1, 15)
    ends = tuple(torch.as_tensor(r.randint(0, num_nodes, num_edges)) for _ in "uv")
    g = dgl.graph(ends, num_nodes=num_nodes, idtype=(torch.int32, torch.int64)[r.randint(2)])
    g.ndata["x"], g.edata["w"] = numbers(r, num_nodes, 2), numbers(r, num_edges)
    return g


def of_types(dgl: Any, r: Random) -> Any:
    sizes = {ntype: int(r.randint(1, 6)) for ntype in "abc"}
    edges = {}
    for index in r.permutation(len(RELATIONS))[: r.randint(2, 5)]:
        src, _, dst = RELATIONS[index]
        count = r.randint(1, 9)
        edges[RELATIONS[index]] = tuple(torch.as_tensor(r.randint(0, sizes[ntype], count)) for ntype in (src, dst))
    types = {ntype for src, _, dst in edges for ntype in (src, dst)}
    g = dgl.heterograph(edges, {ntype: sizes[ntype] for ntype in sorted(types)})
    for ntype in g.ntypes:
        g.nodes[ntype].data["x"] = numbers(r, g.num_nodes(ntype), 2)
    for etype in g.canonical_etypes:
        g.edges[etype].data["w"] = numbers(r, g.num_edges(etype))
    return g


def numbers(r: Random, *shape: int) -> torch.Tensor:
    return torch.as_tensor(r.rand(*shape) + 0.5).float()


def some(r: Random, count: int, like: Any) -> torch.Tensor:
    """Return distinct numbers below ``count`` in random order, with the dtype of the graph's ids."""
    return torch.as_tensor(r.permutation(count)[: r.randint(1, count + 1)]).to(like.idtype)


def nodes_of(g: Any, r: Random) -> Any:
    return {ntype: some(r, g.num_nodes(ntype), g) for ntype in g.ntypes if g.num_nodes(ntype)}


def edges_of(g: Any, r: Random) -> Any:
    return {etype: some(r, g.num_edges(etype), g) for etype in g.canonical_etypes}


def changed(dgl: Any, g: Any, r: Random) -> Any:
    """Return the graph after a few random changes."""
    for _ in range(r.randint(1, 5)):
        ntype, etype = (kinds[r.randint(len(kinds))] for kinds in (g.ntypes, g.canonical_etypes))
        kind = r.randint(5)
        if kind == 0:
            g.add_nodes(int(r.randint(1, 3)), ntype=ntype)
        elif kind == 1:
            ends = (torch.as_tensor(r.randint(0, g.num_nodes(end), 2)).to(g.idtype) for end in (etype[0], etype[2]))
            g.add_edges(*ends, etype=etype)
        elif kind == 2 and g.num_edges(etype) > 1:
            g.remove_edges(some(r, g.num_edges(etype) - 1, g), etype=etype)
        elif kind == 3:
            g = dgl.reverse(g, copy_edata=True)
        else:
            g.edges[etype].data["w"] = numbers(r, g.num_edges(etype))
    return g


def changed_rows(g: Any) -> Any:
    result = g.clone()
    result.nodes[g.ntypes[0]].data["x"] = -result.nodes[g.ntypes[0]].data["x"]
    return result


def messages(dgl: Any, g: Any, r: Random) -> Any:
    etype, fn = g.canonical_etypes[r.randint(len(g.canonical_etypes))], dgl.function
    left = ("add", "sub", "mul", "div")[r.randint(4)]
    message = getattr(fn, f"u_{left}_v")("x", "x", "m")
    reduce = getattr(fn, ("sum", "mean", "max", "min")[r.randint(4)])("m", "y")
    g.update_all(message, reduce, etype=etype)
    g.apply_edges(lambda edges: {"z": edges.src["x"].sum(1) * edges.data["w"]}, etype=etype)
    return g


CALLS: dict[str, Callable[[Any, Any, Random], Any]] = {
    "node_subgraph": lambda dgl, g, r: dgl.node_subgraph(g, nodes_of(g, r)),
    "edge_subgraph": lambda dgl, g, r: dgl.edge_subgraph(g, edges_of(g, r), relabel_nodes=bool(r.randint(2))),
    "in_subgraph": lambda dgl, g, r: dgl.in_subgraph(g, nodes_of(g, r), relabel_nodes=bool(r.randint(2))),
    "khop_in_subgraph": lambda dgl, g, r: dgl.khop_in_subgraph(g, nodes_of(g, r), int(r.randint(1, 3)))[0],
    "reverse": lambda dgl, g, r: dgl.reverse(g, copy_ndata=bool(r.randint(2)), copy_edata=bool(r.randint(2))),
    "to_simple": lambda dgl, g, r: dgl.to_simple(g.long(), return_counts="count", copy_ndata=bool(r.randint(2))),
    "compact_graphs": lambda dgl, g, r: dgl.compact_graphs(g),
    "to_block": lambda dgl, g, r: dgl.to_block(g),
    "to_homogeneous": lambda dgl, g, r: dgl.to_homogeneous(g, ndata=["x"], edata=["w"]),
    "batch": lambda dgl, g, r: [*dgl.unbatch(dgl.batch([g, changed_rows(g)])), dgl.batch([g] * 3)],
    "degrees": lambda dgl, g, r: [(g.in_degrees(etype=e), g.out_degrees(etype=e)) for e in g.canonical_etypes],
    "edges": lambda dgl, g, r: [g.edges("all", ("eid", "srcdst")[r.randint(2)], etype=e) for e in g.canonical_etypes],
    "changes": changed,
    "messages": messages,
}


def plain(value: Any) -> Any:
    """Return tensors, lists and dictionaries for a result, all of a graph among it."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not hasattr(value, "canonical_etypes"):
        return value
    nodes = [value.srcnodes[ntype].data for ntype in value.srctypes] + [
        value.dstnodes[ntype].data for ntype in value.dsttypes
    ]
    edges = value.canonical_etypes
    return {
        "types": [list(value.srctypes), list(value.dsttypes), [str(etype) for etype in edges]],
        "sizes": [value.num_src_nodes(ntype) for ntype in value.srctypes] + [value.batch_size, str(value.idtype)],
        "ends": [list(value.edges("all", "eid", etype=etype)) for etype in edges],
        "features": [dict(data) for data in (*nodes, *(value.edges[etype].data for etype in edges))],
    }


def main(library: str, path: str) -> None:
    """Save the results of all calls: a dictionary from (call, kind of graph, seed)."""
    if library == "dgl":
        sys.modules["dgl.graphbolt"] = mock.MagicMock()  # which has no build for this torch
    else:
        importlib.import_module("dglite.compat").install()
    dgl = importlib.import_module("dgl")
    results = {}
    for name, call in CALLS.items():
        for kind in (homogeneous, of_types):
            for seed in SEEDS:
                r = Random(seed)
                results[f"{name} {kind.__name__} {seed}"] = plain(call(dgl, kind(dgl, r), r))
    torch.save(results, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
