"""A small citation network written in Planetoid's format, for tests."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

NUM_NODES = 10
TEST_NODES = [9, 6, 8]
"""In the order of the file. Node 7 lies among the test nodes and is in no file, as in Citeseer."""

FEATURES = np.array(
    [[1, 0, 1], [0, 2, 0], [1, 1, 2], [0, 0, 0], [3, 0, 0], [0, 1, 1], [2, 2, 0], [0, 0, 0], [0, 0, 5], [1, 0, 3]],
    dtype=np.float32,
)
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 0, 0, 1])
NEIGHBOURS = {0: [1, 1, 2], 1: [0], 2: [0, 3, 3], 3: [2], 4: [4, 5], 5: [4], 6: [0], 7: [], 8: [9], 9: [8, 8]}
"""With citations given twice, in one direction only, and to oneself."""

EDGES = {(0, 1), (0, 2), (0, 6), (1, 0), (2, 0), (2, 3), (3, 2), (4, 4), (4, 5), (5, 4), (6, 0), (8, 9), (9, 8)}


def parts() -> dict[str, object]:
    """Return the content of the seven pickles: two training nodes, six known ones, three test nodes."""
    one_hot = np.eye(2, dtype=np.int32)[LABELS]
    return {
        "x": csr_matrix(FEATURES[:2]),
        "y": one_hot[:2],
        "tx": csr_matrix(FEATURES[TEST_NODES]),
        "ty": one_hot[TEST_NODES],
        "allx": csr_matrix(FEATURES[:6]),
        "ally": one_hot[:6],
        "graph": NEIGHBOURS,
    }


def write(folder: Path, name: str, content: dict[str, object] | None = None, protocol: int = 2) -> Path:
    """Write ``ind.<name>.*`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, value in (content or parts()).items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in TEST_NODES))
    return folder
