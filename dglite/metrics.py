"""Metrics of link prediction: how well scores separate edges from pairs without an edge.

All take the scores of positive pairs, then those of negative pairs, as tensors of any library, arrays or lists, and
return a float. A higher score stands for a likelier edge. Nothing depends on the order of equal scores:

- MRR ranks a positive among the negatives and itself in the middle of those that score the same, as OGB's evaluator;
- Hits@k counts a positive that ties with the k-th best of shared negatives as no hit, as OGB's evaluator;
- ROC AUC counts a tie as half, and average precision takes equal scores as one threshold, as scikit-learn and
  torchmetrics.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import explained
from .backend import backend_of
from .errors import DGLError
from .structure.ids import count_of

__all__ = ["average_precision", "hits_at_k", "mrr", "roc_auc"]


@explained
def mrr(positive: Any, negative: Any) -> float:
    """Return the mean over positive pairs of 1 / rank, the mean reciprocal rank.

    The rank of a pair is 1 + the number of negatives with a higher score + half the number with the same.

    Raises DGLError: there are no positive pairs, shapes do not fit, or a score is NaN.

    Parameters
    ----------
    positive
        scores (num_positive,) or (num_positive, 1).
    negative
        scores (num_positive, num_negative) of each pair's own negatives, or (num_negative,) of negatives that all pairs
        are ranked among. Those of ``negative_sampler.Uniform(k)`` are reshaped to (-1, k).

    Examples
    --------
    >>> mrr([3.0, 1.0], [[1.0, 2.0], [0.5, 2.0]])
    0.75
    """
    return float((1 / ranks(positive, negative)).mean())


def ranks(positive: Any, negative: Any) -> np.ndarray:
    """Return the rank of each positive pair, float64; parameters and errors are those of :func:`mrr`."""
    above, equal = _beaten_by(_scores(positive, "positive", 1), _scores(negative, "negative", 2))
    ranked: np.ndarray = 1 + above + equal / 2
    return ranked


@explained
def hits_at_k(positive: Any, negative: Any, k: int) -> float:
    """Return the share of positive pairs among the best ``k``, Hits@k.

    With shared negatives a hit scores above the k-th best negative; it is one in any case where there are fewer. With
    negatives for each pair, a hit has a rank of at most ``k``, as :func:`mrr` ranks.

    Raises DGLError as :func:`mrr`; or ``k`` is no integer above 0.

    Parameters
    ----------
    positive, negative
        as for :func:`mrr`.
    k
        at least 1.
    """
    k = count_of(k, "k", 1)
    negatives = _scores(negative, "negative", 2)
    above, equal = _beaten_by(_scores(positive, "positive", 1), negatives)
    return float((above + equal < k if negatives.ndim == 1 else 1 + above + equal / 2 <= k).mean())


@explained
def roc_auc(positive: Any, negative: Any) -> float:
    """Return the area under the ROC curve: how often a positive pair scores above a negative one, a tie being half.

    Scores are flattened.

    Raises DGLError: there are no positive or no negative pairs, or a score is NaN.
    """
    pos, neg = _flat(positive, negative)
    if not len(neg):
        raise DGLError("the area under the ROC curve needs negative pairs; there are none")
    above, equal = _beaten_by(pos, neg)
    return float(1 - (above + equal / 2).mean() / len(neg))


@explained
def average_precision(positive: Any, negative: Any) -> float:
    """Return the average precision: that of a threshold at each positive pair's score, averaged over positive pairs.

    Without negative pairs it is 1. Scores are flattened.

    Raises DGLError: there are no positive pairs, or a score is NaN.
    """
    pos, neg = _flat(positive, negative)
    (above, equal), (wrong_above, wrong_equal) = _beaten_by(pos, pos), _beaten_by(pos, neg)
    right, wrong = above + equal, wrong_above + wrong_equal
    return float((right / (right + wrong)).mean())


def _beaten_by(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each positive how many negatives have a higher score, and how many the same."""
    if not len(positive):
        raise DGLError("there are no positive pairs")
    if negative.ndim == 2:
        if len(negative) != len(positive):
            raise DGLError(
                f"negative has shape {negative.shape}, but there are {len(positive)} positive pairs; expected a row "
                "for each, or one dimension for negatives that they share"
            )
        column = positive[:, None]
        return (negative > column).sum(1), (negative == column).sum(1)
    ordered = np.sort(negative)
    below, not_above = (np.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return len(ordered) - not_above, not_above - below


def _flat(positive: Any, negative: Any) -> tuple[np.ndarray, np.ndarray]:
    pos, neg = (_array(x, label).reshape(-1) for x, label in ((positive, "positive"), (negative, "negative")))
    return pos, neg


def _scores(values: Any, label: str, most: int) -> np.ndarray:
    """Return scores of one dimension, or of up to ``most``."""
    scores = _array(values, label)
    if label == "positive" and scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if not 1 <= scores.ndim <= most:
        raise DGLError(f"{label} has shape {scores.shape}; expected {' or '.join('12'[:most])} dimensions")
    return scores


def _array(values: Any, label: str) -> np.ndarray:
    owner = backend_of(values)
    scores = np.asarray(values) if owner is None else owner.to_numpy(values)
    if scores.dtype.kind not in "biuf":
        raise DGLError(f"{label} must be numbers, got {scores.dtype}")
    if np.isnan(scores).any():
        raise DGLError(f"{label} has {int(np.isnan(scores).sum())} scores that are NaN, which have no rank")
    return scores
