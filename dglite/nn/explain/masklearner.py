"""GNNExplainer's masks and how they are learned, for homogeneous and heterogeneous graphs."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...progress import progress
from ..base import nn
from .explainer import Explainer


class MaskLearner(Explainer):
    """Learns a mask of the features of each node type and one of the edges of each edge type."""

    def __init__(
        self,
        model: nn.Module,
        num_hops: int,
        lr: float = 0.01,
        num_epochs: int = 100,
        *,
        alpha1: float = 0.005,
        alpha2: float = 1.0,
        beta1: float = 1.0,
        beta2: float = 0.1,
        log: bool = True,
    ) -> None:
        super().__init__(model)
        self.num_hops = num_hops
        self.lr = lr
        self.num_epochs = num_epochs
        self.alpha1, self.alpha2 = alpha1, alpha2
        self.beta1, self.beta2 = beta1, beta2
        self.log = log

    def _learn(
        self,
        graph: DGLGraph,
        features: dict[str, Tensor],
        read: Callable[[Any], Tensor],
        title: str,
        kwargs: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Return the masks of features and of edges.

        ``read`` takes the logits (num_classes,) of what is explained out of the model's output.
        """
        with self._model_on(graph.device) as model, framework.enable_grad():
            with framework.no_grad():
                label = read(model(graph=graph, feat=self._as_argument(features), **kwargs)).argmax()
            masks = _Masks(self, graph, features)
            optimizer = _MaskOptimizer(masks.logits, self.lr)
            for epoch in progress(range(self.num_epochs), title, "step", hide=not self.log):
                chances = masks.logits.sigmoid()
                of_features, of_edges = masks.by_type(chances)
                masked = {ntype: x * of_features[ntype] for ntype, x in features.items()}
                feat, eweight = self._as_argument(masked), self._as_argument(of_edges)
                output = model(graph=graph, feat=feat, eweight=eweight, **kwargs)
                logits = read(output)
                if not epoch and graph.num_edges():
                    self._require_weighted(_depends(logits, list(of_edges.values())), "eweight")
                loss = masks.penalty(chances) - logits.log_softmax(-1)[label]
                (gradient,) = framework.autograd.grad(loss, [masks.logits])
                masks.logits = optimizer.updated(masks.logits.detach(), gradient).requires_grad_()
        of_features, of_edges = masks.by_type(masks.logits.detach().sigmoid())
        return self._as_argument(of_features), self._as_argument(of_edges)

    def _logits_of_graph(self, output: Tensor) -> Tensor:
        """Return the row of a graph. Raises ``DGLError`` where the model gives another number of rows than one."""
        if output.ndim != 2 or output.shape[0] != 1:
            raise DGLError(
                f"{type(self).__name__}.explain_graph: the model's output has shape {tuple(output.shape)}; expected "
                "(1, num_classes), one graph's logits. Explain the graphs of a batch one by one (dglite.unbatch)"
            )
        return output[0]

    def _logits_of_node(self, output: Tensor, node: int, num_nodes: int) -> Tensor:
        """Return the row of a node. Raises ``DGLError`` where the model does not give a row for each node."""
        if output.ndim != 2 or output.shape[0] != num_nodes:
            raise DGLError(
                f"{type(self).__name__}.explain_node: the model's output has shape {tuple(output.shape)} for "
                f"{num_nodes} nodes; expected (num_nodes, num_classes), the logits of each"
            )
        return output[node]

    def _only(self, new_ids: Tensor) -> int:
        """Return the id of the one node that is explained."""
        if len(new_ids) != 1:
            raise DGLError(f"{type(self).__name__}.explain_node explains one node; got {len(new_ids)} ids")
        return int(new_ids[0])


def _depends(output: Tensor, inputs: list[Tensor]) -> bool:
    """Whether any of the inputs takes part in the output, whatever its gradient is."""
    if not output.requires_grad:
        return False
    grads = framework.autograd.grad(output.sum(), inputs, retain_graph=True, allow_unused=True)
    return any(grad is not None for grad in grads)


class _MaskOptimizer:
    """Adam of Kingma and Ba, 2015, with torch's defaults. torch's own imports torch's compiler when the first optimizer
    is made, which takes a second: longer than most explanations."""

    def __init__(self, values: Tensor, lr: float) -> None:
        self.lr, self.num_steps = lr, 0
        self.mean, self.square = framework.zeros_like(values), framework.zeros_like(values)

    def updated(self, values: Tensor, gradient: Tensor) -> Tensor:
        """Return the values after a step."""
        self.num_steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient * gradient
        scale = (self.square / (1 - 0.999**self.num_steps)).sqrt() + 1e-8
        return values - self.lr / (1 - 0.9**self.num_steps) * self.mean / scale


class _Masks:
    """All masks in one vector: first the features' by node type, then the edges' by edge type.

    One vector is one parameter for the optimizer, and the terms of the loss that want masks small and decided are two
    products, however many types there are.
    """

    def __init__(self, settings: MaskLearner, graph: DGLGraph, features: dict[str, Tensor]) -> None:
        some = next(iter(features.values()))
        form: dict[str, Any] = {"device": graph.device}
        form["dtype"] = some.dtype if some.is_floating_point() else framework.get_default_dtype()
        self.ntypes, self.etypes = list(features), graph.canonical_etypes
        initial, on_values, on_entropy = [], [], []
        for x in features.values():
            size = x.shape[1:]
            initial.append(framework.randn(1, *size, **form).reshape(-1) * 0.1)
            on_values.append(settings.beta1 / max(size.numel(), 1))
            on_entropy.append(settings.beta2 / max(size.numel(), 1))
        for source, etype, destination in self.etypes:
            relation = (source, etype, destination)
            num_ends = graph.num_nodes(source) + graph.num_nodes(destination)
            num_edges = graph.num_edges(relation)
            initial.append(framework.randn(num_edges, **form) * (2 / sqrt(max(num_ends, 1))))
            on_values.append(settings.alpha1)
            on_entropy.append(settings.alpha2 / max(num_edges, 1))
        self.sizes = [len(part) for part in initial]
        self.shapes = [tuple(x.shape[1:]) for x in features.values()]
        self.logits = framework.cat(initial).requires_grad_()
        counts = framework.tensor(self.sizes, device=graph.device)
        self.on_values = framework.tensor(on_values, **form).repeat_interleave(counts)
        self.on_entropy = framework.tensor(on_entropy, **form).repeat_interleave(counts)

    def by_type(self, chances: Tensor) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """Return the masks of features by node type and those of edges by edge type."""
        parts = chances.split(self.sizes)
        count = len(self.ntypes)
        of_features = [part.reshape(shape) for part, shape in zip(parts[:count], self.shapes, strict=True)]
        return dict(zip(self.ntypes, of_features, strict=True)), dict(zip(self.etypes, parts[count:], strict=True))

    def penalty(self, chances: Tensor) -> Tensor:
        """Return what the loss adds for large masks and for undecided ones."""
        entropy = framework.nn.functional.softplus(self.logits) - self.logits * chances
        return chances @ self.on_values + entropy @ self.on_entropy
