"""Reads RDF statements: N-Triples line by line, and Turtle.

W3C, "RDF 1.1 N-Triples" and "RDF 1.1 Turtle", 2014. Of N3, of which Turtle is a part, formulas and rules are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urljoin

from ..errors import DGLError
from .dataset import text_of

BLANK, IRI, LITERAL = 0, 1, 2
"""Kinds of terms, in the order in which they are sorted."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DEEPEST = 100
"""Brackets inside of each other."""


class Term(NamedTuple):
    """A node or a relation: its kind; an IRI, a label or the text of a literal; and this one's type and language."""

    kind: int
    text: str
    datatype: str = ""
    language: str = ""


Statement = tuple[Term, Term, Term]


def statements(path: Path) -> Iterator[Statement]:
    """Yield the statements in a file as subject, predicate and object: N-Triples for ``.nt``, Turtle for others.

    Numbers and truth values are written in one way: 01 is 1, and 1e0 is 1.0.

    Raises ``DGLError``: a line is no statement: which one is said.
    """
    return _lines(path) if path.suffix == ".nt" else iter(_Turtle(path).read())


def order(term: Term) -> tuple[Any, ...]:
    """Return the sort key of a term: blank nodes, IRIs, then literals by type, language and value."""
    if term.kind != LITERAL:
        return term.kind, term.text
    value = _value(term)
    number = value is not None and value == value
    kind = term.datatype or f"{_XSD}string"
    return LITERAL, kind, term.language, (0, value) if number else (1, term.text), term.datatype, term.text


# -- literals ----------------------------------------------------------------------------------------------------------
def _decimal(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text):
        raise ValueError("no decimal number")  # Decimal takes 1e999999999, which no memory has the digits for
    return Decimal(text)


_INTEGERS = (
    "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger unsignedByte "
    "unsignedInt unsignedLong unsignedShort"
).split()
_NUMBERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((f"{_XSD}{name}" for name in _INTEGERS), int),
    f"{_XSD}decimal": _decimal,
    f"{_XSD}double": float,
    f"{_XSD}float": float,
}
_TRUTH = {"true": "true", "1": "true", "false": "false", "0": "false"}


def _value(term: Term) -> Any:
    """Return the value of a numeric literal, or None."""
    try:
        return _NUMBERS[term.datatype](term.text) if term.datatype in _NUMBERS else None
    except ValueError:
        return None


def _literal(text: str, datatype: str = "", language: str = "") -> Term:
    term = Term(LITERAL, text, datatype, language.lower())
    if datatype == f"{_XSD}boolean":
        return term._replace(text=_TRUTH.get(text, text))
    value = _value(term)
    if value is None:
        return term
    return term._replace(text=f"{value:f}" if isinstance(value, Decimal) else str(value))


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _plain(text: str) -> str:
    """Return text without escapes; ``ValueError`` for one that is not known."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    if letter is None:
        return chr(int(short or long, 16))
    if letter not in _LETTERS:
        raise ValueError(f"unknown escape {match[0]!r}")
    return _LETTERS[letter]


# -- N-Triples ---------------------------------------------------------------------------------------------------------
_NODE = r'<([^<>"{}|^`\x00-\x20]*)>|_:([\w.·-]*\w)'
_LINE = re.compile(
    rf'\s*(?:{_NODE})\s*<([^<>"{{}}|^`\x00-\x20]*)>\s*'
    rf'(?:{_NODE}|"((?:[^"\\\n\r]|\\.)*)"(?:\^\^<([^<>"{{}}|^`\x00-\x20]*)>|@([A-Za-z]+(?:-[A-Za-z0-9]+)*))?)'
    r"\s*\.\s*(?:#.*)?",
    re.DOTALL,
)


def _lines(path: Path) -> Iterator[Statement]:
    with open(path, encoding="utf-8", newline="\n") as file:
        number = 1
        try:
            for line in file:
                if not line.isspace() and not line.lstrip().startswith("#"):
                    yield _statement(line)
                number += 1
        except ValueError as error:  # also UnicodeDecodeError, which may be some lines ahead
            raise DGLError(f"{path} is not read: {error}, in line {number} or after it") from error


def _statement(line: str) -> Statement:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"{line.strip()[:60]!r} is no statement of N-Triples")
    subject, blank, predicate, iri, label, text, datatype, language = match.groups()
    literal = text is not None
    last = _literal(_plain(text), _plain(datatype or ""), language or "") if literal else _node(iri, label)
    return _node(subject, blank), Term(IRI, _plain(predicate)), last


def _node(iri: str | None, label: str | None) -> Term:
    return Term(BLANK, label or "") if iri is None else Term(IRI, _plain(iri))


# -- Turtle ------------------------------------------------------------------------------------------------------------
_NAME = r"(?:[\w·.-]|%[0-9A-Fa-f]{2}|\\[-_~.!$&'()*+,;=/?#@%])"
_TOKENS = {
    "skip": r"\s+|\#[^\n]*",
    "iri": r'<[^<>"{}|^`\x00-\x20]*>',
    "string": r'"""(?:[^"\\]|\\.|""?(?!"))*"""|' + r"'''(?:[^'\\]|\\.|''?(?!'))*'''|"
    r'"(?:[^"\\\n\r]|\\.)*"|' + r"'(?:[^'\\\n\r]|\\.)*'",
    "number": r"[+-]?(?:\d+\.\d*[eE][+-]?\d+|\.?\d+[eE][+-]?\d+|\d*\.\d+|\d+)",
    "blank": r"_:[\w·.-]*\w",
    "name": rf"(?:\w[\w·.-]*)?:(?:(?:{_NAME}|:)*(?:[\w:-]|%[0-9A-Fa-f]{{2}}|\\.))?",
    "at": r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*",
    "word": r"(?:a|true|false|prefix|base)\b",
    "mark": r"\^\^|[.;,\[\]()]",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _TOKENS.items()), re.DOTALL | re.IGNORECASE)


class _Turtle:
    """One file of Turtle, read token by token."""

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, text_of(path)
        self._prefixes: dict[str, str] = {}
        self._base, self._place, self._blanks, self._depth = "", 0, 0, 0
        self._kind, self._token, self._start = "", "", 0
        self._statements: list[Statement] = []
        self._advance()

    def read(self) -> list[Statement]:
        try:
            while self._kind:
                self._sentence()
        except ValueError as error:
            self._fail(str(error))
        return self._statements

    def _fail(self, why: str) -> NoReturn:
        line = self._text.count("\n", 0, self._start) + 1
        raise DGLError(f"{self._path} is not read: {why}, in line {line}, which is not supported Turtle") from None

    def _advance(self) -> str:
        """Go to the next token, and return the one before."""
        before, self._kind, self._token, self._start = self._token, "", "", self._place
        while self._place < len(self._text):
            match, self._start = _TOKEN.match(self._text, self._place), self._place
            if match is None:
                self._fail(repr(self._text[self._place : self._place + 20]))
            self._place = match.end()
            if match.lastgroup != "skip":
                self._kind, self._token = match.lastgroup or "", match[0]
                break
        return before

    def _take(self, token: str) -> bool:
        if self._token != token:
            return False
        self._advance()
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(f"{self._token or 'the end'!r} where {token!r} is expected")

    def _sentence(self) -> None:
        word = self._token.lower()
        if word in ("@prefix", "prefix", "@base", "base"):
            self._advance()
            if "prefix" in word:
                name = self._advance()
                if not name.endswith(":"):
                    raise ValueError(f"{name!r} where a prefix is expected")
                self._prefixes[name] = self._iri()
            else:
                self._base = self._iri()
            if word[0] == "@":
                self._expect(".")
            return
        bracket = self._token == "["
        subject = self._node()
        if not (bracket and self._token == "."):
            self._properties(subject)
        self._expect(".")

    def _properties(self, subject: Term) -> None:
        while True:
            predicate = Term(IRI, f"{_RDF}type") if self._take("a") else self._node()
            if predicate.kind != IRI:
                raise ValueError("a relation that is no IRI")
            while True:
                self._statements.append((subject, predicate, self._object()))
                if not self._take(","):
                    break
            if not self._take(";"):
                return
            while self._take(";"):
                pass
            if self._token in (".", "]"):
                return

    def _iri(self) -> str:
        kind, token = self._kind, self._advance()
        if kind == "iri":
            iri = _plain(token[1:-1])
            return urljoin(self._base, iri) if self._base else iri
        prefix, _, local = token.partition(":")
        if kind != "name" or f"{prefix}:" not in self._prefixes:
            raise ValueError(f"{token or 'the end'!r}, which is no IRI and has no known prefix")
        return self._prefixes[f"{prefix}:"] + re.sub(r"\\(.)", r"\1", local)

    def _node(self) -> Term:
        if self._kind == "blank":
            return Term(BLANK, self._advance()[2:])
        if self._token in ("[", "("):
            return self._bracket(self._advance())
        return Term(IRI, self._iri())

    def _fresh(self) -> Term:
        self._blanks += 1
        return Term(BLANK, f" {self._blanks}")  # no label has a space

    def _bracket(self, opening: str) -> Term:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} brackets inside of each other")
        if opening == "[":
            term = self._fresh()
            if self._token != "]":
                self._properties(term)
            self._expect("]")
        else:
            term = self._collection()
        self._depth -= 1
        return term

    def _collection(self) -> Term:
        members = []
        while not self._take(")"):
            members.append(self._object())
        rest = Term(IRI, f"{_RDF}nil")
        for member in reversed(members):
            place = self._fresh()
            self._statements += [(place, Term(IRI, f"{_RDF}first"), member), (place, Term(IRI, f"{_RDF}rest"), rest)]
            rest = place
        return rest

    def _object(self) -> Term:
        if self._kind == "string":
            return self._string(self._advance())
        if self._kind == "number":
            text = self._advance()
            return _literal(text, _XSD + ("double" if "e" in text.lower() else "decimal" if "." in text else "integer"))
        if self._token in _TRUTH:
            return _literal(self._advance(), f"{_XSD}boolean")
        return self._node()

    def _string(self, token: str) -> Term:
        width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
        make = partial(_literal, _plain(token[width:-width]))
        if self._take("^^"):
            return make(self._iri())
        return make("", self._advance()[1:]) if self._kind == "at" else make()
