"""Products in one thread or in many are the same, and leave the number of threads as it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dglite.backend import rules as blas


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of threads that are set; there are 4 before."""
    numbers = [4]
    namespace = SimpleNamespace(get=lambda: numbers[-1], set=numbers.append)
    monkeypatch.setattr(blas, "_threads", lambda: namespace)
    return numbers


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,))])
def test_small_products_take_one_thread(shapes: tuple[tuple[int, ...], ...], threads: list[int]) -> None:
    x, y = (np.random.default_rng(0).standard_normal(shape) for shape in shapes)
    np.testing.assert_array_equal(blas.product(x, y), np.matmul(x, y))
    assert threads == [4, 1, 4]


def test_large_products_and_other_libraries_arrays_are_left_alone(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    blas.product(np.ones((3, 4)).view(type("Other", (np.ndarray,), {})), np.ones((4, 5)))
    monkeypatch.setattr(blas, "WORTH_THREADS", 60)
    blas.product(np.ones((3, 4)), np.ones((4, 5)))
    assert threads == [4]


def test_threads_come_back_after_an_error(threads: list[int]) -> None:
    with pytest.raises(ValueError, match="matmul"):
        blas.product(np.ones((3, 4)), np.ones((3, 4)))
    assert threads == [4, 1, 4]


def test_what_somebody_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert blas._threads.__wrapped__() is None


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="the system has no list of loaded libraries")
def test_openblas_is_found_in_a_folder_with_spaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "a folder" / "libopenblas.so"
    maps = f"7f00-7f01 r--p 00000000 fe:00 42    {library}\n7f01-7f02 r-xp 00001000 fe:00 42    {library}\n"
    opened: list[str] = []
    functions = {name.format(what): what for name in blas._NAMES for what in ("get", "set")}
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: maps)
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda path: opened.append(path) or SimpleNamespace(**functions))
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert blas._threads.__wrapped__() == ("get", "set")
    assert opened == [str(library)]


def test_openblas_is_found_where_it_is() -> None:
    result = blas._threads.__wrapped__()
    if result is None:
        pytest.skip("no OpenBLAS in this process")
    before = result.get()
    result.set(1)
    assert result.get() == 1
    result.set(before)
    assert result.get() == before
