"""Files and archives: what is downloaded, checked and unpacked, and what is refused."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import itertools
import lzma
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dglite.data import utils
from dglite.errors import DGLError

CONTENT = b"a file of graphs"
HASH = hashlib.sha1(CONTENT).hexdigest()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with one file."""
    served = tmp_path / "served"
    served.mkdir()
    (served / "graphs.bin").write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/graphs.bin"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("where", ["folder", "file", "working folder"])
def test_download(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = {"folder": tmp_path, "file": tmp_path / "new" / "mine.bin", "working folder": None}[where]
    result = Path(utils.download(url, path, sha1_hash=HASH, log=False))
    assert result == (tmp_path / "new" / "mine.bin" if where == "file" else tmp_path / "graphs.bin")
    assert result.read_bytes() == CONTENT and [x.name for x in result.parent.glob(".*")] == []


def test_a_file_is_kept_or_replaced(url: str, tmp_path: Path) -> None:
    file = tmp_path / "graphs.bin"
    file.write_bytes(b"mine")
    utils.download(url, file, overwrite=False, log=False)
    assert file.read_bytes() == b"mine"
    utils.download(url, file, overwrite=False, sha1_hash=HASH, log=False)
    assert file.read_bytes() == CONTENT
    file.write_bytes(b"mine")
    utils.download(url, file, log=False)
    assert file.read_bytes() == CONTENT


def test_a_failed_download_leaves_the_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "graphs.bin"
    file.write_bytes(b"mine")
    with pytest.raises(DGLError, match="could not be downloaded"):
        utils.download(url, file, sha1_hash="0" * 40, retries=0, log=False)
    with pytest.raises(DGLError, match="could not be downloaded"):
        utils.download(url + ".missing", file, retries=0, log=False)
    with pytest.raises(DGLError, match="names no file"):
        utils.download("http://127.0.0.1/", log=False)
    assert file.read_bytes() == b"mine" and [x.name for x in tmp_path.iterdir()] == ["served", "graphs.bin"]


def test_hashes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    assert utils.check_sha1(tmp_path / "file", HASH.upper()) and not utils.check_sha1(tmp_path / "file", "0" * 40)


def _tar(path: Path, members: dict[str, bytes], mode: str) -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _archive(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        _tar(path, members, "w:gz" if path.suffix in (".gz", ".tgz") else "w")
    return path


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz", "tgz"])
def test_archives(tmp_path: Path, suffix: str) -> None:
    archive = _archive(tmp_path / f"x.{suffix}", {"a.txt": b"one", "inner/b.txt": b"two"})
    utils.extract_archive(str(archive), str(tmp_path / "out"))
    assert (tmp_path / "out" / "inner" / "b.txt").read_bytes() == b"two"
    (tmp_path / "out" / "a.txt").write_bytes(b"mine")
    utils.extract_archive(archive, tmp_path / "out", overwrite=False)
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"mine"
    utils.extract_archive(archive, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"one"


def test_one_packed_file(tmp_path: Path) -> None:
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(CONTENT))
    utils.extract_archive(tmp_path / "x.txt.gz", tmp_path / "out")
    assert (tmp_path / "out" / "x.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz"])
@pytest.mark.parametrize("name", ["../escaped.txt", "inner/../../escaped.txt"])
def test_members_stay_inside(tmp_path: Path, suffix: str, name: str) -> None:
    archive = _archive(tmp_path / f"x.{suffix}", {name: b"out"})
    with pytest.raises(DGLError, match="cannot be unpacked"):
        utils.extract_archive(archive, tmp_path / "out")
    assert not (tmp_path / "escaped.txt").exists()


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.gz", "x.rar"])
def test_what_is_no_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CONTENT)
    with pytest.raises(DGLError, match=r"cannot be unpacked|not a known archive"):
        utils.extract_archive(tmp_path / name, tmp_path / "out")


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DGLITE_DATA_DIR", raising=False)
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "sets"))
    assert utils.get_download_dir() == str(tmp_path / "sets") and (tmp_path / "sets").is_dir()
    utils.makedirs(tmp_path / "a" / "b")
    utils.makedirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("text, dtype", [("1,2\n3,4\n", np.int64), ("1,2.5\n3,4\n", np.float64), ("7\n", np.int64)])
def test_tables(tmp_path: Path, text: str, dtype: type) -> None:
    (tmp_path / "table.csv").write_text(text)
    table = utils.loadtxt(tmp_path / "table.csv", ",")
    assert table.dtype == dtype and table.tolist() == [[float(x) for x in row.split(",")] for row in text.split()]
    assert utils.loadtxt(tmp_path / "table.csv", ",", np.float32).dtype == np.float32


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("zeros")
    header.size = 10**8
    (tmp_path / "x.tar.bz2").write_bytes(bz2.compress(header.tobuf() + bytes(10**5)))  # is refused for what it says
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(10**8)))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10**8))
    for name in ("x.tar.bz2", "x.gz", "x.zip"):
        with pytest.raises(DGLError, match="200 times its size and 64 MiB; if you trust it"):
            utils.extract_archive(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_members_of_zip_archives_are_held_to_their_packed_size(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(10**6))  # as much as DEFLATE can
    (tmp_path / "x.gz").write_bytes(packed)
    utils.extract_archive(tmp_path / "x.gz", tmp_path / "out")
    assert (tmp_path / "out" / "x").stat().st_size == 10**6 > 900 * len(packed)
    content = bytearray(_archive(tmp_path / "x.zip", {"a": b"one"}).read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = (10**6).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DGLError, match="'a' is said to have 1000000 bytes, more than its 3 packed ones can hold"):
        utils.extract_archive(tmp_path / "x.zip", tmp_path / "new")
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
            archive.writestr("a", b"one")
        with pytest.raises(DGLError, match="not by DEFLATE"):
            utils.extract_archive(tmp_path / "x.zip", tmp_path / "new")


@pytest.mark.parametrize(
    "kind", ["many members", "a long name", "long headers", "headers of all", "a large dictionary"]
)
def test_archives_are_unpacked_in_little_memory(tmp_path: Path, kind: str) -> None:
    buffer = io.BytesIO()
    pax, refused = {}, None
    if kind == "a long name":
        header = tarfile.TarInfo("././@LongLink")
        header.type, header.size = b"L", 10**7
        buffer.write(header.tobuf() + b"x" * 10**7)
        refused = "headers of a member"
    if kind == "long headers":
        pax, refused = {"comment": "x" * 10**6}, "headers of a member"
    if kind == "headers of all":
        for i in range(3):
            buffer.write(tarfile.TarInfo.create_pax_global_header({f"comment{i}": "x" * 10**5}))
        refused = "headers"
    with tarfile.open(fileobj=buffer, mode="w", pax_headers=pax) as archive:
        for i in range(3000 if kind == "many members" else 3):
            archive.addfile(tarfile.TarInfo(f"{i}"))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 27}] if kind == "a large dictionary" else None
    packed = gzip.compress(buffer.getvalue()) if filters is None else lzma.compress(buffer.getvalue(), filters=filters)
    (tmp_path / "x.tar.gz").write_bytes(packed)
    refused = "emory" if filters else refused
    limit = 4 * len(packed) + (3 << 19)  # the headers of all are 1.2 MB in Python 3.14
    for i in range(2):  # the first may load a module, and so may other threads
        tracemalloc.start()
        try:
            with contextlib.nullcontext() if refused is None else pytest.raises(DGLError, match=refused):
                utils.extract_archive(tmp_path / "x.tar.gz", tmp_path / f"out{i}")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak < limit:
            break
    assert peak < limit


def test_archives_of_several_streams(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        header = tarfile.TarInfo("a")
        header.size = 10**6
        archive.addfile(header, io.BytesIO(bytes(range(250)) * 4000))
        link = tarfile.TarInfo("b")
        link.type, link.linkname = tarfile.LNKTYPE, "a"
        archive.addfile(link)
    content = buffer.getvalue()
    for name, compress in {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.items():
        (tmp_path / f"x.tar.{name}").write_bytes(compress(content[:9999]) + compress(content[9999:]))
        utils.extract_archive(tmp_path / f"x.tar.{name}", tmp_path / name)
        for member in "ab":
            assert (tmp_path / name / member).read_bytes() == bytes(range(250)) * 4000
        (tmp_path / f"x.tar.{name}").write_bytes(compress(content)[:-20])
        with pytest.raises(DGLError, match="cannot be unpacked"):
            utils.extract_archive(tmp_path / f"x.tar.{name}", tmp_path / "cut")
    link.linkname = "c"
    (tmp_path / "x.tar").write_bytes(link.tobuf() + bytes(1024))
    with pytest.raises(DGLError, match="link to 'c', which is not before it"):
        utils.extract_archive(tmp_path / "x.tar", tmp_path / "link")


@pytest.mark.parametrize("there", [False, True])
def test_an_archive_is_unpacked_in_whole_or_not_at_all(tmp_path: Path, there: bool) -> None:
    content = _archive(tmp_path / "x.zip", {"a.txt": b"one", "inner/b.txt": b"two"}).read_bytes()
    (tmp_path / "x.zip").write_bytes(content.replace(b"two", b"owt", 1))
    if there:
        (tmp_path / "out").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DGLError, match=r"x\.zip cannot be unpacked: Bad CRC"):
        utils.extract_archive(tmp_path / "x.zip", tmp_path / "out")
    with pytest.raises(DGLError, match=r"x\.zip cannot be unpacked: Bad CRC"):
        utils.extract_archive(tmp_path / "x.zip", tmp_path / "new" / "out")
    with pytest.raises(DGLError, match=r"absent\.zip cannot be unpacked"):
        utils.extract_archive(tmp_path / "absent.zip", tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("step", range(6))
def test_an_interrupt_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    names = ["a.txt", "inner/b.txt", "new.txt"]
    archive = _archive(tmp_path / "x.zip", dict.fromkeys(names, b"new"))
    for name in ("a.txt", "inner/b.txt", "inner/kept.txt"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(b"old")
    before = sorted(tmp_path.rglob("*"))
    calls, replace = itertools.count(), Path.replace

    def interrupted(place: Path, to: Path) -> Path:
        if next(calls) == step:
            raise KeyboardInterrupt
        return replace(place, to)

    monkeypatch.setattr(Path, "replace", interrupted)
    if step < 5:  # two files are put aside, three are moved
        with pytest.raises(KeyboardInterrupt):
            utils.extract_archive(archive, tmp_path / "out")
        assert sorted(tmp_path.rglob("*")) == before
    else:
        utils.extract_archive(archive, tmp_path / "out")
    content = {name: (tmp_path / "out" / name).read_bytes() for name in names if (tmp_path / "out" / name).exists()}
    assert content == dict.fromkeys(names[: 2 if step < 5 else 3], b"old" if step < 5 else b"new")
    assert (tmp_path / "out" / "inner" / "kept.txt").read_bytes() == b"old"
