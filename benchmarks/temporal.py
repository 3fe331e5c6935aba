"""Link prediction on a stream of events: TGN and GraphMixer against PyTorch Geometric and TGM, in one process.

    python benchmarks/temporal.py             --tgm FOLDER has the package tgm
    python benchmarks/temporal.py --resume    goes on after the runs that an interrupted call has left
    python benchmarks/temporal.py --quick     a short stream; results are not kept

A stream of clicks of 2,000 users on 1,000 items, with 172 features, as many as Wikipedia's edits have. Batches of 200
events in the order of time; each event beside one other item, the same for all libraries. Sizes are those of TGM's
examples: memory, times and embeddings of 100, ten neighbours (twenty for GraphMixer), Adam, dropout 0.1. Seconds are of
the last epoch of training on the first 70% of the stream; the metric is the average precision on the rest, in one pass,
in which memories go on. A peer's model is what it ships. PyG and TGM have TGN's attention in one layer, to which the
node's own features are added: so has dglite's here, by ``merge="sum"``. Half of GraphMixer's time are dense
products and a quarter dropout, in both libraries: 1.3 s of one core for a step, so that its stream is shorter.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import OURS, RESULTS, load_pyg, measured, parser, save, table
from torch import Tensor, nn

import dglite
from dglite import metrics
from dglite.dataloading import DataLoader, NeighborSampler, as_edge_prediction_sampler
from dglite.nn import GraphMixer, TGATConv, TGNMemory
from dglite.sampling import latest_neighbors

USERS, ITEMS, FEATURES, BATCH, SIZE = 2000, 1000, 172, 200, 100
SEEDS, QUICK = 3, 2000
PYG, TGM = "PyG", "TGM"
Scores = tuple[Tensor, Tensor]


class Stream(NamedTuple):
    """Events in the order of time, and another item for each."""

    src: Tensor
    dst: Tensor
    other: Tensor
    t: Tensor
    feat: Tensor


def stream(num_events: int) -> Stream:
    """Return clicks on items, mostly of a topic that a user changes now and then; features tell of the topic."""
    random, topics = np.random.default_rng(0), 20
    user, topic_of = random.integers(USERS, size=num_events), random.integers(topics, size=USERS)
    changes, clicked = random.random(num_events) < 0.03, np.empty(num_events, np.int64)
    for i, u in enumerate(user):
        if changes[i]:
            topic_of[u] = random.integers(topics)
        clicked[i] = topic_of[u]
    topic = np.where(random.random(num_events) < 0.9, clicked, random.integers(topics, size=num_events))
    item = USERS + topics * random.integers(ITEMS // topics, size=num_events) + topic
    feat = random.standard_normal((topics, FEATURES))[topic] + 3 * random.standard_normal((num_events, FEATURES))
    times = np.cumsum(random.integers(1, 20, size=num_events))
    arrays = user, item, random.integers(USERS, USERS + ITEMS, size=num_events), times
    return Stream(*map(torch.from_numpy, arrays), torch.from_numpy(feat.astype(np.float32)))


class Model:
    """A model and how it goes through a part of the stream; ``batches`` yields scores of events and of other items."""

    def __init__(self, modules: list[nn.Module], batches: Callable[[range], Iterator[Scores]], reset: Callable) -> None:
        self.modules, self.batches, self.reset = nn.ModuleList(modules), batches, reset
        self.optimizer = torch.optim.Adam(self.modules.parameters(), lr=1e-3)

    def train(self, events: range) -> None:
        """Train on a part of the stream, from an empty memory."""
        self.modules.train()
        self.reset()
        for positive, negative in self.batches(events):
            loss = nn.functional.softplus(-positive).mean() + nn.functional.softplus(negative).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def precision(self, events: range) -> float:
        """Return the mean average precision of batches; memories go on from the training."""
        self.modules.eval()
        return statistics.fmean(metrics.average_precision(*scores) for scores in self.batches(events))


class Decoder(nn.Module):
    """Scores of pairs of embeddings."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * size, size), nn.ReLU(), nn.Linear(size, 1))

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return the scores (n,)."""
        return self.layers(torch.cat([src, dst], 1))[:, 0]


# -- dglite ------------------------------------------------------------------------------------------------------------
def graph_of(data: Stream) -> dglite.DGLGraph:
    """Return the events as edges in both directions, those back after all others."""
    g = dglite.graph((data.src, data.dst), num_nodes=USERS + ITEMS)
    g.edata["t"], g.edata["feat"], g.edata["other"] = data.t, data.feat, data.other
    return dglite.add_reverse_edges(g, copy_edata=True, exclude_self=False)


def our_tgn(data: Stream) -> Model:
    """Return TGN with one layer of attention over the ten latest events."""
    g, count = graph_of(data), len(data.src)
    memory, decoder = TGNMemory(USERS + ITEMS, FEATURES, SIZE, SIZE), Decoder(SIZE)
    attention = TGATConv(SIZE, FEATURES, SIZE, SIZE, attn_drop=0.1, merge="sum")

    def others(_: Any, edges: Tensor) -> Scores:
        return data.src[edges], data.other[edges]

    past = NeighborSampler([10], time="t", edge_time="t", temporal_strategy="last", prefetch_edge_feats=["t", "feat"])
    back = torch.arange(2 * count).roll(count)
    sampler = as_edge_prediction_sampler(past, "reverse_id", back, negative_sampler=others)

    def batches(events: range) -> Iterator[Scores]:
        ids = torch.arange(events.start, events.stop)
        for nodes, positive, negative, (block,) in DataLoader(g, ids, sampler, batch_size=BATCH):
            age = block.dstdata["_TIME"][block.edges()[1]] - block.edata["t"]
            h = attention(block, memory(nodes)[0], age, block.edata["feat"])
            ends = (positive.edges(), negative.edges())
            yield decoder(h[ends[0][0]], h[ends[0][1]]), decoder(h[ends[1][0]], h[ends[1][1]])
            batch = positive.edata[dglite.EID]
            memory.update_state(data.src[batch], data.dst[batch], data.t[batch], data.feat[batch])

    return Model([memory, attention, decoder], batches, memory.reset_state)


def our_mixer(data: Stream) -> Model:
    """Return GraphMixer over the twenty latest events, without features of nodes."""
    g, k = graph_of(data), 20
    mixer, decoder = GraphMixer(0, FEATURES, SIZE, FEATURES, SIZE, k), Decoder(SIZE)

    def batches(events: range) -> Iterator[Scores]:
        for start in range(events.start, events.stop, BATCH):
            batch = slice(start, min(start + BATCH, events.stop))
            nodes, times = torch.cat([data.src[batch], data.dst[batch], data.other[batch]]), data.t[batch].repeat(3)
            latest = latest_neighbors(g, nodes, times, k)
            h = mixer(latest.edges, times[:, None] - latest.times, g.edata["feat"][latest.edges])
            src, dst, other = h.chunk(3)
            yield decoder(src, dst), decoder(src, other)

    return Model([mixer, decoder], batches, lambda: None)


# -- peers -------------------------------------------------------------------------------------------------------------
def pyg_tgn(data: Stream) -> Model | None:
    """Return TGN of PyG's layers and loader of neighbours, or None where it is not installed."""
    if load_pyg() is None:
        return None
    from torch_geometric.nn import TGNMemory as Memory
    from torch_geometric.nn import TransformerConv
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

    memory = Memory(USERS + ITEMS, FEATURES, SIZE, SIZE, IdentityMessage(FEATURES, SIZE, SIZE), LastAggregator())
    attention = TransformerConv(SIZE, SIZE // 2, heads=2, dropout=0.1, edge_dim=FEATURES + SIZE)
    decoder, past = Decoder(SIZE), LastNeighborLoader(USERS + ITEMS, size=10)
    place = torch.empty(USERS + ITEMS, dtype=torch.int64)

    def reset() -> None:
        memory.reset_state()
        past.reset_state()

    def batches(events: range) -> Iterator[Scores]:
        for start in range(events.start, events.stop, BATCH):
            batch = slice(start, min(start + BATCH, events.stop))
            ends = data.src[batch], data.dst[batch], data.other[batch]
            nodes, edge_index, edges = past(torch.cat(ends).unique())
            place[nodes] = torch.arange(len(nodes))
            states, last = memory(nodes)
            encoded = memory.time_enc((last[edge_index[0]] - data.t[edges]).to(states.dtype))
            h = attention(states, edge_index, torch.cat([encoded, data.feat[edges]], 1))
            src, dst, other = (h[place[x]] for x in ends)
            yield decoder(src, dst), decoder(src, other)
            memory.update_state(data.src[batch], data.dst[batch], data.t[batch], data.feat[batch])
            past.insert(data.src[batch], data.dst[batch])
            memory.detach()

    return Model([memory, attention, decoder], batches, reset)


def tgm_batches(data: Stream, k: int) -> tuple[Callable[[range], Iterator[Any]], Callable[[], None]]:
    """Return TGM's batches of a part of the stream, with the k latest neighbours, and what empties its memory."""
    from tgm import DGraph
    from tgm.data import DGData, DGDataLoader
    from tgm.hooks import DeduplicationHook, HookManager, RecencyNeighborHook, StatelessHook

    class Others(StatelessHook):
        """Adds the other items, and their times."""

        requires, produces = {"edge_src", "edge_dst", "edge_time"}, {"neg", "neg_time"}

        def __call__(self, _: Any, batch: Any) -> Any:
            start = int(torch.searchsorted(data.t, batch.edge_time[0]))
            batch.neg = data.other[start : start + len(batch.edge_src)].to(torch.int32)
            batch.neg_time = batch.edge_time
            return batch

    keys = ["edge_src", "edge_dst", "neg"], ["edge_time", "edge_time", "neg_time"]
    neighbours = RecencyNeighborHook(USERS + ITEMS, [k], *keys)
    hooks = HookManager(keys=["all"])
    for hook in (Others(), neighbours, DeduplicationHook()):
        hooks.register("all", hook)

    def batches(events: range) -> Iterator[Any]:
        part = slice(events.start, events.stop)
        edges = torch.stack([data.src[part], data.dst[part]], 1).to(torch.int32)
        graph = DGraph(DGData.from_raw(data.t[part], edges, edge_x=data.feat[part]))
        with hooks.activate("all"):
            yield from DGDataLoader(graph, BATCH, hook_manager=hooks)

    return batches, lambda: hooks.reset_state("all")


def tgm_tgn(data: Stream) -> Model | None:
    """Return TGN of TGM's layers, or None where the package is not at hand."""
    if not _has_tgm():
        return None
    from tgm.nn import TGNMemory as Memory
    from tgm.nn.encoder.tgn import GraphAttentionEmbedding, IdentityMessage, LastAggregator

    memory = Memory(USERS + ITEMS, FEATURES, SIZE, SIZE, IdentityMessage(FEATURES, SIZE, SIZE), LastAggregator())
    attention, decoder = GraphAttentionEmbedding(SIZE, SIZE, FEATURES, memory.time_enc), Decoder(SIZE)
    parts, forget = tgm_batches(data, 10)

    def reset() -> None:
        memory.reset_state()
        forget()

    def batches(events: range) -> Iterator[Scores]:
        for batch in parts(events):
            neighbours = batch.nbr_nids[0].flatten()
            there, local = neighbours != -1, batch.global_to_local
            ends = batch.edge_src, batch.edge_dst, batch.neg
            seeds = torch.cat([x.repeat_interleave(10) for x in ends])
            edge_index = torch.stack([local(seeds[there]), local(neighbours[there])]).long()
            times, feat = batch.nbr_edge_time[0].flatten()[there], batch.nbr_edge_x[0].flatten(0, -2)[there]
            states, last = memory(batch.unique_nids)
            h = attention(states, last, edge_index, times, feat)
            src, dst, other = (h[local(x)] for x in ends)
            yield decoder(src, dst), decoder(src, other)
            memory.update_state(batch.edge_src, batch.edge_dst, batch.edge_time, batch.edge_x)
            memory.detach()

    return Model([memory, attention, decoder], batches, reset)


def tgm_mixer(data: Stream) -> Model | None:
    """Return GraphMixer of TGM's parts, put together as its example does, or None where the package is not at hand."""
    if not _has_tgm():
        return None
    from tgm.nn.modules import MLPMixer, Time2Vec

    times = Time2Vec(time_dim=SIZE).requires_grad_(False)
    first, last = nn.Linear(FEATURES + SIZE, FEATURES), nn.Linear(FEATURES, SIZE)
    mixers = nn.Sequential(*(MLPMixer(20, FEATURES, dropout=0.1) for _ in range(2)))
    (parts, forget), decoder = tgm_batches(data, 20), Decoder(SIZE)

    def batches(events: range) -> Iterator[Scores]:
        for batch in parts(events):
            age = batch.seed_times[0][:, None] - batch.nbr_edge_time[0]
            mixed = mixers(first(torch.cat([batch.nbr_edge_x[0], times(age)], -1)))
            there = (batch.nbr_nids[0] != -1)[..., None]
            src, dst, other = last((mixed * there).sum(1) / there.sum(1).clamp(min=1)).chunk(3)
            yield decoder(src, dst), decoder(src, other)

    return Model([times, first, last, mixers, decoder], batches, forget)


def _has_tgm() -> bool:
    try:
        import tgm  # noqa: F401
    except ImportError as error:
        print(f"TGM is left out: {error}", file=sys.stderr)
        return False
    return True


class Task(NamedTuple):
    """A model: how many events its stream has, epochs of training, and how each library makes it."""

    events: int
    epochs: int
    makers: dict[str, Callable[[Stream], Model | None]]


TASKS = {
    "TGN": Task(20_000, 2, {OURS: our_tgn, PYG: pyg_tgn, TGM: tgm_tgn}),
    "GraphMixer": Task(5_000, 2, {OURS: our_mixer, TGM: tgm_mixer}),
}


def run(make: Callable[[Stream], Model | None], data: Stream, epochs: int, seed: int) -> tuple[float, float] | None:
    """Return the seconds of the last epoch and the precision after it, or None where the library is missing."""
    count = len(data.src)
    train, test = range(count * 7 // 10), range(count * 7 // 10, count)
    torch.manual_seed(seed)
    model = make(data)
    if model is None:
        return None
    model.train(range(2 * BATCH))  # compiles, and fills caches
    for _ in range(epochs):
        start = time.perf_counter()
        model.train(train)
        seconds = time.perf_counter() - start
    return seconds, model.precision(test)


def measure(tasks: dict[str, Task], seeds: int, part: Path | None) -> dict[str, dict[str, list[list[float]]]]:
    """Return for each model and library seconds and precision of each seed; libraries take turns.

    What is there is written to the file ``part`` after each run, from which a later call goes on.
    """
    results = json.loads(part.read_text()) if part is not None and part.is_file() else {}
    for name, task in tasks.items():
        data = stream(task.events)
        for seed in range(seeds):
            for library, make in task.makers.items():
                runs = results.setdefault(name, {}).setdefault(library, [])
                if len(runs) > seed:
                    continue
                values = run(make, data, task.epochs, seed)
                if values is None:
                    continue
                runs.append(list(values))
                print(f"{name} {library} {seed}: {values[0]:.2f} s, {values[1]:.3f}", file=sys.stderr, flush=True)
                if part is not None:
                    part.write_text(json.dumps(results))
    return {name: {library: runs for library, runs in of.items() if runs} for name, of in results.items()}


def temporal_table(results: dict[str, dict[str, list[list[float]]]]) -> str:
    """Return the table of all models."""
    rows = []
    for name, libraries in results.items():
        ours = statistics.median(seconds for seconds, _ in libraries[OURS])
        for library, runs in libraries.items():
            seconds, precisions = statistics.median(run[0] for run in runs), [run[1] for run in runs]
            spread = f"{statistics.fmean(precisions):.3f} ({min(precisions):.3f} to {max(precisions):.3f})"
            rows.append([name, library, f"{seconds:.2f}", f"{seconds / ours:.2f}", spread])
    return table(["", "library", "epoch, s", "of dglite's", "average precision"], rows)


def main() -> None:
    """Print a table, and keep the results."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--seeds", type=int, default=SEEDS, help="runs of each; default: %(default)s")
    options.add_argument("--tgm", metavar="FOLDER", help="folder that has the package tgm")
    options.add_argument("--resume", action="store_true", help="keep the runs of an interrupted call")
    arguments = options.parse_args()
    if arguments.tgm:
        sys.path.append(str(Path(arguments.tgm)))
    if arguments.quick:
        short = {name: task._replace(events=QUICK, epochs=1) for name, task in TASKS.items()}
        print(temporal_table(measure(short, 1, None)))
        return
    part = RESULTS / "temporal.part"
    if not arguments.resume:
        part.unlink(missing_ok=True)
    results = measure(TASKS, arguments.seeds, part)
    print(temporal_table(results))
    sizes = {name: {"events": task.events, "epochs": task.epochs} for name, task in TASKS.items()}
    save("temporal", {**measured(), "sizes": sizes, "tasks": results})
    part.unlink()


if __name__ == "__main__":
    main()
