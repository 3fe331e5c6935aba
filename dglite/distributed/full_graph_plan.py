"""Which way to split full-graph training sends fewer bytes: by nodes with halos, or by columns of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.distinct import distinct
from ..structure.ids import integer_array


@dataclass(frozen=True)
class FullGraphPlan:
    """The bytes that a step of full-graph training would send.

    Attributes
    ----------
    halo_rows : list of int
        For each process the rows that it fetches before each layer.
    node_bytes, feature_bytes : int
        What all processes receive together in a step, forward and backward, by :class:`FullGraph` and by
        :class:`FeatureSplit`.
    """

    halo_rows: list[int]
    node_bytes: int
    feature_bytes: int

    @property
    def split(self) -> str:
        """``"nodes"`` or ``"features"``: the split that sends fewer bytes."""
        return "nodes" if self.node_bytes <= self.feature_bytes else "features"

    def __str__(self) -> str:
        rows = f"{sum(self.halo_rows):,} halo rows, {max(self.halo_rows):,} at most for one process"
        return (
            f"split by nodes:    {self.node_bytes:,} bytes a step ({rows})\n"
            f"split by features: {self.feature_bytes:,} bytes a step\n"
            f"fewer by {self.split}"
        )


def plan_full_graph(
    g: DGLGraph,
    model: Any,
    num_parts: int,
    assignment: Any = None,
    *,
    itemsize: int = 4,
    training: bool = True,
    first_gradient: bool = True,
) -> FullGraphPlan:
    """Count the bytes that a step of full-graph training sends, split by nodes and split by features.

    Raises DGLError: no layer has a width; ``assignment`` does not fit; ``num_parts`` is not positive.

    Parameters
    ----------
    g
        of one node and one edge type.
    model
        width of what each layer aggregates, in order, or a module of dglite's layers, whose input widths are taken in
        the order of ``model.modules()``.
    num_parts
        processes.
    assignment
        (num_nodes,) integers, the process of each node; ranges of equal length by default.
    itemsize
        bytes of a number.
    training
        count gradients, too.
    first_gradient
        whether the first layer sends gradients: it does not where it aggregates features as they are given.
    """
    widths, num_nodes = _widths_of(model), g.num_nodes()
    if num_parts < 1:
        raise DGLError(f"got {num_parts} parts; expected 1 or more")
    if assignment is None:
        owner = np.arange(num_nodes) * num_parts // max(num_nodes, 1)
    else:
        owner = integer_array(assignment, "assignment").astype(np.int64)
        if len(owner) != num_nodes or (len(owner) and not 0 <= owner.min() <= owner.max() < num_parts):
            raise DGLError(f"assignment needs a number from 0 to {num_parts - 1} for each of {num_nodes} nodes")
    src, dst = (ends.numpy().astype(np.int64) for ends in g.edges())
    halo = halo_rows(src, dst, owner, num_parts)
    passes = [2 if training and (layer or first_gradient) else 1 for layer in range(len(widths))]
    counts = np.bincount(owner, minlength=num_parts)
    node_bytes = itemsize * int(halo.sum()) * sum(width * times for width, times in zip(widths, passes, strict=True))
    feature_bytes = 0
    for width, times in zip(widths, passes, strict=True):
        columns = np.diff([width * part // num_parts for part in range(num_parts + 1)])
        turned = int((num_nodes - counts) @ columns)  # to columns; to rows is as much
        feature_bytes += itemsize * turned * 2 * times
    return FullGraphPlan(halo.tolist(), node_bytes, feature_bytes)


def halo_rows(src: np.ndarray, dst: np.ndarray, owner: np.ndarray, num_parts: int) -> np.ndarray:
    """Return for each part how many different sources of its edges are other parts' nodes."""
    crossing = owner[src] != owner[dst]
    pairs = distinct(owner[dst[crossing]] * len(owner) + src[crossing])
    return np.bincount(pairs // max(len(owner), 1), minlength=num_parts)


def _widths_of(model: Any) -> list[int]:
    if isinstance(model, Sequence):
        widths = [int(width) for width in model]
    elif isinstance(model, torch.nn.Module):
        sizes = (getattr(layer, "_in_src_feats", getattr(layer, "_in_feats", None)) for layer in model.modules())
        widths = [width for width in sizes if isinstance(width, int)]
    else:
        raise DGLError(f"got {type(model).__name__} for the model; expected a module or a list of widths")
    if not widths:
        raise DGLError("found no layer with a width of its input; give the widths of what is aggregated as a list")
    return widths
