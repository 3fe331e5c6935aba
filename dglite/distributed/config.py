"""The JSON file of a partition: types, ranges, features, and the files with their sizes and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from ..errors import DGLError
from ..graph import DGLGraph
from ..io.atomic import replacing
from ..io.container import local_path
from .book import CanonicalEtype, PartitionBook

VERSION = 2
"""Version of the layout that is written; later ones are refused."""


class Files(NamedTuple):
    """Names of a partition's files, in its folder."""

    graph: str
    parts: list[dict[str, str]]

    def all(self) -> list[str]:
        """Return them all."""
        return [self.graph, *(name for part in self.parts for name in part.values())]


def part_files(graph_name: str, num_parts: int) -> Files:
    """Return the names of a partition's files."""
    kinds = "structure", "node_feats", "edge_feats"
    return Files(
        f"{graph_name}.graph", [{kind: f"part{p}/{kind}.safetensors" for kind in kinds} for p in range(num_parts)]
    )


def feature_names(g: DGLGraph) -> dict[str, list[list[str]]]:
    """Return the names of the features that are written: for ``"node"`` and ``"edge"``, a list for each type."""
    frames_of = {"node": g.node_frames, "edge": g.edge_frames}
    return {kind: [[] if frame is None else list(frame) for frame in frames] for kind, frames in frames_of.items()}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@final
@dataclass
class PartConfig:
    """What the JSON file says.

    Attributes
    ----------
    graph_name, part_method, num_hops
        as given to :func:`partition_graph`.
    idtype
        dtype of the graph's ids, ``"int32"`` or ``"int64"``.
    nodes, edges
        by type, the bounds of the parts' ranges.
    features
        by ``"node"`` and ``"edge"``, names by type.
    sizes
        for each part, how many ``nodes``, ``edges``, ``cut`` edges and ``halo`` nodes it has.
    files
        size and SHA-256 of each file.
    path
        where the file is.
    """

    graph_name: str
    part_method: str
    num_hops: int
    idtype: str
    nodes: dict[str, list[int]]
    edges: dict[CanonicalEtype, list[int]]
    features: dict[str, list[list[str]]]
    sizes: list[dict[str, int]]
    files: dict[str, list[Any]]
    path: Path | None = None

    @property
    def num_parts(self) -> int:
        """The number of parts."""
        return len(next(iter(self.nodes.values()))) - 1

    @classmethod
    def read(cls, part_config: Any) -> PartConfig:
        """Read a file.

        Raises ``DGLError``: there is no such file, it is damaged, or of a later version.
        """
        path = local_path(part_config)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DGLError(f"{path} cannot be read: {error}; give the JSON file that partition_graph wrote") from error
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            if type(version) is not int or version < 1:
                raise ValueError(f"its version is {version!r}")
            if version > VERSION:
                raise DGLError(f"{path} is of version {version}; this dglite reads up to {VERSION}: update it")
            stated = fields.pop("hash", None)
            stated_parts = fields.pop("num_parts") if version > 1 else None
            fields["nodes"] = dict(fields["nodes"])
            fields["edges"] = {(src, name, dst): bounds for (src, name, dst), bounds in fields["edges"]}
            fields["idtype"] = str(np.dtype(fields["idtype"]))
            config = cls(**fields, path=path)
            if not config.nodes:
                raise ValueError("it has no node types")
            if stated_parts not in (None, config.num_parts) or (version > 1 and type(stated_parts) is not int):
                raise ValueError(f"num_parts is {stated_parts!r}, but nodes are in {config.num_parts} parts")
            fits = stated == config.hash
            if fits:
                config.book(0)
        except DGLError:
            raise
        except Exception as error:  # damage raises nearly anything: KeyError, TypeError, OverflowError, RecursionError
            raise DGLError(f"{path} is damaged or was not written by partition_graph: {error!r:.200}") from error
        if not fits:
            raise DGLError(f"{path} was changed after it was written: its hash does not fit; partition the graph again")
        return config

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        self.path = path
        # Launchers of projects compare num_parts, a name of DGL's, with the number of machines.
        fields = {**self._fields(), "num_parts": self.num_parts, "version": VERSION, "hash": self.hash}
        with replacing(path, parents=True) as part:
            part.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")

    def _fields(self) -> dict[str, Any]:
        fields = {**vars(self), "nodes": list(self.nodes.items()), "edges": list(self.edges.items())}
        del fields["path"]
        return fields

    @property
    def hash(self) -> str:
        """The SHA-256 of all that the file says, hashes of the other files included: the version of the partition."""
        return hashlib.sha256(json.dumps(self._fields(), sort_keys=True).encode()).hexdigest()

    def book(self, part_id: int) -> PartitionBook:
        """Return the partition book for a part."""
        return PartitionBook(part_id, self.nodes, self.edges)

    def divided_book(self, rank: int, count: int, indptrs: Sequence[np.ndarray]) -> PartitionBook:
        """Return the book of ``rank`` where ``count`` ranks own equal ranges of the nodes of each part.

        ``indptrs``, by edge type, tell the in-edges of nodes: an edge belongs to the rank of its destination.
        """
        nodes = {
            ntype: [*np.linspace(bounds[:-1], bounds[1:], count, False, dtype=np.int64).T.ravel().tolist(), bounds[-1]]
            for ntype, bounds in self.nodes.items()
        }
        edges = {etype: indptr[nodes[etype[2]]].tolist() for etype, indptr in zip(self.edges, indptrs, strict=True)}
        return PartitionBook(rank, nodes, edges)

    def place(self, name: str) -> Path:
        """Return where a file is. Raises ``DGLError`` where it is missing or has another size than was written."""
        assert self.path is not None
        path, (size, _) = self.path.parent / name, self.files[name]
        if not path.is_file():
            raise DGLError(f"{path} is missing; copy it from where the graph was partitioned")
        if path.stat().st_size != size:
            raise DGLError(f"{path} has {path.stat().st_size} bytes, but {size} were written: copy it again")
        return path

    def verify(self, name: str) -> None:
        """Read a file and raise ``DGLError`` where it is not what was written."""
        path = self.place(name)
        if sha256_of(path) != self.files[name][1]:
            raise DGLError(f"{path} is damaged: its bytes are not those that were written; copy it again")

    def table(self) -> str:
        """Return parts, their sizes, and what was cut, as text."""
        lines = [f"{'part':>6}{'nodes':>12}{'edges':>12}{'cut':>12}{'halo':>12}"]
        for part, size in enumerate(self.sizes):
            lines.append(f"{part:>6}" + "".join(f"{size[key]:>12}" for key in ("nodes", "edges", "cut", "halo")))
        total = {key: sum(size[key] for size in self.sizes) for key in ("nodes", "edges", "cut")}
        worst = {key: max(size[key] for size in self.sizes) * self.num_parts / max(total[key], 1) for key in total}
        lines.append(
            f"{self.graph_name}: {self.num_parts} parts by {self.part_method}; "
            f"{100 * total['cut'] / max(total['edges'], 1):.1f}% of edges cut; largest part {worst['nodes']:.2f} of "
            f"the mean in nodes, {worst['edges']:.2f} in edges"
        )
        return "\n".join(lines)
