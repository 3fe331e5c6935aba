"""When a table with a place for every id pays, and when ids are so few that they are hashed or sorted."""

from __future__ import annotations

DENSE_RATIO = 8
"""Maximum number of table entries per id in use: clearing more takes longer than hashing the ids."""

SHORT_TABLE = 1 << 13
"""Size up to which a table is always used: clearing it takes a microsecond."""


def few_among(number: int, count: int) -> bool:
    """Whether ``number`` ids, edges or rows are few among ``count`` possible ids: hash or sort, make no table."""
    return count > SHORT_TABLE and count > DENSE_RATIO * number
