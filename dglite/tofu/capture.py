"""Record a training step as one functional graph of ATen operators: forward and backward.

No tensor has memory while it is recorded, so a model may be larger than any. The result is a `torch.fx.Graph` without
in-place operators and without dead code, whose nodes carry a meta tensor in ``meta["val"]``, the name of the module
that was running in ``meta["module"]``, ``"forward"`` or ``"backward"`` in ``meta["phase"]`` and, in the backward pass,
the forward node they differentiate in ``meta["forward"]`` (or None). A random operator that
``torch.utils.checkpoint`` runs again has the one with the same numbers in ``meta["drawn_as"]``.

The optimizer's update is not in the graph: torch.optim computes it on each worker's parts. Its state is
among the graph's inputs, so that a plan knows its memory.

Operators that make tensors from nothing (``full``, ``arange``, ...) have lost their ``device``: it is the worker's.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ..errors import DGLError
from ..progress import progress
from .checks import check_loss, check_whole, keep_hooks, warn_of_loops
from .nodes import Replaced, finish
from .optimizers import check_optimizer, named_state
from .recording import StepRecorder
from .stacks import keep_stacks
from .sums import merge_products
from .symbolic import users_line


@dataclass(frozen=True)
class Captured:
    """A training step as a graph.

    Attributes
    ----------
    graph : torch.fx.Graph
        Placeholders, operators in the order in which they ran, and an output ``(*outputs, *updates.values())``.
    parameters, buffers, state : dict of str to Node
        Placeholders by name: ``"layer.weight"``; state of the optimizer as ``"layer.weight.exp_avg"``, which no
        operator reads. Parameters that require no gradient are among the buffers.
    data : tuple of Node
        The placeholders of the tensors among the example inputs.
    constants : dict of str to Node
        Other tensors that the module reads.
    constant_values : dict of str to Tensor
        What they are.
    outputs : tuple of Node
        The loss, or what the module returns: see `capture_forward`.
    spec : TreeSpec or None
        How what the module returns is made of the outputs.
    updates : dict of Node to Node
        New values of buffers, and gradients of parameters, by their placeholders.
    gradients : dict of Node to Node
        Gradients by the forward value that they belong to.
    versions : sequence of (Tensor, int)
        Tensors of the module or the loss function, other than parameters and buffers, whose values the graph
        contains, with their versions: if one has changed, the graph is out of date.
    module : nn.Module or None
        What was captured. Graphs that it has are named by numbers in the operators, and live as long as it does.
    """

    graph: Graph
    parameters: dict[str, Node]
    buffers: dict[str, Node]
    state: dict[str, Node]
    data: tuple[Node, ...]
    constants: dict[str, Node]
    constant_values: dict[str, torch.Tensor]
    outputs: tuple[Node, ...]
    spec: TreeSpec | None
    updates: dict[Node, Node]
    gradients: dict[Node, Node] = field(repr=False)
    versions: Sequence[tuple[torch.Tensor, int]] = field(default=(), repr=False)
    module: nn.Module | None = field(default=None, repr=False)

    @property
    def loss(self) -> Node:
        """The loss of a training step."""
        return self.outputs[0]

    def weight_bytes(self) -> int:
        """Return the bytes of parameters, their gradients and the optimizer's state."""
        sizes = [_bytes(node) * 2 for node in self.parameters.values()] + [_bytes(n) for n in self.state.values()]
        return sum(sizes)


def capture(
    module: nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    example_inputs: Sequence[Any],
    optimizer: torch.optim.Optimizer | None = None,
    named_inputs: Mapping[str, Any] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> Captured:
    """Return the graph of one training step of ``module``.

    Raises DGLError if the module's control flow depends on data, if an output has a shape that depends on data, if the
    loss is not one floating point number, or if the optimizer is not element-wise.

    Parameters
    ----------
    module : nn.Module
        Its parameters may be on any device, the meta device too. It is left as it is. Hooks on parameters are part of
        the step.
    loss : callable or None
        The loss is ``loss(module(*example_inputs[:-1], **named_inputs), example_inputs[-1])``; with None, it is what
        ``module(*example_inputs, **named_inputs)`` returns, or that has as ``loss``.
    example_inputs, named_inputs : sequence and dict
        Tensors of the shapes and dtypes to train with, on any device, in lists, tuples and dicts; other values are
        constants of the step.
    optimizer : torch.optim.Optimizer or None
        An element-wise one over parameters of the module, as all of torch.optim are but Adafactor, LBFGS and Muon.
    device : torch.device or str
        Where the step will run: what the inputs say as their ``device``.
    """
    recorder = StepRecorder(device)
    inputs = _Inputs(module, recorder, example_inputs, named_inputs or {})
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        raise DGLError("the module has no parameters that require gradients: there is nothing to train")
    if optimizer is not None:
        check_optimizer(optimizer, {id(p): name for name, p in module.named_parameters()})
    tensors = {name: inputs.placeholders[name].requires_grad_() for name in trained}

    def forward() -> torch.Tensor:
        if loss is None:
            return _loss_of(inputs.call())
        return loss(inputs.call(last=False), inputs.positional[-1])

    bar = progress(None, "capture the step", "operator")
    with recorder, _names(module, recorder), _compiling(), inputs.substituted(), bar:
        recorder.recorded = bar.update
        for name, p in trained.items():
            keep_hooks(name, p, tensors[name])
        value = _run(forward)
        check_loss(value)
        forward_nodes = recorder.differentiable()
        warn_of_loops(recorder.graph)
        recorder.phase = "backward"
        with recorder.pairing(forward_nodes), torch.autocast(recorder.device.type, enabled=False):
            gradients = _gradients(value, list(tensors.values()))
    gradients_of = {name: g for name, g in zip(tensors, gradients, strict=True) if g is not None}
    parameters = {name: inputs.nodes[name] for name in tensors}
    pairs = [*recorder.pairs, *((parameters[name], recorder.node_of(g)) for name, g in gradients_of.items())]
    updates = {parameters[name]: recorder.node_of(g) for name, g in gradients_of.items()}
    state = _state(recorder, optimizer, trained, gradients_of)
    return inputs.captured([value], None, updates, parameters, state, pairs)


def capture_forward(
    module: nn.Module,
    example_inputs: Sequence[Any],
    named_inputs: Mapping[str, Any] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> Captured:
    """Return the graph of ``module(*example_inputs, **named_inputs)`` without gradients; see `capture`.

    The tensors that the module returns are the graph's outputs.
    """
    recorder = StepRecorder(device)
    inputs = _Inputs(module, recorder, example_inputs, named_inputs or {})
    with recorder, _names(module, recorder), _compiling(), torch.no_grad():
        with inputs.substituted():
            values, spec = tree_flatten(_run(inputs.call))
        wrong = [type(x).__name__ for x in values if not isinstance(x, torch.Tensor)]
        if wrong:
            raise DGLError(f"the module returns {', '.join(wrong)}: let it return tensors, in tuples, lists or dicts")
        trained = {name: inputs.nodes[name] for name, p in module.named_parameters() if p.requires_grad}
        return inputs.captured(values, spec, {}, trained, {}, ())


class _Inputs:
    """The inputs of a captured step: a module's tensors, and what it is called with, as tensors without values."""

    def __init__(
        self, module: nn.Module, recorder: StepRecorder, positional: Sequence[Any], named: Mapping[str, Any]
    ) -> None:
        self.module, self.recorder = module, recorder
        check_whole(module)
        self.buffers = dict(module.named_buffers())
        self.placeholders = {name: recorder.placeholder(name, x) for name, x in module.named_parameters()}
        self.placeholders |= {name: recorder.placeholder(name, x) for name, x in self.buffers.items()}
        self.nodes = {name: recorder.node_of(x) for name, x in self.placeholders.items()}
        leaves, spec = tree_flatten((tuple(positional), dict(named)))
        for i, x in enumerate(leaves):
            if isinstance(x, torch.Tensor):
                leaves[i] = recorder.placeholder(f"input.{i}", x)
        self._leaves = [x for x in leaves if isinstance(x, torch.Tensor)]
        self.data = tuple(map(recorder.node_of, self._leaves))
        self.positional, self.named = tree_unflatten(leaves, spec)

    @contextmanager
    def substituted(self) -> Iterator[None]:
        """Let the module have the placeholders: in the backward pass, too, where checkpointed blocks run again."""
        with nn.utils.stateless._reparametrize_module(self.module, self.placeholders, tie_weights=True):
            yield

    def call(self, last: bool = True) -> Any:
        """Call the module with all inputs, or without the last."""
        return self.module(*(self.positional if last else self.positional[:-1]), **self.named)

    def _check_unchanged(self, parameters: Mapping[str, Node]) -> None:
        """Raise if an input was written in place, as the caller's tensor would be, or a parameter."""
        written = [n for n, node in parameters.items() if self.recorder.node_of(self.placeholders[n]) is not node]
        if written:
            raise DGLError(
                f"the forward pass writes into the parameters {', '.join(written[:3])} (as max_norm of an embedding"
                " does): in a partitioned step only the optimizer does; write into a buffer, or leave it out"
            )
        now = map(self.recorder.node_of, self._leaves)
        numbers = [i for i, (before, after) in enumerate(zip(self.data, now, strict=True)) if before is not after]
        if numbers:
            raise DGLError(
                f"the module or the loss function writes in place into the input tensors {numbers} (by their order): a"
                " partitioned step leaves inputs as they are, so write into a clone"
            )

    def captured(
        self,
        outputs: Sequence[torch.Tensor],
        spec: TreeSpec | None,
        updates: dict[Node, Node],
        parameters: dict[str, Node],
        state: dict[str, Node],
        pairs: Sequence[tuple[Node, Node]],
    ) -> Captured:
        """Return the recorded graph, with new values of the buffers that have changed."""
        recorder = self.recorder
        now = {self.nodes[name]: recorder.node_of(self.placeholders[name]) for name in self.buffers}
        updates = {old: new for old, new in now.items() if old is not new} | updates
        self._check_unchanged(parameters)
        nodes = [recorder.node_of(x) for x in outputs]
        graph = finish(recorder.graph, [*nodes, *updates.values()])
        replaced = _rewritten(graph)
        return Captured(
            graph,
            parameters,
            {name: node for name, node in self.nodes.items() if name not in parameters},
            state,
            self.data,
            recorder.constants,
            recorder.constant_values,
            tuple(replaced.get(node) or node for node in nodes),
            spec,
            {old: replaced.get(new) or new for old, new in updates.items()},
            _alive(pairs, replaced, graph),
            recorder.sources.versions,
            self.module,
        )


def _state(
    recorder: StepRecorder,
    optimizer: torch.optim.Optimizer | None,
    trained: Mapping[str, torch.Tensor],
    gradients: Mapping[str, torch.Tensor],
) -> dict[str, Node]:
    """Return placeholders for the state that an optimizer keeps of the parameters that have a gradient."""
    state: dict[str, Node] = {}
    if optimizer is None:
        return state
    for name, (p, _, entry) in named_state(optimizer, {id(p): name for name, p in trained.items()}).items():
        if name.rsplit(".", 1)[0] in gradients:
            shape = p.shape if entry.elementwise else entry.shape
            like = torch.empty(shape, dtype=entry.dtype or p.dtype, device="meta")
            state[name] = recorder.node_of(recorder.placeholder(name, like))
    return state


def _loss_of(output: Any) -> Any:
    """Return the loss among what a module returns."""
    if isinstance(output, Mapping):
        return output.get("loss", output)
    return getattr(output, "loss", output)


def _rewritten(graph: Graph) -> Replaced:
    """Rewrite the graph so that it splits better; return for each node that is gone the one with the same values."""
    replaced, merged = keep_stacks(graph), merge_products(graph)
    return {old: merged.get(new, new) if new else None for old, new in replaced.items()} | merged


def _alive(pairs: Sequence[tuple[Node, Node]], replaced: Replaced, graph: Graph) -> dict[Node, Node]:
    """Return the gradients of forward values, as far as the graph still has both."""
    alive = set(graph.nodes)
    now = [(replaced.get(value, value), replaced.get(gradient, gradient)) for value, gradient in pairs]
    return {v: g for v, g in now if v is not None and g is not None and {v, g} <= alive}


def _run(forward: Callable[[], torch.Tensor]) -> torch.Tensor:
    try:
        return forward()
    except (RuntimeError, TypeError) as error:
        if any(
            words in str(error)
            for words in (
                "meta device",
                " meta ",
                "meta tensor",
                "unallocated storage",
                "data pointer",
                "SymbolicTensor",
                "numpy",
            )
        ):
            line = users_line(reversed([*traceback.walk_tb(error.__traceback__)]))
            raise DGLError(
                f"{line}: the module reads the values of a tensor, as by tolist() or numpy(), but a plan is made from"
                f" shapes alone: compute with tensors, or with numbers known beforehand ({error})"
            ) from error
        raise


def _gradients(value: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor | None]:
    try:
        return torch.autograd.grad(value, tensors, allow_unused=True)
    except RuntimeError as error:
        if "use_reentrant" in str(error):
            raise DGLError(
                "the module calls torch.utils.checkpoint with use_reentrant=True, which cannot be captured: pass"
                " use_reentrant=False"
            ) from error
        raise


@contextmanager
def _compiling() -> Iterator[None]:
    """Let libraries take the way that they take in compiled programs, with operators that can be recorded.

    Without oneDNN, an LSTM is its time steps, which can be split. torch's generator is left as it was.
    """
    before, onednn = torch.compiler._is_compiling_flag, torch._C._get_mkldnn_enabled()
    torch.compiler._is_compiling_flag = True
    torch._C._set_mkldnn_enabled(False)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.compiler._is_compiling_flag = before
        torch._C._set_mkldnn_enabled(onednn)


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


def _bytes(node: Node) -> int:
    value = node.meta["val"]
    return value.numel() * value.element_size()
