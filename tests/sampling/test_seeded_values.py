"""What a seed draws does not change from one version to the next, nor with the width of ids."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

import dglite
from dglite import sampling

DIGESTS = {
    "sample_neighbors": "1717425ef593b7a7",
    "with replacement": "067a79f26532d318",
    "large fan-out": "069dd8ef5bcd0e27",
    "exclude_edges": "0a65d7a3244e4af2",
    "sample_labors": "12305c8c120d20e0",
    "select_topk": "6eb1e5388d49d133",
    "random_walk": "535891113af2a94d",
    "node2vec_random_walk": "d620aa9eb40550cb",
}
"""Of what kernels compiled by Numba drew, before they were translated."""


def drawn(name: str, g: dglite.DGLGraph, seeds: torch.Tensor) -> torch.Tensor:
    if name == "random_walk":
        return sampling.random_walk(g, seeds, length=9)[0]
    if name == "node2vec_random_walk":
        return sampling.node2vec_random_walk(g, seeds, 0.5, 2.0, 9)
    if name == "sample_labors":
        return sampling.sample_labors(g, seeds, 7)[0].edata[dglite.EID]
    if name == "select_topk":
        return sampling.select_topk(g, 7, "w", nodes=seeds).edata[dglite.EID]
    some = torch.arange(0, 20_000, 3, dtype=g.idtype)
    options = {"with replacement": {"replace": True}, "exclude_edges": {"exclude_edges": some}}.get(name, {})
    return sampling.sample_neighbors(g, seeds, 30 if name == "large fan-out" else 7, **options).edata[dglite.EID]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", DIGESTS)
def test_a_seed_draws_the_same_as_ever(name, idtype):
    n = np.arange(20_000)
    ends = (n * 7919 % 1009) ** 2 % 1000, (n * 104729 % 2003) % 997
    g = dglite.graph(ends, num_nodes=1000, idtype=idtype)
    g.edata["w"] = torch.from_numpy(n * 31 % 257).double()
    dglite.seed(42)
    values = drawn(name, g, torch.arange(0, 1000, 3, dtype=idtype)).numpy().astype("<i8")
    assert hashlib.sha256(values.tobytes()).hexdigest()[:16] == DIGESTS[name]
