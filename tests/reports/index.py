"""Write ``README.md``, the list of the reports: ``python tests/reports/index.py``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.reports.cases import Report  # noqa: E402

PAGE = HERE / "README.md"

HEAD = """# Public reports, and how dglite fares

Users of DGL, PyG and other libraries reported wrong values, crashes and surprises in what dglite has, too. {cases} of
these situations, from {addresses} reports and pull requests, are tests here, each with the right value, worked out by
hand or in plain torch. The situations are told in our words; the addresses lead to the reports.

To add one, write a test `@report("owner/repository#number", "the situation")` into the file of its topic, on the
smallest graph that shows it, and run `python tests/reports/index.py`.
"""


def modules() -> list[ModuleType]:
    """Return the modules of this folder that have cases."""
    names = sorted(path.stem for path in HERE.glob("test_*.py") if path.stem != "test_index")
    return [importlib.import_module(f"tests.reports.{name}") for name in names]


def cases_of(module: ModuleType) -> list[Callable[..., None]]:
    """Return the tests of a module, in the order of the file."""
    return [test for name, test in vars(module).items() if name.startswith("test_")]


def link(address: str) -> str:
    """Return an address as a link; GitHub leads on from an issue to the pull request of that number."""
    repository, number = address.split("#")
    return f"[{address}](https://github.com/{repository}/issues/{number})"


def page() -> str:
    """Return the text of the page."""
    lines: list[str] = []
    cases = addresses = 0
    for module in modules():
        lines += ["", f"## {module.__name__.rpartition('test_')[2].replace('_', ' ').capitalize()}", ""]
        lines += ["| report | situation |", "|---|---|"]
        for test in cases_of(module):
            report: Report = test.report  # type: ignore[attr-defined]
            links = [link(address) for address in (report.address, *report.also)]
            cases, addresses = cases + 1, addresses + len(links)
            lines.append(f"| {', '.join(links)} | {report.title.replace('|', chr(92) + '|')} |")
    return HEAD.format(cases=cases, addresses=addresses) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
