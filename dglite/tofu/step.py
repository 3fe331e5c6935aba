"""A training step over the processes of a job, which `parallelize` makes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from ..errors import DGLError, DGLWarning
from .agreement import (
    checksum,
    digest,
    graph_digest,
    module_tensors,
    options_text,
    plan_text,
    require_equal,
    text_digest,
)
from .capture import Captured, capture, capture_forward
from .checkpoint import Sharding
from .execute import compile_plan
from .layout import Layout
from .links import Broken, Links
from .partitioned import is_partitioned
from .plan import PartitionPlan
from .planning import plan_captured, plan_like
from .program import Program
from .settings import CallSettings, input_problem, modes, signature
from .state import PartitionedState
from .symbolic import tensors_changed


@dataclass(frozen=True)
class _CompiledStep:
    """A captured step with its plan and this worker's program."""

    plan: PartitionPlan
    program: Program

    @property
    def captured(self) -> Captured:
        return self.plan.captured


class ParallelStep:
    """A training step over the processes of a job: ``step(*inputs)`` returns the loss.

    A step is planned once for each kind of call: shapes of the inputs, train and eval modes of the modules, parameters
    that require gradients, autocast. All processes compare their inputs and settings before each step.

    Attributes
    ----------
    plan : PartitionPlan or None
        The first plan, which says how the state is split; None before the first step.
    bytes : int
        That this process has received from others in the last step, counted where they arrive.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        links: Links,
        memory: float | None,
        device: torch.device,
        seed: int,
        split_batch: bool = False,
    ) -> None:
        self._module, self._loss, self._optimizer = module, loss, optimizer
        self.plan: PartitionPlan | None = None
        self.bytes = 0
        self._links, self._memory, self._device, self._seed = links, memory, device, seed
        self._compiled: dict[Any, _CompiledStep] = {}
        self._state: PartitionedState | None = None
        self._settings, self._split = CallSettings(module, loss), split_batch
        self._count = 0
        self._error = ""

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""
        return self._module

    @property
    def loss(self) -> Callable[..., torch.Tensor] | None:
        """The loss function, or None if the module returns its loss."""
        return self._loss

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer, which runs on this worker's parts."""
        return self._optimizer

    def __call__(self, *inputs: Any, **named: Any) -> torch.Tensor:
        """Train one step and return the loss, which is the same in all processes.

        Raises DGLError if processes have different inputs, settings or modules, or if a process has ended or does not
        answer. After the last no further step can be run.

        Parameters
        ----------
        *inputs, **named
            What the module takes and, if there is a loss function, its last argument at the end of ``inputs``. Tensors
            are whole, and equal in all processes.
        """
        value = self._backward("step", inputs, named)
        self._ready_state.update()
        return value

    def backward(self, *inputs: Any, **named: Any) -> torch.Tensor:
        """Compute the loss and add its gradients to those that are there, as ``loss.backward()`` does."""
        return self._backward("backward", inputs, named)

    def _backward(self, call: str, inputs: Sequence[Any], named: dict[str, Any]) -> torch.Tensor:
        step, values = self._run(call, inputs, named)
        gradients = {
            name: values[step.program.slots[step.captured.updates[node]]]
            for name, node in step.captured.parameters.items()
            if node in step.captured.updates
        }
        self._ready_state.add_gradients(gradients, step.plan)
        return values[step.program.slots[step.captured.loss]]  # type: ignore[no-any-return]

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scale the gradients so that the norm of all of them is at most ``max_norm``; return the norm before.

        It belongs between `backward` and `update`. All processes have to call it.
        """
        self._check()
        self._compare({"max_norm or norm_type": text_digest(f"{float(max_norm)} {float(norm_type)}")})
        return self._ready_state.clip_gradients(float(max_norm), float(norm_type))

    def update(self) -> None:
        """Let the optimizer update the parameters, and clear the gradients."""
        self._check()
        self._compare({"settings of the optimizer": text_digest(options_text(self.optimizer))})
        self._ready_state.update()

    @torch.inference_mode(False)
    @torch.no_grad()
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the module returns for whole inputs, without gradients, in every process.

        The module runs in its modes: call ``module.eval()`` to evaluate. All processes have to call this.
        """
        if self._state is None:
            return self.module(*inputs, **named)
        step, values = self._run("forward", inputs, named)
        captured, sharding = step.captured, self._ready_state.sharding
        outputs = [
            sharding.whole(values[step.program.slots[node]], node.meta["val"].shape, step.plan.placement(node))
            for node in captured.outputs
        ]
        assert captured.spec is not None
        return tree_unflatten(outputs, captured.spec)

    @property
    def _ready_state(self) -> PartitionedState:
        if self._state is None:
            raise DGLError("there is no plan before the first step: run one")
        return self._state

    def _check(self) -> None:
        if self._error:
            raise DGLError(self._error)

    def _compare(self, numbers: dict[str, int], problem: str = "") -> None:
        """Raise in all processes if a number is not the same in all, or if one has a problem."""
        try:
            require_equal(self._links, numbers, self._device, problem)
        except Broken:
            self._error = "another worker did not answer in an earlier step: start again from a checkpoint"
            raise

    def _run(self, call: str, inputs: Sequence[Any], named: dict[str, Any]) -> tuple[_CompiledStep, list[Any]]:
        """Run a step's program; return it and the values of its slots."""
        self._check()
        step = self._prepared(call, inputs, named)
        program, captured, state = step.program, step.captured, self._ready_state
        values: list[Any] = [None] * program.size
        tensors = [x for x in tree_flatten((tuple(inputs), named))[0] if isinstance(x, torch.Tensor)]
        self._links.bytes = 0
        for node, x in zip(captured.data, tensors, strict=True):
            cut = state.sharding.from_rows if self._split and x.dim() else state.sharding.from_tensor
            values[program.slots[node]] = cut(x.to(self._device), step.plan.placement(node))
        for name, node in (captured.parameters | captured.buffers).items():
            values[program.slots[node]] = state.placed(name, node, step.plan)
        for name, node in captured.constants.items():
            constant = captured.constant_values[name].to(self._device)
            values[program.slots[node]] = state.sharding.from_tensor(constant, step.plan.placement(node))
        try:
            program.run(values, self._count)
            for name, node in captured.buffers.items():
                if node in captured.updates:
                    part = values[program.slots[captured.updates[node]]]
                    state.set_part(name, state.back(name, part, node, step.plan))
        except BaseException:
            self._error = "an earlier step failed, and left the state between two steps: start again from a checkpoint"
            raise
        self.bytes = self._links.bytes
        self._count += 1
        return step, values

    # -- plans ---------------------------------------------------------------------------------------------------------
    def prepare(self, *inputs: Any, **named: Any) -> None:
        """Plan for inputs of these shapes and move the module into parts, as the first step does, but do not train.

        A checkpoint can be loaded then. Takes and raises what the step does.
        """
        self._prepared("prepare", inputs, named)

    def _prepared(self, call: str, inputs: Sequence[Any], named: dict[str, Any]) -> _CompiledStep:
        """Return the compiled step of a call, after all processes have compared what it depends on."""
        kind = "forward" if call == "forward" else "train"
        leaves, spec = tree_flatten((tuple(inputs), named))
        if self._split:
            inputs, named = tree_map_only(torch.Tensor, self._whole_batch, (tuple(inputs), named))
        shapes = (kind, str(spec), *map(signature, leaves))
        key = (*shapes, self._settings.number(), modes(self.module, self._device))
        step = self._compiled.get(key)
        if step is not None and tensors_changed(step.captured.versions):
            step = None
        self._compare_call(call, key, leaves, step is None)
        if step is None:
            if self._state is None:
                if any(map(is_partitioned, self.module.parameters())):
                    raise DGLError(
                        "the module is in parts of another ParallelStep: train it by that, or make it whole by"
                        " module.load_state_dict(step.gather(), assign=True) and build a new optimizer"
                    )
                self._compare({"modules (set one seed before it is made)": digest(module_tensors(self.module))})
            elif any(before[0] == kind for before in self._compiled):
                same = any(before[: len(shapes)] == shapes for before in self._compiled)
                reason = "because settings have changed" if same else "pad batches to one shape to avoid that"
                text = f"a new plan for {kind} with inputs {', '.join(map(signature, leaves))}: {reason}"
                warnings.warn(text, DGLWarning, stacklevel=4)
            with self._settings.watched():
                step = self._planned(kind, inputs, named)
                if self._state is None:
                    self._take(step.plan)
            self._compiled[(*shapes, self._settings.number(), modes(self.module, self._device))] = step
        return step

    def _whole_batch(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor without values of the shape of a whole batch, of which ``x`` is this process's share."""
        n, *rest = x.shape or (0,)
        return torch.empty((n * self._links.world, *rest), dtype=x.dtype, device="meta") if x.dim() else x

    def _compare_call(self, call: str, key: tuple[Any, ...], leaves: Sequence[Any], plans: bool) -> None:
        """Raise in all processes if their calls, inputs or settings differ, or if the call is not possible."""
        tensors = [x for x in leaves if isinstance(x, torch.Tensor) and not x.is_meta and not (self._split and x.dim())]
        problem = input_problem(leaves)
        if call in ("step", "backward") and not torch.is_grad_enabled():
            problem = "gradients are disabled by torch.no_grad or inference_mode: evaluate by step.forward(...)"
        if self._state is not None:
            problem = problem or self._state.problem(key[-2])
        settings = f"{options_text(self.optimizer)} {self._memory} {self._seed} {self._split}"
        now = f"{key[:-2]} {self._settings.training} {key[-1]}"
        self._compare(
            {
                "calls (step, backward, forward, prepare)": text_digest(call),
                "optimizers, or memory=, seed= or split_batch=": text_digest(settings),
                "inputs, or modes of modules (train, eval, frozen, autocast)": text_digest(now),
                "values of inputs": 0 if problem else checksum(tensors),
                "changes of their modules, hooks or loss functions": plans,
            },
            problem,
        )

    def _planned(self, kind: str, inputs: Sequence[Any], named: dict[str, Any]) -> _CompiledStep:
        """Return what all processes have planned alike; what fails in one is an error in all."""
        error: Exception | None = None
        try:
            plan = self._plan(kind, inputs, named)
            step = _CompiledStep(plan, compile_plan(plan, self._links, self._device, self._seed))
            numbers = {
                "operations in their modules, or graphs": graph_digest(plan.captured),
                "plans": text_digest(plan_text(plan)),
            }
        except Exception as caught:
            error = caught
        if self._links.world > 1:
            row = torch.tensor([error is not None], dtype=torch.int64, device=self._device)
            failed = self._links.gather(row, "planning").flatten().nonzero().flatten().tolist()
            if failed and error is None:
                raise DGLError(f"the workers {failed} could not plan the step: see their messages")
        if error is not None:
            raise error
        self._compare(numbers)
        return step

    def _plan(self, kind: str, inputs: Sequence[Any], named: dict[str, Any]) -> PartitionPlan:
        if kind == "forward":
            captured = capture_forward(self.module, inputs, named, device=self._device)
        else:
            captured = capture(self.module, self.loss, inputs, self.optimizer, named, device=self._device)
        if any(x.is_meta for x in captured.constant_values.values()):
            raise DGLError("the module reads a tensor on the meta device: make it a parameter or a buffer")
        if self.plan is None:
            return plan_captured(captured, self._links.world, memory=self._memory)
        return plan_like(captured, self.plan, memory=self._memory)

    def _take(self, plan: PartitionPlan) -> None:
        sharding = Sharding(Layout([step.k for step in plan.steps]), self._links, self._device)
        self.plan = plan
        self._state = PartitionedState(self.module, self.optimizer, plan, sharding, self._links, self._device)

    # -- state ---------------------------------------------------------------------------------------------------------
    def parts(self) -> dict[str, torch.Tensor]:
        """Return this worker's parts of parameters, buffers and the optimizer's state by name."""
        return self._ready_state.parts()

    def gather(self) -> dict[str, torch.Tensor]:
        """Return whole parameters and buffers by name, in every process.

        All processes have to call it. ``module.load_state_dict(step.gather(), assign=True)`` makes the module whole.
        """
        state = self._ready_state
        whole = {name: state.outside(name, full=True) for name in state.tensors}
        named = self.module.named_parameters(remove_duplicate=False)
        first = {id(x): name for name, x in state.tensors.items()}
        return whole | {name: whole[first[id(p)]] for name, p in named if name not in whole and id(p) in first}

    def state_dict(self, *, full: bool = False) -> dict[str, torch.Tensor]:
        """Return parameters, buffers and state of the optimizer by name, for a checkpoint. All have to call it.

        Parameters
        ----------
        full : bool
            Whether to return whole tensors, in every process, instead of DTensors. The mesh of those has a dimension
            for each step of the plan. Their memory is mostly that of the step, which may change in the next one.

        Examples
        --------
        ``torch.distributed.checkpoint.save({"step": step}, checkpoint_id=folder)`` saves a step, and ``load`` the same
        way into one that has been prepared, in any number of processes.
        """
        return self._ready_state.state_dict(full)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take what `state_dict` returned, of a job with any number of processes. All have to call it.

        Raises DGLError if there are names too many or missing, or another shape. Nothing is changed then.

        Parameters
        ----------
        state : dict of str to Tensor
            DTensors or whole tensors. Whole ones have to be equal in all processes.
        """
        self._ready_state.load_state_dict(state)
        self._error = ""
