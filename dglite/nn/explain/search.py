"""SubgraphX's search for the subgraph that a prediction depends on, for one node type and for several."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...progress import progress
from ..base import nn
from .explainer import Explainer
from .setvalues import SetValues

_BITS = 1 << 24
"""Sets of nodes are drawn for as many subgraphs at a time as keep their masks below this size."""


class SubgraphSearcher(Explainer):
    """Searches a graph's connected parts for the part of the largest Shapley value."""

    def __init__(
        self,
        model: nn.Module,
        num_hops: int,
        coef: float = 10.0,
        high2low: bool = True,
        num_child: int = 12,
        num_rollouts: int = 20,
        node_min: int = 3,
        shapley_steps: int = 100,
        log: bool = False,
    ) -> None:
        super().__init__(model)
        least = {"num_child": num_child, "num_rollouts": num_rollouts, "node_min": node_min}
        for name, number in {**least, "shapley_steps": shapley_steps}.items():
            if number < 1:
                raise DGLError(f"{type(self).__name__}: {name}={number}; expected at least 1")
        self.num_hops = num_hops
        self.coef = coef
        self.high2low = high2low
        self.num_child = num_child
        self.num_rollouts = num_rollouts
        self.node_min = node_min
        self.shapley_steps = shapley_steps
        self.log = log

    def _search(self, graph: DGLGraph, feat: Any, target_class: int, kwargs: dict[str, Any]) -> dict[str, Tensor]:
        """Return the nodes of the best part by type; types of which it has none are left out."""
        features = self._features(graph, feat)
        if graph.num_nodes() <= self.node_min:
            raise DGLError(
                f"{type(self).__name__}: the graph has {graph.num_nodes()} nodes, not more than node_min="
                f"{self.node_min}, so no part of it is left to search for"
            )
        with self._model_on(graph.device) as model:
            values = SetValues(model, graph, features, self._as_argument, target_class, kwargs)
            nodes = Search(self, _links(graph), values).best()
        best, start = {}, 0
        for ntype in graph.ntypes:
            end = start + graph.num_nodes(ntype)
            inside = nodes[(nodes >= start) & (nodes < end)] - start
            if len(inside):
                best[ntype] = graph.ids_tensor(inside)
            start = end
        return best


def _links(graph: DGLGraph) -> Any:
    """Return how many edges join two nodes in either direction, a SciPy matrix over the nodes, type after type."""
    import scipy.sparse  # 0.2 s, which `import dglite` must not pay

    counts = [graph.num_nodes(ntype) for ntype in graph.ntypes]
    offsets = dict(zip(graph.ntypes, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
    sources, destinations = [], []
    for source, etype, destination in graph.canonical_etypes:
        src, dst = graph.adjacency((source, etype, destination)).endpoints()
        sources.append(src.astype(np.int64) + offsets[source])
        destinations.append(dst.astype(np.int64) + offsets[destination])
    src, dst = np.concatenate(sources), np.concatenate(destinations)
    ends = np.concatenate([src, dst]), np.concatenate([dst, src])
    return scipy.sparse.csr_array((np.ones(2 * len(src), np.int64), ends), shape=(sum(counts), sum(counts)))


class SearchNode:
    """A connected part of the graph: a node of the search tree."""

    def __init__(self, nodes: np.ndarray) -> None:
        self.nodes = nodes
        self.shapley = 0.0
        self.num_visits = 0
        self.total_reward = 0.0
        self.children: list[SearchNode] = []


class Search:
    """Monte Carlo tree search; a child is its parent without one node, or the largest component of what is left."""

    def __init__(self, settings: SubgraphSearcher, links: Any, values: Callable[[np.ndarray], np.ndarray]) -> None:
        self._settings, self._links, self._values = settings, links, values
        self._num_nodes = links.shape[0]
        self.parts: dict[bytes, SearchNode] = {}

    def best(self) -> np.ndarray:
        """Return the nodes of the part, of at most ``node_min`` nodes, with the largest Shapley value that was met."""
        root = SearchNode(np.arange(self._num_nodes))
        self.parts[root.nodes.tobytes()] = root
        with progress(range(self._settings.num_rollouts), "rollouts", "rollout", hide=not self._settings.log) as bar:
            for _ in bar:
                self._roll_out(root)
                bar.set_postfix(parts=len(self.parts), refresh=False)
        leaves = [part for part in self.parts.values() if len(part.nodes) <= self._settings.node_min]
        return max(leaves, key=lambda part: part.shapley).nodes

    def _roll_out(self, part: SearchNode) -> None:
        """Walk down to a leaf, the most promising child each time, and credit the parts passed with its value."""
        path = []
        while len(part.nodes) > self._settings.node_min:
            part = self._most_promising(self._expanded(part))
            path.append(part)
        for passed in path:
            passed.num_visits += 1
            passed.total_reward += part.shapley

    def _most_promising(self, children: list[SearchNode]) -> SearchNode:
        effort = self._settings.coef * sqrt(sum(child.num_visits for child in children))

        def promise(child: SearchNode) -> float:
            mean = child.total_reward / max(child.num_visits, 1)
            return mean + effort * child.shapley / (1 + child.num_visits)

        return max(children, key=promise)

    def _expanded(self, part: SearchNode) -> list[SearchNode]:
        """Return the children of a part, made and valued at the first call."""
        if part.children:
            return part.children
        from scipy.sparse.csgraph import connected_components

        links = self._links[part.nodes][:, part.nodes]
        degrees = links.sum(1)
        order = np.argsort(-degrees if self._settings.high2low else degrees, kind="stable")
        children, new = {}, []
        for node in order[: self._settings.num_child]:
            rest = np.delete(np.arange(len(part.nodes)), node)
            _, component = connected_components(links[rest][:, rest], directed=False)
            nodes = part.nodes[rest[component == np.bincount(component).argmax()]]
            key = nodes.tobytes()
            if key not in self.parts:
                self.parts[key] = SearchNode(nodes)
                new.append(self.parts[key])
            children[key] = self.parts[key]
        self.estimate(new)
        part.children = list(children.values())
        return part.children

    def estimate(self, parts: list[SearchNode]) -> None:
        """Estimate the Shapley values of parts."""
        steps = self._settings.shapley_steps
        at_once = max(1, _BITS // (2 * steps * self._num_nodes))
        for start in range(0, len(parts), at_once):
            some = parts[start : start + at_once]
            sets = np.concatenate([half for part in some for half in self._draw_sets(part.nodes)])
            without, with_part = self._values(sets).reshape(len(some), 2, steps).transpose(1, 0, 2)
            for part, gain in zip(some, (with_part - without).mean(1).tolist(), strict=True):
                part.shapley = gain

    def _draw_sets(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``shapley_steps`` sets of nodes (steps, num_nodes) without the given ones, and the same with them.

        Of the nodes near a part, those take part that a random order has before it; nodes far off always do.
        """
        near = np.zeros(self._num_nodes, bool)
        near[nodes] = True
        for _ in range(self._settings.num_hops - 1):
            near |= (self._links @ near).astype(bool)
        without = np.tile(~near, (self._settings.shapley_steps, 1))
        near[nodes] = False
        others = near.nonzero()[0]
        place = framework.rand(len(without), len(others) + 1).numpy()
        without[:, others] = place[:, :-1] < place[:, -1:]
        with_part = without.copy()
        with_part[:, nodes] = True
        return without, with_part
