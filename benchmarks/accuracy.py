"""Test accuracies on Cora by mini-batches and on the whole graph, of the same models, as examples/minibatch_sage.py.

    python benchmarks/accuracy.py                 GraphSAGE and GAT, three seeds; some minutes
    python benchmarks/accuracy.py --quick         an epoch of one seed; results are not kept

Papers are downloaded unless DGLITE_DATA_DIR names a folder that has the files. It may run beside other work.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from typing import Any

from common import ROOT, parser, save, table

MODELS = {"sage": "GraphSAGE", "gat": "GAT"}
WAYS = {"mini": "by mini-batches", "whole": "on the whole graph"}
SEED = re.compile(rf"seed \d+: test accuracy ({'|'.join(WAYS.values())}) ([\d.]+)")


def accuracies(model: str, seeds: int, options: list[str]) -> dict[str, list[float]]:
    """Return the test accuracy of each seed, both ways."""
    example = [sys.executable, str(ROOT / "examples" / "minibatch_sage.py"), "--model", model, "--seeds", f"{seeds}"]
    done = subprocess.run([*example, "--within", "1", *options], stdout=subprocess.PIPE, text=True, check=True)
    result = SEED.findall(done.stdout)
    return {way: [float(x) for words, x in result if words == message] for way, message in WAYS.items()}


def accuracies_table(records: list[dict[str, Any]]) -> str:
    """Return one row per model: the means, and by how many points mini-batches are better."""
    rows = []
    for record in records:
        mini, whole = (statistics.mean(record[way]) for way in WAYS)
        each = " ".join(f"{x:.3f}" for x in record["mini"]), " ".join(f"{x:.3f}" for x in record["whole"])
        points = f"{100 * (mini - whole):+.1f}"
        rows.append([MODELS[record["model"]], f"{mini:.3f}", f"{whole:.3f}", points, *each])
    header = ["mean test accuracy", *WAYS.values(), "points", "of each seed, by mini-batches", "on the whole graph"]
    return table(header, rows)


def main() -> None:
    """Train, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    seeds, more = (1, ["--epochs", "1"]) if given.quick else (given.seeds, [])
    records = [{"model": model, **accuracies(model, seeds, more)} for model in MODELS]
    print(accuracies_table(records))
    if not given.quick:
        save("accuracy", {"records": records})


if __name__ == "__main__":
    main()
