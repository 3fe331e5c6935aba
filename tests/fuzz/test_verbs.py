"""Message passing against plain torch: random programs on random graphs by every verb, values and gradients.

A few hundred cases of a pool of programs, always the same ones; with ``--full`` thousands of new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import dglite
import dglite.function as fn
from tests.fuzz import oracle
from tests.fuzz.programs import FLOATS, Program, program

OPEN: Mapping[str, Callable[[Program], bool]] = {}
"""Defects that are known and not mended yet, with the programs that meet them, which are left out."""


def _overflows(p: Program) -> bool:
    """Whether products of many numbers leave a 16-bit float's range on the way, which the oracle's float64 does not."""
    return p.dtype in (torch.float16, torch.bfloat16) and "prod" in str(p.reduce)


def _may_tie(p: Program) -> bool:
    """Whether rounding may make two messages equal of which the oracle's float64 says that one wins an extremum.

    ``tanh`` does so to float32, too: near 1 it has fewer values than its argument.
    """
    extremum = "max" in str(p.reduce) or "min" in str(p.reduce)
    squeezed = "tanh" in f"{p.message} {p.reduce}"
    return extremum and (p.dtype in (torch.float16, torch.bfloat16) or (squeezed and p.dtype is torch.float32))


FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
POOL = 160
PROGRAMS = (st.integers(0, 2**32).map(program) if FULL else st.sampled_from([program(i) for i in range(POOL)])).filter(
    lambda p: not any(meets(p) for meets in OPEN.values()) and not _overflows(p)
)


def fuzzed(examples: int) -> Any:
    """Run a test on this many cases, with ``--full`` twenty times as many."""
    return settings(
        max_examples=examples * 20 if FULL else examples,
        deadline=None,
        derandomize=not FULL,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@dataclass(frozen=True)
class Shape:
    """A graph: its kind, how many nodes each side has, its edges, the dtype of ids, threads, and a seed for values.

    ``edges`` is their number in a graph with more of them than one would write down.
    """

    kind: str
    num_src: int
    num_dst: int
    edges: Sequence[tuple[int, int]] | int
    idtype: torch.dtype
    threads: int
    seed: int

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        if isinstance(self.edges, int):  # half of the nodes receive nothing
            rng = np.random.default_rng(self.seed)
            both = torch.from_numpy(rng.integers(0, [self.num_src, self.num_dst // 2], (self.edges, 2)))
        else:
            both = torch.tensor(self.edges, dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]


@st.composite
def shapes(draw: st.DrawFn, kinds: Sequence[str] = ("graph", "graph", "bipartite", "block")) -> Shape:
    """Parallel edges, self-loops, nodes without edges and no edges at all come up often; a large graph sometimes."""
    edges: list[tuple[int, int]] | int
    kind, seed = draw(st.sampled_from(kinds)), draw(st.integers(0, 2**20))
    num_src = draw(st.integers(1, 7))
    num_dst = num_src if kind == "graph" else draw(st.integers(1, 7))
    if draw(st.integers(0, 9)) == 0:
        num_src, num_dst, edges = (200, 200, 3000) if kind == "graph" else (150, 210, 900)
    else:
        edges = draw(st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), max_size=14))
    idtype = draw(st.sampled_from([torch.int64, torch.int32]))
    return Shape(kind, num_src, num_dst, edges, idtype, draw(st.sampled_from([1, 2])), seed)


class Case:
    """A graph with the columns that a program reads, and the same as ids and tensors for the oracle.

    The oracle's tensors are float64 where the columns are floats: leaves of their own, with the same values.
    """

    def __init__(self, of: Program, shape: Shape, seed: int = 0) -> None:
        if shape.kind == "block":  # its destination nodes are the first of its source nodes
            shape = replace(shape, num_src=max(shape.num_src, shape.num_dst))
        src, dst = shape.ends
        self.program, self.shape = of, shape
        self.num_dst = max(shape.num_dst, 1)
        self.g = self._graph(src, dst)
        torch.manual_seed(shape.seed + seed)
        self.leaves: dict[str, tuple[Tensor, Tensor]] = {}
        rows = {"src": shape.num_src, "dst": self.num_dst, "edge": len(src)}
        sides = {"src": "hg", "dst": "hg", "edge": "wk"}
        if shape.kind == "graph":
            del sides["src"]
        for side, names in sides.items():
            for name in names:
                self.leaves[f"{side}.{name}"] = self._values((rows[side], *of.shapes[name]))
        for side, frame in (("src", self.g.srcdata), ("dst", self.g.dstdata), ("edge", self.g.edata)):
            for name in sides.get(side, ()):
                frame[name] = self.leaves[f"{side}.{name}"][0]
        columns = {
            side: {name: self.leaves[f"{side if side in sides else 'dst'}.{name}"][1] for name in names}
            for side, names in (("src", "hg"), ("dst", "hg"), ("edge", "wk"))
        }
        self.relation = oracle.Relation(src, dst, self.num_dst, columns["src"], columns["dst"], columns["edge"])

    def _graph(self, src: Tensor, dst: Tensor) -> Any:
        ends, shape = (src, dst), self.shape
        if shape.kind == "graph":
            return dglite.graph(ends, num_nodes=shape.num_src, idtype=shape.idtype)
        if shape.kind == "block":
            block = dglite.create_block(ends, num_src_nodes=shape.num_src, num_dst_nodes=shape.num_dst)
            return block.int() if shape.idtype is torch.int32 else block
        return dglite.heterograph(
            {("a", "to", "b"): ends}, num_nodes_dict={"a": shape.num_src, "b": shape.num_dst}, idtype=shape.idtype
        )

    def _values(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return numbers of both signs, away from 0."""
        signs = torch.randint(0, 2, shape) * 2 - 1
        x = ((torch.rand(shape, dtype=torch.float64) * 1.4 + 0.3) * signs).to(self.program.dtype)
        return laid_out(x, int(torch.randint(0, 6, ()))).requires_grad_(), x.double().requires_grad_()

    def functions(self) -> tuple[Any, Any, Any]:
        """Return the message, reduce and apply function for dglite."""
        message, reduce, apply = self.program.functions()
        if message is None:
            message = getattr(fn, self.program.message[0])(*self.program.message[1:], "m")
        return message, reduce or getattr(fn, self.program.reduce)("m", "out"), apply

    def nodes(self, some: Sequence[int]) -> Tensor:
        """Return distinct destination nodes that ``some`` numbers choose."""
        return torch.unique(torch.tensor(some, dtype=torch.int64) % self.num_dst)


def laid_out(x: Tensor, how: int) -> Tensor:
    """Return the same values in memory of another layout."""
    if how == 0 and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if how == 1 and x.dim() > 1:
        return torch.cat([x, x], -1)[..., : x.shape[-1]]
    if how == 2:
        return torch.stack([x, x], 1)[:, 1]
    return x.clone()


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check(cases: Sequence[Case], result: Tensor | None, target: Tensor | None) -> None:
    """Compare a column, and its gradients in all leaves of the cases."""
    if target is None:
        assert result is None or not result.any()
        return
    assert result is not None
    dtype = cases[0].program.dtype
    assert result.dtype is dtype, (result.dtype, dtype)
    close(result, target, dtype, "values")
    if not target.requires_grad or _may_tie(cases[0].program):
        return
    weights = torch.cos(torch.arange(target.numel(), dtype=torch.float64)).view_as(target)
    constant = cases[0].program.constant
    names = ["c", *(name for case in cases for name in case.leaves)]
    ours = [constant, *(x for case in cases for x, _ in case.leaves.values())]
    theirs = [constant, *(x for case in cases for _, x in case.leaves.values())]
    expected = torch.autograd.grad((target * weights).sum(), theirs, allow_unused=True)
    if not result.requires_grad:
        assert not any(x is not None and x.any() for x in expected)
        return
    gradients = torch.autograd.grad((result * weights.to(dtype)).sum(), ours, allow_unused=True)
    for name, x, y in zip(names, gradients, expected, strict=True):
        zero = torch.zeros(())
        close(zero if x is None else x, torch.zeros_like(x if x is not None else zero) if y is None else y, dtype, name)


def close(result: Tensor, expected: Tensor, dtype: torch.dtype, what: str) -> None:
    if result.dim() == 0 and expected.dim():
        result = torch.zeros_like(expected)
    assert result.shape == expected.shape, (what, result.shape, expected.shape)
    scale = float(expected.detach().abs().max()) if expected.numel() else 1.0
    tolerance = FLOATS[dtype]
    torch.testing.assert_close(
        result.double(),
        expected.double(),
        rtol=tolerance,
        atol=tolerance * max(scale, 1.0),
        msg=lambda text: f"{what}: {text}",
    )


VERBS = ["update_all", "pull", "push", "send_and_recv", "send, recv", "two sends", "apply_edges", "some apply_edges"]


@fuzzed(400)
@given(
    of=PROGRAMS,
    shape=shapes(),
    verb=st.sampled_from(VERBS),
    some=st.lists(st.integers(0, 1000), min_size=1, max_size=5),
)
def test_verbs(of: Program, shape: Shape, verb: str, some: list[int]) -> None:
    with threads(shape.threads):
        run_verb(of, shape, verb, some)


def run_verb(of: Program, shape: Shape, verb: str, some: list[int]) -> None:
    if not shape.edges:
        of = replace(of, apply=None)
    case = Case(of, shape)
    g, relation = case.g, case.relation
    message, reduce, apply = case.functions()
    src, dst = relation.src, relation.dst
    every = torch.arange(len(src))
    ids, nodes = every, torch.arange(case.num_dst)
    if verb == "update_all":
        g.update_all(message, reduce, apply)
    elif verb == "pull":
        nodes = case.nodes(some)
        ids = every[torch.isin(dst, nodes)]
        if not len(ids) and apply is not None:
            return
        g.pull(nodes.to(shape.idtype), message, reduce, apply)
    elif verb == "push":
        sources = torch.unique(torch.tensor(some) % case.shape.num_src)
        order = torch.argsort(src, stable=True)  # messages come source by source
        ids = order[torch.isin(src[order], sources)]
        nodes = torch.unique(dst[ids])
        g.push(sources.to(shape.idtype), message, reduce, apply)
    elif verb.startswith("send"):
        ids = torch.unique(torch.tensor(some) % len(src)) if len(src) else every
        chosen = ids.to(shape.idtype)
        if verb == "send_and_recv":
            nodes = torch.unique(dst[ids])
            g.send_and_recv(chosen, message, reduce, apply)
        else:
            g.send(chosen, message)
            g.recv(reduce_func=reduce, apply_node_func=apply)
    elif verb == "two sends":
        g.send(message_func=message)
        g.send(every[::2].to(shape.idtype), message)
        g.recv(reduce_func=reduce, apply_node_func=apply)
    else:
        edges_alone(case, message, every if verb == "apply_edges" else every[::2])
        return
    expected = oracle.pull_into(of, relation, ids, nodes) if len(ids) else None
    check([case], g.dstdata.get("out"), expected)


def edges_alone(case: Case, message: Any, ids: Tensor) -> None:
    whole = len(ids) == len(case.relation.src)
    if whole:
        case.g.apply_edges(message)
    else:
        case.g.apply_edges(message, ids.to(case.shape.idtype))
    expected = None
    if len(ids):
        rows = oracle.messages_of(case.program, case.relation, ids)["m"]
        expected = rows.new_zeros(len(case.relation.src), *rows.shape[1:]).index_copy(0, ids, rows)
    check([case], case.g.edata.get("m"), expected)


NODE_FUNCTIONS = [
    lambda nodes: {"out": torch.tanh(nodes.data["h"]) * 2},
    lambda nodes: {"out": nodes.data["h"] + nodes.data["g"]},
    lambda nodes: {"out": nodes.data["h"].reshape(len(nodes.data["h"]), -1).sum(1)},
]


@fuzzed(20)
@given(
    of=PROGRAMS.filter(lambda p: p.recorded),
    shape=shapes(["graph"]),
    function=st.sampled_from(NODE_FUNCTIONS),
    some=st.none() | st.lists(st.integers(0, 1000), min_size=1, max_size=5),
)
def test_apply_nodes(of: Program, shape: Shape, function: Any, some: list[int] | None) -> None:
    case = Case(of, shape)
    nodes = torch.arange(case.num_dst) if some is None else case.nodes(some)
    case.g.apply_nodes(function, *([] if some is None else [nodes.to(shape.idtype)]))
    rows = function(oracle.SimpleNamespace(data={name: x[nodes] for name, x in case.relation.dstdata.items()}))["out"]
    check([case], case.g.ndata["out"], rows.new_zeros(case.num_dst, *rows.shape[1:]).index_copy(0, nodes, rows))


GROUP_FUNCTIONS = [
    lambda edges: {"p": edges.data["w"].cumsum(1)},
    lambda edges: {"p": torch.softmax(edges.data["w"], 1) * edges.src["h"]},
    lambda edges: {"p": edges.dst["g"] - edges.data["k"].mean(1, keepdim=True)},
]


@fuzzed(25)
@given(
    of=PROGRAMS.filter(lambda p: p.recorded),
    shape=shapes(),
    function=st.sampled_from(GROUP_FUNCTIONS),
    by=st.sampled_from(["src", "dst"]),
)
def test_group_apply_edges(of: Program, shape: Shape, function: Any, by: str) -> None:
    case = Case(of, shape)
    with threads(shape.threads):
        case.g.group_apply_edges(by, function)
        expected = oracle.group_apply(function, case.relation, by) if shape.edges else None
        check([case], case.g.edata.get("p"), expected)


@fuzzed(50)
@given(
    of=PROGRAMS.filter(lambda p: p.dtype in (torch.float32, torch.float64) and p.apply is None),
    first=shapes(["bipartite"]),
    second=shapes(["bipartite"]),
    cross=st.sampled_from(["sum", "mean", "max", "min", "stack"]),
)
def test_multi_update_all(of: Program, first: Shape, second: Shape, cross: str) -> None:
    """Two edge types into one node type, each with columns of its own."""
    num_dst = max(first.num_dst, second.num_dst)
    kinds = [replace(one, num_dst=num_dst) for one in (first, second)]
    if not all(one.edges for one in kinds):
        return
    cases = [Case(of, kind, seed) for seed, kind in enumerate(kinds)]
    g = dglite.heterograph(
        {("a", "x", "t"): kinds[0].ends, ("b", "y", "t"): kinds[1].ends},
        num_nodes_dict={"a": kinds[0].num_src, "b": kinds[1].num_src, "t": num_dst},
        idtype=first.idtype,
    )
    cases[1].leaves["dst.h"], cases[1].leaves["dst.g"] = cases[0].leaves["dst.h"], cases[0].leaves["dst.g"]
    shared = cases[0].relation.dstdata
    cases[1].relation = replace(cases[1].relation, dstdata=shared)
    for case, ntype, etype in zip(cases, "ab", "xy", strict=True):
        for name in "hg":
            g.nodes[ntype].data[name] = case.leaves[f"src.{name}"][0]
            g.nodes["t"].data[name] = cases[0].leaves[f"dst.{name}"][0]
        for name in "wk":
            g.edges[etype].data[name] = case.leaves[f"edge.{name}"][0]
    message, reduce, _ = cases[0].functions()
    with threads(first.threads):
        g.multi_update_all({"x": (message, reduce), "y": (message, reduce)}, cross)
        result = g.nodes["t"].data.get("out")
    check(cases, result, merged(of, cases, cross))


def merged(of: Program, cases: Sequence[Case], cross: str) -> Tensor:
    """Return the columns of both edge types merged; an extremum of extrema passes over those without messages."""
    parts = []
    for case in cases:
        every = torch.arange(len(case.relation.src))
        part = oracle.pull_into(of, case.relation, every, torch.arange(case.num_dst))
        if cross == of.reduce and cross in ("max", "min"):
            empty = torch.ones(case.num_dst, dtype=torch.bool).index_fill(0, case.relation.dst, False)
            empty = empty.reshape(-1, *[1] * (part.dim() - 1)).expand_as(part)
            part = part.masked_fill(empty, -torch.inf if cross == "max" else torch.inf)
        parts.append(part)
    both = torch.stack(parts, 1)
    if cross == "stack":
        return both
    if cross in ("sum", "mean"):
        return getattr(both, cross)(1)
    extreme = both.amax(1) if cross == "max" else both.amin(1)
    return extreme.masked_fill(extreme.isinf(), 0.0)


PROPAGATED = [
    (lambda edges: {"m": edges.src["h"] * edges.data["w"]}, fn.sum("m", "h")),
    (fn.u_mul_e("h", "w", "m"), fn.mean("m", "h")),
    (lambda edges: {"m": edges.src["h"] - edges.dst["h"]}, lambda nodes: {"h": torch.tanh(nodes.mailbox["m"].sum(1))}),
]
PROPAGATED_PLAIN = [
    (lambda e: e.src["h"] * e.data["w"], lambda m: m.sum(1)),
    (lambda e: e.src["h"] * e.data["w"], lambda m: m.mean(1)),
    (lambda e: e.src["h"] - e.dst["h"], lambda m: torch.tanh(m.sum(1))),
]


@fuzzed(25)
@given(
    shape=shapes(["graph"]),
    which=st.integers(0, len(PROPAGATED) - 1),
    frontiers=st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_prop_nodes(shape: Shape, which: int, frontiers: list[list[int]]) -> None:
    case = Case(replace(program(0), shapes=dict.fromkeys("hgwk", (3,)), dtype=torch.float64), shape)
    message, reduce = PROPAGATED_PLAIN[which]
    src, dst = shape.ends
    h, chosen = case.relation.dstdata["h"], [case.nodes(some) for some in frontiers]
    for nodes in chosen:
        ids = torch.arange(len(src))[torch.isin(dst, nodes)]
        relation = replace(case.relation, srcdata={"h": h}, dstdata={"h": h})
        if not len(ids):
            return
        messages = message(relation.sides(ids))
        parts = [(v, reduce(messages[places])) for v, places in oracle.by_degree(dst[ids])]
        h = h.index_copy(0, torch.cat([v for v, _ in parts]), torch.cat([x for _, x in parts]))
        without = nodes[~torch.isin(nodes, dst)]
        h = h.index_fill(0, without, 0.0)
    with threads(shape.threads):
        case.g.prop_nodes([nodes.to(shape.idtype) for nodes in chosen], *PROPAGATED[which])
    check([case], case.g.ndata["h"], h)


@pytest.mark.parametrize("number", range(3))
def test_a_program_is_its_number(number: int) -> None:
    one, other = program(number), program(number)
    assert (one.message, one.reduce, one.shapes, one.dtype) == (other.message, other.reduce, other.shapes, other.dtype)
