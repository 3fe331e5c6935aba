"""OGB's evaluators: for each data set the metric in which its results are published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...backend import backend_of
from ...errors import DGLError
from ...metrics import average_precision, hits_at_k, ranks, roc_auc
from .facts import facts_of


class Evaluator:
    """Judges predictions for one of OGB's sets: ``eval`` takes and returns a dict.

    - Of node and graph sets, ``{"y_true": ..., "y_pred": ...}``, tensors or arrays (num_rows, num_tasks), gives
      ``{"acc": ...}``, ``{"rocauc": ...}``, ``{"ap": ...}``, ``{"rmse": ...}`` or ``{"mae": ...}``, averaged over
      tasks. Predictions are classes for ``acc``, else scores. Labels that are NaN are left out; so are tasks without
      both classes.
    - Of ogbg-code2, ``{"seq_ref": ..., "seq_pred": ...}``, lists of lists of words, gives ``precision``, ``recall`` and
      ``F1`` of the sets of words, averaged over rows.
    - Of link sets, ``{"y_pred_pos": ..., "y_pred_neg": ...}``, scores of edges and of pairs without one, gives
      ``{"hits@50": ...}`` (by the set's K) or ``{"rocauc": ...}``, both (num_edges,) and (num_pairs,); or, with
      negatives (num_edges, num_negatives) for each edge, ``hits@1_list``, ``hits@3_list``, ``hits@10_list`` and
      ``mrr_list``, float32 (num_edges,), whose means are the metrics.

    Raises DGLError: there is no such set; or, from ``eval``, a key is missing, shapes do not fit, a score is NaN, or no
    task has labels of both classes.

    Parameters
    ----------
    name
        OGB's name of the set.
    """

    def __init__(self, name: str) -> None:
        facts = facts_of(name)
        self.name, self.num_tasks, self.eval_metric = name, facts.num_tasks, facts.metric
        metric, _, most = facts.metric.partition("@")
        self._link = name.startswith("ogbl")
        if self._link:
            self._keys: tuple[str, str] = ("y_pred_pos", "y_pred_neg")
        else:
            self._keys = ("seq_ref", "seq_pred") if metric == "F1" else ("y_true", "y_pred")
        if metric == "hits":
            self.K = int(most)

    def eval(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Return the set's metric by name."""
        missing = [key for key in self._keys if key not in input_dict]
        if missing:
            raise DGLError(f"eval of {self.name} needs {' and '.join(map(repr, self._keys))}; got {list(input_dict)}")
        first, second = (input_dict[key] for key in self._keys)
        if self._link:
            return self._links(first, second)
        if self.eval_metric == "F1":
            return _words(first, second)
        labels, scores = _array(first, "y_true"), _array(second, "y_pred")
        if labels.shape != scores.shape or labels.ndim != 2 or labels.shape[1] != self.num_tasks:
            raise DGLError(
                f"y_true of {labels.shape} and y_pred of {scores.shape} do not fit; "
                f"expected both (num_rows, {self.num_tasks}) for {self.name}"
            )
        return {self.eval_metric: _averaged(_METRICS[self.eval_metric], labels, scores)}

    def _links(self, positive: Any, negative: Any) -> dict[str, Any]:
        shapes = [np.shape(positive), np.shape(negative)]
        num_dims = 2 if self.eval_metric == "mrr" else 1
        if len(shapes[0]) != 1 or len(shapes[1]) != num_dims:
            raise DGLError(
                f"y_pred_pos of {tuple(shapes[0])} and y_pred_neg of {tuple(shapes[1])} do not fit; expected "
                f"(num_edges,) and {'(num_edges, num_negatives)' if num_dims == 2 else '(num_pairs,)'} for {self.name}"
            )
        if self.eval_metric == "rocauc":
            return {"rocauc": roc_auc(positive, negative)}
        if self.eval_metric != "mrr":
            return {self.eval_metric: hits_at_k(positive, negative, self.K)}
        scores = ranks(positive, negative)
        lists = {f"hits@{k}_list": scores <= k for k in (1, 3, 10)} | {"mrr_list": 1 / scores}
        library = backend_of(positive)
        rows = {name: values.astype(np.float32) for name, values in lists.items()}
        return rows if library is None else {name: library.from_numpy(values) for name, values in rows.items()}

    @property
    def expected_input_format(self) -> str:
        """The input of ``eval``, in words."""
        if self._link:
            each = "(num_edges, num_negatives)" if self.eval_metric == "mrr" else "(num_pairs,)"
            shapes = ("scores (num_edges,)", f"scores {each}")
        elif self.eval_metric == "F1":
            shapes = ("lists of words", "lists of words")
        else:
            kind = "classes" if self.eval_metric == "acc" else "scores"
            shapes = (f"labels (num_rows, {self.num_tasks})", f"{kind} (num_rows, {self.num_tasks})")
        pairs = ", ".join(f"{key!r}: {shape}" for key, shape in zip(self._keys, shapes, strict=True))
        return f"{self.name}: {{{pairs}}}"

    @property
    def expected_output_format(self) -> str:
        """The output of ``eval``, in words."""
        if self.eval_metric == "mrr":
            return f"{self.name}: {{'hits@1_list', 'hits@3_list', 'hits@10_list', 'mrr_list': float32 (num_edges,)}}"
        names = ("precision", "recall", "F1") if self.eval_metric == "F1" else (self.eval_metric,)
        return f"{self.name}: {{{', '.join(map(repr, names))}: float}}"


def _array(x: Any, label: str) -> np.ndarray:
    library = backend_of(x)
    values = np.asarray(x) if library is None else library.to_numpy(x)
    if values.dtype.kind not in "biuf":
        raise DGLError(f"{label} must be numbers, got {values.dtype}")
    return values


def _both(score: Callable[[Any, Any], float]) -> Callable[[np.ndarray, np.ndarray], float | None]:
    """Return a metric of scores for labels 1 and 0 that is None where one of the two is missing."""

    def judged(labels: np.ndarray, scores: np.ndarray) -> float | None:
        positive, negative = scores[labels == 1], scores[labels == 0]
        return score(positive, negative) if len(positive) and len(negative) else None

    return judged


def _where_any(score: Callable[[Any, Any], Any]) -> Callable[[np.ndarray, np.ndarray], float | None]:
    return lambda labels, scores: float(score(labels, scores)) if len(labels) else None


_METRICS = {
    "acc": _where_any(lambda labels, classes: (labels == classes).mean()),
    "rocauc": _both(roc_auc),
    "ap": _both(average_precision),
    "rmse": _where_any(lambda labels, values: np.sqrt(((labels - values) ** 2).mean(dtype=np.float64))),
    "mae": _where_any(lambda labels, values: np.abs(labels - values).mean(dtype=np.float64)),
}


def _averaged(metric: Callable[[np.ndarray, np.ndarray], float | None], labels: Any, scores: Any) -> float:
    """Return the mean over the tasks, (num_rows, num_tasks), that the metric is defined for."""
    results = []
    for task, task_scores in zip(labels.T, scores.T, strict=True):
        is_labelled = task == task
        if (each := metric(task[is_labelled], task_scores[is_labelled])) is not None:
            results.append(each)
    if not results:
        raise DGLError(
            "no task can be evaluated: at least one must have labels, for rocauc and ap labels of both classes"
        )
    return float(np.mean(results))


def _words(references: Any, predictions: Any) -> dict[str, float]:
    if len(references) != len(predictions) or not len(references):
        raise DGLError(f"seq_ref has {len(references)} rows, seq_pred {len(predictions)}; expected as many, above 0")
    rows = []
    for reference, prediction in zip(references, predictions, strict=True):
        expected, predicted = set(reference), set(prediction)
        right = len(expected & predicted)
        precision = right / len(predicted) if predicted else 0.0
        recall = right / len(expected) if expected else 0.0
        rows.append((precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0))
    return dict(zip(("precision", "recall", "F1"), np.mean(rows, 0).tolist(), strict=True))
