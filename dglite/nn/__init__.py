"""Neural network layers, one per module, with DGL's names, signatures and parameter names."""

from .. import hints
from . import conv, explain, factory, functional, glob, gt, hetero, link, network_emb, temporal, utils
from .conv import *  # noqa: F403
from .explain import *  # noqa: F403
from .factory import *  # noqa: F403
from .glob import *  # noqa: F403
from .gt import *  # noqa: F403
from .hetero import *  # noqa: F403
from .link import *  # noqa: F403
from .network_emb import *  # noqa: F403
from .sparse_emb import NodeEmbedding
from .sparsefeatures import SparseFeatures
from .sparselinear import FeatureDropout, SparseLinear
from .state import load_state_dict, save_state_dict
from .temporal import *  # noqa: F403
from .utils import *  # noqa: F403

__all__ = [
    "FeatureDropout",
    "NodeEmbedding",
    "SparseFeatures",
    "SparseLinear",
    "functional",
    "load_state_dict",
    "save_state_dict",
]
__all__ += conv.__all__ + explain.__all__ + factory.__all__ + glob.__all__ + gt.__all__ + hetero.__all__ + link.__all__
__all__ += network_emb.__all__ + temporal.__all__ + utils.__all__

__getattr__ = hints.names_of(__name__)
