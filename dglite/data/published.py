"""``PublishedDataset``: data sets read from published files, found in a folder or downloaded and unpacked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import DGLError
from .archives import extract_archive
from .dataset import DGLDataset, SingleGraphDataset, fetch
from .utils import check_sha1, loadtxt

__all__ = ["OneGraph", "PublishedDataset", "checked_mode", "table_of"]

_ARCHIVES = (".zip", ".tgz", ".gz")


class PublishedDataset(DGLDataset):
    """Base of data sets of published files, which are ``_file_names`` in one of the folders ``_subfolders``.

    An archive that is downloaded to ``raw_dir``, or put there by hand, is unpacked to ``raw_path``.
    """

    _sha1: str | None = None

    def __init_subclass__(cls) -> None:
        """Append the docstring of the family's base class to the one-line docstring of a data set."""
        base = cls.__mro__[1]
        if cls.__doc__ and base.__doc__ and base.__name__.startswith("_"):
            cls.__doc__ += base.__doc__.partition("\n")[2]

    def _file_names(self) -> tuple[str, ...]:
        """Return the names of the required files."""
        raise NotImplementedError(f"{type(self).__name__} must define _file_names(), which returns names of files")

    def _subfolders(self) -> tuple[str, ...]:
        """Return the folders below ``raw_dir`` that may have the files, the one for downloads first."""
        return (self.name, ".")

    @property
    def _folder(self) -> Path:
        """The folder that has the files; if there is none, the one for downloads."""
        folders = [Path(self.raw_dir) / place for place in self._subfolders()]
        return next((folder for folder in folders if not self._missing(folder)), folders[0])

    def _missing(self, folder: Path) -> list[str]:
        return [name for name in self._file_names() if not (folder / name).is_file()]

    def has_raw(self) -> bool:
        """Whether one folder has all the files."""
        return not self._missing(self._folder)

    def download(self) -> None:
        """Fetch the published file and unpack it."""
        assert self.url is not None
        try:
            got = fetch(self.url, self.raw_dir)
            if self._sha1 is not None and not check_sha1(got, self._sha1):
                raise DGLError(f"{got} has another content than was published; remove it to have it downloaded again")
            if got.name.endswith(_ARCHIVES):
                extract_archive(got, self.raw_path)
            if missing := self._missing(self._folder):
                raise DGLError(f"{got} has no {missing[0]}")
        except DGLError as error:
            looked = ", ".join(str(Path(self.raw_dir) / place) for place in self._subfolders())
            raise DGLError(
                f"{self.name} was looked for in {looked}; {', '.join(self._missing(self._folder))} are missing there. "
                f"{error}. Put the files into one of these folders, or {self.url.rsplit('/', 1)[-1]} into "
                f"{self.raw_dir}, or name another folder with raw_dir= or the environment variable DGLITE_DATA_DIR"
            ) from error


class OneGraph(SingleGraphDataset, PublishedDataset):
    """Base of published data sets of one graph that are constructed without a name; see ``CoraFullDataset``."""

    _published: ClassVar[tuple[str, str]]
    """The data set's name and the address of its file."""

    def __init__(
        self,
        raw_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        name, url = self._published
        super().__init__(name, url, raw_dir, None, (), force_reload, verbose, transform)


def checked_mode(mode: str) -> str:
    """Return which part of a data set is wanted; raise ``DGLError`` for none that there is."""
    if mode not in ("train", "valid", "test"):
        raise DGLError(f"mode is {mode!r}; expected 'train', 'valid' or 'test'")
    return mode


def table_of(path: Path, num_rows: int | None = None, dtype: Any = None) -> np.ndarray:
    """Return the numbers in a text file, separated by commas, (rows, columns); raise ``DGLError`` for other lengths."""
    found = loadtxt(path, ",", dtype)
    if num_rows is not None and len(found) != num_rows:
        raise DGLError(f"{path} has {len(found)} lines; expected {num_rows}")
    return found
