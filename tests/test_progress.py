"""Bars appear after two seconds, on terminals alone, and go again."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import progress as module
from dglite.kernels.cpu.compile import notice
from dglite.progress import progress
from dglite.transforms import neighbours


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch, delay: float = 0.0) -> Terminal:
    """Put a terminal in the place of stderr, in the test itself: pytest sets its own when a test begins."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(module, "DELAY", delay)
    return terminal


def run(**kwargs: Any) -> list[int]:
    return list(progress(range(50), "work", **kwargs))


def test_nothing_is_shown_of_what_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch, module.DELAY)
    assert run() == list(range(50)) and terminal.getvalue() == ""


def test_a_bar_is_shown_of_what_takes_long_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert run() == list(range(50))
    shown = terminal.getvalue()
    assert "work" in shown and shown.endswith("\r") and shown.rstrip("\r").split("\r")[-1].strip() == ""


def test_logs_and_pipes_show_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY", 0.0)
    for file in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", file)
        assert run() == list(range(50)) and (file is None or file.getvalue() == "")


def test_it_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert run(hide=True) == list(range(50)) and terminal.getvalue() == ""


def test_long_functions_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(neighbours, "_BLOCK", 100)
    g = dglite.rand_graph(60, 300)
    calls = {
        "nearest neighbours": lambda: neighbours._by_product(np.random.rand(60, 3), 4),
        "random walks": lambda: dglite.random_walk_pe(g, 3),
        "sweep": lambda: dglite.reorder_graph(g, "locality"),
        "parts": lambda: dglite.partition_graph_with_halo(g, torch.arange(60) % 3, 1),
        "node": lambda: dglite.inference(dglite.nn.SAGEConv(2, 2, "mean"), g, torch.ones(60, 2), 20),
    }
    for words, call in calls.items():
        terminal.seek(0), terminal.truncate()
        call()
        assert words in terminal.getvalue(), words


def test_conversions_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    networkx = pytest.importorskip("networkx")
    terminal = watched(monkeypatch)
    g = dglite.from_networkx(networkx.path_graph(5))
    assert "read edges of NetworkX" in terminal.getvalue() and g.num_edges() == 8
    assert dglite.to_networkx(g).number_of_edges() == 8
    assert "nodes for NetworkX" in terminal.getvalue() and "edges for NetworkX" in terminal.getvalue()


def test_molecules_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    terminal = watched(monkeypatch)
    assert len(dglite.from_smiles(["CCO", "c1ccccc1"])) == 2
    assert "read molecules" in terminal.getvalue()


def test_plans_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    model = torch.nn.Linear(4, 4)
    dglite.tofu.plan(model, torch.nn.functional.mse_loss, [torch.ones(2, 4), torch.ones(2, 4)], workers=2)
    for words in ("capture the step", "costs of strategies", "search for a plan"):
        assert words in terminal.getvalue(), words


def test_a_line_says_that_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the delay, once for kernels that follow each other, and on terminals alone."""
    terminal = watched(monkeypatch)
    monkeypatch.setattr(notice, "DELAY", 0.05)
    monkeypatch.setattr(notice, "_burst", notice._Burst())
    for _ in range(3):
        with notice.noticed():
            time.sleep(0.04)
    assert terminal.getvalue().count("compiles kernels") == 1
    monkeypatch.setattr(notice, "_burst", notice._Burst())
    with notice.noticed():
        pass
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with notice.noticed():
        time.sleep(0.1)
    assert terminal.getvalue().count("compiles kernels") == 1 and sys.stderr.getvalue() == ""
