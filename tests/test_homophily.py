"""Measures equal their definitions, node by node and edge by edge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.data())
def test_directed_measures_equal_their_definitions(n: int, data: st.DataObject) -> None:
    ids = st.integers(0, n - 1)
    ends = data.draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=20))
    y = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    g = dglite.graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n)
    before = {v: [u for u, w in ends if w == v] for v in range(n)}
    node = sum(sum(y[u] == y[v] for u in us) / len(us) for v, us in before.items() if us) / n
    assert dglite.node_homophily(g, torch.tensor(y)) == pytest.approx(node)
    assert dglite.edge_homophily(g, torch.tensor(y)) == pytest.approx(sum(y[u] == y[v] for u, v in ends) / len(ends))
    classes, excess = max(y) + 1, 0.0
    for k in range(classes):
        into = [(u, v) for u, v in ends if y[v] == k]
        if into:
            excess += max(0, sum(y[u] == k for u, _ in into) / len(into) - y.count(k) / n)
    assert dglite.linkx_homophily(g, torch.tensor(y)) == pytest.approx(excess / max(classes - 1, 1))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.data())
def test_undirected_measures_equal_their_definitions(n: int, data: st.DataObject) -> None:
    ids = st.integers(0, n - 1)
    ends = data.draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=20))
    y = data.draw(st.permutations([0, 1, *[i % 2 for i in range(n - 2)]]))
    g = dglite.graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n)
    both = {(u, v) for u, v in ends} | {(v, u) for u, v in ends}
    degree = [sum(v == w for _, w in both) for v in range(n)]
    p = [sum(d for d, label in zip(degree, y, strict=True) if label == k) / len(both) for k in (0, 1)]
    expected = sum(x * x for x in p)
    edge = sum(y[u] == y[v] for u, v in both) / len(both)
    result = dglite.adjusted_homophily(g, torch.tensor(y))
    assert math.isnan(result) if expected == 1 else result == pytest.approx((edge - expected) / (1 - expected))
    labels = torch.tensor(y)
    if min(p) > 0:
        joint = np.zeros((2, 2))
        for u, v in both:
            joint[y[u], y[v]] += 1 / len(both)
        assert dglite.edge_label_informativeness(g, labels) == pytest.approx(_information(joint, p, p), abs=1e-5)


def _information(joint: np.ndarray, own: list[float], other: list[float]) -> float:
    mutual = sum(
        joint[i, j] * math.log(joint[i, j] / own[i] / other[j]) for i in (0, 1) for j in (0, 1) if joint[i, j] > 0
    )
    return mutual / -sum(x * math.log(x) for x in own)


def test_published_examples() -> None:
    g, y = dglite.graph(([1, 2, 0, 4], [0, 1, 2, 3])), torch.tensor([0, 0, 0, 0, 1])
    assert dglite.node_homophily(g, y) == pytest.approx(0.6) and dglite.edge_homophily(g, y) == 0.75
    assert dglite.adjusted_homophily(g, y) == pytest.approx(-1 / 7)
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 0, 4]))
    assert dglite.linkx_homophily(g, y) == pytest.approx(0.2)
    g, y = dglite.graph(([0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 5])), torch.tensor([0, 0, 0, 0, 1, 1])
    assert dglite.edge_label_informativeness(g, y) == pytest.approx(0.251776, abs=1e-6)
    assert dglite.node_label_informativeness(g, y) == pytest.approx(0.338187, abs=1e-6)


def test_values_are_of_float32s_precision_and_nan_of_nothing() -> None:
    g, y = dglite.graph(([0, 0, 1, 2, 0, 3], [1, 2, 2, 0, 1, 3]), num_nodes=5), torch.tensor([0, 1, 0, 1, 0])
    measures = (
        dglite.node_homophily,
        dglite.edge_homophily,
        dglite.linkx_homophily,
        dglite.adjusted_homophily,
        dglite.edge_label_informativeness,
        dglite.node_label_informativeness,
    )
    for measure in measures:
        result = measure(g, y)
        assert type(result) is float and result == float(np.float32(result))
    assert dglite.edge_homophily(dglite.graph(([0, 0, 0], [0, 1, 2])), y[:3]) == float(np.float32(2 / 3))
    empty = dglite.graph(([], []), num_nodes=5)
    assert dglite.node_homophily(empty, y) == 0
    assert all(math.isnan(measure(empty, y)) for measure in (measures[1], *measures[3:]))
    assert all(math.isnan(measure(g, torch.zeros(5, dtype=torch.int64))) for measure in measures[3:])


def test_labels_must_be_integers_of_every_node() -> None:
    g = dglite.graph(([0], [1]))
    for labels in (torch.tensor([0]), torch.tensor([0.0, 1.0])):
        with pytest.raises(DGLError, match="expected an integer for each of the 2 nodes"):
            dglite.node_homophily(g, labels)
    with pytest.raises(DGLError, match="one node type"):
        dglite.edge_homophily(dglite.heterograph({("a", "r", "b"): ([0], [0])}), torch.tensor([0]))
