"""Predicted throughput over 8 workers of Tofu and of four baselines, in the form of figures 3.8 and 3.9 of Wang's
dissertation: Ideal, SmallBatch, Swapping and Op-placement.

A simulation of the chapter's machine: 8 devices of 12 GiB, 21 GB/s between them and 10 GB/s to the host, shared by all.
Operators' times are counts, from the captured step, over speeds that are measured here and scaled so that a product of
matrices runs at ``--tflops``: arithmetic of products and of convolutions, and bytes that operators read and write.

- Ideal: every device trains the whole batch alone, with memory for all of it.
- SmallBatch: the same with the largest batch that its memory holds, none if that is below 1.
- Swapping: Ideal's batch; what does not fit goes to the host and back once per step, beside computing.
- Op-placement: layers of a network with time steps on different devices, which work at the same time where the layers
  before have their results; a batch that fits.
- Tofu: one batch over all devices, an 8th of the computing each, and the plan's communication after it.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tofu_models
import torch
from common import parser, repeated, save, table, timed
from torch.utils.flop_counter import flop_registry

from dglite.tofu import Captured, PartitionPlan, capture, plan_captured

DEVICES, MEMORY, LINK, HOST = 8, 12 * 2**30, 21e9, 10e9
STEPS = 20
"""Time steps of the LSTMs."""

BATCHES = {"WResNet": (128, 64, 32, 16, 8), "RNN": (512, 256, 128, 64, 32)}
"""Batches to try, the largest first, which Ideal and Swapping have."""

BASELINES = ("Ideal", "SmallBatch", "Swapping", "Op-placement", "Tofu")


@dataclass(frozen=True)
class Speeds:
    """Operations per second of products and convolutions, and bytes per second that operators read and write."""

    product: float
    convolution: float
    moved: float

    def seconds(self, counts: Counts) -> float:
        """Return how long a step takes on one device."""
        return counts.product / self.product + counts.convolution / self.convolution + counts.moved / self.moved


@dataclass(frozen=True)
class Counts:
    """Of a training step: operations of products and of convolutions, bytes read and written, bytes of memory."""

    product: float
    convolution: float
    moved: float
    memory: float

    def at(self, batch: float, larger: Counts, small: float) -> Counts:
        """Return the counts of another batch, of which all are linear functions; ``larger`` is of twice ``small``."""
        pairs = zip(vars(self).values(), vars(larger).values(), strict=True)
        return Counts(*(a + (b - a) * (batch / small - 1) for a, b in pairs))


def speeds(tflops: float, size: int = 1024) -> Speeds:
    """Measure this machine, and scale it to a device whose products run at ``tflops``."""
    a, x = torch.randn(size, size), torch.randn(8, 128, 28, 28)
    weight, h = torch.randn(128, 128, 3, 3), torch.randn(2**22)

    def fastest(run: Callable[[], Any]) -> float:
        return min(timed(repeated(run, 1)) for _ in range(7))

    product = 2 * size**3 / fastest(lambda: a @ a)
    convolution = 2 * x.numel() * 128 * 9 / fastest(lambda: torch.conv2d(x, weight, padding=1))
    moved = 3 * h.nbytes / fastest(lambda: h + h)
    scale = tflops * 1e12 / product
    return Speeds(product * scale, convolution * scale, moved * scale)


def count(captured: Captured) -> Counts:
    """Count a captured training step, and the memory that one device needs for it."""
    arithmetic = {"product": 0.0, "convolution": 0.0}
    moved = 0.0
    for node in captured.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or node.target.is_view:
            continue
        formula = flop_registry.get(node.target.overloadpacket)
        values = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        moved += sum(_bytes(n.meta["val"]) for n in (*node.all_input_nodes, node))
        if formula is not None:
            kind = "convolution" if "convolution" in str(node.target) else "product"
            arithmetic[kind] += formula(*values[0], **values[1], out_val=node.meta["val"])
    return Counts(**arithmetic, moved=moved, memory=plan_captured(captured, 1).memory)


def _bytes(value: Any) -> int:
    return sum(x.nbytes for x in (value if isinstance(value, list | tuple) else (value,)) if x is not None)


def simulate(family: str, make: Callable[[int], tofu_models.Work], layers: int, speed: Speeds) -> dict[str, Any]:
    """Return the samples per second of a model with Tofu and with each baseline; None where nothing fits."""
    batches = BATCHES[family]
    smallest = batches[-1]
    captured = [_captured(make, b) for b in (smallest, 2 * smallest)]
    small, larger = map(count, captured)

    def counts(batch: float) -> Counts:
        return small.at(batch, larger, smallest)

    ideal = batches[0]
    fits = (MEMORY - counts(0).memory) / max(counts(1).memory - counts(0).memory, 1)
    excess = max(counts(ideal).memory - MEMORY, 0.0)
    swapping = max(speed.seconds(counts(ideal)), 2 * excess * DEVICES / HOST)
    batch, plan = _tofu(make, batches, counts)
    throughput: dict[str, float | None] = {
        "Ideal": DEVICES * ideal / speed.seconds(counts(ideal)),
        "SmallBatch": DEVICES * min(fits, ideal) / speed.seconds(counts(min(fits, ideal))) if fits >= 1 else None,
        "Swapping": DEVICES * ideal / swapping,
        "Op-placement": _placed(layers, counts, speed, ideal) if family == "RNN" else None,
        "Tofu": None,
    }
    if plan is not None:
        seconds = speed.seconds(counts(batch)) / DEVICES + plan.bytes / DEVICES / LINK
        throughput["Tofu"] = batch / seconds
    return {
        "model": make(smallest).name,
        "weight_GiB": captured[0].weight_bytes() / 2**30,
        "throughput": throughput,
        "small_batch": math.floor(fits),
        "swapped_GiB": excess / 2**30,
        "tofu_batch": batch if plan is not None else None,
        "tofu_bytes": None if plan is None else plan.bytes,
        "tofu_memory": None if plan is None else plan.memory,
    }


def _placed(layers: int, counts: Callable[[float], Counts], speed: Speeds, ideal: int) -> float | None:
    """Return the throughput of layers on devices: of the fullest one, while the first and last wait for the others."""
    share = math.ceil(layers / DEVICES) / layers
    stages = min(layers, DEVICES)
    limit = MEMORY / share
    batch = min((limit - counts(0).memory) / max(counts(1).memory - counts(0).memory, 1), ideal)
    if batch < 1:
        return None
    return batch / (speed.seconds(counts(batch)) * share * (STEPS + stages - 1) / STEPS)


def _tofu(
    make: Callable[[int], tofu_models.Work], batches: tuple[int, ...], counts: Callable[[float], Counts]
) -> tuple[int, PartitionPlan | None]:
    """Return the largest batch whose plan fits, and the plan."""
    for batch in batches:
        if counts(batch).memory / DEVICES <= MEMORY:
            plan = plan_captured(_captured(make, batch), DEVICES)
            if plan.memory <= MEMORY:
                return batch, plan
    return 0, None


def _captured(make: Callable[[int], tofu_models.Work], batch: int) -> Captured:
    work = make(batch)
    return capture(work.module, work.loss, work.inputs, work.optimizer)


def throughput_table(records: list[dict[str, Any]]) -> str:
    """Return samples per second of Ideal, and those of all as shares of it."""
    rows = []
    for record in records:
        results = record["throughput"]
        row = [record["model"], f"{record['weight_GiB']:.1f}", f"{results['Ideal']:.0f}"]
        for name in BASELINES[1:]:
            none = "" if name == "Op-placement" and record["model"].startswith("WResNet") else "no memory"
            row.append(none if results[name] is None else f"{results[name] / results['Ideal']:.2f}")
        rows.append([*row, str(max(record["small_batch"], 0) or ""), str(record["tofu_batch"] or "")])
    head = ["model", "weights GiB", "Ideal samples/s", *BASELINES[1:], "SmallBatch's batch", "Tofu's batch"]
    return table(head, rows)


def main() -> None:
    """Simulate, print, save."""
    options = parser(__doc__.split("\n\n")[0])
    options.add_argument("--only", default="", help="models whose name has this in it")
    options.add_argument("--tflops", type=float, default=4.4, help="10^12 operations per second of a device")
    arguments = options.parse_args()
    speed = speeds(arguments.tflops)
    cases: list[tuple[str, Callable[[int], tofu_models.Work], int]] = [
        ("WResNet", lambda b, n=n, w=w: tofu_models.wresnet(n, w, b), n) for n in (50, 152) for w in (4, 6, 8, 10)
    ]
    cases += [("RNN", lambda b, n=n, h=h: tofu_models.rnn(n, h, b, STEPS), n) for n in (6, 10) for h in (4, 6, 8)]
    records = []
    for family, make, layers in [cases[0], cases[8]] if arguments.quick else cases:
        if arguments.only and arguments.only not in make(8).name:
            continue
        records.append(simulate(family, make, layers, speed))
        gc.collect()
        print(throughput_table(records[-1:]).splitlines()[-1], flush=True)
        if not arguments.quick and not arguments.only:  # after each, so that a run may be cut off
            save("tofu_throughput", {"records": records, "speeds": vars(speed), "tflops": arguments.tflops})
    print(throughput_table(records))


if __name__ == "__main__":
    main()
