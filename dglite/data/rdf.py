"""Heterogeneous graphs of RDF statements for entity classification: AIFB, MUTAG, BGS and AM.

Ristoski, de Vries and Paulheim, "A collection of benchmark datasets for systematic evaluations of machine learning on
the Semantic Web", 2016.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError, DGLWarning
from ..frame import ETYPE, NID, NTYPE
from ..graph import DGLGraph
from ..transforms import to_heterogeneous
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import lines_of
from .triples import BLANK, IRI, LITERAL, Statement, Term, order, statements

_RENAMED = {"type": "rdftype", "rev-type": "rev-rdftype"}
"""DGL's names of relations that ``torch.nn.ModuleDict`` has no place for."""

Entity = tuple[str, str]
"""A node's type, and its name, which is unique in the type."""

Edge = tuple[Entity, str, Entity]


class RDFGraphDataset(OneGraph):
    """Base of the graphs of RDF statements: ``_edge`` turns a statement into an edge, ``_sample`` reads the splits.

    Statements are sorted: by subject, relation and object; IRIs come before literals. Nodes and types are numbered as
    they first occur in that order, with the types in order of name. ``nodes[predict_category]`` have ``label`` (int64,
    -1 for nodes without one; ``labels`` is the same), ``train_mask`` and ``test_mask`` (bool). Nodes and edges of each
    type have their numbers in the whole as ``dglite.NID`` and ``dglite.EID``; reversed edges come after all others.

    Raises DGLError: a file is missing and cannot be downloaded, a line cannot be read, or the splits name something
    else than nodes.

    Parameters
    ----------
    name, url, predict_category
        The folder's name, where the archive is published, and the node type with labels.
    print_every
        With ``verbose``, print a line for that many statements.
    insert_reverse
        Add to each relation the reversed one, ``rev-<name>``.
    raw_dir
        Folder that has the statements (``.nt`` or ``.n3``), ``trainingSet.tsv`` and ``testSet.tsv``, itself or in
        ``<name>/``, or receives them.
    verbose
        Print the counts.
    """

    predict_category: str
    """The type of the nodes that have labels."""
    num_classes: int
    """The number of classes."""
    _files = "trainingSet.tsv", "testSet.tsv"

    def __init__(
        self,
        name: str,
        url: str | None,
        predict_category: str,
        print_every: int = 10000,
        insert_reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        self.predict_category, self._print_every, self._insert_reverse = predict_category, print_every, insert_reverse
        self._published = name, url
        super().__init__(raw_dir, force_reload, verbose, transform)

    def _missing(self, folder: Path) -> list[str]:
        return super()._missing(folder) + ([] if _sources(folder) else ["a .nt or .n3 file"])

    @property
    def save_name(self) -> str:
        """The stem of DGL's file name of the processed graph."""
        return f"{self.name}_dgl_graph"

    def _entity(self, term: Term) -> Entity | None:
        """Return the type, empty where the statement decides it, and the name of a node; None for no node."""
        raise NotImplementedError(f"{type(self).__name__} must define _entity(term)")

    def _relation(self, term: Term) -> str | None:
        """Return the name of a relation; None for one that is left out."""
        raise NotImplementedError(f"{type(self).__name__} must define _relation(term)")

    def _edge(self, statement: Statement) -> Edge | None:
        """Return the edge that a statement becomes; None for one that is left out."""
        subject, relation, last = statement
        ends, name = (self._entity(subject), self._entity(last)), self._relation(relation)
        return None if ends[0] is None or ends[1] is None or name is None else (ends[0], name, ends[1])

    def _sample(self, cells: list[str]) -> tuple[str, str]:
        """Return the IRI and the class in a line of a split."""
        first, _, label = cells
        return first, label

    def process(self) -> None:
        """Read the files and build the graph."""
        edges = self._edges()
        entities: dict[Entity, int] = {}
        etypes: dict[str, int] = {}
        rows = np.empty((len(edges), 3), np.int64)
        for row, (subject, relation, last) in zip(rows, edges, strict=True):
            row[0] = entities.setdefault(subject, len(entities))
            row[1] = etypes.setdefault(relation, len(etypes))
            row[2] = entities.setdefault(last, len(entities))
        ntypes = list(dict.fromkeys(kind for kind, _ in entities))
        self._graph = self._built(rows, list(entities), ntypes, list(etypes))
        if self.predict_category not in ntypes:
            raise DGLError(f"{self._folder} has no statement about a node of type {self.predict_category!r}")
        self._read_splits(entities)
        if self.verbose:
            print(f"{self.name}: {self._graph.num_nodes()} nodes, {self._graph.num_edges()} edges")

    def _edges(self) -> list[Edge]:
        """Return the edges from the statements of all files, sorted."""
        edges: list[tuple[Any, Edge]] = []
        read = 0
        for path in _sources(self._folder):
            distinct_edges: dict[Any, Edge] = {}
            for statement in statements(path):
                if self.verbose and read % self._print_every == 0:
                    print(f"{read} statements of {self.name} are read, {len(edges) + len(distinct_edges)} are edges")
                read += 1
                try:
                    edge = self._edge(statement)
                except (IndexError, ValueError):
                    named = " ".join(term.text for term in statement)
                    raise DGLError(f"{path} has a statement that {self.name} cannot have: {named[:200]!r}") from None
                if edge is not None:
                    distinct_edges[tuple(map(order, statement))] = edge
            edges += distinct_edges.items()
        edges.sort(key=lambda pair: pair[0])
        return [edge for _, edge in edges]

    def _built(self, rows: np.ndarray, entities: list[Entity], ntypes: list[str], etypes: list[str]) -> DGLGraph:
        src, etype, dst = rows.T
        names = list(etypes)
        if self._insert_reverse:
            src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
            etype = np.concatenate([etype, etype + len(etypes)])
            names += [f"rev-{name}" for name in etypes]
        numbers = {name: number for number, name in enumerate(ntypes)}
        whole = graph((src, dst), num_nodes=len(entities))
        whole.ndata[NTYPE] = backend.active.from_numpy(np.array([numbers[kind] for kind, _ in entities], np.int64))
        whole.edata[ETYPE] = backend.active.from_numpy(np.ascontiguousarray(etype))
        return to_heterogeneous(whole, ntypes, [_RENAMED.get(name, name) for name in names])

    def _read_splits(self, entities: dict[Entity, int]) -> None:
        data = self._graph.nodes[self.predict_category].data
        ids = backend.active.to_numpy(data[NID])
        local = dict(zip(ids.tolist(), range(len(ids)), strict=True))
        classes: dict[str, int] = {}
        labels = np.full(len(ids), -1)
        masks = {}
        for part, path in zip(("train_mask", "test_mask"), self._paths, strict=True):
            masks[part] = np.zeros(len(ids), bool)
            for where, entity, label in self._samples(path):
                if entity not in entities:
                    warnings.warn(f"{where} names a node without edges, which is left out", DGLWarning, stacklevel=2)
                    continue
                node = local.get(entities[entity])
                if node is None:
                    raise DGLError(f"{where} names a node of type {entity[0]!r}; expected {self.predict_category!r}")
                masks[part][node], labels[node] = True, classes.setdefault(label, len(classes))
        self.num_classes = len(classes)
        for name, values in (*masks.items(), ("labels", labels), ("label", labels)):
            data[name] = backend.active.from_numpy(values)

    def _samples(self, path: Path) -> Iterator[tuple[str, Entity | None, str]]:
        """Yield where a line of a split is, its node and its class, for all but the header."""
        for line, where in lines_of(path, 1):
            try:
                iri, label = self._sample(line.strip().split("\t"))
                entity = self._entity(Term(IRI, iri))
            except (IndexError, ValueError):
                raise DGLError(f"{where} is not a node and its class: {line[:60]!r}") from None
            yield where, entity, label


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in (".nt", ".n3"))


class _Published(RDFGraphDataset):
    """Base of the four published graphs, constructed without a name."""

    _archive: str
    _category: str

    def __init__(
        self,
        print_every: int = 10000,
        insert_reverse: bool = True,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = True,
        transform: Transform = None,
    ) -> None:
        super().__init__(
            self._archive, f"{SITE}/rdf/{self._archive}.zip", self._category,
            print_every, insert_reverse, raw_dir, force_reload, verbose, transform,
        )  # fmt: skip


class AIFBDataset(_Published):
    """AIFB: persons of an institute by research group; 7,262 nodes, 48,810 edges with reversed ones, 4 classes.

    ``predict_category`` is ``"Personen"``; 140 persons train, 36 test. Literals are nodes of type ``"_Literal"``.
    Parameters and features are those of :class:`RDFGraphDataset`.
    """

    _archive, _category = "aifb-hetero", "Personen"
    _left_out = ("http://swrc.ontoware.org/ontology#employs", "http://swrc.ontoware.org/ontology#affiliation")

    def _entity(self, term: Term) -> Entity | None:
        if term.kind == LITERAL:
            return "_Literal", term.text
        if term.kind == BLANK or not term.text.startswith("http://www.aifb.uni-karlsruhe.de/"):
            return None
        parts = term.text.split("/")
        return parts[3], parts[5]

    def _relation(self, term: Term) -> str | None:
        if term.text in self._left_out:
            return None
        parts = term.text.split("/")
        return parts[3] if term.text.startswith("http://swrc.ontoware.org/") else parts[-1]


class MUTAGDataset(_Published):
    """MUTAG: molecules, atoms and bonds; 27,163 nodes, 148,100 edges with reversed ones, 2 classes.

    ``predict_category`` is ``"d"``, a molecule; 272 train, 68 test. Literals are nodes of type ``"_Literal"``,
    classes of the ontology of type ``"SCHEMA"``. Parameters and features are those of :class:`RDFGraphDataset`.
    """

    _archive, _category = "mutag-hetero", "d"
    _space = "http://dl-learner.org/carcinogenesis#"

    def _entity(self, term: Term) -> Entity | None:
        if term.kind == LITERAL:
            return "_Literal", term.text
        if term.kind == BLANK or not term.text.startswith(self._space):
            return None
        name = term.text.removeprefix(self._space)
        kind = re.match(r"(d|bond)[0-9]", name)
        return kind[1] if kind else "", name

    def _relation(self, term: Term) -> str | None:
        if term.text == f"{self._space}isMutagenic":
            return None
        inside = term.text.startswith(self._space)
        return term.text.removeprefix(self._space) if inside else term.text.split("/")[-1]

    def _edge(self, statement: Statement) -> Edge | None:
        edge = super()._edge(statement)
        if edge is None:
            return None
        (kind, name), relation, (other_kind, other) = edge
        if not statement[1].text.startswith(self._space):
            return (kind or "SCHEMA", name), relation, ("SCHEMA", other)
        if not kind:
            raise ValueError("a statement about neither a molecule nor a bond")
        return (kind, name), relation, (other_kind or relation, other)


class BGSDataset(_Published):
    """BGS: rocks of Britain; 94,806 nodes, 672,884 edges with reversed ones, 2 classes.

    ``predict_category`` is ``"Lexicon/NamedRockUnit"``; 117 train, 29 test. Literals, and which terms are current, are
    left out. Parameters and features are those of :class:`RDFGraphDataset`.
    """

    _archive, _category = "bgs-hetero", "Lexicon/NamedRockUnit"

    def _entity(self, term: Term) -> Entity | None:
        parts = term.text.split("/")
        if term.kind != IRI or not term.text.startswith("http://data.bgs.ac.uk/") or len(parts) != 7:
            return None
        if term.text.startswith("http://data.bgs.ac.uk/ref/CurrentStatus"):
            return None
        return f"{parts[4]}/{parts[5]}", parts[6]

    def _relation(self, term: Term) -> str | None:
        if term.text == "http://data.bgs.ac.uk/ref/Lexicon/hasLithogenesis":
            return None
        if not term.text.startswith("http://data.bgs.ac.uk/ref"):
            return term.text.replace(".", "_")
        parts = term.text.split("/")
        if len(parts) > 6:
            raise ValueError("a relation below others")
        return f"{parts[4]}/{parts[5]}" if len(parts) == 6 else None

    def _sample(self, cells: list[str]) -> tuple[str, str]:
        _, rock, label = cells
        return rock, label


class AMDataset(_Published):
    """AM: artefacts of the Amsterdam Museum; 881,680 nodes, 5,668,682 edges with reversed ones, 11 classes.

    ``predict_category`` is ``"proxy"``; 802 train, 198 test. Literals are left out; blank nodes are of type
    ``"_BNode"``, ordered by their labels in the file. Parameters and features are those of :class:`RDFGraphDataset`.
    """

    _archive, _category = "am-hetero", "proxy"
    _space = "http://purl.org/collections/nl/am/"

    def _entity(self, term: Term) -> Entity | None:
        if term.kind == BLANK:
            return "_BNode", term.text
        if term.kind == LITERAL or not term.text.startswith(self._space):
            return None
        kind, *rest = self._local(term).split("-")
        return (kind, rest[0]) if len(rest) == 1 else ("TYPE", "-".join([kind, *rest]))

    def _relation(self, term: Term) -> str | None:
        if term.text in (f"{self._space}objectCategory", f"{self._space}material"):
            return None
        return self._local(term) if term.text.startswith(self._space) else term.text.replace(".", "_")

    def _local(self, term: Term) -> str:
        name = term.text.removeprefix(self._space)
        if "/" in name:
            raise ValueError("a name below others")
        return name
