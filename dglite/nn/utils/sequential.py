"""Layers one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import DGLError
from ...graph import DGLGraph
from ..base import nn


class Sequential(nn.Sequential):
    """Layers run one after the other on one graph, or each on a graph of its own.

    What a layer returns goes into the next after the graph; a tuple is several arguments.
    """

    def __init__(self, *layers: Any) -> None:
        if len(layers) == 1 and isinstance(layers[0], list | tuple):
            raise TypeError("Sequential takes layers, not a list of them; write Sequential(*layers)")
        for layer in layers:
            if not isinstance(layer, nn.Module | Mapping):
                name = getattr(layer, "__name__", repr(layer))
                raise TypeError(
                    f"Sequential takes layers, got {name:.60}; give an activation to the layer before, as in "
                    "GraphConv(8, 4, activation=torch.relu)"
                )
        super().__init__(*layers)

    def forward(self, graph: DGLGraph | list[DGLGraph], *feats: Any) -> Any:
        """Return the last layer's result.

        Raises TypeError: ``graph`` is neither a graph nor a list; DGLError: there are not as many graphs as layers.
        """
        if isinstance(graph, DGLGraph):
            graphs = [graph] * len(self)
        elif isinstance(graph, list | tuple):
            graphs = list(graph)
        else:
            raise TypeError(f"Sequential: the first argument is a {type(graph).__name__}; expected a graph or a list")
        if len(graphs) != len(self):
            raise DGLError(f"Sequential: got {len(graphs)} graphs for {len(self)} layers; expected one for each")
        result: Any = feats
        for each, layer in zip(graphs, self, strict=True):
            if type(layer).__module__.startswith("torch.nn.modules."):
                raise DGLError(
                    f"Sequential passes the graph to each module, and {type(layer).__name__} takes features only; give "
                    "an activation to the layer before, as in GraphConv(8, 4, activation=torch.relu), or write a "
                    "forward that calls the modules"
                )
            result = layer(each, *(result if isinstance(result, tuple) else (result,)))
        return result
