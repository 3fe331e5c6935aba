"""Published facts about OGB's data sets: addresses, file names and metrics."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import DGLError

_SITE = "https://snap.stanford.edu/ogb/data"
_TASKS = {"ogbn": "nodeproppred", "ogbl": "linkproppred", "ogbg": "graphproppred"}


class Facts(NamedTuple):
    """One set. Counts are those of its labels; ``num_classes`` is -1 where these are no classes."""

    archive: str
    split: str
    metric: str
    task: str
    num_tasks: int = 1
    num_classes: int = -1
    inverse: bool = False
    """Whether each line of the edges means both directions."""
    node_files: tuple[str, ...] = ()
    edge_files: tuple[str, ...] = ()
    hetero: bool = False
    binary: bool = False
    """Whether the graph is one ``.npz`` file."""


_MULTI, _BINARY, _REAL = "multiclass classification", "binary classification", "regression"
_LINK, _KG = "link prediction", "KG completion"
_NODES = {
    "ogbn-proteins": Facts("proteins", "species", "rocauc", _BINARY, 112, 2, True, ("node_species",)),
    "ogbn-products": Facts("products", "sales_ranking", "acc", _MULTI, 1, 47, True),
    "ogbn-arxiv": Facts("arxiv", "time", "acc", _MULTI, 1, 40, False, ("node_year",)),
    "ogbn-mag": Facts("mag", "time", "acc", _MULTI, 1, 349, False, ("node_year",), ("edge_reltype",), hetero=True),
    "ogbn-papers100M": Facts("papers100M-bin", "time", "acc", _MULTI, 1, 172, False, ("node_year",), binary=True),
}
_LINKS = {
    "ogbl-ppa": Facts("ppassoc", "throughput", "hits@100", _LINK, inverse=True),
    "ogbl-collab": Facts("collab", "time", "hits@50", _LINK, inverse=True, edge_files=("edge_weight", "edge_year")),
    "ogbl-ddi": Facts("ddi", "target", "hits@20", _LINK, inverse=True),
    "ogbl-citation2": Facts("citation-v2", "time", "mrr", _LINK, node_files=("node_year",)),
    "ogbl-wikikg2": Facts("wikikg-v2", "time", "mrr", _KG, edge_files=("edge_reltype",)),
    "ogbl-biokg": Facts("biokg", "random", "mrr", _KG, edge_files=("edge_reltype",), hetero=True),
    "ogbl-vessel": Facts("vessel", "spatial", "rocauc", _LINK, binary=True),
}


def _molecules(archive: str, metric: str, num_tasks: int = 1) -> Facts:
    real = metric == "rmse"
    return Facts(archive, "scaffold", metric, _REAL if real else _BINARY, num_tasks, -1 if real else 2, True)


_GRAPHS = {
    "ogbg-molbace": _molecules("bace", "rocauc"),
    "ogbg-molbbbp": _molecules("bbbp", "rocauc"),
    "ogbg-molclintox": _molecules("clintox", "rocauc", 2),
    "ogbg-molmuv": _molecules("muv", "ap", 17),
    "ogbg-molpcba": _molecules("pcba", "ap", 128),
    "ogbg-molsider": _molecules("sider", "rocauc", 27),
    "ogbg-moltox21": _molecules("tox21", "rocauc", 12),
    "ogbg-moltoxcast": _molecules("toxcast", "rocauc", 617),
    "ogbg-molhiv": _molecules("hiv", "rocauc"),
    "ogbg-molesol": _molecules("esol", "rmse"),
    "ogbg-molfreesolv": _molecules("freesolv", "rmse"),
    "ogbg-mollipo": _molecules("lipophilicity", "rmse"),
    "ogbg-molchembl": _molecules("chembl", "rocauc", 1310),
    "ogbg-ppa": Facts("ogbg_ppi_medium", "species", "acc", _MULTI, 1, 37, True),
    "ogbg-code2": Facts(
        "code2", "project", "F1", "subtoken prediction",
        node_files=("node_is_attributed", "node_dfs_order", "node_depth"),
    ),
}  # fmt: skip
_ALL = {"ogbn": _NODES, "ogbl": _LINKS, "ogbg": _GRAPHS}


def facts_of(name: str, kind: str = "") -> Facts:
    """Return the published facts of a set, by OGB's name; ``kind`` limits them to ``"ogbn"``, ``"ogbl"`` or ``"ogbg"``.

    Raises ``DGLError``: there is no set of that name.
    """
    by_name = {name: facts for each, sets in _ALL.items() if kind in ("", each) for name, facts in sets.items()}
    if name not in by_name:
        raise DGLError(f"{name!r} is not a known set of OGB; expected one of {', '.join(by_name)}")
    return by_name[name]


def url_of(name: str) -> str:
    """Return the address of a set's archive."""
    facts = facts_of(name)
    folder = _TASKS[name[:4]] + ("/csv_mol_download" if name.startswith("ogbg-mol") else "")
    return f"{_SITE}/{folder}/{facts.archive}.zip"
