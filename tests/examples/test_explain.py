"""The explanation of a paper's field is one: what it keeps gives the prediction, the rest does not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from examples import explain
from tests.examples.conftest import Run

FOLDERS = [Path(os.environ.get("DGLITE_DATA_DIR", "")) / part for part in ("", "planetoid")]


@pytest.mark.skipif(
    not any((folder / "ind.cora.graph").is_file() for folder in FOLDERS),
    reason="DGLITE_DATA_DIR names no folder with ind.cora.graph",
)
def test_a_paper_of_cora(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "reasons.png"
    printed = run(explain, "--epochs", 60, "--steps", 100, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "paper 10 is put into field 0 (its label: 0) from 7 papers and 19 citations" in printed
    chances = [float(chance) for chance in re.findall(r"from .*: (0\.\d+)$", printed, flags=re.MULTILINE)]
    _, of_these, of_others = chances
    assert of_these > of_others + 0.05
