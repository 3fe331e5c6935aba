"""Metrics of link prediction, against their definitions, with ties, and against torchmetrics where it is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dglite import DGLError
from dglite.metrics import average_precision, hits_at_k, mrr, roc_auc

POSITIVE = torch.tensor([0.9, 0.5, 0.5, 0.1])
NEGATIVE = torch.tensor([[0.1, 0.2], [0.5, 0.6], [0.5, 0.5], [0.0, 0.1]])


def test_ranks_of_ties_are_in_the_middle():
    assert mrr(POSITIVE, NEGATIVE) == pytest.approx((1 + 1 / 2.5 + 1 / 2 + 1 / 1.5) / 4)
    assert [hits_at_k(POSITIVE, NEGATIVE, k) for k in (1, 2, 3)] == [0.25, 0.75, 1]


def test_shared_negatives():
    shared = torch.tensor([0.5, 0.3, 0.2])
    assert mrr(POSITIVE, shared) == pytest.approx((1 + 1 / 1.5 + 1 / 1.5 + 1 / 4) / 4)
    # A tie with the k-th best is no hit; with fewer than k negatives everything is.
    assert [hits_at_k(POSITIVE, shared, k) for k in (1, 2, 3, 4)] == [0.25, 0.75, 0.75, 1]
    assert mrr(POSITIVE, []) == hits_at_k(POSITIVE, [], 1) == 1


def pairs_auc(positive, negative):
    """Return the mean over all pairs of a positive and a negative."""
    difference = positive[:, None] - negative
    return ((difference > 0) + 0.5 * (difference == 0)).mean()


def thresholds_ap(positive, negative):
    """Return the sum over falling thresholds of precision times the gain in recall."""
    total, before = 0.0, 0.0
    for threshold in np.unique(np.concatenate([positive, negative]))[::-1]:
        right, wrong = (positive >= threshold).sum(), (negative >= threshold).sum()
        total += right / (right + wrong) * (right / len(positive) - before)
        before = right / len(positive)
    return total


@pytest.mark.parametrize("seed", range(4))
def test_against_the_definitions(seed):
    rng = np.random.default_rng(seed)
    positive, negative = rng.integers(0, 9, 40) / 8 + 0.25, rng.integers(0, 9, 60) / 8
    assert roc_auc(positive, negative) == pytest.approx(pairs_auc(positive, negative))
    assert average_precision(positive, negative) == pytest.approx(thresholds_ap(positive, negative))


def test_against_torchmetrics():
    torchmetrics = pytest.importorskip("torchmetrics")
    by_query, by_class = torchmetrics.functional.retrieval, torchmetrics.functional.classification
    generator = torch.Generator().manual_seed(0)
    positive = torch.rand(50, generator=generator)
    negative = torch.rand(50, 7, generator=generator)
    rows = torch.cat([positive[:, None], negative], 1)
    target = torch.tensor([True] + [False] * 7)
    reciprocal = torch.stack([by_query.retrieval_reciprocal_rank(row, target) for row in rows]).mean()
    assert mrr(positive, negative) == pytest.approx(reciprocal.item())
    for k in (1, 3):
        hits = torch.stack([by_query.retrieval_hit_rate(row, target, top_k=k) for row in rows]).mean()
        assert hits_at_k(positive, negative, k) == pytest.approx(hits.item())
    coarse, labels = torch.cat([positive, negative.flatten()]).mul(9).round() / 9, torch.zeros(400, dtype=torch.int64)
    labels[:50] = 1
    assert roc_auc(coarse[:50], coarse[50:]) == pytest.approx(by_class.binary_auroc(coarse, labels).item())
    expected = by_class.binary_average_precision(coarse, labels).item()
    assert average_precision(coarse[:50], coarse[50:]) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [mrr, roc_auc, average_precision, lambda p, n: hits_at_k(p, n, 2)])
def test_any_library_and_dtype(metric):
    expected = metric(POSITIVE.numpy(), NEGATIVE.numpy())
    assert metric(POSITIVE.double(), NEGATIVE.double()) == metric(POSITIVE.tolist(), NEGATIVE.tolist())
    assert metric(POSITIVE.clone().requires_grad_(), NEGATIVE) == expected and isinstance(expected, float)
    assert metric(POSITIVE.bfloat16(), NEGATIVE.bfloat16()) == expected
    assert metric(POSITIVE[:, None], NEGATIVE) == expected


def test_infinite_scores_have_a_rank():
    assert mrr([math.inf, -math.inf], [[0.0], [0.0]]) == 0.75 and roc_auc([math.inf], [-math.inf, 0.0]) == 1


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: mrr([], [1.0]), "no positive pairs"),
        (lambda: average_precision([], [1.0]), "no positive pairs"),
        (lambda: roc_auc([1.0], []), "needs negative pairs"),
        (lambda: mrr([1.0, 2.0], [[1.0]]), r"shape \(1, 1\), but there are 2 positive pairs; expected a row for each"),
        (lambda: mrr([[1.0, 2.0]], [1.0]), r"positive has shape \(1, 2\)"),
        (lambda: mrr([1.0], [[[1.0]]]), "expected 1 or 2 dimensions"),
        (lambda: hits_at_k([1.0], [1.0], 0), "k must be"),
        (lambda: roc_auc([1.0, math.nan], [1.0]), "positive has 1 scores that are NaN"),
        (lambda: roc_auc(["a"], [1.0]), "positive must be numbers"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(DGLError, match=match):
        call()
