"""Registered operators called with what no program of ours would pass: an error that says so, never foreign memory.

Calls are those that the operations of the table make, forward and backward; each is spoilt in every way. All of it runs
in another process, in which a crash is a failure that names the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dglite
from dglite import DGLError, nn
from dglite.backend.torch_library import _OPERATORS
from tests import forked
from tests.nn import dense
from tests.situations.operations import operations
from tests.situations.situations import differentiable, function_of
from tests.versions import exports, has_torch

Call = tuple[Any, ...]
"""Of an operator: inputs, source and destination of every edge, their counts, recipe."""
SPOILT, RIGHT = ", spoilt: ", "the result of the right call"
REFUSALS = ("DGLError: ", "UnknownIdError: ")
WITHOUT_IDS = {"products", "segment_attention", "segment_reduce", "segment_softmax", "typed_rows"}
"""Operators whose structure is no list of edges."""


class _Calls(TorchDispatchMode):
    """Notes each operator's calls, one for each recipe."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], Call] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "dglite":
            self.calls.setdefault((func._schema.name.removeprefix("dglite::"), args[-1]), args)
        return func(*args, **(kwargs or {}))


def _in_programs() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Return models whose programs call operators that nothing else calls, and their arguments."""
    g, x = dense.graph(), torch.randn(dense.graph().num_nodes(), 4)
    batch = dglite.batch([g, g])
    yield nn.GraphConv(4, 3, activation=torch.relu), (g, x)
    yield nn.SAGEConv(4, 3, "mean", activation=torch.relu), (g, x)
    yield nn.GATConv(4, 3, 2), (g, x)
    yield nn.DotGatConv(4, 3, 2), (g, x)
    yield nn.SumPooling(), (batch, torch.cat([x, x]))
    yield nn.MaxPooling(), (batch, torch.cat([x, x]))
    yield nn.GlobalAttentionPooling(torch.nn.Linear(4, 1)), (batch, torch.cat([x, x]))
    yield nn.TWIRLSConv(4, 3, 4, 2), (g, x)
    yield nn.SetTransformerEncoder(4, 2, 2, 4).eval(), (batch, torch.cat([x, x]))
    yield nn.TypedLinear(4, 3, 2), (x, torch.arange(len(x)) % 2)
    types = torch.arange(g.num_edges()) % 2
    yield nn.RelGraphConv(4, 3, 2), (g, x, types)
    # Of no gradients:
    yield nn.RelGraphConv(4, 3, 2, "basis", 2).requires_grad_(False), (g, x, types)
    yield nn.Set2Set(4, 2, 1).requires_grad_(False), (batch, torch.cat([x, x]))


def _noted_calls() -> dict[tuple[str, str], Call]:
    layers = _in_programs() if has_torch("2.7") else ()
    programs = [(dglite.export(model, *arguments).module(), arguments) for model, arguments in layers]
    with _Calls() as mode:
        for program, arguments in programs:
            results = [x for x in torch.utils._pytree.tree_leaves(program(*arguments)) if x.requires_grad]
            if results:
                torch.autograd.backward(results, [torch.ones_like(x) for x in results])
        for operation in operations():
            inputs = [x.clone().requires_grad_() for x in operation.inputs]
            try:
                results = [x for x in differentiable(function_of(operation)(*inputs)) if x.requires_grad]
                if results:
                    torch.autograd.backward(results, [torch.ones_like(x) for x in results])
                with torch.no_grad():
                    function_of(operation)(*operation.inputs)
            except DGLError:  # what reads values is refused in a mode
                continue
    return mode.calls


def _with(call: Call, **parts: Any) -> Call:
    names = ("inputs", "src", "dst", "num_src", "num_dst", "recipe")
    return tuple(parts.get(name, value) for name, value in zip(names, call, strict=True))


def _spoilt_ids(call: Call) -> Iterator[tuple[str, Call]]:
    """Return calls on edges that do not exist."""
    _, src, dst, num_src, num_dst, _ = call
    for side, ids, count in (("src", src, num_src), ("dst", dst, num_dst)):
        if not len(ids):
            continue
        for title, value in (("too large", count), ("negative", -1), ("huge", 2**31 - 1)):
            spoilt = ids.clone()
            spoilt[-1] = value
            yield f"{side} {title}", _with(call, **{side: spoilt})
        yield f"{side} of floats", _with(call, **{side: ids.double()})
        yield f"{side} shorter", _with(call, **{side: ids[:-1].clone()})
        yield f"{side} a matrix", _with(call, **{side: ids[:, None].clone()})
        yield f"{side} without values", _with(call, **{side: ids.to("meta")})
        yield f"no nodes of {side}", _with(call, **{f"num_{side}": 0})
        yield f"less than no nodes of {side}", _with(call, **{f"num_{side}": -3})


def _spoilt_inputs(name: str, call: Call) -> Iterator[tuple[str, Call]]:
    """Return calls on inputs that fit neither the structure nor each other, whatever the operator."""
    inputs = call[0]
    for i, x in enumerate(inputs):
        if name.startswith("set_attention") and i == 3:  # any number is a seed
            continue

        def replaced(y: torch.Tensor, i: int = i) -> Call:
            return _with(call, inputs=[*inputs[:i], y, *inputs[i + 1 :]])

        yield f"input {i} complex", replaced(x.to(torch.complex64))
        yield f"input {i} of booleans", replaced(x.bool())
        if x.dim() and (name, i) not in (("products", 0), ("typed_bases", 1)):  # these may have any number of rows
            yield f"input {i} with a row more", replaced(torch.cat([x, x.new_ones(1, *x.shape[1:])]))
            yield f"input {i} without rows", replaced(x[:0])
        if x.dim():
            yield f"input {i} a number", replaced(x.new_zeros(()))
        if sum(y.is_floating_point() for y in inputs) > 1:
            yield f"input {i} of another dtype", replaced(x.half() if x.is_floating_point() else x.double())
            yield f"input {i} without values", replaced(x.to("meta"))
        if x.dtype in (torch.int32, torch.int64) and x.numel():
            for title, value in (("too large", 2**31 - 1), ("negative", -7)):
                yield f"input {i} {title}", replaced(torch.full_like(x, value))


def _try(call: Callable[..., Any], args: Call, want: Any) -> str:
    """Return the error of a call, or whether its result is that of the right call."""
    try:
        result = call(*args)[0]
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return RIGHT if _is_same(result, want) else "another result"


def _is_same(x: torch.Tensor, y: torch.Tensor) -> bool:
    return not x.is_meta and x.shape == y.shape and torch.allclose(x.double(), y.double(), equal_nan=True)


def _judge_all() -> None:
    torch.set_num_threads(1)
    for (name, recipe), call in _noted_calls().items():
        operator = _OPERATORS[name]
        with torch.no_grad():
            args = _with(call, inputs=[x.detach() for x in call[0]])
            want = operator(*args)[0]
            spoilt = [*_spoilt_inputs(name, args), *([] if name in WITHOUT_IDS else _spoilt_ids(args))]
            for title, bad in spoilt:
                place = f"{name} {recipe}{SPOILT}{title}"
                print(json.dumps([place, "ended the process"]), flush=True)
                print(json.dumps([place, _try(operator, bad, want)]), flush=True)
            print(json.dumps([f"{name} {recipe}", _try(operator, args, want)]), flush=True)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    done = forked.run(_judge_all)
    verdicts: dict[str, str] = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, f"{list(verdicts)[-1:]}\n{done.stderr}"
    return verdicts


@exports
def test_every_operator_is_called(verdicts: dict[str, str]) -> None:
    assert {place.split(" ")[0] for place in verdicts} == set(_OPERATORS)


def test_bad_calls_are_refused(verdicts: dict[str, str]) -> None:
    spoilt = {place: verdict for place, verdict in verdicts.items() if SPOILT in place}
    strange = {place: verdict for place, verdict in spoilt.items() if not verdict.startswith(REFUSALS)}
    assert len(spoilt) > 1000
    assert not strange, json.dumps(strange, indent=2)


def test_right_calls_are_right(verdicts: dict[str, str]) -> None:
    right = {place: verdict for place, verdict in verdicts.items() if SPOILT not in place}
    assert set(right.values()) == {RIGHT}, json.dumps(right, indent=2)
