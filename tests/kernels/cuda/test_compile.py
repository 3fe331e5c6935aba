"""The rendered kernels compile for every generation of GPUs: by NVRTC as they are on a GPU, and by nvcc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from dglite.errors import DGLError, DGLWarning
from dglite.expr import Operand, Side
from dglite.kernels import store
from dglite.kernels.cuda.graph.sparse import AHEAD, bind_spmm
from dglite.kernels.cuda.run import nvrtc
from dglite.kernels.cuda.run.launch import binary
from dglite.kernels.cuda.run.nvrtc import Nvrtc, find_nvrtc
from dglite.kernels.cuda.run.program import CudaProgram, library
from dglite.opspec import Reducer
from tests.kernels.cuda.figures import figures_of
from tests.kernels.cuda.programs import processors, programs, wide_sum

ARCHS = [70, 80, 90, 100]
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
COMPILER = find_nvrtc(newest=99)
needs_nvrtc = pytest.mark.skipif(COMPILER is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12")


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
    if arch not in COMPILER.architectures:
        pytest.skip(f"{COMPILER} no longer compiles for sm_{arch}")
    result = programs() if FULL else programs()[ARCHS.index(arch) :: len(ARCHS)]
    for program in result:
        assert binary(COMPILER, program, arch).startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", ARCHS)
def test_nvcc_takes_every_program(arch, tmp_path):
    if arch not in nvcc_archs():
        pytest.skip(f"no nvcc, or none that compiles for sm_{arch}: it knows {sorted(nvcc_archs()) or 'nothing'}")
    if arch != 90 and not FULL:
        pytest.skip("one architecture of nvcc is tried; the others with --full")
    result = programs()
    parts = tuple(dict.fromkeys(part for program in result for part in program.parts))
    source = tmp_path / "kernels.cu"
    source.write_text(library(parts) + "".join(program.body for program in result), encoding="utf-8")
    command = ["nvcc", "-std=c++17", f"-arch=sm_{arch}", "-cubin", str(source), "-o", str(tmp_path / "kernels.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def ptx(program: CudaProgram) -> str:
    """Return what a program is for the newest architecture up to 9.0."""
    known = max(number for number in COMPILER.architectures if number <= 90)
    options = ["-std=c++17", "-default-device", f"-arch=compute_{known}"]
    return COMPILER.compile(program.text, "program.cu", options, real=False).decode()


@needs_nvrtc
def test_rows_are_read_in_vectors():
    """A row of 64 float32 is read 16 bytes at a time by the read-only path, and written so."""
    rows = re.search(r"\.entry \w+_rows\(.*?^}", ptx(wide_sum()), re.DOTALL | re.MULTILINE).group()
    assert "ld.global.nc.v4" in rows and "st.global.wb.v4" in rows


@needs_nvrtc
def test_the_rows_of_several_entries_are_under_way_together():
    """All are asked for before the first is used, with no branch between: else each is waited for alone."""
    rows = re.search(r"\.entry \w+_rows\(.*?^}", ptx(wide_sum()), re.DOTALL | re.MULTILINE).group()
    kinds = re.findall(r"ld\.global\.nc\.v4|fma\.rn\.f32|\bbra\b", rows)
    first, end = kinds.index("ld.global.nc.v4"), kinds.index("fma.rn.f32")
    assert kinds[first:end] == ["ld.global.nc.v4"] * AHEAD


@needs_nvrtc
def test_persistent_processors_hold_rows_in_registers():
    """Nothing that is indexed is left for memory of a thread's own, and nothing is read by the read-only path."""
    text = ptx(processors())
    assert text.count("fma.rn.f32") > 100
    assert ".local" not in text and "ld.global.nc" not in text


@needs_nvrtc
@pytest.mark.parametrize("arch", [80, 90, 100])
def test_no_register_is_spilled(arch):
    if arch > 90 and COMPILER.version < (12, 8):
        pytest.skip("this NVRTC is older than the processor")
    (rows,) = [kernel for kernel in figures_of(COMPILER, wide_sum(), arch) if kernel.kernel == "rows"]
    assert rows.spilled == 0 and 16 < rows.registers <= 64


@needs_nvrtc
@pytest.mark.parametrize("argmax", [False, True])
@pytest.mark.parametrize("arch", [80, 90])
def test_maxima_of_eight_values_leave_room_for_four_blocks(arch, argmax):
    """At 79 registers, and six vectors under way, a maximum of bfloat16 took 1.7 times as long as before on an H200."""
    kernel = bind_spmm(Operand(Side.U, 0), Reducer.MAX, "bfloat16", "int32", ((128,),), argmax)
    spec, program = kernel.program([0], 0, 20.0)
    assert (spec.vec, spec.ahead) == (8, 2)
    (rows,) = [each for each in figures_of(COMPILER, program, arch) if each.kernel == "rows"]
    assert rows.spilled == 0 and rows.registers <= 64


@needs_nvrtc
def test_binaries_are_kept_and_found_again(monkeypatch):
    known = max(COMPILER.architectures)
    first = binary(COMPILER, wide_sum(), known)
    monkeypatch.setattr(Nvrtc, "compile", None)
    assert binary(COMPILER, wide_sum(), known) == first


class Compiler:
    """Stands for NVRTC; what it makes of a program is the program's text, in PTX or not."""

    version, architectures = (12, 9), (80, 90)

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def compile(self, text: str, name: str, options: list[str], real: bool) -> bytes:
        self.compiled.append(text)
        return text.encode() if real else b"PTX" + text.encode()


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
    assert b".target sm_" in binary(COMPILER, wide_sum(), 999)


@needs_nvrtc
def test_errors_show_the_compilers_log():
    broken = CudaProgram("broken", ("common",), "this is no kernel", ("rows",))
    with pytest.raises(DGLError, match=r"(?s)NVRTC does not take broken.*error"):
        binary(COMPILER, broken, max(COMPILER.architectures))
    with pytest.raises(DGLError, match=r"no longer compiles for GPUs of compute capability 1\.0, only from"):
        binary(COMPILER, wide_sum(), 10)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str], list[str]], None]:
    """Return what sets the places in which libraries are looked for, each a list of versions, "" for a broken one."""

    def library(path: str) -> SimpleNamespace:
        if not path:
            raise OSError
        return SimpleNamespace(version=(int(path), 0))

    def places(*paths: list[str]) -> None:
        monkeypatch.setattr(nvrtc, "SOURCES", tuple(lambda paths=paths: paths for paths in paths))

    monkeypatch.setattr(nvrtc, "Nvrtc", library)
    return places


@pytest.mark.parametrize(
    ("first", "second", "newest", "version"),
    [
        (["13", "12"], ["11"], 13, 13),
        (["13", "12"], ["11"], 12, 12),
        (["13"], ["", "12"], 12, 12),
        (["13"], ["14"], 12, 13),
        ([], ["", "12"], 13, 12),
    ],
)
def test_the_compiler_is_not_newer_than_the_driver(sources, first, second, newest, version):
    sources(first, second)
    assert find_nvrtc(newest).version[0] == version


def test_there_may_be_no_compiler(sources):
    sources([], [""])
    assert find_nvrtc(13) is None


def test_libraries_are_told_by_their_names():
    paths = [
        "/torch/lib/libnvrtc-b51b459d.so.12",
        "/torch/lib/libnvrtc-builtins-a1.so.12.4",
        "/torch/lib/libcaffe2_nvrtc.so",
        "/nvidia/cu13/lib/libnvrtc.so.13",
        "/nvidia/cu13/lib/libnvrtc.alt.so.13",
        "/nvidia/cu13/lib/libnvrtc-builtins.so.13.5",
        "/nvidia/cu13/lib/libnvrtc.so.13.5.20",
        r"C:\nvidia\bin\nvrtc64_120_0.dll",
        r"C:\nvidia\bin\nvrtc-builtins64_120.dll",
    ]
    assert nvrtc._newest_first(paths) == [paths[3], paths[6], paths[0], paths[7]]


def test_packages_that_load_the_library_themselves_are_asked(monkeypatch):
    """``cuda.pathfinder`` comes with ``cuda.core``; CuPy loads NVRTC when its version is asked for."""
    asked: list[str] = []
    result = SimpleNamespace(load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path=f"/cuda/{name}"))
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", result)
    assert nvrtc._by_pathfinder() == ["/cuda/nvrtc"]
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    assert nvrtc._by_pathfinder() == []
    cupy = SimpleNamespace(nvrtc=SimpleNamespace(getVersion=lambda: asked.append("version")))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cupy))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy)
    monkeypatch.setattr(nvrtc, "_loaded", lambda: [f"/cupy/{len(asked)}"])
    assert nvrtc._of_cupy() == ["/cupy/1"]


@needs_nvrtc
def test_a_library_that_the_process_has_loaded_is_taken_first():
    assert nvrtc._loaded() and find_nvrtc(99).path == nvrtc._loaded()[0]
