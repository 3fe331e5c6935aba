"""Reports of negative edges."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.dataloading import negative_sampler
from dglite.sampling import global_uniform_negative_sampling
from tests.reports.cases import ids, pairs, report


@pytest.fixture(autouse=True)
def seeded() -> None:
    dglite.seed(7)


@report("dmlc/dgl#3656", "global negative sampling gave 5 edges where 1000 were asked for", also="dmlc/dgl#3657")
def test_number_of_negative_edges() -> None:
    g = dglite.rand_graph(200, 1000)
    src, dst = global_uniform_negative_sampling(g, 1000)
    assert len(src) == len(dst) == 1000
    drawn = set(zip(src.tolist(), dst.tolist(), strict=True))
    assert len(drawn) == 1000 and not drawn & set(pairs(g)) and all(u != v for u, v in drawn)


@report("dmlc/dgl#2978", "negative edges must not be edges; of a full graph there are none")
def test_negative_edges_of_dense_graphs() -> None:
    u, v = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    full = dglite.graph((u.flatten(), v.flatten()))
    assert all(ends.shape == (0,) for ends in global_uniform_negative_sampling(full, 10))
    almost = dglite.remove_edges(full, [6])  # 1 -> 2
    sampler = negative_sampler.GlobalUniform(3)
    for src, dst in (global_uniform_negative_sampling(almost, 10, replace=True), sampler(almost, ids(0, 1))):
        assert set(zip(src.tolist(), dst.tolist(), strict=True)) <= {(1, 2)}


@report(
    "pyg-team/pytorch_geometric#10794",
    "no negatives asked for: ids of another dtype came",
    also="pyg-team/pytorch_geometric#9709",
)
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_no_negatives(idtype: torch.dtype) -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]), idtype=idtype)
    for src, dst in (
        global_uniform_negative_sampling(g, 0),
        negative_sampler.Uniform(2)(g, torch.tensor([], dtype=idtype)),
    ):
        assert src.shape == dst.shape == (0,) and src.dtype == dst.dtype == idtype


@report("pyg-team/pytorch_geometric#8642", "negative ends were of nodes that are no such ends")
def test_ends_of_negatives_are_of_the_type() -> None:
    g = dglite.heterograph({("user", "buys", "item"): ([0, 0, 1, 4], [0, 1, 0, 2])})
    for sampler in (negative_sampler.PerSourceUniform(50), negative_sampler.GlobalUniform(1)):
        negatives = sampler(g, {("user", "buys", "item"): ids(0, 1, 2, 3)})
        src, dst = negatives[("user", "buys", "item")]
        assert int(src.max()) < 5 and set(dst.tolist()) <= {0, 1, 2}
    src, dst = negative_sampler.PerSourceUniform(3)(g, {("user", "buys", "item"): ids(3, 0)})[("user", "buys", "item")]
    assert src.tolist() == [4, 4, 4, 0, 0, 0] and len(dst) == 6
