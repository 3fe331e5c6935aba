"""Sentences of WikiNER with named-entity tags: the small part that DyNet's benchmarks use.

Nothman et al., "Learning multilingual named entity recognition from Wikipedia", 2013.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ..backend import Tensor, active
from ..errors import DGLError
from .dataset import Folder, fetch
from .published import PublishedDataset
from .raw import lines_of

_URL = "https://raw.githubusercontent.com/neulab/dynet-benchmark/master/data/tags/dev.txt"
_SHA256 = "bbbf63da9cc22d347c1c1d72ef35b5fde2fa3ece9c2c048b16dc4285e763e553"


class Sentence(NamedTuple):
    """Numbers of words and of their tags, int64, (length,) each."""

    words: Tensor
    tags: Tensor


class WikiNERDataset(PublishedDataset):
    """1,696 sentences of Wikipedia, each word with one of the tags O, I-PER, I-LOC, I-ORG and I-MISC.

    ``dataset[i]`` is a :class:`Sentence`. ``vocabulary`` and ``tags`` list the words and tags by number; word 0 is for
    all words that occur less than ``min_count`` times. ``spellings[i]`` lists the words of sentence i as written.

    Parameters
    ----------
    raw_dir
        Folder that has ``dev.txt`` (a sentence per line, ``word|tag word|tag ...``), itself or in ``wikiner/``, or
        receives it.
    min_count
        How often a word must occur to have a number of its own.
    verbose
        Print the counts.
    """

    _published, _files, _subfolders = ("wikiner", None), ("dev.txt",), (".", "{self.name}")
    _home = 1
    unknown = "<unknown>"

    def __init__(
        self, raw_dir: Folder = None, min_count: int = 2, force_reload: bool = False, verbose: bool = False
    ) -> None:
        self.min_count = min_count
        super().__init__(raw_dir, force_reload, verbose)

    @property
    def raw_path(self) -> str:
        """The folder that has the file, else the folder for downloads."""
        return str(self._folder)

    def _fetch(self) -> None:
        fetch(_URL, self.raw_path, _SHA256)

    def process(self) -> None:
        """Read the sentences and number words and tags in the order in which they occur."""
        sentences = read_tagged(self._paths[0])
        counts = Counter(word for sentence in sentences for word, _ in sentence)
        frequent = [word for word, count in counts.items() if count >= self.min_count]
        self.vocabulary = [self.unknown, *frequent]
        self.spellings = [[word for word, _ in sentence] for sentence in sentences]
        self.tags = list(dict.fromkeys(tag for sentence in sentences for _, tag in sentence))
        word_of = {word: number for number, word in enumerate(self.vocabulary)}
        tag_of = {tag: number for number, tag in enumerate(self.tags)}
        self._sentences = [
            Sentence(
                active.asarray([word_of.get(word, 0) for word, _ in sentence], "int64"),
                active.asarray([tag_of[tag] for _, tag in sentence], "int64"),
            )
            for sentence in sentences
        ]
        if self.verbose:
            print(f"wikiner: {len(self)} sentences, {len(self.vocabulary)} words, {len(self.tags)} tags")

    def __getitem__(self, index: int) -> Sentence:
        return self._sentences[index]

    def __len__(self) -> int:
        return len(self._sentences)


def read_tagged(path: Path) -> list[list[tuple[str, str]]]:
    """Read a sentence per line as (word, tag) pairs; empty lines are left out, and words may contain ``|``."""
    sentences = []
    for line, where in lines_of(path):
        pairs = [token.rsplit("|", 1) for token in line.split()]
        wrong = next((pair[0] for pair in pairs if len(pair) != 2), None)
        if wrong is not None:
            raise DGLError(f"{where} has {wrong!r}; expected word|tag, separated by blanks")
        if pairs:
            sentences.append([(word, tag) for word, tag in pairs])
    if not sentences:
        raise DGLError(f"{path} has no sentences; expected one per line, word|tag word|tag ...")
    return sentences
