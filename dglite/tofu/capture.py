"""Record a training step as one functional graph of ATen operators: forward, backward and the optimizer's update.

All tensors are on the meta device while it is recorded, so a model may be larger than any memory. The result is a
`torch.fx.Graph` without in-place operators and without dead code, whose nodes carry a meta tensor in ``meta["val"]``,
the name of the module that was running in ``meta["module"]``, ``"forward"``, ``"backward"`` or ``"update"`` in
``meta["phase"]`` and, in the backward pass, the forward node they differentiate in ``meta["forward"]`` (or None).

Operators that make tensors from nothing (``full``, ``arange``, ...) have lost their ``device``: it is the worker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node

from ..errors import DGLError
from ..progress import progress
from .nodes import Gone
from .recording import StepRecorder
from .stacks import keep_stacks
from .sums import merge_products
from .updates import record_update

__all__ = ["Captured", "capture"]


@dataclass(frozen=True)
class Captured:
    """A training step as a graph.

    Attributes
    ----------
    graph : torch.fx.Graph
        Placeholders, operators in the order in which they ran, and an output ``(loss, *updates.values())``.
    parameters, buffers, state : dict of str to Node
        Placeholders by name: ``"layer.weight"``; state of the optimizer as ``"layer.weight.exp_avg"``.
    data : tuple of Node
        The placeholders of the example inputs.
    hyper : dict of str to Node
        0-d placeholders that the optimizer reads and that a schedule may change: ``"lr.0"`` for the first group.
    constants : dict of str to Node
        Other tensors that the module reads.
    constant_values : dict of str to Tensor
        What they are.
    loss : Node
    updates : dict of Node to Node
        New values of parameters, state and buffers by their placeholders.
    gradients : dict of Node to Node
        Gradients by the forward value that they belong to.
    module : nn.Module or None
        What was captured. Graphs that it has are named by numbers in the operators, and live as long as it does.
    """

    graph: Graph
    parameters: dict[str, Node]
    buffers: dict[str, Node]
    state: dict[str, Node]
    data: tuple[Node, ...]
    hyper: dict[str, Node]
    constants: dict[str, Node]
    constant_values: dict[str, torch.Tensor]
    loss: Node
    updates: dict[Node, Node]
    gradients: dict[Node, Node] = field(repr=False)
    module: nn.Module | None = field(default=None, repr=False)

    def weight_bytes(self) -> int:
        """Return the bytes of parameters, their gradients and the optimizer's state."""
        sizes = [_bytes(node) * 2 for node in self.parameters.values()] + [_bytes(n) for n in self.state.values()]
        return sum(sizes)


def capture(
    module: nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    example_inputs: Sequence[torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> Captured:
    """Return the graph of one training step of ``module``.

    Parameters
    ----------
    module : nn.Module
        Its parameters may be on any device, the meta device too. It is left as it is.
    loss : callable or None
        The loss is ``loss(module(*example_inputs[:-1]), example_inputs[-1])``; with None, ``module(*example_inputs)``.
    example_inputs : sequence of Tensor
        Tensors of the shapes and dtypes to train with, on any device.
    optimizer : torch.optim.Optimizer or None
        SGD, Adam, AdamW or Adagrad over the module's parameters. None leaves the parameters and returns gradients as
        their updates.

    Raises
    ------
    DGLError
        If the module's control flow depends on data, if an output has a shape that depends on data, if the loss is not
        one floating point number, or if the optimizer is of another kind.
    """
    recorder = StepRecorder()
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not named:
        raise DGLError("the module has no parameters that require gradients: there is nothing to train")
    tensors = {name: recorder.placeholder(name, p).requires_grad_() for name, p in named.items()}
    frozen = {name: recorder.placeholder(name, p) for name, p in module.named_parameters() if name not in named}
    buffers = {name: recorder.placeholder(name, b) for name, b in module.named_buffers()}
    data = tuple(recorder.placeholder(f"input.{i}", x) for i, x in enumerate(example_inputs))
    first = {name: recorder.node_of(b) for name, b in (frozen | buffers).items()}
    parameters = {name: recorder.node_of(p) for name, p in tensors.items()}
    inputs, held = tuple(map(recorder.node_of, data)), tensors | frozen | buffers

    def forward() -> torch.Tensor:
        if loss is None:
            return torch.func.functional_call(module, held, data)
        return loss(torch.func.functional_call(module, held, data[:-1]), data[-1])

    with recorder, _names(module, recorder), _compiling(), progress(None, "capture the step", "operator") as bar:
        recorder.recorded = bar.update
        value = _run(forward)
        _check_loss(value)
        forward_nodes = recorder.differentiable()
        recorder.phase = "backward"
        with recorder.pairing(forward_nodes):
            gradients = torch.autograd.grad(value, list(tensors.values()), allow_unused=True)
    updates = {first[n]: recorder.node_of(b) for n, b in buffers.items() if recorder.node_of(b) is not first[n]}
    recorder.phase = "update"
    got = {name: g for name, g in zip(tensors, gradients, strict=True) if g is not None}
    names = {id(p): name for name, p in named.items()}
    with torch.no_grad():
        state, hyper, changed = record_update(recorder, optimizer, parameters, tensors, got, names)
    updates |= changed
    pairs = [*recorder.pairs, *((parameters[name], recorder.node_of(g)) for name, g in got.items())]
    graph = recorder.finish([recorder.node_of(value), *updates.values()])
    gone = _rewritten(graph)
    return Captured(
        graph,
        parameters,
        first,
        state,
        inputs,
        hyper,
        recorder.constants,
        recorder.constant_values,
        recorder.node_of(value),
        {old: gone.get(new) or new for old, new in updates.items()},
        _alive(pairs, gone, graph),
        module,
    )


def _rewritten(graph: Graph) -> Gone:
    """Rewrite the graph so that it splits better; return for each node that is gone the one with the same values."""
    gone, merged = keep_stacks(graph), merge_products(graph)
    return {old: merged.get(new, new) if new else None for old, new in gone.items()} | merged


def _alive(pairs: Sequence[tuple[Node, Node]], gone: Gone, graph: Graph) -> dict[Node, Node]:
    """Return the gradients of forward values, as far as the graph still has both."""
    alive = set(graph.nodes)
    now = [(gone.get(value, value), gone.get(gradient, gradient)) for value, gradient in pairs]
    return {v: g for v, g in now if v is not None and g is not None and {v, g} <= alive}


def _run(forward: Callable[[], torch.Tensor]) -> torch.Tensor:
    try:
        return forward()
    except (RuntimeError, TypeError) as error:
        if any(words in str(error) for words in ("meta device", "meta tensor", "unallocated storage")):
            raise DGLError(
                "the module reads the values of a tensor, as by tolist() or numpy(), but a plan is made from shapes"
                f" alone: compute with tensors, or with numbers known beforehand ({error})"
            ) from error
        raise


@contextmanager
def _compiling() -> Iterator[None]:
    """Let libraries take the way that they take in compiled programs, with operators that can be recorded."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def _names(module: nn.Module, recorder: StepRecorder) -> Iterator[None]:
    """Tell the recorder which module is running."""
    names = {id(child): name for name, child in module.named_modules()}

    def enter(child: nn.Module, _: Any) -> None:
        recorder.modules.append(names.get(id(child), recorder.modules[-1]))

    def leave(child: nn.Module, *_: Any) -> None:
        recorder.modules.pop()

    hooks = [
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_loss(value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise DGLError(f"the loss is a {type(value).__name__}: return a tensor of one number, or pass `loss=`")
    if value.numel() != 1 or not value.is_floating_point():
        raise DGLError(f"the loss has shape {tuple(value.shape)} and {value.dtype}: reduce it to one number")
    if not value.requires_grad:
        raise DGLError("the loss depends on no parameter that requires a gradient")


def _bytes(node: Node) -> int:
    value = node.meta["val"]
    return value.numel() * value.element_size()
