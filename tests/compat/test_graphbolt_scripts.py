"""Scripts like DGL's examples/graphbolt, on small generated data."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "scripts" / "graphbolt"


def _main(script: str) -> Any:
    return runpy.run_path(str(SCRIPTS / f"{script}.py"))["main"]


@pytest.fixture(scope="module")
def link_prediction() -> Any:
    """The script is loaded once: torch registers the name of its stage once in a process."""
    return {}


@pytest.mark.parametrize(("mode", "workers"), [("sample_neighbor", 0), ("sample_layer_neighbor", 2)])
def test_node_classification(dgl_is_dglite: None, mode: str, workers: int) -> None:
    assert _main("node_classification")(mode, workers) > 0.85


@pytest.mark.parametrize(("by_degree", "as_method"), [(True, True), (False, False)])
def test_link_prediction(dgl_is_dglite: None, link_prediction: Any, by_degree: bool, as_method: bool) -> None:
    main = link_prediction.setdefault("main", None) or link_prediction.update(main=_main("link_prediction"))
    main = link_prediction["main"]
    assert main(by_degree, as_method, num_workers=1) > 0.8


def test_several_types_from_a_folder(dgl_is_dglite: None, tmp_path: Path) -> None:
    assert _main("hetero_rgcn")(tmp_path) > 0.7


@pytest.mark.parametrize("mode", ["temporal_sample_neighbor", "temporal_sample_layer_neighbor"])
def test_temporal(dgl_is_dglite: None, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _main("temporal")(mode) > 1000


@pytest.mark.parametrize("workers", [0, 2])
def test_features_on_disk_and_layers_of_pyg(dgl_is_dglite: None, tmp_path: Path, workers: int) -> None:
    assert _main("disk")(tmp_path, workers) > 0.85
