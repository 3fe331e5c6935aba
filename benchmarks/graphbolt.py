"""Loaders through GraphBolt's names beside dglite's own, which run the same kernels: what the names cost.

    python benchmarks/graphbolt.py                   all cases, two minutes
    python benchmarks/graphbolt.py subgraphs pairs   cases whose names contain a word; results are not kept
    python benchmarks/graphbolt.py --quick           small graphs; results are not kept

Graphs of 200k nodes and 2M edges; epochs of 10 batches of 1,024 seeds, with fan-outs 15, 10 and 5 as in
``minibatch.py`` and 32 features of the input nodes, in turns, by one thread and its processor time, so that other work
on the machine changes little. Ratios are of the least times.

- *subgraphs* reads GraphBolt's sampled subgraphs, *blocks* DGL's blocks.
- *types together* gives each node one fan-out for the edges of all types, which dglite's own loader does on the graph
  of one type (``to_homogeneous``): the names have to split its blocks by type.
- *times* draws edges that are earlier than their seeds: a node is an input once for each edge with GraphBolt, and
  once for each time with dglite, so that there are fewer.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from common import OURS, parser, power_law, save, table

import dglite
import dglite.compat.graphbolt as gb
from dglite.dataloading import DataLoader, LaborSampler, NeighborSampler, as_edge_prediction_sampler, negative_sampler

BATCH, BATCHES, FANOUTS, RATIO = 1024, 10, [15, 10, 5], 2
DOOR = "through GraphBolt's names"


class Case(NamedTuple):
    """Loaders of the same batches, and what is read of each batch."""

    own: Any
    door: Any
    read_own: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _own(g: Any, seeds: Any, sampler: Any) -> Any:
    return DataLoader(g, seeds, sampler, batch_size=BATCH, shuffle=True)


def _read_nodes(batch: Any) -> None:
    input_nodes, _, blocks = batch
    for ntype in input_nodes if isinstance(input_nodes, dict) else [None]:
        blocks[0].srcnodes[ntype].data["x"] if ntype else blocks[0].srcdata["x"]


def _read_pairs(batch: Any) -> None:
    batch[3][0].srcdata["x"]


def _read(name: str, batch: Any) -> None:
    getattr(batch, name), batch.node_features, batch.compacted_seeds, batch.labels


class Graphs:
    """The graphs that are sampled: of one type, of three edge types, and with times."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        torch.manual_seed(0)
        dglite.seed(0)
        n, m = num_nodes, num_nodes // 2
        self.g = dglite.graph(power_law(n, num_edges), num_nodes=n)
        self.g.ndata["x"] = torch.randn(n, 32)
        self.g.edata["time"] = torch.randint(1000, (num_edges,))
        self.g.ndata["time"] = torch.randint(400, 600, (n,))

        def ends(sources: int, destinations: int) -> Any:
            return torch.randint(sources, (num_edges // 3,)), torch.randint(destinations, (num_edges // 3,))

        edges = {("u", "buys", "i"): ends(n, m), ("i", "of", "u"): ends(m, n), ("u", "knows", "u"): ends(n, n)}
        self.h = dglite.heterograph(edges, {"u": n, "i": m})
        for ntype in self.h.ntypes:
            self.h.nodes[ntype].data["x"] = torch.randn(self.h.num_nodes(ntype), 32)
        self.seeds = torch.randperm(n)[: BATCH * BATCHES]
        self.edges = torch.randperm(num_edges)[: BATCH * BATCHES]
        self.plain = self._plain()

    def _plain(self) -> Any:
        """Return the graph with features of the nodes alone, as no sampler but that of times reads those of edges."""
        g = dglite.graph(self.g.edges(), num_nodes=self.g.num_nodes())
        g.ndata["x"] = self.g.ndata["x"]
        return g

    def pipe(self, items: Any) -> Any:
        """Return the beginning of a pipe."""
        return gb.ItemSampler(items, BATCH, shuffle=True)

    def fetch(self, pipe: Any) -> Any:
        """Return the loader of a pipe that reads the features of the graph of one type."""
        store = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(self.g.ndata["x"])})
        return gb.DataLoader(pipe.fetch_feature(store, ["x"]))

    def fetch_types(self, pipe: Any) -> Any:
        """Return the loader of a pipe that reads the features of the graph of several types."""
        h = self.h
        store = {("node", t, "x"): gb.TorchBasedFeature(h.nodes[t].data["x"]) for t in h.ntypes}
        return gb.DataLoader(pipe.fetch_feature(gb.BasicFeatureStore(store), {t: ["x"] for t in h.ntypes}))


# -- cases -------------------------------------------------------------------------------------------------------------
def nodes(graphs: Graphs, stage: str, read: str) -> Case:
    """Return the case of seeds that are nodes of the graph of one type."""
    sampler = (LaborSampler if "layer" in stage else NeighborSampler)(FANOUTS, prefetch_node_feats=["x"])
    pipe = graphs.pipe(gb.ItemSet(graphs.seeds, names="seeds"))
    door = graphs.fetch(getattr(pipe, stage)(gb.from_dglgraph(graphs.plain), FANOUTS))
    return Case(_own(graphs.plain, graphs.seeds, sampler), door, _read_nodes, partial(_read, read))


def pairs(graphs: Graphs, exclude: bool) -> Case:
    """Return the case of seeds that are edges, with drawn pairs."""
    g = graphs.plain
    neighbours = NeighborSampler(FANOUTS, prefetch_node_feats=["x"])
    options = {"exclude": "self"} if exclude else {}
    sampler = as_edge_prediction_sampler(neighbours, negative_sampler=negative_sampler.Uniform(RATIO), **options)
    graph, items = gb.from_dglgraph(g), gb.ItemSet(torch.stack(g.find_edges(graphs.edges), 1), names="seeds")
    pipe = graphs.pipe(items).sample_uniform_negative(graph, RATIO).sample_neighbor(graph, FANOUTS)
    pipe = pipe.exclude_seed_edges() if exclude else pipe
    return Case(_own(g, graphs.edges, sampler), graphs.fetch(pipe), _read_pairs, partial(_read, "blocks"))


def types(graphs: Graphs, read: str) -> Case:
    """Return the case of a fan-out for each edge type."""
    h, fanouts = graphs.h, [5, 5, 3]
    sampler = NeighborSampler(fanouts, prefetch_node_feats={t: ["x"] for t in h.ntypes})
    items = gb.HeteroItemSet({"u": gb.ItemSet(graphs.seeds, names="seeds")})
    numbers = [torch.full((3,), fanout) for fanout in fanouts]
    door = graphs.fetch_types(graphs.pipe(items).sample_neighbor(gb.from_dglgraph(h), numbers))
    return Case(_own(h, {"u": graphs.seeds}, sampler), door, _read_nodes, partial(_read, read))


def types_together(graphs: Graphs, read: str) -> Case:
    """Return the case of a fan-out for the edges of all types."""
    h = graphs.h
    merged = dglite.to_homogeneous(h, ndata=["x"])
    first = dict(zip(h.ntypes, [0, h.num_nodes(h.ntypes[0])], strict=True))["u"]
    one = dglite.graph(merged.edges(), num_nodes=merged.num_nodes())
    one.ndata["x"] = merged.ndata["x"]
    own = _own(one, graphs.seeds + first, NeighborSampler(FANOUTS, prefetch_node_feats=["x"]))
    items = gb.HeteroItemSet({"u": gb.ItemSet(graphs.seeds, names="seeds")})
    door = graphs.fetch_types(graphs.pipe(items).sample_neighbor(gb.from_dglgraph(h), FANOUTS))
    return Case(own, door, _read_nodes, partial(_read, read))


def times(graphs: Graphs, stage: str) -> Case:
    """Return the case of edges that are earlier than their seeds."""
    g = graphs.g
    own = NeighborSampler(FANOUTS, prefetch_node_feats=["x"], time="time", edge_time="time")
    graph, seeds = gb.from_dglgraph(g), graphs.seeds
    items = gb.ItemSet((seeds, g.ndata["time"][seeds]), names=("seeds", "timestamp"))
    pipe = getattr(graphs.pipe(items), stage)(graph, FANOUTS, edge_timestamp_attr_name="time")
    return Case(_own(g, seeds, own), graphs.fetch(pipe), _read_nodes, partial(_read, "blocks"))


CASES: dict[str, Callable[[Graphs], Case]] = {
    "blocks": partial(nodes, stage="sample_neighbor", read="blocks"),
    "subgraphs": partial(nodes, stage="sample_neighbor", read="sampled_subgraphs"),
    "layers, blocks": partial(nodes, stage="sample_layer_neighbor", read="blocks"),
    "pairs, blocks": partial(pairs, exclude=False),
    "pairs without seed edges, blocks": partial(pairs, exclude=True),
    "types, blocks": partial(types, read="blocks"),
    "types, subgraphs": partial(types, read="sampled_subgraphs"),
    "types together, blocks": partial(types_together, read="blocks"),
    "types together, subgraphs": partial(types_together, read="sampled_subgraphs"),
    "times, blocks": partial(times, stage="temporal_sample_neighbor"),
}


# -- timing ------------------------------------------------------------------------------------------------------------
def epoch(loader: Any, read: Callable[[Any], Any]) -> float:
    """Return the processor time of an epoch."""
    gc.collect()
    start = time.process_time()
    for batch in loader:
        read(batch)
    return time.process_time() - start


def measure(case: Case, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of epochs, taken in turns, by loader."""
    runners = {OURS: (case.own, case.read_own), DOOR: (case.door, case.read)}
    for runner in runners.values():
        epoch(*runner)
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            seconds[name].append(epoch(*runner))
    return seconds


def profile(case: Case) -> None:
    """Print where an epoch's time goes, by function."""
    for loader, read in ((case.own, case.read_own), (case.door, case.read)):
        with cProfile.Profile() as profiler:
            epoch(loader, read)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(22)


def door_table(records: list[dict[str, Any]]) -> str:
    """Return one row for each case."""
    header = ["ms of a batch", OURS, DOOR, "ratio", "of medians"]
    rows = []
    for record in records:
        own, door = (record["seconds"][name] for name in (OURS, DOOR))
        least = [1e3 * min(x) / BATCHES for x in (own, door)]
        ratios = least[1] / least[0], statistics.median(door) / statistics.median(own)
        rows.append([record["case"], *(f"{x:.2f}" for x in least), *(f"{x:.2f}" for x in ratios)])
    return table(header, rows)


def main() -> None:
    """Measure all cases, or those that are named."""
    options = parser(__doc__ or "")
    options.add_argument("cases", nargs="*", help="words of the cases' names")
    options.add_argument("--rounds", type=int, default=15, help="epochs of each loader")
    options.add_argument("--profile", action="store_true", help="print where the time goes, too")
    given = options.parse_args()
    torch.set_num_threads(1)
    graphs = Graphs(20_000, 200_000) if given.quick else Graphs(200_000, 2_000_000)
    names = [x for x in CASES if not given.cases or any(word in x for word in given.cases)]
    records = []
    for name in names:
        case = CASES[name](graphs)
        records.append({"case": name, "seconds": measure(case, 7 if given.quick else given.rounds)})
        print(door_table(records[-1:]).splitlines()[-1], flush=True)
        if given.profile:
            profile(case)
    print(door_table(records))
    if not given.quick and not given.cases:
        save("graphbolt", {"records": records})


if __name__ == "__main__":
    main()
