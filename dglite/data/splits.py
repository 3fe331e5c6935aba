"""Training, validation and test splits, of a data set's graphs and of a graph's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..structure.ids import count_of

_PROPERTY_MASKS = ("in_train_mask", "in_valid_mask", "in_test_mask", "out_valid_mask", "out_test_mask")
_IN_DISTRIBUTION = 3
"""The number of these masks with nodes from the training distribution."""


class Subset:
    """The elements of a data set at ``indices``, in their order."""

    def __init__(self, dataset: Any, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, item: int) -> Any:
        return self.dataset[int(self.indices[item])]

    def __iter__(self) -> Iterator[Any]:
        for index in range(len(self)):  # Python's iteration by index would take an error of the data set for the end
            yield self[index]

    def __len__(self) -> int:
        return len(self.indices)


@explained
def split_dataset(
    dataset: Any, frac_list: Sequence[float] | None = None, shuffle: bool = False, random_state: Any = None
) -> list[Subset]:
    """Cut a data set into subsets of the given fractions: training, validation and test, 0.8, 0.1 and 0.1 by default.

    Sizes are rounded down; the last subset takes the rest. ``shuffle`` puts the elements in random order first,
    which ``random_state``, a seed of ``numpy.random.RandomState``, fixes.

    Raises DGLError: a fraction is negative, or they do not sum to 1.
    """
    fractions = _fractions([0.8, 0.1, 0.1] if frac_list is None else frac_list)
    count = len(dataset)
    order = np.random.RandomState(random_state).permutation(count) if shuffle else np.arange(count)
    ends = list(accumulate(int(count * fraction) for fraction in fractions[:-1]))
    return [Subset(dataset, order[start:end]) for start, end in zip([0, *ends], [*ends, count], strict=True)]


def idx2mask(idx: Any, len: int) -> np.ndarray:
    """Return ``len`` zeros with ones at ``idx``, float64."""
    mask = np.zeros(count_of(len, "len"))
    mask[idx] = 1
    return mask


def generate_mask_tensor(mask: np.ndarray) -> Tensor:
    """Return an array as a boolean tensor: false where it is 0."""
    return active.from_numpy(np.asarray(mask) != 0)


def mask_at(ids: Any, count: int) -> Tensor:
    """Return a boolean tensor, (count,), that is true at ``ids``."""
    mask = np.zeros(count, bool)
    mask[ids] = True
    return active.from_numpy(mask)


@explained
def add_nodepred_split(dataset: Any, ratio: Sequence[float], ntype: str | None = None) -> None:
    """Give the nodes of every graph of a data set boolean features ``train_mask``, ``val_mask`` and ``test_mask``.

    The parts are random, by NumPy's global generator (``numpy.random.seed``), and have the three ratios' sizes, rounded
    down; the last one takes the rest.

    Raises DGLError: there are not three ratios, one is negative, or they do not sum to 1.
    """
    _fractions(ratio, 3)
    for i in range(len(dataset)):
        g = dataset[i]
        count = g.num_nodes(ntype)
        parts = permuted_parts(count, ratio)
        for name, part in zip(("train_mask", "val_mask", "test_mask"), parts, strict=True):
            g.nodes[ntype].data[name] = mask_at(part, count)


def permuted_parts(count: int, ratio: Sequence[float]) -> list[np.ndarray]:
    """Return the numbers below ``count`` in random order, by NumPy's global generator, cut into three parts.

    Their sizes are the ratios', rounded down; the last part takes the rest.
    """
    shares = _fractions(ratio, 3)
    return np.split(np.random.permutation(count), np.cumsum([int(count * share) for share in shares[:-1]]))


# -- by what nodes are like --------------------------------------------------------------------------------------------
@explained
def mask_nodes_by_property(
    property_values: np.ndarray, part_ratios: Sequence[float], random_seed: int | None = None
) -> dict[str, Tensor]:
    """Split nodes by a property, so that a model is tested on nodes unlike those that it was trained on.

    The nodes of lowest values are *in distribution*: they are split at random into ``in_train_mask``, ``in_valid_mask``
    and ``in_test_mask``. The others are, in ascending order, ``out_valid_mask`` and ``out_test_mask``. From Bazhenov et
    al., "Evaluating robustness and uncertainty of graph models under structural distributional shifts", 2023.

    Raises DGLError: there are not five ratios, one is negative, or they do not sum to 1.

    Parameters
    ----------
    property_values
        ``(num_nodes,)``.
    part_ratios
        The sizes of the five parts, rounded; the last one takes the rest.
    random_seed
        Seed of ``numpy.random.RandomState`` for the order of equal values and the split in distribution.
    """
    ratios = _fractions(part_ratios, len(_PROPERTY_MASKS))
    values = np.asarray(property_values)
    count = len(values)
    sizes = np.round(count * ratios[:-1]).astype(int)
    generator = np.random.RandomState(random_seed)
    shuffled = generator.permutation(count)
    order = shuffled[np.argsort(values[shuffled])]
    familiar = int(sizes[:_IN_DISTRIBUTION].sum())
    order[:familiar] = generator.permutation(order[:familiar])
    parts = np.split(order, np.cumsum(sizes))
    return {name: mask_at(part, count) for name, part in zip(_PROPERTY_MASKS, parts, strict=True)}


@explained
def add_node_property_split(
    dataset: Any,
    part_ratios: Sequence[float],
    property_name: str,
    ascending: bool = True,
    random_seed: int | None = None,
) -> None:
    """Give the nodes of every graph the masks of :func:`mask_nodes_by_property`, by a property of their place.

    Raises DGLError: there is no such property, or the ratios are wrong.

    Parameters
    ----------
    property_name
        ``"popularity"``, PageRank; ``"locality"``, PageRank that restarts at the most popular node; ``"density"``, the
        clustering coefficient. Directions of edges do not count.
    ascending
        whether training is on the nodes of highest values and the shift towards lower ones, or the other way round.
    """
    if property_name not in ("popularity", "locality", "density"):
        raise DGLError(f"no node property {property_name!r}; expected 'popularity', 'locality' or 'density'")
    _fractions(part_ratios, len(_PROPERTY_MASKS))
    sign = -1 if ascending else 1
    for i in range(len(dataset)):
        g = dataset[i]
        masks = mask_nodes_by_property(sign * _node_property(g, property_name), part_ratios, random_seed)
        g.ndata.update(masks)


def _node_property(g: Any, name: str) -> np.ndarray:
    import networkx  # 0.1 s, which `import dglite` must not pay

    undirected = networkx.Graph(g.to_networkx())
    if name == "density":
        values = networkx.clustering(undirected)
    else:
        values = networkx.pagerank(undirected)
        if name == "locality":
            values = networkx.pagerank(undirected, personalization={max(values, key=values.get): 1.0})
    return np.array([values[node] for node in range(g.num_nodes())])


def _fractions(ratios: Sequence[float], count: int | None = None) -> np.ndarray:
    """Return ratios as an array if they are ``count`` numbers from 0 up that sum to 1."""
    fractions = np.asarray(ratios, dtype=float)
    if fractions.ndim != 1 or (count is not None and len(fractions) != count):
        raise DGLError(f"got {list(ratios)}; expected {count or 'some'} ratios")
    if (fractions < 0).any() or not np.isclose(fractions.sum(), 1):
        raise DGLError(f"ratios must not be negative and sum to 1, got {fractions.tolist()}")
    return fractions
