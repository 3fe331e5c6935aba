"""``NodeFlow`` of DGL 0.4: the layers of a mini-batch, as blocks that share their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.views import Space
from ..structure.ids import ALL, integer_array, is_all, positions_of


class NodeFlow:
    """Layers 0 .. num_layers - 1 of nodes, and blocks of edges from each layer to the next.

    Layers and blocks may be counted from the end, as -1. A node's id in the flow counts through the layers; its id in a
    layer counts from 0. Features are those that :meth:`copy_from_parent` brings and the functions write.
    """

    def __init__(self, parent: DGLGraph, blocks: Sequence[DGLGraph]) -> None:
        """Take the sampled graph and blocks whose destination nodes are the next one's source nodes.

        ``NID`` and ``EID`` of their nodes and edges are ids in ``parent``.
        """
        self._parent = parent
        first, *_ = blocks
        nodes = [first.srcdata[NID], *[block.dstdata[NID] for block in blocks]]
        self._nodes = [active.to_numpy(ids).astype(np.int64) for ids in nodes]
        self._edges = [active.to_numpy(block.edata[EID]).astype(np.int64) for block in blocks]
        self._blocks = [block.clone() for block in blocks]
        frames = [first.node_frame_at(0).take(np.arange(first.num_src_nodes()))]
        frames += [block.node_frame_at(1).take(np.arange(block.num_dst_nodes())) for block in blocks]
        for frame in frames:
            frame.clear()
        for index, block in enumerate(self._blocks):
            block.node_frames = [frames[index], frames[index + 1]]  # one frame for both blocks that a layer touches
            block.edata.clear()
        self._frames = frames

    # -- sizes and ids ------------------------------------------------------------------------------------------
    @property
    def num_layers(self) -> int:
        """Number of layers of nodes."""
        return len(self._nodes)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of edges, one less than layers."""
        return len(self._blocks)

    @property
    def layers(self) -> list[Space]:
        """The layers; ``layers[i].data`` has the features of layer i."""
        return [Space(frame) for frame in self._frames]

    @property
    def blocks(self) -> list[Space]:
        """The blocks; ``blocks[i].data`` has the features of the edges from layer i to layer i + 1."""
        return [Space(block.edata) for block in self._blocks]

    def layer_size(self, layer_id: int) -> int:
        """Return the number of nodes in a layer."""
        return len(self._nodes[layer_id])

    def block_size(self, block_id: int) -> int:
        """Return the number of edges in a block."""
        return len(self._edges[block_id])

    def layer_nid(self, layer_id: int) -> Tensor:
        """Return the ids in the flow of a layer's nodes."""
        starts = np.cumsum([0, *map(len, self._nodes)])
        index = range(self.num_layers)[layer_id]
        return self._ids(np.arange(starts[index], starts[index + 1]))

    def layer_parent_nid(self, layer_id: int) -> Tensor:
        """Return the ids in the sampled graph of a layer's nodes."""
        return self._ids(self._nodes[layer_id].copy())

    def block_parent_eid(self, block_id: int) -> Tensor:
        """Return the ids in the sampled graph of a block's edges; -1 for self-loops that were added."""
        return self._ids(self._edges[block_id].copy())

    def block_edges(self, block_id: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return source, destination and edge ids of a block's edges, counted in its layers and in the block."""
        edges: tuple[Tensor, Tensor, Tensor] = self._blocks[block_id].edges("all")
        return edges

    def map_to_parent_nid(self, nid: Any) -> Tensor:
        """Return the ids in the sampled graph of nodes given by their ids in the flow."""
        return self._ids(np.concatenate(self._nodes)[integer_array(nid, "node ids")])

    def map_from_parent_nid(self, layer_id: int, parent_nids: Any, remap_local: bool = False) -> Tensor:
        """Return the ids in the flow, or with ``remap_local`` in the layer, of nodes of the sampled graph.

        Raises DGLError: a node is not in the layer.
        """
        layer_nodes, ids = self._nodes[layer_id], integer_array(parent_nids, "node ids").reshape(-1)
        positions = positions_of(ids, layer_nodes)
        if positions.min(initial=0) < 0:
            raise DGLError(f"some of the nodes {ids.tolist()} are not in layer {layer_id}")
        first = 0 if remap_local else sum(map(len, self._nodes[: range(self.num_layers)[layer_id]]))
        return self._ids(positions + first)

    def layer_in_degree(self, layer_id: int) -> Tensor:
        """Return the number of edges from the layer before to each node of a layer; zeros for the first layer."""
        index = range(self.num_layers)[layer_id]
        return self._blocks[index - 1].in_degrees() if index else self._ids(np.zeros(self.layer_size(0), np.int64))

    def layer_out_degree(self, layer_id: int) -> Tensor:
        """Return the number of edges to the next layer from each node of a layer; zeros for the last layer."""
        index = range(self.num_layers)[layer_id]
        if index == self.num_blocks:
            return self._ids(np.zeros(self.layer_size(index), np.int64))
        return self._blocks[index].out_degrees()

    # -- features -----------------------------------------------------------------------------------------------
    def copy_from_parent(self, node_embed_names: Any = ALL, edge_embed_names: Any = ALL) -> None:
        """Bring features of the sampled graph: for each layer and block a list of names, or None; all by default.

        Blocks with added self-loops get no features of edges.
        """
        for frame, ids, names in zip(self._frames, self._nodes, _each(node_embed_names, self._nodes), strict=True):
            _bring(self._parent.node_frame_at(0), frame, ids, names)
        for block, ids, names in zip(self._blocks, self._edges, _each(edge_embed_names, self._edges), strict=True):
            if ids.min(initial=0) >= 0:
                _bring(self._parent.edge_frame_at(0), block.edge_frame_at(0), ids, names)

    def copy_to_parent(self, node_embed_names: Any = ALL, edge_embed_names: Any = ALL) -> None:
        """Write features back to the sampled graph; arguments as for :meth:`copy_from_parent`."""
        for frame, ids, names in zip(self._frames, self._nodes, _each(node_embed_names, self._nodes), strict=True):
            self._parent.node_frame_at(0).set_rows(ids, {name: frame[name] for name in _listed(frame, names)})
        for block, ids, names in zip(self._blocks, self._edges, _each(edge_embed_names, self._edges), strict=True):
            has_parent, frame = ids >= 0, block.edge_frame_at(0).take((ids >= 0).nonzero()[0])
            self._parent.edge_frame_at(0).set_rows(
                ids[has_parent], {name: frame[name] for name in _listed(frame, names)}
            )

    # -- computation --------------------------------------------------------------------------------------------
    def apply_layer(self, layer_id: int, func: Callable[..., Any], v: Any = ALL, inplace: bool = False) -> None:
        """Write the features that ``func`` computes from nodes ``v``, ids in the layer, of a layer."""
        index = range(self.num_layers)[layer_id]
        block, side = (self._blocks[index], "SRC/_N") if index < self.num_blocks else (self._blocks[-1], "DST/_N")
        block.apply_nodes(func, v, side)

    def apply_block(self, block_id: int, func: Callable[..., Any], edges: Any = ALL, inplace: bool = False) -> None:
        """Write the features that ``func`` computes from edges of a block."""
        self._blocks[block_id].apply_edges(func, edges)

    def block_compute(
        self,
        block_id: int,
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Any = None,
        v: Any = ALL,
        inplace: bool = False,
    ) -> None:
        """Send along a block's edges and reduce at nodes ``v``, ids in the layer, of the layer that they reach."""
        block = self._blocks[block_id]
        if is_all(v):
            block.update_all(message_func, reduce_func, apply_node_func)
        else:
            block.pull(v, message_func, reduce_func, apply_node_func)

    def prop_flow(self, message_funcs: Any, reduce_funcs: Any, apply_node_funcs: Any = None) -> None:
        """Call :meth:`block_compute` on block after block, with functions for all or lists of one for each."""
        by_block = [
            x if isinstance(x, list | tuple) else [x] * self.num_blocks
            for x in (message_funcs, reduce_funcs, apply_node_funcs)
        ]
        for block_id, functions in enumerate(zip(*by_block, strict=True)):
            self.block_compute(block_id, *functions)

    def _ids(self, array: np.ndarray) -> Tensor:
        return self._parent.ids_tensor(array)


def _each(names: Any, parts: Sequence[Any]) -> Sequence[Any]:
    if is_all(names) or names is None:
        return [names] * len(parts)
    if len(names) != len(parts):
        raise DGLError(f"names of features for {len(names)} layers or blocks, but there are {len(parts)}")
    return [[x] if isinstance(x, str) and not is_all(x) else x for x in names]


def _listed(frame: Any, names: Any) -> list[str]:
    return [] if names is None else list(frame) if is_all(names) else list(names)


def _bring(source: Any, target: Any, ids: np.ndarray, names: Any) -> None:
    """Give ``target`` rows ``ids`` of columns of ``source``."""
    target.update({name: source.rows_of(name, ids) for name in _listed(source, names)})
