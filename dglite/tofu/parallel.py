"""``parallelize``: train a module with its tensors split over processes according to a plan."""

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
from .capture import Captured
from .checkpoint import Sharding, whole_tensor
from .coarsen import TensorShape
from .execute import compile_plan
from .layout import Layout
from .library.graph import edges_of
from .links import Links
from .plan import PartitionPlan, plan
from .program import Program

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
    links = Links(dist.get_rank(), world, timeout=timeout)
    if world > 1:
        with links.watched("making a group of processes"):
            links.group = dist.new_group(timeout=timedelta(seconds=timeout))
    return ParallelStep(module, loss, optimizer, links, memory, torch.device(device), seed)


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
        seed: int,
    ) -> None:
        self.module, self.loss, self.optimizer = module, loss, optimizer
        self.plan: PartitionPlan | None = None
        self.bytes = 0
        self._links, self._memory, self._device, self._seed = links, memory, device, seed
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
        self.prepare(*inputs)
        program, captured = self._compiled
        values: list[Any] = [None] * program.size
        for node, x in zip(captured.data, inputs, strict=True):
            values[program.slots[node]] = self._cut(node, x.to(self._device))
        for name, node in captured.hyper.items():
            group = self.optimizer.param_groups[int(name.rsplit(".", 1)[1])]
            rate, dtype = float(group["lr"]), node.meta["val"].dtype
            values[program.slots[node]] = torch.tensor(rate, dtype=dtype, device=self._device)
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
        except BaseException:
            self._error = "an earlier step failed, and left parts of the state in none: start again from a checkpoint"
            raise
        self.bytes = self._links.bytes

    # -- the first step ------------------------------------------------------------------------------------------------
    def prepare(self, *inputs: torch.Tensor) -> None:
        """Plan for inputs of these shapes and move the module into parts, as the first step does, but do not train.

        A checkpoint can be loaded then. Takes and raises what the step does.
        """
        if self.plan is not None:
            expected = [(tuple(n.meta["val"].shape), n.meta["val"].dtype) for n in self.plan.captured.data]
            got = [(tuple(x.shape), x.dtype) for x in inputs]
            if expected != got:
                raise DGLError(f"the step was planned for inputs {expected}, but got {got}: pad or drop the last batch")
            return
        self._compare("optimizers, or memory= or seed=", [_number(self._settings())])
        self._compare("inputs", [_digest(inputs)])
        self._compare("modules (set one seed before it is made)", [_digest(self._tensors())])
        made, program = self._planned(inputs)
        self.plan, self._program = made, program
        self._sharding = Sharding(Layout([step.k for step in made.steps]), self._links, self._device)
        self._take(dict(self.module.named_parameters()) | dict(self.module.named_buffers()))

    def _settings(self) -> str:
        groups = [
            {k: v for k, v in group.items() if k != "params"} | {"params": len(group["params"])}
            for group in self.optimizer.param_groups
        ]
        return f"{type(self.optimizer)} {groups} {self._memory} {self._seed}"

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
        rows = self._links.gather(row, "the first exchange")
        others = [j for j in range(self._links.world) if not torch.equal(rows[j], rows[0])]
        if others:
            raise DGLError(f"the workers {others} have other {what} than worker 0: all of them need the same")

    def _planned(self, inputs: Sequence[torch.Tensor]) -> tuple[PartitionPlan, Program]:
        """Return what all processes have planned alike; what fails in one is an error in all."""
        error: Exception | None = None
        graph = said = 0
        try:
            made = plan(self.module, self.loss, inputs, self.optimizer, self._links.world, memory=self._memory)
            program = compile_plan(made, self._links, self._device, self._seed)
            graph, said = _graph_digest(made.captured), _number(_said(made))
        except Exception as caught:
            error = caught
        if self._links.world > 1:
            row = torch.tensor([error is not None], dtype=torch.int64, device=self._device)
            failed = self._links.gather(row, "planning").flatten().nonzero().flatten().tolist()
            if failed and error is None:
                raise DGLError(f"the workers {failed} could not plan the step: see their messages")
        if error is not None:
            raise error
        self._compare("operations in their modules, or graphs", [graph])
        self._compare("plans", [said])
        return made, program

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
            value = torch.zeros((), dtype=node.meta["val"].dtype).expand(_shape(node)) if value is None else value
            self._parts[node] = self._cut(node, value).to(self._device, copy=True)
        self.optimizer.state.clear()
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
    def _cut(self, node: Node, x: torch.Tensor) -> torch.Tensor:
        assert self.plan is not None
        return self._sharding.from_tensor(x, self.plan.placement(node))

    def parts(self) -> dict[str, torch.Tensor]:
        """Return this worker's parts of parameters, buffers and the optimizer's state by name."""
        return {name: self._parts[node] for name, node in self._named().items()}

    def _named(self) -> dict[str, Node]:
        _, captured = self._compiled
        return captured.parameters | captured.buffers | captured.state

    def gather(self) -> dict[str, torch.Tensor]:
        """Return whole parameters and buffers by name, in every process.

        All processes have to call it. ``module.load_state_dict(step.gather(), assign=True)`` makes the module whole.
        """
        _, captured = self._compiled
        return {name: self._outside(node, full=True) for name, node in (captured.parameters | captured.buffers).items()}

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
        return {name: self._outside(node, full) for name, node in self._named().items()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take what `state_dict` returned, of a job with any number of processes. All have to call it.

        Parameters
        ----------
        state : dict of str to Tensor
            DTensors or whole tensors. Whole ones have to be equal in all processes.

        Raises
        ------
        DGLError
            If there are names too many or missing, or another shape. Nothing is changed then.
        """
        named = self._named()
        if named.keys() != state.keys():
            raise DGLError(f"these names are missing or unknown: {', '.join(sorted(named.keys() ^ state.keys()))}")
        for name, node in named.items():
            if state[name].shape != node.meta["val"].shape:
                raise DGLError(f"{name} has the shape {tuple(state[name].shape)}, expected {_shape(node)}")
        for name, node in named.items():
            with self._links.watched("taking a checkpoint"):
                part = self._cut(node, state[name].detach())
            self._parts[node] = part.to(self._device, node.meta["val"].dtype, copy=True)
        self._error = ""

    def _outside(self, node: Node, full: bool) -> torch.Tensor:
        """Return a tensor as it is outside of the step."""
        assert self.plan is not None
        make = self._sharding.whole if full else self._sharding.to_dtensor
        return make(self._parts[node], node.meta["val"].shape, self.plan.placement(node))


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
    for x in map(whole_tensor, tensors):
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


def _graph_digest(captured: Captured) -> int:
    """Return a number that tells captured steps apart: operators, their arguments, constants and dglite's graphs."""
    number = {node: f"%{i}" for i, node in enumerate(captured.graph.nodes)}
    graphs: dict[tuple[int, ...], str] = {}
    said: list[Any] = []
    for node in number:
        mapped, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), number.__getitem__)
        args = list(mapped)
        schema = getattr(node.target, "_schema", None)
        names = [one.name for one in schema.arguments] if schema else []
        if "structure" in names:
            # programs name a graph by a number that is each process's own
            structure = tuple(args[names.index("structure")][:1])
            if structure not in graphs:
                graphs[structure] = f"graph {_digest(map(torch.from_numpy, edges_of(structure)))}"
            args[names.index("structure")] = graphs[structure]
        said.append((str(node.target), args, kwargs))
    return _number(f"{said} {_digest(captured.constant_values.values())}")


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
