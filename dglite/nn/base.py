"""``nn``: what the layers are made of, ``torch.nn`` or the part of it that the active backend has.

To type checkers it is torch's, so that a layer is known to be a ``torch.nn.Module``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backend import framework

if TYPE_CHECKING:
    from torch import nn
else:
    nn = framework.nn

__all__ = ["nn"]
