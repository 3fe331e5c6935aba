"""The layers under the name by which DGL's users import them: ``import dglite.nn.pytorch as dglnn``."""

from .. import hints
from . import *  # noqa: F403
from . import __all__ as _layers
from .functional import edge_softmax  # noqa: F401

__all__ = sorted({*_layers, "edge_softmax"} - {"functional"})
__getattr__ = hints.names_of(__name__)
