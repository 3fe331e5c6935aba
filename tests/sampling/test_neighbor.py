"""Samples of neighbours: their edges are the graph's, as many as asked for, and distributed as promised."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.sampling import sample_etype_neighbors, sample_neighbors, sample_neighbors_biased, select_topk
from tests.sampling.graphs import assert_distributed, check_subgraph, hetero, random_graph, star


def degrees_of(g, edge_dir):
    return (g.in_degrees() if edge_dir == "in" else g.out_degrees()).long()


# -- uniform -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [0, 1, 3, 30, -1])
def test_the_right_number_of_edges_of_the_graph(idtype, edge_dir, replace, fanout):
    g = random_graph(idtype=idtype)
    seeds = torch.tensor([0, 59, 1, 30, 7, 7], dtype=idtype)
    sample = sample_neighbors(g, seeds, fanout, edge_dir=edge_dir, replace=replace)
    check_subgraph(g, sample)
    degrees = degrees_of(g, edge_dir)[seeds.long()]
    expected = degrees if fanout == -1 else (degrees > 0) * fanout if replace else degrees.clamp(max=fanout)
    near = sample.edges()[1 if edge_dir == "in" else 0]
    assert torch.equal(near, seeds.repeat_interleave(expected))
    assert sample.num_nodes() == g.num_nodes() and sample.idtype == idtype
    if not replace:
        ends = expected.cumsum(0).tolist()
        for first, last in itertools.pairwise([0, *ends]):
            assert len(sample.edata[dglite.EID][first:last].unique()) == last - first


@pytest.mark.parametrize(("degree", "fanout"), [(6, 2), (6, 3), (12, 2), (12, 1), (7, 6)])
def test_every_subset_is_equally_likely(degree, fanout):
    dglite.seed(1)
    g = star(degree)
    chosen = sample_neighbors(g, np.zeros(20_000, np.int64), fanout).edata[dglite.EID].reshape(-1, fanout)
    subsets = {subset: i for i, subset in enumerate(itertools.combinations(range(degree), fanout))}
    observed = np.zeros(len(subsets))
    for subset in chosen.sort(1).values.tolist():
        observed[subsets[tuple(subset)]] += 1
    assert_distributed(observed, np.ones(len(subsets)))


@pytest.mark.parametrize(("degree", "fanout"), [(300, 20), (300, 30), (5000, 40), (100, 99), (200, 60)])
def test_long_rows_are_sampled_evenly(degree, fanout):
    dglite.seed(2)
    chosen = sample_neighbors(star(degree), np.zeros(1000, np.int64), fanout).edata[dglite.EID].reshape(-1, fanout)
    assert (chosen.sort(1).values.diff(dim=1) > 0).all()
    counts = np.bincount(chosen.ravel(), minlength=degree)
    # Draws without replacement are not independent: counts vary less, by the share that is not drawn.
    spread = (counts - 1000 * fanout / degree) / math.sqrt(1000 * fanout / degree * (1 - fanout / degree))
    assert abs((spread**2).mean() - 1) < 6 * math.sqrt(2 / degree)


def test_draws_with_replacement_are_even():
    dglite.seed(3)
    sample = sample_neighbors(star(7), np.zeros(1000, np.int64), 12, replace=True)
    assert_distributed(np.bincount(sample.edata[dglite.EID], minlength=7), np.ones(7))


# -- weighted ----------------------------------------------------------------------------------------------------------
WEIGHTS = [0.0, 1.0, 2.0, 0.0, 5.0, 0.5]


def ordered_draws(weights, count):
    """Return the probability of each subset that draws one after the other, without putting back, can give."""
    result: dict[tuple, float] = {}
    for order in itertools.permutations(range(len(weights)), count):
        chance, left = 1.0, sum(weights)
        for i in order:
            chance *= weights[i] / left if left > 1e-12 else 0
            left -= weights[i]
        result[tuple(sorted(order))] = result.get(tuple(sorted(order)), 0) + chance
    return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_weighted_subsets_have_the_probability_of_successive_draws(dtype, fanout):
    dglite.seed(4)
    g = star(6)
    g.edata["w"] = torch.tensor(WEIGHTS, dtype=dtype)
    chosen = sample_neighbors(g, np.zeros(20_000, np.int64), fanout, prob="w").edata[dglite.EID].reshape(-1, fanout)
    chances = ordered_draws(WEIGHTS, fanout)
    place = {subset: i for i, subset in enumerate(chances)}
    observed = np.zeros(len(chances))
    for subset in chosen.sort(1).values.tolist():
        observed[place[tuple(subset)]] += 1
    assert_distributed(observed, list(chances.values()))


def test_weighted_draws_with_replacement():
    dglite.seed(5)
    g = star(6)
    g.edata["w"] = torch.tensor(WEIGHTS).reshape(6, 1)
    sample = sample_neighbors(g, np.zeros(1000, np.int64), 20, prob="w", replace=True)
    assert_distributed(np.bincount(sample.edata[dglite.EID], minlength=6), WEIGHTS)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [2, 4, 9, -1])
def test_weight_zero_is_never_taken(fanout, replace):
    g = random_graph()
    g.edata["m"] = torch.rand(400) < 0.4
    g.edata["w"] = g.edata["m"] * torch.rand(400)
    seeds = torch.arange(60)
    allowed = torch.zeros(60, dtype=torch.long).index_add_(0, g.edges()[1], g.edata["m"].long())
    expected = allowed if fanout < 0 else (allowed > 0) * fanout if replace else allowed.clamp(max=fanout)
    for name in ("m", "w"):
        sample = sample_neighbors(g, seeds, fanout, prob=name, replace=replace)
        check_subgraph(g, sample)
        assert g.edata["m"][sample.edata[dglite.EID]].all()
        assert torch.equal(sample.in_degrees(), expected)


def test_long_rows_by_weight():
    dglite.seed(6)
    g = star(3000)
    g.edata["w"] = torch.arange(3000) % 4 / 2
    chosen = sample_neighbors(g, np.zeros(2000, np.int64), 5, prob="w").edata[dglite.EID].numpy()
    assert_distributed(np.bincount(chosen % 4, minlength=4), [0, 1, 2, 3])


MANY = np.array([1, 2, 0, 4, 0.5, 3, 1, 1, 0, 2, 8, 1.5])


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(("weighted", "excluded"), [(True, None), (True, [3, 11]), (False, [3, 11])])
def test_few_of_many(weighted, excluded, kept):
    dglite.seed(3)
    g = star(12)
    g.edata["w"] = torch.tensor(MANY)
    prob = None if not weighted else "w" if kept else [g.edata["w"]]
    for _ in range(1 + kept):
        sample = sample_neighbors(g, np.zeros(20_000, np.int64), 2, prob=prob, exclude_edges=excluded)
    pairs = sample.edata[dglite.EID].reshape(-1, 2).numpy()
    weights = MANY.copy() if weighted else np.ones(12)
    weights[excluded or []] = 0
    shares = weights / weights.sum()
    chances = shares[:, None] * shares / (1 - shares[:, None])
    np.fill_diagonal(chances, 0)
    assert_distributed(np.bincount(pairs[:, 0] * 12 + pairs[:, 1], minlength=144), chances.ravel())


def test_sums_that_are_kept_change_no_draw():
    g = random_graph()
    g.edata["w"] = torch.rand(400)
    seeds = torch.arange(60)

    def drawn(prob):
        dglite.seed(4)
        return sample_neighbors(g, seeds, 3, prob=prob).edata[dglite.EID].tolist()

    expected = drawn([g.edata["w"]])
    assert [drawn("w") for _ in range(3)] == [expected] * 3
    with torch.no_grad():
        g.edata["w"][:200] = 0
    assert drawn("w") == drawn([g.edata["w"]]) != expected and min(drawn("w")) >= 200
    g.edata["w"] = torch.rand(400)
    assert drawn("w") == drawn([g.edata["w"]])
    out = sample_neighbors(g, seeds, 3, edge_dir="out", prob="w")
    assert torch.equal(out.out_degrees(), g.out_degrees().clamp(max=3))
    g.edata["w"][5] = -1
    (at,) = g.find_edges([5])[1].tolist()
    for _ in range(3):
        assert sample_neighbors(g, [at - 1 if at else 59], 3, prob="w").num_edges() <= 3
        with pytest.raises(DGLError, match="edge 5 is negative"):
            sample_neighbors(g, [at], 3, prob="w")


def test_weights_without_a_version():
    with torch.inference_mode():
        weights = torch.rand(400)
    g = random_graph()
    g.edata["w"] = weights
    assert all(sample_neighbors(g, torch.arange(60), 3, prob="w").num_edges() for _ in range(2))


@pytest.mark.parametrize("fanout", [5, 60, 10**12])
def test_trials_that_do_not_suffice(fanout):
    g = star(1000)
    g.edata["w"] = torch.zeros(1000)
    g.edata["w"][::20] = torch.rand(50) + 1e-3
    g.edata["w"][500] = 1e9
    sample = sample_neighbors(g, [0, 0], fanout, prob="w")
    result = sample.edata[dglite.EID].reshape(2, -1)
    assert result.shape[1] == min(fanout, 50) and (result % 20 == 0).all() and (result == 500).any(1).all()
    assert all(len(row.unique()) == len(row) for row in result)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("replace", [False, True])
def test_weights_that_make_no_sense(bad, replace):
    g = star(4)
    g.edata["w"] = torch.tensor([1.0, 1.0, bad, 1.0])
    with pytest.raises(DGLError, match=r"weight of '_E' edge 2 is negative, infinite or NaN"):
        sample_neighbors(g, [0], 2, prob="w", replace=replace)


# -- edges left out ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("prob", [None, "w"])
@pytest.mark.parametrize("fanout", [3, 30, -1])
def test_excluded_edges_are_as_if_not_there(prob, fanout):
    g = random_graph()
    g.edata["w"] = torch.rand(400) + 0.1
    excluded = torch.randperm(400)[:150]
    sample = sample_neighbors(g, torch.arange(60), fanout, prob=prob, exclude_edges=excluded)
    check_subgraph(g, sample)
    assert not torch.isin(sample.edata[dglite.EID], excluded).any()
    left = torch.ones(400, dtype=torch.bool)
    left[excluded] = False
    degrees = torch.bincount(g.edges()[1][left], minlength=60)
    assert torch.equal(sample.in_degrees(), degrees if fanout < 0 else degrees.clamp(max=fanout))


def test_those_that_are_left_are_equally_likely():
    dglite.seed(7)
    sample = sample_neighbors(star(6), np.zeros(9000, np.int64), 2, exclude_edges=[1, 4, 4])
    assert_distributed(np.bincount(sample.edata[dglite.EID], minlength=6), [1, 0, 1, 1, 0, 1])


# -- types -------------------------------------------------------------------------------------------------------------
def test_types_by_seed_and_by_fanout():
    g = hetero()
    sample = sample_neighbors(g, {"user": [0, 1, 2, 3]}, {"follows": 1, "plays": 5, ("game", "known", "user"): -1})
    assert [sample.num_edges(etype) for etype in ("follows", "known", "plays")] == [3, 3, 0]
    assert sample.ntypes == g.ntypes and sample.canonical_etypes == g.canonical_etypes
    for etype in g.canonical_etypes:
        check_subgraph(g, sample, etype)
    out = sample_neighbors(g, {"user": [2], "game": torch.tensor([1])}, -1, edge_dir="out")
    assert [out.num_edges(etype) for etype in ("follows", "known", "plays")] == [2, 2, 1]


def test_types_without_the_feature_are_sampled_uniformly():
    g = hetero()
    g.edges["follows"].data["p"] = torch.tensor([0.0, 1.0, 0.0, 1.0])
    g.edges["plays"].data["p"] = torch.tensor([True, False, False, False])
    sample = sample_neighbors(g, {"user": [0, 1, 2], "game": [0, 1]}, 2, prob="p")
    assert sample.edges["follows"].data[dglite.EID].tolist() == [3, 1]
    assert sample.edges["plays"].data[dglite.EID].tolist() == [0]
    assert sorted(sample.edges["known"].data[dglite.EID].tolist()) == [0, 1, 2]


def test_edges_excluded_by_type():
    sample = sample_neighbors(hetero(), {"user": [0, 1, 2]}, -1, exclude_edges={"follows": [0, 1], "known": [2]})
    assert sorted(sample.edges["follows"].data[dglite.EID].tolist()) == [2, 3]
    assert sorted(sample.edges["known"].data[dglite.EID].tolist()) == [0, 1]


def test_samples_of_a_block():
    block = dglite.create_block(([0, 1, 2, 2], [0, 0, 0, 1]), num_src_nodes=3, num_dst_nodes=2)
    sample = sample_neighbors(block, {"_N": [1]}, 2)
    assert sample.is_block and sample.edges()[0].tolist() == [2]
    assert sample_neighbors(block, {"_N": [2]}, 2, edge_dir="out").num_edges() == 2


# -- features ----------------------------------------------------------------------------------------------------------
def test_features_follow():
    g = random_graph()
    sample = sample_neighbors(g, [0, 1, 2], 4)
    assert sample.ndata["x"] is g.ndata["x"]
    assert torch.equal(sample.edata["f"], g.edata["f"][sample.edata[dglite.EID]])
    sample.edata["new"] = torch.zeros(12)
    assert "new" not in g.edata
    bare = sample_neighbors(g, [0, 1, 2], 4, copy_ndata=False, copy_edata=False)
    assert not bare.ndata and not bare.edata
    again = sample_neighbors(sample, [0], -1)
    assert torch.equal(again.edata[dglite.EID], torch.arange(4))


def test_writing_to_the_ids_leaves_the_features_alone():
    g = random_graph()
    sample = sample_neighbors(g, [0, 1, 2], 4)
    edge_ids = sample.edata[dglite.EID].clone()
    sample.edata[dglite.EID].zero_()
    assert torch.equal(sample.edata["f"], g.edata["f"][edge_ids])


def test_gradients_reach_the_features():
    g = random_graph()
    g.edata["f"].requires_grad_()
    sample = sample_neighbors(g, [0], -1)
    sample.edata["f"].sum().backward()
    expected = torch.zeros(400, 3)
    expected[sample.edata[dglite.EID]] = 1
    assert torch.equal(g.edata["f"].grad, expected)


# -- corners -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arguments", [{}, {"prob": "w"}, {"replace": True}, {"exclude_edges": [0]}])
def test_nothing_to_sample(arguments):
    g = star(3)
    g.edata["w"] = torch.ones(3)
    for seeds in ([], torch.tensor([], dtype=torch.int64), [1, 2], [3]):
        sample = sample_neighbors(g, seeds, 2, **arguments)
        assert sample.num_edges() == 0 and sample.num_nodes() == 4 and len(sample.edata[dglite.EID]) == 0
    empty = dglite.graph(([], []), num_nodes=0)
    assert sample_neighbors(empty, [], 2).num_nodes() == 0


def test_formats_that_are_not_kept():
    g = random_graph().formats("coo")
    check_subgraph(g, sample_neighbors(g, [0, 1, 2], 4))
    assert g.formats()["created"] == ["coo"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: sample_neighbors(g, [99], 1), "node id 99 does not exist"),
        (lambda g: sample_neighbors(g, [-1], 1), "negative"),
        (lambda g: sample_neighbors(g, [0.5], 1), "must be integers"),
        (lambda g: sample_neighbors(g, [0], -2), "-1 for all neighbours"),
        (lambda g: sample_neighbors(g, [0], 1.5), "must be an integer"),
        (lambda g: sample_neighbors(g, [0], 1, edge_dir="up"), "expected 'in' or 'out'"),
        (lambda g: sample_neighbors(g, [0], 1, prob="nope"), "'nope' is not an edge feature; there are \\['f'\\]"),
        (lambda g: sample_neighbors(g, [0], 1, prob="f"), "one number for each"),
        (lambda g: sample_neighbors(g, {"zebra": [0]}, 1), "'zebra' does not exist"),
        (lambda g: sample_neighbors(g, [0], {"zebra": 1}), "zebra"),
        (lambda g: sample_neighbors(g, [0], 1, exclude_edges=[400]), "excluded edge id 400 does not exist"),
        (lambda g: sample_neighbors(hetero(), [0], 1), "give a dictionary by node type"),
        (lambda g: sample_neighbors(hetero(), {"user": [0]}, {"follows": 1}), "one for each"),
        (lambda g: sample_neighbors(hetero(), {"user": [0]}, 1, exclude_edges=[0]), "3 edge types"),
        (lambda g: select_topk(g, 1, "nope"), "not an edge feature"),
        (lambda g: select_topk(g, -3, "f"), "-1 for all neighbours"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DGLError, match=message):
        call(random_graph())


# -- by tag ------------------------------------------------------------------------------------------------------------
def tagged():
    """Return a graph whose in-edges lie sorted by their source's tag, as ``sort_csc_by_tag`` leaves them, and tags."""
    src, dst, tags = [1, 2, 3, 4, 5, 6, 1, 6], [0, 0, 0, 0, 0, 0, 7, 7], [0, 0, 0, 0, 1, 1, 2, 0]
    g = dglite.graph((src, dst))
    offsets = torch.zeros(8, 4, dtype=torch.int64)
    offsets[0], offsets[7] = torch.tensor([0, 3, 5, 6]), torch.tensor([0, 1, 1, 2])
    g.ndata["_TAG_OFFSET"] = offsets
    return g, np.array(tags)[src]


@pytest.mark.parametrize("replace", [False, True])
def test_biased_by_tag(replace):
    dglite.seed(8)
    g, tags = tagged()
    sample = sample_neighbors_biased(g, np.zeros(6000, np.int64), 1, torch.tensor([1.0, 3.0, 0.5]), replace=replace)
    observed = np.bincount(sample.edata[dglite.EID], minlength=8)
    assert_distributed(observed, np.array([1, 3, 0.5])[tags] * (np.arange(8) < 6))


def test_tags_without_bias_are_never_taken():
    g, tags = tagged()
    sample = sample_neighbors_biased(g, [0, 7, 3], -1, [0.0, 1.0, 1.0])
    check_subgraph(g, sample)
    assert sample.edata[dglite.EID].tolist() == [3, 4, 5, 7]
    assert (tags[sample.edata[dglite.EID]] > 0).all()


def test_tags_of_a_bipartite_graph():
    g = dglite.heterograph({("user", "plays", "game"): ([0, 1, 2], [0, 0, 0])})
    g.nodes["game"].data["tags"] = torch.tensor([[0, 2, 3]])
    sample = sample_neighbors_biased(g, [0], 2, [0.0, 1.0], tag_offset_name="tags")
    assert sample.edata[dglite.EID].tolist() == [2]


def test_tags_that_were_not_prepared():
    g, _ = tagged()
    with pytest.raises(DGLError, match="sort_csr_by_tag"):
        sample_neighbors_biased(g, [0], 1, [1.0], "out", "nope")
    with pytest.raises(DGLError, match="expected 3 ascending offsets"):
        sample_neighbors_biased(g, [0], 1, [1.0, 1.0])
    with pytest.raises(DGLError, match="weight of tag 1"):
        sample_neighbors_biased(g, [0], 1, [1.0, -1.0, 0.0])
    with pytest.raises(DGLError, match="one edge type"):
        sample_neighbors_biased(hetero(), {"user": [0]}, 1, [1.0])


# -- by edge type ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanouts", [[2, 0, 3], [1, -1, 1], [0, 0, 0]])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_each_type_has_its_fanout(replace, fanouts, edge_dir):
    g, offsets = random_graph(), [0, 150, 150 + 130, 400]
    seeds = torch.tensor([0, 1, 40, 59, 0])
    sample = sample_etype_neighbors(g, seeds, offsets, torch.tensor(fanouts), edge_dir=edge_dir, replace=replace)
    check_subgraph(g, sample)
    types = np.searchsorted(offsets, np.arange(400), "right") - 1
    near = sample.edges()[1 if edge_dir == "in" else 0].numpy()
    chosen = types[sample.edata[dglite.EID]]
    for t, fanout in enumerate(fanouts):
        ends = g.edges()[1 if edge_dir == "in" else 0].numpy()[types == t]
        for node in (0, 1, 40, 59):
            degree, times = (ends == node).sum(), (seeds == node).sum().item()
            expected = degree if fanout < 0 else fanout * (degree > 0) if replace else min(fanout, degree)
            assert ((near == node) & (chosen == t)).sum() == times * expected


def test_types_by_weight():
    dglite.seed(9)
    g = star(6)
    parts = [torch.tensor([1.0, 0.0]), None, torch.tensor([1.0, 3.0])]
    sample = sample_etype_neighbors(g, np.zeros(4000, np.int64), [0, 2, 4, 6], [1, 1, 1], prob=parts)
    counts = np.bincount(sample.edata[dglite.EID], minlength=6)
    assert counts[:2].tolist() == [4000, 0]
    assert_distributed(counts[2:4], [1, 1])
    assert_distributed(counts[4:], [1, 3])


def test_offsets_that_do_not_fit():
    g = star(6)
    for offsets in ([0, 2, 5], [0, 4, 2, 6], [1, 6], []):
        with pytest.raises(DGLError, match="ascend from 0 to 6"):
            sample_etype_neighbors(g, [0], offsets, [1] * (len(offsets) - 1))
    with pytest.raises(DGLError, match="1 fan-outs for 2 edge types"):
        sample_etype_neighbors(g, [0], [0, 2, 6], [1])
    with pytest.raises(DGLError, match="-1 for all neighbours"):
        sample_etype_neighbors(g, [0], [0, 6], [-2])
    with pytest.raises(DGLError, match="one node type"):
        sample_etype_neighbors(hetero(), {"user": [0]}, [0, 6], [1])


# -- the heaviest ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 70, -1])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_topk_is_a_stable_sort(dtype, ascending, k, edge_dir):
    g = random_graph()
    weights = torch.randint(-5, 5, (400,)).to(dtype)
    g.edata["w"] = weights
    seeds = torch.tensor([0, 59, 1, 30])
    sample = select_topk(g, k, "w", seeds, edge_dir, ascending)
    check_subgraph(g, sample)
    expected = []
    for seed in seeds.tolist():
        ids = (g.edges()[1 if edge_dir == "in" else 0] == seed).nonzero().ravel()
        order = (weights[ids] if ascending else -weights[ids]).argsort(stable=True)
        expected += ids[order[: k if k >= 0 else None]].tolist()
    assert sample.edata[dglite.EID].tolist() == expected


def test_topk_of_all_nodes_by_type():
    g = hetero()
    for etype in g.canonical_etypes:
        g.edges[etype].data["w"] = torch.arange(g.num_edges(etype)).float()
    sample = select_topk(g, {"follows": 1, "plays": 0, "known": 1}, "w")
    assert sample.edges["follows"].data[dglite.EID].tolist() == [2, 3, 1]
    assert sample.edges["known"].data[dglite.EID].tolist() == [1, 2]
    assert sample.num_edges("plays") == 0


def test_topk_needs_weights_that_have_an_order():
    g = star(3)
    g.edata["w"] = torch.tensor([1.0, math.nan, 2.0])
    with pytest.raises(DGLError, match="edge 1 is NaN"):
        select_topk(g, 1, "w")
    h = hetero()
    h.edges["follows"].data["w"] = torch.ones(4)
    with pytest.raises(DGLError, match="have no feature 'w'"):
        select_topk(h, 1, "w")
