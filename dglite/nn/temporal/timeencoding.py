"""Elapsed times as features."""

from __future__ import annotations

from typing import final

from ...backend import Tensor, framework
from .. import functional
from ..base import TorchLayer, nn


@final
class TimeEncoding(TorchLayer):
    r"""Cosines of a time at frequencies from 1 down to :math:`10^{-9}` (Xu et al., "Inductive representation learning
    on temporal graphs", 2020).

    .. math:: \phi(t) = \cos(t \omega + b)

    Without ``learned``, :math:`b = 0` and :math:`\omega_i = \alpha^{-(i - 1) / \alpha}` with :math:`\alpha = \sqrt{d}`,
    all fixed, as Cong et al., "Do we really need complicated model architectures for temporal networks?", 2023, have
    it. It needs torch.

    Parameters
    ----------
    time_feats
        Number of features, d.
    learned
        Whether frequencies and phases are parameters.

    Shapes
    ------
    time (\*,) of any dtype -> (\*, time_feats)
    """

    def __init__(self, time_feats: int, learned: bool = True) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, time_feats=time_feats)
        self.time_feats, self.learned = time_feats, learned
        if learned:
            self.frequency = nn.Parameter(framework.empty(time_feats))
            self.phase = nn.Parameter(framework.empty(time_feats))
        else:
            self.register_buffer("frequency", framework.empty(time_feats), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the frequencies to what the class says, and the phases to 0."""
        with framework.no_grad():
            if self.learned:
                exponents = -framework.linspace(0, 9, self.time_feats)
                self.frequency.copy_(10**exponents)
                nn.init.zeros_(self.phase)
            else:
                base = self.time_feats**0.5
                self.frequency.copy_(base ** (-framework.arange(self.time_feats) / base))

    def forward(self, time: Tensor) -> Tensor:
        """Return the features of times."""
        angle = time[..., None].to(self.frequency.dtype) * self.frequency
        return framework.cos(angle + self.phase if self.learned else angle)
