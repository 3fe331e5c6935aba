"""``dgl.utils``: the helpers that scripts and layers written for DGL import from there, and from its submodules."""

from ...io.shared_arrays import create_shared_array as create_shared_mem_array
from ...io.shared_arrays import get_shared_array as get_shared_mem_array
from .. import containers
from ..containers import *  # noqa: F403 - each module lists its names
from . import checks, features, index
from .checks import *  # noqa: F403
from .features import *  # noqa: F403
from .index import *  # noqa: F403

__all__ = [
    "create_shared_mem_array",
    "get_shared_mem_array",
    *checks.__all__,
    *containers.__all__,
    *features.__all__,
    *index.__all__,
]
