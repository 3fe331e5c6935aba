"""Write the tables in docs/performance.md from the files in results/, so that they cannot drift apart.

python benchmarks/report.py            rewrite the tables
python benchmarks/report.py --check    fail where a table differs from its results
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from common import RESULTS, ROOT
from memory import growth_table
from overhead import calls_table
from sampling import cases_table as sampling_table
from spmm import cases_table, summary_table

PAGE = ROOT / "docs" / "performance.md"


def spmm(results: dict[str, Any]) -> str:
    """Return the geometric means, and all cases folded away."""
    records = results["records"]
    cases = cases_table(records)
    return f"{summary_table(records)}\n\n<details><summary>All {len(records)} cases</summary>\n\n{cases}\n\n</details>"


def overhead(results: dict[str, Any]) -> str:
    """Return one row per call."""
    return calls_table(results["records"])


def memory(results: dict[str, Any]) -> str:
    """Return one row per library."""
    size = f"{results['num_nodes']:,} nodes, {results['num_edges']:,} edges, width {results['width']}."
    return f"{size}\n\n{growth_table(results)}"


def sampling(results: dict[str, Any]) -> str:
    """Return one row per case."""
    size = f"A power-law graph of {results['num_nodes']:,} nodes and {results['num_edges']:,} edges."
    return f"{size}\n\n{sampling_table(results['records'])}"


def source(machine: dict[str, Any]) -> str:
    """Say what the numbers were measured on."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"Measured on {machine['date']} at commit {machine['commit']}: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['threads']} threads, {machine['system']}, "
        f"Python {machine['python']}, {versions}."
    )


def rendered(page: str) -> str:
    """Return ``page`` with every table that has results replaced by them."""
    for section in (spmm, overhead, memory, sampling):
        path = RESULTS / f"{section.__name__}.json"
        if path.is_file():
            results = json.loads(path.read_text())
            begin, end = f"<!-- begin {section.__name__} -->", f"<!-- end {section.__name__} -->"
            body = f"{begin}\n{source(results['machine'])}\n\n{section(results)}\n{end}"
            page = re.sub(f"{begin}.*?{end}", lambda _, body=body: body, page, flags=re.DOTALL)
    return page


def main() -> None:
    """Rewrite the page, or compare it."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    page = PAGE.read_text()
    if rendered(page) == page:
        return
    if check:
        sys.exit(f"{PAGE.relative_to(ROOT)} differs from benchmarks/results; run python benchmarks/report.py")
    PAGE.write_text(rendered(page))


if __name__ == "__main__":
    main()
