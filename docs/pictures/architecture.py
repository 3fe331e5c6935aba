"""Draw dglite's packages, by layer and with what they import, and write the table of layers into architecture.md.

python docs/pictures/architecture.py [--check]
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

from diagrams import Drawing

DOCS = Path(__file__).parents[1]
PACKAGE = DOCS.parent / "dglite"
PAGE = DOCS / "architecture.md"
BEGIN, END = "<!-- layers -->\n", "<!-- end of layers -->"
WIDTH, BOX, ROW, GAP, LETTER, MOST = 940, 26, 46, 14, 7.4, 8


def layers() -> list[dict]:
    """Return the rows of layers.toml, lowest first."""
    return tomllib.loads((DOCS / "layers.toml").read_text(encoding="utf-8"))["layer"]


def imported_names(path: Path) -> set[str]:
    """Return the packages of dglite that a module imports, except for type checkers only."""
    package = ("dglite", *path.relative_to(PACKAGE).parts[:-1])
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *filter(None, (node.module or "").split("."))]
            names |= {base[1]} if len(base) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler):
            waiting += ast.iter_child_nodes(node)
    return names


def imports(packages: set[str]) -> dict[str, set[str]]:
    """Return the packages that each package imports, without itself."""
    result: dict[str, set[str]] = {name: set() for name in sorted(packages)}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if name in packages:
            result[name] |= imported_names(path) & packages - {name}
    return result


def direct(graph: dict[str, set[str]]) -> dict[str, list[str]]:
    """Return the imports that no other import implies."""

    def reached(name: str) -> set[str]:
        return graph[name].union(*(reached(other) for other in graph[name]))

    return {
        name: sorted(x for x in names if not any(x in reached(other) for other in names - {x}))
        for name, names in graph.items()
    }


def rows_of(table: list[dict], arrows: dict[str, list[str]]) -> list[tuple[int, list[str]]]:
    """Return the rows of boxes, lowest first, each ordered by where the packages that it imports stand."""
    place: dict[str, float] = {}
    rows = []
    for number, layer in enumerate(table):
        names = layer["packages"]
        beside = {other for name in names for other in arrows[name] if other in names}
        for part in ([n for n in names if n in beside], [n for n in names if n not in beside]):
            part.sort(key=lambda n: sum(place.get(x, 0.5) for x in arrows[n]) / max(len(arrows[n]), 1))
            for first in range(0, len(part), MOST):
                row = part[first : first + MOST]
                rows.append((number, row))
                place |= {name: (i + 0.5) / len(row) for i, name in enumerate(row)}
    return rows


def picture() -> str:
    """Return the SVG: a row of boxes per layer, a line to each package imported."""
    table = layers()
    arrows = direct(imports({name for layer in table for name in layer["packages"]}))
    rows = rows_of(table, arrows)
    height = ROW * len(rows) + GAP
    drawing, centre = Drawing("architecture", WIDTH, height), dict[str, tuple[float, float]]()
    boxes = []
    for index, (number, names) in enumerate(rows):
        widths = [LETTER * len(name) + 20 for name in names]
        y = height - ROW * (index + 1)
        gap = min((WIDTH - 60 - sum(widths)) / (len(names) + 1), 110)
        x = 40 + (WIDTH - 60 - sum(widths) - gap * (len(names) - 1)) / 2
        if index == 0 or rows[index - 1][0] != number:
            drawing.text(16, y + 18, str(number), "soft")
        for name, width in zip(names, widths, strict=True):
            boxes.append((x, y, width, name))
            centre[name] = x + width / 2, y
            x += width + gap
    for name, names in arrows.items():
        for other in names:
            (x, y), (to_x, to_y) = centre[name], centre[other]
            drawing.arrow(x, y + BOX, to_x, to_y - 1)
    for x, y, width, name in boxes:
        drawing.box(x, y, width, BOX, name)
    return drawing.svg()


def rows_of_table() -> str:
    """Return the table of layers in Markdown, highest first."""
    lines = [
        f"| {number} | {' '.join(f'`{name}`' for name in layer['packages'])} | {layer['holds']} |\n"
        for number, layer in reversed(list(enumerate(layers())))
    ]
    return "| layer | packages | what is there |\n|---|---|---|\n" + "".join(lines)


def written() -> dict[Path, str]:
    """Return the content of the files that this script writes."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return {
        DOCS / "pictures" / "diagrams" / "architecture.svg": picture(),
        PAGE: f"{before}{BEGIN}{rows_of_table()}{END}{after}",
    }


if __name__ == "__main__":
    stale = {path: text for path, text in written().items() if not path.exists() or path.read_text("utf-8") != text}
    if "--check" in sys.argv and stale:
        sys.exit(f"run python {Path(__file__).relative_to(DOCS.parent)}: {', '.join(path.name for path in stale)}")
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
