"""OGB's data sets of link property prediction."""

from __future__ import annotations

from typing import Any

from ...errors import DGLError
from .base import PARTS, OneOgbGraph
from .evaluate import Evaluator
from .files import read_pt

__all__ = ["DglLinkPropPredDataset", "Evaluator"]


class DglLinkPropPredDataset(OneOgbGraph):
    """One of OGB's link sets: ogbl-ppa, -collab, -ddi, -citation2, -wikikg2, -biokg, -vessel.

    ``data[0]`` is the graph of training edges. It has ``ndata['feat']``, where there are features, and the further
    tables by name: ``year``, ``weight``, ``reltype``. Each line of an undirected set is an edge and, after it, the
    reversed one. Parameters, attributes and errors are those of
    :class:`~dglite.data.ogb.nodeproppred.DglNodePropPredDataset`, but for labels.
    """

    kind = "ogbl"

    def get_edge_split(self, split_type: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the official split: dicts of tensors by ``"train"``, ``"valid"`` and ``"test"``.

        Edges are rows of ``["edge"]`` and ``["edge_neg"]``, (num_edges, 2); of ogbl-citation2 ``["source_node"]``,
        ``["target_node"]`` and ``["target_node_neg"]``; of knowledge graphs ``["head"]``, ``["relation"]``,
        ``["tail"]`` and, to rank them among, ``["head_neg"]`` and ``["tail_neg"]``. ``["head_type"]`` and
        ``["tail_type"]`` of ogbl-biokg are lists of names. ``split_type`` names another folder of splits.
        """
        folder = self._split_folder(split_type)
        by_part = {part: read_pt(folder / f"{part}.pt") for part in PARTS}
        for part, content in by_part.items():
            if not isinstance(content, dict):
                raise DGLError(f"{folder / f'{part}.pt'} holds {type(content).__name__}; expected a dict of arrays")
        return by_part
