"""``DGLDataset``: where files are, when they are downloaded, processed, saved and loaded."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .. import hints
from ..arguments import explain_constructors
from ..backend import Tensor
from ..config import data_dir
from ..errors import DGLError, DGLWarning
from ..graph import DGLGraph
from .network import Downloader

Folder = str | Path | None
"""``raw_dir`` and ``save_dir``: None is ``DGLITE_DATA_DIR`` or the user's data folder."""
Transform = Callable[[Any], Any] | None
"""A function of a graph that is applied each time one is read."""


def fetch(url: str, folder: str | Path, sha256: str | None = None) -> Path:
    """Download ``url`` into ``folder`` with a progress bar unless the file is there already, and return its path.

    With ``sha256`` the file's content is checked, also when it was there. Raises ``DGLError`` when there is no
    connection or the content does not match.
    """
    import pooch  # only a download needs it, and it imports an HTTP client

    known_hash = None if sha256 is None else f"sha256:{sha256}"
    try:
        return Path(pooch.retrieve(url, known_hash, fname=file_name(url), path=folder, downloader=Downloader()))
    except (OSError, ValueError) as error:
        raise DGLError(f"{url} could not be downloaded to {folder}: {error}") from error


def file_name(url: str) -> str:
    """Return the file name of a download: the last part of the address, without ``?dl=1`` and the like."""
    return urlsplit(url).path.rsplit("/", 1)[-1]


def text_of(path: Path) -> str:
    """Return the text in a file; ``DGLError`` names it where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DGLError(f"{path} is damaged, or no text: {error}") from error


class DGLDataset:
    """Base of data sets: subclasses write ``process``, ``__getitem__`` and ``__len__``, or as many as they use.

    On construction, ``load()`` runs when ``has_cache()`` says that a processed copy exists (and ``force_reload`` does
    not forbid it). Otherwise, and where ``load()`` fails, ``download()`` runs unless ``has_raw()``, then ``process()``,
    then ``save()``. ``name``, ``url``, ``raw_dir``, ``save_dir``, ``verbose`` and ``hash`` can be read but not set.

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_constructors(cls)

    def __init__(
        self,
        name: str,
        url: str | None = None,
        raw_dir: Folder = None,
        save_dir: Folder = None,
        hash_key: tuple[Any, ...] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        self._name, self._url, self._verbose = name, url, verbose
        self._raw_dir = str(Path(raw_dir or data_dir()).expanduser())
        self._save_dir = str(save_dir or self._raw_dir)
        self._hash_key, self._force_reload, self._transform = hash_key, force_reload, transform
        self._hash = hashlib.sha1(repr(hash_key).encode()).hexdigest()[:8]
        if force_reload or not self._load_saved():
            if not self.has_raw():
                self.download()
            self.process()
            self.save()

    def _load_saved(self) -> bool:
        """Load the processed copy and return whether there was one that could be read."""
        if not self.has_cache():
            return False
        try:
            self.load()
        except Exception as error:
            warnings.warn(
                f"the processed copy of {self.name} in {self.save_path} is not readable ({error!r}) and is made again",
                DGLWarning,
                stacklevel=5,
            )
            return False
        if self.verbose:
            print(f"{self.name} is loaded from {self.save_path}")
        return True

    @property
    def name(self) -> str:
        """Name of the data set and of its folders."""
        return self._name

    @property
    def url(self) -> str | None:
        """The address of the raw file."""
        return self._url

    @property
    def raw_dir(self) -> str:
        """Folder with a folder of raw files for each data set."""
        return self._raw_dir

    @property
    def save_dir(self) -> str:
        """Folder with a folder of processed files for each data set."""
        return self._save_dir

    @property
    def verbose(self) -> bool:
        """Whether to print what happens."""
        return self._verbose

    @property
    def hash(self) -> str:
        """Eight digits that ``hash_key`` decides, to name processed files by."""
        return self._hash

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

    def process(self) -> None:
        """Make the graphs from the raw files; by default nothing."""

    def has_cache(self) -> bool:
        """Whether ``load`` would find what ``save`` wrote; by default nothing is saved."""
        return False

    def save(self) -> None:
        """Write the processed graphs to ``save_path``; by default they are made anew each time."""

    def load(self) -> None:
        """Read what ``save`` wrote; a data set that writes ``has_cache`` writes this too."""

    def __getitem__(self, index: int) -> Any:
        """Return one graph, or a graph and its label."""
        raise NotImplementedError(f"{type(self).__name__} does not write __getitem__, which returns graph number index")

    def __len__(self) -> int:
        """Return the number of graphs."""
        raise NotImplementedError(f"{type(self).__name__} does not write __len__, which returns the number of graphs")

    def __iter__(self) -> Iterator[Any]:
        """Yield every element; an error of ``__getitem__``, or of ``transform``, never ends the loop unseen.

        Python's own iteration by index takes IndexError and StopIteration for the end.
        """
        for index in range(len(self)):
            yield self[index]

    def __class_getitem__(cls, index: Any) -> Any:
        """Raise ``TypeError``: a class has no graphs."""
        raise TypeError(f"{cls.__name__} is a class; construct the data set first: {cls.__name__}()[{index!r}]")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("a data set holds graphs: g = dataset[0]; its features are in g.ndata")

    def _transformed(self, g: Any) -> Any:
        return g if self._transform is None else self._transform(g)

    def __repr__(self) -> str:
        return f'Dataset("{self.name}", num_graphs={len(self)}, save_path={self.save_path})'


class SingleGraphDataset(DGLDataset):
    """Base of data sets of one graph, which ``process`` leaves in ``self._graph``."""

    _graph: Any

    def __getitem__(self, index: int) -> DGLGraph:
        if index != 0:
            raise IndexError(f"{self.name} has one graph, number 0; got {index!r}")
        return self._transformed(self._graph)

    def __len__(self) -> int:
        return 1


class Graphs(DGLDataset):
    """Base of data sets of graphs; ``process`` leaves them in ``graphs``."""

    graphs: list[Any]

    def __getitem__(self, index: int) -> DGLGraph:
        """Return graph ``index``; ``IndexError`` if there is no such graph."""
        try:
            return self._transformed(self.graphs[index])
        except (IndexError, TypeError) as error:
            if isinstance(index, int) and -len(self) <= index < len(self):
                raise  # the transform failed
            raise type(error)(
                f"{self.name} has no graph {index!r:.60}; there are {len(self)}, numbers 0 to {len(self) - 1}"
            ) from None

    def __len__(self) -> int:
        return len(self.graphs)


class GraphsWithLabels(Graphs):
    """Base of data sets of graphs with a label each, in ``labels``, a tensor."""

    labels: Any

    def __getitem__(self, index: int) -> tuple[DGLGraph, Tensor]:  # type: ignore[override]
        """Return graph ``index`` and its label; ``IndexError`` if there is no such graph."""
        return super().__getitem__(index), self.labels[index]


class GraphsMadeWhenRead(DGLDataset):
    """Base of data sets that build a graph by ``_graph_at`` each time that it is asked for."""

    def _graph_at(self, number: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _graph_at(number), which returns a graph")

    def _number(self, index: int) -> int:
        """Return which graph ``index`` means, from 0 on; raise ``IndexError`` for one that there is not."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)} of {self.name}")
        return index % len(self)

    def __getitem__(self, index: int) -> Any:
        """Return graph ``index``; ``IndexError`` if there is no such graph."""
        return self._transformed(self._graph_at(self._number(index)))
