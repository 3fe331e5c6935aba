"""Sequences of events as :func:`dglite.sampling.latest_neighbors` returns them, checked and made features."""

from __future__ import annotations

from typing import Any

from ...backend import Tensor, framework
from ...errors import DGLError


def event_features(
    layer: Any, events: Tensor, age: Tensor, edge_feat: Tensor | None, num_events: int, edge_feats: int
) -> Tensor:
    """Return the features of events beside the encoding of their ages, (n, num_events, edge_feats + time_feats).

    Raises ``DGLError``: a shape is not (n, num_events), or that of ``edge_feat`` not (n, num_events, edge_feats).
    """
    name = type(layer).__name__
    if events.ndim != 2 or events.shape[1] != num_events:
        raise DGLError(f"{name}: events have shape {tuple(events.shape)}; expected (nodes, {num_events})")
    if age.shape != events.shape:
        raise DGLError(f"{name}: age has shape {tuple(age.shape)}; expected {tuple(events.shape)}, one for each event")
    encoded = layer.time_encoding(age)
    if not edge_feats and edge_feat is None:
        return encoded
    expected = *events.shape, edge_feats
    if edge_feat is None or edge_feat.shape != expected:
        shape = None if edge_feat is None else tuple(edge_feat.shape)
        raise DGLError(f"{name}: edge_feat has shape {shape}; expected {expected}")
    return framework.cat([edge_feat, encoded], -1)
