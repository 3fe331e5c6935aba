"""Names say what a value is, and sentences name things: in every package, example and page.

``python tests/test_wording.py`` prints how many names and sentences of each package do not.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import pytest

from dglite.garbage import no_collection

ROOT = Path(__file__).parents[1]

WORDS = {
    "found made got taken wanted asked seen met gone looked brought lent drawn": "say what it is, not how it came",
    "given own known kept chosen told said held": "say what the value is: an array, rows, a kernel, a plan",
    "what how who which whose of": "name the thing: name, kind, format, backend",
    "one thing things have has": "name the element",
}
"""Names that hold for any value at all, with what to do instead. A leading underscore makes no difference."""

REASON_OF = {word: reason for words, reason in WORDS.items() for word in words.split()}

TEST_WORDS = frozenset("found got wanted made said told".split())
"""Names that tests and benchmarks may not bind: a ``result`` is compared with what is ``expected``."""

CLASS_WORDS = "way cut over looked brought heavy filled lent absent held met news land leave kept given found".split()
"""Classes of these words alone name no thing; two words do: ``OperatorStrategy``, ``LookupCopy``."""

PHRASES = {
    r"\bbecomes? of\b": "name the result",
    r"\b(is|are|be|been) told (from|apart)\b": "distinguished from",
    r"\bso many\b": "give the number's name, or 'this many'",
    r"\bfrom which on\b": "'above which', 'the minimum at which'",
    r"\bgone on with\b": "continued",
    r"\bcomes? by (none|it|them)\b": "name what is computed",
    r"\bas if .{1,40} had not been\b": "'undo ...'",
    r"\bwhere there (is|are) none\b": "'or None', 'or -1', 'if there is no ...'",
    r"\bthe one of\b": "repeat the noun",
    r"\bshall be\b": "'if it is to be ...'",
    r"\bis known of\b": "name the properties",
    r"\bof whose\b": "two sentences",
    r"(?<!there )\b(is|are|be) none\b": "'is not a ...', 'there is no ...'",
    r"\b(is|are) (another one|others)\b": "'is different', 'do not match'",
    r"\bto be done\b": "name the work",
    r"\b(as they lie|as it lies)\b": "'unchanged', 'in stored order'",
    r"\bin the manner of\b": "'like'",
    r"\b(holds? truths?|a truth)\b": "boolean",
    r"\bon (its|their) way\b": "in flight, in transit",
}
"""Clauses without a noun, with what users of torch, DGL and PyG say."""

ANY_PHRASE = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES))


def bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, bool]]:
    """Yield each name that a module binds, its line, and whether it is a class."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno, False
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, False
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno, isinstance(node, ast.ClassDef)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name:
            yield node.name, node.lineno, False


def sentences(source: str, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the docstrings, texts and comments of a module that may have a phrase, each with the line it begins in."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ANY_PHRASE.search(node.value):
            yield node.value, node.lineno
    if not any("#" in line and ANY_PHRASE.search(line) for line in source.splitlines()):
        return  # tokens take longer than all else
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]


def strange_names(nodes: Sequence[ast.AST], words: Container[str] = REASON_OF) -> Iterator[tuple[int, str]]:
    for name, line, is_class in bindings(nodes):
        word = name.strip("_").lower()
        if is_class and word in CLASS_WORDS and words is REASON_OF:
            yield line, f"class {name}: two words, the second a noun"
        elif not is_class and word in words and not name.isupper():
            yield line, f"{name}: {REASON_OF[word]}"


def strange_sentences(source: str, nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for text, line in sentences(source, nodes):
        for phrase, better in PHRASES.items():
            for match in re.finditer(phrase, text):
                yield line + text.count("\n", 0, match.start()), f"{match[0]!r}: {better}"


def findings(path: Path, words: Container[str] = REASON_OF) -> list[str]:
    """Return a line for each strange name and sentence of a module."""
    source = path.read_text(encoding="utf-8")
    with no_collection():  # while a tree grows, each collection would look at all of it
        nodes = list(ast.walk(ast.parse(source)))
        lines = [*strange_names(nodes, words), *strange_sentences(source, nodes)]
    return [f"{path.relative_to(ROOT)}:{line} {message}" for line, message in sorted(lines)]


def modules() -> dict[str, list[Path]]:
    """Return the modules of dglite by the package or module below ``dglite`` that they belong to; examples; docs."""
    by_package = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in ("examples", "docs")}
    for path in sorted((ROOT / "dglite").rglob("*.py")):
        parts = path.relative_to(ROOT / "dglite").parts
        depth = 3 if parts[0] == "kernels" and "dynamic" in parts[:-1] else 1
        by_package.setdefault("/".join(parts[:depth]).removesuffix(".py"), []).append(path)
    return by_package


@pytest.mark.parametrize("package", modules())
def test_a_clean_package_stays_clean(package: str) -> None:
    lines = [line for path in modules()[package] for line in findings(path)]
    assert not lines, "see WORDS and PHRASES in tests/test_wording.py:\n" + "\n".join(lines)


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_say_what_is_compared_with_what_is_expected(folder: str) -> None:
    paths = [x for x in (ROOT / folder).rglob("*.py") if x != Path(__file__)]
    lines = [line for path in sorted(paths) for line in findings(path, TEST_WORDS)]
    assert not lines, "see TEST_WORDS and PHRASES in tests/test_wording.py:\n" + "\n".join(lines)


def test_strange_words_are_noticed() -> None:
    source = '''
class Way:
    """Return what becomes of a row,
    or -1 where there is none."""

    def of(self, given):  # so many rows
        found, self._kept = given, 1
        for one in found:
            raise ValueError(f"{one} is none")
'''
    nodes = list(ast.walk(ast.parse(source)))
    names = Counter(message.split(":")[0] for _, message in strange_names(nodes))
    assert names == Counter({"class Way": 1, "of": 1, "given": 1, "found": 1, "_kept": 1, "one": 1})
    assert [line for line, _ in sorted(strange_sentences(source, nodes))] == [3, 4, 6, 9]


def table() -> str:
    """Return the number of strange names and sentences of each package that has any."""
    rows = []
    for package, paths in modules().items():
        texts_of = [path.read_text(encoding="utf-8") for path in paths]
        parsed = [(source, list(ast.walk(ast.parse(source)))) for source in texts_of]
        names = sum(1 for _, nodes in parsed for _ in strange_names(nodes))
        texts = sum(1 for source, nodes in parsed for _ in strange_sentences(source, nodes))
        if names or texts:
            rows.append((names, texts, package))
    rows.append((sum(row[0] for row in rows), sum(row[1] for row in rows), "all"))
    return "names sentences package\n" + "\n".join(f"{n:5} {t:9} {package}" for n, t, package in rows)


if __name__ == "__main__":
    print(table())
