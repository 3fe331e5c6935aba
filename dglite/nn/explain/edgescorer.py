"""PGExplainer's network that scores edges, for homogeneous and heterogeneous graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ...backend import Tensor, active, framework
from ...batch import batch
from ...errors import DGLError
from ...frame import NID
from ...graph import DGLGraph
from ...subgraph import khop_in_subgraph
from ..base import nn
from .explainer import Explainer

_NO_IDS = np.empty(0, np.int64)


class _Neighbourhoods(NamedTuple):
    """The subgraphs of nodes to explain, as a batch, and where these nodes are in it."""

    batch: DGLGraph
    features: dict[str, Tensor]
    centers: list[tuple[str, int]]

    def places(self) -> dict[str, Tensor]:
        """Return where in the batch the explained nodes are, by type."""
        return {name: self.batch.nodes[name].data["train"].nonzero().squeeze(1) for name in self.batch.ntypes}


class EdgeScorer(Explainer):
    """Learns to tell from the embeddings of an edge's ends how much the edge counts."""

    edge_mask: Tensor | None
    sparse_mask_values: Tensor

    def __init__(
        self,
        model: nn.Module,
        num_features: int,
        num_hops: int | None = None,
        explain_graph: bool = True,
        coff_budget: float = 0.01,
        coff_connect: float = 5e-4,
        sample_bias: float = 0.0,
    ) -> None:
        super().__init__(model)
        self.graph_explanation = explain_graph
        self.num_features = num_features * (2 if explain_graph else 3)
        self.num_hops = num_hops
        self.coff_budget = coff_budget
        self.coff_connect = coff_connect
        self.sample_bias = sample_bias
        self.init_bias = 0.0
        self.elayers = nn.Sequential(nn.Linear(self.num_features, 64), nn.ReLU(), nn.Linear(64, 1))

    # -- the masks -----------------------------------------------------------------------------------------------------
    def set_masks(self, graph: DGLGraph, edge_mask: Tensor | None = None) -> None:
        """Keep an edge mask (num_edges,) as ``edge_mask``; without one, a normal one is drawn."""
        if edge_mask is None:
            spread = 2 / sqrt(2 * max(graph.num_nodes(), 1))
            edge_mask = framework.randn(graph.num_edges()) * spread + self.init_bias
        self.edge_mask = edge_mask.to(graph.device)

    def clear_masks(self) -> None:
        """Forget the edge mask."""
        self.edge_mask = None

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Return the parameters of the network that scores edges, without those of the model."""
        return self.elayers.parameters(recurse)

    def concrete_sample(self, w: Tensor, beta: float = 1.0, training: bool = True) -> Tensor:
        """Return how far each edge is taken, between 0 and 1, from its score; at random when training.

        Noise moves the scores, and the lower the temperature ``beta`` the closer the result is to 0 or 1.
        """
        if not training:
            return w.sigmoid()
        noise = self.sample_bias + (1 - 2 * self.sample_bias) * framework.rand_like(w)
        return ((noise.logit() + w) / beta).sigmoid()

    def loss(self, prob: Tensor, ori_pred: Tensor) -> Tensor:
        """Return the loss of the masks drawn last, a number.

        ``prob`` (rows, num_classes) are the probabilities with the mask, ``ori_pred`` (rows,) the classes without.
        Many edges, and edges half taken, add to it.
        """
        assert self.edge_mask is not None
        missed = -(prob.gather(-1, ori_pred.unsqueeze(-1)) + 1e-6).log().mean()
        num_taken = self.sparse_mask_values.sum()
        size = num_taken if self.coff_budget <= 0 else (num_taken - self.coff_budget).relu()
        chance = self.edge_mask * 0.98 + 0.01  # away from the ends, where logarithms are infinite
        entropy = -chance * chance.log() - (1 - chance) * (1 - chance).log()
        undecided = entropy.sum() / max(len(entropy), 1)
        return missed + self.coff_budget * size + self.coff_connect * undecided

    def _masked(
        self,
        graph: DGLGraph,
        features: dict[str, Tensor],
        centers: Sequence[tuple[str, int]],
        temperature: float,
        training: bool,
        kwargs: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Return the model's output with a mask, and the mask."""
        inputs = self._as_argument(features)
        with self._model_on(graph.device) as model, framework.set_grad_enabled(training):
            with framework.no_grad():
                ends, reverse = self._ends(graph, model(graph, inputs, embed=True, **kwargs), centers)
            scores = self.elayers.to(graph.device)(ends).reshape(-1)
            values = self.concrete_sample(scores, beta=temperature, training=training)
            mask = (values + values[reverse]) / 2
            self.sparse_mask_values = values
            self.set_masks(graph, mask)
            etypes = graph.canonical_etypes
            parts = mask.split([graph.num_edges(etype) for etype in etypes])
            by_type = self._as_argument(dict(zip(etypes, parts, strict=True)))
            output = model(graph, inputs, edge_weight=by_type, **kwargs)
            if training and graph.num_edges():
                # The model's parameters are constant here, so that a gradient can come from the mask alone.
                parts = output.values() if isinstance(output, Mapping) else [output]
                self._require_weighted(any(x.requires_grad for x in parts), "edge_weight")
        if not training:
            self.clear_masks()
        return output, by_type

    def _ends(self, graph: DGLGraph, embed: Any, centers: Sequence[tuple[str, int]]) -> tuple[Tensor, Tensor]:
        """Return what the network reads of each edge, type after type, and each edge's reverse, else the edge itself.

        These are its source's and destination's embeddings, and that of the node that its graph is the neighbourhood
        of, where ``centers`` has one for each graph of a batch.
        """
        relations = [relation for relation in graph.canonical_etypes if graph.num_edges(relation)]
        ends = {ntype for source, _, destination in relations for ntype in (source, destination)}
        embeddings = self._by_ntype(graph, embed, ends)
        size = self.num_features // (2 if self.graph_explanation else 3)
        for ntype in ends:
            self._require_embeddings(embeddings[ntype], (graph.num_nodes(ntype), size), ntype)
        # A node of a type that has no embeddings has no edges near it, so that its own is not read.
        none = framework.zeros(graph.num_nodes(), size, device=graph.device)
        of_centers = [embeddings.get(ntype, none)[node] for ntype, node in centers]
        offsets = dict(zip(graph.ntypes, np.cumsum([0, *map(graph.num_nodes, graph.ntypes)]).tolist(), strict=False))
        rows, sources, destinations = [none.new_zeros(0, self.num_features)], [_NO_IDS], [_NO_IDS]
        for relation in relations:
            src, dst = graph.edges(etype=relation)
            parts = [embeddings[relation[0]][src.long()], embeddings[relation[2]][dst.long()]]
            if of_centers:
                counts = graph.batch_num_edges(relation).long()
                parts.append(framework.stack(of_centers).repeat_interleave(counts, 0))
            rows.append(framework.cat(parts, -1))
            sources.append(src.long().cpu().numpy() + offsets[relation[0]])
            destinations.append(dst.long().cpu().numpy() + offsets[relation[2]])
        reverse = _reverse_edges(np.concatenate(sources), np.concatenate(destinations), graph.num_nodes())
        return framework.cat(rows), framework.from_numpy(reverse).to(graph.device)

    def _by_ntype(self, graph: DGLGraph, output: Any, ntypes: Collection[str] = ()) -> Mapping[str, Tensor]:
        """Return what the model gave for nodes, by node type. Raises ``DGLError`` without one of ``ntypes``."""
        if not self.typed:
            return {graph.ntypes[0]: output}
        if not isinstance(output, Mapping) or not set(ntypes) <= set(output):
            returned = list(output) if isinstance(output, Mapping) else type(output).__name__
            raise DGLError(
                f"{type(self).__name__}: the model must return a dictionary by node type with embed=True, and to "
                f"explain nodes, here of {sorted(ntypes)}; got {returned}"
            )
        return output

    def _require_embeddings(self, x: Tensor, expected: tuple[int, int], ntype: str) -> None:
        if tuple(x.shape) != expected:
            raise DGLError(
                f"{type(self).__name__}: with embed=True the model must return embeddings {expected}, (num_nodes, "
                f"num_features), of node type {ntype!r}; got {tuple(x.shape)}"
            )

    # -- neighbourhoods of nodes ---------------------------------------------------------------------------------------
    def _neighbourhoods(self, graph: DGLGraph, feat: Any, nodes: dict[str, Any]) -> _Neighbourhoods:
        """Return the subgraphs around the given nodes, their features in ``ndata["feat"]``, the nodes in "train"."""
        if self.num_hops is None:
            raise DGLError(f"{type(self).__name__} needs num_hops, the model's number of steps, to explain nodes")
        features = self._features(graph, feat)
        missing = set(graph.ntypes) - set(features)
        if missing:
            raise DGLError(f"{type(self).__name__}: feat has no features of node types {sorted(missing)}")
        listed = [(ntype, node) for ntype, ids in nodes.items() for node in _as_list(ids)]
        if not listed:
            raise DGLError(f"{type(self).__name__}: there is no node to explain; give at least one")
        parts, centers, before = [], [], dict.fromkeys(graph.ntypes, 0)
        for ntype, node in listed:
            near, new_ids = khop_in_subgraph(graph, {ntype: node}, self.num_hops)
            centers.append((ntype, before[ntype] + int(new_ids[ntype][0])))
            parts.append(near)
            for name in before:
                before[name] += near.num_nodes(name)
        joined = batch(parts)
        for name, x in features.items():
            data = joined.nodes[name].data
            features[name] = data["feat"] = x[data[NID].long()]
            is_center = np.zeros(before[name], bool)
            is_center[[place for ntype, place in centers if ntype == name]] = True
            data["train"] = framework.from_numpy(is_center).to(graph.device)
        return _Neighbourhoods(joined, features, centers)

    def _train_nodes(
        self, nodes: dict[str, Any], graph: DGLGraph, feat: Any, temperature: float, kwargs: dict[str, Any]
    ) -> Tensor:
        self._require(False)
        near = self._neighbourhoods(graph, feat, nodes)
        places = {name: rows for name, rows in near.places().items() if len(rows)}
        with self._model_on(graph.device) as model, framework.no_grad():
            output = model(near.batch, self._as_argument(near.features), embed=False, **kwargs)
        predicted = self._by_ntype(graph, output, places)
        output, _ = self._masked(near.batch, near.features, near.centers, temperature, True, kwargs)
        masked = self._by_ntype(graph, output, places)
        return self.loss(
            framework.cat([masked[name][rows].softmax(-1) for name, rows in places.items()]),
            framework.cat([predicted[name][rows].argmax(-1) for name, rows in places.items()]),
        )

    def _explain_nodes(
        self,
        nodes: dict[str, Any],
        graph: DGLGraph,
        feat: Any,
        temperature: float,
        training: bool,
        kwargs: dict[str, Any],
    ) -> tuple[Any, Any, DGLGraph, Any]:
        self._require(False)
        near = self._neighbourhoods(graph, feat, nodes)
        output, mask = self._masked(near.batch, near.features, near.centers, temperature, training, kwargs)
        chances = {name: logits.softmax(-1) for name, logits in self._by_ntype(graph, output).items()}
        return self._as_argument(chances), mask, near.batch, self._as_argument(near.places())

    def _require(self, explains_graphs: bool) -> None:
        if self.graph_explanation is not explains_graphs:
            raise DGLError(
                f"this {type(self).__name__} was constructed with explain_graph={self.graph_explanation}; construct "
                f"it with explain_graph={explains_graphs} to explain {'graphs' if explains_graphs else 'nodes'}"
            )

    # -- graphs --------------------------------------------------------------------------------------------------------
    def _train_step(self, graph: DGLGraph, feat: Any, temperature: float, kwargs: dict[str, Any]) -> Tensor:
        self._require(True)
        features = self._features(graph, feat)
        with self._model_on(graph.device) as model, framework.no_grad():
            predicted = model(graph, self._as_argument(features), embed=False, **kwargs).argmax(-1)
        output, _ = self._masked(graph, features, (), temperature, True, kwargs)
        return self.loss(output.softmax(-1), predicted)

    def _explain_graph(
        self, graph: DGLGraph, feat: Any, temperature: float, training: bool, kwargs: dict[str, Any]
    ) -> tuple[Tensor, Any]:
        self._require(True)
        output, mask = self._masked(graph, self._features(graph, feat), (), temperature, training, kwargs)
        return output.softmax(-1), mask


def _as_list(ids: Any) -> list[int]:
    if active.is_tensor(ids) or isinstance(ids, np.ndarray | np.generic):
        ids = ids.tolist()
    return [ids] if isinstance(ids, int) else list(ids)


def _reverse_edges(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return for each edge the one in the other direction, the k-th of parallel edges for the k-th; else the edge."""
    forward, backward = src * num_nodes + dst, dst * num_nodes + src
    order = forward.argsort(kind="stable")
    ascending = forward[order]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    place = np.searchsorted(ascending, backward) + rank
    inside = place < len(order)
    place[~inside] = 0
    edges = np.arange(len(order))
    return np.where(inside & (ascending[place] == backward), order[place], edges) if len(order) else edges
