"""Ratings of films: Harper and Konstan, "The MovieLens datasets: history and context", 2015."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import final

import numpy as np

from ..convert import heterograph
from ..errors import DGLError
from ..structure.distinct import contains, distinct
from .dataset import Folder, Transform
from .published import SITE, OneGraph
from .raw import float_tensor
from .splits import mask_at, split_dataset

_GENRES = (
    "unknown Action Adventure Animation Children Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical "
    "Mystery Romance Sci-Fi Thriller War Western IMAX"
).split()
_GENRES_OF = {"ml-100k": _GENRES[:-1], "ml-1m": _GENRES[1:-1], "ml-10m": _GENRES}
_FILES = {
    "ml-100k": ("u1.base", "u1.test", "u.user", "u.item"),
    "ml-1m": ("ratings.dat", "users.dat", "movies.dat"),
    "ml-10m": ("ratings.dat", "movies.dat"),
}
Ratings = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Ids of users and of films as in the files, and ratings."""


@final
class MovieLensDataset(OneGraph):
    """Users who rate films from 0.5 or 1 to 5: 100,000, 1 million or 10 million ratings.

    The graph has the edge types ``user-movie`` and ``movie-user``, the same ratings both ways, with ``rate`` (float32)
    and ``train_mask``, ``valid_mask`` and ``test_mask``. Users' ``feat`` is age / 50, whether female, and the
    occupation in one of as many columns as there are (of ml-10m, which has no user data, a 0); films' ``feat``
    is the genres: DGL puts vectors of the titles' words before them.
    Users and films without ratings are left out; others are numbered as in their files.

    Raises DGLError: the name is not known or a ratio is not between 0 and 1; a file is missing and not to be had,
    damaged, or a rating is of a user or film that its file does not have.

    Parameters
    ----------
    name
        ``"ml-100k"``, ``"ml-1m"`` or ``"ml-10m"``.
    valid_ratio, test_ratio
        Fractions of ratings to validate on and to test on. Those to test ml-100k on are published (``u1.test``);
        ``valid_ratio`` is then of the others.
    raw_dir
        Folder that has the files, itself or in ``<name>/``, or receives them.
    random_state
        Seed of the split.
    """

    def __init__(
        self,
        name: str,
        valid_ratio: float,
        test_ratio: float | None = None,
        raw_dir: Folder = None,
        force_reload: bool | None = None,
        verbose: bool | None = None,
        transform: Transform = None,
        random_state: int = 0,
    ) -> None:
        if name not in _FILES:
            raise DGLError(f"name is {name!r}; expected one of {', '.join(_FILES)}")
        ratios = [valid_ratio] if name == "ml-100k" else [valid_ratio, test_ratio]
        if any(ratio is None or not 0 < ratio < 1 for ratio in ratios) or sum(r for r in ratios if r) >= 1:
            raise DGLError(
                f"valid_ratio={valid_ratio} and test_ratio={test_ratio}: expected fractions between 0 and 1 whose sum "
                "is below 1; ml-100k takes valid_ratio alone"
            )
        self.valid_ratio, self.test_ratio, self.random_state = valid_ratio, test_ratio, random_state
        self._published, self._options = (name, f"{SITE}/{name}.zip"), (name, valid_ratio, test_ratio, random_state)
        self._files = _FILES[name]
        super().__init__(raw_dir, bool(force_reload), bool(verbose), transform)

    def process(self) -> None:
        """Read the files."""
        (users, films, rates), parts = self._split()
        user_ids, user_feats = self._users(users)
        film_ids, film_feats = self._films()
        has_film = contains(films, film_ids)
        src = _positions(users, user_ids, self._paths[-2], "user")
        dst = _positions(films, film_ids[has_film], self._paths[-1], "film")
        g = heterograph(
            {("user", "user-movie", "movie"): (src, dst), ("movie", "movie-user", "user"): (dst, src)},
            {"user": len(user_ids), "movie": int(has_film.sum())},
        )
        g.nodes["user"].data["feat"] = float_tensor(user_feats)
        g.nodes["movie"].data["feat"] = float_tensor(film_feats[has_film])
        for etype in ("user-movie", "movie-user"):
            g.edges[etype].data["rate"] = float_tensor(rates)
            for part, ids in parts.items():
                g.edges[etype].data[f"{part}_mask"] = mask_at(ids, len(rates))
        self._graph = g

    def _split(self) -> tuple[Ratings, dict[str, np.ndarray]]:
        """Return the ratings, and which are to train, validate and test on."""
        if self.name == "ml-100k":
            train, test = (_ratings(path, "\t") for path in self._paths[:2])
            fractions = [1 - self.valid_ratio, self.valid_ratio, 0.0]
        else:
            assert self.test_ratio is not None
            train, test = _ratings(self._folder / "ratings.dat", "::"), None
            fractions = [1 - self.valid_ratio - self.test_ratio, self.valid_ratio, self.test_ratio]
        count = len(train[0])
        subsets = split_dataset(np.arange(count), fractions, True, self.random_state)
        parts = {
            part: np.asarray(subset.indices) for part, subset in zip(("train", "valid", "test"), subsets, strict=True)
        }
        if test is None:
            return train, parts
        order = np.concatenate([parts["train"], parts["valid"], parts["test"]])  # DGL's graph has training edges first
        users, films, rates = (
            np.concatenate([column[order], other]) for column, other in zip(train, test, strict=True)
        )
        first, last = len(parts["train"]), count
        ranges = {"train": np.arange(first), "valid": np.arange(first, last), "test": np.arange(last, len(users))}
        return (users, films, rates), ranges

    def _users(self, rated: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids and features of the users who have rated something."""
        if self.name == "ml-10m":
            ids = distinct(rated)
            return ids, np.zeros((len(ids), 1), np.float32)
        name, between, age, gender = ("u.user", "|", 1, 2) if self.name == "ml-100k" else ("users.dat", "::", 2, 1)
        path, missing_ids = self._folder / name, set(rated.tolist())
        rows = [row for row in _rows(path, between, 5) if _number(row[0], path) in missing_ids]
        occupations = {occupation: i for i, occupation in enumerate(sorted({row[3] for row in rows}))}
        feats = np.zeros((len(rows), 2 + len(occupations)), np.float32)
        for i, row in enumerate(rows):
            feats[i, 0], feats[i, 1] = _number(row[age], path) / 50, row[gender] == "F"
            feats[i, 2 + occupations[row[3]]] = 1
        return np.array([int(row[0]) for row in rows], np.int64), feats

    def _films(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids and genres of all films."""
        genres = _GENRES_OF[self.name]
        if self.name == "ml-100k":
            path = self._folder / "u.item"
            rows = list(_rows(path, "|", 5 + len(genres)))
            feats = np.array([[_number(x, path) for x in row[5:]] for row in rows], np.float32)
        else:
            path = self._folder / "movies.dat"
            rows = list(_rows(path, "::", 3))
            column = {name: i for i, name in enumerate(genres)}
            column |= {"Children's": column["Children"], "Childrens": column["Children"]}
            feats = np.zeros((len(rows), len(genres)), np.float32)
            for i, row in enumerate(rows):
                for name in row[2].split("|"):
                    if name not in column and "unknown" not in column:
                        raise DGLError(
                            f"film {row[0]} of {path} is of the genre {name!r}; expected {', '.join(genres)}"
                        )
                    feats[i, column.get(name, 0)] = 1
        return np.array([_number(row[0], path) for row in rows], np.int64), feats.reshape(-1, len(genres))


def _rows(path: Path, between: str, columns: int) -> Iterator[list[str]]:
    """Yield the cells of each line."""
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
        row = line.split(between)
        if len(row) != columns:
            raise DGLError(f"line {number} of {path} has {len(row)} columns between {between!r}; expected {columns}")
        yield row


def _number(cell: str, path: Path) -> int:
    try:
        return int(cell)
    except ValueError:
        raise DGLError(f"{path} has {cell!r} where an integer is expected") from None


def _ratings(path: Path, between: str) -> Ratings:
    """Return a file of ratings."""
    text = path.read_text(encoding="latin-1").replace(between, " ")
    try:
        table = np.loadtxt(text.splitlines(), np.float64, ndmin=2)
    except ValueError as error:
        raise DGLError(f"{path} is not a table of user, film, rating and time between {between!r}: {error}") from error
    if table.shape[1:] != (4,):
        raise DGLError(f"{path} has {table.shape[1]} columns; expected user, film, rating and time")
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def _positions(ids: np.ndarray, listed: np.ndarray, path: Path, kind: str) -> np.ndarray:
    """Return the position of each id among the listed ids of a file."""
    order = np.argsort(listed, kind="stable")
    positions = np.searchsorted(listed, ids, sorter=order)
    places: np.ndarray = order[np.minimum(positions, len(listed) - 1)] if len(listed) else np.zeros(len(ids), np.int64)
    if len(ids) and (not len(listed) or (listed[places] != ids).any()):
        stranger = next(x for x in ids.tolist() if x not in set(listed.tolist()))
        raise DGLError(f"{path} has no {kind} {stranger}, of whom there is a rating; it is cut short, or another file")
    return places
