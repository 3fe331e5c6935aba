"""Message passing by plain torch: features gathered for every edge, messages of each node side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.fuzz.programs import Program

__all__ = ["Relation", "group_apply", "messages_of", "pull_into", "reduced"]


@dataclass(frozen=True)
class Relation:
    """Edges as ids, and the columns of their ends and their own."""

    src: Tensor
    dst: Tensor
    num_dst: int
    srcdata: Mapping[str, Tensor]
    dstdata: Mapping[str, Tensor]
    edata: Mapping[str, Tensor]

    def sides(self, ids: Tensor) -> SimpleNamespace:
        """Return the columns of both ends and of the edges ``ids``, a row for each."""
        return SimpleNamespace(
            src={name: x[self.src[ids]] for name, x in self.srcdata.items()},
            dst={name: x[self.dst[ids]] for name, x in self.dstdata.items()},
            data={name: x[ids] for name, x in self.edata.items()},
        )


def messages_of(program: Program, relation: Relation, ids: Tensor) -> dict[str, Tensor]:
    """Return the messages of each of the edges ``ids``."""
    sides = relation.sides(ids)
    return program.functions()[0](sides) if program.recorded else {"m": _built_in(program, sides, len(ids))}


def _built_in(program: Program, sides: SimpleNamespace, rows: int) -> Tensor:
    name, *fields = program.message
    columns = {"u": sides.src, "v": sides.dst, "e": sides.data}
    if name.startswith("copy"):
        return columns[name[-1]][fields[0]]
    operands = [columns[side][field] for side, field in zip((name[0], name[-1]), fields, strict=True)]
    rank = max(x.dim() for x in operands)
    x, y = (one.reshape(rows, *[1] * (rank - one.dim()), *one.shape[1:]) for one in operands)
    operator = name.split("_")[1]
    if operator == "dot":
        return (x * y).sum(-1, keepdim=True)
    return {"add": x + y, "sub": x - y, "mul": x * y}[operator] if operator != "div" else x / y


REDUCERS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda m: m.sum(1),
    "mean": lambda m: m.mean(1),
    "max": lambda m: m.max(1)[0],
    "min": lambda m: m.min(1)[0],
    "prod": lambda m: m.prod(1),
}


def by_degree(ends: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return, for each degree, nodes and the places (nodes, degree) of their edges in order."""
    order = torch.argsort(ends, stable=True)
    nodes, counts = torch.unique(ends, return_counts=True)
    starts = torch.cumsum(counts, 0) - counts
    results = []
    for degree in torch.unique(counts).tolist():
        chosen = counts == degree
        results.append((nodes[chosen], order[starts[chosen][:, None] + torch.arange(degree)]))
    return results


def reduced(program: Program, relation: Relation, ids: Tensor, messages: dict[str, Tensor]) -> Tensor:
    """Return what the reducer makes of the messages on the edges ``ids``; 0 for a node without any."""
    parts = []
    for nodes, places in by_degree(relation.dst[ids]):
        mailbox = {name: x[places] for name, x in messages.items()}
        if program.reduces:
            data = {name: x[nodes] for name, x in relation.dstdata.items()}
            result = program.functions()[1](SimpleNamespace(mailbox=mailbox, data=data))["out"]
        else:
            result = REDUCERS[program.reduce](mailbox["m"])
        parts.append((nodes, result))
    out = parts[0][1].new_zeros(relation.num_dst, *parts[0][1].shape[1:])
    return out.index_copy(0, torch.cat([nodes for nodes, _ in parts]), torch.cat([x for _, x in parts]))


def pull_into(program: Program, relation: Relation, ids: Tensor, nodes: Tensor) -> Tensor:
    """Return the column that a verb writes: messages on the edges ``ids``, and the apply function at ``nodes``."""
    out = reduced(program, relation, ids, messages_of(program, relation, ids))
    apply = program.functions()[2]
    if apply is None:
        return out
    data = {name: x[nodes] for name, x in relation.dstdata.items()}
    after = apply(SimpleNamespace(data={**data, "out": out[nodes]}))["out"]
    return out.new_zeros(relation.num_dst, *after.shape[1:]).index_copy(0, nodes, after)


def group_apply(function: Callable[..., Any], relation: Relation, by: str) -> Tensor:
    """Return the column that ``group_apply_edges`` writes."""
    ends = relation.src if by == "src" else relation.dst
    parts = []
    for _, places in by_degree(ends):
        rows = relation.sides(places.flatten())
        shaped = SimpleNamespace(
            **{
                side: {name: x.reshape(*places.shape, *x.shape[1:]) for name, x in columns.items()}
                for side, columns in vars(rows).items()
            }
        )
        result = function(shaped)["p"]
        parts.append((places.flatten(), result.flatten(0, 1)))
    joined = torch.cat([x for _, x in parts])
    return torch.zeros_like(joined).index_copy(0, torch.cat([places for places, _ in parts]), joined)
