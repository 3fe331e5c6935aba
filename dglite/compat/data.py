"""``dgl.data``: data sets under their older names, and helpers that DGL's example scripts call."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import io
from ..data import (
    CiteseerGraphDataset,
    CoraGraphDataset,
    DGLDataset,
    FB15k237Dataset,
    FB15kDataset,
    KarateClubDataset,
    PubmedGraphDataset,
    QM7bDataset,
    QM9Dataset,
    QM9EdgeDataset,
    RedditDataset,
    SBMMixtureDataset,
    SSTDataset,
    WN18Dataset,
    utils,
)
from ..errors import DGLError
from .base import dgl_warning
from .ndarray import NDArray

KarateClub, SBMMixture, SST = KarateClubDataset, SBMMixtureDataset, SSTDataset
QM7b, QM9, QM9Edge = QM7bDataset, QM9Dataset, QM9EdgeDataset
load_cora, load_citeseer, load_pubmed = CoraGraphDataset, CiteseerGraphDataset, PubmedGraphDataset

_BY_NAME: dict[str, Callable[[], DGLDataset]] = {
    "cora": load_cora,
    "citeseer": load_citeseer,
    "pubmed": load_pubmed,
    "reddit": RedditDataset,
    "reddit-self-loop": functools.partial(RedditDataset, self_loop=True),
    "wn18": WN18Dataset,
    "FB15k": FB15kDataset,
    "FB15k-237": FB15k237Dataset,
}


class DGLBuiltinDataset(DGLDataset):
    """Base of data sets whose raw files are an archive at ``url``, which is unpacked into ``raw_path``."""

    def __init__(
        self,
        name: str,
        url: str,
        raw_dir: str | Path | None = None,
        hash_key: tuple[Any, ...] = (),
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(name, url, raw_dir, None, hash_key, force_reload, verbose, transform)

    def download(self) -> None:
        """Download the archive into ``raw_dir`` and unpack it."""
        assert self.url is not None
        archive = utils.download(self.url, Path(self.raw_dir) / self.url.rsplit("/", 1)[-1])
        utils.extract_archive(archive, self.raw_path)


def _get_dgl_url(file_url: str) -> str:
    """Return where DGL keeps a file of its data sets; scripts import this in spite of its name."""
    return f"https://data.dgl.ai/{file_url}"


def _sample_mask(idx: Any, l: int) -> np.ndarray:
    """Return ``l`` zeros with ones at ``idx``; scripts import this, too."""
    return utils.idx2mask(idx, l)


def _parse_index_file(filename: str | Path) -> list[int]:
    """Return the numbers in a text file, one a line."""
    return [int(line) for line in Path(filename).read_text().split()]


def _preprocess_features(features: Any) -> np.ndarray:
    """Return a SciPy matrix as an array whose rows sum to 1, or to 0 where they are empty."""
    total = np.asarray(features.sum(1), dtype=np.float64).reshape(-1, 1)
    return np.asarray(features.todense()) / np.where(total == 0, 1, total)


def load_tensors(filename: Any, return_dgl_ndarray: bool = False) -> dict[str, Any]:
    """Return :func:`dglite.data.load_tensors`; with ``return_dgl_ndarray`` as ``NDArray``."""
    tensors = io.load_tensors(filename)
    return {name: NDArray(x) for name, x in tensors.items()} if return_dgl_ndarray else tensors


def register_data_args(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``--dataset`` to a parser."""
    parser.add_argument("--dataset", type=str, help=f"one of {', '.join(_BY_NAME)}")


def load_data(args: Any) -> DGLDataset:
    """Return the data set that ``args.dataset`` names, or ``args`` itself; ``DGLError`` for one that is not known."""
    name = args if isinstance(args, str) else args.dataset
    if name not in _BY_NAME:
        raise DGLError(f"no data set {name!r} is loaded by name; expected one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]()


def deprecate_property(old: str, new: str) -> None:
    """Warn that a property has another name now."""
    dgl_warning(f"property {old} will go; use {new}", stacklevel=3)


def deprecate_function(old: str, new: str) -> None:
    """Warn that a function has another name now."""
    dgl_warning(f"function {old} will go; use {new}", stacklevel=3)


def deprecate_class(old: str, new: str) -> None:
    """Warn that a class has another name now."""
    dgl_warning(f"class {old} will go; use {new}", stacklevel=3)
