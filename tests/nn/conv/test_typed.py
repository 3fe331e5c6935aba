"""Layers whose edges have types: what they keep between steps."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.structure import Adjacency


def test_layers_of_edge_types_make_no_structure_in_their_second_step(monkeypatch):
    g, types = dglite.graph(([0, 1, 2, 0], [1, 2, 0, 2])), torch.tensor([0, 1, 0, 1])
    layers = [
        dglite.nn.RelGraphConv(4, 4, 2, "basis", 1),
        dglite.nn.RelGraphConv(4, 4, 2, "bdd", 2),
        dglite.nn.HGTConv(4, 2, 2, 1, 2),
    ]
    x, ntypes = torch.rand(3, 4), torch.zeros(3, dtype=torch.int64)
    for layer in layers:
        inputs = (ntypes, types) if isinstance(layer, dglite.nn.HGTConv) else (types,)
        for _ in range(2):
            results = []
            with monkeypatch.context() as patch:
                plain = Adjacency.from_coo
                patch.setattr(Adjacency, "from_coo", lambda *a, p=plain, m=results, **k: m.append(a) or p(*a, **k))
                layer(g, x, *inputs).sum().backward()
        assert not results, layer


def test_low_mem_is_accepted_and_changes_nothing():
    with pytest.warns(DeprecationWarning, match="low_mem"):
        layer = dglite.nn.RelGraphConv(3, 2, 2, "basis", low_mem=True, dropout=0.0)
    assert layer(dglite.graph(([0], [1])), torch.ones(2, 3), torch.tensor([1])).shape == (2, 2)
