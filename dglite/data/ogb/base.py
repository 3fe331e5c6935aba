"""The base of OGB's three kinds of data sets: the places of their files, and their published facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ... import backend
from ...errors import DGLError
from ..dataset import SingleGraphDataset
from ..published import PublishedDataset
from .facts import facts_of, url_of
from .files import checked_ids, read_pt
from .raw import read_heterograph, read_raw

PARTS = ("train", "valid", "test")


class OgbDataset(PublishedDataset):
    """Base of OGB's sets; ``kind`` is how their names begin. Parameters and errors are those of its subclasses.

    Attributes
    ----------
    task_type, eval_metric
        What is to be predicted, and by which metric it is judged, in OGB's words.
    is_hetero
        Whether there are several node types.
    """

    kind: str
    _labels_file: str | None = None

    def __init__(self, name: str, root: str | Path | None = None) -> None:
        self._facts = facts_of(name, self.kind)
        self.task_type, self.eval_metric, self.is_hetero = self._facts.task, self._facts.metric, self._facts.hetero
        self.num_tasks, self.num_classes = self._facts.num_tasks, self._facts.num_classes
        self._published, archive, underlined = (name, url_of(name)), self._facts.archive, name.replace("-", "_")
        folders = (f"{name}/{archive}", name, underlined, f"{underlined}_dgl", f"{underlined}_pyg")
        self._subfolders = (*folders, archive, ".")
        super().__init__(root)

    def _file_names(self) -> tuple[str, ...]:
        if self._facts.binary:
            raw: tuple[str, ...] = ("data.npz",)
        elif self._facts.hetero:
            raw = ("triplet-type-list.csv.gz", "num-node-dict.csv.gz")
        else:
            raw = ("edge.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz")
        return tuple(f"raw/{name}" for name in (*raw, *((self._labels_file,) if self._labels_file else ())))

    @property
    def _raw(self) -> Path:
        return self._folder / "raw"

    def _split_folder(self, split_type: str | None) -> Path:
        folder = self._folder / "split" / (self._facts.split if split_type is None else split_type)
        if not folder.is_dir():
            splits = sorted(path.name for path in (self._folder / "split").glob("*") if path.is_dir())
            raise DGLError(
                f"{folder} is missing; {self.name} has the splits {splits}, official is {self._facts.split!r}"
            )
        return folder

    def _parts(self, folder: Path, count: int) -> dict[str, Any]:
        """Return the numbers of each part of a split, int64 tensors."""
        if (folder / "split_dict.pt").is_file():
            parts = read_pt(folder / "split_dict.pt")
            return {part: _ids(parts, part, count, folder / "split_dict.pt") for part in PARTS}
        return {part: checked_ids(folder / f"{part}.csv.gz", count) for part in PARTS}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self)} graphs)"


class OneOgbGraph(SingleGraphDataset, OgbDataset):
    """Base of OGB's sets of one graph."""

    def process(self) -> None:
        """Read the files and build the graph."""
        if self.is_hetero:
            self._graph = read_heterograph(self._raw, self._facts)
            return
        raw = read_raw(self._raw, self._facts)
        if len(raw) != 1:
            raise DGLError(f"{self._raw} has {len(raw)} graphs; expected one")
        self._graph = raw.graph(0)

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._graph


def _ids(values: Any, part: str, count: int, path: Path) -> Any:
    ids = backend.active.to_numpy(values[part]) if isinstance(values, dict) and part in values else np.empty(0)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (len(ids) and not 0 <= ids.min() <= ids.max() < count):
        raise DGLError(f"{path} has no {part!r}, or it is not numbers from 0 to {count - 1}")
    return backend.active.from_numpy(ids.astype(np.int64))


def labels(values: np.ndarray, task: str) -> Any:
    """Return labels as a tensor: int64 where they are classes of every row, else float32, NaN for a missing label."""
    classes = "classification" in task and not (values.dtype.kind == "f" and np.isnan(values).any())
    return backend.active.from_numpy(values.astype(np.int64 if classes else np.float32))
