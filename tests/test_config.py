"""Settings: environment first, then the configuration file, then the default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dglite import config
from dglite.errors import DGLError


@pytest.fixture(autouse=True)
def empty_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("DGLITE_BACKEND", "DGLBACKEND", "DGLITE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


def test_backend_name_in_order_of_precedence(monkeypatch, empty_home):
    assert config.backend_name() == "torch"
    (empty_home / ".dglite").mkdir()
    (empty_home / ".dglite" / "config.json").write_text('{"backend": "numpy"}')
    assert config.backend_name() == "numpy"
    monkeypatch.setenv("DGLBACKEND", "pytorch")
    assert config.backend_name() == "torch"
    monkeypatch.setenv("DGLITE_BACKEND", "CuPy")
    assert config.backend_name() == "cupy"


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_broken_configuration_file_is_named(empty_home, content):
    (empty_home / ".dglite").mkdir()
    (empty_home / ".dglite" / "config.json").write_text(content)
    with pytest.raises(DGLError, match=r"config\.json"):
        config.backend_name()


def test_debug_level(monkeypatch):
    assert config.debug_level() == 0
    monkeypatch.setenv("DGLITE_DEBUG", "2")
    assert config.debug_level() == 2
    monkeypatch.setenv("DGLITE_DEBUG", "loud")
    with pytest.raises(DGLError, match="'loud' is not understood"):
        config.debug_level()


def test_an_unknown_backend_fails_at_import():
    code = "import os; os.environ['DGLITE_BACKEND'] = 'jaxx'\nimport dglite"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0 and "unknown backend 'jaxx'; expected one of torch" in run.stderr


def test_a_home_that_cannot_be_looked_into_has_no_configuration(monkeypatch):
    def refuse(*given: object, **named: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "stat", refuse)
    assert config.backend_name() == "torch"

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert config.backend_name() == "torch"


def test_cache_limit(monkeypatch):
    monkeypatch.delenv("DGLITE_CACHE_SIZE", raising=False)
    assert config.cache_limit() == 2**30
    monkeypatch.setenv("DGLITE_CACHE_SIZE", "2")
    assert config.cache_limit() == 2**21
    monkeypatch.setenv("DGLITE_CACHE_SIZE", "-1")
    with pytest.raises(DGLError, match="'-1' is not understood; expected a number of megabytes"):
        config.cache_limit()


def test_without_torch_the_backend_is_numpy(empty_home):
    code = "import sys; sys.modules['torch'] = None; import dglite.nn, dglite.data.ogb; print(dglite.backend.name)"
    environment = {"HOME": str(empty_home), "PYTHONPATH": str(Path(config.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("numpy\n", "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("2000000", 2_000_000),
        ("4G", 4 << 30),
        ("1.5g", 3 << 29),
        ("512MiB", 512 << 20),
        ("8 k", 8 << 10),
        ("4T", 4 << 40),
    ]
    + [(bad, None) for bad in ("-1", "G", "lots", "1e9", "4GG", "٤G")],
)
def test_limit_of_the_memory_pool(monkeypatch, value, expected):
    monkeypatch.setenv("DGLITE_POOL", value)
    if expected is None:
        with pytest.raises(DGLError, match=r"DGLITE_POOL=.* is not understood; expected bytes, such as 4G"):
            config.pool_limit()
    else:
        assert config.pool_limit() == expected


def test_limit_of_the_memory_pool_without_a_choice(monkeypatch):
    monkeypatch.delenv("DGLITE_POOL", raising=False)
    monkeypatch.setattr(config, "_memory", lambda: 10 << 30)
    assert config.pool_limit() == 5 << 30
    monkeypatch.setattr(config, "_memory", lambda: 0)
    assert config.pool_limit() > 0
    monkeypatch.undo()
    assert (1 << 26) < config._memory() < (1 << 50)
