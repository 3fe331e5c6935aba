"""One model written in all ways gives one loss and one gradient."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tree_models import Tree, TreeFC, TreeLSTM, TreeModel, random_tree, tree_of
from tree_ways import Lazy, Messages, NodeByNode, Persistent, PersistentProgram, VertexProgram, Way

import dglite
from dglite import dynamic
from dglite.data import SSTDataset

HIDDEN = 16


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Batches here are too small for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def in_rounds(library: ModuleType, g: Any, message: Any, reduce: Any, apply: Any) -> None:
    """Update all nodes as often as there are levels: after k rounds the lowest k levels are right."""
    for _ in library.topological_nodes_generator(g):
        g.update_all(message, reduce, apply)


WAYS: dict[str, Callable[[TreeModel], Way]] = {
    "vertex program": VertexProgram,
    "lazy, cells, agenda": Lazy,
    "lazy, cells, depth": lambda model: Lazy(model, strategy="depth"),
    "lazy, operations, agenda": lambda model: Lazy(model, cells=False),
    "lazy, operations, depth": lambda model: Lazy(model, cells=False, strategy="depth"),
    "lazy, operations, one by one": lambda model: Lazy(model, cells=False, strategy="none"),
    "vertex program, lazy": PersistentProgram,
    "prop_nodes_topo": Messages,
    "update_all": lambda model: Messages(model, propagate=in_rounds),
}


@pytest.fixture(scope="module")
def treebank() -> tuple[list[Tree], int]:
    """Return short and long trees of the treebank, and the number of its words."""
    if not (Path(os.environ.get("DGLITE_DATA_DIR", "")) / "sst" / "train.txt").is_file():
        pytest.skip("DGLITE_DATA_DIR names no folder with sst/train.txt")
    data = SSTDataset()
    graphs = sorted((data[i] for i in range(64)), key=lambda g: g.num_nodes())
    return [tree_of(g) for g in graphs[::8]], data.vocab_size


def trees_at_random() -> tuple[list[Tree], int]:
    """Return trees of several sizes, a single leaf and a chain-like one among them."""
    torch.manual_seed(1)
    return [random_tree(random.Random(i), leaves, 50) for i, leaves in enumerate((7, 1, 2, 12, 3))], 50


def check(way: str, kind: type[TreeModel], trees: list[Tree], num_words: int) -> None:
    """Compare the loss and all gradients with those of plain torch."""
    torch.manual_seed(0)
    plain = NodeByNode(kind(num_words, HIDDEN))
    ours = WAYS[way](copy.deepcopy(plain.model))
    expected, result = (w.loss(w.construct(trees)) for w in (plain, ours))
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    for (name, x), y in zip(plain.model.named_parameters(), ours.model.parameters(), strict=True):
        assert x.grad is not None and y.grad is not None, name
        torch.testing.assert_close(y.grad.to_dense(), x.grad.to_dense(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [TreeLSTM, TreeFC])
@pytest.mark.parametrize("way", WAYS)
def test_loss_and_gradients_on_random_trees(way: str, kind: type[TreeModel]) -> None:
    check(way, kind, *trees_at_random())


@pytest.mark.parametrize("way", WAYS)
def test_loss_and_gradients_on_the_treebank(way: str, treebank: tuple[list[Tree], int]) -> None:
    check(way, TreeLSTM, *treebank)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [TreeLSTM, TreeFC])
@pytest.mark.parametrize("way", [Persistent, PersistentProgram])
def test_persistent_processors_take_the_same_step(way: Any, kind: type[TreeModel]) -> None:
    trees, num_words = trees_at_random()
    torch.manual_seed(0)
    plain = NodeByNode(kind(num_words, HIDDEN))
    ours = way(copy.deepcopy(plain.model), rate=0.1)
    expected = plain.loss(plain.construct(trees))
    assert ours.step(ours.construct(trees)) is None
    assert ours.handle.sync() == pytest.approx(expected.item(), rel=1e-5)
    for x, y in zip(plain.model.parameters(), ours.model.parameters(), strict=True):
        assert x.grad is not None
        torch.testing.assert_close(y.detach(), x.detach() - 0.1 * x.grad.to_dense(), rtol=1e-5, atol=1e-5)


def test_reports() -> None:
    trees, num_words = trees_at_random()
    model = TreeLSTM(num_words, HIDDEN)
    depth = max(len(dglite.topological_nodes_generator(tree.graph)) for tree in trees)
    for make in WAYS.values():
        way = make(model)
        way.step(way.construct(trees))
        report = way.report(trees)
        launches = 1 if isinstance(way, PersistentProgram) else depth  # a step of processors is one
        assert report.batches >= launches and report.scheduling_seconds >= 0
    assert VertexProgram(model).report(trees).batches == depth
    edges = sum(tree.graph.num_edges() for tree in trees)
    assert VertexProgram(model).report(trees).gathered_bytes == edges * HIDDEN * 4
    assert dynamic.last_run().bytes_gathered >= 0
