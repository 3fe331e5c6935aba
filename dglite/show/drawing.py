"""Draws nodes, edges and labels on matplotlib's axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DGLError

PALETTE = ("#4878cf", "#ee854a", "#5fb760", "#d65f5f", "#956cb4", "#a1795b", "#dc7ec0", "#8f8f8f", "#c9a83f", "#5fb3c4")
"""Colours that differ in lightness, too, and can be seen on white and on black."""
EDGE, RING = "#8b95a3", "#e5383b"
STYLES = ("solid", "dashed", "dotted", "dashdot")
MOST_IN_LEGEND = 12
MOST_CURVES = 600
"""Edges up to which each is an arrow that ends at its node; more have a head in the middle, drawn by one collection."""


@dataclass(frozen=True)
class Ties:
    """The edges of a type as they are drawn, by numbers of nodes among all: each pair of nodes once.

    ``mutual`` tells whether there are edges in both directions. ``weights`` is None for an unweighted relation.
    """

    name: str
    src: np.ndarray
    dst: np.ndarray
    mutual: np.ndarray
    weights: np.ndarray | None

    @staticmethod
    def merged(name: str, src: np.ndarray, dst: np.ndarray, weights: np.ndarray | None) -> Ties:
        """Join parallel edges, which get the largest weight, and edges in both directions."""
        low, high = np.minimum(src, dst), np.maximum(src, dst)
        pairs, pair = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
        pair, count = pair.reshape(-1), pairs.shape[1]
        up = np.bincount(pair[src <= dst], minlength=count) > 0
        down = np.bincount(pair[src > dst], minlength=count) > 0
        largest = None
        if weights is not None:
            largest = np.full(count, -np.inf)
            np.maximum.at(largest, pair, weights)
        start, end = np.where(up, pairs[0], pairs[1]), np.where(up, pairs[1], pairs[0])
        return Ties(name, start, end, up & down, largest)


# -- nodes -------------------------------------------------------------------------------------------------------------
def draw_nodes(
    axes: Any,
    positions: np.ndarray,
    sets: Sequence[Any],
    values: dict[int, np.ndarray] | None,
    color: Any,
    sizes: Any,
    rings: np.ndarray,
    legend: Any,
    cmap: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the nodes and a legend or colour bar; return their areas in points squared, and their colours."""
    n = len(positions)
    area = np.full(n, float(np.clip(18000 / max(n, 1), 6, 260)))
    if isinstance(sizes, dict):
        for i, node_sizes in sizes.items():
            area[sets[i].first : sets[i].first + sets[i].size] = node_sizes
    elif sizes is not None:
        area[:] = float(sizes)
    colours, names, title = _colours(axes, sets, values, color, legend, cmap)
    edge = np.array([_darker(c) for c in colours]) if n else colours
    edge[rings] = _rgba(RING)
    width = np.where(rings, 2.2, np.clip(np.sqrt(area) / 14, 0.3, 0.8))
    axes.scatter(
        positions[:, 0], positions[:, 1], s=area, c=colours, edgecolors=edge, linewidths=width, zorder=3, clip_on=False
    )
    _leave_room(axes)
    if legend is not False and names:
        shown = list(names.items())[:MOST_IN_LEGEND]
        for name, colour in shown:
            axes.scatter([], [], s=60, color=colour, label=name)
        if len(names) > len(shown):
            axes.scatter([], [], s=0, label=f"and {len(names) - len(shown)} more")
        _draw_legend(axes, title)
    return area, colours


def _leave_room(axes: Any) -> None:
    """Leave a margin around the nodes; a flat layout, such as a line, gets a third of its length across."""
    axes.margins(0.06)
    x, y = axes.get_xlim(), axes.get_ylim()
    least = max(x[1] - x[0], y[1] - y[0]) / 3
    for limits, widen in ((x, axes.set_xlim), (y, axes.set_ylim)):
        if limits[1] - limits[0] < least:
            middle = sum(limits) / 2
            widen(middle - least / 2, middle + least / 2)


def _draw_legend(axes: Any, title: str | None) -> None:
    """Draw the legend beside the graph, names as they are: a ``$`` begins no formula."""
    legend = axes.legend(title=title, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)


def _colours(
    axes: Any, sets: Sequence[Any], values: dict[int, np.ndarray] | None, color: Any, legend: Any, cmap: str
) -> tuple[np.ndarray, dict[str, Any], str | None]:
    """Return a colour for each node, (num_nodes, 4), the legend's names with their colours, and its title."""
    title = color if isinstance(color, str) else None
    colours = np.tile(_rgba(PALETTE[7]), (sum(each.size for each in sets), 1))
    if not values:
        labels = list(dict.fromkeys(each.label for each in sets))
        of_label = {label: _rgba(color if color is not None else PALETTE[i % 10]) for i, label in enumerate(labels)}
        for each in sets:
            colours[each.first : each.first + each.size] = of_label[each.label]
        return colours, of_label if len(labels) > 1 and color is None else {}, None
    rows = np.concatenate([np.arange(sets[i].first, sets[i].first + sets[i].size) for i in values])
    whole = [x for i in values for x in values[i].tolist()]
    if all(isinstance(x, float) for x in whole):
        colours[rows] = _scaled(axes, np.array(whole), title, legend, cmap)
        return colours, {}, None
    if all(isinstance(x, str) and _is_color(x) for x in whole):
        colours[rows] = [_rgba(x) for x in whole] if whole else colours[rows]
        return colours, {}, None
    classes = list(dict.fromkeys(sorted(whole, key=lambda x: (str(type(x)), x))))
    of_class = dict(zip(classes, _palette(len(classes)), strict=True))
    colours[rows] = [of_class[x] for x in whole]
    names = {_class_name(x, legend): colour for x, colour in of_class.items()}
    if len(rows) < len(colours):
        names["no value"] = _rgba(PALETTE[7])
    return colours, names, title if legend is True else None


def _class_name(value: Any, legend: Any) -> str:
    if isinstance(legend, Mapping):
        return str(legend.get(value, value))
    if isinstance(legend, Sequence) and isinstance(value, int):
        if not 0 <= value < len(legend):
            raise DGLError(f"legend names {len(legend)} classes; there is a class {value}")
        return str(legend[value])
    return str(value)


def _palette(count: int) -> list[Any]:
    if count <= len(PALETTE):
        return [_rgba(colour) for colour in PALETTE[:count]]
    from matplotlib import colormaps

    return list(colormaps["turbo"](np.linspace(0.05, 0.95, count)))


def _scaled(axes: Any, values: np.ndarray, title: str | None, legend: Any, cmap: str) -> np.ndarray:
    """Return the colours of numbers, and draw a colour bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    scale = ScalarMappable(Normalize(low, high if high > low else low + 1), cmap)
    if legend is not False:
        axes.figure.colorbar(scale, ax=axes, label=title or "", shrink=0.6, pad=0.02).outline.set_visible(False)
    return np.asarray(scale.to_rgba(values))


def _rgba(colour: Any) -> Any:
    from matplotlib.colors import to_rgba

    return to_rgba(colour)


def _is_color(value: str) -> bool:
    from matplotlib.colors import is_color_like

    return bool(is_color_like(value))


def _darker(colour: Any) -> tuple[float, ...]:
    return (*(0.65 * x for x in colour[:3]), colour[3])


# -- edges -------------------------------------------------------------------------------------------------------------
def draw_edges(
    axes: Any, positions: np.ndarray, ties: Sequence[Ties], area: np.ndarray, weighted: bool, legend: bool
) -> None:
    """Draw each edge type in a style of its own, wider and darker where the weight is larger."""
    total = sum(len(each.src) for each in ties)
    width = float(np.clip(1.6 - 0.35 * math.log10(max(total, 1)), 0.4, 1.3))
    weights = [each.weights for each in ties if each.weights is not None]
    low = min([float(w.min()) for w in weights if len(w)], default=0.0)
    high = max([float(w.max()) for w in weights if len(w)], default=1.0)
    low = min(low, 0.0) if high > 0 else low
    for i, each in enumerate(ties):
        share = np.full(len(each.src), 0.0 if weighted else 0.4)
        if each.weights is not None:
            share = (each.weights - low) / ((high - low) or 1.0)
        colours = np.tile(_rgba(EDGE), (len(share), 1))
        colours[:, 3] = (
            0.25 + 0.75 * share if weighted else np.clip(1.1 - 0.15 * math.log2(max(total, 2) / 64), 0.35, 1)
        )
        widths = width * (0.5 + 2.5 * share) if weighted else np.full(len(share), width)
        style = STYLES[i % len(STYLES)] if len(ties) > 1 else "solid"
        _draw_lines(axes, positions, each, colours, widths, style, area, total <= MOST_CURVES)
    if legend and 1 < len(ties) <= MOST_IN_LEGEND:
        for i, each in enumerate(ties):
            axes.plot([], [], color=EDGE, linestyle=STYLES[i % len(STYLES)], label=each.name)
        _draw_legend(axes, None)


def _draw_lines(
    axes: Any,
    positions: np.ndarray,
    ties: Ties,
    colours: np.ndarray,
    widths: np.ndarray,
    style: str,
    area: np.ndarray,
    few: bool,
) -> None:
    from matplotlib.collections import LineCollection

    loops = ties.src == ties.dst
    _draw_loops(axes, positions[ties.src[loops]], colours[loops], widths[loops], area[ties.src[loops]])
    arrows = ~ties.mutual & ~loops
    lines = ~loops & ~arrows if few else ~loops
    segments = np.stack([positions[ties.src[lines]], positions[ties.dst[lines]]], axis=1)
    axes.add_collection(
        LineCollection(
            list(segments), colors=list(colours[lines]), linewidths=widths[lines], linestyles=style, zorder=1
        )
    )
    if few:
        _draw_arrows(axes, positions, ties, np.flatnonzero(arrows), colours, widths, style, area)
    elif arrows.any():
        start, end = positions[ties.src[arrows]], positions[ties.dst[arrows]]
        (x, y), (u, v) = (0.5 * (start + end)).T, (end - start).T
        length = np.maximum(np.hypot(u, v), 1e-12)
        head = float(np.clip(5000 / len(ties.src), 2.5, 6))
        axes.quiver(
            x,
            y,
            u / length,
            v / length,
            color=colours[arrows],
            angles="xy",
            pivot="mid",
            units="dots",
            scale_units="dots",
            scale=1 / (head + 1),
            width=1.0,
            headwidth=0.8 * head,
            headlength=head,
            headaxislength=head,
            zorder=2,
        )


def _draw_arrows(
    axes: Any,
    positions: np.ndarray,
    ties: Ties,
    edges: np.ndarray,
    colours: np.ndarray,
    widths: np.ndarray,
    style: str,
    area: np.ndarray,
) -> None:
    """Draw arrows that begin and end at the rims of nodes."""
    from matplotlib.patches import FancyArrowPatch

    radius = np.sqrt(area / math.pi)
    for i in edges.tolist():
        src, dst = ties.src[i], ties.dst[i]
        head = 5 + 2.2 * widths[i]
        axes.add_patch(
            FancyArrowPatch(
                positions[src],
                positions[dst],
                arrowstyle=f"-|>,head_length={head / 10:.2f},head_width={head / 25:.2f}",
                mutation_scale=10,
                color=colours[i],
                linewidth=widths[i],
                linestyle=style,
                shrinkA=radius[src],
                shrinkB=radius[dst] + 0.5,
                zorder=1,
            )
        )


def _draw_loops(axes: Any, places: np.ndarray, colours: np.ndarray, widths: np.ndarray, area: np.ndarray) -> None:
    """Draw edges from a node to itself as circles that stick out of it at the top."""
    if not len(places):
        return
    from matplotlib.collections import EllipseCollection
    from matplotlib.transforms import ScaledTranslation

    radius = np.sqrt(area / math.pi)
    for size in np.unique(radius, return_counts=True)[0]:
        same = radius == size
        up = ScaledTranslation(0, size / 72, axes.figure.dpi_scale_trans)
        axes.add_collection(
            EllipseCollection(
                np.full(same.sum(), 1.5 * size),
                np.full(same.sum(), 1.7 * size),
                np.zeros(same.sum()),
                units="points",
                offsets=places[same],
                offset_transform=axes.transData + up,
                facecolors="none",
                edgecolors=colours[same],
                linewidths=widths[same],
                zorder=1,
            )
        )


# -- labels ------------------------------------------------------------------------------------------------------------
def draw_labels(
    axes: Any, positions: np.ndarray, texts: Mapping[int, str], area: np.ndarray, colours: np.ndarray
) -> None:
    """Write short texts into large nodes, white on dark ones and black on light ones, others beside them."""
    from matplotlib import rcParams
    from matplotlib.patheffects import withStroke

    for node, text in texts.items():
        radius = math.sqrt(area[node] / math.pi)
        size = min(9.0, 2.2 * radius / max(len(text), 1.6))
        if size >= 6.5:
            ink = "black" if colours[node, :3] @ (0.299, 0.587, 0.114) > 0.7 else "white"
            axes.text(
                *positions[node], text, color=ink, size=size, ha="center", va="center", zorder=4, parse_math=False
            )
            continue
        halo = withStroke(linewidth=2, foreground=rcParams["figure.facecolor"])
        axes.annotate(
            text,
            positions[node],
            xytext=(radius + 2, 0),
            textcoords="offset points",
            color=rcParams["text.color"],
            size=8,
            va="center",
            zorder=4,
            path_effects=[halo],
            parse_math=False,
        )
