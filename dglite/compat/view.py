"""``dgl.view``: the classes of what ``g.nodes``, ``g.edges`` and the features of a graph are, for annotations."""

from collections.abc import MutableMapping
from typing import Any

from ..frame import Frame
from ..graph.views import EdgeView, FrameRows, NodeView, Space, TypedData

NodeSpace = EdgeSpace = Space
HeteroNodeView, HeteroEdgeView = NodeView, EdgeView


class HeteroNodeDataView(MutableMapping[str, Any]):
    """What ``g.ndata`` and ``g.nodes[...].data`` are instances of."""


class HeteroEdgeDataView(MutableMapping[str, Any]):
    """What ``g.edata`` and ``g.edges[...].data`` are instances of."""


for _data in (Frame, FrameRows, TypedData):
    HeteroNodeDataView.register(_data)
    HeteroEdgeDataView.register(_data)
