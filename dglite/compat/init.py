"""``dgl.init``: initializers of features, for ``set_n_initializer`` and ``set_e_initializer``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import Tensor
from ..frame import zeros


def zero_initializer(shape: Sequence[int], dtype: Any, ctx: Any, id_range: slice) -> Tensor:
    """Return zeros for the rows ``id_range`` of a column: ``shape`` is (len(id_range), *feat)."""
    return zeros(shape, dtype, ctx, id_range)


def base_initializer(shape: Sequence[int], dtype: Any, ctx: Any, id_range: slice) -> Tensor:
    """Show what arguments an initializer takes; it is no initializer itself and raises ``NotImplementedError``."""
    raise NotImplementedError("base_initializer shows the arguments of an initializer; zero_initializer is one")
