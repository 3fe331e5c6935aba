"""Operations on graphs, not on features: making, asking, changing, batching, transforming; beside DGL 2.1.

python benchmarks/graphs.py            three minutes
python benchmarks/graphs.py --quick

Ids are int64, as both libraries have them by default. What keeps a result in the graph for the next call, such as
another sparse format, is called on a new graph each time; making it counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import OURS, erdos_renyi, geometric_mean, interleave, load_dgl, parser, save, table

import dglite

Calls = dict[str, Callable[[], Any]]
USERS = {"user": 15, "game": 15}


def small_graphs(library: Any, count: int) -> list[Any]:
    """Return molecule-sized graphs, 10 to 30 nodes with twice as many edges, one node and one edge feature."""
    rng, graphs = np.random.default_rng(0), []
    for _ in range(count):
        nodes = int(rng.integers(10, 31))
        src, dst = torch.from_numpy(rng.integers(nodes, size=(2, 2 * nodes)))
        graph = library.graph((src, dst), num_nodes=nodes)
        graph.ndata["h"], graph.edata["w"] = torch.randn(nodes, 16), torch.randn(2 * nodes, 4)
        graphs.append(graph)
    return graphs


def typed_graphs(library: Any, count: int) -> list[Any]:
    """Return graphs of two node types and two edge types with a feature on one node type."""
    rng, graphs = np.random.default_rng(0), []
    follows, plays = ("user", "follows", "user"), ("user", "plays", "game")
    for _ in range(count):
        edges = {etype: tuple(torch.from_numpy(rng.integers(15, size=(2, 20)))) for etype in (follows, plays)}
        graph = library.heterograph(edges, num_nodes_dict=USERS)
        graph.nodes["user"].data["h"] = torch.randn(15, 16)
        graphs.append(graph)
    return graphs


def batches(library: Any, count: int) -> Calls:
    """Return calls on ``count`` small graphs."""
    graphs, typed = small_graphs(library, count), typed_graphs(library, count)
    joined, joined_typed = library.batch(graphs), library.batch(typed)
    of_graphs = torch.randn(count, 16)
    return {
        "batch": lambda: library.batch(graphs),
        "unbatch": lambda: library.unbatch(joined),
        "batch, two types": lambda: library.batch(typed),
        "unbatch, two types": lambda: library.unbatch(joined_typed),
        "slice_batch": lambda: library.slice_batch(joined, count // 2),
        "sum_nodes": lambda: library.sum_nodes(joined, "h"),
        "mean_nodes": lambda: library.mean_nodes(joined, "h"),
        "max_nodes": lambda: library.max_nodes(joined, "h"),
        "softmax_nodes": lambda: library.softmax_nodes(joined, "h"),
        "sum_edges": lambda: library.sum_edges(joined, "w"),
        "broadcast_nodes": lambda: library.broadcast_nodes(joined, of_graphs),
        "topk_nodes": lambda: library.topk_nodes(joined, "h", 3),
        "topk_nodes, sortby": lambda: library.topk_nodes(joined, "h", 3, sortby=0),
        "pickle": lambda: pickle.loads(pickle.dumps(graphs[:10])),
    }


def one_small(library: Any, count: int) -> Calls:
    """Return calls on a graph of some 20 nodes, whose time is overhead."""
    del count
    graph, typed = small_graphs(library, 1)[0], typed_graphs(library, 1)[0]
    pair, nodes, edges = graph.edges(), torch.arange(5), torch.arange(10)
    return {
        "graph": lambda: library.graph(pair),
        "edges": lambda: graph.edges(),
        "in_degrees": lambda: graph.in_degrees(),
        "has_edges_between": lambda: graph.has_edges_between(nodes, nodes),
        "in_edges": lambda: graph.in_edges(nodes),
        "local_scope": lambda: graph.local_scope().__enter__(),
        "clone": lambda: graph.clone(),
        "reverse": lambda: library.reverse(graph),
        "add_self_loop": lambda: library.add_self_loop(graph),
        "add_edges": lambda: library.add_edges(graph, nodes, nodes),
        "remove_nodes": lambda: library.remove_nodes(graph, nodes),
        "node_subgraph": lambda: library.node_subgraph(graph, nodes),
        "edge_subgraph": lambda: library.edge_subgraph(graph, edges),
        "to_bidirected": lambda: library.to_bidirected(library.graph(pair)),
        "line_graph": lambda: library.line_graph(graph),
        "lap_pe": lambda: library.lap_pe(library.to_bidirected(library.graph(pair)), 3),
        "to_homogeneous": lambda: library.to_homogeneous(typed),
        "one edge type": lambda: typed["plays"],
    }


def large(library: Any, num_nodes: int, num_edges: int) -> Calls:
    """Return calls on a random graph."""
    pair = tuple(map(torch.from_numpy, erdos_renyi(num_nodes, num_edges)))
    types = {("user", "plays", "game"): pair, ("game", "played by", "user"): pair[::-1]}
    numbers, tags = dict.fromkeys(USERS, num_nodes), torch.randint(3, (num_nodes,))
    nodes, few, edges = torch.arange(0, num_nodes, 7), torch.arange(0, num_nodes, 100), torch.arange(0, num_edges, 10)

    def new() -> Any:
        return library.graph(pair, num_nodes=num_nodes)

    graph, typed = new(), library.heterograph(types, num_nodes_dict=numbers)
    graph.ndata["h"], graph.edata["w"] = torch.randn(num_nodes, 16), torch.rand(num_edges)
    graph.create_formats_()
    return {
        "graph": new,
        "heterograph": lambda: library.heterograph(types, num_nodes_dict=numbers),
        "csc": lambda: new().adj_tensors("csc"),
        "edges, all": lambda: graph.edges(form="all"),
        "in_degrees": lambda: new().in_degrees(),
        "in_edges": lambda: graph.in_edges(few, form="all"),
        "has_edges_between": lambda: graph.has_edges_between(nodes, nodes),
        "edge_ids": lambda: graph.edge_ids(pair[0][:1000], pair[1][:1000]),
        "filter_nodes": lambda: graph.filter_nodes(lambda batch: batch.data["h"][:, 0] > 0),
        "add_self_loop": lambda: library.add_self_loop(graph),
        "add_edges": lambda: library.add_edges(graph, nodes, nodes),
        "remove_edges": lambda: library.remove_edges(graph, edges),
        "add_reverse_edges": lambda: library.add_reverse_edges(graph),
        "to_bidirected": lambda: library.to_bidirected(new()),
        "to_simple": lambda: library.to_simple(new()),
        "sort_csr_by_tag": lambda: library.sort_csr_by_tag(new(), tags),
        "node_subgraph": lambda: library.node_subgraph(graph, nodes),
        "edge_subgraph": lambda: library.edge_subgraph(graph, edges),
        "in_subgraph": lambda: library.in_subgraph(graph, few),
        "khop_in_subgraph": lambda: library.khop_in_subgraph(graph, few[:10], 2),
        "compact_graphs": lambda: library.compact_graphs(library.edge_subgraph(graph, edges, relabel_nodes=False)),
        "to_block": lambda: library.to_block(library.in_subgraph(graph, few), few),
        "to_homogeneous": lambda: library.to_homogeneous(typed),
        "metapath_reachable_graph": lambda: library.metapath_reachable_graph(typed, ["plays", "played by"]),
        "bfs_nodes_generator": lambda: library.bfs_nodes_generator(graph, 0),
        "random_walk_pe": lambda: library.random_walk_pe(library.node_subgraph(graph, few), 4),
        "DropEdge": lambda: library.DropEdge(0.3)(graph),
        "pickle": lambda: pickle.loads(pickle.dumps(graph)),
    }


def hypersparse(library: Any, num_ids: int, num_edges: int) -> Calls:
    """Return calls on a slice of a large graph that keeps its global ids: most ids have no edge."""
    rng = np.random.default_rng(0)
    nodes = rng.integers(num_ids, size=num_edges // 2)
    pair = tuple(torch.from_numpy(nodes[rng.integers(len(nodes), size=num_edges)]) for _ in range(2))
    few, edges = torch.unique(torch.from_numpy(nodes))[:1000], torch.arange(0, num_edges, 10)

    def new() -> Any:
        return library.graph(pair, num_nodes=num_ids)

    graph, column = new(), torch.rand(num_ids, 1)
    graph.create_formats_()
    return {
        "has_edges_between": lambda: new().has_edges_between(few, few),
        "in_degrees": lambda: new().in_degrees(few),
        "is_multigraph": lambda: new().is_multigraph,
        "edges, by source": lambda: new().edges(form="all", order="srcdst"),
        "to_simple": lambda: library.to_simple(new()),
        "to_bidirected": lambda: library.to_bidirected(new()),
        "compact_graphs": lambda: library.compact_graphs(new()),
        "to_block": lambda: library.to_block(new()),
        "node_subgraph": lambda: library.node_subgraph(graph, few),
        "edge_subgraph": lambda: library.edge_subgraph(graph, edges),
        "in_subgraph": lambda: library.in_subgraph(graph, few),
        "khop_in_subgraph": lambda: library.khop_in_subgraph(graph, few[:100], 2),
        "sample_neighbors": lambda: library.sampling.sample_neighbors(graph, few, 5),
        "norm_by_dst": lambda: library.norm_by_dst(new()),
        "u_add_v": lambda: library.ops.u_add_v(graph, column, column),
        "u_add_v, new graph": lambda: library.ops.u_add_v(new(), column, column),
        "pickle": lambda: pickle.loads(pickle.dumps(graph)),
    }


def calls_of(library: Any, quick: bool) -> Calls:
    """Return the calls to time, by group and name; ``library`` is dglite or DGL, whose interfaces are the same."""
    count, size = (50, (2_000, 20_000)) if quick else (1000, (100_000, 1_000_000))
    ids = 100_000 if quick else 10_000_000
    groups = {
        f"{count:,} small graphs": batches(library, count),
        "one small graph": one_small(library, 1),
        f"{size[0]:,} nodes, {size[1]:,} edges": large(library, *size),
        f"hypersparse, {ids:,} ids, 10,000 edges": hypersparse(library, ids, 10_000),
    }
    return {f"{group}: {name}": call for group, calls in groups.items() for name, call in calls.items()}


def graphs_table(records: list[dict[str, Any]]) -> str:
    """Return one row per call: milliseconds of each library and their ratio; first their geometric mean by group."""
    rows: dict[str, list[list[str]]] = {}
    ratios: dict[str, list[float]] = {}
    for record in records:
        group, name = record["call"].split(": ")
        ours, theirs = record["seconds"][OURS], record["seconds"].get("DGL 2.1", float("nan"))
        ratios.setdefault(group, []).append(theirs / ours)
        rows.setdefault(group, []).append([name, f"{1e3 * ours:.3g}", f"{1e3 * theirs:.3g}", f"{theirs / ours:.2f}"])
    means = [
        [group, str(len(of)), f"{geometric_mean(of):.1f}", f"{min(of):.2f}", str(sum(ratio < 0.95 for ratio in of))]
        for group, of in ratios.items()
    ]
    parts = [table(["DGL 2.1 / dglite", "calls", "geometric mean", "least", "behind"], means)]
    for group, of in rows.items():
        body = table(["call", "dglite, ms", "DGL 2.1, ms", "ratio"], of)
        parts.append(f"<details><summary>{group}</summary>\n\n{body}\n\n</details>")
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    libraries = {OURS: calls_of(dglite, quick)}
    if (dgl := load_dgl()) is not None:
        libraries["DGL 2.1"] = calls_of(dgl, quick)
    records = []
    for call in libraries[OURS]:
        calls = {name: own[call] for name, own in libraries.items()}
        records.append({"call": call, "seconds": interleave(calls, budget=0.2 if quick else 2.0, most=100)})
    print(graphs_table(records))
    if not quick:
        save("graphs", {"records": records})


if __name__ == "__main__":
    main()
