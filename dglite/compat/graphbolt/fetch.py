"""The stage that reads features of a batch's nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...errors import UnknownIdError
from .errors import InputError
from .minibatch import MiniBatch
from .stages import MiniBatchTransformer, functional

__all__ = ["FeatureFetcher"]


@functional("fetch_feature")
class FeatureFetcher(MiniBatchTransformer):
    """Reads features of the input nodes, and of the edges of each block, by their ids in the graph.

    Keys are names, or lists of names by node type, or by edge type as a string; types that a batch lacks are left out.
    Sets ``node_features`` and ``edge_features``. Without a sampling stage before, features are the seeds'.

    Raises KeyError: the store lacks a feature; DGLError: when a batch comes: keys have types where it has none, or none
    where it has some; or it has no nodes.

    Parameters
    ----------
    feature_store
        a :class:`FeatureStore`.
    node_feature_keys, edge_feature_keys
        what to read of nodes and of edges.
    overlap_fetch
        accepted; threads of the loader read while others sample.
    """

    def __init__(
        self,
        datapipe: Any,
        feature_store: Any,
        node_feature_keys: Any = None,
        edge_feature_keys: Any = None,
        overlap_fetch: bool = True,
    ) -> None:
        super().__init__(datapipe, self._fetch)
        self.feature_store = feature_store
        self.node_feature_keys, self.edge_feature_keys = node_feature_keys, edge_feature_keys
        for domain, keys in (("node", node_feature_keys), ("edge", edge_feature_keys)):
            for _, kind, name in _listed(keys or ()):
                feature_store[domain, kind, name]

    def _fetch(self, batch: MiniBatch) -> MiniBatch:
        if self.node_feature_keys:
            nodes = batch.seeds if batch.input_nodes is None else batch.input_nodes
            if nodes is None:
                raise InputError("stage FeatureFetcher needs a MiniBatch with input_nodes; sample before it fetches")
            batch.node_features = self._read("node", nodes, self.node_feature_keys)
        if self.edge_feature_keys:
            ids = [batch.edge_ids(layer) for layer in range(batch.num_layers())]
            batch.edge_features = [{} if x is None else self._read("edge", x, self.edge_feature_keys) for x in ids]
        return batch

    def _read(self, domain: str, ids: Any, keys: Any) -> dict[Any, torch.Tensor]:
        """Return features of nodes or edges: by name, or by (type, name) where keys are by type."""
        if isinstance(keys, Mapping) != isinstance(ids, Mapping):
            raise InputError(
                f"stage FeatureFetcher has {domain}_feature_keys {keys!r}; the batch's {domain}s have "
                + ("types: give a dictionary by type" if isinstance(ids, Mapping) else "no types: give a list of names")
            )
        rows_by_type: Mapping[Any, Any] = ids if isinstance(ids, Mapping) else {None: ids}
        features = {}
        for key, kind, name in _listed(keys):
            if kind in rows_by_type:
                try:
                    features[key] = self.feature_store.read(domain, kind, name, rows_by_type[kind])
                except IndexError as error:
                    raise UnknownIdError(f"stage FeatureFetcher, feature {(domain, kind, name)}: {error}") from error
        return features


def _listed(keys: Any) -> list[tuple[Any, str | None, str]]:
    """Return what features are called in a batch, their types and names."""
    if not isinstance(keys, Mapping):
        return [(name, None, name) for name in keys]
    return [((kind, name), kind, name) for kind, names in keys.items() for name in names]
