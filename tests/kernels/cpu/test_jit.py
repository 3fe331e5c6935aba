"""Rendered source becomes a module in the cache folder, once."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import pytest

from dglite.kernels.cpu import jit, machine, translate

SOURCE = '"""A kernel for a test."""\n\nVALUE = {value}\n'


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path))
    jit._folder.cache_clear()
    yield
    jit._folder.cache_clear()


def test_the_source_is_kept_as_a_file_and_loaded_once(tmp_path):
    module = jit.load_source("test", SOURCE.format(value=1))
    assert module.VALUE == 1 and Path(module.__file__).read_text() == SOURCE.format(value=1)
    assert Path(module.__file__).parent == tmp_path / "kernels"
    assert jit.load_source("test", SOURCE.format(value=1)) is module
    assert jit.load_source("test", SOURCE.format(value=2)).VALUE == 2


def test_a_damaged_file_is_written_anew(tmp_path):
    source = SOURCE.format(value=3)
    path = jit._write(f"test_{jit._digest(source)}", source)
    path.write_text("VALUE = 'damaged'")
    assert jit.load_source("test", source).VALUE == 3


def test_a_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path / "file"))
    jit._folder.cache_clear()
    folder = jit._folder()
    assert folder.is_dir() and tmp_path not in folder.parents


KERNEL = """from dglite.kernels.cpu import simd

put = simd.storer("int64", 1)


def first(address):
    put(address, {value})


def second(address):
    put(address, {value} + 1)
"""


def found(kernels: dict[str, int]) -> list[int]:
    """Return what the functions of ``KERNEL`` write."""
    cell, written = ctypes.c_int64(), []
    for address in kernels.values():
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(ctypes.addressof(cell))
        written.append(cell.value)
    return written


def test_object_code_is_kept_and_made_anew_where_it_is_damaged(monkeypatch, tmp_path):
    kernels = jit.compile_kernels("test", KERNEL.format(value=30))
    assert list(kernels) == ["first", "second"] and found(kernels) == [30, 31]
    assert jit.compile_kernels("test", KERNEL.format(value=30)) is kernels
    (path,) = (tmp_path / "kernels").glob("*.o")
    assert path.with_suffix(".py").read_text() == KERNEL.format(value=30)
    made = []
    monkeypatch.setattr(translate, "translate", lambda *given, make=translate.translate: made.append(1) or make(*given))
    for damage, times in ((b"", 0), (b"x", 1)):
        path.write_bytes(path.read_bytes() + damage)
        monkeypatch.setattr(machine, "_engine", cache(machine._engine.__wrapped__))  # as another process
        monkeypatch.setattr(jit, "_addresses", {})
        assert found(jit.compile_kernels("test", KERNEL.format(value=30))) == [30, 31] and len(made) == times


def test_debug_level_2_prints_the_source(monkeypatch, capsys):
    monkeypatch.setenv("DGLITE_DEBUG", "2")
    jit.load_source("test", SOURCE.format(value=4))
    assert "VALUE = 4" in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "ratio"), [("float32", 4), ("float16", 4), ("bfloat16", 4), ("float64", 8)])
def test_a_block_is_a_power_of_two_of_lanes_for_every_dtype(dtype, ratio):
    lanes = jit.block_lanes(dtype)
    assert lanes * ratio in (256, 512) and lanes & (lanes - 1) == 0
