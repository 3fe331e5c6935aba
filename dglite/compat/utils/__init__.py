"""``dgl.utils``: the helpers that scripts and layers written for DGL import from there, and from its submodules."""

from .. import containers
from ..containers import *  # noqa: F403 - each module lists its names
from . import checks, features, index
from .checks import *  # noqa: F403
from .features import *  # noqa: F403
from .index import *  # noqa: F403

__all__ = [*checks.__all__, *containers.__all__, *features.__all__, *index.__all__]
