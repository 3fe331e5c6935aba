"""Draw the six diagrams of the documentation as SVG, whose colours are those of the page that they are part of.

python docs/pictures/diagrams.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "diagrams"
STYLE = """<style>
.dg{font:13px system-ui,sans-serif}.dg text{fill:var(--color-foreground-primary,#808890);text-anchor:middle}
.dg .soft{fill:var(--color-foreground-secondary,#808890);font-size:11px}.dg .left{text-anchor:start}
.dg rect,.dg .node{fill:var(--color-background-secondary,none);stroke:var(--color-foreground-muted,#808890);
stroke-width:1.2}.dg .hot{stroke:var(--color-brand-primary,#4878cf);stroke-width:2}
.dg .line{fill:none;stroke:var(--color-foreground-muted,#808890);stroke-width:1.2}
.dg .dash{stroke-dasharray:4 3}.dg .tip{fill:var(--color-foreground-muted,#808890)}
</style>"""
TIP = (
    '<defs><marker id="{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
)


class Drawing:
    """A drawing of boxes, nodes, lines and texts."""

    def __init__(self, name: str, width: int, height: int) -> None:
        self.name, self.size, self.parts = name, (width, height), [TIP.format(name)]

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """Write a line of text, centred unless the style is "left"."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *lines: str, style: str = "") -> None:
        """Draw a box with a name, and smaller lines below it."""
        rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{style}"/>'
        self.parts.append(rect)
        first = y + height / 2 + 5 - 7.5 * (len(lines) - 1)
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + 15 * i, line, "soft" if i else "")

    def node(self, x: float, y: float, name: str = "", style: str = "") -> None:
        """Draw a node."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="13" class="node {style}"/>')
        if name:
            self.text(x, y + 4.5, name)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, style: str = "", cut: float = 0) -> None:
        """Draw an arrow that leaves out ``cut`` at both ends, as nodes want it."""
        length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
        dx, dy = (to_x - x) / length * cut, (to_y - y) / length * cut
        path = f"M{x + dx:.1f} {y + dy:.1f} {to_x - dx:.1f} {to_y - dy:.1f}"
        self.parts.append(f'<path class="line {style}" d="{path}" marker-end="url(#{self.name})"/>')

    def svg(self) -> str:
        """Return the file's content."""
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="dg" viewBox="0 0 {width} {height}" width="{width}">'
        return "\n".join([head, STYLE, *self.parts, "</svg>\n"])

    def save(self) -> None:
        """Write the file."""
        (FOLDER / f"{self.name}.svg").write_text(self.svg(), encoding="utf-8")


def call() -> None:
    """How a call of ``update_all`` runs."""
    d = Drawing("call", 720, 170)
    steps = (
        ("update_all", "message, reducer"),
        ("recorder", "operations of", "your functions"),
        ("plan", "instructions"),
        ("rewrites", "fuse, reorder,", "choose formats"),
        ("kernel", "LLVM or CUDA,", "compiled once"),
        ("result", "and its gradient"),
    )
    for i, lines in enumerate(steps):
        d.box(8 + 120 * i, 20, 100, 70, *lines, style="hot" if i == 4 else "")
        if i:
            d.arrow(8 + 120 * i - 20, 55, 8 + 120 * i - 1, 55)
    d.parts.append('<path class="line dash" d="M58 90 V132 H658 V92" marker-end="url(#call)"/>')
    d.text(358, 150, "a call that was made before finds its kernel in a cache", "soft")
    d.save()


def blocks() -> None:
    """A mini-batch as blocks."""
    d = Drawing("blocks", 720, 270)
    columns = {90: "abcdefg", 300: "abcd", 510: "ab"}
    place = {(x, name): (x, 55 + 30 * i) for x, names in columns.items() for i, name in enumerate(names)}
    edges = {
        90: ("ea", "fa", "cb", "gb", "fc", "gc", "ed"),
        300: ("ca", "da", "cb"),
    }
    for x, pairs in edges.items():
        for src, dst in pairs:
            d.arrow(*place[x, src], *place[x + 210, dst], cut=13)
    for (x, name), (_, y) in place.items():
        d.node(x, y, name, "hot" if name in "ab" else "")
    for x, text in ((90, "input nodes, with features"), (300, "hidden rows"), (510, "seeds, with labels")):
        d.text(x, 24, text, "soft")
    d.text(195, 262, "blocks[0], first layer", "")
    d.text(405, 262, "blocks[1], second layer", "")
    for i, line in enumerate(
        ("Destinations come first", "among the sources:", "h[: num_dst_nodes] are", "the nodes themselves.")
    ):
        d.text(560, 110 + 18 * i, line, "soft left")
    d.save()


def buckets() -> None:
    """Nodes of one in-degree are reduced together."""
    d = Drawing("buckets", 720, 210)
    groups = (("degree 1", 1, 3), ("degree 2", 2, 4), ("degree 4", 4, 2))
    for i, (name, degree, count) in enumerate(groups):
        x = 30 + 230 * i
        d.text(x + 85, 24, f"{name}: {count} nodes", "")
        for row in range(count):
            for column in range(degree):
                d.box(x + 34 * column, 40 + 26 * row, 30, 20)
        d.arrow(x + 34 * degree + 4, 40 + 13 * count, x + 34 * degree + 30, 40 + 13 * count)
        d.text(x + 85, 168, f"mailbox ({count}, {degree}, *feat)", "soft")
    d.text(360, 198, "one call of the reduce function for each degree, no padding", "soft")
    d.save()


def programs() -> None:
    """A vertex program runs level by level over the trees of a batch."""
    d = Drawing("programs", 720, 220)
    levels = ((190, (60, 120, 180, 300, 360, 420)), (130, (90, 180, 330)), (70, (135, 375)))
    for x, y, to_x, to_y in (
        (60, 190, 90, 130),
        (120, 190, 90, 130),
        (90, 130, 135, 70),
        (180, 190, 135, 70),
        (300, 190, 330, 130),
        (360, 190, 330, 130),
        (330, 130, 375, 70),
        (420, 190, 375, 70),
    ):
        d.arrow(x, y, to_x, to_y, cut=13)
    for y, xs in levels:
        for x in xs:
            if (y, x) != (130, 180):
                d.node(x, y)
    for y, text in (
        (190, "level 0: 6 vertices, one product"),
        (130, "level 1: 2 vertices"),
        (70, "level 2: both roots"),
    ):
        d.parts.append(f'<path class="line dash" d="M40 {y + 24} H690"/>')
        d.text(470, y + 5, text, "soft left")
    d.text(255, 28, "two trees of a batch; the function is written for one vertex", "soft")
    d.save()


def halo() -> None:
    """Two processes exchange the features of nodes on the border."""
    d = Drawing("halo", 720, 240)
    d.box(10, 30, 320, 170, style="")
    d.box(390, 30, 320, 170, style="")
    d.text(170, 20, "process 0 owns 1, 2, 3")
    d.text(550, 20, "process 1 owns 4, 5, 6")
    left = {"1": (60, 80), "2": (60, 150), "3": (160, 115), "4'": (270, 80), "5'": (270, 150)}
    right = {"3'": (450, 115), "4": (560, 80), "5": (560, 150), "6": (660, 115)}
    for names, pairs in ((left, ("1 3", "2 3", "4' 3", "5' 3")), (right, ("3' 4", "4 6", "5 6", "3' 5"))):
        for pair in pairs:
            src, dst = pair.split()
            d.arrow(*names[src], *names[dst], cut=13)
        for name, (x, y) in names.items():
            d.node(x, y, name, "hot" if "'" in name else "")
    d.parts.append('<path class="line dash" d="M550 170 V215 H270 V166" marker-end="url(#halo)"/>')
    d.text(410, 232, "rows of 4 and 5, while the inner edges are computed; gradients go back", "soft")
    d.save()


def engine() -> None:
    """Three front doors of dynamic networks, and the kernels that all of them run."""
    d = Drawing("engine", 720, 330)
    columns = (
        (
            ("vertex function", "F of one vertex, a graph"),
            ("trace", "nodes, their gradient"),
            ("plan", "eager, each level, late"),
            ("lines", "stage, rows from and to"),
        ),
        (
            ("lazy tensors", "cells, operations"),
            ("session", "graph of operations"),
            ("batches", "by signature"),
            ("steps and instructions", "batch by batch"),
        ),
        (
            ("persistent handle", "a step on lazy losses"),
            ("session", "graph of operations"),
            ("batches", "and the optimizer's update"),
            ("script", "threads or blocks that stay"),
        ),
    )
    for i, boxes in enumerate(columns):
        for j, lines in enumerate(boxes):
            d.box(20 + 240 * i, 10 + 66 * j, 200, 46, *lines, style="" if j else "hot")
            d.arrow(120 + 240 * i, 56 + 66 * j, 120 + 240 * i, 74 + 66 * j)
    d.box(20, 274, 680, 46, "kernels", "formulas, products, reductions, softmax, losses: compiled once, run on words")
    d.save()


if __name__ == "__main__":
    for draw in (call, blocks, buckets, programs, halo, engine):
        draw()
