"""Scripts as DGL's users write them run on dglite, unmodified."""

from __future__ import annotations

import importlib.util
import math
import runpy
import sys
import types
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dglite.compat import uninstall
from dglite.config import data_dir
from tests import forked

SCRIPTS = Path(__file__).parent / "scripts"


def _run(script: str, *arguments: str) -> str:
    done = forked.run(forked.module, "dglite.compat", str(SCRIPTS / script), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_convolution_of_ones_own_learns_cora() -> None:
    if not any((data_dir() / folder / "ind.cora.x").is_file() for folder in ("", "planetoid")):
        pytest.skip("the files of Cora are not at hand")
    assert float(_run("gcn.py", "--epochs", "60").split()[-1]) > 0.75


def test_a_layer_made_of_helpers() -> None:
    assert _run("attention_layer.py").splitlines() == [
        "refused: There are 0-in-degree nodes in the graph",
        "gradient True",
    ]


def test_a_data_set_of_ones_own(tmp_path: Path) -> None:
    assert _run("graph_classification.py", str(tmp_path)) == "accuracy 1.00\n"


def test_mini_batches(tmp_path: Path) -> None:
    assert float(_run("mini_batches.py", str(tmp_path)).split()[1]) > 0.8


# -- scripts like those of projects ------------------------------------------------------------------------------------
RECORDED = {"se3_attention": 85.45213, "rgat_blocks": 10.33844, "molecule_charges": 29.90144, "three_body": 89914.69}
"""The sum of the norms of all results and gradients, by DGL 2.1.0."""


@pytest.mark.parametrize("script", RECORDED)
def test_a_project_computes_as_with_dgl(dgl_is_dglite: None, script: str) -> None:
    result = _results(script)
    assert math.isclose(sum(float(values.norm()) for values in result.values()), RECORDED[script], rel_tol=1e-4)
    uninstall()
    if not _dgl_itself():
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, module in _dgl_itself().items():
            patch.setitem(sys.modules, name, module)
        expected = _results(script)
    assert result.keys() == expected.keys()
    for name, values in expected.items():
        error = (result[name] - values).abs().max().item()
        assert error <= 1e-4 * values.abs().max().item() + 1e-6, name


def _results(script: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = runpy.run_path(str(SCRIPTS / f"{script}.py"))["results"]()
    return {name: values.detach() for name, values in result.items()}


@cache
def _dgl_itself() -> dict[str, types.ModuleType]:
    """Return the modules of DGL by name, none where it is not installed.

    Two modules that it imports, and that are not needed here, may be missing: parts compiled for one torch, and pandas.
    """
    before = set(sys.modules)
    for name in ("dgl.graphbolt", "pandas"):
        if name.startswith("dgl.") or importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("dgl")
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "dgl"}
    except (ImportError, PermissionError):  # it writes to HOME
        return {}
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "dgl" or sys.modules[name].__spec__ is None:
                del sys.modules[name]
