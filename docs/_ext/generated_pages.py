"""Pages that are written when the site is built: one for each layer, and one for each example with what it printed."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import dglite.nn

HERE = Path(__file__).parents[1]
EXAMPLES, OUTPUTS = HERE.parent / "examples", HERE / "outputs"
LAYERS = {name for name in dglite.nn.__all__ if inspect.isclass(getattr(dglite.nn, name))}
_CELL = re.compile(r"`(\w+)`")
_COMMANDS = re.compile(r"^ {4}(.*(?:\n {4}.*)*)", re.MULTILINE)
_PROSE = re.compile(r"^(?! {4}).+", re.MULTILINE)
_OPTION = re.compile(r"(?<!`)(--[a-z][\w-]*)")
"""An option in prose, whose hyphens would become a dash."""
_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(\w+)\.py\)")


def _write(path: Path, text: str) -> None:
    """Write a file if its text is new, so that Sphinx reads no page twice."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def layer_page(name: str) -> str:
    """Return the page of a layer, which the contents of ``dglite.nn`` has."""
    return f"{name}\n{'=' * len(name)}\n\n.. py:currentmodule:: dglite.nn\n\n.. autoclass:: dglite.nn.{name}\n"


def example_page(path: Path) -> str:
    """Return the page of an example: what it is, how it is called and what that prints, and the whole file."""
    source = path.read_text(encoding="utf-8")
    title, _, rest = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n")
    text = _PROSE.sub(lambda m: _OPTION.sub(r"`\1`", m[0]), rest.strip("\n"))
    text = _COMMANDS.sub(lambda m: f"```\n{inspect.cleandoc(m[0])}\n```", text)
    output = OUTPUTS / f"{path.stem}.txt"
    printed = f"\n## Output\n\n```\n{output.read_text(encoding='utf-8').rstrip()}\n```\n" if output.exists() else ""
    return (
        f"---\norphan: true\n---\n\n# {path.name}\n\n{title}\n\n{text}\n{printed}\n## The file\n\n"
        f"````python\n{source.rstrip()}\n````\n"
    )


def write(app: Sphinx) -> None:
    """Write all pages."""
    for name in sorted(LAYERS):
        _write(HERE / "api" / "layers" / f"{name}.rst", layer_page(name))
    for path in sorted(EXAMPLES.glob("*.py")):
        _write(HERE / "examples" / f"{path.stem}.md", example_page(path))


def link(app: Sphinx, page: str, source: list[str]) -> None:
    """Let layers in the tables of ``layers``, and examples everywhere, lead to their pages."""
    up = "../" * page.count("/")
    source[0] = _EXAMPLE.sub(rf"]({up}examples/\1.md)", source[0])
    if page == "layers":
        lines = source[0].split("\n")
        source[0] = "\n".join(_linked(line) if line.startswith("| `") else line for line in lines)


def _linked(row: str) -> str:
    _, first, *rest = row.split("|")
    first = _CELL.sub(lambda m: f"[`{m[1]}`](api/layers/{m[1]}.rst)" if m[1] in LAYERS else m[0], first)
    return "|".join(["", first, *rest])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both."""
    app.connect("builder-inited", write)
    app.connect("source-read", link, priority=300)  # before links out of the folder are turned
    return {"parallel_read_safe": True}
