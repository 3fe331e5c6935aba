"""The RDF data sets, read from tiny files in the published layout; DGL 2.1.0 gives the same graphs for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dglite import EID, NID, DGLError, DGLWarning
from dglite.data import AIFBDataset, AMDataset, BGSDataset, MUTAGDataset, dataset
from dglite.data.triples import BLANK, IRI, LITERAL, Term, order, statements

XSD = "http://www.w3.org/2001/XMLSchema#"
PEOPLE, ONTOLOGY = "http://www.aifb.uni-karlsruhe.de/Personen/viewPersonOWL/", "http://swrc.ontoware.org/ontology#"
AIFB = f"""# comment

<{PEOPLE}b> <{ONTOLOGY}knows> <{PEOPLE}a> .
<{PEOPLE}a> <{ONTOLOGY}name> "Z" .
<{PEOPLE}a> <{ONTOLOGY}name> "10"^^<{XSD}integer> .
<{PEOPLE}a> <{ONTOLOGY}name> "09"^^<{XSD}integer> .
<{PEOPLE}a> <{ONTOLOGY}name> "Z" .
<{PEOPLE}a> <{ONTOLOGY}employs> <{PEOPLE}b> .
<{PEOPLE}a> <http://x.org/type> _:blank .
<{PEOPLE}a> <http://x.org/type> <{PEOPLE}b> .
"""


def write(folder: Path, text: str, train: list[str], test: list[str], name: str = "x.nt") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    for part, lines in (("training", train), ("test", test)):
        (folder / f"{part}Set.tsv").write_text("\n".join(["header", *lines]))
    return folder


def aifb(folder: Path, text: str = AIFB, train: str = "a\t0\tx", test: str = "b\t0\ty", **options: Any) -> AIFBDataset:
    write(folder, text, [PEOPLE + train], [PEOPLE + test])
    return AIFBDataset(raw_dir=folder, verbose=False, **options)


def edges(g: Any, etype: Any) -> list[list[int]]:
    return [end.tolist() for end in g.edges(etype=etype)]


# -- graphs ------------------------------------------------------------------------------------------------------------
def test_aifb(tmp_path: Path) -> None:
    data = aifb(tmp_path)
    assert (len(data), data.num_classes, data.predict_category) == (1, 2, "Personen")
    g = data[0]
    assert g.ntypes == ["Personen", "_Literal"]
    assert g.canonical_etypes == [
        ("Personen", "ontology#knows", "Personen"),
        ("Personen", "ontology#name", "_Literal"),
        ("Personen", "rdftype", "Personen"),
        ("Personen", "rev-ontology#knows", "Personen"),
        ("Personen", "rev-rdftype", "Personen"),
        ("_Literal", "rev-ontology#name", "Personen"),
    ]
    # Sorted: a's names, 9 before 10 before "Z", then its type, and b last.
    assert edges(g, "ontology#name") == [[0, 0, 0], [0, 1, 2]]
    assert (edges(g, "rdftype"), edges(g, "ontology#knows")) == ([[0], [1]], [[1], [0]])
    assert g.nodes["Personen"].data[NID].tolist() == [0, 4]
    assert g.edges["rev-ontology#name"].data[EID].tolist() == [5, 6, 7]
    persons = g.nodes["Personen"].data
    assert persons["label"].tolist() == persons["labels"].tolist() == [0, 1]
    assert (persons["train_mask"].tolist(), persons["test_mask"].tolist()) == ([True, False], [False, True])
    plain = aifb(tmp_path, insert_reverse=False, transform=lambda g: g.canonical_etypes)[0]
    assert plain == g.canonical_etypes[:3]


def test_mutag(tmp_path: Path) -> None:
    space = "http://dl-learner.org/carcinogenesis#"
    text = f"""<{space}d1> <{space}hasBond> <{space}bond1> .
<{space}d1> <{space}isMutagenic> "true"^^<{XSD}boolean> .
<{space}d1> <{space}hasAtom> <{space}carbon> .
<{space}bond1> <http://x.org/y#type> <{space}Bond> .
<{space}d1> <http://x.org/label> "1" .
<{space}d1> <{space}charge> "0.10"^^<{XSD}double> .
<{space}d1> <{space}charge> "0.1"^^<{XSD}double> .
"""
    write(tmp_path, text, [f"{space}d1\t0\t1"], [])
    data = MUTAGDataset(raw_dir=tmp_path, insert_reverse=False, verbose=False)
    assert data[0].canonical_etypes == [
        ("bond", "y#type", "SCHEMA"),
        ("d", "charge", "_Literal"),
        ("d", "hasAtom", "hasAtom"),
        ("d", "hasBond", "bond"),
        ("d", "label", "SCHEMA"),
    ]
    assert (data[0].num_edges("charge"), data[0].num_nodes("SCHEMA"), data.num_classes) == (1, 2, 1)
    write(tmp_path, f"<{space}carbon> <{space}hasBond> <{space}bond1> .", [], [])
    with pytest.raises(DGLError, match="a statement that mutag-hetero cannot have"):
        MUTAGDataset(raw_dir=tmp_path, verbose=False)


def test_bgs(tmp_path: Path) -> None:
    space = "http://data.bgs.ac.uk/"
    rock = f"{space}id/Lexicon/NamedRockUnit/A"
    text = f"""<{rock}> <{space}ref/Lexicon/hasParent> <{space}ref/Lexicon/Class/B> .
<{rock}> <{space}ref/Lexicon/hasLithogenesis> <{space}ref/Lexicon/Class/B> .
<{rock}> <{space}ref/Lexicon/status> <{space}ref/CurrentStatus/x/y> .
<{rock}> <http://www.w3.org/type> <{space}ref/Lexicon/Class/B> .
<{rock}> <http://www.w3.org/name> "A" .
"""
    write(tmp_path, text, [f"0\t{rock}\tx"], [])
    data = BGSDataset(raw_dir=tmp_path, insert_reverse=False, verbose=False)
    assert data[0].canonical_etypes == [
        ("Lexicon/NamedRockUnit", "Lexicon/hasParent", "Lexicon/Class"),
        ("Lexicon/NamedRockUnit", "http://www_w3_org/type", "Lexicon/Class"),
    ]


def test_am(tmp_path: Path) -> None:
    space = "http://purl.org/collections/nl/am/"
    text = f"""<{space}proxy-1> <{space}maker> <{space}p-2> .
<{space}proxy-1> <{space}material> <{space}p-2> .
<{space}proxy-1> <{space}maker> <{space}a-b-c> .
<{space}proxy-1> <{space}maker> <{space}a-b-d> .
_:q <{space}maker> <{space}Person> .
<{space}proxy-1> <{space}maker> "name" .
"""
    write(tmp_path, text, [f"{space}proxy-1\t0\tx"], [])
    g = AMDataset(raw_dir=tmp_path, insert_reverse=False, verbose=False)[0]
    assert (g.ntypes, g.num_nodes("TYPE"), g.num_edges()) == (["TYPE", "_BNode", "p", "proxy"], 3, 4)


# -- damage ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": AIFB[:-20]}, r"x\.nt is not read: .* is no statement of N-Triples, in line 10"),
        ({"text": "<a> <b> <\\U00110000> .\n"}, r"x\.nt is not read: .*line 1"),
        ({"text": '<a> <b> "\\q" .\n'}, r"unknown escape"),
        ({"text": f"<http://www.aifb.uni-karlsruhe.de/x> <{ONTOLOGY}knows> <{PEOPLE}a> ."}, "cannot have"),
        ({"text": ""}, r"no statement about a node of type 'Personen'"),
        ({"train": "a\tx"}, r"line 2 of .*trainingSet\.tsv is not a node and its class"),
    ],
)
def test_damage(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        aifb(tmp_path, **change)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    write(tmp_path, AIFB, [], [])
    (tmp_path / "x.nt").write_bytes(b"\x1f\x8b\xff\xff")
    with pytest.raises(DGLError, match=r"x\.nt is not read"):
        AIFBDataset(raw_dir=tmp_path, verbose=False)


def test_splits_that_name_other_nodes(tmp_path: Path) -> None:
    with pytest.warns(DGLWarning, match=r"line 2 of .*testSet\.tsv names a node without edges"):
        assert aifb(tmp_path, test="c\t0\ty").num_classes == 1
    other = f"<{PEOPLE.replace('Personen', 'Projekte')}p> <{ONTOLOGY}knows> <{PEOPLE}a> .\n"
    write(tmp_path, AIFB + other, [PEOPLE.replace("Personen", "Projekte") + "p\t0\tx"], [])
    with pytest.raises(DGLError, match=r"line 2 of .*trainingSet\.tsv names a node of type 'Projekte'; expected 'Pers"):
        AIFBDataset(raw_dir=tmp_path, verbose=False)


@pytest.mark.parametrize("make", [AIFBDataset, MUTAGDataset, BGSDataset, AMDataset])
def test_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]) -> None:
    def refused(self: Any, *_: Any) -> None:
        raise ConnectionError("there is no connection")

    monkeypatch.setattr(dataset.Downloader, "__call__", refused)
    with pytest.raises(DGLError, match=r"(?s)trainingSet\.tsv.*-hetero\.zip into.*raw_dir="):
        make(raw_dir=tmp_path, verbose=False)


# -- the readers -------------------------------------------------------------------------------------------------------
def read(path: Path, text: str) -> list[tuple[Term, ...]]:
    path.write_text(text, encoding="utf-8")
    return list(statements(path))


def test_n_triples(tmp_path: Path) -> None:
    text = '_:a.b <r> "\\u00e9\\n\\"" . # comment\n<\\u0041> <r>"x"@de-AT.\r\n<s> <r> "01"^^<' + XSD + "integer> ."
    assert read(tmp_path / "x.nt", text) == [
        (Term(BLANK, "a.b"), Term(IRI, "r"), Term(LITERAL, 'é\n"')),
        (Term(IRI, "A"), Term(IRI, "r"), Term(LITERAL, "x", "", "de-at")),
        (Term(IRI, "s"), Term(IRI, "r"), Term(LITERAL, "1", f"{XSD}integer")),
    ]


def test_turtle(tmp_path: Path) -> None:
    text = '''@prefix e: <http://e#> .
PREFIX : <d/>
@base <http://base/x/> . # comment
e:a a e:C, <rel> ; :p """two "q"
lines"""@en ; :n -2.50, 3e2, 01, true ; .
[ :p _:b ] .
e:x\\,y :l ( 'it\\'s' ) .
'''
    result = read(tmp_path / "x.n3", text)
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    a = "http://e#a"
    assert [(s.text, p.text, o.text) for s, p, o in result] == [
        (a, f"{rdf}type", "http://e#C"),
        (a, f"{rdf}type", "http://base/x/rel"),
        (a, "d/p", 'two "q"\nlines'),
        (a, "d/n", "-2.50"),
        (a, "d/n", "300.0"),
        (a, "d/n", "1"),
        (a, "d/n", "true"),
        (" 1", "d/p", "b"),
        (" 2", f"{rdf}first", "it's"),
        (" 2", f"{rdf}rest", f"{rdf}nil"),
        ("http://e#x,y", "d/l", " 2"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a> <b> <c>", r"the end' where '\.' is expected, in line 1"),
        ("<a> <b> <c> .\n<a> e:b <c> .", r"'e:b', which is no IRI and has no known prefix, in line 2"),
        ("{ <a> <b> <c> } => { <d> <e> <f> } .", r"'\{ <a>"),
        ("<a> <b> " + "[ <b> " * 200, "more than 100 brackets"),
        ("<a> _:b <c> .", "a relation that is no IRI"),
        ('<a> <b> "unfinished .', "in line 1"),
    ],
)
def test_turtle_damage(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DGLError, match=rf"(?s)x\.n3 is not read: .*{message}"):
        read(tmp_path / "x.n3", text)


def test_order_of_terms() -> None:
    def literal(text: str, kind: str = "", language: str = "") -> Term:
        return Term(LITERAL, text, f"{XSD}{kind}" if kind else "", language)

    ascending = [
        Term(BLANK, "z"),
        Term(IRI, "a"),
        Term(IRI, "b"),
        literal("2", "integer"),
        literal("10", "integer"),
        literal("ten", "integer"),
        literal("10"),
        literal("2"),
        literal("1", "", "en"),
    ]
    assert sorted([*ascending[5:], *ascending[:5]], key=order) == ascending


def test_a_decimal_with_an_exponent_is_text(tmp_path: Path) -> None:
    (result,) = read(tmp_path / "x.nt", f'<s> <r> "1e999999999"^^<{XSD}decimal> .')
    assert result[2].text == "1e999999999"
