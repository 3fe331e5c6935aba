"""The Stanford Sentiment Treebank: sentences as binary trees of phrases, each phrase with a sentiment from 0 to 4.

Socher et al., "Recursive deep models for semantic compositionality over a sentiment treebank", 2013.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from array import array
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import backend
from ..backend import Tensor
from ..convert import graph
from ..errors import DGLError
from ..io.atomic import replacing
from .dataset import Folder, GraphsMadeWhenRead, Transform, fetch, text_of
from .published import PublishedDataset

_URL = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
_SENTENCES = {"train": 8544, "dev": 1101, "test": 2210}
"""The published numbers of sentences, to which a download is held."""
_TINY = 100
_TOKEN = re.compile(r"\(\s*(\d+)|(\))|([^\s()]+)")


class Trees(NamedTuple):
    """All trees of a file: nodes in preorder, tree i has nodes ``offsets[i]`` to ``offsets[i + 1]``.

    ``parents`` count from the tree's first node, -1 for its root; ``words`` are -1 where a node is no word.
    """

    offsets: np.ndarray
    parents: np.ndarray
    labels: np.ndarray
    words: np.ndarray


class SSTDataset(GraphsMadeWhenRead, PublishedDataset):
    """Sentences of the Stanford Sentiment Treebank as trees, with DGL's conventions.

    A tree is a graph whose edges lead from child to parent, the left child's first; node 0 is the root. It has
    ``ndata['x']`` (int64, the word, ``PAD_WORD`` at inner nodes, ``UNK_WORD`` for words that the training part does not
    have), ``ndata['y']`` (int64, the sentiment: 0 very negative, 2 neutral, 4 very positive) and ``ndata['mask']``
    (int64, 1 at words).

    Parameters
    ----------
    mode
        ``"train"``, ``"dev"``, ``"test"``, or ``"tiny"``: the trees of ``tiny.txt`` if the folder has it, else the
        first 100 of the training part.
    glove_embed_file
        Text file of word vectors: a word and its numbers per line, separated by blanks. ``pretrained_emb`` has those of
        the vocabulary, and random ones for words that the file does not have. Read for ``"train"`` only.
    vocab_file
        Text file of the vocabulary: a word per line, in lower case; the words of sentences are looked up so.
    raw_dir
        Folder that has ``train.txt`` (and ``dev.txt``, ``test.txt``), itself or in ``sst/``, or receives them. Each
        line is a tree: ``(3 (2 The) (4 ...))``.
    verbose
        Print the counts.
    vocab
        Word to number; default: the words of the training part in the order in which they occur.

    Attributes
    ----------
    pretrained_emb
        The vectors of the words, ``(vocab_size, size)``, float64; None without ``glove_embed_file``.
    """

    _published, _subfolders, _home = ("sst", None), (".", "{self.name}"), 1
    PAD_WORD = -1
    UNK_WORD = -1
    num_classes = 5

    def __init__(
        self,
        mode: str = "train",
        glove_embed_file: str | Path | None = None,
        vocab_file: str | Path | None = None,
        raw_dir: Folder = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Transform = None,
        vocab: dict[str, int] | None = None,
    ) -> None:
        if mode not in (*_SENTENCES, "tiny"):
            raise DGLError(f"mode is {mode!r}; expected one of {', '.join(_SENTENCES)}, tiny")
        self.mode, self._lower = mode, vocab_file is not None
        self._given_vocab = read_vocabulary(Path(vocab_file)) if vocab_file is not None else vocab
        self._glove_file = glove_embed_file if mode == "train" else None
        super().__init__(raw_dir, force_reload, verbose, transform)

    @property
    def raw_path(self) -> str:
        """The folder that has the files, else the folder for downloads."""
        return str(self._folder)

    def _part(self, folder: Path) -> str:
        """Return the part of the treebank that the trees are in."""
        return "train" if self.mode == "tiny" and not (folder / "tiny.txt").is_file() else self.mode

    def _missing(self, folder: Path) -> list[str]:
        """Return which files there are not: of this part, and of the training part, whose words are the vocabulary."""
        parts = {self._part(folder): None} | ({} if self._given_vocab is not None else {"train": None})
        return [f"{part}.txt" for part in parts if not (folder / f"{part}.txt").is_file()]

    def _fetch(self) -> None:
        folder = self._folder
        try:
            with zipfile.ZipFile(fetch(_URL, folder)) as files:
                for part in _SENTENCES:
                    text = files.read(f"trees/{part}.txt")
                    count = text.count(b"\n")
                    if count != _SENTENCES[part]:
                        raise DGLError(f"{part}.txt has {count} sentences, not {_SENTENCES[part]}")
                    with replacing(folder / f"{part}.txt") as temporary:
                        temporary.write_bytes(text)
        except (KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DGLError(f"{_URL} is not as published: {error}") from error

    def process(self) -> None:
        """Read the trees."""
        if self._given_vocab is not None:
            self.vocab = dict(self._given_vocab)
        else:
            self.vocab = {}
            trees = self._read("train", grow=True)
        if self.mode != "train" or self._given_vocab is not None:
            trees = self._read(self._part(self._folder), grow=False)
        self._trees = trees
        self.pretrained_emb = None if self._glove_file is None else self._word_vectors(Path(self._glove_file))
        if self.verbose:
            print(f"{self.name} {self.mode}: {len(self)} trees of {len(trees.labels)} nodes, {self.vocab_size} words")

    def _word_vectors(self, path: Path) -> Tensor:
        lower = {word.lower() for word in self.vocab}
        by_word: dict[str, np.ndarray] = {}
        size = None
        for number, line in enumerate(_lines(path), 1):
            size = line.count(" ") if size is None else size
            word, *numbers = line.rstrip().rsplit(" ", size)  # from the right: some words of GloVe have blanks
            if word.lower() in lower:
                try:
                    by_word[word.lower()] = np.array(numbers, float).reshape(size)
                except ValueError as error:
                    raise DGLError(f"line {number} of {path} is not a word and {size} numbers ({error})") from error
        vectors = np.random.uniform(-0.05, 0.05, (self.vocab_size, size or 300))
        for row, word in enumerate(self.vocab):
            vectors[row] = by_word.get(word.lower(), vectors[row])
        return backend.active.from_numpy(vectors)

    def _read(self, part: str, grow: bool) -> Trees:
        path = self._folder / f"{part}.txt"
        lines: Iterable[str] = _lines(path)
        if not grow:
            lines = islice(filter(str.strip, lines), _TINY) if part != self.mode else lines
            lines = map(str.lower, lines) if self._lower else lines
        try:
            return read_trees(lines, self.vocab, grow)
        except DGLError as error:
            raise DGLError(f"{path} is damaged, or no file of trees: {error}") from error

    @property
    def vocab_size(self) -> int:
        """The number of words in the vocabulary."""
        return len(self.vocab)

    def __len__(self) -> int:
        return len(self._trees.offsets) - 1

    def _graph_at(self, number: int) -> Any:
        trees = self._trees
        first, last = trees.offsets[number : number + 2]
        parents = trees.parents[first:last]
        children = np.flatnonzero(parents >= 0)
        order = np.argsort(parents[children], kind="stable")
        children = children[order]
        g = graph((children, parents[children].astype(np.int64)), num_nodes=int(last - first))
        words = trees.words[first:last]
        for name, values in (("x", words), ("y", trees.labels[first:last]), ("mask", words != self.PAD_WORD)):
            g.ndata[name] = backend.active.from_numpy(values.astype(np.int64))
        return g


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read a word per line, numbered in the order in which they occur first."""
    words = map(str.strip, text_of(path).splitlines())
    return {word: number for number, word in enumerate(dict.fromkeys(words))}


def _lines(path: Path) -> Iterable[str]:
    """Yield the lines of a text, however large; ``DGLError`` names a file that is not text."""
    with path.open(encoding="utf-8") as file:
        try:
            yield from file
        except UnicodeDecodeError as error:
            raise DGLError(f"{path} is damaged, or no text: {error}") from error


def read_trees(lines: Iterable[str], vocab: dict[str, int], grow: bool) -> Trees:
    """Read one tree per line; empty lines are passed over. ``grow`` adds unknown words to ``vocab``.

    Raises ``DGLError``: a line is no tree; it is named.
    """
    offsets, parents, labels, words = array("q", [0]), array("i"), array("i"), array("i")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        start, path, trees_seen = len(labels), list[int](), 0
        for label, closing, word in _TOKEN.findall(line):
            if label:
                trees_seen += 2 if len(label) > 9 else not path
                label = label[:9]
                parents.append(path[-1] if path else -1)
                path.append(len(labels) - start)
                labels.append(int(label))
                words.append(SSTDataset.PAD_WORD)
            elif not path:
                trees_seen = 2
                break
            elif closing:
                path.pop()
            else:
                word_id = vocab.setdefault(word, len(vocab)) if grow else vocab.get(word, SSTDataset.UNK_WORD)
                words[start + path[-1]] = word_id
        if path or trees_seen != 1:
            raise DGLError(f"line {number} is not one tree such as (3 (2 It) (4 works)): {line.strip()[:60]!r}")
        offsets.append(len(labels))
    return Trees(*map(np.asarray, (offsets, parents, labels, words)))
