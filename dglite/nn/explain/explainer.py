"""What all explainers share: the model while it is explained, and values by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from ...backend import Tensor, active
from ...errors import DGLError
from ...graph import DGLGraph
from ..base import TorchLayer, nn


class Explainer(TorchLayer):
    """A model to explain, and how features and masks are given: dictionaries by type, or single tensors.

    Inside, they are dictionaries in either case; a homogeneous graph has one node type and one edge type.
    """

    typed: ClassVar[bool]

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"{type(self).__name__}: model must be a torch.nn.Module, got {model!r:.60}")
        self.model = model

    @contextmanager
    def _model_on(self, device: Any) -> Iterator[nn.Module]:
        """Lend the model: on the device, for evaluation, its parameters constant. Modes are then as they were."""
        modes = [(module, module.training) for module in self.model.modules()]
        learned = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        try:
            for parameter in learned:
                parameter.requires_grad_(False)
            yield self.model.to(device).eval()
        finally:
            for module, training in modes:
                module.training = training
            for parameter in learned:
                parameter.requires_grad_(True)

    def _features(self, graph: DGLGraph, feat: Any) -> dict[str, Tensor]:
        """Return the features by node type. Raises ``DGLError`` for other types and for wrong numbers of rows."""
        name = type(self).__name__
        if not isinstance(graph, DGLGraph):
            raise DGLError(
                f"{name}: expected a graph, got {type(graph).__name__}; explain_node takes the node first, as in "
                "explain_node(node_id, graph, feat)"
            )
        if not self.typed:
            if len(graph.ntypes) != 1 or len(graph.canonical_etypes) != 1:
                raise DGLError(
                    f"{name} explains graphs of one node type and one edge type; this one has node types "
                    f"{graph.ntypes} and {len(graph.canonical_etypes)} edge types: use Hetero{name}"
                )
            feat = {graph.ntypes[0]: feat}
        elif not isinstance(feat, Mapping) or not feat or not set(feat) <= set(graph.ntypes):
            received = list(feat) if isinstance(feat, Mapping) else type(feat).__name__
            raise DGLError(f"{name}: feat must be a dictionary by node type, of {graph.ntypes}; got {received}")
        for ntype, x in feat.items():
            if not active.is_tensor(x) or x.ndim < 2 or x.shape[0] != graph.num_nodes(ntype):
                received = f"shape {tuple(x.shape)}" if active.is_tensor(x) else type(x).__name__
                raise DGLError(
                    f"{name}: the features of node type {ntype!r} are {received}; expected a dense tensor "
                    f"({graph.num_nodes(ntype)}, size), a row for each node"
                )
        return {ntype: x.detach() for ntype, x in feat.items()}

    def _require_weighted(self, depends: bool, argument: str) -> None:
        """Raise ``DGLError`` if the model's output does not depend on the weights of edges that it was called with."""
        if not depends:
            raise DGLError(
                f"{type(self).__name__}: the model's output does not depend on {argument}, so that nothing "
                f"can be learned of edges; let its forward multiply the messages by {argument}, as "
                "GraphConv(...)(graph, feat, edge_weight=...) does"
            )

    def _as_argument(self, by_type: dict[Any, Any]) -> Any:
        """Return values by type as the user gives and gets them."""
        return by_type if self.typed else next(iter(by_type.values()))
