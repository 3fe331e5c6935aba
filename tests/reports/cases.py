"""What the cases share: ``@report``, which names the public report that a test answers, and the edges of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch

from dglite.graph import DGLGraph

Test = TypeVar("Test", bound=Callable[..., None])

ADDRESS = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*")
"""``owner/repository#number``, of an issue or a pull request on GitHub."""


class Report(NamedTuple):
    """The report that a test answers."""

    address: str
    title: str
    also: tuple[str, ...]


def report(address: str, title: str, also: str = "") -> Callable[[Test], Test]:
    """Say which report a test answers: ``title`` is the situation in our words, ``also`` further addresses of it."""

    def attach(test: Test) -> Test:
        test.report = Report(address, title, tuple(also.split()))  # type: ignore[attr-defined]
        return test

    return attach


def pairs(g: DGLGraph, etype: object = None) -> list[tuple[int, int]]:
    """Return the edges of one type as (source, destination), in the order of their ids."""
    src, dst = g.edges(order="eid", etype=etype)
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def ids(*numbers: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Return a tensor of ids."""
    return torch.tensor(numbers, dtype=dtype)
