"""The rendered kernels compile for every generation of GPUs: by NVRTC as they are on a GPU, and by nvcc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dglite.errors import DGLError, DGLWarning
from dglite.kernels import store
from dglite.kernels.cuda.run.launch import binary
from dglite.kernels.cuda.run.program import CudaProgram, library
from tests.kernels.cuda import nvrtc
from tests.kernels.cuda.programs import processors, programs, wide_sum

ARCHS = [70, 80, 90]
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
needs_nvrtc = pytest.mark.skipif(nvrtc.find() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12")


@cache
def nvcc_archs() -> frozenset[int]:
    """Return the compute capabilities that this machine's nvcc knows."""
    if shutil.which("nvcc") is None:
        return frozenset()
    listed = subprocess.run(["nvcc", "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    return frozenset(int(number) for number in re.findall(r"compute_(\d+)", listed))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path))


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_nvrtc_takes_every_program(arch):
    """With --full; else every program for one of the architectures."""
    compiler = nvrtc.find()
    if arch not in compiler.getSupportedArchs():
        pytest.skip(f"NVRTC {compiler.getVersion()} no longer compiles for sm_{arch}")
    made = programs() if FULL else programs()[ARCHS.index(arch) :: len(ARCHS)]
    for program in made:
        assert binary(compiler, program, arch).startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", ARCHS)
def test_nvcc_takes_every_program(arch, tmp_path):
    if arch not in nvcc_archs():
        pytest.skip(f"no nvcc, or none that compiles for sm_{arch}: it knows {sorted(nvcc_archs()) or 'nothing'}")
    if arch != 90 and not FULL:
        pytest.skip("one architecture of nvcc is tried; the others with --full")
    made = programs()
    parts = tuple(dict.fromkeys(part for program in made for part in program.parts))
    source = tmp_path / "kernels.cu"
    source.write_text(library(parts) + "".join(program.body for program in made), encoding="utf-8")
    command = ["nvcc", "-std=c++17", f"-arch=sm_{arch}", "-cubin", str(source), "-o", str(tmp_path / "kernels.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def ptx(program: CudaProgram) -> str:
    """Return what a program is for the newest architecture up to 9.0."""
    compiler = nvrtc.find()
    known = max(number for number in compiler.getSupportedArchs() if number <= 90)
    made = compiler.createProgram(program.text, "program.cu", [], [])
    compiler.compileProgram(made, ["-std=c++17", "-default-device", f"-arch=compute_{known}"])
    text = compiler.getPTX(made)
    compiler.destroyProgram(made)
    return text


@needs_nvrtc
def test_rows_are_read_in_vectors():
    """A row of 64 float32 is read 16 bytes at a time by the read-only path, and written so."""
    rows = re.search(r"\.entry \w+_rows\(.*?^}", ptx(wide_sum()), re.DOTALL | re.MULTILINE).group()
    assert "ld.global.nc.v4" in rows and "st.global.wb.v4" in rows


@needs_nvrtc
def test_persistent_processors_hold_rows_in_registers():
    """Nothing that is indexed is left for memory of a thread's own, and nothing is read by the read-only path."""
    text = ptx(processors())
    assert text.count("fma.rn.f32") > 100
    assert ".local" not in text and "ld.global.nc" not in text


@needs_nvrtc
def test_binaries_are_kept_and_found_again(monkeypatch):
    compiler = nvrtc.find()
    known = max(compiler.getSupportedArchs())
    first = binary(compiler, wide_sum(), known)
    monkeypatch.setattr(type(compiler), "compileProgram", None)
    assert binary(compiler, wide_sum(), known) == first


class Compiler:
    """Stands for NVRTC; what it makes of a program is the program's text, in PTX or not."""

    NVRTCError = nvrtc.NVRTCError

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def getVersion(self) -> tuple[int, int]:
        return 12, 9

    def getSupportedArchs(self) -> list[int]:
        return [80, 90]

    def createProgram(self, text: str, name: str, headers: list, names: list) -> str:
        return text

    def compileProgram(self, made: str, options: list[str]) -> None:
        self.compiled.append(made)

    def getCUBIN(self, made: str) -> bytes:
        return made.encode()

    def getPTX(self, made: str) -> str:
        return "PTX" + made

    def destroyProgram(self, made: str) -> None:
        pass


def test_a_binary_that_is_not_its_own_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "_faults", [])
    compiler, first, second = Compiler(), wide_sum(), processors()
    for _ in range(2):
        assert binary(compiler, first, 90) == first.text.encode()
    (path,) = (tmp_path / "cuda").iterdir()
    assert binary(compiler, second, 90) == second.text.encode() and len(compiler.compiled) == 2
    (other,) = set((tmp_path / "cuda").iterdir()) - {path}
    path.write_bytes(other.read_bytes())
    with pytest.warns(DGLWarning, match="is damaged"):
        assert binary(compiler, first, 90) == first.text.encode()
    assert compiler.compiled == [first.text, second.text, first.text]
    assert binary(compiler, first, 100) == b"PTX" + first.text.encode()


@needs_nvrtc
def test_a_gpu_newer_than_the_compiler_gets_ptx():
    compiler = nvrtc.find()
    assert b".target sm_" in binary(compiler, wide_sum(), 999)


@needs_nvrtc
def test_errors_show_the_compilers_log():
    broken = CudaProgram("broken", ("common",), "this is no kernel", ("rows",))
    with pytest.raises(DGLError, match=r"(?s)NVRTC does not take broken.*error"):
        binary(nvrtc.find(), broken, max(nvrtc.find().getSupportedArchs()))
    with pytest.raises(DGLError, match="no support for compute capability"):
        binary(nvrtc.find(), wide_sum(), 10)
