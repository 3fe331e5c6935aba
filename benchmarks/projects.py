"""Public code bases that import ``dgl``: their own tests, and a training step of some, with dglite and with DGL 2.1.

    python benchmarks/projects.py --sources FOLDER             run all that FOLDER has checkouts of
    python benchmarks/projects.py --sources FOLDER matgl nagl  run these; the others' results stay
    python benchmarks/projects.py --sources FOLDER --fetch     clone what is missing, and install what it needs first
    python benchmarks/projects.py --sources FOLDER --part steps    only tests, or steps; of the other, read the reports
    python benchmarks/projects.py --sources FOLDER --read      run nothing; read the reports of earlier runs in FOLDER

Without ``--fetch`` nothing is downloaded, and code bases without a checkout are skipped; ``--python`` names the
interpreter that has their requirements and DGL 2.1. The two libraries run the same files by the same command
(``project_run.py``). Training steps take turns, one process of one thread each time; the least processor time counts,
as other work on the machine does not change it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from common import OURS, RESULTS, ROOT, parser, save, table
from project_recipes import RECIPES, Recipe

DGL = "dgl"
LIBRARIES = OURS, DGL
LEAST_SHARE = 0.99
"""Of the tests that pass with DGL, those that have to pass with dglite."""
_RUN = Path(__file__).with_name("project_run.py")
_STEP = re.compile(r"^seconds (\S+)$", re.MULTILINE)
_TIMED = """
import time
def seconds():
    begin = time.process_time()
    step()
    return time.process_time() - begin
print("seconds", min(seconds() for _ in range(40)))
"""
_VALUE = re.compile(r"^value (\S+)$", re.MULTILINE)


def main() -> None:
    """Run the recipes that are asked for with both libraries, and save what came of them."""
    options = _options()
    records = _saved()
    for recipe in RECIPES:
        if options.names and recipe.name not in options.names:
            continue
        if options.fetch:
            fetch(recipe, options.sources, options.python)
        if not (options.sources / recipe.name).exists():
            print(f"{recipe.name}: no checkout in {options.sources}; --fetch clones it", file=sys.stderr)
            continue
        record = measure(recipe, options.sources, options.python, [] if options.read else options.part)
        if record is not None:
            records[recipe.name] = record
        save("projects", {"records": [records[recipe.name] for recipe in RECIPES if recipe.name in records]})
    print(projects_table(list(records.values())))
    if share(list(records.values())) < LEAST_SHARE:
        faults = [test for record in records.values() for test in record.get("faults", ())]
        sys.exit("pass with DGL and not with dglite:\n" + "\n".join(faults))


# -- one code base -----------------------------------------------------------------------------------------------------
def fetch(recipe: Recipe, sources: Path, python: str) -> None:
    """Clone a code base at the recipe's revision, and install what its tests need."""
    folder = sources / recipe.name
    if not folder.exists():
        subprocess.run(["git", "clone", "--filter=blob:none", recipe.repository, str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", recipe.revision], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *recipe.needs], check=True)


def measure(recipe: Recipe, sources: Path, python: str, parts: Sequence[str]) -> dict[str, Any] | None:
    """Return the outcome of a code base's tests and steps, of which ``parts`` are run and the others' reports read.

    None where a report of tests is missing.
    """
    record: dict[str, Any] = {"project": recipe.name, "repository": recipe.repository, "revision": recipe.revision}
    record |= {"tests": " ".join(recipe.tests), "note": recipe.note}
    reports = {library: sources / f"{recipe.name}.{library}.xml" for library in LIBRARIES}
    if recipe.tests:
        for library, report in reports.items():
            if "tests" in parts:
                _run_tests(recipe, library, sources, python, report)
            if not report.exists():
                return None
        outcomes = {library: outcomes_of(report) for library, report in reports.items()}
        record |= compare(outcomes)
        record["seconds"] = {library: round(seconds_of(report)) for library, report in reports.items()}
    if recipe.step:
        steps = sources / f"{recipe.name}.step.json"
        if "steps" in parts:
            steps.write_text(json.dumps(_steps(recipe, sources, python)), encoding="utf-8")
        record |= json.loads(steps.read_text(encoding="utf-8")) if steps.exists() else {}
    return record


def _run_tests(recipe: Recipe, library: str, sources: Path, python: str, report: Path) -> None:
    """Run the recipe's tests, which leave a report in JUnit's format."""
    report.unlink(missing_ok=True)
    arguments = ["-q", "-p", "no:cacheprovider", "--junitxml", str(report), *recipe.tests]
    with open(report.with_suffix(".log"), "w", encoding="utf-8") as log:
        _run(recipe, library, sources, python, ["pytest", *arguments], stdout=log, stderr=subprocess.STDOUT)


def _steps(recipe: Recipe, sources: Path, python: str, turns: int = 2) -> dict[str, Any]:
    """Return the seconds of a step with each library, the least of a few processes, and the value that it printed."""
    seconds: dict[str, float] = {}
    values: dict[str, float] = {}
    arguments = ["timeit", "-n", "1", "-r", "1", "-s", recipe.step + _TIMED, "pass"]
    for _ in range(turns):
        for library in LIBRARIES:
            done = _run(recipe, library, sources, python, arguments, capture_output=True, text=True)
            step, value = _STEP.search(done.stdout), _VALUE.search(done.stdout)
            if step is None or value is None:
                print(f"{recipe.name}: no step with {library}\n{done.stderr[-2000:]}", file=sys.stderr)
                return {}
            seconds[library] = min(float(step[1]), seconds.get(library, float("inf")))
            values[library] = float(value[1])
    return {"step": seconds, "value": values}


def _run(recipe: Recipe, library: str, sources: Path, python: str, command: list[str], **how: Any) -> Any:
    """Run a module in the recipe's folder, in which ``dgl`` is one of the libraries."""
    paths = [str(ROOT), *(str(sources / path) for path in recipe.paths)]
    settings = {"PYTHONPATH": os.pathsep.join(paths), "DGLBACKEND": "pytorch", "OMP_NUM_THREADS": "1"}
    without = ["--without", *recipe.without, "--"] if recipe.without else []
    line = [python, str(_RUN), library, "--first", recipe.first, *without, *command]
    environment = os.environ | settings | dict(recipe.environment)
    return subprocess.run(line, cwd=sources / recipe.folder, env=environment, check=False, **how)


# -- reports -----------------------------------------------------------------------------------------------------------
def outcomes_of(report: Path) -> dict[str, str]:
    """Return "passed", "failed" or "skipped" for each test of a JUnit report."""
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = (
            "failed" if failed else "skipped" if "skipped" in kinds else "passed"
        )
    return outcomes


def seconds_of(report: Path) -> float:
    """Return how long the tests of a JUnit report took."""
    return sum(float(suite.get("time", 0)) for suite in ElementTree.parse(report).iter("testsuite"))


def compare(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return how many tests passed and failed with each library, and which pass with DGL only."""
    record: dict[str, Any] = {}
    for library, tests in outcomes.items():
        record[library] = {kind: sum(value == kind for value in tests.values()) for kind in ("passed", "failed")}
    passing = [test for test, outcome in outcomes[DGL].items() if outcome == "passed"]
    record["faults"] = [test for test in passing if outcomes[OURS].get(test) != "passed"]
    return record


# -- results -----------------------------------------------------------------------------------------------------------
def projects_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return one row per code base."""
    rows = [_row(record) for record in records]
    return table(["project", "DGL 2.1", "dglite", "by dglite's fault", "minutes", "step: DGL 2.1", "dglite"], rows)


def _row(record: Mapping[str, Any]) -> list[str]:
    cells = [f"[{record['project']}]({record['repository']}) {record['revision'][:7]}"]
    if DGL in record:
        cells += [f"{record[name]['passed']} pass, {record[name]['failed']} fail" for name in (DGL, OURS)]
        cells += [
            str(len(record["faults"])),
            " and ".join(f"{record['seconds'][name] / 60:.1f}" for name in (DGL, OURS)),
        ]
    else:
        cells += ["no tests"] + [""] * 3
    if "step" not in record:
        return [*cells, "", ""]
    dgl, ours = (record["step"][name] for name in (DGL, OURS))
    return [*cells, f"{1e3 * dgl:.0f} ms, {dgl / ours:.1f} x", f"{1e3 * ours:.0f} ms"]


def share(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of the tests that pass with DGL that pass with dglite, 1 of none."""
    passing = sum(record[DGL]["passed"] for record in records if DGL in record)
    faults = sum(len(record.get("faults", ())) for record in records)
    return 1 - faults / max(passing, 1)


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the share of tests in one sentence, and how far the values of steps lie apart."""
    passing = sum(record[DGL]["passed"] for record in records if DGL in record)
    faults = sum(len(record.get("faults", ())) for record in records)
    pairs = [record["value"] for record in records if "value" in record]
    apart = max((abs(pair[DGL] - pair[OURS]) / max(abs(pair[DGL]), 1e-12) for pair in pairs), default=0.0)
    tests = f"Of {passing:,} tests that pass with DGL 2.1, {passing - faults:,} pass with dglite."
    if not pairs:
        return tests
    return tests + (
        f" Values of steps differ by at most {apart:.1e}, relatively." if apart else " Values of steps are equal."
    )


def notes(records: Sequence[Mapping[str, Any]]) -> str:
    """Return what was run of each code base, and what was left out and why."""
    return "\n".join(f"- **{record['project']}**: {record['note']}" for record in records)


def _saved() -> dict[str, Any]:
    path = RESULTS / "projects.json"
    records = json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []
    return {record["project"]: record for record in records}


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="code bases; all by default")
    options.add_argument("--sources", type=Path, required=True, help="folder of the checkouts and reports")
    options.add_argument("--python", default=sys.executable, help="interpreter that has what the code bases need")
    options.add_argument("--fetch", action="store_true", help="clone and install what is missing")
    options.add_argument("--part", nargs=1, choices=["tests", "steps"], default=["tests", "steps"])
    options.add_argument("--read", action="store_true", help="run nothing; read the reports in the folder")
    return options.parse_args()


if __name__ == "__main__":
    main()
