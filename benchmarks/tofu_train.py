"""Train small models over processes as Tofu plans, beside one process, and beside DDP and FSDP2 of the same processes.

Losses have to be those of one process, and the bytes that arrive those of the plan. Memory is what PyTorch's allocator
gave out at most in a step, with what lives across steps, as its profiler counts it.
"""

from __future__ import annotations

import gc
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import tofu_models
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from common import parser, save, table
from torch import nn
from torch.profiler import ProfilerActivity, profile

import dglite
from dglite import tofu

Batch = tuple[torch.Tensor, ...]


class Language(nn.Module):
    """An LSTM of two layers over words."""

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(words, size), nn.LSTM(size, size, 2, batch_first=True)
        self.out = nn.Linear(size, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(ids))[0]).flatten(0, 1)


class GPTBlock(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, size = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (y.view(n, length, self.heads, size // self.heads).transpose(1, 2) for y in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, size)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(words, size), nn.Linear(size, words)
        self.blocks = nn.Sequential(*(GPTBlock(size, heads) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.blocks(self.words(ids))).flatten(0, 1)


class WResNet(nn.Sequential):
    """Bottlenecks in two stages."""

    def __init__(self, width: int, classes: int = 16) -> None:
        super().__init__(
            nn.Conv2d(3, width, 3, 1, 1, bias=False),
            tofu_models.Bottleneck(width, width, 4 * width, 1),
            tofu_models.Bottleneck(4 * width, 2 * width, 8 * width, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8 * width, classes),
        )


def work(name: str, quick: bool) -> tuple[nn.Module, Batch]:
    """Return a module and inputs with labels, the same in each process."""
    torch.manual_seed(0)
    size = 16 if quick else 256
    words = 32 if quick else 1024
    if name == "WResNet":
        return WResNet(8 if quick else 64), (torch.randn(8, 3, 16, 16), torch.randint(16, (8,)))
    if name == "LSTM":
        return Language(words, size), (torch.randint(words, (16, 8)), torch.randint(words, (16 * 8,)))
    if name == "GPT":
        return GPT(words, size, 4, 2), (torch.randint(words, (8, 32)), torch.randint(words, (8 * 32,)))
    nodes = 256 if quick else 8192
    src, dst = torch.randint(nodes, (2, nodes * 8))
    graph = dglite.add_self_loop(dglite.graph((src, dst), num_nodes=nodes))
    return tofu_models.GCN(graph, (size, 2 * size, 16)), (torch.randn(nodes, size), torch.randint(16, (nodes,)))


def optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)


def eager(module: nn.Module) -> Callable[..., torch.Tensor]:
    """Return an ordinary training step of a module."""
    optim = optimizer(module)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optim.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optim.step()
        return loss.detach()

    return step


def tensor_bytes() -> int:
    """Return the bytes of the tensors that are alive, each storage once."""
    gc.collect()
    results = {}
    for x in gc.get_objects():
        if type(x) in (torch.Tensor, nn.Parameter) and x.device.type == "cpu":
            results[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
    return sum(results.values())


def peak(step: Callable[..., torch.Tensor], batch: Batch) -> int:
    """Return the most bytes that are allocated during a step."""
    now = most = tensor_bytes()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(*batch)
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def timed(step: Callable[..., torch.Tensor], batch: Batch, steps: int) -> tuple[list[float], list[float]]:
    """Return the losses, and the seconds of the median step: by the clock, and of the processor in all threads."""
    losses, times = [], [(time.perf_counter(), time.process_time())]
    for _ in range(steps):
        losses.append(step(*batch).item())
        times.append((time.perf_counter(), time.process_time()))
    each = [[b - a for a, b in zip(before, after, strict=True)] for before, after in itertools.pairwise(times)]
    return losses, [statistics.median(column) for column in zip(*each, strict=True)]


def alone(name: str, quick: bool, steps: int) -> dict[str, Any]:
    """Train in one process."""
    module, batch = work(name, quick)
    step = eager(module)
    losses, seconds = timed(step, batch, steps)
    parameter_bytes = sum(p.nbytes for p in module.parameters())
    return {"losses": losses, "seconds": seconds, "peak": peak(step, batch), "parameter_bytes": parameter_bytes}


def process(rank: int, world: int, folder: str, quick: bool, names: list[str], steps: int, queue: Any) -> None:
    """Train each model over the processes: as planned, with DDP, and with FSDP2."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=world)
    for name in names:
        module, batch = work(name, quick)
        step = tofu.parallelize(module, F.cross_entropy, optimizer(module))
        losses, seconds = timed(step, batch, steps)
        assert step.plan is not None
        received = torch.tensor(step.bytes)
        dist.all_reduce(received)
        results = {
            "losses": losses,
            "seconds": seconds,
            "peak": peak(step, batch),
            "bytes": received.item(),
            "planned": step.plan.bytes,
            "steps": [s.k for s in step.plan.steps],
        }
        del step, module
        for way in ("DDP", "FSDP2"):
            results[way] = beside(way, name, quick, world, steps)
        if rank == 0:
            queue.put((name, results))
    dist.barrier()
    dist.destroy_process_group()


def beside(way: str, name: str, quick: bool, world: int, steps: int) -> list[float] | None:
    """Return the seconds of a step of DDP or FSDP2, each process with its share of the batch; None for a graph."""
    module, batch = work(name, quick)
    if name == "GCN":
        return None
    share = tuple(x.chunk(world)[dist.get_rank()] for x in batch)
    if way == "DDP":
        return timed(eager(nn.parallel.DistributedDataParallel(module)), share, steps)[1]
    mesh = torch.distributed.init_device_mesh("cpu", (world,))
    torch.distributed.fsdp.fully_shard(module, mesh=mesh)
    return timed(eager(module), share, steps)[1]


def together(world: int, quick: bool, names: list[str], steps: int) -> dict[str, Any]:
    """Return what the models take over ``world`` processes."""
    queue = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, (world, folder, quick, names, steps, queue), nprocs=world)
    return dict(queue.get() for _ in names)


def record(name: str, world: int, result: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a model over ``world`` processes and in one."""
    return {
        "model": name,
        "workers": world,
        "steps": result["steps"],
        "loss_error": max(abs(a - b) / abs(b) for a, b in zip(result["losses"], one["losses"], strict=True)),
        "bytes": result["bytes"],
        "planned": result["planned"],
        "peak": result["peak"],
        "peak_alone": one["peak"],
        "ddp_bytes": 2 * (world - 1) * one["parameter_bytes"],
        "seconds": {"one": one["seconds"], "Tofu": result["seconds"], "DDP": result["DDP"], "FSDP2": result["FSDP2"]},
    }


def steps_table(records: list[dict[str, Any]]) -> str:
    """Return the bytes, the memory and the milliseconds of a step of each model and number of processes."""
    head = ["model", "processes", "loss differs by", "MB sent", "/ planned", "/ DDP", "memory x k / one process"]
    rows = []
    for r in records:
        row = [r["model"], str(r["workers"]), f"{r['loss_error']:.0e}", f"{r['bytes'] / 1e6:.2f}"]
        row += [f"{r['bytes'] / r['planned']:.3f}", f"{r['bytes'] / r['ddp_bytes']:.2f}"]
        row += [f"{r['peak'] * r['workers'] / r['peak_alone']:.2f}"]
        times = r["seconds"].values()
        rows.append([*row, *("" if t is None else " / ".join(f"{x * 1e3:.0f}" for x in t) for t in times)])
    return table([*head, *(f"{name} ms" for name in ("one process", "Tofu", "DDP", "FSDP2"))], rows)


def check(r: dict[str, Any]) -> list[str]:
    """Return what a record falls short of."""
    results, where = [], f"{r['model']} over {r['workers']}"
    if not r["loss_error"] < 1e-4:
        results.append(f"{where}: the losses differ by {r['loss_error']:.2g}")
    if abs(r["bytes"] / r["planned"] - 1) > 0.05:
        results.append(f"{where}: {r['bytes']} bytes are sent, {r['planned']:.0f} planned")
    if r["peak"] * r["workers"] > 1.2 * r["peak_alone"]:
        results.append(f"{where}: {r['peak'] / 1e6:.1f} MB are held, {r['peak_alone'] / 1e6:.1f} MB by one process")
    ours, ddp = r["seconds"]["Tofu"][0], (r["seconds"]["DDP"] or [math.inf])[0]
    if r["bytes"] <= r["ddp_bytes"] and ours > 1.2 * ddp:
        results.append(f"{where}: a step takes {ours / ddp:.2f} times DDP's, and sends no more")
    return results


def main() -> None:
    args = parser(__doc__).parse_args()
    torch.set_num_threads(1)
    names, steps = ["WResNet", "LSTM", "GPT", "GCN"], 3 if args.quick else 20
    whole = {name: alone(name, args.quick, steps) for name in names}
    records = [
        record(name, world, result, whole[name])
        for world in (2, 4)
        for name, result in together(world, args.quick, names, steps).items()
    ]
    print(steps_table(records))
    short = [line for r in records for line in check(r)]
    print(*short, sep="\n")
    if args.quick:
        assert all(r["loss_error"] < 1e-4 for r in records)
    else:
        save("tofu_train", {"records": records, "short": short})


if __name__ == "__main__":
    main()
