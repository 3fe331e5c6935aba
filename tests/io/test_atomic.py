"""Files are there in whole or not at all, and writers leave nothing else behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dglite
from dglite import DGLError
from dglite.io import atomic, save_tensors
from dglite.io.atomic import replacing


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in ("one", "two"):
        with replacing(path) as part:
            part.write_text(text)
            assert not path.exists() or path.read_text() == "one"
        assert path.read_text() == text
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("stop", [OSError, ValueError, KeyboardInterrupt, SystemExit])
def test_what_stops_a_writer_leaves_nothing(tmp_path: Path, stop: type[BaseException]) -> None:
    with pytest.raises(stop), replacing(tmp_path / "new" / "folders" / "x", parents=True) as part:
        part.write_text("half")
        raise stop
    assert not os.listdir(tmp_path)


def test_folders_that_were_there_or_are_used_stay(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(ValueError), replacing(tmp_path / "old" / "new" / "x", parents=True):
        (tmp_path / "old" / "new" / "others").touch()
        raise ValueError
    assert os.listdir(tmp_path / "old" / "new") == ["others"]


def test_a_long_name_is_no_hindrance(tmp_path: Path) -> None:
    with replacing(tmp_path / ("x" * 255)) as part:
        part.write_text("text")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "absent" / "x"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(DGLError, match="cannot be written"):
        save_tensors(tmp_path / "file" / "x", {})
    assert os.listdir(tmp_path) == ["file"]


KILLED = """
import os, signal, sys
from pathlib import Path
from dglite.io.atomic import replacing
with replacing(Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="whether a process runs is asked by POSIX's means")
def test_what_a_killed_process_left_is_removed_by_the_next_save(tmp_path: Path) -> None:
    path = tmp_path / "x"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    )
    assert run.returncode == -signal.SIGKILL and len(os.listdir(tmp_path)) == 1
    with replacing(path) as part:
        with replacing(path) as other:  # of a process that runs
            other.write_text("first")
        part.write_text("second")
    assert os.listdir(tmp_path) == ["x"] and path.read_text() == "second"


def test_a_file_that_windows_holds_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(part: Path, path: Path) -> None:
        raise PermissionError(13, "Access is denied")

    path = tmp_path / "graphs.bin"
    g = dglite.graph(([0], [1]))
    dglite.save_graphs(str(path), g)
    before = path.read_bytes()
    monkeypatch.setattr(atomic, "_IN_USE_STAYS", True)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(DGLError, match="in use, perhaps by a graph that was loaded from it: delete that"):
        dglite.save_graphs(str(path), g)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["graphs.bin"]
