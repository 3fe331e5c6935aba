"""Imports point down the layers: a module imports its own package's modules and those of lower layers, no others."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dglite"

TABLE = tomllib.loads((PACKAGE.parent / "docs" / "layers.toml").read_text(encoding="utf-8"))

LAYER_OF = {name: number for number, layer in enumerate(TABLE["layer"]) for name in layer["packages"]}

NEIGHBOURS = {(importer, imported) for importer, names in TABLE["beside"].items() for imported in names}
"""(importer, imported) on one layer, where the first is written in terms of the second."""

OWNERS = {
    "torch": {
        "backend/torch.py",
        "backend/torch_arrays.py",
        "backend/torch_breaks.py",
        "backend/torch_deferred.py",
        "backend/torch_dtensor.py",
        "backend/torch_export.py",
        "backend/torch_program.py",
        "backend/torch_library.py",
        "backend/torch_memory.py",
        "backend/torch_plain.py",
        "backend/torch_copies.py",
        "backend/torch_recipes.py",
        "backend/torch_record.py",
        "backend/torch_segments.py",
        "backend/torch_simplify.py",
        "backend/torch_structure.py",
        "backend/torch_tensors.py",
        "backend/torch_transforms.py",
        "compat",
        "io/dgl_pickle.py",
        "io/graphbolt_file.py",
        "sparse/exchange.py",
        "nn",
        "data",
        "distributed",
        "dynamic",
        "tofu",
    },
    "llvmlite": {"kernels/cpu"},
    "numba": set(),
    "cupy": {"backend/cupy.py", "kernels/cuda"},
    "matplotlib": {"show", "tofu/drawing.py"},
}
"""The only places where a heavy or optional package is imported."""

MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def package_of(module: Path) -> str:
    """Return the top-level name under ``dglite`` that a module belongs to."""
    return module.parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_packages(module: Path) -> list[tuple[str, ast.stmt]]:
    """Return the packages of dglite that a module imports, wherever in it, except for type checkers only."""
    package = ("dglite", *module.parts[:-1])
    results = []
    for node in executed(PACKAGE / module):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base = (*base, *(node.module or "").split(".")) if node.module else base
            targets = [base] if len(base) > 1 else [(*base, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        results += [(target[1], node) for target in targets if target[0] == "dglite" and len(target) > 1]
    return results


@cache
def executed(path: Path) -> list[ast.stmt]:
    """Return all statements of a file but those under ``if TYPE_CHECKING``."""
    return _executed(parsed(path))


def _executed(tree: ast.AST) -> list[ast.stmt]:
    statements = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.stmt):
            statements.append(node)
        statements += _executed(node)
    return statements


def test_every_package_has_a_layer() -> None:
    without = {package_of(module) for module in MODULES} - {"__init__", *LAYER_OF}
    assert not without, f"dglite/{without} have no layer; give them one in docs/layers.toml"


LISTED = {"classic", "compat", "errors", "function", "nn/pytorch", "data/utils"}
"""Folders and modules, other than packages and functions of graphs, whose ``__all__`` is what users see."""
LISTED |= {"batch", "generators", "geometry", "homophily", "metrics", "propagate", "readout", "serving"}
LISTED |= {"traversal", "data/ogb", "backend/toolkit"}


INTERNAL = {"kernels", "nn/functional", "recorder", "scheduler", "structure", "tofu/library"}
"""Packages that only other packages import from."""


def test_only_public_modules_list_their_names() -> None:
    """Elsewhere a list only repeats the definitions or the imports."""
    needless = []
    for module in MODULES:
        tree, name = parsed(PACKAGE / module), module.as_posix().removesuffix(".py")
        package = name.removesuffix("/__init__")
        is_listed = any(f"{name}/".startswith(f"{listed}/") for listed in LISTED)
        if package not in INTERNAL if package != name else is_listed:
            continue
        bound = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "__all__"]
        if bound and (package != name or not hands_on(tree)):
            needless.append(f"dglite/{module}:{bound[0].lineno}")
    assert not needless, "remove __all__ of:\n" + "\n".join(needless)


def hands_on(tree: ast.Module) -> bool:
    """Return whether a module imports a name that it does not use, for others to import."""
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    return not imported <= {node.id for node in nodes if isinstance(node, ast.Name)}


def test_imports_point_down() -> None:
    upwards = [
        f"dglite/{module}:{node.lineno} (layer {LAYER_OF[name]}): {ast.unparse(node)}"
        for module in MODULES
        if (name := package_of(module)) in LAYER_OF
        for other, node in imported_packages(module)
        if other != name and (name, other) not in NEIGHBOURS and not LAYER_OF.get(other, 99) < LAYER_OF[name]
    ]
    assert not upwards, "imports from their own layer or above:\n" + "\n".join(upwards)


FOREIGN = {
    "_fields": "of named tuples",
    "_make": "of named tuples",
    "_modules": "of torch's modules, and of those that stand in for them without torch",
    "_parameters": "of torch's modules, and of those that stand in for them without torch",
    "_root": "of torch.fx's nodes",
    "_values": "of torch's sparse tensors",
    "_version": "of torch's tensors",
}
"""Private attributes of other libraries that are read, and that some class of dglite has, too."""


def private_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield the names with one underscore that the classes of a module define, or set on ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
                yield getattr(part, "name", "")
                yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def test_no_package_reads_private_attributes_of_another() -> None:
    """A graph's are named by ``GraphBase``; other classes give a public name to what other packages read."""
    owners: dict[str, set[str]] = {}
    for module in MODULES:
        for name in private_attributes(parsed(PACKAGE / module)):
            if name.startswith("_") and not name.startswith("__"):
                owners.setdefault(name, set()).add(package_of(module))
    strangers = []
    for module in MODULES:
        for node in ast.walk(parsed(PACKAGE / module)):
            if not isinstance(node, ast.Attribute) or ast.unparse(node.value) in ("self", "cls", "super()"):
                continue
            # What is called g or graph is a graph, except in the packages that have graphs of their own.
            packages = owners.get(node.attr, set())
            is_graph = ast.unparse(node.value) in ("g", "graph") and package_of(module) not in ("tofu", "dynamic")
            packages = packages & {"graph"} if is_graph and "graph" in packages else packages
            if packages and node.attr not in FOREIGN and package_of(module) not in packages:
                strangers.append(f"dglite/{module}:{node.lineno} {ast.unparse(node)} is private to {sorted(packages)}")
    assert not strangers, "\n".join(strangers)


def test_heavy_packages_are_imported_by_their_owners_only() -> None:
    strangers = []
    for module in MODULES:
        here = {"/".join(module.parts[:depth]) for depth in range(1, len(module.parts) + 1)}
        for node in executed(PACKAGE / module):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            heavy = {name.split(".")[0] for name in names} & OWNERS.keys()
            strangers += [f"dglite/{module}:{node.lineno} imports {x}" for x in heavy if not OWNERS[x] & here]
    assert not strangers, "\n".join(strangers)


INSIDE_OF = {name: level for level, row in enumerate(TABLE["inside"]) for name in row["modules"]}
"""Levels of the folders and modules of two large packages, which import their own modules and those of lower levels."""
MOST_FILES = 13


def place_of(module: str) -> str:
    """Return the longest name in ``INSIDE_OF`` that a dotted module is, or is in."""
    return max((name for name in INSIDE_OF if f"{module}.".startswith(f"{name}.")), key=len)


def test_imports_point_down_inside_of_large_packages() -> None:
    upwards = []
    for module in (m for m in MODULES if package_of(m) in ("kernels", "dynamic")):
        package = module.parts[:-1]
        own = place_of(".".join((*package, *([] if module.name == "__init__.py" else [module.stem]))))
        for node in executed(PACKAGE / module):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = ".".join((*package[: len(package) - node.level + 1], *(node.module or "").split("."))).rstrip(".")
            for target in (f"{base}.{alias.name}" for alias in node.names):
                outside = target.split(".")[0] == package[0] and place_of(target) != own
                if outside and not INSIDE_OF[place_of(target)] < INSIDE_OF[own]:
                    upwards.append(f"dglite/{module}:{node.lineno} imports {target}")
    assert not upwards, "imports from their own layer or above:\n" + "\n".join(upwards)


@pytest.mark.parametrize("package", ["kernels", "dynamic"])
def test_folders_can_be_taken_in_at_a_glance(package: str) -> None:
    counts = Counter(module.parent for module in MODULES if package_of(module) == package)
    assert max(counts.values()) <= MOST_FILES, counts


DOOR = {"dynamic.processors", *(f"kernels.cpu.dynamic.{name}" for name in ("processors", "script", "rowwise"))}
"""Persistent processors and their kernels."""


def test_only_their_own_package_imports_persistent_processors() -> None:
    strangers = []
    for module in MODULES:
        own = ".".join(module.with_suffix("").parts)
        if own == "dynamic.__init__" or any(own.startswith(name) for name in DOOR):
            continue
        package = list(module.parts[:-1])
        for node in executed(PACKAGE / module):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
                targets = [base, *([*base, alias.name] for alias in node.names)]
                names = {".".join(filter(None, target)) for target in targets} & DOOR
                strangers += [f"dglite/{module}:{node.lineno} imports {name}" for name in names]
    assert not strangers, "\n".join(strangers)


def names_bound(module: Path) -> Iterator[str]:
    """Yield the public classes and type aliases of a module."""
    for node in parsed(PACKAGE / module).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name) and not t.id.isupper())


@pytest.mark.parametrize("package", ["tofu"])
def test_the_names_of_a_package_name_nothing_else(package: str) -> None:
    modules: dict[str, list[str]] = {}
    for module in MODULES:
        for name in names_bound(module):
            if name[0].isupper():
                modules.setdefault(name, []).append(module.as_posix())
    twice = {n: ms for n, ms in modules.items() if len(ms) > 1 and any(m.startswith(f"{package}/") for m in ms)}
    assert not twice, f"give each class and alias of dglite/{package} a name that no other module has: {twice}"


SAME_NAMES = {
    "Cell",
    "DataLoader",
    "FeatureStore",
    "Frame",
    "NeighborSampler",
    "SubgraphSampler",
    "Scheme",
    "Sequential",
    "DistNodeDataLoader",
    "DistEdgeDataLoader",
}
"""Names that are public in more than one of dglite's and its peers' interfaces."""


def test_a_class_has_a_name_of_its_own() -> None:
    modules: dict[str, list[str]] = {}
    for module in MODULES:
        for node in parsed(PACKAGE / module).body:
            if isinstance(node, ast.ClassDef) and node.name not in SAME_NAMES:
                modules.setdefault(node.name, []).append(module.as_posix())
    twice = {name: results for name, results in modules.items() if len(results) > 1}
    assert not twice, f"rename the lesser of these classes to say what it is: {twice}"


def test_an_import_that_points_up_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "structure").mkdir()
    source = """
        if TYPE_CHECKING:
            from ..graph import DGLGraph
        def late():
            from ..scheduler import execute
        from .. import nn, errors
        from . import ids
        import dglite.udf
    """
    (tmp_path / "structure" / "bad.py").write_text(textwrap.dedent(source))
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    packages = [name for name, _ in imported_packages(Path("structure/bad.py"))]
    assert packages == ["scheduler", "nn", "errors", "structure", "udf"]


def test_importing_dglite_leaves_heavy_packages_alone() -> None:
    code = "import sys, dglite, dglite.nn, dglite.data; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "dglite.graph.storage" in loaded
    assert not {"llvmlite", "cupy", "matplotlib", "networkx", "scipy", "sympy"} & set(loaded)
