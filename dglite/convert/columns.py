"""Which columns of a table hold ids, by name or by place."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DGLError

ENDS = (("src", "dst"), ("source", "target"), ("src_id", "dst_id"), ("u", "v"), ("from", "to"), ("head", "tail"))
"""Names of the two columns of ids that are tried, in order, before the first two columns are taken."""
ID = ("id", "node_id", "node", "name", "index")
"""Names of the column of ids of nodes that are tried, in order, before the first column is taken."""


def usual_ends(names: Sequence[str]) -> tuple[str, ...]:
    """Return the usual names of the two columns of ids that a table of edges has, none if it has no such pair."""
    return next((pair for pair in ENDS if {*pair} <= {*names}), ())


def column_of_ids(
    table: str, names: Sequence[str], name: str | None, usual: Sequence[str], argument: str, position: int
) -> str:
    """Return the name of a column that a user names, or that has a usual name, else the one at a position.

    ``names`` are all columns; ``table`` and ``argument`` are how errors call the table and where ``name`` came from.
    """
    if name is not None:
        if name not in names:
            raise DGLError(f"{table}: {argument}={name!r} is no column; there are {list(names)}")
        return name
    present = [column for column in usual if column in names]
    if not present and len(names) <= position:
        raise DGLError(
            f"{table} has the columns {list(names)}; expected {position + 1} or more, or name it: {argument}="
        )
    return str(present[0]) if present else str(names[position])
