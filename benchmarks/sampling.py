"""Sampling on a power-law graph of 1M nodes and 20M edges, and what it is made from, against DGL 2.1 in one process.

python benchmarks/sampling.py            three minutes
python benchmarks/sampling.py --quick    a graph of 100k nodes and 1M edges

Neighbour sampling draws 5, 10 and then 15 in-edges around 1,024 seeds, all alike or by weight, and makes a block of
each layer. Every library draws its own samples, so the number of edges differs a little; edges per second make up for
that. Draws by weight, without replacement as the others, are to take at most 3 times as long; the first ones, by which
dglite comes to keep sums of weights, do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import OURS, interleave, load_dgl, parser, power_law, save, table

import dglite
import dglite.sampling

FANOUTS = [15, 10, 5]
BATCH_SIZE = 1024
WALKS, LENGTH = 100_000, 20
TARGET = 1.5
"""How many times faster than DGL each is to be."""


class Peer:
    """The cases of one library; dglite's and DGL's interfaces are the same."""

    def __init__(self, library: Any, sampling: Any, src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> None:
        self.library, self.sampling = library, sampling
        self.coo = library.graph((src, dst), num_nodes=num_nodes).formats("coo")
        self.graph = library.graph((src, dst), num_nodes=num_nodes)
        self.graph.create_formats_()
        self.weighted = self.graph.local_var()
        self.weighted.edata["w"] = torch.rand(len(src), generator=torch.Generator().manual_seed(0))

    def build(self) -> None:
        """Make the in-edges of every node from the list of edges, and their ids, which may wait for the first use."""
        self.coo.formats("csc").in_edges(0, form="eid")

    def batch(self, seeds: torch.Tensor, prob: str | None = None) -> int:
        """Sample the layers of one batch; return how many edges they have."""
        total, graph = 0, self.graph if prob is None else self.weighted
        for fanout in reversed(FANOUTS):
            frontier = self.sampling.sample_neighbors(graph, seeds, fanout, prob=prob)
            block = self.library.to_block(frontier, seeds)
            seeds = block.srcdata[self.library.NID]
            total += block.num_edges()
        return total

    def batch_by_weight(self, seeds: torch.Tensor) -> int:
        """Sample the layers of one batch in proportion to weights."""
        return self.batch(seeds, "w")

    def walk(self, seeds: torch.Tensor) -> None:
        """Walk from each seed."""
        self.sampling.random_walk(self.graph, seeds, length=LENGTH)


def cycled(call: Callable[[torch.Tensor], Any], batches: list[torch.Tensor]) -> Callable[[], None]:
    """Return a runner that takes the next batch each time."""
    taken = 0

    def run() -> None:
        nonlocal taken
        call(batches[taken % len(batches)])
        taken += 1

    return run


def cases_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case: milliseconds and elements per second of each library, and the ratio of the latter."""
    rows = []
    for record in records:
        seconds, counts = record["seconds"], record["counts"]
        rates = {name: counts[name] / seconds[name] for name in seconds}
        row = [record["case"]]
        for name in seconds:
            row += [f"{1e3 * seconds[name]:.1f}", f"{rates[name] / 1e6:.1f}"]
        if len(rates) == 2:
            ours, theirs = rates.values()
            row += [f"{ours / theirs:.1f}", f"{record['target']:g}"]
        rows.append(row)
    names = [title for name in records[0]["seconds"] for title in (f"{name}, ms", "M/s")]
    return table(["case", *names, *(["ratio", "to reach"] if len(records[0]["seconds"]) == 2 else [])], rows)


def measure(peers: dict[str, Peer], num_nodes: int, num_edges: int, quick: bool) -> list[dict[str, Any]]:
    """Return one record per case."""
    generator = np.random.default_rng(0)
    batches = [torch.from_numpy(generator.choice(num_nodes, BATCH_SIZE, replace=False)) for _ in range(5)]
    starts = [torch.from_numpy(generator.integers(0, num_nodes, WALKS // (10 if quick else 1))) for _ in range(3)]
    sizes = {name: np.mean([peer.batch(seeds) for seeds in batches]) for name, peer in peers.items()}
    for seeds in 10 * batches:
        peers[OURS].batch_by_weight(seeds)
    steps = len(starts[0]) * LENGTH
    fanouts = ", ".join(map(str, FANOUTS))
    cases: dict[str, tuple[dict[str, Callable[[], Any]], dict[str, float]]] = {
        "CSC construction, edges": (
            {name: peer.build for name, peer in peers.items()},
            dict.fromkeys(peers, float(num_edges)),
        ),
        f"neighbours [{fanouts}] and blocks of {BATCH_SIZE:,} seeds, edges": (
            {name: cycled(peer.batch, batches) for name, peer in peers.items()},
            sizes,
        ),
        f"neighbours [{fanouts}] by weight and blocks of {BATCH_SIZE:,} seeds, edges": (
            {name: cycled(peer.batch_by_weight, batches) for name, peer in peers.items()},
            sizes,
        ),
        f"{len(starts[0]):,} random walks of {LENGTH} steps, steps": (
            {name: cycled(peer.walk, starts) for name, peer in peers.items()},
            dict.fromkeys(peers, float(steps)),
        ),
    }
    records = []
    for case, (runners, counts) in cases.items():
        seconds = interleave(runners, budget=1.0 if quick else 15.0, most=25, least=5, slow_from=60)
        records.append({"case": case, "target": TARGET, "seconds": seconds, "counts": counts})
    return records


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    num_nodes, num_edges = (100_000, 1_000_000) if quick else (1_000_000, 20_000_000)
    src, dst = (torch.from_numpy(ends) for ends in power_law(num_nodes, num_edges))
    peers = {OURS: Peer(dglite, dglite.sampling, src, dst, num_nodes)}
    if (dgl := load_dgl()) is not None:
        peers["DGL 2.1"] = Peer(dgl, dgl.sampling, src, dst, num_nodes)
    records = measure(peers, num_nodes, num_edges, quick)
    print(cases_table(records))
    if not quick:
        save("sampling", {"num_nodes": num_nodes, "num_edges": num_edges, "records": records})


if __name__ == "__main__":
    main()
