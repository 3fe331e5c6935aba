"""Rendered source becomes a module in the cache folder, once."""

from __future__ import annotations

import ctypes
import shutil
import traceback
from functools import cache
from pathlib import Path

import pytest

from dglite.errors import DGLWarning
from dglite.kernels import store
from dglite.kernels.cpu.compile import jit, machine, translate

SOURCE = '"""A kernel for a test."""\n\nVALUE = {value}\n'


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_faults", [])


def test_the_source_is_kept_as_a_file_and_loaded_once(tmp_path):
    module = jit.load_source("test", SOURCE.format(value=1))
    assert module.VALUE == 1 and Path(module.__file__).read_text() == SOURCE.format(value=1)
    assert Path(module.__file__).parent == tmp_path / "kernels"
    assert jit.load_source("test", SOURCE.format(value=1)) is module
    assert jit.load_source("test", SOURCE.format(value=2)).VALUE == 2


def test_a_damaged_file_is_written_anew(tmp_path):
    source = SOURCE.format(value=3)
    path = store.folder("kernels") / f"{jit._name('test', source)}.py"
    path.write_text("VALUE = 'damaged'")
    assert jit.load_source("test", source).VALUE == 3 and path.read_text() == source


def test_without_a_folder_source_is_loaded_from_memory(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(DGLWarning, match="cannot be used"):
        module = jit.load_source("test", "def fail():\n    raise ValueError\n")
    with pytest.raises(ValueError) as failure:
        module.fail()
    assert traceback.extract_tb(failure.tb)[-1].line == "raise ValueError"


KERNEL = """from dglite.kernels.cpu.lanes import simd

put = simd.storer("int64", 1)


def first(address):
    put(address, {value})


def second(address):
    put(address, {value} + 1)
"""


def results(kernels: dict[str, int]) -> list[int]:
    """Return what the functions of ``KERNEL`` write."""
    cell, written = ctypes.c_int64(), []
    for address in kernels.values():
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(ctypes.addressof(cell))
        written.append(cell.value)
    return written


@pytest.fixture
def translations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each translation."""
    done: list[int] = []
    monkeypatch.setattr(translate, "translate", lambda *given, make=translate.translate: done.append(1) or make(*given))
    return done


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_engine", cache(machine._engine.__wrapped__))
    monkeypatch.setattr(jit, "_addresses", {})


def test_object_code_is_kept(monkeypatch, tmp_path, translations):
    kernels = jit.compile_kernels("test", KERNEL.format(value=30))
    assert list(kernels) == ["first", "second"] and results(kernels) == [30, 31]
    assert jit.compile_kernels("test", KERNEL.format(value=30)) is kernels
    (path,) = (tmp_path / "kernels").glob("*.py")
    assert path.read_text() == KERNEL.format(value=30)
    another_process(monkeypatch)
    assert results(jit.compile_kernels("test", KERNEL.format(value=30))) == [30, 31] and len(translations) == 1


def test_object_code_that_is_not_its_own_is_made_anew(monkeypatch, tmp_path, translations):
    jit.compile_kernels("test", KERNEL.format(value=40))
    (other,) = (tmp_path / "kernels").glob("*.o")
    shutil.move(other, tmp_path)
    jit.compile_kernels("test", KERNEL.format(value=50))
    (path,) = (tmp_path / "kernels").glob("*.o")
    shutil.copy(tmp_path / other.name, path)
    another_process(monkeypatch)
    with pytest.warns(DGLWarning, match="is damaged"):
        assert results(jit.compile_kernels("test", KERNEL.format(value=50))) == [50, 51]
    another_process(monkeypatch)
    assert results(jit.compile_kernels("test", KERNEL.format(value=50))) == [50, 51] and len(translations) == 3


def test_object_code_is_that_of_the_modules_it_is_compiled_with(monkeypatch, translations):
    jit.compile_kernels("test", KERNEL.format(value=60))
    another_process(monkeypatch)
    monkeypatch.setattr(jit, "_COMPILED_WITH", b"edited")
    jit.compile_kernels("test", KERNEL.format(value=60))
    assert len(translations) == 2


def test_what_is_refused_is_compiled_by_numba_with_one_warning(monkeypatch):
    def refuse(*given):
        raise TypeError("no statement of kernels")

    monkeypatch.setattr(translate, "translate", refuse)
    with pytest.raises(TypeError, match="no statement of kernels"):
        jit.compile_kernels("test", KERNEL.format(value=600))
    monkeypatch.delenv("DGLITE_COMPILER")
    monkeypatch.setattr(jit, "_refused", [])
    with pytest.warns(DGLWarning, match=r"could not be translated \(TypeError: no statement of kernels\)") as caught:
        kernels = [jit.compile_kernels("test", KERNEL.format(value=value)) for value in (600, 700)]
    assert len(caught) == 1
    assert [results(each) for each in kernels] == [[600, 601], [700, 701]]


def test_code_that_makes_no_sense_is_refused():
    """A value is used where control may not have met it: LLVM reads that, and would make something of it."""
    text = "define void @f(i1 %c) {\n br i1 %c, label %a, label %b\na:\n %x = add i64 1, 2\n br label %b\nb:\n "
    with pytest.raises(RuntimeError, match="dominate"):
        machine.assemble(text + "%y = add i64 %x, 1\n ret void\n}")


def test_debug_level_2_prints_the_source(monkeypatch, capsys):
    monkeypatch.setenv("DGLITE_DEBUG", "2")
    jit.load_source("test", SOURCE.format(value=4))
    assert "VALUE = 4" in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "ratio"), [("float32", 4), ("float16", 4), ("bfloat16", 4), ("float64", 8)])
def test_a_block_is_a_power_of_two_of_lanes_for_every_dtype(dtype, ratio):
    lanes = jit.block_lanes(dtype)
    assert lanes * ratio in (256, 512) and lanes & (lanes - 1) == 0
