"""Small graphs of eight well-known shapes, to be classified."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .. import backend
from ..convert import from_networkx
from ..errors import DGLError
from ..structure.ids import count_of
from ..transforms import add_self_loop
from .dataset import GraphsWithLabels, Transform


@final
class MiniGCDataset(GraphsWithLabels):
    """Graphs of random size: cycles, stars, wheels, lollipops, hypercubes, grids, cliques and circular ladders.

    ``dataset[i]`` is a graph, with an edge each way and a self-loop at each node, and its class, an int64 scalar from
    0 to 7 in the order above. There are equally many of each; the last kind takes the rest. They are made each
    time, in well under a second for thousands; nothing is saved.

    Raises DGLError: there are numbers of nodes that are too small, or none at all.

    Parameters
    ----------
    num_graphs
        How many.
    min_num_v, max_num_v
        A graph is made for a random number of nodes from ``min_num_v`` up to, not including, ``max_num_v``. Hypercubes,
        grids and ladders have the largest number of nodes that is not above and fits; grids need at least 6.
    seed
        Of NumPy's generator of random numbers; with None its global one goes on.
    save_graph, force_reload
        Accepted for DGL's sake.
    verbose
        Accepted for DGL's sake.
    transform
        Function of a graph, applied each time one is read.
    """

    num_classes = 8

    def __init__(
        self,
        num_graphs: int,
        min_num_v: int,
        max_num_v: int,
        seed: int | None = 0,
        save_graph: bool = True,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        count_of(num_graphs, "num_graphs")
        if not 6 <= min_num_v < max_num_v:
            raise DGLError(f"got {min_num_v} to {max_num_v} nodes; expected at least 6, and more for max_num_v")
        self.num_graphs, self.min_num_v, self.max_num_v, self.seed = num_graphs, min_num_v, max_num_v, seed
        super().__init__("minigc", force_reload=force_reload, verbose=verbose, transform=transform)

    def process(self) -> None:
        """Make the graphs."""
        import networkx  # takes a tenth of a second, and only data sets made of its graphs need it

        numbers: Any = np.random if self.seed is None else np.random.RandomState(self.seed)
        counts = [self.num_graphs // 8] * 7 + [self.num_graphs - self.num_graphs // 8 * 7]
        labels = np.repeat(np.arange(8), counts)
        self.graphs = [add_self_loop(from_networkx(self._shape(label, numbers, networkx))) for label in labels.tolist()]
        self.labels = backend.active.from_numpy(labels)

    def _shape(self, label: int, numbers: Any, nx: Any) -> Any:
        """Return a NetworkX graph of a class; ``numbers`` is a generator of random numbers."""
        size = numbers.randint(self.min_num_v, self.max_num_v)
        match label:
            case 0:
                return nx.cycle_graph(size)
            case 1:
                return nx.star_graph(size - 1)
            case 2:
                return nx.wheel_graph(size)
            case 3:
                tail = numbers.randint(2, size // 2)
                return nx.lollipop_graph(size - tail, tail)
            case 4:
                return nx.convert_node_labels_to_integers(nx.hypercube_graph(int(size).bit_length() - 1))
            case 5:
                rows = numbers.randint(2, size // 2)
                return nx.convert_node_labels_to_integers(nx.grid_graph([rows, size // rows]))
            case 6:
                return nx.complete_graph(size)
        return nx.circular_ladder_graph(size // 2)
