"""g-SpMM and g-SDDMM in parts, and the halo that a part of the destinations reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
from dglite.ops import core  # noqa: F401  (registers the operators)
from dglite.tofu.aten import strategies_of
from dglite.tofu.graphs import operator, words_of
from dglite.tofu.library.graph import Neighbors
from dglite.tofu.verify import verify

GRAPH = dglite.graph(([0, 4, 4, 1, 3, 3, 3], [1, 1, 0, 2, 2, 2, 3]), num_nodes=5)


def words(turned: int = 0) -> list[int]:
    adj = GRAPH.adjacency()
    return words_of(adj.reverse() if turned else adj)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


CASES: list[tuple[str, list[torch.Tensor], str, set[str]]] = [
    ("spmm", [r(5, 3)], "sum 0 u0", {"v", "e", "f0"}),
    ("spmm", [r(5, 4, 3), r(7, 4, 1)], "sum 0 u0 e1 mul", {"v", "e", "f0", "f1"}),
    ("spmm", [r(5, 3), r(7), r(5, 3)], "sum 0 u0 v2 add e1 mul", {"v", "e", "f0"}),
    ("spmm", [r(5, 3), r(1, 3)], "mean 0 u0 g1 mul", {"v", "f0"}),
    ("spmm", [r(5, 3)], "max 0 u0", {"v", "f0"}),
    ("spmm", [r(5, 3)], "max 1 u0", {"f0"}),
    ("sddmm", [r(5, 3), r(5, 3)], "0 u0 v1 mul", {"e", "f0"}),
    ("sddmm", [r(5, 2, 3), r(5, 2, 3)], "1 u0 v1 mul", {"e", "f0", "f1"}),
    ("sddmm", [r(5, 2, 3), r(5, 2, 1)], "1 u0 v1 mul", {"e", "f0"}),
    ("sddmm", [r(7, 3), r(5, 3)], "0 e0 u1 add", {"e", "f0"}),
]


IDS = [f"{name} {recipe}" for name, _, recipe, _ in CASES]


@pytest.mark.parametrize(("name", "inputs", "recipe", "indices"), CASES, ids=IDS)
@pytest.mark.parametrize("turned", [0, 1])
def test_parts_make_the_whole(name: str, inputs: Any, recipe: str, indices: set[str], turned: int) -> None:
    target = operator(name)
    result = verify(target, (inputs, words(turned), recipe))
    assert {s.index for s in result} == indices


def test_a_part_of_the_destinations_reads_its_halo() -> None:
    args = ([r(5, 3)], words(), "sum 0 u0")
    (strategy,) = (s for s in strategies_of(operator("spmm"), args) if s.index == "v")
    halo = strategy.inputs[0][0]
    assert isinstance(halo, Neighbors)
    assert halo.ids(0, 2).tolist() == [0, 4]
    assert halo.count(2, 3, 5) == 2
    assert halo.count(4, 5, 5) == 0


@pytest.mark.parametrize("scale", ["in", "1 / in", "1 / sqrt(out)"])
def test_scales_of_degrees_are_cut(scale: str) -> None:
    result = verify(operator("degree_scale"), ([], words(), f"float64 {scale}"))
    assert [s.index for s in result] == ["i"]
