"""Layer-neighbour sampling against the definitions of its paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.sampling import sample_labors, sample_neighbors
from tests.sampling.graphs import assert_distributed, check_subgraph, hetero, random_graph, star


def inclusion(g, seeds, fanout, runs, **arguments):
    """Return how often each edge was taken, and the sum of its weights."""
    counts, weights = np.zeros(g.num_edges()), np.zeros(g.num_edges())
    for _ in range(runs):
        sample, (weight,) = sample_labors(g, seeds, fanout, **arguments)
        edge_ids = sample.edata[dglite.EID].numpy()
        counts[edge_ids] += 1
        weights[edge_ids] += weight.numpy() if len(weight) else 1
    return counts, weights


@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize("rounds", [0, 1, -1])
@pytest.mark.parametrize("fanout", [0, 3, 500, -1])
def test_edges_are_the_graphs(edge_dir, rounds, fanout):
    g = random_graph(idtype=torch.int32)
    sample, (weights,) = sample_labors(g, [0, 59, 4, 1], fanout, edge_dir, importance_sampling=rounds)
    check_subgraph(g, sample)
    assert torch.equal(sample.edata["f"], g.edata["f"][sample.edata[dglite.EID].long()])
    assert len(weights) == (sample.num_edges() if rounds and fanout else 0)
    if fanout in (500, -1):
        every = sample_neighbors(g, [0, 59, 4, 1], -1, edge_dir)
        assert torch.equal(sample.edata[dglite.EID], every.edata[dglite.EID])
        assert not len(weights) or torch.equal(weights, torch.ones(len(weights)))


@pytest.mark.parametrize("fanout", [1, 7, 64, 300])
def test_marks_are_what_weights_of_one_choose(fanout):
    g = random_graph(500, 100_000)
    g.edata["one"] = torch.ones(g.num_edges())
    (sample, _), (weighted, _) = (
        sample_labors(g, torch.arange(0, 500, 3), fanout, prob=prob, random_seed=5) for prob in (None, "one")
    )
    assert torch.equal(sample.edata[dglite.EID], weighted.edata[dglite.EID])
    assert torch.equal(torch.stack(sample.edges()), torch.stack(weighted.edges()))


def test_one_random_number_decides_for_all_seeds():
    g = dglite.graph((torch.arange(50).repeat(4), torch.arange(50, 54).repeat_interleave(50)))
    sample, _ = sample_labors(g, [50, 51, 52, 53], 10)
    chosen = sample.edata[dglite.EID].numpy()
    for seed in range(1, 4):
        assert np.array_equal(chosen[chosen // 50 == seed] % 50, chosen[chosen // 50 == 0])


def test_a_seed_has_its_fanout_in_expectation():
    dglite.seed(1)
    counts, _ = inclusion(star(20), [0], 5, 1500)
    spread = (counts - 1500 / 4) / math.sqrt(1500 * 0.25 * 0.75)
    assert (spread**2).sum() < 20 + 6 * math.sqrt(40)


def test_weights_as_probabilities():
    dglite.seed(2)
    g = star(5)
    g.edata["w"] = torch.tensor([0.0, 1.0, 1.0, 2.0, 4.0])
    counts, _ = inclusion(g, [0], 1, 4000, prob="w")
    for count, chance in zip(counts, [0, 1 / 8, 1 / 8, 1 / 4, 1 / 2], strict=True):
        assert abs(count - 4000 * chance) <= 4.5 * math.sqrt(4000 * chance * (1 - chance))


def test_importances_of_the_paper():
    # Seed 0 has neighbours 1, 2, 3; seed 1 has 0 and 1. One round raises the importance of vertex 1, which both have.
    g = dglite.graph(([1, 2, 3, 0, 1], [0, 0, 0, 1, 1]))
    c = 8 / 9  # solves 1 / c + 2 / (2 / 3 c) = 3**2 / 2
    chances = [c, c * 2 / 3, c * 2 / 3, 1, 1]
    dglite.seed(3)
    counts, weights = inclusion(g, [0, 1], 2, 3000, importance_sampling=1)
    for count, chance in zip(counts, chances, strict=True):
        assert abs(count - 3000 * chance) <= 4.5 * math.sqrt(3000 * chance * (1 - chance))
    assert weights[3:].tolist() == [3000, 3000]
    sample, (weights,) = sample_labors(g, [0, 1], 2, importance_sampling=1)
    totals = np.bincount(sample.edges()[1], weights, minlength=2)[:2]
    np.testing.assert_allclose(totals, sample.in_degrees([0, 1]), rtol=1e-6)


def test_importance_sampling_needs_fewer_vertices():
    dglite.seed(4)
    g, seeds = random_graph(400, 8000), torch.arange(60)
    sizes = {}
    for name, rounds in (("none", 0), ("optimal", -1)):
        vertices = [
            len(sample_labors(g, seeds, 8, importance_sampling=rounds)[0].edges()[0].unique()) for _ in range(20)
        ]
        sizes[name] = np.mean(vertices)
    independent = np.mean([len(sample_neighbors(g, seeds, 8).edges()[0].unique()) for _ in range(20)])
    assert sizes["optimal"] < sizes["none"] < independent


def test_equal_seeds_give_equal_vertices():
    g = random_graph(300, 6000)
    first, second = (sample_labors(g, [0, 1, 2], 9, random_seed=torch.tensor([5]))[0] for _ in range(2))
    assert torch.equal(first.edata[dglite.EID], second.edata[dglite.EID])
    other = sample_labors(g, [0, 1, 2], 9, random_seed=6)[0]
    assert not np.array_equal(first.edata[dglite.EID], other.edata[dglite.EID])


def test_the_second_seed_takes_over_gradually():
    g, key = random_graph(2000, 40_000), torch.tensor([5, 6])
    reference = set(sample_labors(g, [0], 300, random_seed=key)[0].edata[dglite.EID].tolist())
    overlap = []
    for share in (0.1, 0.5, 0.99):
        sample = sample_labors(g, [0], 300, random_seed=key, seed2_contribution=share)[0].edata[dglite.EID].tolist()
        overlap.append(len(reference & set(sample)))
        assert abs(len(sample) - 300) < 5 * math.sqrt(300)
    assert len(reference) > overlap[0] > overlap[1] > overlap[2]


def test_mixed_random_numbers_are_uniform():
    g = star(4000)
    ranks = []
    for fanout in (1000, 2000, 3000):
        sample, _ = sample_labors(g, [0], fanout, random_seed=[1, 2], seed2_contribution=0.5)
        ranks.append(sample.num_edges())
    observed = np.diff([0, *ranks, 4000])
    assert_distributed(observed, np.ones(4))


def test_types_exclusion_and_corners():
    g = hetero()
    sample, weights = sample_labors(g, {"user": [0, 1, 3]}, -1, exclude_edges={"follows": [0]}, importance_sampling=1)
    assert sample.edges["follows"].data[dglite.EID].tolist() == [2, 3]
    assert [len(x) for x in weights] == [sample.num_edges(etype) for etype in g.canonical_etypes]
    for seeds in ([], [3], [2]):
        sample, (weights,) = sample_labors(star(3), seeds, 2, importance_sampling=-1)
        assert sample.num_edges() == 0 and len(weights) == 0


def test_bad_input():
    g = star(3)
    g.edata["w"] = torch.tensor([1.0, -1.0, 1.0])
    with pytest.raises(DGLError, match="weight of '_E' edge 1 is negative"):
        sample_labors(g, [0], 1, prob="w")
    with pytest.raises(DGLError, match="in \\[0, 1\\)"):
        sample_labors(g, [0], 1, seed2_contribution=1.0)
    with pytest.raises(DGLError, match="one or two integers"):
        sample_labors(g, [0], 1, random_seed=[1, 2, 3])
    with pytest.raises(DGLError, match="-1 for all neighbours"):
        sample_labors(g, [0], -4)
