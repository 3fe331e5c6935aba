"""Message passing in plain Python, one edge and one node at a time: what every plan must agree with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Row = np.ndarray
"""One node's or one edge's feature."""


@dataclass(frozen=True)
class Edges:
    """A relation as lists, with a feature ``h`` per node and ``w`` per edge."""

    num_src: int
    num_dst: int
    src: Sequence[int]
    dst: Sequence[int]


MESSAGES: Mapping[str, Callable[[Row, Row, Row], Row]] = {
    "copy_u": lambda u, e, v: u,
    "copy_e": lambda u, e, v: e,
    "u_add_v": lambda u, e, v: u + v,
    "v_sub_u": lambda u, e, v: v - u,
    "u_mul_e": lambda u, e, v: u * e,
    "e_div_v": lambda u, e, v: e / v,
    "u_dot_v": lambda u, e, v: np.sum(u * v, axis=-1, keepdims=True),
}
"""Each built-in message as a function of one edge's source row, edge row and destination row."""

REDUCERS: Mapping[str, Callable[[Sequence[Row]], Row]] = {
    "sum": lambda messages: np.sum(messages, axis=0),
    "mean": lambda messages: np.mean(messages, axis=0),
    "max": lambda messages: np.max(messages, axis=0),
    "min": lambda messages: np.min(messages, axis=0),
    "prod": lambda messages: np.prod(messages, axis=0),
}


def messages_of(edges: Edges, name: str, u: np.ndarray, e: np.ndarray, v: np.ndarray) -> list[Row]:
    """Return the message of every edge."""
    return [MESSAGES[name](u[s], e[i], v[d]) for i, (s, d) in enumerate(zip(edges.src, edges.dst, strict=True))]


def update_all(edges: Edges, message: str, reducer: str, u: np.ndarray, e: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the reduced messages of every destination node; 0 for one without messages. There must be an edge."""
    messages = messages_of(edges, message, u, e, v)
    result = np.zeros((edges.num_dst, *messages[0].shape))
    for node in range(edges.num_dst):
        mailbox = [row for row, d in zip(messages, edges.dst, strict=True) if d == node]
        if mailbox:
            result[node] = REDUCERS[reducer](mailbox)
    return result
