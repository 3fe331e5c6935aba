"""OGB's data sets of node property prediction."""

from __future__ import annotations

from typing import Any

from ...errors import DGLError
from ...io.npz import read_npz
from .base import PARTS, OneOgbGraph, labels
from .evaluate import Evaluator
from .files import flags, table

__all__ = ["DglNodePropPredDataset", "Evaluator"]


class DglNodePropPredDataset(OneOgbGraph):
    """One of OGB's node sets: ogbn-arxiv, ogbn-products, ogbn-proteins, ogbn-mag, ogbn-papers100M.

    ``data[0]`` is the graph and its labels, (num_nodes, num_tasks): int64, or float32 with NaN for a missing label.
    The graph has ``ndata['feat']`` or ``edata['feat']``, where there are such, and the further tables by name:
    ``year``, ``species``, ``reltype``. Each line of an undirected set is an edge and, after it, the reversed one.
    Labels of ogbn-mag are a dict by node type.

    Raises DGLError: there is no such set; a file is missing and not to be had, damaged, or does not fit the others.

    Parameters
    ----------
    name
        OGB's name.
    root
        Folder that has the set, as OGB or the published archive lays it out, or receives it; default
        ``DGLITE_DATA_DIR`` or the user's data folder.

    Attributes
    ----------
    graph, labels
        The graph and its labels.
    num_tasks, num_classes
        Columns of the labels, and how many classes each has.
    task_type, eval_metric, is_hetero
        The kind of task, the metric of :class:`Evaluator`, and whether there are several node types.
    """

    kind = "ogbn"

    @property
    def _labels_file(self) -> str:  # type: ignore[override]
        if self._facts.binary:
            return "node-label.npz"
        return "nodetype-has-label.csv.gz" if self.is_hetero else "node-label.csv.gz"

    def process(self) -> None:
        """Read the files and build the graph."""
        super().process()
        if self.is_hetero:
            self.labels: Any = {kind: self._labels_of(kind) for kind in flags(self._raw / self._labels_file)}
        else:
            self.labels = self._labels_of(None)

    def _labels_of(self, kind: str | None) -> Any:
        count = self._num_nodes(kind)
        if self._facts.binary:
            path = self._raw / self._labels_file
            values = read_npz(path, ["node_label"]).get("node_label")
            if values is None or values.shape != (count, self._facts.num_tasks):
                raise DGLError(f"{path} has no array 'node_label' of shape {(count, self._facts.num_tasks)}")
        else:
            place = self._raw if kind is None else self._raw / "node-label" / kind
            values = table(place / "node-label.csv.gz", count)
        return labels(values, self.task_type)

    def _num_nodes(self, kind: str | None) -> int:
        if kind is not None and kind not in self._graph.ntypes:
            raise DGLError(f"{self._folder} has labels or a split of {kind!r}; node types are {self._graph.ntypes}")
        return self._graph.num_nodes(kind)

    def get_idx_split(self, split_type: str | None = None) -> dict[str, Any]:
        """Return the official split: node numbers, int64, by ``"train"``, ``"valid"`` and ``"test"``.

        Of several node types, each of the three is a dict by type. ``split_type`` names another folder of splits.
        """
        folder = self._split_folder(split_type)
        if not self.is_hetero:
            return self._parts(folder, self._num_nodes(None))
        by_type = {}
        for kind in flags(folder / "nodetype-has-split.csv.gz"):
            by_type[kind] = self._parts(folder / kind, self._num_nodes(kind))
        return {part: {kind: parts[part] for kind, parts in by_type.items()} for part in PARTS}

    def __getitem__(self, index: int) -> tuple[Any, Any]:  # type: ignore[override]
        return super().__getitem__(index), self.labels
