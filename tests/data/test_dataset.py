"""The steps of a data set's life, and Zachary's karate club."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from dglite import DGLGraph
from dglite.data import DGLDataset, KarateClubDataset, Subset
from dglite.data.dataset import fetch
from dglite.errors import DGLError, DGLWarning


class Squares(DGLDataset):
    """Counts to three, and writes down which steps were taken."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.steps: list[str] = []
        super().__init__("squares", raw_dir=folder, **options)  # type: ignore[arg-type]

    def download(self) -> None:
        self.steps.append("download")
        Path(self.raw_path).mkdir(parents=True)
        (Path(self.raw_path) / "raw").write_text("1 2 3")

    def process(self) -> None:
        self.steps.append("process")
        self.values = [int(word) ** 2 for word in (Path(self.raw_path) / "raw").read_text().split()]

    def has_cache(self) -> bool:
        return (Path(self.save_path) / "saved").is_file()

    def save(self) -> None:
        self.steps.append("save")
        (Path(self.save_path) / "saved").write_text(" ".join(map(str, self.values)))

    def load(self) -> None:
        self.steps.append("load")
        self.values = [int(word) for word in (Path(self.save_path) / "saved").read_text().split()]

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)


def test_the_first_time_downloads_processes_and_saves_and_the_next_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Squares(tmp_path).steps == ["download", "process", "save"]
    again = Squares(tmp_path)
    assert again.steps == ["load"]
    assert list(again) == [1, 4, 9]
    assert Squares(tmp_path, force_reload=True).steps == ["process", "save"] and not capsys.readouterr().out
    Squares(tmp_path, verbose=True)
    assert capsys.readouterr().out == f"squares is loaded from {tmp_path / 'squares'}\n"


def test_a_saved_copy_that_is_not_readable_is_made_again(tmp_path: Path) -> None:
    Squares(tmp_path)
    (tmp_path / "squares" / "saved").write_text("1 four 9")
    with pytest.warns(DGLWarning, match=r"squares in .* not readable .*four.* made again"):
        again = Squares(tmp_path)
    assert again.steps == ["load", "process", "save"] and list(again) == [1, 4, 9]


def test_a_data_set_writes_as_many_steps_as_it_uses(tmp_path: Path) -> None:
    class Plain(DGLDataset):
        def process(self) -> None:
            self.seen = self.name, self.raw_path, self.verbose, self.url, self.hash

        @property
        def url(self) -> str:  # what the base class sets must not stand in its way
            return "here"

    (tmp_path / "plain").mkdir()
    plain = Plain("plain", raw_dir=tmp_path, verbose=True, hash_key=("a", 1), force_reload=True)
    digest = hashlib.sha1(b"('a', 1)").hexdigest()[:8]
    assert plain.seen == ("plain", str(tmp_path / "plain"), True, "here", digest)
    assert plain.save_dir == plain.raw_dir == str(tmp_path)
    with pytest.raises(NotImplementedError, match="Plain does not write __len__"):
        len(plain)
    with pytest.raises(NotImplementedError, match="Plain does not write __getitem__"):
        plain[0]


@pytest.mark.parametrize(("error", "raised"), [(StopIteration, RuntimeError), (IndexError, IndexError)])
def test_an_error_of_a_transform_does_not_end_the_loop_over_a_data_set(error: type, raised: type) -> None:
    def fails(g: DGLGraph) -> DGLGraph:
        raise error("mine")

    dataset = KarateClubDataset(transform=fails)
    for elements in (dataset, Subset(dataset, [0])):
        with pytest.raises(raised, match=r"StopIteration|mine"):
            list(elements)
    assert len(list(KarateClubDataset())) == len(list(Subset(KarateClubDataset(), [0, 0]))) - 1 == 1


def test_the_hash_tells_options_apart(tmp_path: Path) -> None:
    assert Squares(tmp_path, hash_key=(1, False)).hash != Squares(tmp_path, hash_key=(2, False)).hash


def test_the_karate_club_is_networkx_own() -> None:
    dataset = KarateClubDataset()
    graph, club = dataset[0], nx.karate_club_graph()
    src, dst = graph.edges()
    assert (len(dataset), dataset.num_classes, graph.num_nodes(), graph.num_edges()) == (1, 2, 34, 156)
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == list(club.copy().to_directed().edges)
    assert [("Mr. Hi", "Officer")[label] for label in graph.ndata["label"]] == [
        club.nodes[i]["club"] for i in range(34)
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server with one file, ``numbers``."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "numbers").write_bytes(b"1 2 3")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, directory=str(folder), **options)  # type: ignore[arg-type]

        def log_message(self, *_args: object) -> None:
            """Keep the test's output clean."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("checked", [True, False])
def test_a_download_lands_in_its_folder(tmp_path: Path, server: str, checked: bool) -> None:
    sha256 = hashlib.sha256(b"1 2 3").hexdigest() if checked else None
    assert fetch(f"{server}/numbers", tmp_path / "data", sha256).read_bytes() == b"1 2 3"


def test_a_download_with_another_content_is_refused_and_not_kept(tmp_path: Path, server: str) -> None:
    with pytest.raises(DGLError, match=r"could not be downloaded.*hash"):
        fetch(f"{server}/numbers", tmp_path / "data", "0" * 64)
    assert not (tmp_path / "data" / "numbers").exists()


@pytest.mark.parametrize("name", ["absent", "numbers/below"])
def test_a_download_that_is_not_there_names_its_address(tmp_path: Path, server: str, name: str) -> None:
    with pytest.raises(DGLError, match=f"{server}/{name} could not be downloaded"):
        fetch(f"{server}/{name}", tmp_path / "data")
