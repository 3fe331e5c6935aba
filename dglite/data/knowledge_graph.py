"""Knowledge graphs for link prediction: FB15k-237, FB15k and WN18.

Bordes et al., "Translating embeddings for modeling multi-relational data", 2013; Toutanova and Chen, 2015.
"""

from __future__ import annotations

from pathlib import Path
from typing import final

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import lines_of

_SETS = ("train", "valid", "test")


class KnowledgeGraphDataset(OneGraph):
    """One knowledge graph: entities are nodes, and each statement is an edge from its head to its tail.

    Edges are ordered by relation, in the order in which the files first name these, and inside of one as the files
    are. They have ``edata['etype']`` (int64) and the boolean ``train_mask``, ``val_mask`` and ``test_mask``; with
    ``reverse`` each edge once more at the end, reversed, of relation ``etype + num_rels`` and in the masks of
    its statement. ``train_edge_mask``, ``valid_edge_mask`` and ``test_edge_mask`` are without the reversed ones.
    ``ndata['ntype']`` is 0.

    Raises DGLError: a file is missing and cannot be downloaded, a line is not a statement, or a name is not in the
    dictionaries.

    Parameters
    ----------
    name
        ``"FB15k-237"``, ``"FB15k"``, ``"wn18"``, or the name of a folder with the same files.
    reverse
        Add the reversed edges.
    raw_dir
        Folder that has ``entities.dict`` and ``relations.dict`` (a number and a name per line, separated by a tab) and
        ``train.txt``, ``valid.txt``, ``test.txt`` (head, relation, tail), itself or in ``<name>/``, or receives them.
    verbose
        Print the counts.
    """

    num_nodes: int
    """The number of entities."""
    num_rels: int
    """The number of relations, without the reversed ones."""
    _files = tuple(f"{part}.txt" for part in _SETS)
    _subfolders = "{self.name}", "{self.name}/{self.name}", "."

    def __init__(
        self,
        name: str,
        reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        self.reverse, self._published = reverse, (name, f"{SITE}/{name}.tgz")
        super().__init__(raw_dir, force_reload, verbose, transform)

    @property
    def save_name(self) -> str:
        """The stem of DGL's file name of the processed graph."""
        return f"{self.name}_dgl_graph"

    def process(self) -> None:
        """Read the files and build the graph."""
        folder = self._folder
        named = [folder / f"{kind}.dict" for kind in ("entities", "relations") if (folder / f"{kind}.dict").exists()]
        if len(named) == 1:
            raise DGLError(f"{folder} has {named[0].name} alone; expected entities.dict and relations.dict, or neither")
        entities, relations = [_numbers(path) for path in named] or [_NameIds(), _NameIds()]
        sets = [_statements(path, entities, relations) for path in self._paths]
        self.num_nodes, self.num_rels = len(entities), len(relations)
        if self.verbose:
            print(f"{self.name}: {self.num_nodes} entities, {self.num_rels} relations")
            print(", ".join(f"{len(each)} {part}" for each, part in zip(sets, _SETS, strict=True)), "edges")
        every = np.concatenate(sets)
        split_of = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
        etypes, first = np.unique(every[:, 1], return_index=True)
        rank = np.zeros(self.num_rels, np.int64)
        rank[etypes[np.argsort(first)]] = np.arange(len(etypes))
        order = np.argsort(rank[every[:, 1]], kind="stable")
        (src, etype, dst), split_of = every[order].T, split_of[order]
        forward = np.ones(len(src), bool)
        if self.reverse:
            src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
            etype, split_of = np.concatenate([etype, etype + self.num_rels]), np.concatenate([split_of, split_of])
            forward = np.concatenate([forward, ~forward])
        g = graph((src, dst), num_nodes=self.num_nodes)
        tensor = backend.active.from_numpy
        for number, (part, short) in enumerate(zip(_SETS, ("train", "val", "test"), strict=True)):
            g.edata[f"{part}_edge_mask"] = tensor((split_of == number) & forward)
            g.edata[f"{short}_mask"] = tensor(split_of == number)
        g.edata["etype"] = tensor(np.ascontiguousarray(etype))
        g.ndata["ntype"] = tensor(np.zeros(self.num_nodes, np.int64))
        self._graph = g


class _NameIds(dict[str, int]):
    """Numbers names as they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _numbers(path: Path) -> dict[str, int]:
    """Return names by number, which are all from 0 on."""
    ids: dict[str, int] = {}
    for line, where in lines_of(path):
        number, _, name = line.strip().partition("\t")
        if not (number.isdecimal() and name) or name in ids:
            raise DGLError(f"{where} is not a number and a new name: {line[:60]!r}")
        ids[name] = int(number)
    if sorted(ids.values()) != list(range(len(ids))):
        raise DGLError(f"{path} does not number its {len(ids)} names from 0 on")
    return ids


def _statements(path: Path, entities: dict[str, int], relations: dict[str, int]) -> np.ndarray:
    """Return heads, relations and tails as numbers, (num_statements, 3)."""
    triples = []
    for line, where in lines_of(path):
        try:
            head, relation, tail = line.strip().split("\t")
            triples.append((entities[head], relations[relation], entities[tail]))
        except ValueError:
            raise DGLError(f"{where} is not head, relation and tail: {line[:60]!r}") from None
        except KeyError as error:
            raise DGLError(f"{where} names {error}, which is in no .dict file") from None
    return np.array(triples, np.int64).reshape(-1, 3)


class _NamedKnowledgeGraph(KnowledgeGraphDataset):
    """Base of the graphs that have a class of their own, constructed without a name."""

    _own_name: str

    def __init__(
        self,
        reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        super().__init__(self._own_name, reverse, raw_dir, force_reload, verbose, transform)


@final
class FB15k237Dataset(_NamedKnowledgeGraph):
    """FB15k-237: 14,541 entities, 237 relations; 272,115 training, 17,535 validation, 20,466 test edges."""

    _own_name = "FB15k-237"


@final
class FB15kDataset(_NamedKnowledgeGraph):
    """FB15k: 14,951 entities, 1,345 relations; 483,142 training, 50,000 validation, 59,071 test edges."""

    _own_name = "FB15k"


@final
class WN18Dataset(_NamedKnowledgeGraph):
    """WN18: 40,943 entities, 18 relations; 141,442 training, 5,000 validation, 5,000 test edges."""

    _own_name = "wn18"
