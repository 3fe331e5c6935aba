"""Formulas as MathML, which browsers draw themselves: the site needs neither a network nor scripts for them."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_SIZE = re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])")
"""Sizes of brackets, which docutils does not know; browsers stretch them."""
_PRIME = re.compile(r"(_(?:\w|\{[^{}]*\}))'")
"""A prime behind an index, which docutils would put beside it."""


def formula(tex: str, block: bool) -> str:
    """Return a formula as MathML. A formula of several lines is a table, as LaTeX's ``aligned``."""
    if block and "\\\\" in tex and "\\begin" not in tex:
        tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
    tex = _PRIME.sub(r"\1^{\\prime}", tex)
    tex = _SIZE.sub("", tex).replace("\\dots", "\\ldots").replace("\\*", "*")
    try:
        return str(latex2mathml.tex2mathml(tex, as_block=block))
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", error, tex)
        return f"<code>{escape(tex)}</code>"


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(formula(node.astext(), block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(
        f'<div class="formula" title="{escape(node.astext())}">{formula(node.astext(), block=True)}</div>'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
