"""Files and archives: what is downloaded, checked and unpacked, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
import threading
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
    found = Path(utils.download(url, path, sha1_hash=HASH, log=False))
    assert found == (tmp_path / "new" / "mine.bin" if where == "file" else tmp_path / "graphs.bin")
    assert found.read_bytes() == CONTENT and [x.name for x in found.parent.glob(".*")] == []


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
    with pytest.raises(DGLError, match=r"cannot be unpacked|no archive that is known"):
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
    bomb = lzma.compress(bytes(10**7))
    assert len(bomb) * 1100 < 10**7
    header = tarfile.TarInfo("zeros")
    header.size = 10**7
    (tmp_path / "x.tar.xz").write_bytes(lzma.compress(header.tobuf() + bytes(10**7)))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("zeros", bytes(10**7))
    for name in ("x.tar.xz", "x.zip"):
        with pytest.raises(DGLError, match="1100 times its size"):
            utils.extract_archive(tmp_path / name, tmp_path / "out")
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(10**6)))  # as much as that format can
    utils.extract_archive(tmp_path / "x.gz", tmp_path / "out")
    assert (tmp_path / "out" / "x").stat().st_size == 10**6


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
