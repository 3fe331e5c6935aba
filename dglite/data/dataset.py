"""The frame of a data set: where its files are, when they are fetched, processed, saved and read again."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..config import data_dir
from ..errors import DGLError
from .network import Downloader

__all__ = ["DGLDataset", "GraphsWithLabels", "SingleGraphDataset", "fetch", "text_of"]


def fetch(url: str, folder: str | Path, sha256: str | None = None) -> Path:
    """Download ``url`` into ``folder`` with a progress bar unless the file is there already, and return its path.

    With ``sha256`` the file's content is checked, also when it was there. Raises ``DGLError`` when there is no
    connection or the content is another one.
    """
    import pooch  # only a download needs it, and it imports an HTTP client

    known = None if sha256 is None else f"sha256:{sha256}"
    name = url.rsplit("/", 1)[-1]
    try:
        return Path(pooch.retrieve(url, known, fname=name, path=folder, downloader=Downloader()))
    except (OSError, ValueError) as error:
        raise DGLError(f"{url} could not be downloaded to {folder}: {error}") from error


def text_of(path: Path) -> str:
    """Return the text in a file; ``DGLError`` names it where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DGLError(f"{path} is damaged, or no text: {error}") from error


class DGLDataset(ABC):
    """Base of data sets: subclasses write ``process``, ``__getitem__`` and ``__len__``; the other steps are optional.

    On construction, ``load()`` runs when ``has_cache()`` says that a processed copy exists (and ``force_reload`` does
    not forbid it). Otherwise ``download()`` runs unless ``has_raw()``, then ``process()``, then ``save()``.

    Parameters
    ----------
    name
        Names the data set and its folders.
    url
        Where ``download`` finds the raw file; None when there is nothing to download.
    raw_dir, save_dir
        Folders of raw and processed files; default ``DGLITE_DATA_DIR`` or the user's data folder.
    hash_key
        What tells apart processed copies made with different options; see ``hash``.
    force_reload, verbose
        Process again even if there is a copy; print what happens.
    transform
        Function of a graph, applied each time one is read.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        raw_dir: str | Path | None = None,
        save_dir: str | Path | None = None,
        hash_key: tuple[Any, ...] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name = name
        self.url = url
        self.raw_dir = str(Path(raw_dir or data_dir()).expanduser())
        self.save_dir = str(save_dir or self.raw_dir)
        self.verbose = verbose
        self.hash = hashlib.sha1(repr(hash_key).encode()).hexdigest()[:8]
        self._transform = transform
        if not force_reload and self.has_cache():
            self._load_saved()
        else:
            if not self.has_raw():
                self.download()
            self.process()
            self.save()

    def _load_saved(self) -> None:
        try:
            self.load()
        except Exception as error:
            raise DGLError(
                f"the processed copy of {self.name} in {self.save_path} is not readable ({error}); "
                "pass force_reload=True to make it again"
            ) from error

    @property
    def raw_path(self) -> str:
        """Folder of this data set's raw files: ``raw_dir/name``."""
        return str(Path(self.raw_dir) / self.name)

    @property
    def save_path(self) -> str:
        """Folder of this data set's processed files: ``save_dir/name``."""
        return str(Path(self.save_dir) / self.name)

    def has_raw(self) -> bool:
        """Whether the raw files are there already; by default, whether ``raw_path`` exists."""
        return Path(self.raw_path).exists()

    def download(self) -> None:
        """Put the raw files into ``raw_path``; by default the file at ``url``, and nothing without one."""
        if self.url is None:
            return
        try:
            fetch(self.url, self.raw_path)
        except DGLError as error:
            raise DGLError(
                f"{self.name} was looked for in {self.raw_path}. {error}. Put the file there, or name the folder that "
                f"has {self.name}/ with raw_dir= or the environment variable DGLITE_DATA_DIR"
            ) from error

    @abstractmethod
    def process(self) -> None:
        """Make the graphs from the raw files."""

    def has_cache(self) -> bool:
        """Whether ``load`` would find what ``save`` wrote; by default nothing is saved."""
        return False

    def save(self) -> None:  # noqa: B027 - a hook that most data sets leave empty
        """Write the processed graphs to ``save_path``; by default they are made anew each time."""

    def load(self) -> None:  # noqa: B027 - as above
        """Read what ``save`` wrote; a data set that writes ``has_cache`` writes this too."""

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """Return one graph, or a graph and its label."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many graphs there are."""

    def __repr__(self) -> str:
        return f'Dataset("{self.name}", num_graphs={len(self)}, save_path={self.save_path})'


class SingleGraphDataset(DGLDataset):
    """Base of data sets of one graph, which ``process`` leaves in ``self._graph``."""

    _graph: Any

    def __getitem__(self, index: int) -> Any:
        if index != 0:
            raise IndexError(f"{self.name} has one graph, number 0; got {index!r}")
        return self._graph if self._transform is None else self._transform(self._graph)

    def __len__(self) -> int:
        return 1


class GraphsWithLabels(DGLDataset):
    """Base of data sets of graphs with a label each; ``process`` leaves them in ``graphs`` and ``labels``, a tensor."""

    graphs: list[Any]
    labels: Any

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        g = self.graphs[index]
        return (g if self._transform is None else self._transform(g)), self.labels[index]

    def __len__(self) -> int:
        return len(self.graphs)
