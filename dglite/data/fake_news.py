"""News that was spread on Twitter, real or fake: Dou et al., "User preference-aware fake news detection", 2021."""

from __future__ import annotations

from typing import final

import numpy as np

from ..convert import graph
from ..errors import DGLError
from .dataset import Folder, GraphsWithLabels, Transform
from .published import SITE, PublishedDataset
from .raw import csr_in, edges_in, float_tensor, long_tensor, mask_of, npy_of, npz_of, table_of

_ARCHIVES = {"gossipcop": "FakeNewsGOS.zip", "politifact": "FakeNewsPOL.zip"}
_FEATURES = ("bert", "content", "profile", "spacy")


@final
class FakeNewsDataset(GraphsWithLabels, PublishedDataset):
    """Trees of who passed on a piece of news: 314 of politifact, 5,464 of gossipcop, half of them fake.

    Raises DGLError: a name is not known; a file is missing and not to be had, damaged, or does not fit the others.

    Parameters
    ----------
    name
        ``"gossipcop"`` or ``"politifact"``.
    feature_name
        ``"bert"`` (768 columns), ``"content"`` (310), ``"profile"`` (10) or ``"spacy"`` (300).

    Attributes
    ----------
    graphs, labels
        The graphs, with the numbers of their nodes in all graphs in ``ndata[dglite.NID]``, and int64 (num_graphs,).
    feature
        Float32 (nodes of all graphs, columns).
    train_mask, val_mask, test_mask
        Boolean (num_graphs,).
    num_classes, num_graphs
        2, and how many graphs there are.
    """

    _files = (
        "A.txt",
        *(f"{array}.npy" for array in ("graph_labels", "node_graph_id", "train_idx", "val_idx", "test_idx")),
        "new_{self.feature_name}_feature.npz",
    )
    num_classes = 2

    def __init__(self, name: str, feature_name: str, raw_dir: Folder = None, transform: Transform = None) -> None:
        if name not in _ARCHIVES or feature_name not in _FEATURES:
            raise DGLError(
                f"FakeNewsDataset({name!r}, {feature_name!r}): expected one of {', '.join(_ARCHIVES)}, and one of "
                f"{', '.join(_FEATURES)}"
            )
        self.feature_name, self._published = feature_name, (name, f"{SITE}/{_ARCHIVES[name]}")
        super().__init__(raw_dir, transform=transform)

    def process(self) -> None:
        """Read the files and cut the forest into its trees."""
        edges, labels, owners, *parts, features = self._paths
        self.labels = long_tensor(npy_of(labels))
        of_graph, num_graphs = npy_of(owners), len(self.labels)
        self.num_graphs = num_graphs
        num_nodes = len(of_graph)
        edges_in(of_graph, of_graph, num_graphs, owners)
        src, dst = table_of(edges, dtype=np.int64).reshape(-1, 2).T
        forest = graph(edges_in(src, dst, num_nodes, edges), num_nodes=num_nodes)
        order = np.argsort(of_graph, kind="stable")
        bounds = np.searchsorted(of_graph[order], np.arange(num_graphs + 1))
        self.graphs = [forest.subgraph(order[bounds[i] : bounds[i + 1]]) for i in range(num_graphs)]
        self.train_mask, self.val_mask, self.test_mask = (mask_of(npy_of(path), num_graphs, path) for path in parts)
        names = ("data", "indices", "indptr", "shape")
        dense = csr_in(dict(zip(names, npz_of(features, names), strict=True)), "", features).toarray()
        if len(dense) != num_nodes:
            raise DGLError(f"{features} has {len(dense)} rows; {owners} has {num_nodes}")
        self.feature = float_tensor(dense)
