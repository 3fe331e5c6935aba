"""Label propagation."""

from __future__ import annotations

from typing import final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn

_NORMS = {"sym": "both", "row": "right"}


@final
class LabelPropagation(Layer):
    r"""Label propagation of Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002.

    .. math:: Y^{(t+1)} = \alpha\, \tilde A\, Y^{(t)} + (1 - \alpha)\, Y^{(0)}

    A step is one kernel, its normalisation inside. Degrees of 0 count as 1. There is nothing to train.

    Parameters
    ----------
    k
        Number of steps.
    alpha
        :math:`\alpha`.
    norm_type
        ``"sym"``, :math:`\tilde A = D^{-1/2} A D^{-1/2}`, or ``"row"``, :math:`D^{-1} A`; another raises
        ``ValueError``.
    clamp
        Whether each step ends with values between 0 and 1.
    normalize
        Whether each step ends with rows that sum to 1.
    reset
        Whether each step ends with the given labels at the nodes of the mask.

    Shapes
    ------
    labels (num_nodes,) or (num_nodes, 1) integers, or (num_nodes, classes) -> (num_nodes, classes), float32
    """

    def __init__(
        self,
        k: int,
        alpha: float,
        norm_type: str = "sym",
        clamp: bool = True,
        normalize: bool = False,
        reset: bool = False,
    ) -> None:
        super().__init__()
        if norm_type not in _NORMS:
            raise ValueError(f"LabelPropagation: norm_type={norm_type!r} is not known; expected 'sym' or 'row'")
        self.k, self.alpha, self.norm_type = k, alpha, norm_type
        self.clamp, self.normalize, self.reset = clamp, normalize, reset

    def forward(self, g: DGLGraph, labels: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the labels after all steps.

        ``mask`` (num_nodes,), or ids of nodes, says whose labels are known; all, unless given. Raises ``DGLError`` for
        another number of rows, and for a graph with two sets of nodes.
        """
        labels = functional.require_one_size(self, "labels", g, labels)
        if labels.ndim > 2:
            raise DGLError(
                f"LabelPropagation: labels has shape {tuple(labels.shape)}; expected (num_nodes,) or "
                "(num_nodes, classes)"
            )
        adjacency = g.adjacency()
        if labels.ndim == 1 or labels.shape[1] <= 1:
            labels = nn.functional.one_hot(labels.reshape(-1).long(), _classes(labels))
        known_labels = labels = labels.to(framework.float32)
        is_labelled = None
        if mask is not None:
            is_labelled = framework.zeros(labels.shape[0], dtype=framework.bool, device=labels.device)
            is_labelled[mask] = True
            is_labelled = is_labelled[:, None]
            known_labels = labels.masked_fill(~is_labelled, 0.0)
        y, norm = known_labels, _NORMS[self.norm_type]
        for _ in range(self.k):
            y = (1 - self.alpha) * known_labels + self.alpha * functional.normalised_sum(adjacency, y, norm)
            if self.clamp:
                y = y.clamp(0.0, 1.0)
            if self.normalize:
                y = nn.functional.normalize(y, p=1, dim=1)
            if self.reset:
                y = labels if is_labelled is None else framework.where(is_labelled, labels, y)
        return y

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"k={self.k}, alpha={self.alpha}, norm_type={self.norm_type!r}"


def _classes(labels: Tensor) -> int:
    """Return how many classes integer labels name, at least 1."""
    if labels.numel() == 0:
        return 1
    if int(labels.min()) < 0:
        raise DGLError(
            f"LabelPropagation: labels holds {int(labels.min())}; expected classes from 0 up. Give nodes without "
            "a label any class, and leave them out of the mask"
        )
    return int(labels.max()) + 1
