"""Label propagation under a bound on sizes, and graphs of clusters, on graphs that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from dglite.kernels.cpu.graph import cluster
from dglite.transforms.reorder import _cluster_graph

# Two triangles, 0 1 2 and 3 4 5, joined by the light edge 2 - 3.
PAIRS = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]


def arrays(pairs, num_nodes, weights=None):
    """Return the symmetric graph of the pairs as arrays."""
    u, v = np.array(pairs).T
    values = np.ones(len(u), np.float32) if weights is None else np.array(weights, np.float32)
    matrix = scipy.sparse.coo_matrix((values, (u, v)), (num_nodes, num_nodes)).tocsr()
    both = (matrix + matrix.T).tocsr()
    return both.indptr.astype(np.int32), both.indices.astype(np.int32), both.data.astype(np.float32)


def sweep(graph, most, sizes=None, sweeps=1):
    num_nodes = len(graph[0]) - 1
    sizes = np.ones(num_nodes, np.int64) if sizes is None else np.array(sizes)
    labels, label_sizes = np.arange(num_nodes, dtype=np.int32), sizes.copy()
    scores = np.zeros(num_nodes, np.float32)
    moved = [cluster.sweep(*graph, sizes, most, labels, label_sizes, scores) for _ in range(sweeps)]
    np.testing.assert_array_equal(np.bincount(labels, sizes, minlength=num_nodes), label_sizes)
    return labels, moved


def test_closely_linked_nodes_share_a_label():
    labels, moved = sweep(arrays(PAIRS, 6), most=3, sweeps=3)
    assert len({*labels[:3]}) == len({*labels[3:]}) == 1 and labels[0] != labels[5]
    assert moved[0] >= 4 and moved[-1] == 0


@pytest.mark.parametrize(("most", "sizes"), [(1, None), (2, None), (5, [3, 3, 1, 2, 2, 2])])
def test_no_cluster_outgrows_the_bound(most, sizes):
    labels, _ = sweep(arrays(PAIRS, 6), most, sizes, sweeps=4)
    assert np.bincount(labels, sizes).max() <= most


def test_the_heaviest_links_win():
    labels, _ = sweep(arrays([(0, 1), (1, 2)], 3, [1, 5]), most=2)
    assert labels[1] == labels[2] != labels[0]


def test_loops_do_not_count():
    graph = np.array([0, 1], np.int32), np.array([0], np.int32), np.ones(1, np.float32)
    assert sweep(graph, most=10)[1] == [0]


def test_the_graph_of_clusters_has_the_sums():
    graph = arrays([*PAIRS, (1, 4)], 6, [1, 1, 1, 1, 1, 1, 0.5, 2])
    labels = np.array([0, 0, 0, 2, 2, 1], np.int32)
    members, starts = np.array([0, 1, 2, 5, 3, 4]), np.array([0, 3, 4, 6])
    indptr, indices, weights = _cluster_graph(graph, labels, starts, members)
    result = scipy.sparse.csr_matrix((weights, indices, indptr), (3, 3)).toarray()
    assert result.tolist() == [[0, 0, 2.5], [0, 0, 2], [2.5, 2, 0]]
    assert len(indices) == 4
