"""One tree at a time: a Tree-LSTM in training without batches, in turns of 128 steps.

python benchmarks/one_tree.py            two minutes
python benchmarks/one_tree.py --quick    small sizes

``dynamic.py`` has the same ways take turns of sixteen steps. Such a turn starts with other code and other data in the
caches, where a step takes a millisecond; in training there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common import parser, save, table
from dynamic import DGL, DYNET, VERTEX, check, measure, rate_of
from tree_models import TreeLSTM, load_trees

WAYS = ("persistent, vertex program", VERTEX, "persistent", "lazy, cells, agenda", DGL, DYNET)
TURN = 128


def one_tree_table(records: Sequence[dict[str, Any]]) -> str:
    """Return one row for each size of state and way."""
    (rate, key), rows = rate_of(records), []
    for r in records:
        speeds = {name: way["trees_per_second"] for name, way in r["ways"].items()}
        for name, speed in speeds.items():
            ratios = [f"{speed / speeds[peer]:.1f}" if peer in speeds else "-" for peer in (DGL, DYNET)]
            share = speed * r["flops_per_tree"] / r[key]
            rows.append([f"{r['hidden']}, {name}", f"{speed:,.0f}", *ratios, f"{share:.0%}"])
    return table(["hidden, way", "trees/s", f"x {DGL}", "x DyNet", f"of {rate}"], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    trees, words, source = load_trees(64)
    check(TreeLSTM(words, 16), trees[:3])
    records = []
    for hidden in (32,) if quick else (128, 256):
        turn = 8 if quick else TURN
        result = measure(WAYS, TreeLSTM(words, hidden), trees, 1, turn=turn, slow_from=60.0)
        records.append({"hidden": hidden, **result})
    print(one_tree_table(records))
    if not quick:
        save("one_tree", {"data": source, "records": records})


if __name__ == "__main__":
    main()
