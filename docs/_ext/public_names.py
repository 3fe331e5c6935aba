"""The directive ``public``, and what makes dglite's docstrings reStructuredText that Sphinx reads without a warning."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_SECTION = re.compile(r"-{3,}\s*$")
_QUOTED = re.compile(r"(``.*?``|`.*?`)")
_STARRED = re.compile(r"(?<![\\*\w])(\*{1,2})(?=\w)")


class Public(SphinxDirective):
    """``.. public:: module`` with names as its content, by default all public names of the module."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"pages": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return what autodoc makes of each name; with ``:pages: folder`` classes are lines of a table of contents."""
        module = importlib.import_module(self.arguments[0])
        lines = [f".. py:currentmodule:: {module.__name__}", ""]
        names = " ".join(self.content).split() or functions_and_classes(module)
        if "pages" in self.options:
            pages = sorted(name for name in names if inspect.isclass(getattr(module, name)))
            lines += [
                ".. toctree::",
                "   :maxdepth: 1",
                "",
                *(f"   {self.options['pages']}/{name}" for name in pages),
                "",
            ]
            names = [name for name in names if name not in pages]
        for name in names:
            value = getattr(module, name)
            kind = kind_of(value)
            if kind == "data":
                lines += [f".. py:data:: {name}", f"   :type: {type(value).__name__}", ""]
            else:
                lines += [f".. auto{kind}:: {module.__name__}.{name}", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def functions_and_classes(module: Any) -> list[str]:
    """Return the public names of a module without those of other modules."""
    return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]


def kind_of(value: Any) -> str:
    """Return which of autodoc's directives documents a value."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if callable(value) else "data"


def readable(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Let ``*feat`` in a shape be no emphasis, and a paragraph after a section's entries be no entry.

    Examples that have no heading get one. The first line of a property is no type and a text, where it has a colon:
    napoleon takes it for that unless an empty comment is before it.
    """
    if kind in ("property", "attribute") and lines:
        lines[:0] = ["..", ""]
    if "Examples" not in lines:
        first = next((i for i, line in enumerate(lines) if line.startswith(">>> ")), None)
        if first is not None:
            lines[first:first] = ["", "Examples", "--------"]
    lines[:] = ["".join(_plain(part) for part in _QUOTED.split(line)) for line in lines]
    inside, i = False, 0
    while i < len(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if _SECTION.match(following) and lines[i].strip():
            inside, i = True, i + 2
            continue
        after_blank, is_text = i > 0 and not lines[i - 1].strip(), lines[i][:1].strip()
        if inside and after_blank and is_text and not following.startswith(" "):
            lines[i:i] = ["Notes", "-----"]
            inside, i = False, i + 2
        i += 1


def _plain(part: str) -> str:
    return part if part.startswith("`") else _STARRED.sub(r"\\\1", part)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive; docstrings are made readable before napoleon takes their sections."""
    app.add_directive("public", Public)
    app.connect("autodoc-process-docstring", readable, priority=100)
    return {"parallel_read_safe": True}
