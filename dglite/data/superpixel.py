"""Images as graphs of superpixels, from Dwivedi et al., "Benchmarking graph neural networks", 2020."""

from __future__ import annotations

from typing import final

import numpy as np

from ..convert import graph
from ..errors import DGLError
from ..graph import DGLGraph
from ..progress import progress
from .dataset import Folder, GraphsWithLabels, Transform
from .numeric_pickle import plain, read_numeric_pickle
from .published import PublishedDataset
from .raw import float_tensor, long_tensor

_URL = "https://www.dropbox.com/s/y2qwa77a0fxem47/superpixels.zip?dl=1"
NEIGHBOURS, WIDTH_OVER = 9, 8
"""Edges go to 8 of the 9 most alike; likeness falls off with the mean distance of the 8 nearest."""


class _SuperPixels(GraphsWithLabels, PublishedDataset):
    """Images as superpixels.

    Graphs have ``ndata["feat"]`` (float32: mean colour, then place from 0 to 1) and ``edata["feat"]`` (float32, (edges,
    1): how alike the two are). Each superpixel has edges to 8 of the 9 that are most like it, to all others where there
    are no more than 9.

    Raises DGLError: a file is missing and not to be had, damaged, or has something else than numbers in it.

    Parameters
    ----------
    split
        ``"train"`` or ``"test"``.
    use_feature
        Whether likeness is of places and colours, instead of places alone.
    """

    _published = "Superpixel", _URL
    _subfolders = "Superpixel/superpixels", "superpixels", "Superpixel", "."
    img_size: int

    def __init__(
        self,
        raw_dir: Folder = None,
        split: str = "train",
        use_feature: bool = False,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
    ) -> None:
        if split not in ("train", "test"):
            raise DGLError(f"split is {split!r}; expected 'train' or 'test'")
        self.split, self.use_feature = self._options = split, use_feature
        super().__init__(raw_dir, force_reload, verbose, transform)

    def process(self) -> None:
        """Read the superpixels and find which are alike."""
        (path,) = self._paths
        try:
            labels, samples = plain(read_numeric_pickle(path))
            images = [(np.asarray(colour, np.float64), np.asarray(place, np.float64)) for colour, place, *_ in samples]
            self.labels = long_tensor(np.asarray(labels))
            assert len(images) == len(self.labels)
        except (TypeError, ValueError, AssertionError) as error:
            raise DGLError(
                f"{path} has other content than labels and, for each, colours and places: {error}"
            ) from error
        self.graphs = [self._graph(*image) for image in progress(images, "superpixels", "image", hide=not self.verbose)]

    def _graph(self, colour: np.ndarray, place: np.ndarray) -> DGLGraph:
        place, colour = place.reshape(-1, 2) / self.img_size, colour.reshape(len(place.reshape(-1, 2)), -1)
        count = len(place)
        alike = likeness(place, colour if self.use_feature else None)
        if count > NEIGHBOURS:  # the published graphs leave out whichever of the nine a partition puts last
            nearest = np.argpartition(alike, count - NEIGHBOURS - 1, axis=1)[:, count - NEIGHBOURS : -1]
        else:
            nearest = np.array([[j for j in range(count) if j != i] for i in range(count)], np.int64)
        nearest = nearest.reshape(count, -1)
        src = np.repeat(np.arange(count), nearest.shape[1])
        g = graph((src, nearest.ravel()), num_nodes=count)
        g.ndata["feat"] = float_tensor(np.concatenate([colour, place], 1))
        g.edata["feat"] = float_tensor(np.take_along_axis(alike, nearest, 1).reshape(-1, 1))
        return g


def likeness(place: np.ndarray, colour: np.ndarray | None) -> np.ndarray:
    """Return the similarity of nodes, (nodes, nodes) and symmetric, from 0 to 1; 0 for a node and itself."""
    from scipy.spatial.distance import cdist  # 0.2 s, which `import dglite` must not pay

    exponent = np.zeros((len(place), len(place)))
    for x in (place, colour):
        if x is not None:
            distance = cdist(x, x)
            exponent -= (distance / _scale(distance)) ** 2
    alike = np.exp(exponent)
    alike = 0.5 * (alike + alike.T)
    np.fill_diagonal(alike, 0)
    return alike


def _scale(distance: np.ndarray) -> np.ndarray:
    """Return for each node the mean distance of the 8 nearest, 1 for each where there are fewer nodes."""
    if len(distance) <= WIDTH_OVER:
        return np.ones((len(distance), 1)) + 1e-8
    nearest = np.partition(distance, WIDTH_OVER, axis=1)[:, : WIDTH_OVER + 1]
    return nearest.sum(1, keepdims=True) / WIDTH_OVER + 1e-8


@final
class MNISTSuperPixelDataset(_SuperPixels):
    """Digits of MNIST as up to 75 superpixels: 60,000 to train on, 10,000 to test."""

    _files, img_size = ("mnist_75sp_{self.split}.pkl",), 28


@final
class CIFAR10SuperPixelDataset(_SuperPixels):
    """Photographs of CIFAR-10 as up to 150 superpixels: 50,000 to train on, 10,000 to test."""

    _files, img_size = ("cifar10_150sp_{self.split}.pkl",), 32
