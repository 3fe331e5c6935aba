"""How long the search for a partition takes, and what plans communicate beside known ways to partition.

From a captured graph to a plan, in seconds of the processor; everything on the meta device. The wide ResNets and LSTMs
are those of Table 3.2 of Wang's dissertation, whose search takes 8.3 s for WResNet-152-10 and 66.6 s for RNN-10-8K.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import tofu_models
from common import RESULTS, parser, save, table

from dglite.tofu import capture, plan_captured

CERTIFIED = 8
"""Workers up to which plans are compared with a lower bound."""

Make = Callable[[], tofu_models.Work]


def cases(quick: bool) -> Iterator[tuple[Make, int, float | None]]:
    """Yield models with the number of workers, and the seconds that the search may take."""
    if quick:
        yield lambda: tofu_models.wresnet(50, 4), 8, None
        yield lambda: tofu_models.rnn(6, 4), 8, None
        yield lambda: tofu_models.transformer(2), 8, None
        yield tofu_models.gcn, 8, None
        return
    for layers, widen in tofu_models.WRESNETS:
        yield lambda n=layers, w=widen: tofu_models.wresnet(n, w), 8, 2.0
    for layers, thousands in tofu_models.RNNS:
        yield lambda n=layers, h=thousands: tofu_models.rnn(n, h), 8, 5.0
    for workers in (8, 64):
        yield lambda w=workers: tofu_models.transformer(batch=w), workers, 10.0
    yield tofu_models.gcn, 8, None


def measure(make: Make, workers: int, limit: float | None) -> dict[str, Any]:
    """Return what planning takes, what the plan communicates, and what baselines would."""
    work = make()
    captured = capture(work.module, work.loss, work.inputs, work.optimizer)
    start = time.process_time()
    plan = plan_captured(captured, workers)
    seconds = time.process_time() - start
    plans = plan.compare()
    free = plan_captured(captured, workers, memory=float("inf"))
    return {
        "model": work.name,
        "workers": workers,
        "nodes": len(captured.graph.nodes),
        "weight_GiB": captured.weight_bytes() / 2**30,
        "search_seconds": seconds,
        "limit_seconds": limit,
        "bytes": {name: p.bytes for name, p in plans.items()},
        "memory": {name: p.memory for name, p in plans.items()},
        "steps": [step.k for step in plan.steps],
        "bytes_by_step": [step.bytes for step in plan.steps],
        "replicating": {"bytes": free.bytes, "memory": free.memory},
        "certificate": plan.certificate() if workers <= CERTIFIED else "- -",
    }


def plans_table(records: list[dict[str, Any]]) -> str:
    """Return seconds, GB that a training step communicates, and each baseline's bytes relative to the plan's."""
    names = list(dict.fromkeys(name for record in records for name in record["bytes"] if name != "Tofu"))
    certified = any("certificate" in record for record in records)
    rows = []
    for record in records:
        ours = record["bytes"]["Tofu"]
        row = [
            f"{record['model']}, {record['workers']}",
            f"{record['weight_GiB']:.1f}",
            f"{record['search_seconds']:.2f}",
        ]
        row += [f"{record['memory']['Tofu'] / 1e9:.1f}", f"{ours / 1e9:.3g}"]
        row += [f"{record['bytes'][name] / ours:.2f}" if name in record["bytes"] else "" for name in names]
        row.append(f"{record['replicating']['bytes'] / ours:.2f}")
        rows.append([*row, record["certificate"].split()[1]] if certified else row)
    head = [
        "model, workers",
        "weights GiB",
        "search s",
        "GB a worker",
        "GB sent",
        *names,
        "Tofu, replicating",
        *["within"] * certified,
    ]
    return table(head, rows)


def check(record: dict[str, Any]) -> list[str]:
    """Return what a record falls short of."""
    results = []
    ours, limit = record["bytes"]["Tofu"], record["limit_seconds"]
    for name, sent in record["bytes"].items():
        within = record["memory"][name] <= 1.2 * record["memory"]["Tofu"]
        if sent < ours * (1 - 1e-9) and (within or sent < record["replicating"]["bytes"] * (1 - 1e-9)):
            results.append(f"{record['model']}: {name} sends {sent / 1e9:.3g} GB, the plan {ours / 1e9:.3g} GB")
    if limit is not None and record["search_seconds"] > limit:
        results.append(f"{record['model']}: the search took {record['search_seconds']:.1f} s, more than {limit:g} s")
    heard = [sent / (k - 1) for sent, k in zip(record["bytes_by_step"], record["steps"], strict=True)]
    if heard != sorted(heard):
        results.append(f"{record['model']}: a step sends less than the one before")
    return results


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", default="", help="models whose name has this in it")
    options.add_argument("--go-on", action="store_true", help="keep the results of a run that was ended")
    given = options.parse_args()
    records = json.loads((RESULTS / "tofu_search.json").read_text())["records"] if given.go_on else []
    done = {(record["model"], record["workers"]) for record in records}
    for make, workers, limit in cases(given.quick):
        name = make().name
        if given.only not in name or (name, workers) in done:
            continue
        records.append(measure(make, workers, limit))
        gc.collect()
        print(plans_table(records[-1:]).splitlines()[-1], flush=True)
        if not given.quick and not given.only:
            save("tofu_search", {"records": records})
    short = [line for record in records for line in check(record)]
    print("\n".join([plans_table(records), *short]))


if __name__ == "__main__":
    main()
