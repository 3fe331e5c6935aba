"""``PublishedDataset``: data sets read from published files, found in a folder or downloaded and unpacked."""

from __future__ import annotations

import glob
import inspect
import re
from pathlib import Path
from typing import Any

from ..errors import DGLError
from .archives import extract_archive
from .dataset import DGLDataset, Folder, SingleGraphDataset, Transform, fetch, file_name
from .utils import check_sha1

SITE = "https://data.dgl.ai/dataset"
"""The address at which DGL publishes files."""

_ARCHIVES = (".zip", ".tgz", ".gz")
_PARAMETERS = {
    "raw_dir": "Folder that has {files}, {places}, or receives {pronoun}.",
    "force_reload": "Accepted for DGL's sake; files are read each time.",
    "verbose": "Accepted for DGL's sake.",
    "transform": "Function of a graph, applied each time one is read.",
}
"""Sections that all docstrings of data sets share."""


class PublishedDataset(DGLDataset):
    """Base of data sets of published files: a subclass says which there are, and writes ``process``.

    Docstrings leave out ``raw_dir``, ``force_reload``, ``verbose`` and ``transform`` where they do what they do
    everywhere: ``help`` shows them, with the files and folders below. A set of a family, whose base begins with an
    underscore, says in its docstring only what it has of its own.

    Attributes
    ----------
    _published
        The data set's name, and the address of its file. A download that is an archive is kept in ``raw_dir`` and
        unpacked to ``raw_path``; so is one that is put there.
    _files
        Names of the files without which nothing can be read. ``{self.mode}`` is the attribute, here and in
        ``_subfolders``.
    _subfolders
        Folders below ``raw_dir`` that may have them, in the order in which they are looked into.
    _home
        Which of these folders single files are downloaded to.
    _sha1
        Checksum of the download, where it was published.
    _options
        What else, beside the name, tells two instances apart: ``hash_key`` of ``DGLDataset``.
    """

    _published: tuple[str, str | None]
    _files: tuple[str, ...]
    _subfolders: tuple[str, ...] = ("{self.name}", ".")
    _home = 0
    _sha1: str | None = None
    _options: tuple[Any, ...] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        base = cls.__mro__[1]
        if cls.__doc__ and base.__doc__ and base.__name__.startswith("_"):
            cls.__doc__ += "\n" + base.__doc__.partition("\n")[2]
        if cls.__doc__ and not cls.__name__.startswith("_"):
            cls.__doc__ = _completed(cls)

    def __init__(
        self, raw_dir: Folder = None, force_reload: bool = False, verbose: bool = False, transform: Transform = None
    ) -> None:
        name, url = self._published
        super().__init__(name, url, raw_dir, None, self._options, force_reload, verbose, transform)

    def _file_names(self) -> tuple[str, ...]:
        """Return the names of the files without which nothing can be read."""
        return tuple(name.format(self=self) for name in self._files)

    @property
    def _name_in_dgl(self) -> str:
        """What DGL calls the data set, and the folder that it unpacks the files into."""
        return self.name

    def _folders(self) -> list[Path]:
        """Return the folders that may have the files; DGL's have eight digits of a hash behind their names."""
        raw_dir = Path(self.raw_dir)
        places = [place.format(self=self) for place in self._subfolders]
        folders = [raw_dir / place for place in places]
        for place in (*places, self._name_in_dgl):
            head, _, rest = place.partition("/")
            folders += [folder / rest for folder in sorted(raw_dir.glob(glob.escape(head) + "_" + "[0-9a-f]" * 8))]
        return list(dict.fromkeys(folders))

    @property
    def _folder(self) -> Path:
        """The folder that has the files, else the folder for downloads."""
        folders = self._folders()
        return next((folder for folder in folders if not self._missing(folder)), folders[self._home])

    @property
    def _paths(self) -> list[Path]:
        """The files, as ``_files`` names them."""
        return [self._folder / name for name in self._file_names()]

    def _missing(self, folder: Path) -> list[str]:
        return [name for name in self._file_names() if not (folder / name).is_file()]

    def has_raw(self) -> bool:
        """Whether one folder has all the files."""
        return not self._missing(self._folder)

    def download(self) -> None:
        """Fetch the published file, and unpack it."""
        try:
            self._fetch()
        except DGLError as error:
            archive = f", or {file_name(self.url)} into {self.raw_dir}" if self.url else ""
            raise DGLError(
                f"{self.name} was looked for in {', '.join(map(str, self._folders()))}; "
                f"{', '.join(self._missing(self._folder))} are missing there. {error}. Put the files into one of these "
                f"folders{archive}, or name another folder with raw_dir= or the environment variable DGLITE_DATA_DIR"
            ) from error

    def _fetch(self) -> None:
        assert self.url is not None
        downloaded = fetch(self.url, self.raw_dir)
        if self._sha1 is not None and not check_sha1(downloaded, self._sha1):
            raise DGLError(f"{downloaded} has another content than was published; remove it to download it again")
        if downloaded.name.endswith(_ARCHIVES):
            extract_archive(downloaded, self.raw_path)
        if missing := self._missing(self._folder):
            raise DGLError(f"{downloaded} has no {missing[0]}")


def _completed(kind: type[PublishedDataset]) -> str:
    """Return the docstring of a data set with those of its parameters that all have, if it names the others."""
    head, *sections = re.split(r"\n\n(?=\w+\n-{3,}\n)", inspect.cleandoc(kind.__doc__ or ""))
    parameters = next((part for part in sections if part.startswith("Parameters\n")), "Parameters\n----------")
    documented = re.findall(r"\w+", " ".join(re.findall(r"^\w.*$", parameters, re.MULTILINE)))
    unsaid = [name for name in inspect.signature(kind).parameters if name not in documented]
    if not unsaid or not _PARAMETERS.keys() >= {*unsaid} or ("raw_dir" in unsaid and not hasattr(kind, "_files")):
        return kind.__doc__ or ""
    words = _words_of(kind) if "raw_dir" in unsaid else {}
    completed = "\n".join([parameters, *(f"{name}\n    {_PARAMETERS[name].format(**words)}" for name in unsaid)])
    return "\n\n".join([head, completed, *(part for part in sections if part is not parameters)])


def _words_of(kind: type[PublishedDataset]) -> dict[str, str]:
    """Return which files a data set reads and where they may be, in words."""
    names = {"name": kind._published[0]} if hasattr(kind, "_published") else {}
    files, places = (
        [re.sub(r"{self\.(\w+)}", lambda match: names.get(match[1], f"<{match[1]}>"), text) for text in texts]
        for texts in (kind._files, kind._subfolders)
    )
    inside = [f"in ``{place}/``" for place in places if place != "."]
    return {
        "files": " and ".join(filter(None, [", ".join(f"``{file}``" for file in files[:-1]), f"``{files[-1]}``"])),
        "places": " or ".join(["itself"] * ("." in places) + inside),
        "pronoun": "it" if len(files) == 1 else "them",
    }


class OneGraph(SingleGraphDataset, PublishedDataset):
    """Base of published data sets of one graph."""


class PartOfThree(PublishedDataset):
    """Base of published data sets that are split into files by ``mode``."""

    def __init__(
        self,
        mode: str = "train",
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        if mode not in ("train", "valid", "test"):
            raise DGLError(f"mode is {mode!r}; expected 'train', 'valid' or 'test'")
        self.mode = mode
        super().__init__(raw_dir, force_reload, verbose, transform)
