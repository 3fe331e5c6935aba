"""The Stanford Sentiment Treebank: sentences as binary trees of phrases, each phrase with a sentiment from 0 to 4.

Socher et al., "Recursive deep models for semantic compositionality over a sentiment treebank", 2013.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import backend
from ..convert import graph
from ..errors import DGLError
from .dataset import DGLDataset, fetch

__all__ = ["SSTDataset"]

_URL = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
_SENTENCES = {"train": 8544, "dev": 1101, "test": 2210}
"""The published numbers of sentences, to which a download is held."""
_TOKEN = re.compile(r"\(\s*(\d+)|(\))|([^\s()]+)")


class Trees(NamedTuple):
    """All trees of a file: nodes in preorder, tree i has nodes ``offsets[i]`` to ``offsets[i + 1]``.

    ``parents`` count from the tree's first node, -1 for its root; ``words`` are -1 where a node is no word.
    """

    offsets: np.ndarray
    parents: np.ndarray
    labels: np.ndarray
    words: np.ndarray


class SSTDataset(DGLDataset):
    """Sentences of the Stanford Sentiment Treebank as trees, with DGL's conventions.

    A tree is a graph whose edges lead from child to parent, the left child's first; node 0 is the root. It has
    ``ndata['x']`` (int64, the word, ``PAD_WORD`` at inner nodes, ``UNK_WORD`` for words that the training part does not
    have), ``ndata['y']`` (int64, the sentiment: 0 very negative, 2 neutral, 4 very positive) and ``ndata['mask']``
    (int64, 1 at words).

    Parameters
    ----------
    mode
        ``"train"``, ``"dev"`` or ``"test"``.
    raw_dir
        Folder that has ``train.txt`` (and ``dev.txt``, ``test.txt``), itself or in ``sst/``, or receives them; default
        ``DGLITE_DATA_DIR`` or the user's data folder. Each line is a tree: ``(3 (2 The) (4 ...))``.
    vocab
        Word to number; default: the words of the training part in the order in which they occur.
    force_reload
        Accepted for DGL's sake; the files are read each time.
    verbose
        Print the counts.
    transform
        Function of a graph, applied each time one is read.
    """

    PAD_WORD = -1
    UNK_WORD = -1
    num_classes = 5

    def __init__(
        self,
        mode: str = "train",
        raw_dir: str | Path | None = None,
        vocab: dict[str, int] | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if mode not in _SENTENCES:
            raise DGLError(f"mode is {mode!r}; expected one of {', '.join(_SENTENCES)}")
        self.mode, self._given_vocab = mode, vocab
        super().__init__("sst", raw_dir=raw_dir, force_reload=force_reload, verbose=verbose, transform=transform)

    @property
    def raw_path(self) -> str:
        """The folder that has the files; where there is none, the one that downloads go to."""
        for folder in (Path(self.raw_dir), Path(self.raw_dir) / "sst"):
            if (folder / f"{self.mode}.txt").is_file():
                return str(folder)
        return str(Path(self.raw_dir) / "sst")

    def has_raw(self) -> bool:
        """Whether the file of this part is there, and the training part's, whose words are the vocabulary."""
        wanted = {self.mode} if self._given_vocab is not None else {self.mode, "train"}
        return all((Path(self.raw_path) / f"{part}.txt").is_file() for part in wanted)

    def download(self) -> None:
        """Fetch and unpack the files."""
        folder = Path(self.raw_path)
        try:
            archive = fetch(_URL, folder)
            with zipfile.ZipFile(archive) as files:
                for part in _SENTENCES:
                    text = files.read(f"trees/{part}.txt")
                    count = text.count(b"\n")
                    if count != _SENTENCES[part]:
                        raise DGLError(f"{part}.txt has {count} sentences, not {_SENTENCES[part]}")
                    (folder / f"{part}.txt").write_bytes(text)
        except (DGLError, KeyError, zipfile.BadZipFile) as error:
            raise DGLError(
                f"the Stanford Sentiment Treebank ({self.mode}.txt) was looked for in {self.raw_dir} and {folder}. "
                f"{error}. Put the files into one of these folders, or name the folder that has them with raw_dir= or "
                "the environment variable DGLITE_DATA_DIR"
            ) from error

    def process(self) -> None:
        """Read the trees."""
        folder = Path(self.raw_path)
        if self._given_vocab is not None:
            self.vocab = dict(self._given_vocab)
        else:
            self.vocab = {}
            trees = read_trees(_lines(folder / "train.txt"), self.vocab, grow=True)
        if self.mode != "train" or self._given_vocab is not None:
            trees = read_trees(_lines(folder / f"{self.mode}.txt"), self.vocab, grow=False)
        self._trees = trees
        if self.verbose:
            print(f"{self.name} {self.mode}: {len(self)} trees of {len(trees.labels)} nodes, {self.vocab_size} words")

    @property
    def vocab_size(self) -> int:
        """How many words the vocabulary has."""
        return len(self.vocab)

    def __len__(self) -> int:
        return len(self._trees.offsets) - 1

    def __getitem__(self, index: int) -> Any:
        """Return tree ``index``; ``IndexError`` where there is none."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"tree {index} of {len(self)}")
        trees = self._trees
        first, last = trees.offsets[index % len(self) : index % len(self) + 2]
        parents = trees.parents[first:last]
        children = np.flatnonzero(parents >= 0)
        order = np.argsort(parents[children], kind="stable")
        children = children[order]
        made = graph((children, parents[children]), num_nodes=int(last - first))
        words = trees.words[first:last]
        for name, values in (("x", words), ("y", trees.labels[first:last]), ("mask", words != self.PAD_WORD)):
            made.ndata[name] = backend.active.from_numpy(values.astype(np.int64))
        return made if self._transform is None else self._transform(made)


def _lines(path: Path) -> Iterable[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def read_trees(lines: Iterable[str], vocab: dict[str, int], grow: bool) -> Trees:
    """Read one tree per line; empty lines are passed over. ``grow`` adds unknown words to ``vocab``.

    Raises
    ------
    DGLError
        A line is no tree; it is named.
    """
    offsets, parents, labels, words = [0], list[int](), list[int](), list[int]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        start, path, trees_seen = len(labels), list[int](), 0
        for label, closing, word in _TOKEN.findall(line):
            if label:
                trees_seen += not path
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
                known = vocab.setdefault(word, len(vocab)) if grow else vocab.get(word, SSTDataset.UNK_WORD)
                words[start + path[-1]] = known
        if path or trees_seen != 1:
            raise DGLError(f"line {number} is not one tree such as (3 (2 It) (4 works)): {line.strip()[:60]!r}")
        offsets.append(len(labels))
    columns = (np.array(values, np.int64) for values in (parents, labels, words))
    return Trees(np.array(offsets, np.int64), *columns)
