"""Zachary's karate club."""

from __future__ import annotations

from typing import final

import numpy as np

from .. import backend
from ..convert import from_networkx
from .dataset import SingleGraphDataset, Transform


@final
class KarateClubDataset(SingleGraphDataset):
    """Friendships in a karate club that split in two: 34 nodes, 156 directed edges, 2 classes. From NetworkX.

    ``ndata['label']`` is 0 for those who stayed with the instructor and 1 for those who left with the officer.
    Zachary, "An information flow model for conflict and fission in small groups", 1977.
    """

    num_classes = 2

    def __init__(self, transform: Transform = None) -> None:
        super().__init__("karate_club", transform=transform)

    def process(self) -> None:
        """Build the graph."""
        import networkx  # takes a tenth of a second, and only this data set needs it

        club = networkx.karate_club_graph()
        self._graph = from_networkx(club)
        labels = np.array([side != "Mr. Hi" for _, side in club.nodes(data="club")], dtype=np.int64)
        self._graph.ndata["label"] = backend.active.from_numpy(labels)
