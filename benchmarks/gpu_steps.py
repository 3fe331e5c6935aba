"""Training steps and mini-batches on a GPU: dglite beside PyTorch Geometric.

    python benchmarks/gpu_steps.py [--quick] [--edges 859000,1e7]


Steps are forward, backward and optimizer of the networks of ``benchmarks/models.py``: the mean of ten in a row, as in
training, and the most memory that a step allocates on the GPU. Mini-batches are GraphSAGE's of
``benchmarks/minibatch.py``: graph and features on the host, sampled there by some worker threads and copied, or both on
the GPU. Needs torch with CUDA. PyG takes part where it is installed, in mini-batches if it has pyg-lib or
torch-sparse. Results are written after each row.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from common import OURS, gpu_arguments, load_pyg, repeated, save, table
from gpu import seconds
from libraries import SAGE, library
from minibatch import no_pyg, run_batches
from minibatch_tasks import FANOUTS, NUM_CLASSES, PREFETCHED, WIDTH, Data, Peer, Sizes, Task, pyg_sage, sage
from models import PYG, SYNTHETIC, Case, Contender, synthetic_task
from models import Task as Training

import dglite
import dglite.dataloading

STEPS = 10
WORKERS = (0, 2, 8)
Record = dict[str, Any]


# -- steps on the whole graph ------------------------------------------------------------------------------------------
def step_record(case: Case, num_edges: int, device: str) -> Record:
    """Return milliseconds and peak memory of a training step, for each library."""
    sizes = [case.hidden * case.heads, case.hidden, case.hidden]
    on_host = synthetic_task(num_edges // 26, num_edges, sizes[0], case.hidden)
    task = Training(*(x.to(device) if isinstance(x, torch.Tensor) else x for x in on_host))
    record: Record = {"network": case.name, "edges": num_edges, "milliseconds": {}, "megabytes": {}}
    for name in (OURS, PYG):
        if library(name) is None:
            continue
        step = Contender(name, case, sizes, task, 0.0, seed=0).step
        taken = seconds(repeated(step, STEPS), most=10, budget=1.0) / STEPS
        record["milliseconds"][name] = None if math.isinf(taken) else 1e3 * taken
        record["megabytes"][name] = peak_memory(step) if device == "cuda" and math.isfinite(taken) else None
        del step
        clear(device)
    return record


def peak_memory(step: Callable[[], Any]) -> float:
    """Return how many MB a step needs at most, beside what is there before it."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def clear(device: str) -> None:
    """Let go of memory that nothing uses."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def steps_table(records: list[Record]) -> str:
    """Return one row per network and graph."""
    rows = []
    for record in records:
        times, memory = record["milliseconds"], record["megabytes"]
        ours, peer = times[OURS], times.get(PYG)
        rows.append(
            [record["network"], f"{record['edges']:.0e}", number(ours, 3), number(peer, 3)]
            + [f"{peer / ours:.2f}" if peer and ours else "-", number(memory[OURS], 0), number(memory.get(PYG), 0)]
        )
    return table(["training step", "edges", f"{OURS} ms", "PyG ms", "ratio", f"{OURS} MB", "PyG MB"], rows)


def number(value: float | None, digits: int) -> str:
    """Return a number as text; a dash if there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


# -- mini-batches ------------------------------------------------------------------------------------------------------
def sage_on(device: str, data: Data, graph_on: str, workers: int) -> Task:
    """Return GraphSAGE on batches whose graph and features are on the host or on the GPU."""
    peer = Peer(OURS, dglite, dglite.dataloading, dglite.nn, data)
    g, seeds = peer.graph("csc").to(graph_on), data.seeds.to(graph_on)
    model = sage(peer, [WIDTH, WIDTH, WIDTH, NUM_CLASSES]).to(device)
    sampler = dglite.dataloading.NeighborSampler(FANOUTS, **PREFETCHED)
    options = {"batch_size": data.sizes.batch_size, "shuffle": True, "drop_last": True, "num_workers": workers}

    def read(batch: Any) -> tuple[Any, Any]:
        return batch[2][0].srcdata["x"], batch[2][-1].dstdata["y"]

    def loss(batch: Any) -> torch.Tensor:
        x, y = read(batch)
        return F.cross_entropy(model(batch[2], x), y)

    return Task(lambda _: dglite.dataloading.DataLoader(g, seeds, sampler, device, **options), read, loss, model)


def geometric_on(device: str, data: Data) -> Task:
    """Return the same by PyG, which samples on the host."""
    task = pyg_sage(load_pyg(), data)
    batches, loss = task.loader, task.loss
    return Task(
        batches, lambda batch: task.read(batch.to(device)), lambda batch: loss(batch.to(device)), task.model.to(device)
    )


def batch_record(name: str, task: Task, batches: int, device: str) -> Record:
    """Return milliseconds for each batch, loaded only and trained on."""
    record: Record = {"batches of": name}
    for part, use in (("loader", task.read), ("steps", task.step)):
        run_batches(task, 0, use, min(batches, 5))

        def all_batches(use: Callable[[Any], Any] = use) -> None:
            run_batches(task, 0, use, batches)

        record[part] = 1e3 * seconds(all_batches, least=3, most=5, budget=3.0) / (batches + 1)
    clear(device)
    return record


def batches_table(records: list[Record]) -> str:
    """Return one row per place of the graph and number of workers."""
    rows = [[r["batches of"], f"{r['loader']:.2f}", f"{r['steps']:.2f}"] for r in records]
    return table(["GraphSAGE, 1,024 seeds, fan-outs 15, 10, 5", "loader, ms", "training, ms"], rows)


# -- all ---------------------------------------------------------------------------------------------------------------
def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description="training steps and mini-batches on a GPU")
    options.add_argument("--edges", default="859000,1e7", help="numbers of edges of the graphs that steps run on")
    given = gpu_arguments(options)
    results: dict[str, list[Record]] = {"steps": [], "batches": []}

    def add(kind: str, record: Record, shown: Callable[[list[Record]], str]) -> None:
        results[kind].append(record)
        print(shown([record]).splitlines()[-1], flush=True)
        if not given.quick:
            save("gpu_steps", results)

    sizes = Sizes(20_000, 400_000, 256, 5, 0.0) if given.quick else Sizes(1_000_000, 20_000_000, 1024, 40, 0.0)
    data = Data(sizes)
    places = [("host", workers) for workers in WORKERS] + ([("GPU", 0)] if given.device == "cuda" else [])
    for place, workers in places:
        task = sage_on(given.device, data, "cpu" if place == "host" else given.device, workers)
        name = f"{OURS}, graph on the {place}, {workers} workers"
        add("batches", batch_record(name, task, sizes.batches, given.device), batches_table)
    if not no_pyg():
        add("batches", batch_record(PYG, geometric_on(given.device, data), sizes.batches, given.device), batches_table)
    for num_edges in [20_000] if given.quick else [int(float(size)) for size in given.edges.split(",")]:
        for case in (*SYNTHETIC, Case(SAGE, 256)):
            add("steps", step_record(case, num_edges, given.device), steps_table)
    print(f"\n{batches_table(results['batches'])}\n\n{steps_table(results['steps'])}")


if __name__ == "__main__":
    main()
