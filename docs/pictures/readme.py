"""Draw README.md's picture, for light and for dark pages: a graph, its prediction, and a measured bar beside it.

python docs/pictures/readme.py
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

import dglite
from dglite.data import KarateClubDataset
from dglite.nn import GraphConv

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "benchmarks" / "results" / "models.json"
CASE = "GAT, 8 heads x 8"
INK = {"light": "#24292f", "dark": "#e6edf3"}
BARS = {"dglite": "#d64550", "DGL 2.1": "#808890", "PyG": "#808890"}


def predicted_sides() -> tuple[dglite.DGLGraph, torch.Tensor, torch.Tensor]:
    """Return the karate club, the sides that a network predicts from those of two members, and the right ones."""
    torch.manual_seed(0)
    g = dglite.add_self_loop(KarateClubDataset()[0])
    labels, leaders = g.ndata["label"], torch.tensor([0, 33])
    first, second = GraphConv(34, 16, activation=F.relu), GraphConv(16, 2)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(100):
        logits = second(g, first(g, torch.eye(34)))
        loss = F.cross_entropy(logits[leaders], labels[leaders])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return dglite.remove_self_loop(g), logits.argmax(1), labels


def draw(ink: str, path: Path) -> None:
    """Write the picture with letters of one colour."""
    seconds = next(r["seconds"] for r in json.loads(MODELS.read_text())["synthetic"] if r["case"] == CASE)
    club, sides, labels = predicted_sides()
    names = "text.color axes.labelcolor axes.titlecolor axes.edgecolor xtick.color ytick.color".split()
    with mpl.rc_context(dict.fromkeys(names, ink) | {"font.size": 10, "svg.hashsalt": "readme"}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        dglite.plot(club, color=sides, highlight=sides != labels, labels=True, legend=False, ax=left)
        correct = int((sides == labels).sum())
        left.set_title(f"two labels known, {correct} of {len(labels)} members predicted right", fontsize=10)
        times = [1000 * seconds[name] for name in BARS]
        bars = right.barh(list(BARS), times, color=list(BARS.values()), height=0.55)
        right.bar_label(bars, [f"{t:.0f} ms" for t in times], padding=4)
        right.invert_yaxis()
        right.spines[["top", "right", "bottom"]].set_visible(False)
        right.set_xticks([])
        right.set_xlim(0, 1.15 * max(times))
        right.set_title("training step of a GAT on 859,000 edges, two cores", fontsize=10)
        figure.savefig(path, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    for theme, ink in INK.items():
        draw(ink, HERE / f"readme_{theme}.svg")
