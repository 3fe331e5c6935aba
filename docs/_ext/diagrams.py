"""Diagrams are part of their page, where an image would be: their colours are then those of the page's theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "diagrams/"


def inline(app: Sphinx, document: nodes.document) -> None:
    """Replace images from the folder of diagrams by their SVG."""
    for image in list(document.findall(nodes.image)):
        if FOLDER in image["uri"]:
            svg = (Path(app.srcdir) / "pictures" / FOLDER / Path(image["uri"]).name).read_text(encoding="utf-8")
            label = f'<figure class="diagram" role="img" aria-label="{image["alt"]}">{svg}</figure>'
            image.replace_self(nodes.raw("", label, format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the replacement, before images are collected."""
    app.connect("doctree-read", inline, priority=100)
    return {"parallel_read_safe": True}
