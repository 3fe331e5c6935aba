"""What depends on the CPU: the main ratios of today's tables beside those measured on other machines.

Nothing is measured here. ``results/zen4`` and ``results/xeon`` hold files that the same scripts wrote there.
"""

from __future__ import annotations

import json
from typing import Any

from common import OURS, RESULTS, geometric_mean, table
from libraries import DGL
from spmm import OPERATIONS, ratios

__all__ = ["cpus_table"]

CPUS = {"": "AMD EPYC, Zen 5", "zen4": "AMD EPYC, Zen 4", "xeon": "Intel Xeon, Emerald Rapids"}
"""What the machines are called whose results are in these folders."""


def cpus_table() -> str:
    """Return one row per case: how many times as long as ours DGL takes, on each CPU."""
    results = [_ratios(folder) for folder in CPUS]
    rows = [[case, *(cells.get(case, "") for cells in results)] for case in results[0]]
    return table([f"{DGL} / {OURS}", *CPUS.values()], rows)


def _ratios(folder: str) -> dict[str, str]:
    read: dict[str, Any] = {
        name: json.loads((RESULTS / folder / f"{name}.json").read_text())
        for name in ("overhead", "spmm", "models", "one_tree")
    }
    results = {r["call"]: _times(r["seconds"]) for r in read["overhead"]["records"]}
    for operation in OPERATIONS:
        for direction in ("forward", "backward"):
            own = [r for r in read["spmm"]["records"] if (r["operation"], r["direction"]) == (operation, direction)]
            cases = ratios(own, DGL).values()
            results[f"{operation}, {direction}: mean (least)"] = f"{geometric_mean(cases):.2f} ({min(cases):.2f})"
    results |= {f"step of {r['case']}": _times(r["seconds"]) for r in read["models"]["synthetic"]}
    results |= {f"epoch on Cora, {r['case']}": _times(r["seconds"]) for r in read["models"]["cora"]}
    for record in read["one_tree"]["records"]:
        ways = {name: way["trees_per_second"] for name, way in record["ways"].items()}
        for way in ("persistent, vertex program", "vertex program"):
            results[f"one tree at a time, hidden {record['hidden']}: {way}"] = f"{ways[way] / ways[DGL]:.2f}"
    return results


def _times(seconds: dict[str, float]) -> str:
    return f"{seconds[DGL] / seconds[OURS]:.2f}"
