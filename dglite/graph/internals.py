"""Private attributes of DGL's graphs that code for DGL reads all the same, computed when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any


def _canonical_by_name(g: Any) -> dict[str, tuple[str, ...]]:
    """Return the canonical edge type of each name, ``()`` where relations share it."""
    counts = Counter(name for _, name, _ in g.canonical_etypes)
    return {etype[1]: etype if counts[etype[1]] == 1 else () for etype in g.canonical_etypes}


INTERNALS: dict[str, Callable[[Any], Any]] = {
    "_canonical_etypes": lambda g: g.canonical_etypes,
    "_dsttypes_invmap": lambda g: {ntype: g.get_ntype_id_from_dst(ntype) for ntype in g.dsttypes},
    "_etype2canonical": _canonical_by_name,
    "_etypes": lambda g: g.etypes,
    "_etypes_invmap": lambda g: {etype: i for i, etype in enumerate(g.canonical_etypes)},
    "_graph": lambda g: g,  # the structure, which functions of dgl.backend and dgl.ops take
    "_idtype_str": lambda g: str(g.idtype).removeprefix("torch."),
    "_is_unibipartite": lambda g: g.is_unibipartite,
    "_ntypes": lambda g: g.ntypes,
    "_srctypes_invmap": lambda g: {ntype: g.get_ntype_id_from_src(ntype) for ntype in g.srctypes},
}
