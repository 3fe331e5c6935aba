"""Files of features as DGL names them, ``node_feat.dgl`` and ``edge_feat.dgl``, in the folder of each part.

Programs that prepare graphs partition them without features, and then read and write these files.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..io import load_tensors, save_tensors
from ..io.container import Container, write_container
from .config import PartConfig, part_files, sha256_of
from .partition import KIND

_KINDS = ("node", "edge")


def write_feature_files(config: PartConfig) -> None:
    """Write the features of each part by ``"type/name"``; those of a single part in the order of the graph's old ids.

    Raises ``DGLError``: a file of the partition is missing or damaged, or the disk refuses.
    """
    assert config.path is not None
    before = config.path.stat().st_mtime_ns - 10**9  # a file that is replaced within the clock's tick is not older
    for part in range(config.num_parts):
        for kind in _KINDS:
            rows, tensors = _file(config, part, f"{kind}_feats"), {}
            for i, label in enumerate(_labels(config, kind)):
                order = None if config.num_parts > 1 else np.argsort(_old_ids(config, part, kind, i), kind="stable")
                for name in config.features[kind][i]:
                    tensors[f"{label}/{name}"] = _ordered(rows.tensor(f"{i}/{name}"), order)
            path = _path(config, part, kind)
            save_tensors(path, tensors)
            os.utime(path, ns=(before, before))


def with_replaced_features(config: PartConfig) -> PartConfig:
    """Return a partition with the features of those files that are not older than its JSON file, which is written anew.

    Raises ``DGLError``: a file is damaged, names another type, or a feature has another number of rows than its nodes
    or edges.
    """
    assert config.path is not None
    written = config.path.stat().st_mtime_ns
    paths = {kind: [_path(config, part, kind) for part in range(config.num_parts)] for kind in _KINDS}
    replaced = [kind for kind in _KINDS if any(x.is_file() and x.stat().st_mtime_ns >= written for x in paths[kind])]
    for kind in replaced:
        if missing := [str(path) for path in paths[kind] if not path.is_file()]:
            raise DGLError(f"{missing} do not exist, but the same files of other parts do; write them for all parts")
        read = [_rows_by_name(config, part, kind, path) for part, path in enumerate(paths[kind])]
        names = [[list(of_type) for of_type in types] for types in read]
        if any(x != names[0] for x in names):
            raise DGLError(f"the {kind}_feat.dgl of the parts of {config.path} have different features: {names}")
        for part, types in enumerate(read):
            _write(config, part, kind, types)
        config.features[kind] = names[0]
    if replaced:
        config.write(config.path)
    return config


def _rows_by_name(config: PartConfig, part: int, kind: str, path: Path) -> list[dict[str, Tensor]]:
    """Return the features of a file by name, for each type, in the order of the part."""
    labels = _labels(config, kind)
    rows: list[dict[str, Tensor]] = [{} for _ in labels]
    for key, values in load_tensors(path).items():
        label, _, name = key.rpartition("/")
        if label not in labels:
            raise DGLError(f"{path} has a feature {key!r}; expected 'type/name', with a type of {labels}")
        i = labels.index(label)
        old = _old_ids(config, part, kind, i)
        if tuple(active.shape(values))[:1] != (len(old),):
            raise DGLError(f"{path}: {key!r} has shape {tuple(active.shape(values))}; expected {len(old)} rows")
        rows[i][name] = _ordered(values, None if config.num_parts > 1 else old)
    return rows


def _write(config: PartConfig, part: int, kind: str, types: list[dict[str, Tensor]]) -> None:
    """Write the features of a part."""
    assert config.path is not None
    file = part_files(config.graph_name, config.num_parts).parts[part][f"{kind}_feats"]
    place = config.path.parent / file
    write_container(place, KIND, {}, {f"{i}/{name}": x for i, rows in enumerate(types) for name, x in rows.items()})
    config.files[file] = [place.stat().st_size, sha256_of(place)]


def _labels(config: PartConfig, kind: str) -> list[str]:
    return list(config.nodes) if kind == "node" else [":".join(etype) for etype in config.edges]


def _path(config: PartConfig, part: int, kind: str) -> Path:
    assert config.path is not None
    return config.path.parent / f"part{part}" / f"{kind}_feat.dgl"


def _file(config: PartConfig, part: int, kind: str) -> Container:
    return Container(config.place(part_files(config.graph_name, config.num_parts).parts[part][kind]), KIND)


def _old_ids(config: PartConfig, part: int, kind: str, i: int) -> np.ndarray:
    """Return the ids that a part's nodes or edges of type ``i`` had before the graph was partitioned."""
    return _file(config, part, "structure").array(f"{kind}s.{i}.orig_id")


def _ordered(rows: Tensor, order: np.ndarray | None) -> Tensor:
    return rows if order is None else active.take(rows, order)
