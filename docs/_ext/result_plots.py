"""The directive ``result-plot``: a plot of measured times, drawn from benchmarks/results when the site is built."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from docutils import nodes
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
OURS, INK = "dglite", "#808890"
COLOURS = {
    "DGL 2.1": "#2f7ed8",
    "PyG": "#e07b39",
    "torch.sparse": "#3aa76d",
    "SciPy": "#a55fc9",
    "DyNet, one thread": "#3aa76d",
}
"""Each readable on white and on black, as the lines and letters are."""
Ratios = dict[str, dict[str, float]]
"""Of each row, the time of each peer as a multiple of ours."""


def _records(name: str, key: str = "records") -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())[key]  # type: ignore[no-any-return]


def _ratios(seconds: dict[str, float]) -> dict[str, float]:
    return {peer: value / seconds[OURS] for peer, value in seconds.items() if peer in COLOURS}


def operations() -> Ratios:
    """g-SpMM and its kin: geometric means over graphs and widths."""
    by_row: dict[str, dict[str, list[float]]] = {}
    for record in _records("spmm"):
        row = by_row.setdefault(f"{record['operation']}, {record['direction']}", {})
        for peer, ratio in _ratios(record["seconds"]).items():
            row.setdefault(peer, []).append(ratio)
    return {
        row: {peer: statistics.geometric_mean(all_of) for peer, all_of in by_peer.items()}
        for row, by_peer in by_row.items()
    }


def models() -> Ratios:
    """Training steps of whole networks."""
    return {record["case"]: _ratios(record["seconds"]) for record in _records("models", "synthetic")}


def layers() -> Ratios:
    """Training steps of layers, those first that lead least."""
    ratios = {record["layer"]: _ratios(record["seconds"]) for record in _records("layers")}
    return dict(sorted(ratios.items(), key=lambda item: min(item[1].values(), default=math.inf)))


def loaders() -> Ratios:
    """Mini-batches without workers: the loader alone, and whole steps."""
    alone = [record for record in _records("minibatch") if record["workers"] == 0]
    return {f"{record['case']}, {record['part']}": _ratios(record["seconds"]) for record in alone}


def draw_ratios(rows: Ratios, axes: Axes) -> None:
    """Draw a dot for each peer on a line for each row."""
    for place, row in enumerate(rows.values()):
        axes.axhline(place, color=INK, linewidth=0.4, alpha=0.5)
        for peer, ratio in row.items():
            axes.plot(ratio, place, "o", color=COLOURS[peer], markersize=6)
    axes.axvline(1, color=INK, linewidth=1.2)
    axes.set_xscale("log")
    ticks = [
        tick
        for tick in (0.5, 1, 2, 3, 5, 10, 20, 50, 100)
        if tick <= max(max(r.values(), default=1) for r in rows.values())
    ]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.set_xlabel("time of the peer as a multiple of dglite's")
    peers = [peer for peer in COLOURS if any(peer in row for row in rows.values())]
    handles = [mpl.lines.Line2D([], [], marker="o", linestyle="", color=COLOURS[peer], label=peer) for peer in peers]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(peers), frameon=False)


def draw_trees(axes: Axes) -> None:
    """Draw trees per second of Tree-LSTMs over the size of the batch."""
    ways = {
        "vertex program": ("#d64550", "dglite, vertex program"),
        "lazy, cells, agenda": ("#e0a030", "dglite, lazy"),
        "DGL 2.1": (COLOURS["DGL 2.1"], "DGL 2.1"),
        "DyNet, one thread": (COLOURS["DyNet, one thread"], "DyNet, one thread"),
    }
    records = [record for record in _records("dynamic", "tree_lstm") if record["hidden"] == 256]
    for way, (colour, label) in ways.items():
        points = [(r["batch"], r["ways"][way]["trees_per_second"]) for r in records if way in r["ways"]]
        axes.plot(*zip(*sorted(points), strict=True), "o-", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%d"))
    axes.set_xlabel("trees in a batch")
    axes.set_ylabel("trees per second in training")
    axes.legend(frameon=False)


PLOTS: dict[str, Callable[[], Ratios]] = {
    "operations": operations,
    "models": models,
    "layers": layers,
    "loaders": loaders,
}


def draw(name: str, path: Path) -> None:
    """Draw a plot to an SVG file."""
    style = {"text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK}
    with mpl.rc_context({**style, "svg.fonttype": "none", "font.size": 10, "svg.hashsalt": name}):
        rows = PLOTS[name]() if name in PLOTS else {}
        figure, axes = plt.subplots(figsize=(8, 0.26 * len(rows) + 1.4 if rows else 4.5), layout="constrained")
        axes.spines[["top", "right"]].set_visible(False)
        draw_ratios(rows, axes) if rows else draw_trees(axes)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


class ResultPlot(SphinxDirective):
    """``{result-plot} name``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw the plot and return the image."""
        name = self.arguments[0]
        folder = Path(self.env.app.outdir) / "_plots"
        folder.mkdir(parents=True, exist_ok=True)
        draw(name, folder / f"{name}.svg")
        return [nodes.raw("", f'<img class="plot" alt="{name}" src="_plots/{name}.svg">', format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    mpl.use("svg")
    app.add_directive("result-plot", ResultPlot)
    return {"parallel_read_safe": True}
