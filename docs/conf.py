"""The documentation site: ``make docs`` builds it from the pages of this folder and from the docstrings."""

from __future__ import annotations

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
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "public_names",
    "result_plots",
]
exclude_patterns = ["dgl_names.txt"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # attributes of several data sets have one name

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Shapes", "notes_style")]
python_use_unqualified_type_names = True
add_module_names = False
default_role = "code"

html_theme = "furo"
html_title = "dglite"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {"source_directory": "docs/", "navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

OUTSIDE = {
    "../README.md": "start.md",
    "../CHANGELOG.md": "changelog.md",
    "CHANGELOG.md": "changelog.md",
    "decisions)": "decisions/index.md)",
}
"""Links that lead out of this folder where pages are read as files, and where they lead on the site."""


def stay_on_site(app: Any, page: str, source: list[str]) -> None:
    """Turn links that lead out of this folder; the page ``start`` is the README."""
    if page == "start":
        source[0] = (HERE.parent / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    for outside, inside in OUTSIDE.items():
        source[0] = source[0].replace(f"]({outside}", f"]({inside}")


def setup(app: Any) -> None:
    """Register what belongs to no extension."""
    app.connect("source-read", stay_on_site)
