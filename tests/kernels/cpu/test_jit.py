"""Kernel source is compiled once, and its object code is kept in the cache folder."""

from __future__ import annotations

import ctypes
import shutil
from functools import cache
from pathlib import Path

import llvmlite
import pytest

from dglite.errors import DGLWarning
from dglite.kernels import store
from dglite.kernels.cpu.compile import jit, machine, translate


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_faults", [])


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


def test_an_error_of_llvm_names_its_release(monkeypatch):
    monkeypatch.setattr(translate, "translate", lambda *given: "define void @f( {")
    with pytest.raises(RuntimeError, match="parsing error") as failure:
        jit.compile_kernels("test", KERNEL.format(value=600))
    assert f"llvmlite {llvmlite.__version__} refused" in failure.value.__notes__[0]


def test_code_that_makes_no_sense_is_refused():
    """A value is used where control may not have met it: LLVM reads that, and would make something of it."""
    text = "define void @f(i1 %c) {\n br i1 %c, label %a, label %b\na:\n %x = add i64 1, 2\n br label %b\nb:\n "
    with pytest.raises(RuntimeError, match="dominate"):
        machine.assemble(text + "%y = add i64 %x, 1\n ret void\n}")


def test_debug_level_2_prints_the_source(monkeypatch, capsys):
    monkeypatch.setenv("DGLITE_DEBUG", "2")
    jit.compile_kernels("test", KERNEL.format(value=4))
    assert KERNEL.format(value=4) in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "ratio"), [("float32", 4), ("float16", 4), ("bfloat16", 4), ("float64", 8)])
def test_a_block_is_a_power_of_two_of_lanes_for_every_dtype(dtype, ratio):
    lanes = jit.block_lanes(dtype)
    assert lanes * ratio in (256, 512) and lanes & (lanes - 1) == 0
