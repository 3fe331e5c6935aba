"""Write ``dgl_names.md``: what of DGL's public names dglite has, looked up in the code.

``python docs/dgl_names.py`` writes the page; ``--check`` fails where it is out of date. The names, parameters and
defaults of DGL are in ``dgl_names.txt``, which ``list_dgl_names.py`` made; those of GraphBolt, of a later release, in
``dgl_names_graphbolt.txt``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from dglite import compat  # noqa: E402
from dglite.compat.missing import lacking  # noqa: E402

PAGE, NAMES = HERE / "dgl_names.md", (HERE / "dgl_names.txt", HERE / "dgl_names_graphbolt.txt")

SUPPORTED, DIFFERS, NOT_YET, NOT_PLANNED = "supported", "differs", "not yet", "not planned"

MEANING = {
    "dgl.DGLGraph": "takes graph data, as in DGL 0.4; in DGL 2 it takes objects of its C++ library",
    "dgl.DGLHeteroGraph": "DGLGraph, which takes graph data",
    "dgl.data.BA2MotifDataset": "made by the published recipe; DGL downloads one set of graphs",
    "dgl.data.MovieLensDataset": "films' features are genres, without vectors of their titles' words",
    "dgl.data.utils.load_info": "reads what dglite's save_info wrote, not pickles",
    "dgl.data.utils.loadtxt": "without pandas; integers stay integers",
    "dgl.graphbolt.FusedCSCSamplingGraph": "made by fused_csc_sampling_graph or from_dglgraph",
    "dgl.graphbolt.LayerNeighborSampler": "a fan-out is the expected number of a node's edges, without replacement",
    "dgl.graphbolt.OnDiskDataset": "writes only with force_preprocess=True; reads preprocessed files that are newer",
    "dgl.is_libxsmm_enabled": "what use_libxsmm was told; kernels are compiled for the machine",
    "dgl.save_graphs": "writes dglite's own format; load_graphs reads DGL's, too",
    "dgl.sparse.SparseMatrix": "made by from_coo and similar functions only",
    "dgl.udf.EdgeBatch": "cannot be made by user code",
    "dgl.udf.NodeBatch": "cannot be made by user code",
    "dgl.view.HeteroEdgeDataView": "for annotations and isinstance",
    "dgl.view.HeteroNodeDataView": "for annotations and isinstance",
    "dgl.view.HeteroNodeView": "what g.nodes is; graphs make it",
    "dgl.use_libxsmm": "does nothing: kernels are compiled for the machine",
}
"""What is here by name but means something else, or whose parameters do not show what differs."""

HEAD = """# DGL's names in dglite

Which public names of DGL {version}, and of `dgl.graphbolt` {graphbolt}, there are under the same name, for code that
says `import dglite as dgl`, or that [runs under an alias](../README.md). Written by `python docs/dgl_names.py`, which
looks every name up and compares the parameters; a test fails where this page is out of date.

*Supported*: the name is there and takes DGL's parameters, with its defaults. *Differs*: it is there, and the note says
what is different. *Not yet* and *not planned*: using it raises an error that names it, and what to use instead where
there is something.

"""

Parameters = dict[str, tuple[str, str]]
"""By name: the kind (positional, keyword, *, **) and the default, "" for none, "..." for one that has no literal."""


class Name(NamedTuple):
    """A public name of DGL."""

    path: str
    parameters: Parameters | None


class Status(NamedTuple):
    """How a name is here, and a note."""

    kind: str
    note: str


# -- what DGL has ------------------------------------------------------------------------------------------------------
def read_names() -> tuple[list[str], list[str], dict[str, list[Name]]]:
    """Return the version of DGL and of GraphBolt, DGL's modules, and its names by module."""
    versions: list[str] = []
    modules, sections = [], defaultdict(list)
    names: list[str] = []
    for line in (line for path in NAMES for line in path.read_text(encoding="utf-8").splitlines()):
        if line.startswith("# DGL "):
            versions.append(line.removeprefix("# DGL "))
        elif line.startswith("import "):
            modules.append(line.removeprefix("import "))
        elif line.startswith("["):
            names.append(line.strip("[]"))
        elif line:
            path, bracket, rest = line.partition("(")
            sections[names[-1]].append(Name(path, parsed(bracket + rest) if bracket else None))
    return versions, modules, sections


def parsed(signature: str) -> Parameters | None:
    """Return the parameters in a signature's text, None where DGL does not tell."""
    if signature == "(...)":
        return None
    arguments = ast.parse(f"def f{signature}: pass").body[0].args  # type: ignore[attr-defined]
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    parameters = {arg.arg: ("positional", _text(value)) for arg, value in zip(plain, defaults, strict=True)}
    for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters[arg.arg] = ("keyword", _text(value))
    for kind, arg in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if arg is not None:
            parameters[arg.arg] = (kind, "")
    return parameters


def _text(default: ast.expr | None) -> str:
    return "" if default is None else ast.unparse(default)


# -- what dglite has ---------------------------------------------------------------------------------------------------
def status_of(name: Name) -> Status:
    """Look a name up and compare its parameters."""
    try:
        value = resolved(name.path)
    except (AttributeError, ImportError):
        planned, why = lacking(name.path)
        return Status(NOT_YET if planned else NOT_PLANNED, why)
    if name.path in MEANING:
        return Status(DIFFERS, MEANING[name.path])
    if name.parameters is None or not callable(value):
        return Status(SUPPORTED, "")
    ours = parameters_of(value, inspect.isclass(resolved(name.path.rpartition(".")[0])))
    notes = "" if ours is None else "; ".join(differences(name.parameters, ours))
    return Status(DIFFERS, notes) if notes else Status(SUPPORTED, "")


def resolved(path: str) -> Any:
    """Return what a dotted name means under the alias."""
    package, _, name = path.rpartition(".")
    if not package:
        return importlib.import_module(path)
    owner = resolved(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(owner, name)


def parameters_of(value: Any, is_method: bool) -> Parameters | None:
    """Return the parameters of something that can be called, but for the first of a method; None if Python can't."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None
    if is_method and inspect.isfunction(value):
        parameters = parameters[1:]
    kinds = {inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_POSITIONAL: "*"}
    kinds[inspect.Parameter.VAR_KEYWORD] = "**"
    return {
        p.name: (kinds.get(p.kind, "positional"), "" if p.default is p.empty else _literal(p.default))
        for p in parameters
    }


def _literal(default: Any) -> str:
    try:
        ast.literal_eval(repr(default))
    except (SyntaxError, ValueError):
        return "..."
    return repr(default)


def differences(theirs: Parameters, ours: Parameters) -> Iterator[str]:
    """Say what calls that DGL takes are not taken, or mean something else."""
    kinds = {kind for kind, _ in ours.values()}
    if "**" in kinds and "*" in kinds:
        return
    if any(kind in ("*", "**") for kind, _ in theirs.values()) and len(theirs) <= 2:
        return
    lacks = [name for name, (kind, _) in theirs.items() if kind in ("positional", "keyword") and name not in ours]
    if "**" not in kinds and lacks:
        yield "no " + ", ".join(f"`{name}`" for name in lacks)
    for name, (_, default) in theirs.items():
        mine = ours.get(name, ("", default))[1]
        if mine != default and not (default == "..." and mine) and not (not default and mine):
            yield f"`{name}={mine}`" if mine else f"`{name}` has no default"
    more = [name for name, (kind, default) in ours.items() if not (name in theirs or default or "*" in kind)]
    if more:
        yield "needs " + ", ".join(f"`{name}`" for name in more)
    if "*" not in kinds and not lacks and not more:
        order = [name for name, (kind, _) in theirs.items() if kind == "positional"]
        places = [name for name, (kind, _) in ours.items() if kind == "positional"]
        if places[: len(order)] != order:
            yield "by position: " + ", ".join(f"`{name}`" for name in places)


# -- the page ----------------------------------------------------------------------------------------------------------
def page() -> str:
    """Return the page."""
    (version, graphbolt), modules, sections = read_names()
    parts = [HEAD.format(version=version, graphbolt=graphbolt)]
    statuses = {section: list(_statuses(names)) for section, names in sections.items()}
    parts.append("| in | names | supported | differs | not yet | not planned |\n|---|---:|---:|---:|---:|---:|\n")
    for section, entries in statuses.items():
        counts = [
            sum(status.kind == kind for _, status in entries) for kind in (SUPPORTED, DIFFERS, NOT_YET, NOT_PLANNED)
        ]
        link = f"[`{section}`](#{section.replace('.', '').lower()})"
        parts.append(f"| {link} | {len(entries)} | {' | '.join(map(str, counts))} |\n")
    for section, entries in statuses.items():
        parts += ["\n", *_section(section, entries)]
    parts += ["\n", *_modules(modules)]
    return "".join(parts)


def _statuses(names: list[Name]) -> Iterator[tuple[Name, Status]]:
    """Yield each name with its status; what lies in a class that is not here goes without saying."""
    lacks: set[str] = set()
    for name in names:
        if name.path.rpartition(".")[0] not in lacks:
            status = status_of(name)
            if status.kind in (NOT_YET, NOT_PLANNED):
                lacks.add(name.path)
            yield name, status


def _section(section: str, entries: list[tuple[Name, Status]]) -> Iterator[str]:
    yield f"## {section}\n\n| name | status | |\n|---|---|---|\n"
    rows: dict[Status, list[str]] = defaultdict(list)
    for name, status in entries:
        rows[status].append(f"`{name.path.removeprefix(section + '.')}`")
    order = [SUPPORTED, DIFFERS, NOT_YET, NOT_PLANNED]
    for status in sorted(rows, key=lambda status: (order.index(status.kind), rows[status])):
        yield f"| {', '.join(rows[status])} | {status.kind} | {status.note.replace('|', '&#124;')} |\n"


def _modules(modules: list[str]) -> Iterator[str]:
    yield "## Modules\n\nWhat can be imported by its own name.\n\n| module | status | |\n|---|---|---|\n"
    names = [Name(module, None) for module in modules]
    rows: dict[Status, list[str]] = defaultdict(list)
    for name in names:
        try:
            importlib.import_module(name.path)
            status = Status(SUPPORTED, "")
        except ImportError:
            planned, why = lacking(name.path)
            status = Status(NOT_YET if planned else NOT_PLANNED, why)
        rows[status].append(f"`{name.path}`")
    order = [SUPPORTED, NOT_YET, NOT_PLANNED]
    for status in sorted(rows, key=lambda status: (order.index(status.kind), rows[status])):
        yield f"| {', '.join(rows[status])} | {status.kind} | {status.note} |\n"


def main() -> None:
    """Write the page, or check it."""
    compat.install()
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} is out of date; run python docs/dgl_names.py")


if __name__ == "__main__":
    main()
