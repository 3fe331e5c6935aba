"""Notebooks of the recipes, written when the site is built: a cell for each block of code, and for the text between."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = "notebooks"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https:)[^)]*\)")


def notebook(text: str) -> dict[str, Any]:
    """Return a page of Markdown as a notebook of format 4.5; code is cells, all else is text."""
    parts = _BLOCK.split(text)  # text and code in turns
    cells = [_cell(i, "code" if i % 2 else "markdown", part.strip()) for i, part in enumerate(parts) if part.strip()]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    if kind == "markdown":
        source = _LINK.sub(r"\1", source)  # to other pages of the site, which a downloaded file is not beside
    cell = {"id": f"cell-{number}", "cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def offer(app: Sphinx, page: str, source: list[str]) -> None:
    """Write a recipe's notebook, and say below the page's title where it is."""
    if not page.startswith("recipes/") or page.endswith("/index"):
        return
    path = Path(app.outdir) / FOLDER / f"{page.removeprefix('recipes/')}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook(source[0]), indent=1), encoding="utf-8")
    if app.builder.format == "html":
        title, _, rest = source[0].partition("\n")
        link = f'<a class="notebook" href="../{FOLDER}/{path.name}" download>Download as a notebook</a>'
        source[0] = f"{title}\n\n{link}\n{rest}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what belongs to no directive."""
    app.connect("source-read", offer, priority=400)  # before links are turned for the site
    return {"parallel_read_safe": True}
