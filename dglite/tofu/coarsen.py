"""Group the tensors and operators of a training step, to make the search small.

Tensors that are split in the same way form a *tensor group*: a tensor with its gradient and the optimizer's state, the
operands of element-wise operators, and the same tensor in all time steps of an unrolled network. Operators that are
called with the same shapes on the same groups form an *operator group*: it has one strategy, its cost is multiplied.
A forward operator and its backward operators share their tensor groups, which is what makes the result nearly a chain.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .capture import Captured
from .nodes import argument_key, is_view
from .strategy import Strategy, TensorShape, plain_dim

StrategiesOf = Callable[[Any, Sequence[Any], Mapping[str, Any]], Sequence[Strategy]]


@dataclass(frozen=True, eq=False)
class CallSignature:
    """An operator with its shapes, once for all nodes that have them.

    Attributes
    ----------
    target
        The operator.
    strategies : tuple of Strategy
    inputs, outputs : tuple of shapes
    input_sizes, output_sizes : tuple of int
        Bytes per element.
    heavy : bool
        Whether it computes more than it reads and writes, as a product of matrices does: every worker doing all of it
        is then no way to save communication.
    tied_inputs, tied_outputs : tuple of int
        Operands that are split as the first output is, whatever the strategy.
    """

    target: Any
    strategies: tuple[Strategy, ...]
    inputs: tuple[TensorShape, ...]
    outputs: tuple[TensorShape, ...]
    input_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]
    heavy: bool
    tied_inputs: tuple[int, ...]
    tied_outputs: tuple[int, ...]


@dataclass(eq=False)
class TensorGroup:
    """Tensors of one shape that are split in the same way.

    Attributes
    ----------
    shape : tuple of int
    nodes : list of Node
    kept : int
        Bytes of those that are in memory for long: inputs, gradients, and what the backward pass reads again.
    """

    shape: TensorShape
    nodes: list[Node] = field(default_factory=list)
    kept_bytes: int = 0


@dataclass(eq=False)
class OperatorGroup:
    """Calls of one operator on the same tensor groups.

    Attributes
    ----------
    call : CallSignature
    inputs, outputs : tuple of int
        Numbers of tensor groups; -1 for an output that nothing reads.
    nodes : list of Node
    """

    call: CallSignature
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)

    @property
    def trivial(self) -> bool:
        """Whether it costs nothing, however its tensors are split."""
        call = self.call
        whole = len(call.tied_inputs) == len(call.inputs) and len(call.tied_outputs) == len(call.outputs)
        return whole and len({*self.inputs, *self.outputs} - {-1}) == 1


@dataclass(frozen=True, eq=False)
class Coarse:
    """A training step as groups of tensors and operators."""

    captured: Captured
    tensors: list[TensorGroup]
    operators: list[OperatorGroup]
    group_of: dict[Node, int]

    @cached_property
    def last_reads(self) -> dict[Node, list[Node]]:
        """The tensors that each node is the last to read, views of them counted."""
        root: dict[Node, Node] = {}
        last: dict[Node, Node] = {}
        for node in self.captured.graph.nodes:
            first = node.all_input_nodes[0] if is_view(node) else node
            root[node] = root.get(first, first)
            for used in (*node.all_input_nodes, node):
                last[root[used]] = node
                last[used] = node
        unread: dict[Node, list[Node]] = {}
        for used, node in last.items():
            unread.setdefault(node, []).append(used)
        return unread


def coarsen(captured: Captured, strategies_of: StrategiesOf, merge: bool = True) -> Coarse:
    """Return the groups of a training step.

    Raises DGLError if operators have no description; all of them are named.

    Parameters
    ----------
    captured : Captured
    strategies_of : callable
        ``strategies_of(target, args, kwargs)``, tensors as meta tensors, gives an operator's strategies.
    merge : bool
        With False every tensor and operator is its own group.
    """
    return _Coarsening(captured, strategies_of).run(merge)


class _Coarsening:
    def __init__(self, captured: Captured, strategies_of: StrategiesOf) -> None:
        self.captured = captured
        self.values = [n for n in captured.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
        self.number = {node: i for i, node in enumerate(self.values)}
        self.parent = list(range(len(self.values)))
        calls = _Calls(strategies_of)
        self.ops = [(n, *op) for n in captured.graph.nodes if (op := calls.call_of(n, self.number)) is not None]
        calls.check()

    def find(self, i: int) -> int:
        parent = self.parent
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    def join(self, i: int, j: int) -> bool:
        i, j = self.find(i), self.find(j)
        if i == j or self.values[i].meta["val"].shape != self.values[j].meta["val"].shape:
            return False
        self.parent[max(i, j)] = min(i, j)
        return True

    def run(self, merge: bool) -> Coarse:
        if merge:
            self._pair()
            self._tie()
            while self._unify():
                pass
        return self._groups()

    def _pair(self) -> None:
        captured, number = self.captured, self.number
        for value, other in (captured.gradients | captured.updates).items():
            if value in number and other in number:
                self.join(number[value], number[other])
        for node in self.values:
            if node.meta.get("drawn_as") in number:
                self.join(number[node.meta["drawn_as"]], number[node])
        names = {name: number[node] for name, node in captured.parameters.items()}
        for name, node in captured.state.items():
            owner = names.get(name.rsplit(".", 1)[0])
            if owner is not None:
                self.join(owner, number[node])

    def _tie(self) -> None:
        for _, call, inputs, outputs in self.ops:
            if call.tied_outputs and outputs[0] >= 0:
                for i in call.tied_inputs:
                    self.join(inputs[i], outputs[0])
                for i in call.tied_outputs:
                    if outputs[i] >= 0:
                        self.join(outputs[i], outputs[0])

    def _unify(self) -> bool:
        """Join what equal operators make of equal tensors, and what a heavy one does with the same parameter.

        The second is how the time steps of an unrolled network are found: they share their weights.
        """
        changed = False
        weights = self._weights()
        outputs_of: dict[Any, tuple[int, ...]] = {}
        users: dict[Any, tuple[int, ...]] = {}
        for _, call, inputs, outputs in self.ops:
            roots = tuple(map(self.find, inputs))
            first = outputs_of.setdefault((call, roots), outputs)
            if first is not outputs:
                changed |= self._join_all(first, outputs)
            shared = [(i, r) for i, r in enumerate(roots) if r in weights] if call.heavy else []
            if shared:
                first = users.setdefault((call, *shared), inputs + outputs)
                changed |= self._join_all(first, inputs + outputs)
        return changed

    def _weights(self) -> set[int]:
        """Return the groups of parameters, and of what is only a view of one."""
        groups = {self.find(self.number[node]) for node in self.captured.parameters.values()}
        for _, call, inputs, outputs in self.ops:
            if getattr(call.target, "is_view", False) and outputs[0] >= 0 and self.find(inputs[0]) in groups:
                groups.add(self.find(outputs[0]))
        return groups

    def _join_all(self, first: Sequence[int], second: Sequence[int]) -> bool:
        joined = [self.join(a, b) for a, b in zip(first, second, strict=True) if a >= 0 and b >= 0]
        return any(joined)

    def _groups(self) -> Coarse:
        order: dict[int, int] = {}
        tensors: list[TensorGroup] = []
        group_of: dict[Node, int] = {}
        stored = self._stored_nodes()
        for i, node in enumerate(self.values):
            root = self.find(i)
            if root not in order:
                order[root] = len(tensors)
                tensors.append(TensorGroup(tuple(node.meta["val"].shape)))
            group = tensors[order[root]]
            group.nodes.append(node)
            group.kept_bytes += node.meta["val"].numel() * node.meta["val"].element_size() if node in stored else 0
            group_of[node] = order[root]
        groups: dict[Any, OperatorGroup] = {}
        for node, call, inputs, outputs in self.ops:
            ins = tuple(order[self.find(i)] for i in inputs)
            outs = tuple(order[self.find(i)] if i >= 0 else -1 for i in outputs)
            groups.setdefault((call, ins, outs), OperatorGroup(call, ins, outs)).nodes.append(node)
        return Coarse(self.captured, tensors, list(groups.values()), group_of)

    def _stored_nodes(self) -> set[Node]:
        gradients = self.captured.gradients
        nodes = {gradients[p] for p in self.captured.parameters.values() if p in gradients}
        for node in self.values:
            later = any(user.meta.get("phase") == "backward" for user in node.users)
            if node.op == "placeholder" or (node.meta["phase"] == "forward" and later):
                nodes.add(node)
        return nodes


class _Calls:
    """Finds the operator of a node with its strategies, once for all nodes with the same shapes and numbers."""

    def __init__(self, strategies_of: StrategiesOf) -> None:
        self.strategies_of = strategies_of
        self.signatures: dict[Any, CallSignature] = {}
        self.unknown: dict[str, str] = {}

    def call_of(
        self, node: Node, number: dict[Node, int]
    ) -> tuple[CallSignature, tuple[int, ...], tuple[int, ...]] | None:
        inputs = node.all_input_nodes
        if node.op != "call_function" or node.target is operator.getitem or not inputs:
            return None
        operands: list[Node] = []
        key = (node.target, argument_key(node.args, operands), argument_key(node.kwargs, operands))
        call = self.signatures.get(key)
        if call is None:
            call = self._describe(node, operands)
            if call is None:
                return None
            self.signatures[key] = call
        if isinstance(node.meta["val"], torch.Tensor):
            outputs: tuple[int, ...] = (number[node],)
        else:
            numbers = {user.args[1]: number[user] for user in node.users}
            outputs = tuple(numbers.get(i, -1) for i in range(len(call.outputs)))
        return call, tuple(number[n] for n in operands), outputs

    def _describe(self, node: Node, operands: Sequence[Node]) -> CallSignature | None:
        try:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            strategies = tuple(self.strategies_of(node.target, args, kwargs))
        except DGLError as error:
            self.unknown.setdefault(str(node.target), str(error))
            return None
        value = node.meta["val"]
        outs = [value] if isinstance(value, torch.Tensor) else list(value)
        inputs = tuple(tuple(n.meta["val"].shape) for n in operands)
        nothing = [len(region) * (0,) for region in strategies[0].outputs] if strategies else [()] * len(outs)
        outputs = tuple(tuple(v.shape) if v is not None else nothing[i] for i, v in enumerate(outs))
        tied = _tied(strategies, inputs, outputs)
        return CallSignature(
            node.target,
            strategies,
            inputs,
            outputs,
            tuple(n.meta["val"].element_size() for n in operands),
            tuple(v.element_size() if v is not None else 0 for v in outs),
            _is_heavy(node.target, strategies, inputs, outputs),
            *tied,
        )

    def check(self) -> None:
        if self.unknown:
            names = ", ".join(sorted(self.unknown))
            raise DGLError(
                f"no description says how to split {names}: describe each with dglite.tofu, or write the module without"
                f" it ({next(iter(self.unknown.values()))})"
            )


def _tied(strategies: Sequence[Strategy], inputs: Any, outputs: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the inputs and outputs that are cut exactly as the first output is, in every dimension of it."""
    shape = outputs[0]
    by_dim = {plain_dim(s.outputs[0]): s for s in strategies}
    cut = [s for s in strategies if s.extent > 1]
    if not shape or any({*s.combine} != {"concat"} or plain_dim(s.outputs[0]) is None for s in cut):
        return (), ()
    if any(size > 1 and d not in by_dim for d, size in enumerate(shape)):
        return (), ()

    def same(side: str, i: int) -> bool:
        return all(plain_dim(getattr(s, side)[i]) == plain_dim(s.outputs[0]) for s in cut)

    ins = tuple(i for i, other in enumerate(inputs) if other == shape and same("inputs", i))
    return ins, tuple(i for i, other in enumerate(outputs) if other == shape and same("outputs", i))


def _is_heavy(target: Any, strategies: Sequence[Strategy], inputs: Any, outputs: Any) -> bool:
    work = math.prod({s.index: s.extent for s in strategies}.values())
    largest = max((math.prod(shape) for shape in (*inputs, *outputs)), default=0)
    return work > 4 * largest or any(word in str(target) for word in ("attention", "convolution", "mm."))
