"""Graphs of points: nearest neighbours, and neighbours within a radius. Always exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..convert import graph
from ..errors import DGLError, warn
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..progress import progress
from ..structure import Adjacency
from ..structure.arrays import HOST, arrays_on
from ..structure.ids import count_of, integer_array, number_of
from ..structure.metagraph import HOMOGENEOUS

_ALGORITHMS = ("bruteforce-blas", "bruteforce", "bruteforce-sharemem", "kd-tree", "nn-descent")
_DISTANCES = ("euclidean", "cosine")
_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")

_TREE_DIMENSIONS = 12
"""A k-d tree visits nearly every leaf in more dimensions than this; a matrix product finds distances faster then."""

_BLOCK = 1 << 22
"""Number of distances that one matrix product computes."""


@explained
def knn_graph(
    x: Tensor, k: int, algorithm: str = "bruteforce-blas", dist: str = "euclidean", exclude_self: bool = False
) -> DGLGraph:
    """Return the graph in which the predecessors of each point are its ``k`` nearest points.

    Raises DGLError: there is no point, ``k`` is not positive, or a name is not understood.

    Parameters
    ----------
    x
        points (num_points, dimensions); or (num_sets, num_points, dimensions), which gives a batch of graphs.
    k
        neighbours of each point; with a warning fewer, in all sets, if the smallest set has fewer points.
    algorithm
        one of DGL's names; the neighbours are exact and the same for all. Up to 12 dimensions SciPy's k-d tree finds
        them, beyond that a matrix product, in blocks.
    dist
        ``"euclidean"`` or ``"cosine"``.
    exclude_self
        a point is not its own neighbour; else it is the first.

    Returns
    -------
    DGLGraph
        Edges are ordered by destination, nearest first. Not differentiable.
    """
    x = _tensor_of(x)
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) not in (2, 3):
        raise DGLError(
            "knn_graph: points must be a tensor (points, dimensions) or (sets, points, dimensions), followed by k, got "
            f"{f'shape {shape}' if shape else type(x).__name__}"
        )
    if len(shape) == 2:
        return _knn(x, k, None, algorithm, dist, exclude_self)
    flat = active.reshape(x, (shape[0] * shape[1], shape[2]))
    return _knn(flat, k, np.full(shape[0], shape[1]), algorithm, dist, exclude_self)


@explained
def segmented_knn_graph(
    x: Tensor,
    k: int,
    segs: Sequence[int] | Tensor,
    algorithm: str = "bruteforce-blas",
    dist: str = "euclidean",
    exclude_self: bool = False,
) -> DGLGraph:
    """Return a batch of nearest-neighbour graphs, of the first ``segs[0]`` points, of the next ``segs[1]``, and so on.

    Everything else is as in :func:`knn_graph`.

    Raises DGLError as :func:`knn_graph`; or the numbers do not sum to the number of points.
    """
    sizes, x = integer_array(segs, "numbers of points").astype(np.int64), _tensor_of(x)
    num_points = active.shape(x)[0]
    if sizes.ndim != 1 or sizes.sum() != num_points:
        raise DGLError(
            f"segmented_knn_graph: segs={sizes.tolist()!s:.80} do not sum to the {num_points} points; give a list, the "
            "number of points of each set"
        )
    return _knn(x, k, sizes, algorithm, dist, exclude_self)


def _tensor_of(x: Any) -> Any:
    """Return an array as a tensor; anything else as it is."""
    return active.asarray(x) if isinstance(x, np.ndarray) and not active.is_tensor(x) else x


def _knn(x: Tensor, k: int, sizes: np.ndarray | None, algorithm: str, dist: str, exclude_self: bool) -> DGLGraph:
    if algorithm not in _ALGORITHMS:
        raise DGLError(f"algorithm={algorithm!r} is not understood; expected one of {', '.join(_ALGORITHMS)}")
    if dist not in _DISTANCES:
        raise DGLError(f"dist={dist!r} is not understood; expected one of {', '.join(_DISTANCES)}")
    k = count_of(k, "k", least=1)
    arrays = arrays_on(active.device(x)) if active.is_tensor(x) else HOST
    points: Any = _points(x) if arrays is HOST else _points_there(arrays, x)
    if dist == "cosine":
        lengths = (points * points).sum(1)[:, None] ** 0.5
        points = points / lengths.clip(np.finfo(np.float32).tiny)
    segments = np.array([len(points)]) if sizes is None else sizes
    if not len(segments) or segments.min() < 1:
        raise DGLError("a set of points is empty; each needs at least one")
    most = int(segments.min()) - exclude_self
    if k > most:
        warn(f"k = {k}, but the smallest set has {most} neighbours to choose from; every node gets {most}, in all sets")
        k = most
    if arrays is not HOST:
        return _knn_there(arrays, points, k, segments, sizes is not None, exclude_self)
    src, dst, counts = [], [], []
    sets = zip((np.cumsum(segments) - segments).tolist(), segments.tolist(), strict=True)
    for start, size in progress(sets, "nearest neighbours", "set", len(segments), hide=len(segments) == 1):
        near = _nearest(points[start : start + size], k, exclude_self)
        src.append(near.ravel() + start)
        dst.append(np.repeat(np.arange(start, start + size), near.shape[1]))
        counts.append(near.size)
    result = graph((np.concatenate(src), np.concatenate(dst)), num_nodes=len(points), device=active.device(x))
    if sizes is not None:
        result.batch_node_counts, result.batch_edge_counts = (segments,), (np.array(counts, np.int64),)
    return result


def _knn_there(
    arrays: Any, points: Tensor, k: int, segments: np.ndarray, is_batch: bool, exclude_self: bool
) -> DGLGraph:
    """Return the graph of points on a device, from all distances; among equal ones the order is the library's."""
    starts = (np.cumsum(segments) - segments).tolist()
    near = [
        arrays.nearest(points[start : start + size], k, exclude_self) + start
        for start, size in zip(starts, segments.tolist(), strict=True)
    ]
    count = active.shape(points)[0]
    src = active.reshape(active.concat(near), (-1,))
    dst = active.reshape(arrays.arange(count)[:, None] + arrays.full(k, 0), (-1,))
    relation = Adjacency.from_ends(count, count, src, dst, np.dtype(np.int64), arrays)
    result = make_graph(HOMOGENEOUS, (relation,), (count,), arrays.device)
    if is_batch:
        result.batch_node_counts, result.batch_edge_counts = (segments,), (segments * k,)
    return result


def _points(x: Tensor) -> np.ndarray:
    points = np.asarray(active.to_numpy(x), np.float64)
    _require_points(points.shape, np.isfinite(points).all())
    return points


def _points_there(arrays: Any, x: Tensor) -> Tensor:
    """Return points on a device as numbers of double precision; the host waits to know that they are finite."""
    points = arrays.floats(active.detach(x))
    total = (points * 0).sum()  # NaN with one number that is not finite
    _require_points(active.shape(points), bool(arrays.read(total == 0)[0]))
    return points


def _require_points(shape: Sequence[int], are_finite: Any) -> None:
    if len(shape) != 2:
        raise DGLError(f"points must be (num_points, dimensions), got {tuple(shape)}")
    if not are_finite:
        raise DGLError("points must be finite; there are NaN or infinite coordinates")


def _nearest(points: np.ndarray, k: int, exclude_self: bool) -> np.ndarray:
    """Return the ``k`` nearest points of each point, (num_points, k), itself first unless it is left out."""
    positions = np.arange(len(points))[:, None]
    if k == 0:
        return np.empty((len(points), 0), np.int64)
    if k == 1 and not exclude_self:
        return positions
    count = min(k + 1, len(points)) if exclude_self else k
    candidates = _by_tree(points, count) if points.shape[1] <= _TREE_DIMENSIONS else _by_product(points, count)
    # Where many points coincide a point may be missing among its own neighbours: it then replaces the last.
    others = candidates != positions
    others[others.all(axis=1), -1] = False
    rest = candidates[others].reshape(len(points), count - 1)
    return rest if exclude_self else np.concatenate([positions, rest], axis=1)


def _by_tree(points: np.ndarray, k: int) -> np.ndarray:
    from scipy.spatial import cKDTree  # 0.2 s, which `import dglite` must not pay

    nearest: np.ndarray = cKDTree(points).query(points, k)[1]
    return nearest.reshape(len(points), k)


def _by_product(points: np.ndarray, k: int) -> np.ndarray:
    """Return the k nearest by ``|x - y|^2 = |x|^2 - 2 x.y + |y|^2``, about the mean, where least precision is lost."""
    centred = points - points.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    blocks, rows = [], max(_BLOCK // len(points), 1)
    for start in progress(range(0, len(points), rows), "nearest neighbours", "block"):
        distances = squares - 2 * centred[start : start + rows] @ centred.T
        near = np.argpartition(distances, k - 1, axis=1)[:, :k] if k < len(points) else np.argsort(distances, axis=1)
        order = np.argsort(np.take_along_axis(distances, near, axis=1), axis=1, kind="stable")
        blocks.append(np.take_along_axis(near, order, axis=1))
    return np.concatenate(blocks)


@overload
def radius_graph(
    x: Tensor,
    r: float,
    p: float = 2,
    self_loop: bool = False,
    compute_mode: str = "donot_use_mm_for_euclid_dist",
    get_distances: Literal[False] = False,
) -> DGLGraph: ...
@overload
def radius_graph(
    x: Tensor,
    r: float,
    p: float = 2,
    self_loop: bool = False,
    compute_mode: str = "donot_use_mm_for_euclid_dist",
    *,
    get_distances: Literal[True],
) -> tuple[DGLGraph, Tensor]: ...
@explained
def radius_graph(
    x: Tensor,
    r: float,
    p: float = 2,
    self_loop: bool = False,
    compute_mode: str = "donot_use_mm_for_euclid_dist",
    get_distances: bool = False,
) -> Any:
    """Return the graph that joins, both ways, points at most ``r`` apart.

    Raises DGLError: ``r`` is negative, ``p`` below 1, ``compute_mode`` is not understood, or ``x`` is not a matrix.

    Parameters
    ----------
    x
        points, (num_points, dimensions).
    p
        the Minkowski metric: 1 Manhattan, 2 Euclidean, infinity the largest difference.
    self_loop
        join each point to itself.
    compute_mode
        one of the names that ``torch.cdist`` takes; distances are exact for all.
    get_distances
        also return the distance along each edge, (num_edges, 1), differentiable in ``x``.

    Edges are ordered by source, then destination.
    """
    if compute_mode not in _MODES:
        raise DGLError(f"compute_mode={compute_mode!r} is not understood; expected one of {', '.join(_MODES)}")
    r, p = number_of(r, "radius_graph: r, a distance,", 0), number_of(p, "radius_graph: p", 1)
    from scipy.spatial import cKDTree  # 0.2 s, which `import dglite` must not pay

    x = _tensor_of(x)
    points = _points(x)
    close = cKDTree(points).query_pairs(r, p, output_type="ndarray") if len(points) else np.empty((0, 2), np.int64)
    loops = np.arange(len(points) if self_loop else 0)
    src, dst = np.concatenate([close, close[:, ::-1], np.stack([loops, loops], axis=1)]).T
    order = np.lexsort((dst, src))
    src, dst = src[order], dst[order]
    result = graph((src, dst), num_nodes=len(points), device=active.device(x))
    return (result, _distances(x, src, dst, p)) if get_distances else result


def _distances(x: Tensor, src: np.ndarray, dst: np.ndarray, p: float) -> Tensor:
    """Return the distance of each pair, (num_pairs, 1). Its gradient is 0 at coinciding points, as that of a norm."""
    apart = abs(active.take(x, src) - active.take(x, dst))
    if np.isinf(p):
        distances = active.max(apart, 1)
    elif p == 1:
        distances = active.sum(apart, 1)
    else:
        powers = active.sum(apart**p, 1)
        positive = active.to_numpy(powers) > 0
        zeros = active.full(active.shape(powers), 0, active.dtype(powers), active.device(powers))
        rows = positive.nonzero()[0]
        distances = active.put(zeros, rows, active.take(powers, rows) ** (1 / p))
    return active.reshape(distances, (len(src), 1))
