"""What terminals and notebooks show: text is aligned; HTML is whole, escaped and free of scripts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import function as fn
from dglite import sparse, tables, tofu

EVIL = "<script>alert('&')</script>"
VOID = {"br", "img", "meta"}


class Checked(HTMLParser):
    """Reads HTML; every element has to be closed, in order, and none is a script or loads something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object")
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def featured() -> dglite.DGLGraph:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    g.ndata[EVIL], g.ndata["h"], g.edata["w"] = torch.ones(3, 4, 2), torch.ones(3, 8), torch.ones(3, 1)
    return g


def typed() -> dglite.DGLGraph:
    return dglite.heterograph({("user", EVIL, "game"): ([0, 1], [0, 1]), ("user", "knows", "user"): ([0], [1])})


def chain() -> dglite.DGLGraph:
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.ones(3, 2)
    return g


def plan() -> tofu.PartitionPlan:
    return tofu.plan(nn.Linear(8, 8), nn.functional.mse_loss, [torch.randn(4, 8), torch.randn(4, 8)], workers=2)


SHOWN: dict[str, tuple[Any, list[str]]] = {
    "graph": (featured, ["3 nodes", "3 edges", EVIL, "4 x 2 float32", "h 8 float32", "int64 ids", "cpu"]),
    "empty": (lambda: dglite.graph(([], [])), ["0 nodes", "0 edges"]),
    "types": (typed, [f"user —{EVIL}→ game", "user —knows→ user", "4 nodes", "3 edges"]),
    "batch": (lambda: dglite.batch([featured(), dglite.add_self_loop(featured())]), ["Batch of 2 graphs", "9 edges"]),
    "batch of types": (lambda: dglite.batch([typed(), typed()]), ["Batch of 2 graphs", "4 nodes in each graph"]),
    "block": (lambda: dglite.create_block(([0, 1], [0, 0])), ["Block", "source nodes", "destination nodes", "2 edges"]),
    "block of types": (lambda: dglite.to_block(typed()), ["Block", "source nodes", "destination nodes"]),
    "one edge": (lambda: dglite.graph(([0], [0])), ["1 node ", "1 edge "]),
    "matrix": (
        lambda: sparse.spmatrix(torch.arange(40).reshape(2, 20), torch.arange(20.0)),
        ["20 x 40", "20 entries", "and 12 more", "float32"],
    ),
    "empty matrix": (lambda: sparse.spmatrix(torch.empty(2, 0, dtype=torch.int64), shape=(0, 3)), ["0 x 3"]),
    "matrix of vectors": (
        lambda: sparse.spmatrix(torch.tensor([[0], [1]]), torch.ones(1, 50)),
        ["50 float32 each", "..."],
    ),
    "explanation": (
        lambda: dglite.explain(featured(), fn.u_mul_e("h", "w", "m"), fn.sum("m", "<b>")),
        ["'<b>'", "g-SpMM sum", "no message is stored"],
    ),
    "propagation": (
        lambda: dglite.explain(chain(), fn.copy_u("h", "m"), fn.sum("m", "h"), order="topo"),
        ["prop_nodes_topo", "3 frontiers"],
    ),
    "plan": (plan, ["2 workers", "received per training step", "all others"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_show_all_of_it(name: str) -> None:
    make, words = SHOWN[name]
    page = make()._repr_html_()
    shown = Checked(page).text + " "
    assert not [word for word in words if word not in shown], shown
    assert "prefers-color-scheme:dark" in page and "<script" not in page


def test_the_check_of_html_can_fail() -> None:
    for bad in ("<b>", "<script></script>", '<b onclick="x">x</b>', "<b><i></b></i>"):
        with pytest.raises(AssertionError):
            Checked(bad)


def test_tables_are_aligned() -> None:
    rows = [("a", 1234567, None), ("longer", 5, "x")]
    assert tables.text_table(("name", "number", "more"), rows, numbers=[1]) == [
        "name       number  more",
        "a       1,234,567",
        "longer          5  x",
    ]
    assert tables.text_table(("only", "head"), []) == ["only  head"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (999_600, "1 MB"), (2.5e9, "2.5 GB"), (5e15, "5,000 TB"), (None, "?")],
)
def test_bytes(count: float | None, text: str) -> None:
    assert tables.bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 us"), (2.5e-5, "25 us"), (0.0123, "12.3 ms"), (0.9999, "0.9999 s"), (75.25, "75.25 s")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert tables.seconds_text(seconds) == text
