"""Jumping knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ...backend import Tensor, active, framework
from ...errors import DGLError
from .. import functional
from ..base import Layer, nn

_MODES = ("cat", "max", "lstm")


@final
class JumpingKnowledge(Layer):
    r"""The outputs of all layers made one, of Xu et al., "Representation learning on graphs with jumping knowledge
    networks", 2018.

    Parameters
    ----------
    mode
        ``"cat"``, one after the other; ``"max"``, the maximum element by element; ``"lstm"``, the mean weighted by the
        softmax of scores that a bidirectional LSTM over the layers gives.
    in_feats, num_layers
        Size of each output and how many there are; needed for ``"lstm"``.

    Shapes
    ------
    feat_list: num_layers of (num_nodes, in_feats) -> (num_nodes, in_feats), for ``"cat"`` (num_nodes, num_layers *
    in_feats)
    """

    def __init__(self, mode: str = "cat", in_feats: int | None = None, num_layers: int | None = None) -> None:
        super().__init__()
        if mode not in _MODES:
            raise DGLError(f"JumpingKnowledge: mode={mode!r} is not known; expected one of {_MODES}")
        self.mode = mode
        if mode == "lstm":
            if in_feats is None or num_layers is None:
                raise DGLError(f"JumpingKnowledge: mode='lstm' needs both, got {in_feats=} and {num_layers=}")
            hidden = num_layers * in_feats // 2
            self.lstm = nn.LSTM(in_feats, hidden, bidirectional=True, batch_first=True)
            self.att = nn.Linear(2 * hidden, 1)

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        if self.mode == "lstm":
            self.lstm.reset_parameters()
            self.att.reset_parameters()

    def forward(self, feat_list: Sequence[Tensor]) -> Tensor:
        """Return one tensor. Raises ``DGLError`` for no outputs and, but for ``"cat"``, for several shapes."""
        if active.is_tensor(feat_list):
            raise DGLError("JumpingKnowledge takes a list of tensors, the outputs of each layer, got one tensor")
        shapes = [tuple(feat.shape) for feat in feat_list]
        same = [shape[:-1] for shape in shapes] if self.mode == "cat" else shapes
        if not shapes or same != same[:1] * len(same):
            raise DGLError(f"JumpingKnowledge: feat_list has the shapes {shapes}; expected outputs of one shape")
        if self.mode == "cat":
            return framework.cat(list(feat_list), -1)
        if self.mode == "max":
            return framework.stack(list(feat_list), -1).max(-1)[0]
        stacked = framework.stack(list(feat_list), 1)
        states, _ = functional.recurrent(self.lstm, stacked)
        return (stacked * framework.softmax(self.att(states), 1)).sum(1)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"mode={self.mode!r}"
