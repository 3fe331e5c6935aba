"""Train a module with its tensors split over the processes of a job, as a plan says."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.fx import Node

from ..errors import DGLError
from .boxes import Box, box_shape
from .coarsen import TensorShape
from .exchange import Exchange, Links
from .execute import compile_plan
from .layout import Layout
from .plan import PartitionPlan, plan
from .program import Broken, Program

__all__ = ["ParallelStep", "parallelize"]


def parallelize(
    module: nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    workers: int | None = None,
    *,
    memory: float | None = None,
    device: torch.device | str = "cpu",
    timeout: float = 300.0,
    seed: int = 0,
) -> ParallelStep:
    """Return a function that trains ``module`` one step, its tensors split over all processes of the job.

    Each process calls this, under torchrun for example, with an equal module, and then the step with equal inputs. The
    plan is made at the first step, from the shapes of the inputs.

    Parameters
    ----------
    module : nn.Module
        Equal in all processes: set the same seed before it is made. From the first step on its parameters and buffers
        are parts in the step, and their memory in the module is freed. A module on the meta device is initialised
        by its layers' ``reset_parameters``, one layer at a time, so that it may be larger than memory.
    loss : callable or None
        See `capture`.
    optimizer : torch.optim.Optimizer
        SGD, Adam, AdamW or Adagrad of the module's parameters. Its learning rates are read in every step.
    workers : int, optional
        The number of processes; any other is an error.
    memory : float, optional
        Bytes that a worker may hold; see `plan`.
    device : torch.device or str
        Where this process computes.
    timeout : float
        Seconds after which a process that does not answer ends the job, on all others, with an error.
    seed : int
        Of dropout. Equal in all processes.

    Raises
    ------
    DGLError
        If ``workers`` is not the number of processes, or torch.distributed has not been initialised.
    """
    if not dist.is_initialized():
        raise DGLError("call torch.distributed.init_process_group() first, in processes that torchrun starts")
    world = dist.get_world_size()
    if workers not in (None, world):
        raise DGLError(
            f"workers={workers}, but the job has {world} processes: start it with --nproc-per-node={workers}"
        )
    if optimizer is None:
        raise DGLError("an optimizer is needed to train: pass one of the module's parameters")
    group = dist.new_group(timeout=timedelta(seconds=timeout)) if world > 1 else None
    links = Links(dist.get_rank(), world, group)
    return ParallelStep(module, loss, optimizer, links, memory, torch.device(device), timeout, seed)


class ParallelStep:
    """A training step over the processes of a job: ``step(*inputs)`` returns the loss.

    Attributes
    ----------
    plan : PartitionPlan or None
        What is run, from the first step on.
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
        timeout: float,
        seed: int,
    ) -> None:
        self.module, self.loss, self.optimizer = module, loss, optimizer
        self.plan: PartitionPlan | None = None
        self.bytes = 0
        self._links, self._memory, self._device, self._timeout, self._seed = links, memory, device, timeout, seed
        self._program: Program | None = None
        self._parts: dict[Node, torch.Tensor] = {}
        self._count = 0
        self._error = ""

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Train one step and return the loss, which is the same in all processes.

        Parameters
        ----------
        *inputs : Tensor
            The module's inputs and, if there is a loss function, its last argument: whole, and equal in all processes.

        Raises
        ------
        DGLError
            If the inputs are not of the first step's shapes, if processes have different inputs or modules at the first
            step, or if a process has ended or does not answer. After the last no further step can be run.
        """
        if self._error:
            raise DGLError(self._error)
        self._prepare(inputs)
        program, captured = self._compiled
        values: list[Any] = [None] * len(program.slots)
        for node, x in zip(captured.data, inputs, strict=True):
            values[program.slots[node]] = self._cut(node, x.to(self._device))
        for name, node in captured.hyper.items():
            group = self.optimizer.param_groups[int(name.rsplit(".", 1)[1])]
            values[program.slots[node]] = torch.tensor(float(group["lr"]), dtype=node.meta["val"].dtype)
        for node in [n for n in self._parts if n in captured.updates]:
            values[program.slots[node]] = self._parts.pop(node)
        for node, part in self._parts.items():
            values[program.slots[node]] = part
        self._run(program, values)
        self._parts |= {old: values[program.slots[new]] for old, new in captured.updates.items()}
        self._count += 1
        return values[program.slots[captured.loss]]

    @property
    def _compiled(self) -> tuple[Program, Any]:
        if self._program is None or self.plan is None:
            raise DGLError("there is no plan before the first step: run one")
        return self._program, self.plan.captured

    def _run(self, program: Program, values: list[Any]) -> None:
        self._links.bytes = 0
        try:
            program.run(values, self._count)
        except BaseException as error:
            self._error = "an earlier step failed, and left parts of the state in none: start again from a checkpoint"
            if isinstance(error, Broken):
                raise self._broken(f"the exchange for {error}") from error.__cause__
            raise
        self.bytes = self._links.bytes

    def _broken(self, what: str) -> DGLError:
        return DGLError(
            f"worker {self._links.rank}: {what} did not end: another worker has failed (see its messages) or has not"
            f" answered for {self._timeout:g} s. Start all workers again from the last checkpoint"
        )

    # -- the first step ------------------------------------------------------------------------------------------------
    def _prepare(self, inputs: Sequence[torch.Tensor]) -> None:
        if self.plan is not None:
            expected = [(tuple(n.meta["val"].shape), n.meta["val"].dtype) for n in self.plan.captured.data]
            got = [(tuple(x.shape), x.dtype) for x in inputs]
            if expected != got:
                raise DGLError(f"the step was planned for inputs {expected}, but got {got}: pad or drop the last batch")
            return
        self._compare("inputs", [_digest(inputs)])
        self._compare("modules (set one seed before it is made)", [_digest(self._tensors())])
        made, program = self._planned(inputs)
        self._compare("plans", [_number(_said(made))])
        self.plan, self._program = made, program
        self._layout = Layout([step.k for step in made.steps])
        self._take(dict(self.module.named_parameters()) | dict(self.module.named_buffers()))

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from self.module.parameters()
        yield from self.module.buffers()
        if any(p.is_meta for p in self.module.parameters()):
            yield torch.get_rng_state()

    def _compare(self, what: str, mine: list[int]) -> None:
        """Raise in all processes if the numbers are not the same in all."""
        if self._links.world == 1:
            return
        row = torch.tensor(mine, dtype=torch.int64, device=self._device)
        try:
            rows = self._links.gather(row.view(torch.uint8)).view(torch.int64)
        except RuntimeError as error:
            raise self._broken("the first exchange") from error
        others = [j for j in range(self._links.world) if not torch.equal(rows[j], rows[0])]
        if others:
            raise DGLError(f"the workers {others} have other {what} than worker 0: all of them need the same")

    def _planned(self, inputs: Sequence[torch.Tensor]) -> tuple[PartitionPlan, Program]:
        made = plan(self.module, self.loss, inputs, self.optimizer, self._links.world, memory=self._memory)
        return made, compile_plan(made, self._links, self._device, self._seed)

    def _take(self, named: dict[str, torch.Tensor]) -> None:
        """Cut parameters, buffers and the optimizer's state to this worker's parts, and free the module's."""
        _, captured = self._compiled
        nodes = captured.parameters | captured.buffers
        for name, x in _initialised(self.module, named, self._device):
            if name in nodes:
                self._parts[nodes[name]] = self._cut(nodes[name], x).to(self._device, copy=True)
            if not named[name].is_meta:
                named[name].data = x.new_zeros(()).expand(x.shape)
        for name, node in captured.state.items():
            value = self._state(name, named)
            shape = box_shape(self._tile(node))
            if value is None:
                self._parts[node] = torch.zeros(shape, dtype=node.meta["val"].dtype, device=self._device)
            else:
                self._parts[node] = self._cut(node, value).to(self._device, copy=True)
        for name, node in captured.constants.items():
            self._parts[node] = self._cut(node, captured.constant_values[name].to(self._device))

    def _state(self, name: str, named: dict[str, torch.Tensor]) -> torch.Tensor | None:
        """Return what the optimizer has of a state: it may have trained before."""
        owner, kind = name.rsplit(".", 1)
        if owner == "step":
            params = self.optimizer.param_groups[int(kind)]["params"]
            found = next((s["step"] for p in params if (s := self.optimizer.state.get(p))), None)
            return None if found is None else torch.as_tensor(found)
        return self.optimizer.state.get(named[owner], {}).get(kind)

    # -- parts ---------------------------------------------------------------------------------------------------------
    def _tile(self, node: Node, worker: int | None = None) -> Box:
        assert self.plan is not None
        worker = self._links.rank if worker is None else worker
        return self._layout.tile(node.meta["val"].shape, self.plan.placement(node), worker)

    def _cut(self, node: Node, x: torch.Tensor) -> torch.Tensor:
        for d, (lo, hi) in enumerate(self._tile(node)):
            x = x.narrow(d, int(lo), int(hi) - int(lo))
        return x

    def parts(self) -> dict[str, torch.Tensor]:
        """Return this worker's parts of parameters, buffers and the optimizer's state by name."""
        _, captured = self._compiled
        named = captured.parameters | captured.buffers | captured.state
        return {name: self._parts[node] for name, node in named.items()}

    def gather(self) -> dict[str, torch.Tensor]:
        """Return whole parameters and buffers by name, in every process.

        All processes have to call it. ``module.load_state_dict(step.gather(), assign=True)`` makes the module whole.
        """
        _, captured = self._compiled
        return {name: self._whole(node) for name, node in (captured.parameters | captured.buffers).items()}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return whole parameters, buffers and state of the optimizer by name, for a checkpoint. See `gather`."""
        _, captured = self._compiled
        return self.gather() | {name: self._whole(node) for name, node in captured.state.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take what `state_dict` returned, of a job with any number of processes. No process has to wait for another.

        Raises
        ------
        DGLError
            If there are names too many or missing, or another shape. Nothing is changed then.
        """
        _, captured = self._compiled
        named = captured.parameters | captured.buffers | captured.state
        if named.keys() != state.keys():
            raise DGLError(f"these names are missing or unknown: {', '.join(sorted(named.keys() ^ state.keys()))}")
        for name, node in named.items():
            if state[name].shape != node.meta["val"].shape:
                raise DGLError(f"{name} has the shape {tuple(state[name].shape)}, expected {_shape(node)}")
        for name, node in named.items():
            self._parts[node] = self._cut(node, state[name]).to(self._device, node.meta["val"].dtype, copy=True)
        self._error = ""

    def _whole(self, node: Node) -> torch.Tensor:
        held = [self._tile(node, w) for w in range(self._links.world)]
        whole = tuple((0, n) for n in _shape(node))
        move = Exchange(self._links, held, [whole] * len(held), node.meta["val"].dtype, self._device)
        try:
            return move.run(self._parts[node])[0].clone()
        except RuntimeError as error:
            raise self._broken("gathering") from error


def _shape(node: Node) -> TensorShape:
    return tuple(node.meta["val"].shape)


def _initialised(
    module: nn.Module, named: dict[str, torch.Tensor], device: torch.device
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and buffers by name; of layers on the meta device, one layer is initialised at a time."""
    for prefix, child in module.named_modules():
        own = [*child.named_parameters(prefix, recurse=False), *child.named_buffers(prefix, recurse=False)]
        if any(x.is_meta for _, x in own):
            reset = getattr(child, "reset_parameters", None)
            if reset is None:
                raise DGLError(f"module {prefix!r} is on the meta device and has no reset_parameters to initialise it")
            layer = copy.deepcopy(child).to_empty(device=device, recurse=False)
            layer.reset_parameters()
            own = [*layer.named_parameters(prefix, recurse=False), *layer.named_buffers(prefix, recurse=False)]
        yield from ((name, x.detach()) for name, x in own if name in named)


def _digest(tensors: Any) -> int:
    """Return a number that tells tensors apart by shape, dtype and values."""
    found = hashlib.blake2b(digest_size=7)
    for x in tensors:
        found.update(f"{tuple(x.shape)} {x.dtype}".encode())
        if not x.is_meta:
            found.update(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return int.from_bytes(found.digest(), "little")


def _said(made: PartitionPlan) -> str:
    """Return a plan as text: how each value and operator is split."""
    return str(
        [
            (step.k, *step.placements.values(), *(s and (s.index, s.combine) for s in step.strategies.values()))
            for step in made.steps
        ]
    )


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
