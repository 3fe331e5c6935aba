"""A download without a connection fails soon, and says what to do."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dglite.compat.data import DGLBuiltinDataset
from dglite.data import CoraGraphDataset, DGLDataset, SSTDataset, WikiNERDataset, network
from dglite.data.utils import download
from dglite.errors import DGLError


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """A network that never answers, as behind a firewall that drops packets; yields the addresses that were tried."""
    tried: list[tuple[str, int]] = []
    over = threading.Event()

    def hang(host: str, port: int, **_: Any) -> None:
        tried.append((host, port))
        over.wait()
        raise OSError

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(network, "_SECONDS", 0.05)
    yield tried
    over.set()


class Mine(DGLDataset):
    """A data set of one file."""

    def __init__(self, raw_dir: Path) -> None:
        super().__init__("mine", url="https://nowhere.example/mine.txt", raw_dir=raw_dir)

    def process(self) -> None:
        raise AssertionError("there is nothing to process")

    def __getitem__(self, index: int) -> None:
        raise IndexError

    def __len__(self) -> int:
        return 0


class Builtin(DGLBuiltinDataset):
    """A data set of an archive."""

    def __init__(self, raw_dir: Path) -> None:
        super().__init__("builtin", "https://nowhere.example/builtin.zip", raw_dir=raw_dir)

    process = Mine.process
    __getitem__ = Mine.__getitem__
    __len__ = Mine.__len__


@pytest.mark.parametrize(
    ("make", "file"),
    [
        (lambda folder: CoraGraphDataset(raw_dir=folder), "ind.cora.graph"),
        (lambda folder: SSTDataset(raw_dir=folder), "train.txt"),
        (lambda folder: WikiNERDataset(raw_dir=folder), "dev.txt"),
        (Mine, "mine.txt"),
        (Builtin, "builtin.zip"),
        (lambda folder: download("https://nowhere.example/numbers.txt", folder), "numbers.txt"),
    ],
)
def test_what_to_provide_and_where_is_said(no_connection: Any, tmp_path: Path, make: Any, file: str) -> None:
    with pytest.raises(DGLError) as error:
        make(tmp_path)
    message = str(error.value)
    assert "there is no connection to" in message and file in message and str(tmp_path) in message
    assert "raw_dir=" in message and "DGLITE_DATA_DIR" in message
    assert len(no_connection) == 1


@pytest.mark.parametrize(
    ("url", "environment", "address"),
    [
        ("https://host.example/x", {}, ("host.example", 443)),
        ("http://host.example:81/x", {}, ("host.example", 81)),
        ("https://host.example/x", {"https_proxy": "http://proxy.example:3128"}, ("proxy.example", 3128)),
        ("https://host.example/x", {"https_proxy": "proxy.example:3128"}, ("proxy.example", 3128)),
        ("https://host.example/x", {"all_proxy": "http://proxy.example:3128"}, ("proxy.example", 3128)),
        ("https://host.example/x", {"https_proxy": "proxy:1", "no_proxy": "host.example"}, ("host.example", 443)),
    ],
)
def test_the_host_or_its_proxy_is_tried(
    no_connection: Any, monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], address: Any
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConnectionError, match=rf"no connection to {re.escape(address[0])} \(no answer in 0\.05 s"):
        network.require_connection(url)
    assert no_connection == [address]


def test_a_refused_connection_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionError, match=r"no connection to 127\.0\.0\.1 \(.*refused"):
        network.require_connection(f"http://127.0.0.1:{port}/x")


def test_one_address_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "host.example")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        places = [each.getsockname() for each in (unused, server)]
        results = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: results)
        network.require_connection("http://host.example/x")
        results.pop()
        with pytest.raises(ConnectionError, match=r"no connection to host\.example"):
            network.require_connection("http://host.example/x")


def test_other_kinds_of_addresses_pass(no_connection: Any) -> None:
    network.require_connection("ftp://host.example/x")
    assert no_connection == []
