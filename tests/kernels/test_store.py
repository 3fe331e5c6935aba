"""The kernel cache takes nothing damaged or foreign, keeps to its size, and no fault of the disk stops a program."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import pytest

from dglite.errors import DGLWarning
from dglite.kernels import store

KEY, OTHER = b"k" * 32, b"o" * 32
posix = pytest.mark.skipif(os.name != "posix", reason="access to files is told otherwise here")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a cache folder that is not there yet; warnings are as in a fresh process."""
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_faults", [])
    monkeypatch.setattr(store, "_grown", {})
    return tmp_path / "cache"


def kept(name: str, key: bytes = KEY) -> bytes | None:
    """Return what the cache has under a name; nothing may be wrong with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return store.read("kernels", name, key)


def test_what_is_written_is_read_under_its_key():
    assert kept("a") is None
    store.write("kernels", "a", KEY, b"code")
    assert kept("a") == b"code"
    with pytest.warns(DGLWarning, match="a is damaged"):
        assert store.read("kernels", "a", OTHER) is None


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: os.urandom(500), lambda data: data[:-1]])
def test_what_is_damaged_is_not_taken(own_cache, damage):
    store.write("kernels", "a", KEY, b"code")
    path = own_cache / "kernels" / "a"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(DGLWarning, match="a is damaged"):
        assert store.read("kernels", "a", KEY) is None
    store.write("kernels", "a", KEY, b"code")
    assert kept("a") == b"code"


def test_a_fault_is_told_once(own_cache):
    own_cache.write_text("a file where the folder should be")
    with pytest.warns(DGLWarning, match="DGLITE_CACHE_DIR names a folder") as caught:
        for kind in store.KINDS:
            store.write(kind, "a", KEY, b"code")
            assert store.read(kind, "a", KEY) is None and store.folder(kind) is None
    assert len(caught) == 1


def test_a_full_disk_leaves_nothing_behind(monkeypatch, own_cache):
    def full(handle: int, mode: str) -> None:
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.os, "fdopen", full)
    with pytest.warns(DGLWarning, match="No space left"):
        store.write("kernels", "a", KEY, b"code")
    assert not list((own_cache / "kernels").iterdir())


def chown(path: Path) -> None:
    """Give a file or folder to another user."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 12345, -1)


@posix
@pytest.mark.parametrize("inner", ["", "kernels", "kernels/a"])
@pytest.mark.parametrize(
    "share", [lambda path: path.chmod(0o770), lambda path: path.chmod(0o707), chown], ids=["group", "all", "owner"]
)
def test_what_others_can_write_to_is_refused(own_cache, inner, share):
    store.write("kernels", "a", KEY, b"code")
    store._checked.cache_clear()  # as another process
    share(own_cache / inner)
    with pytest.warns(DGLWarning, match="other users can write to") as caught:
        assert store.read("kernels", "a", KEY) is None
        store.write("kernels", "b", KEY, b"code")
    assert len(caught) == 1
    assert (own_cache / "kernels" / "b").exists() == (inner == "kernels/a")


@posix
def test_folders_are_made_for_this_user_only(own_cache):
    before = os.umask(0)
    try:
        store.write("kernels", "a", KEY, b"code")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (own_cache, own_cache / "kernels")} == {0o700}
    assert kept("a") == b"code"


def put(label: str, kind: str = "kernels", age: int = 0) -> Path:
    """Write 0.4 MB that was last used ``age`` days ago."""
    name = store.file_name(label, KEY, ".o")
    store.write(kind, name, KEY, bytes(400_000))
    path = store.folder(kind) / name
    os.utime(path, (path.stat().st_mtime - 86400 * age,) * 2)
    return path


def test_what_was_not_used_for_longest_is_removed(monkeypatch):
    paths = [put("old", age=30), put("used", age=20), put("newer", age=10)]
    assert kept(paths[1].name) is not None
    strange = paths[0].with_name("notes.txt")
    strange.write_bytes(bytes(2**21))
    os.utime(strange, (1, 1))
    monkeypatch.setenv("DGLITE_CACHE_SIZE", "1")
    assert put("newest", kind="cuda").exists()
    assert [path.exists() for path in [*paths, strange]] == [False, True, False, True]


def test_a_folder_in_the_cache_goes_as_a_whole(monkeypatch):
    folder = store.folder("emulated") / store.file_name("header", KEY, "")
    folder.mkdir()
    for name in ("one", "other"):
        (folder / name).write_bytes(bytes(600_000))
        os.utime(folder / name, (1, 1))
    monkeypatch.setenv("DGLITE_CACHE_SIZE", "1")
    assert put("new").exists() and not folder.exists()


def test_a_cache_of_no_size_keeps_nothing(monkeypatch, own_cache):
    monkeypatch.setenv("DGLITE_CACHE_SIZE", "0")
    store.write("kernels", "a", KEY, b"code")
    assert kept("a") is None and not list((own_cache / "kernels").iterdir())
