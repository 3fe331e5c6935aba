"""Compiled functions are kept under all that is compiled into them, and are compiled anew where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dglite
from tests.patience import PATIENCE

RUN = """
import sys, warnings
import dglite
assert "llvmlite" not in sys.modules
import numpy as np
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from dglite.kernels.cpu.compile import translate
    passes = []
    translate.translate = lambda *given, work=translate.translate: passes.append(1) or work(*given)
    from dglite.kernels.cpu.compile.jit import compile_kernel
    from dglite.kernels.cpu.sample.labor import _variate
    value = _variate(1, 2, np.array([1.0, 0.0]), 3)
    compile_kernel("test", "def kernel(args, task, tasks):\\n    return\\n")
said = [str(w.message) for w in told if w.category is dglite.DGLWarning]
print(dglite.__file__, value, len(passes), said, sep="|")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of dglite."""
    copy = tmp_path / "dglite"
    shutil.copytree(Path(dglite.__file__).parent, copy)  # and what Python has compiled of other files
    for folder in (copy / "kernels" / "cpu").rglob("__pycache__"):
        shutil.rmtree(folder)
        folder.write_text("")
    return copy


def run(package: Path, cache: Path | str) -> tuple[str, int, str]:
    """Return a variate, how much was compiled, and the warnings of a process without a home."""
    home = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "PYTHONDONTWRITEBYTECODE": "1"}
    env = {**os.environ, **home, "DGLITE_CACHE_DIR": str(cache), "DGLITE_BACKEND": "numpy"}
    env.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, cwd=package.parent, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, value, compiled, message = done.stdout.strip().split("|")
    assert Path(file).parent == package
    return value, int(compiled), message


def test_a_change_in_a_module_that_is_compiled_in_is_seen(package, tmp_path):
    cache = tmp_path / "cache"
    value, compiled, message = run(package, cache)
    assert compiled > 0 and message == "[]"
    assert run(package, cache) == (value, 0, "[]")
    counter = package / "kernels" / "cpu" / "sample" / "counter.py"
    text = counter.read_text()
    assert "0xBF58476D1CE4E5B9" in text
    counter.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5B3"))
    changed, compiled, _ = run(package, cache)
    assert changed != value and compiled > 0


def test_without_a_folder_code_is_compiled_in_memory(package):
    value, compiled, message = run(package, "/proc/none")
    assert float(value) and compiled > 0 and message.count("DGLITE_CACHE_DIR names a folder") == 1


def test_damaged_files_are_replaced(package, tmp_path):
    cache = tmp_path / "cache"
    value, compiled, _ = run(package, cache)
    for i, path in enumerate(sorted((cache / "kernels").iterdir())):
        path.write_bytes(b"" if i % 2 else os.urandom(300))
    again, more, message = run(package, cache)
    assert (again, more) == (value, compiled) and message.count("is damaged") == 1
    assert run(package, cache) == (value, 0, "[]")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_fork_waits_until_other_threads_have_compiled():
    code = """
    import os, signal, threading, time
    from dglite.kernels.cpu.compile import jit, machine
    inside, assemble = threading.Event(), machine.assemble

    def slow(assembly):
        with jit.ffi.lib._lock:
            inside.set()
            time.sleep(0.3)
            return assemble(assembly)

    machine.assemble = slow
    source = "def kernel(args, task, tasks):\\n    return\\n"
    other = threading.Thread(target=jit.compile_kernel, args=("other", source))
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        jit.compile_kernel("child", source)
        os._exit(0)
    other.join()
    jit.compile_kernel("parent", source)
    assert os.waitpid(child, 0)[1] == 0
    """
    env = {**os.environ, "DGLITE_CACHE_SIZE": "0", "DGLITE_BACKEND": "numpy"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, check=True, timeout=PATIENCE)
