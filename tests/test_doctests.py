"""The examples in docstrings run, and every verb and operation has its parameters, its errors and an example."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable

import pytest

import dglite
from dglite import ops

VERBS = (
    "apply_nodes apply_edges group_apply_edges send recv send_and_recv pull push update_all multi_update_all "
    "prop_nodes prop_edges"
).split()
DOCUMENTED: dict[str, Callable[..., object]] = {
    **{f"DGLGraph.{name}": getattr(dglite.DGLGraph, name) for name in VERBS},
    **{f"propagate.{name}": getattr(dglite.propagate, name) for name in ("prop_nodes", "prop_edges")},
    **{f"ops.{name}": getattr(ops, name) for name in ops.__all__},
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_docstring_is_whole_and_its_example_runs(name: str) -> None:
    function = DOCUMENTED[name]
    text = inspect.getdoc(function) or ""
    returns = [] if function.__annotations__["return"] == "None" else ["Returns"]
    for section in ("Parameters", *returns, "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in text, f"{name} has no {section}"
    assert "\nRaises " in text, f"{name} does not say what it raises"
    parameters = text.partition("\nParameters\n")[2].partition("\nExamples\n")[0]
    named = {word for line in parameters.splitlines() if line[:1].isidentifier() for word in line.split(", ")}
    assert set(inspect.signature(function).parameters) - {"self"} <= named, f"{name} leaves a parameter out"
    tests = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    report: list[str] = []
    for test in tests:
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert tests and not report, "".join(report)
