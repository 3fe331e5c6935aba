"""Mixtures of stochastic block models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import dglite
from dglite import DGLError
from dglite.data import SBMMixtureDataset


def test_elements_belong_together() -> None:
    data = SBMMixtureDataset(3, 40, 4)
    assert len(data) == 3
    for g, lines, degrees, line_degrees, source in data:
        src, dst = g.edges()
        expected = dglite.line_graph(g, backtracking=False)
        assert torch.equal(torch.stack(lines.edges()), torch.stack(expected.edges()))
        assert torch.equal(degrees, g.in_degrees().float()) and torch.equal(line_degrees, lines.in_degrees().float())
        assert torch.equal(source, src) and (g.num_nodes(), lines.num_nodes()) == (40, g.num_edges())
        pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
        assert len(pairs) == g.num_edges() and pairs == {(v, u) for u, v in pairs}


@pytest.mark.parametrize("pq", [(0, 8), (8, 0)])
def test_the_first_probability_is_inside_and_the_second_in_between(pq: tuple[int, int]) -> None:
    g = SBMMixtureDataset(1, 100, 2, pq=[pq])[0][0]
    src, dst = g.edges()
    inside = (src < 50) == (dst < 50)
    assert inside.all() if pq[0] else not inside.any()
    assert abs(g.num_edges() - 400) < 50


def test_a_batch() -> None:
    data = SBMMixtureDataset(2, 20, 2, rng=np.random.RandomState(1))
    (batch,) = DataLoader(data, 2, collate_fn=data.collate_fn)  # type: ignore[arg-type, misc]
    g, lines, degrees, line_degrees, sources = batch
    assert g.batch_num_nodes().tolist() == [20, 20] and lines.num_nodes() == g.num_edges()
    assert isinstance(sources, np.ndarray) and sources.tolist() == g.edges()[0].tolist()
    assert degrees.tolist() == g.in_degrees().tolist() and line_degrees.tolist() == lines.in_degrees().tolist()


def test_generators_reproduce() -> None:
    first, again = (SBMMixtureDataset(1, 40, 2, rng=np.random.RandomState(3))[0][4] for _ in range(2))
    assert torch.equal(first, again)


@pytest.mark.parametrize("options", [{"n_communities": 3}, {"pq": "Appendix_D"}, {"pq": [(1, 2), (3, 4)]}])
def test_what_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(DGLError, match=r"divided evenly|expected 'Appendix_C'"):
        SBMMixtureDataset(**{"n_graphs": 1, "n_nodes": 10, "n_communities": 2, **options})
