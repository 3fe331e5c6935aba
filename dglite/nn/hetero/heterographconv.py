"""A layer for each relation of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...graph.storage import require_graph
from ..base import Layer, nn
from .bytype import module_name

Aggregate = Callable[[list[Tensor], str], Tensor]

_AGGREGATES: dict[str, Aggregate] = {
    "sum": lambda xs, _: framework.stack(xs, 0).sum(0),
    "max": lambda xs, _: framework.stack(xs, 0).max(0)[0],
    "min": lambda xs, _: framework.stack(xs, 0).min(0)[0],
    "mean": lambda xs, _: framework.stack(xs, 0).mean(0),
    "stack": lambda xs, _: framework.stack(xs, 1),
}


def get_aggregate_fn(agg: str) -> Aggregate:
    """Return the function of a list of tensors and a node type that aggregates; ``DGLError`` for an unknown name."""
    if agg not in _AGGREGATES:
        raise DGLError(f"aggregate={agg!r} is not known; expected one of {', '.join(_AGGREGATES)}, or a function")
    return _AGGREGATES[agg]


@final
class HeteroGraphConv(Layer):
    """Run a layer on each relation, and aggregate the results for each node type.

    Parameters
    ----------
    mods
        Layers by edge type, or canonical edge type. Each is called with its relation's graph and a pair of features.
        Nodes without in-edges are allowed: the layers' ``set_allow_zero_in_degree(True)`` is called.
    aggregate
        ``"sum"``, ``"max"``, ``"min"``, ``"mean"``, ``"stack"`` along a second axis, in the order of the graph's edge
        types, or a function of the list of tensors and the name of the destination's type.

    Raises ``DGLError`` for another aggregate.
    """

    names_its_layers = True

    def __init__(self, mods: Mapping[Any, nn.Module], aggregate: str | Aggregate = "sum") -> None:
        super().__init__()
        if not isinstance(mods, Mapping):
            raise DGLError(
                "HeteroGraphConv takes a dictionary from edge type to layer, such as {'follows': GraphConv(8, 4)}, got "
                f"{type(mods).__name__}"
            )
        if isinstance(aggregate, str):
            get_aggregate_fn(aggregate)  # which checks it
        self._keys = {module_name(key): key for key in mods}
        self.mods = nn.ModuleDict({module_name(key): layer for key, layer in mods.items()})
        for layer in self.mods.values():
            allow = getattr(layer, "set_allow_zero_in_degree", None)
            if callable(allow):
                allow(True)
        self._aggregate = aggregate

    @property
    def mod_dict(self) -> dict[Any, nn.Module]:
        """The layers by the edge types that they were given by."""
        return {self._keys[name]: layer for name, layer in self.mods.items()}

    @property
    def agg_fn(self) -> Aggregate:
        """The function of a list of tensors and a node type that aggregates."""
        return get_aggregate_fn(self._aggregate) if isinstance(self._aggregate, str) else self._aggregate

    def _layer(self, etype: tuple[str, str, str]) -> nn.Module:
        for name in (module_name(etype), module_name(etype[1])):
            if name in self.mods:
                return self.mods[name]
        raise KeyError(f"no layer for the edge type {etype}; there are layers for {', '.join(map(str, self.mod_dict))}")

    def forward(
        self,
        g: DGLGraph,
        inputs: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], Mapping[str, Tensor]],
        mod_args: Mapping[str, Sequence[Any]] | None = None,
        mod_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Tensor]:
        """Return the aggregated results by type of destination nodes; types that nothing arrives at are left out.

        ``inputs`` are features by node type, or a pair of such of sources and destinations; on a block a type's first
        sources are its destinations. Relations without features of their source are skipped. ``mod_args`` and
        ``mod_kwargs`` are further arguments of the layers by edge type. Raises ``KeyError`` for an edge type that has
        features and no layer.
        """
        sources, destinations = self._sides(g, inputs)
        arrived: dict[str, list[Tensor]] = {ntype: [] for ntype in g.dsttypes}
        for etype in g.canonical_etypes:
            source, name, destination = etype
            if source not in sources or (destination not in destinations and isinstance(inputs, tuple)):
                continue
            if destination not in destinations:
                if g.is_block:
                    continue
                raise KeyError(f"no features of {destination!r}, where edges of type {etype} arrive; give them as well")
            args, kwargs = (mod_args or {}).get(name, ()), (mod_kwargs or {}).get(name, {})
            feat = sources[source], destinations[destination]
            arrived[destination].append(self._layer(etype)(g[etype], feat, *args, **kwargs))
        return {ntype: self.agg_fn(xs, ntype) for ntype, xs in arrived.items() if xs}

    @staticmethod
    def _sides(g: DGLGraph, inputs: Any) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        require_graph(g)
        for features in inputs if isinstance(inputs, tuple) else (inputs,):
            if not isinstance(features, Mapping):
                raise DGLError(
                    f"HeteroGraphConv: inputs are a {type(features).__name__}; expected features by node type, "
                    "{ntype: tensor}, or a pair of such of sources and destinations"
                )
            if features and not any(ntype in g.ntypes for ntype in features):
                raise DGLError(f"HeteroGraphConv: inputs are of {list(features)}; the graph has node types {g.ntypes}")
        if isinstance(inputs, tuple):
            return inputs[0], inputs[1]
        if not g.is_block:
            return inputs, inputs
        return inputs, {ntype: x[: g.num_dst_nodes(ntype)] for ntype, x in inputs.items() if ntype in g.dsttypes}
