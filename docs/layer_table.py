"""Write the table of docs/layers.md that says what each convolution takes, from signatures and from the tests' tables.

python docs/layer_table.py            rewrite it
python docs/layer_table.py --check    fail where it differs

A graph that a layer takes is one that ``tests/nn`` calls it with: blocks and bipartite graphs. NumPy: ``tests/backend``
trains it there.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from dglite import nn  # noqa: E402
from tests.backend import layers  # noqa: E402
from tests.nn.cases import CASES  # noqa: E402

PAGE = HERE / "layers.md"
FEATURES = {"efeat", "efeats", "edge_feat", "edge_feats", "pseudo", "distances"}
BY_TYPE = {"etype", "etypes"}
OF_NODES_ALIKE = {"block", "bipartite"}
ALSO = ("GraphConv", "SAGEConv", "GATConv", "GATv2Conv", "DotGatConv")
"""Layers that ``tests/nn/conv`` calls with blocks and bipartite graphs, in files of their own."""


def graphs() -> dict[str, set[str]]:
    """Return for each layer the kinds of graphs that the tests call it with."""
    kinds: dict[str, set[str]] = {name: set(OF_NODES_ALIKE) for name in ALSO}
    for case in CASES:
        kinds.setdefault(type(case.make()).__name__, set()).update(case.graphs)
    return kinds


def numpy_layers() -> set[str]:
    """Return the layers that are trained on NumPy."""
    return set(re.findall(r"\bnn\.(\w+)\(", inspect.getsource(layers)))


def table() -> str:
    """Return a row for each convolution."""
    kinds, on_numpy = graphs(), numpy_layers()
    lines = [
        "| layer | edge weights | edge features | edge types | block | bipartite | NumPy |",
        "|---|:-:|:-:|:-:|:-:|:-:|:-:|",
    ]
    for name in sorted(n for n in nn.__all__ if n.endswith("Conv") and not n.startswith(("Dense", "Hetero"))):
        accepted = set(inspect.signature(getattr(nn, name).forward).parameters)
        marks = (
            "edge_weight" in accepted,
            bool(accepted & FEATURES),
            bool(accepted & BY_TYPE),
            "block" in kinds.get(name, ()),
            "bipartite" in kinds.get(name, ()),
            name in on_numpy,
        )
        lines.append(f"| `{name}` | {' | '.join('yes' if mark else '' for mark in marks)} |")
    return "\n".join(lines)


def main() -> None:
    """Rewrite the table, or compare it."""
    begin, end = "<!-- begin what layers take -->", "<!-- end what layers take -->"
    page = PAGE.read_text(encoding="utf-8")
    new = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{table()}\n{end}", page, flags=re.DOTALL)
    if new != page:
        if "--check" in sys.argv:
            sys.exit("docs/layers.md differs from the layers; run python docs/layer_table.py")
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
