"""The layers are found where DGL's users look for them."""

from __future__ import annotations

import dglite.nn as nn
import dglite.nn.pytorch as dglnn


def test_the_torch_namespace_has_the_same_layers() -> None:
    layers = [name for name in nn.__all__ if name != "functional"]
    assert all(getattr(dglnn, name) is getattr(nn, name) for name in layers)
    assert dglnn.edge_softmax is nn.functional.edge_softmax
