"""Synthetic graphs with attached motifs, to evaluate explainers: the motif is the reason of each label.

Ying et al., "GNNExplainer: generating explanations for graph neural networks", 2019, and Luo et al., "Parameterized
explainer for graph neural network", 2020. All are made each time, in a moment; nothing is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from .. import backend
from ..batch import batch
from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..transforms import reorder_graph
from .dataset import Folder, GraphsWithLabels, SingleGraphDataset, Transform
from .raw import float_tensor, long_tensor

Edges = Iterable[tuple[int, int]]


class Motif(NamedTuple):
    """A small graph that is attached by its node 0, and the label of each of its nodes."""

    edges: list[tuple[int, int]]
    labels: Sequence[int]


_HOUSE = Motif([(0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1)], (1, 1, 2, 2, 3))
"""Two nodes at the middle, two at the bottom, one at the top."""


def _cycle(size: int) -> Motif:
    return Motif([(i, (i + 1) % size) for i in range(size)], [1] * size)


def _generator(seed: int | None) -> Any:
    """Return a generator of random numbers: of a seed, or NumPy's global one."""
    return np.random if seed is None else np.random.RandomState(seed)


class _Growing:
    """A graph to which motifs are attached, evenly over the nodes of its base."""

    def __init__(self, base: Edges, num_nodes: int, num_motifs: int) -> None:
        self.edges = list(base)
        self.labels = [0] * num_nodes
        self._spacing = num_nodes // max(num_motifs, 1)

    def attach(self, motif: Motif, number: int) -> tuple[int, int]:
        """Attach the motif of a number; return its first node and the base node that this is linked to."""
        first, anchor = len(self.labels), number * self._spacing
        self.edges += [(first + u, first + v) for u, v in motif.edges]
        self.labels += motif.labels
        self.edges.append((first, anchor))
        return first, anchor

    def perturb(self, ratio: float, numbers: Any) -> None:
        """Add ``ratio`` random edges per edge, between nodes that have none from the one to the other."""
        count, existing = len(self.labels), set(self.edges)
        num_new = int(len(self.edges) * ratio)
        if not 0 <= num_new <= count * (count - 1) - len(existing):
            raise DGLError(f"perturb_ratio={ratio} of {len(self.edges)} edges; {count} nodes have no place for them")
        while num_new:
            edge = (int(numbers.randint(0, count)), int(numbers.randint(0, count)))
            if edge[0] != edge[1] and edge not in existing:
                existing.add(edge)
                self.edges.append(edge)
                num_new -= 1

    def finished(self) -> DGLGraph:
        """Return the graph in an order that tells nothing, with labels and a constant feature."""
        src, dst = np.array(self.edges, np.int64).reshape(-1, 2).T
        g = graph((src, dst), num_nodes=len(self.labels))
        g.ndata["label"] = long_tensor(self.labels)
        g.ndata["feat"] = float_tensor(np.ones((len(self.labels), 1)))
        return _shuffled(g)


def _shuffled(g: DGLGraph) -> DGLGraph:
    return reorder_graph(g, "rcmk", "dst", store_ids=False)


def _houses(nodes: int, edges_per_node: int, motifs: int, ratio: float, seed: Any, numbers: Any) -> DGLGraph:
    """Return a Barabasi-Albert graph with houses attached; ``seed`` is of the former, ``numbers`` of the rest."""
    import networkx  # takes a tenth of a second, and only data sets made of its graphs need it

    growing = _Growing(networkx.barabasi_albert_graph(nodes, edges_per_node, seed).edges, nodes, motifs)
    for number in range(motifs):
        growing.attach(_HOUSE, number)
    growing.perturb(ratio, numbers)
    return growing.finished()


@final
class BAShapeDataset(SingleGraphDataset):
    """BA-SHAPES: a Barabasi-Albert graph with houses of five nodes, and some random edges. Edges have one direction.

    ``ndata['label']`` (int64) is 0 for nodes of the base, 1, 2 and 3 for those at the middle, bottom and top of houses;
    ``ndata['feat']`` is 1, ``(num_nodes, 1)``.

    Raises DGLError: more random edges are asked for than there are pairs of nodes without an edge.

    Parameters
    ----------
    num_base_nodes, num_base_edges_per_node
        Nodes of the base, and edges that each new one of them brings.
    num_motifs
        Number of houses.
    perturb_ratio
        Random edges per edge.
    seed
        Equal seeds give equal graphs; None gives a different graph each time.
    raw_dir, force_reload, verbose
        Accepted for DGL's sake.
    transform
        Function of a graph, applied each time it is read.
    """

    num_classes = 4

    def __init__(
        self,
        num_base_nodes: int = 300,
        num_base_edges_per_node: int = 5,
        num_motifs: int = 80,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        self.num_base_nodes, self.num_base_edges_per_node = num_base_nodes, num_base_edges_per_node
        self.num_motifs, self.perturb_ratio, self.seed = num_motifs, perturb_ratio, seed
        super().__init__("BA-SHAPES", None, raw_dir, None, (), force_reload, verbose, transform)

    def process(self) -> None:
        """Make the graph."""
        sizes = self.num_base_nodes, self.num_base_edges_per_node, self.num_motifs
        self._graph = _houses(*sizes, self.perturb_ratio, self.seed, _generator(self.seed))


@final
class BACommunityDataset(SingleGraphDataset):
    """BA-COMMUNITY: two graphs as :class:`BAShapeDataset` makes them, joined by random edges from first to second.

    Labels of the second graph are 4 more. ``ndata['feat']`` is normal, ``(num_nodes, 10)``, float64: the first two
    numbers have mean -1 in the first graph and 1 in the second, and variance 0.5; the others have 0 and 1.

    Parameters
    ----------
    num_base_nodes, num_base_edges_per_node, num_motifs, perturb_ratio
        As in :class:`BAShapeDataset`, of each graph.
    num_inter_edges
        Number of edges between the two.
    seed, raw_dir, force_reload, verbose, transform
        As in :class:`BAShapeDataset`.
    """

    num_classes = 8

    def __init__(
        self,
        num_base_nodes: int = 300,
        num_base_edges_per_node: int = 4,
        num_motifs: int = 80,
        perturb_ratio: float = 0.01,
        num_inter_edges: int = 350,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        self.num_base_nodes, self.num_base_edges_per_node = num_base_nodes, num_base_edges_per_node
        self.num_motifs, self.perturb_ratio, self.seed = num_motifs, perturb_ratio, seed
        self.num_inter_edges = num_inter_edges
        super().__init__("BA-COMMUNITY", None, raw_dir, None, (), force_reload, verbose, transform)

    def process(self) -> None:
        """Make the graph."""
        numbers = _generator(self.seed)
        sizes = self.num_base_nodes, self.num_base_edges_per_node, self.num_motifs
        parts = [_houses(*sizes, self.perturb_ratio, int(numbers.randint(2**31)), numbers) for _ in range(2)]
        joined, half = batch(parts), parts[0].num_nodes()
        links = (numbers.randint(first, first + half, self.num_inter_edges) for first in (0, half))
        joined.add_edges(*links)
        label, shift = joined.ndata["label"], np.repeat([0, 4], half)
        joined.ndata["label"] = label + backend.active.from_numpy(shift)
        mean, spread = np.zeros(10), np.ones(10)
        mean[:2], spread[:2] = 1, np.sqrt(0.5)
        feat = numbers.normal(size=(2 * half, 10)) * spread + np.repeat([[-1.0], [1.0]], half, axis=0) * mean
        joined.ndata["feat"] = backend.active.from_numpy(feat)
        self._graph = _shuffled(joined)


class _TreeDataset(SingleGraphDataset):
    """Base of data sets of a balanced binary tree with motifs of class 1 attached."""

    num_classes = 2

    tree_height: int
    num_motifs: int
    perturb_ratio: float
    seed: int | None

    def _motif(self) -> Motif:
        raise NotImplementedError(f"{type(self).__name__} does not write _motif, which returns the attached motif")

    def _link(self, growing: _Growing, first: int, anchor: int, numbers: Any) -> None:
        """Link a motif to the tree once more, or not."""

    def process(self) -> None:
        """Make the graph."""
        numbers, motif = _generator(self.seed), self._motif()
        count = 2 ** (self.tree_height + 1) - 1
        growing = _Growing([((child - 1) // 2, child) for child in range(1, count)], count, self.num_motifs)
        for number in range(self.num_motifs):
            self._link(growing, *growing.attach(motif, number), numbers)
        growing.perturb(self.perturb_ratio, numbers)
        self._graph = growing.finished()


@final
class TreeCycleDataset(_TreeDataset):
    """TREE-CYCLES: a balanced binary tree with cycles attached, and some random edges. Edges have one direction.

    ``ndata['label']`` (int64) is 0 for nodes of the tree and 1 for those of cycles; ``ndata['feat']`` is 1,
    ``(num_nodes, 1)``. Half of the cycles have a second link to the tree.

    Raises DGLError: cycles are too small, or there is no place for the random edges.

    Parameters
    ----------
    tree_height
        The tree has ``2 ** (tree_height + 1) - 1`` nodes.
    num_motifs, cycle_size
        Number of cycles, and of nodes in each, at least 4.
    perturb_ratio, seed, raw_dir, force_reload, verbose, transform
        As in :class:`BAShapeDataset`.
    """

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 60,
        cycle_size: int = 6,
        perturb_ratio: float = 0.01,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        if cycle_size < 4:
            raise DGLError(f"cycle_size is {cycle_size}; expected at least 4 nodes")
        self.tree_height, self.num_motifs, self.cycle_size = tree_height, num_motifs, cycle_size
        self.perturb_ratio, self.seed = perturb_ratio, seed
        super().__init__("TREE-CYCLES", None, raw_dir, None, (), force_reload, verbose, transform)

    def _motif(self) -> Motif:
        return _cycle(self.cycle_size)

    def _link(self, growing: _Growing, first: int, anchor: int, numbers: Any) -> None:
        if numbers.random_sample() > 0.5:
            step, other = (int(numbers.randint(1, 4)) for _ in range(2))
            growing.edges.append((first + step, anchor + other))


@final
class TreeGridDataset(_TreeDataset):
    """TREE-GRIDS: a balanced binary tree with square grids attached, and some random edges. Edges have one direction.

    ``ndata['label']`` (int64) is 0 for nodes of the tree and 1 for those of grids; ``ndata['feat']`` is 1,
    ``(num_nodes, 1)``.

    Parameters
    ----------
    tree_height
        The tree has ``2 ** (tree_height + 1) - 1`` nodes.
    num_motifs, grid_size
        Number of grids, and of rows and columns of nodes in each.
    perturb_ratio, seed, raw_dir, force_reload, verbose, transform
        As in :class:`BAShapeDataset`.
    """

    def __init__(
        self,
        tree_height: int = 8,
        num_motifs: int = 80,
        grid_size: int = 3,
        perturb_ratio: float = 0.1,
        seed: int | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        self.tree_height, self.num_motifs, self.grid_size = tree_height, num_motifs, grid_size
        self.perturb_ratio, self.seed = perturb_ratio, seed
        super().__init__("TREE-GRIDS", None, raw_dir, None, (), force_reload, verbose, transform)

    def _motif(self) -> Motif:
        size = self.grid_size
        edges = []
        for cell in range(size * size):
            row, column = divmod(cell, size)
            edges += [(cell, cell + size)] * (row + 1 < size) + [(cell, cell + 1)] * (column + 1 < size)
        return Motif(edges, [1] * size**2)


@final
class BA2MotifDataset(GraphsWithLabels):
    """BA-2motifs: 1,000 Barabasi-Albert graphs of 20 nodes, half of them with a house, half with a cycle of five nodes.

    ``dataset[i]`` is a graph of 25 nodes, with an edge each way, and its class, an int64 scalar: 0 for a house, 1 for a
    cycle. ``ndata['feat']`` is 0.1, ``(25, 10)``. DGL downloads one such set; here it is made.

    Parameters
    ----------
    raw_dir, force_reload, verbose
        Accepted for DGL's sake.
    transform
        Function of a graph, applied each time one is read.
    seed
        What makes the graphs the same again.
    """

    num_classes = 2

    def __init__(
        self,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
        seed: int | None = 0,
    ) -> None:
        self.seed = seed
        super().__init__("BA-2motifs", None, raw_dir, None, (), force_reload, verbose, transform)

    def process(self) -> None:
        """Make the graphs."""
        import networkx  # takes a tenth of a second, and only data sets made of its graphs need it

        numbers, motifs = _generator(self.seed), (_HOUSE, _cycle(5))
        labels = np.repeat(np.arange(2), 500)
        self.graphs = []
        for label in labels:
            base = networkx.barabasi_albert_graph(20, 1, int(numbers.randint(2**31)))
            ends = [*base.edges, *((u + 20, v + 20) for u, v in motifs[label].edges), (20, int(numbers.randint(20)))]
            src, dst = np.array(ends).T
            g = graph((np.concatenate([src, dst]), np.concatenate([dst, src])), num_nodes=25)
            g.ndata["feat"] = float_tensor(np.full((25, 10), 0.1))
            self.graphs.append(g)
        self.labels = backend.active.from_numpy(labels)
