"""OGB's data sets of graph property prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend
from ...batch import batch
from ...errors import DGLError
from ..splits import Subset
from .base import OgbDataset, labels
from .evaluate import Evaluator
from .files import table, words
from .raw import read_raw

__all__ = ["DglGraphPropPredDataset", "Evaluator", "collate_dgl"]


class DglGraphPropPredDataset(OgbDataset):
    """One of OGB's graph sets: ogbg-molhiv and the other molecules, ogbg-ppa, ogbg-code2.

    ``data[i]`` is a graph and its label; of a tensor, an array or a list of numbers, a ``Subset``. Graphs are made when
    they are read, with ``ndata['feat']`` and ``edata['feat']``, where there are such, and further tables by name. Each
    line of an undirected set is an edge and, after it, the reversed one. Labels are (num_tasks,): int64, or float32
    with NaN for a missing label; of ogbg-code2 they are lists of words.

    Parameters, attributes and errors are those of :class:`~dglite.data.ogb.nodeproppred.DglNodePropPredDataset`;
    ``labels`` has a row for each graph.
    """

    kind, _labels_file = "ogbg", "graph-label.csv.gz"

    def process(self) -> None:
        """Read the files."""
        self._graphs = read_raw(self._raw, self._facts)
        path = self._raw / self._labels_file
        if self.eval_metric == "F1":
            self.labels: Any = words(path, " ")
        else:
            self.labels = labels(table(path, len(self._graphs)), self.task_type)
        if len(self.labels) != len(self._graphs):
            raise DGLError(f"{path} has {len(self.labels)} lines; expected {len(self._graphs)}")

    def get_idx_split(self, split_type: str | None = None) -> dict[str, Any]:
        """Return the official split: graph numbers, int64, by ``"train"``, ``"valid"`` and ``"test"``."""
        return self._parts(self._split_folder(split_type), len(self))

    def __len__(self) -> int:
        return len(self._graphs)

    def __getitem__(self, index: Any) -> Any:
        """Return one graph and its label, or the graphs of several numbers; ``IndexError`` beyond the last."""
        numbers = backend.active.to_numpy(index) if backend.active.is_tensor(index) else np.asarray(index)
        if (numbers.dtype.kind not in "iu" and numbers.size) or numbers.ndim > 1:
            raise IndexError(f"{self.name} takes a number or a row of numbers; got {index!r}")
        if numbers.size and not -len(self) <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"{self.name} has graphs 0 to {len(self) - 1}; got {index!r}")
        if numbers.ndim:
            return Subset(self, numbers)
        number = int(numbers) % len(self)
        return self._graphs.graph(number), self.labels[number]


def collate_dgl(samples: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return a batch of graphs and their labels, stacked where they are tensors: the ``collate_fn`` of a loader."""
    graphs, label_list = map(list, zip(*samples, strict=True))
    return batch(graphs), backend.active.stack(label_list) if backend.active.is_tensor(label_list[0]) else label_list
