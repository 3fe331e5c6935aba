"""Values cached with an adjacency have keys that are declared once, beside what computes the value."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import dglite
from dglite.errors import DGLError
from dglite.structure import derived

PACKAGE = Path(dglite.__file__).parent
METHODS = ("get", "setdefault", "pop")


def _is_cache(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "cache"


def _keys(tree: ast.AST) -> list[ast.expr]:
    """Return the expressions by which attributes called ``cache`` are read and written."""
    keys = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_cache(node.value):
            keys.append(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            if _is_cache(node.func.value):
                keys.append(node.args[0])
        elif isinstance(node, ast.Compare) and any(map(_is_cache, node.comparators)):
            keys.append(node.left)
    return keys


def _modules_with_keys() -> dict[Path, list[ast.expr]]:
    results = {path: _keys(ast.parse(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")}
    return {path: keys for path, keys in results.items() if keys}


def test_no_key_is_written_in_place():
    keys = _modules_with_keys()
    assert len(keys) > 12
    texts = {f"{path.name}: {ast.unparse(key)}" for path, results in keys.items() for key in results}
    literal = ast.Constant, ast.Tuple, ast.JoinedStr
    wrong = {
        f"{path.name}: {ast.unparse(key)}" for path, actual in keys.items() for key in actual if type(key) in literal
    }
    assert not wrong, f"declare these by structure.derived.cache_key: {wrong}"
    assert "run.py: _LONGEST_ROW" in texts


def test_every_key_is_listed_with_what_is_cached_under_it():
    for path in _modules_with_keys():
        importlib.import_module(".".join(("dglite", *path.relative_to(PACKAGE).with_suffix("").parts)))
    assert {"sorted pairs", "calls", "longest row", "buckets", "edge pairs", "vertex order"} <= derived.KEYS.keys()
    assert all(description for description in derived.KEYS.values())


def test_a_key_is_declared_once():
    assert "calls" in derived.KEYS or importlib.import_module("dglite.ops.call_cache")
    with pytest.raises(DGLError, match="'calls' is declared already"):
        derived.cache_key("calls", "something else")


def test_variants_are_kept_apart_and_die_with_the_structure():
    g = dglite.graph(([0, 1, 1], [1, 2, 2]))
    adjacency = g.adjacencies[0]
    key = "ascending ends"
    first, second = (derived.variant(key, end) for end in (0, 1))
    adjacency.cache[first], adjacency.cache[second] = "sources", "destinations"
    assert adjacency.cache.get(first) == "sources" and adjacency.cache.get(second) == "destinations"
    assert first not in g.reverse().adjacencies[0].cache
    g.add_edges([0], [2])
    assert first not in g.adjacencies[0].cache
