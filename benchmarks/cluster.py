"""What an epoch on papers100M would take on 2 to 64 machines: rates measured here, sizes of batches by a model.

    python benchmarks/cluster.py            measure rates, compare the model with sampled batches, predict, draw
    python benchmarks/cluster.py rates      rates alone, or "batches"; the other stays as it is
    python benchmarks/cluster.py --quick    on a small graph; results are not kept

docs/decisions/0174 explains the model. It has three parts. *Batches*: how many nodes a batch needs, and how many of
them others own, follow from a power law of degrees and the share of edges inside a part; they are compared with batches
sampled from graphs of up to a million nodes. *Rates*: what a row costs to sample, fetch and train on, measured on one
core a rank, two ranks that exchange over the loopback network. *Network*: bytes over 25 Gb/s, and a latency for each
message; assumed, not measured.
"""

from __future__ import annotations

import importlib
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, parser, save, table
from distributed_ranks import NAME, together
from scipy.special import pdtrc
from scipy.stats import poisson
from torch import nn

import dglite
from dglite.dataloading import NeighborSampler
from dglite.distributed import DistGraph, DistNodeDataLoader, partition_graph
from dglite.nn import SAGEConv

PLOTS = Path(__file__).resolve().parent / "plots"
NODES, EDGES, TRAIN, WIDTH, CLASSES = 111_059_956, 1_615_685_872, 1_207_179, 128, 172
BATCH, FANOUTS, HIDDEN = 1024, [15, 10, 5], 256
EXPONENT = 3.0
"""Of the degrees of citations: Redner, 1998."""
DEGREE = EDGES / NODES
COMMUNITIES, INSIDE = 64, 0.8
"""A cut with four of five edges inside a part, and what chance adds."""
CACHE = 0.01
BYTES_A_SECOND, LATENCY = 25e9 / 8, 50e-6
MACHINES = (2, 4, 8, 16, 32, 64)
CORES = 16
"""How much faster than one core here a machine's computing is, in the second prediction."""
CUTS = {"random cut": (0.0, 0.0), "cut": (INSIDE, 0.0), "cut and cache": (INSIDE, CACHE)}


# -- batches by the model ----------------------------------------------------------------------------------------------
def expected_batch(num_nodes: int, parts: int, inside: float, cache: float, batch: int = BATCH) -> dict[str, float]:
    """Return how many edges and different nodes a batch has on average, and how many of these others own.

    Nodes are taken by rank, in steps, each a share of this part and of the others. A node is needed unless no draw of
    any hop was it: draws are independent, but for those of an edge that was drawn before.
    """
    bounds = np.unique(np.concatenate([[0], np.geomspace(1, num_nodes, 3000).astype(np.int64)]))
    counts = np.diff(bounds)
    power = (EXPONENT - 2) / (EXPONENT - 1)
    share = np.diff((bounds / num_nodes) ** power) / counts  # of all edges, for one node
    degree, others = share * DEGREE * num_nodes, parts - 1
    of_own, of_others = counts / parts, counts * others / parts
    own, other = np.full(len(counts), min(1.0, batch * parts / num_nodes)), np.zeros(len(counts))
    edges, stays = 0.0, inside + (1 - inside) / parts
    met: list[tuple[int, np.ndarray, np.ndarray]] = []  # nodes by the hop that needed them first
    new_own, new_other = own, other
    for fanout in FANOUTS:
        edges += float((of_own * own + of_others * other) @ fresh_draws(degree, fanout, 0))
        met.append((0, new_own, new_other))
        drawn = [(fresh_draws(degree, fanout, before), o, t) for before, o, t in met]
        from_own = sum(of_own @ (o * d) for d, o, _ in drawn)
        from_others = sum(of_others @ (t * d) for d, _, t in drawn)
        met[-1] = fanout, new_own, new_other
        to_own = from_own * stays + from_others * (1 - inside) / parts
        to_others = from_own + from_others - to_own
        new_own = (1 - own) * -np.expm1(-to_own * share * parts)
        new_other = (1 - other) * -np.expm1(-to_others * share * parts / max(others, 1))
        own, other = own + new_own, other + new_other
    remote = of_others * other
    kept = np.clip(cache * num_nodes - np.concatenate([[0], np.cumsum(of_others)[:-1]]), 0, of_others)
    hits = float((kept * other).sum())
    return {
        "edges": float(edges),
        "inputs": float(of_own @ own + remote.sum()),
        "remote": float(remote.sum()),
        "hits": hits,
    }


def fresh_draws(degree: np.ndarray, fanout: int, before: int) -> np.ndarray:
    """Return how many edges nodes of such Poisson degrees draw on average that they did not draw before.

    A node that is in a batch already draws again in the next hop, of the same edges; ``before`` is the larger fanout
    of its first time, 0 where this is the first.
    """
    if not before:
        return sum(pdtrc(k, degree) for k in range(fanout))
    above = np.arange(before + 1, before + 150)
    inverse = (poisson.pmf(above, np.minimum(degree, 100)[:, None]) / above).sum(1)
    inverse = np.where(degree > 100, 1 / np.maximum(degree, 1), inverse)
    return fanout * (pdtrc(before, degree) - before * inverse)


def sampled_batch(g: dglite.DGLGraph, parts: int, planted: bool, count: int) -> dict[str, float]:
    """Return the same of batches that were sampled, the most needed rows of others kept by other batches."""
    num_nodes = g.num_nodes()
    ids = np.arange(num_nodes)
    draw = np.random.default_rng(parts)
    owner = ids % COMMUNITIES * parts // COMMUNITIES if planted else draw.integers(0, parts, num_nodes)
    mine, sampler = np.flatnonzero(owner == 0), NeighborSampler(FANOUTS[::-1])
    times, results = np.zeros(num_nodes, np.int64), []
    for step in range(4 * count):
        inputs, _, blocks = sampler.sample(g, torch.from_numpy(draw.choice(mine, min(BATCH, len(mine)), False)))
        far = inputs.numpy()[owner[inputs.numpy()] != 0]
        if step < 3 * count:
            times[far] += 1
            continue
        if step == 3 * count:
            kept = np.zeros(num_nodes, bool)
            kept[np.argsort(-times, kind="stable")[: int(CACHE * num_nodes)]] = True
        results.append([sum(b.num_edges() for b in blocks), len(inputs), len(far), int(kept[far].sum())])
    return dict(zip(("edges", "inputs", "remote", "hits"), np.mean(results, axis=0).tolist(), strict=True))


def check_batches(sizes: list[int], count: int) -> list[dict[str, Any]]:
    """Return a record for each size of a graph, number of parts and cut: the model beside sampled batches."""
    records = []
    for num_nodes in sizes:
        for inside in (0.0, INSIDE):
            dglite.seed(0)
            communities = {"num_communities": COMMUNITIES, "homophily": inside} if inside else {}
            g = dglite.rand_power_law_graph(num_nodes, int(DEGREE * num_nodes), EXPONENT, **communities)
            for parts in (2, 8, 64):
                model = expected_batch(num_nodes, parts, inside, CACHE)
                sampled = sampled_batch(g, parts, inside > 0, count)
                records.append(
                    {"nodes": num_nodes, "parts": parts, "inside": inside, "model": model, "sampled": sampled}
                )
    return records


# -- rates -------------------------------------------------------------------------------------------------------------
class GraphSAGE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH, *[HIDDEN] * (len(FANOUTS) - 1), CLASSES]
        self.layers = nn.ModuleList(SAGEConv(i, o, "mean") for i, o in itertools.pairwise(widths))

    def forward(self, blocks: Any, x: torch.Tensor) -> torch.Tensor:
        for layer, block in zip(self.layers, blocks, strict=True):
            x = layer(block, x).relu()
        return x


def rates_of_rank(rank: int, config: str, batches: int) -> dict[str, float]:
    """Return seconds of an edge sampled, a row gathered here, a row of another rank, a request and an edge trained on.

    ``whole`` is the seconds of a batch that is sampled, fetched and trained on, ``edges``, ``inputs`` and ``remote``
    what it has on average.
    """
    graph, model, clock = DistGraph(NAME, config), GraphSAGE(), time.perf_counter
    optimizer, x = torch.optim.Adam(model.parameters()), graph.ndata["x"]
    sampler = NeighborSampler(FANOUTS[::-1])
    nodes = graph.get_partition_book().partid2nids(rank)
    spent: dict[str, list[float]] = {key: [] for key in ("sample", "gather", "fetch", "request", "step", "whole")}
    sizes = []
    first, last = int(nodes[0]), int(nodes[-1])
    loader = DistNodeDataLoader(graph, nodes[: batches * BATCH], NeighborSampler(FANOUTS[::-1]), batch_size=BATCH)
    for step, (inputs, seeds, blocks) in enumerate(loader):
        labels = torch.zeros(len(seeds), dtype=torch.int64)
        start = clock()
        sampler.sample(graph.topology, seeds)
        sampled = clock()
        x.local[torch.randint(len(x.local), (len(inputs),))]
        gathered = clock()
        graph.barrier()
        began = clock()
        x[inputs[:0]]
        asked = clock()
        rows = x[inputs]
        fetched = clock()
        nn.functional.cross_entropy(model(blocks, rows), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        ended = clock()
        if not step:
            continue
        far = int(((inputs < first) | (inputs > last)).sum())
        sizes.append([sum(b.num_edges() for b in blocks), len(inputs), far])
        pieces = (sampled - start, gathered - sampled, fetched - asked, asked - began, ended - fetched)
        for key, seconds in zip(spent, pieces, strict=False):
            spent[key].append(seconds)
        spent["whole"].append(pieces[0] + pieces[2] + pieces[4])
    edges, inputs_mean, remote = np.mean(sizes, axis=0).tolist()
    mean = {key: float(np.median(of)) for key, of in spent.items()}
    return {
        "edge_sampled": mean["sample"] / edges,
        "row_gathered": mean["gather"] / inputs_mean,
        "row_fetched": max(0.0, mean["fetch"] - mean["request"] - mean["gather"]) / remote,
        "request": mean["request"],
        "edge_trained": mean["step"] / edges,
        "whole": mean["whole"],
        "edges": edges,
        "inputs": inputs_mean,
        "remote": remote,
    }


def measure_rates(num_nodes: int, batches: int) -> dict[str, float]:
    """Return the mean rates of two ranks, one core each."""
    dglite.seed(0)
    g = dglite.rand_power_law_graph(num_nodes, int(DEGREE * num_nodes), EXPONENT)
    g.ndata["x"] = torch.randn(num_nodes, WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        partition_graph(g, NAME, 2, folder, part_method="random")
        result = together(2, rates_of_rank, str(Path(folder, f"{NAME}.json")), batches)
    return {key: float(np.mean([of[key] for of in result])) for key in result[0]}


# -- an epoch ----------------------------------------------------------------------------------------------------------
def epoch(rates: dict[str, float], machines: int, nodes: float, cut: str, faster: float) -> dict[str, float]:
    """Return seconds and bytes of an epoch on a graph of ``nodes`` nodes, a rank on each machine.

    Computing and the network overlap, as a loader fetches ahead: the slower one counts. The sum of the model's
    gradients does not overlap.
    """
    inside, cache = CUTS[cut]
    of = expected_batch(int(nodes), machines, inside, cache)
    fetched, others = of["remote"] - of["hits"], machines - 1
    steps = TRAIN * nodes / NODES / machines / BATCH
    parameters = sum(p.numel() for p in GraphSAGE().parameters())
    row, gradients = 4 * WIDTH + 8, 2 * others / machines * 4 * parameters
    computing = of["edges"] * (rates["edge_sampled"] + rates["edge_trained"])
    computing += of["inputs"] * rates["row_gathered"] + fetched * rates["row_fetched"] + others * rates["request"]
    network = fetched * row / BYTES_A_SECOND + 3 * others * LATENCY
    summed = gradients / BYTES_A_SECOND + 2 * others * LATENCY
    return {
        "machines": machines,
        "nodes": nodes,
        "inputs": of["inputs"],
        "remote": of["remote"],
        "hits": of["hits"],
        "steps": steps,
        "computing": steps * computing / faster,
        "network": steps * (network + summed),
        "seconds": steps * (max(computing / faster, network) + summed),
        "bytes": machines * steps * (fetched * row + gradients),
        "memory": 4 * WIDTH * (nodes / machines + cache * nodes) + 4 * DEGREE * nodes + 8 * nodes,
    }


def predict(rates: dict[str, float]) -> list[dict[str, Any]]:
    """Return a record for each kind of scaling, cut, speed of machines and number of them."""
    records = []
    for cut in CUTS:
        for faster in (1, CORES):
            for machines in MACHINES:
                for scaling, nodes in (("strong", NODES), ("weak", NODES * machines / MACHINES[-1])):
                    result = epoch(rates, machines, nodes, cut, faster)
                    records.append({"scaling": scaling, "cut": cut, "faster": faster, **result})
    return records


# -- showing -----------------------------------------------------------------------------------------------------------
def check_table(records: list[dict[str, Any]]) -> str:
    """Return one row per graph, number of parts and cut: thousands of rows of a batch, sampled and by the model."""
    rows = []
    for r in records:
        cells = []
        for key in ("inputs", "remote"):
            sampled, model = r["sampled"][key], r["model"][key]
            cells += [f"{sampled / 1e3:.1f}", f"{model / 1e3:.1f}", f"{model / sampled - 1:+.1%}"]
        rate = [f"{r[of]['hits'] / r[of]['remote']:.1%}" for of in ("sampled", "model")]
        rows.append([f"{r['nodes'] // 1024}k", str(r["parts"]), f"{r['inside']:.0%}", *cells, *rate])
    header = ["nodes", "parts", "inside", "rows: sampled", "model", "off", "of others: sampled", "model", "off"]
    return table([*header, f"hits of {CACHE:.0%}: sampled", "model"], rows)


def rates_table(rates: dict[str, float]) -> str:
    """Return what was measured, one row each, and a whole batch beside the sum of its parts."""
    parts = rates["edges"] * (rates["edge_sampled"] + rates["edge_trained"]) + rates["inputs"] * rates["row_gathered"]
    parts += rates["remote"] * rates["row_fetched"] + rates["request"]
    named = (
        ("an edge sampled", "edge_sampled", 1e9, "ns"),
        ("a row gathered", "row_gathered", 1e9, "ns"),
        ("a row of another rank, beside that", "row_fetched", 1e9, "ns"),
        ("a request to one rank", "request", 1e6, "us"),
        ("an edge trained on, forward and backward", "edge_trained", 1e9, "ns"),
    )
    rows = [[what, f"{scale * rates[key]:.0f} {unit}"] for what, key, scale, unit in named]
    rows.append(["a batch", f"{1e3 * rates['whole']:.0f} ms; by these rates {1e3 * parts:.0f} ms"])
    return table(["measured, on one core", ""], rows)


def epochs_table(records: list[dict[str, Any]]) -> str:
    """Return one row per cut and number of machines, on papers100M: rows, GB, seconds and memory, all extrapolated."""
    rows = []
    strong = [r for r in records if r["scaling"] == "strong"]
    for r in (r for r in strong if r["faster"] == 1):
        (fast,) = (o for o in strong if o["faster"] == CORES and (o["cut"], o["machines"]) == (r["cut"], r["machines"]))
        rate = r["hits"] / r["remote"]
        cells = [f"{r['inputs'] / 1e3:.0f}k", f"{r['remote'] / r['inputs']:.0%}", f"{rate:.0%}"]
        cells += [f"{r['bytes'] / 1e9:,.0f}", f"{r['network']:,.1f}", f"{r['seconds']:,.0f}", f"{fast['seconds']:,.1f}"]
        rows.append([r["cut"], str(r["machines"]), *cells, f"{r['memory'] / 1e9:.1f}"])
    header = [
        "cut",
        "machines",
        "rows of a batch",
        "of others",
        "kept",
        "GB sent",
        "network, s",
        "epoch on one core, s",
    ]
    return table([*header, f"on {CORES}, s", "GB a machine"], rows)


def plot(checks: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    """Draw the rows of a batch over the size of the graph, and both scalings; measured as dots, predicted dashed."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "dglite"
    pyplot = importlib.import_module("matplotlib.pyplot")
    figure, (batches, strong, weak) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    sizes = np.geomspace(2**15, NODES, 30)
    for color, (inside, label) in enumerate(((0.0, "random cut"), (INSIDE, "cut"))):
        for key, line in (("inputs", "--"), ("remote", ":")):
            if key == "inputs" and inside:
                continue
            model = [expected_batch(int(n), 8, inside, 0)[key] for n in sizes]
            name = "all" if key == "inputs" else f"of others, {label}"
            batches.loglog(sizes, model, line, color=f"C{color + 2 * (key == 'inputs')}", label=f"{name}: model")
            chosen = [c for c in checks if c["parts"] == 8 and c["inside"] == inside]
            batches.loglog(
                [c["nodes"] for c in chosen], [c["sampled"][key] for c in chosen], "o",
                color=f"C{color + 2 * (key == 'inputs')}", label=f"{name}: sampled",
            )  # fmt: skip
    batches.axvline(NODES, color="gray", linewidth=0.8)
    batches.set(title="rows of a batch, 8 parts", xlabel="nodes of the graph (line: papers100M)", ylabel="rows")
    for axis, scaling in ((strong, "strong"), (weak, "weak")):
        for color, cut in enumerate(CUTS):
            for faster, marker in ((1, "s"), (CORES, "^")):
                of = [r for r in records if (r["scaling"], r["cut"], r["faster"]) == (scaling, cut, faster)]
                label = f"{cut}, {'one core' if faster == 1 else f'{CORES} cores'}"
                style = {"color": f"C{color}", "marker": marker, "fillstyle": "none", "label": label}
                axis.loglog([r["machines"] for r in of], [r["seconds"] for r in of], "--", **style)
        axis.set_xticks(MACHINES, [str(m) for m in MACHINES])
        axis.minorticks_off()
        title = "papers100M" if scaling == "strong" else "a 64th a machine"
        axis.set(title=f"{scaling} scaling: {title}", xlabel="machines", ylabel="seconds of an epoch, extrapolated")
    for axis in (batches, strong, weak):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "cluster.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Measure, compare, predict, save, draw."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("parts", nargs="*", choices=["rates", "batches", []], help="what to measure; both by default")
    given = options.parse_args()
    path, parts = RESULTS / "cluster.json", given.parts or ["rates", "batches"]
    results: dict[str, Any] = json.loads(path.read_text()) if path.is_file() and not given.quick else {}
    results.pop("machine", None)
    if "rates" in parts:
        results["rates"] = measure_rates(1 << 15, 3) if given.quick else measure_rates(1 << 19, 8)
        print(rates_table(results["rates"]), flush=True)
    if "batches" in parts:
        sizes = [1 << 15] if given.quick else [1 << 17, 1 << 18, 1 << 19, 1 << 20]
        results["batches"] = check_batches(sizes, 2 if given.quick else 4)
        print(f"\n{check_table(results['batches'])}")
    if "rates" in results:
        results["epochs"] = predict(results["rates"])
        print(f"\n{epochs_table(results['epochs'])}")
    if not given.quick:
        save("cluster", results)
        if "rates" in results and "batches" in results:
            plot(results["batches"], results["epochs"])


if __name__ == "__main__":
    main()
