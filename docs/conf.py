"""The documentation site: ``make docs`` builds it from the pages of this folder and from the docstrings."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext"), str(HERE.parent / "benchmarks")]

import dglite  # noqa: E402

project, author, release = "dglite", "the dglite developers", dglite.__version__
copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "diagrams",
    "generated_pages",
    "mathml",
    "notebooks",
    "public_names",
    "result_plots",
]
exclude_patterns = ["dgl_names.txt", "outputs", "progress.md"]
html_math_renderer = "mathml"

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # attributes of several data sets have one name

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_param = False  # parameters that share a description stay together
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # else an attribute's type stands beside the parameter of its name
napoleon_custom_sections = [("Shapes", "notes_style")]
python_use_unqualified_type_names = True
add_module_names = False
default_role = "code"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"dglite {release}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # 404.html
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {"source_directory": "docs/", "source_branch": "main", "navigation_with_keys": True}
if repository := os.environ.get("DGLITE_REPOSITORY"):  # who publishes the site says where its pages are edited
    html_theme_options["source_repository"] = repository
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

OUTSIDE = {
    "../README.md": "start.md",
    "../CHANGELOG.md": "changelog.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "decisions)": "decisions/index.md)",
}
"""Links that lead out of this folder where pages are read as files, and where they lead on the site."""


PICTURE = "\n\n".join(
    f"![The karate club and a measured bar](pictures/readme_{theme}.svg){{.only-{theme}}}"
    for theme in ("light", "dark")
)
"""The README's picture, of which furo shows that of the theme."""


def stay_on_site(app: Any, page: str, source: list[str]) -> None:
    """Turn links that lead out of this folder; the page ``start`` is the README."""
    if page == "start":
        source[0] = (HERE.parent / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
        source[0] = source[0].replace("# dglite\n", "# Install it, train a model\n", 1)
        source[0] = re.sub(r"<picture>.*?</picture>", PICTURE, source[0], flags=re.DOTALL)
    if page.startswith("decisions/"):  # for developers: neither in the navigation nor among results of a search
        source[0] = f"---\nnosearch: true\norphan: true\n---\n\n{source[0]}"
    for outside, inside in OUTSIDE.items():
        source[0] = source[0].replace(f"]({outside}", f"]({inside}")


def keep_names_together(app: Any, kind: str, name: str, x: Any, options: Any, lines: list[str]) -> None:
    """Write attributes that share a description without spaces: Sphinx takes the first of two words for a type."""
    lines[:] = [re.sub(r"^:ivar ([\w, ]+):", lambda match: match[0].replace(", ", ","), line) for line in lines]


def setup(app: Any) -> None:
    """Register what belongs to no extension."""
    app.connect("source-read", stay_on_site)
    app.connect("autodoc-process-docstring", keep_names_together, priority=600)  # after napoleon
