"""Samplers that draw neighbours layer by layer and return blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..frame import NID
from ..graph import DGLGraph
from ..ops.devices import Gpu, device_on
from ..random import draw_key, key_here
from ..sampling import sample_neighbors_fused
from ..sampling.arguments import edge_weights, fanouts_of, is_inward, seed_sets
from ..sampling.labor import Labor
from ..sampling.layers_on_gpu import sample_layers_on_gpu
from ..sampling.on_gpu import draw_on, excluded_there
from ..sampling.temporal import sample_blocks_at, sample_blocks_until
from ..sampling.times import edge_times, seed_times
from ..structure.ids import count_of
from .base import BlockSampler, Names, listed_fanouts
from .layered import ANOTHER, drawn_blocks, in_one_pass, sample_layers, uniform_draws


class _Layered(BlockSampler):
    """Base of samplers with a fan-out for each layer."""

    def __init__(self, fanouts: Sequence[Any], edge_dir: str, weight: str | None, *prefetched: Any) -> None:
        if weight is not None and not isinstance(weight, str):
            kind = type(weight).__name__
            raise TypeError(f"prob must be the name of an edge feature, got {kind}: g.edata['p'] = p, then prob='p'")
        super().__init__(*prefetched)
        self.fanouts, self.edge_dir, self.prob = listed_fanouts(fanouts, "layer of the model"), edge_dir, weight
        self.formats = ("csc",) if is_inward(edge_dir) else ("csr",)

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` where seeds, fan-outs or weights do not fit the graph."""
        super().check(g, indices)
        for layer, fanout in enumerate(self.fanouts):
            fanouts_of(g, fanout, f"the fan-out of layer {layer}")
        edge_weights(g, self.prob)

    def finished(self, blocks: list[DGLGraph], seed_nodes: Any) -> tuple[Any, Any, list[DGLGraph]]:
        """Return blocks, last layer first, as the sampler gives them."""
        return _result(blocks[-1].srcdata[NID], seed_nodes, blocks, self.output_device)


class NeighborSampler(_Layered):
    """Draws some of each node's edges, layer by layer from the seed nodes back (GraphSAGE).

    Raises DGLError: there are no fan-outs; when a loader is made or a batch sampled, they or the seeds do not fit the
    graph, a feature is missing, a weight is negative or NaN, or a seed's time is NaN; ValueError: ``prob`` and ``mask``
    are both given, ``time`` or ``edge_time`` alone, or both with ``edge_dir="out"``; the latest edges are asked for
    without times, by weight or with replacement.

    Parameters
    ----------
    fanouts
        for each layer, first layer first, how many edges each node has of each edge type: a number, or a dictionary of
        it by edge type; -1 for all.
    edge_dir
        "in" for edges that enter the nodes; "out" for edges that leave them, as
        :func:`dglite.sampling.sample_neighbors_fused` has it.
    prob, mask
        name of an edge feature: weights that edges are drawn in proportion to, or booleans that say which edges are
        there; not both. A type without the feature is sampled uniformly.
    replace
        draw with replacement.
    prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device
        as for :class:`BlockSampler`.
    fused
        accepted for DGL's sake: sampling and numbering are one call in any case.
    time, edge_time
        names of a node feature, the time of each seed, and of an edge feature, the time of each edge: numbers. In all
        layers only edges are drawn that are not later than the seed that they are drawn for. So a node is in a block
        once for each time of seeds that reach it; ``srcdata["_TIME"]`` and ``dstdata["_TIME"]`` have these times. Edges
        of a type without the feature are always there; an edge whose time is NaN never is. Where seeds are edges
        (:func:`as_edge_prediction_sampler`), their own times count, and ``time`` is not read.
    temporal_strategy
        which edges are drawn of those that are not later: ``"uniform"``, any; ``"last"``, the latest, of equal times
        those of higher ids.
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Names = None,
        prefetch_labels: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
        fused: bool = True,
        time: str | None = None,
        edge_time: str | None = None,
        temporal_strategy: Literal["uniform", "last"] = "uniform",
    ) -> None:
        if mask is not None and prob is not None:
            raise ValueError("give prob or mask, not both; the product of the two is a prob")
        prefetched = prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device
        super().__init__(fanouts, edge_dir, mask if prob is None else prob, *prefetched)
        if (time is None) != (edge_time is None):
            raise ValueError("give both time, of the seed nodes, and edge_time, of the edges; or neither")
        if time is not None and edge_dir != "in":
            raise ValueError("with times, edges that enter nodes are drawn; for others use dglite.reverse(g)")
        if temporal_strategy not in ("uniform", "last"):
            raise ValueError(f'temporal_strategy={temporal_strategy!r} is not known; expected "uniform" or "last"')
        self.latest = temporal_strategy == "last"
        if self.latest and (time is None or self.prob is not None or replace):
            raise ValueError('temporal_strategy="last" needs time and edge_time, and neither weights nor replacement')
        self.replace, self.fused, self.time, self.edge_time = replace, fused, time, edge_time

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` where seeds, fan-outs, weights or times do not fit the graph."""
        super().check(g, indices)
        if self.time is not None and self.edge_time is not None:
            edge_times(g, self.edge_time)
            for node_set, ids in seed_sets(g, indices, True).items():
                seed_times(g, node_set, ids, self.time)

    def sample_blocks(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> tuple[Any, Any, list[DGLGraph]]:
        """Return the input nodes, the seed nodes and the blocks; edges ``exclude_eids`` are in none of them."""
        gpu = device_on(g.device)
        if isinstance(gpu, Gpu) and self.time is None and is_inward(self.edge_dir) and not g.is_block:
            blocks = sample_layers_on_gpu(g, gpu, seed_nodes, self._draws_on(gpu, g, exclude_eids))
            return _result(blocks[-1].srcdata[NID], seed_nodes, blocks, self.output_device)
        if self.prob is None and self.time is None and is_inward(self.edge_dir):
            layers = sample_layers(g, seed_nodes, uniform_draws(g, self.fanouts, self.replace, exclude_eids))
            if layers is not None:
                return _result(layers[-1].srcdata[NID], seed_nodes, layers, self.output_device)
        output_nodes: Any = seed_nodes
        blocks = []
        if self.time is not None and self.edge_time is not None:
            options = self.time, self.edge_time, self.prob, self.replace, self.latest, exclude_eids
            blocks = sample_blocks_until(g, seed_nodes, self.fanouts, *options)[::-1]
            return _result(blocks[-1].srcdata[NID], output_nodes, blocks, self.output_device)
        for fanout in reversed(self.fanouts):
            block = sample_neighbors_fused(
                g, seed_nodes, fanout, self.edge_dir, self.prob, self.replace, exclude_edges=exclude_eids
            )
            seed_nodes = block.srcdata[NID]
            blocks.append(block)
        return _result(seed_nodes, output_nodes, blocks, self.output_device)

    def _draws_on(self, gpu: Gpu, g: DGLGraph, exclude: Any) -> Iterator[Any]:
        excluded, again = excluded_there(g, exclude), self.prob is None and in_one_pass(g)
        for fanout in reversed(self.fanouts):
            options = fanouts_of(g, fanout), self.replace, draw_key(), self.prob, excluded, ANOTHER if again else None
            yield draw_on(g, gpu, True, *options)

    def sample_at(
        self, g: DGLGraph, sets: dict[int, np.ndarray], times: dict[int, np.ndarray], exclude_eids: Any
    ) -> tuple[Any, Any, list[DGLGraph]]:
        """Return :meth:`sample` of nodes by node set, each at a time, with ``edge_time``."""
        assert self.edge_time is not None
        options = self.edge_time, self.prob, self.replace, self.latest, exclude_eids
        blocks = sample_blocks_at(g, sets, times, self.fanouts, *options)[::-1]
        outputs = blocks[0].dstdata[NID]
        return self.assign_lazy_features(_result(blocks[-1].srcdata[NID], outputs, blocks, self.output_device))


MultiLayerNeighborSampler = NeighborSampler


class MultiLayerFullNeighborSampler(NeighborSampler):
    """Takes all in-edges of each node, for ``num_layers`` layers; other arguments are :class:`NeighborSampler`'s."""

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * count_of(num_layers, "num_layers", 1), **kwargs)


class LaborSampler(_Layered):
    """Draws neighbours shared by several seeds, so that fewer are needed: see :func:`dglite.sampling.sample_labors`.

    Raises DGLError as :class:`NeighborSampler`; ValueError: ``batch_dependency`` is below 1.

    Parameters
    ----------
    fanouts, edge_dir, prob, prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device
        as for :class:`NeighborSampler`. With ``prob`` or ``importance_sampling``, ``edata["edge_weights"]`` of the
        blocks has what messages are to be multiplied by.
    importance_sampling
        rounds of optimisation; negative: until convergence.
    layer_dependency
        use the same random numbers in all layers: fewer nodes still.
    batch_dependency
        k > 1: random numbers change slowly over k batches, so that they share nodes.
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        prefetch_node_feats: Names = None,
        prefetch_labels: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
    ) -> None:
        prefetched = prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device
        super().__init__(fanouts, edge_dir, prob, *prefetched)
        if edge_dir == "out":
            raise DGLError("LaborSampler draws edges that enter nodes; with edge_dir='out' sample dglite.reverse(g)")
        if batch_dependency < 1:
            raise ValueError(f"batch_dependency must be at least 1, got {batch_dependency}")
        self.importance_sampling, self.layer_dependency = importance_sampling, layer_dependency
        self.batch_dependency = batch_dependency
        self.named: Callable[[int, np.ndarray], np.ndarray] | None = None  # see Labor; for graphs in parts
        self.set_seed()

    def set_seed(self, random_seed: int | None = None) -> None:
        """Let the random numbers follow from a seed, alike for all samplers that have it; None: from dglite's."""
        self._seed = random_seed
        self._own_seed = draw_key() if random_seed is None else random_seed
        self._batches = itertools.count()

    def sample_blocks(self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None) -> tuple[Any, Any, list[DGLGraph]]:
        """Return the input nodes, the seed nodes and the blocks; edges ``exclude_eids`` are in none of them."""
        seeds, share = self.random_seeds()
        options, gpu = (g, seeds, share, exclude_eids), device_on(g.device)
        if isinstance(gpu, Gpu) and not g.is_block:
            laws = [law.draw_there(gpu) for law in self._laws(*options)]
            draws = [draw for draw in laws if draw is not None]
            if len(draws) == len(laws):
                return self.finished(sample_layers_on_gpu(g, gpu, seed_nodes, draws), seed_nodes)
        layers = drawn_blocks(g, seed_nodes, lambda: (law.draw for law in self._laws(*options)))
        return self.finished(layers, seed_nodes)

    def finished(self, blocks: list[DGLGraph], seed_nodes: Any) -> tuple[Any, Any, list[DGLGraph]]:
        """Return blocks, last layer first, as the sampler gives them; blocks without edges have weights too."""
        if self.prob is not None or self.importance_sampling != 0:
            for columns in (block.edge_frame_at(i) for block in blocks for i in range(len(block.adjacencies))):
                if columns.num_rows == 0 and "edge_weights" not in columns:
                    columns["edge_weights"] = active.empty((0,), "float32", blocks[0].device)
        return super().finished(blocks, seed_nodes)

    def _laws(self, g: DGLGraph, seeds: np.ndarray, share: float, exclude_eids: Any) -> Iterator[Labor]:
        for layer, fanout in enumerate(reversed(self.fanouts)):
            layer_seeds = seeds if self.layer_dependency else seeds + layer
            options = self.prob, self.importance_sampling, layer_seeds, share, exclude_eids, self.named
            yield Labor(g, fanouts_of(g, fanout), True, *options)

    def random_seeds(self) -> tuple[np.ndarray, float]:
        """Return two seeds of this batch's random numbers, and the interpolation weight between them."""
        key = key_here()
        if key is None:
            key = self._own_seed, next(self._batches)
        elif self._seed is not None:
            key = self._seed, *key[1:]
        window, step = divmod(key[-1], self.batch_dependency)
        window_seeds = [int(np.random.default_rng((*key[:-1], w)).integers(1 << 61)) for w in (window, window + 1)]
        return np.array(window_seeds[: 1 if self.batch_dependency == 1 else 2]), step / self.batch_dependency


def _result(inputs: Any, outputs: Any, blocks: list[DGLGraph], device: Any) -> tuple[Any, Any, list[DGLGraph]]:
    """Return blocks, last layer first, and nodes as a sampler gives them."""
    blocks.reverse()
    if device is not None:
        blocks = [block.to(device) for block in blocks]
        inputs = blocks[0].srcdata[NID]
    return inputs, outputs, blocks
