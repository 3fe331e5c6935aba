"""Fraudulent reviews and reviewers: Dou et al., "Enhancing graph neural network-based fraud detectors", 2020."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ..convert import heterograph
from ..errors import DGLError
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import edges_in, float_tensor, long_tensor, mat_of
from .splits import mask_at

_SPARSEST = 1000
"""The most entries of a dense feature matrix per stored entry; these data sets have below 10."""


class _Kind(NamedTuple):
    file: str
    archive: str
    node: str
    relations: tuple[str, ...]
    first_labelled: int


class FraudDataset(OneGraph):
    """Yelp: 45,954 reviews, 32 features; Amazon: 11,944 users, 25 features; both with three relations and 2 classes.

    Yelp's relations between nodes ``review`` are ``net_rur`` (by the same user; 98,630 edges), ``net_rtr`` (of the same
    month; 1,147,232) and ``net_rsr`` (with the same stars; 6,805,486); 6,677 reviews are spam. Amazon's between nodes
    ``user`` are ``net_upu`` (351,216), ``net_usu`` (7,132,958) and ``net_uvu`` (2,073,474); 821 are fraudulent, 7,818
    are not, and the first 3,305 have no label. Edges are in both directions.

    Nodes have ``feature`` (num_nodes, num_features), float32, ``label`` (num_nodes,), int64, and the boolean
    ``train_mask``, ``val_mask`` and ``test_mask``, (num_nodes,), drawn as in DGL for the same seed. Read with SciPy,
    which must be installed.

    Parameters
    ----------
    name
        ``"yelp"`` or ``"amazon"``.
    raw_dir
        Folder that has ``YelpChi.mat`` or ``Amazon.mat``, itself or in ``<name>/``, or receives it.
    random_seed, train_size, val_size
        Which nodes are for training and for validation; the others are for the test.

    Attributes
    ----------
    graph
        The graph, without ``transform``.
    num_classes
        2.

    Examples
    --------
    ::

        g = dglite.data.FraudDataset("amazon", train_size=0.4)[0]
        feature, label = g.nodes["user"].data["feature"], g.nodes["user"].data["label"]
    """

    _files = ("{self._kind.file}",)
    num_classes = 2
    _kinds: ClassVar[dict[str, _Kind]] = {
        "yelp": _Kind("YelpChi.mat", "FraudYelp", "review", ("net_rsr", "net_rtr", "net_rur"), 0),
        "amazon": _Kind("Amazon.mat", "FraudAmazon", "user", ("net_upu", "net_usu", "net_uvu"), 3305),
    }

    def __init__(
        self,
        name: str,
        raw_dir: Folder = None,
        random_seed: int = 717,
        train_size: float = 0.7,
        val_size: float = 0.1,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        if name not in self._kinds:
            raise DGLError(f"the data set is called {name!r}; expected 'yelp' or 'amazon'")
        if min(train_size, val_size) < 0 or train_size + val_size > 1:
            raise DGLError(f"train_size is {train_size} and val_size {val_size}; expected parts that sum to 1 at most")
        self._kind = self._kinds[name]
        self._published, self._options = (name, f"{SITE}/{self._kind.archive}.zip"), (random_seed, train_size, val_size)
        self.seed, self.train_size, self.val_size = random_seed, train_size, val_size
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the file, build the graph and draw the splits."""
        (path,), kind = self._paths, self._kind
        matrices = mat_of(path, ("label",), ("features", *kind.relations))
        features, labels = matrices.pop("features"), matrices.pop("label").reshape(-1)
        num_nodes = features.shape[0]
        if num_nodes * features.shape[1] > _SPARSEST * (features.nnz + 1000):
            raise DGLError(
                f"{path} has features of {features.shape} with {features.nnz} entries, too sparse to be true"
            )
        if len(labels) != num_nodes or labels.dtype.kind not in "iuf":
            raise DGLError(f"{path} has {len(labels)} labels of {labels.dtype} for {num_nodes} nodes")
        edges = {}
        for relation, matrix in matrices.items():
            if matrix.shape != (num_nodes, num_nodes):
                raise DGLError(f"{path} has {relation} of shape {matrix.shape} for {num_nodes} nodes")
            edges[kind.node, relation, kind.node] = edges_in(matrix.row, matrix.col, num_nodes, path)
        self._graph = self.graph = heterograph(edges, {kind.node: num_nodes})
        columns = self.graph.nodes[kind.node].data
        columns["feature"], columns["label"] = float_tensor(features.toarray()), long_tensor(labels)
        for name, nodes in self._splits(num_nodes).items():
            columns[name] = mask_at(nodes, num_nodes)

    def _splits(self, num_nodes: int) -> dict[str, np.ndarray]:
        order = np.random.RandomState(self.seed).permutation(np.arange(self._kind.first_labelled, num_nodes))
        train, val = int(self.train_size * len(order)), len(order) - int(self.val_size * len(order))
        return {"train_mask": order[:train], "val_mask": order[val:], "test_mask": order[train:val]}


class _NamedFraud(FraudDataset):
    """Base of the sets that have a class of their own, constructed without a name."""

    _own_name: ClassVar[str]

    def __init__(
        self,
        raw_dir: Folder = None,
        random_seed: int = 717,
        train_size: float = 0.7,
        val_size: float = 0.1,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        super().__init__(self._own_name, raw_dir, random_seed, train_size, val_size, force_reload, verbose, transform)


class FraudYelpDataset(_NamedFraud):
    """:class:`FraudDataset` of Yelp's reviews."""

    _own_name = "yelp"


class FraudAmazonDataset(_NamedFraud):
    """:class:`FraudDataset` of Amazon's users."""

    _own_name = "amazon"
