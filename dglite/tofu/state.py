"""The state of a partitioned step: parameters, buffers and the optimizer's state, of which a worker has parts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from ..backend.torch_dtensor import DTensor
from ..errors import DGLError
from .agreement import checksum, require_equal
from .capture import Captured
from .checkpoint import Dims, Sharding
from .links import Links
from .optimizers import StateEntry, named_state
from .partitioned import PartAccess, local_part, partition
from .plan import PartitionPlan


class PartitionedState:
    """Parts of a module's tensors and of its optimizer's state, held by the module and the optimizer themselves.

    Making it cuts them to this worker's parts. A parameter's memory is its part from then on: ``optimizer.step()``
    works on parts, other uses of it raise, and ``state_dict`` of module and optimizer gives DTensors.

    Parameters
    ----------
    module, optimizer
        All processes have equal ones.
    plan : PartitionPlan
        Whose placements the parts have.
    sharding : Sharding
    links : Links
    device : torch.device
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        plan: PartitionPlan,
        sharding: Sharding,
        links: Links,
        device: torch.device,
    ) -> None:
        self.optimizer, self.device, self.sharding = optimizer, device, sharding
        self._module, self._replaced, self._checked = module, "", -1
        self._links, self._rank_digits = links, sharding.layout.digits[links.rank]
        captured = plan.captured
        if any(p.grad is not None for p in module.parameters()):
            raise DGLError("the parameters have gradients before the first step: call optimizer.zero_grad() before it")
        self._whole = {name: node.meta["val"] for name, node in _named(captured).items()}
        self._dims: dict[str, Dims] = {name: plan.placement(node) for name, node in _named(captured).items()}
        self.tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        names = {id(x): name for name, x in self.tensors.items()}
        entries = {name: entry for name, entry in named_state(optimizer, names).items() if name in captured.state}
        owners = {name: names[id(p)] for name, (p, _, _) in entries.items()}
        for name, value in _initialised(module, self.tensors, device):
            self._take(module, name, value)
        self.parameters = [x for x in self.tensors.values() if isinstance(x, nn.Parameter)]
        self._names = {id(x): name for name, x in self.tensors.items()}
        self._entries = {name: (self.tensors[owners[name]], key, entry) for name, (_, key, entry) in entries.items()}
        self._convert_state(self._cut_state)
        # a training loop saves and loads optimizers by their own methods
        optimizer.register_state_dict_post_hook(self._state_to_dtensors)
        optimizer.register_load_state_dict_pre_hook(self._state_to_parts)

    def _take(self, module: nn.Module, name: str, value: torch.Tensor) -> None:
        part = self.cut(name, value).to(self.device, copy=True, memory_format=torch.contiguous_format)
        access = PartAccess(name, self._whole[name], partial(self._distributed, name), partial(self.write, name))
        before = self.tensors[name]
        self.tensors[name] = after = partition(before, part, access)
        if after is not before:
            _replace(module, self.optimizer, before, after)

    def problem(self, settings: int) -> str:
        """Return why a step cannot be trained any more, or an empty text.

        ``settings`` is the number of the module's settings: the module is read again when it has changed.
        """
        foreign = [p for group in self.optimizer.param_groups for p in group["params"] if id(p) not in self._names]
        if foreign:
            return f"the optimizer has {len(foreign)} parameters that are not those of the module"
        if settings != self._checked:
            self._replaced, self._checked = self._replaced_tensors(), settings
        return self._replaced

    def _replaced_tensors(self) -> str:
        now = dict(self._module.named_parameters()) | dict(self._module.named_buffers())
        changed = [name for name in self.tensors.keys() | now.keys() if self.tensors.get(name) is not now.get(name)]
        if changed:
            return (
                f"{', '.join(sorted(changed)[:3])} of the module are no longer the tensors that the workers hold parts"
                " of: load values by load_state_dict without assign=True, or call parallelize again for the changed"
                " module with a new optimizer"
            )
        return ""

    # -- parts ---------------------------------------------------------------------------------------------------------
    def cut(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Return this worker's part of a whole tensor or a DTensor."""
        return self.sharding.from_tensor(x, self._dims[name])

    def part(self, name: str) -> torch.Tensor:
        """Return this worker's part of a parameter, a buffer or an entry of the optimizer's state."""
        if name in self.tensors:
            return local_part(self.tensors[name])
        p, key, entry = self._entries[name]
        value = self.optimizer.state.get(p, {}).get(key)
        if value is None:  # before the first step
            shape = local_part(p).shape if entry.elementwise else entry.shape
            return torch.zeros(shape, dtype=self._whole[name].dtype, device=self.device)
        return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)

    def parts(self) -> dict[str, torch.Tensor]:
        """Return all of this worker's parts by name."""
        return {name: self.part(name) for name in self._whole}

    def placed(self, name: str, node: Node, plan: PartitionPlan) -> torch.Tensor:
        """Return the part of a parameter or buffer that a plan asks for; all processes have to call it."""
        return self.sharding.between(self.part(name), self._whole[name].shape, self._dims[name], plan.placement(node))

    def back(self, name: str, part: torch.Tensor, node: Node, plan: PartitionPlan) -> torch.Tensor:
        """Return a part that a plan made as it is held: the opposite of `placed`."""
        return self.sharding.between(part, self._whole[name].shape, plan.placement(node), self._dims[name])

    def set_part(self, name: str, part: torch.Tensor) -> None:
        """Give this worker's part of a buffer new values."""
        local_part(self.tensors[name]).copy_(part)

    def write(self, name: str, x: torch.Tensor) -> None:
        """Set a parameter or buffer to a whole tensor, equal in all processes, or a DTensor."""
        if x.shape != self._whole[name].shape:
            raise DGLError(f"{name} has the shape {tuple(x.shape)}, expected {tuple(self._whole[name].shape)}")
        self._require_equal(name, [x])
        with self._links.watched("taking a checkpoint"):
            part = self.cut(name, x.detach())
        local_part(self.tensors[name]).copy_(part)

    def _require_equal(self, name: str, tensors: Sequence[torch.Tensor]) -> None:
        """Raise in all processes if they have other whole tensors."""
        whole = [x.to("cpu") for x in tensors if not isinstance(x, DTensor) and not x.is_meta]
        require_equal(self._links, {f"new values of {name}": checksum(whole)}, self.device)

    def outside(self, name: str, full: bool) -> torch.Tensor:
        """Return a tensor as a DTensor, or whole."""
        if not full:
            return self._distributed(name)
        return self.sharding.whole(self.part(name), self._whole[name].shape, self._dims[name])

    def _distributed(self, name: str) -> DTensor:
        return self.sharding.to_dtensor(self.part(name), self._whole[name].shape, self._dims[name])

    # -- gradients -----------------------------------------------------------------------------------------------------
    def add_gradients(self, gradients: Mapping[str, torch.Tensor], plan: PartitionPlan) -> None:
        """Add gradients as a plan has made them to those of this worker's parts of parameters."""
        owned: set[int] = set()
        for name, gradient in gradients.items():
            p, part = self.tensors[name], self.back(name, gradient, plan.captured.parameters[name], plan)
            part = _in_own_memory(part, owned)
            with torch._C.DisableTorchFunctionSubclass():
                p.grad = part if p.grad is None else p.grad.add_(part)

    def clip_gradients(self, max_norm: float, norm_type: float) -> torch.Tensor:
        """Scale gradients as `torch.nn.utils.clip_grad_norm_` does, by the norm of all workers' parts."""
        with torch._C.DisableTorchFunctionSubclass():
            gradients = {self._names[id(p)]: p.grad for p in self.parameters if p.grad is not None}
        if not gradients:
            raise DGLError(
                "there are no gradients to clip: call step.backward(...) instead of step(...), then"
                " step.clip_grad_norm_(...), then step.update()"
            )
        norms = [torch.linalg.vector_norm(g, norm_type) for name, g in gradients.items() if self._counts(name)]
        mine = torch.linalg.vector_norm(torch.stack([*norms, torch.zeros((), device=self.device)]).float(), norm_type)
        if self._links.world > 1:
            mine = torch.linalg.vector_norm(self._links.gather(mine, "the norm of gradients"), norm_type)
        torch._foreach_mul_(list(gradients.values()), float(torch.clamp(max_norm / (mine + 1e-6), max=1.0)))
        return mine

    def _counts(self, name: str) -> bool:
        """Return whether this worker is the first of those that hold the same part."""
        return not any(dim is None and j for dim, j in zip(self._dims[name], self._rank_digits, strict=True))

    def update(self) -> None:
        """Run the optimizer on this worker's parts, and clear their gradients."""
        with torch._C.DisableTorchFunctionSubclass():
            self.optimizer.step()
            for p in self.parameters:
                p.grad = None

    # -- checkpoints ---------------------------------------------------------------------------------------------------
    def state_dict(self, full: bool) -> dict[str, torch.Tensor]:
        """Return all tensors by name."""
        self._add_entries(lambda p, name: p in self.optimizer.state)
        return {name: self.outside(name, full) for name in self._whole}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take all tensors by name: whole tensors or DTensors."""
        self._add_entries(lambda p, name: name in state)
        if self._whole.keys() != state.keys():
            names = ", ".join(sorted(self._whole.keys() ^ state.keys()))
            raise DGLError(f"these names are missing or unknown: {names}")
        for name, whole in self._whole.items():
            if state[name].shape != whole.shape:
                raise DGLError(f"{name} has the shape {tuple(state[name].shape)}, expected {tuple(whole.shape)}")
        entries: dict[int, dict[str, Any]] = {}
        self._require_equal("the state", list(state.values()))
        for name, x in state.items():
            if name in self.tensors:
                with self._links.watched("taking a checkpoint"):
                    part = self.cut(name, x.detach())
                local_part(self.tensors[name]).copy_(part)
                continue
            p, key, entry = self._entries[name]
            with self._links.watched("taking a checkpoint"):
                part = self.cut(name, x.detach())
            entries.setdefault(id(p), {})[key] = self._as_entry(part, entry, self._whole[name].dtype)
        begun = self._begun(entries)
        for p in {id(p): p for p, *_ in self._entries.values()}.values():
            self.optimizer.state.pop(p, None)
            if id(p) in begun:
                self.optimizer.state[p] = entries[id(p)]

    def _as_entry(self, part: torch.Tensor, entry: StateEntry, dtype: torch.dtype) -> Any:
        if entry.number is not None:
            return entry.number(part.item())
        # torch keeps counts of steps on the CPU
        device = self.device if entry.elementwise else part.device
        return part.to(device, dtype, copy=True)

    def _begun(self, entries: Mapping[int, Mapping[str, Any]]) -> set[int]:
        """Return the parameters that have been updated before: all entries of others are 0, on all workers.

        torch.optim makes those at the first update, to values that need not be 0.
        """
        flags = [any(bool(torch.as_tensor(v).any()) for v in values.values()) for values in entries.values()]
        if self._links.world > 1 and flags:
            rows = self._links.gather(torch.tensor(flags, dtype=torch.int64, device=self.device), "taking a checkpoint")
            flags = rows.any(0).tolist()
        return {key for key, flag in zip(entries, flags, strict=True) if flag}

    def _add_entries(self, accept: Callable[[torch.Tensor, str], bool]) -> None:
        """Add state of parameters that the first plan did not train: frozen ones, or not yet the optimizer's."""
        for name, (p, key, entry) in named_state(self.optimizer, self._names, frozen=True).items():
            if name not in self._entries and accept(p, name):
                owner = self._names[id(p)]
                shape = self._whole[owner].shape if entry.elementwise else entry.shape
                dtype = entry.dtype or self._whole[owner].dtype
                self._whole[name] = torch.empty(shape, dtype=dtype, device="meta")
                self._dims[name] = self._dims[owner] if entry.elementwise else (None,) * len(self._dims[owner])
                self._entries[name] = p, key, entry

    def _convert_state(self, convert: Callable[[str, torch.Tensor], Any]) -> None:
        for name, (p, key, entry) in self._entries.items():
            value = self.optimizer.state.get(p, {}).get(key)
            if entry.elementwise and value is not None:
                self.optimizer.state[p][key] = convert(name, value)

    def _cut_state(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return self.cut(name, value).to(self.device, copy=True)

    def _state_to_dtensors(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Hook of ``optimizer.state_dict()``."""
        self._add_entries(lambda p, name: p in self.optimizer.state)
        state["state"] = self._converted(state, lambda name, value: self.outside(name, False))

    def _state_to_parts(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        """Hook of ``optimizer.load_state_dict()``."""
        self._add_entries(lambda p, name: True)
        tensors = [x for values in state["state"].values() for x in values.values() if isinstance(x, torch.Tensor)]
        self._require_equal("the optimizer's state", tensors)
        return state | {"state": self._converted(state, self._cut_state)}

    def _converted(self, state: dict[str, Any], convert: Callable[[str, torch.Tensor], torch.Tensor]) -> dict[Any, Any]:
        """Return the ``state`` entry of an optimizer's state dict with its element-wise tensors converted."""
        names = [self._names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]
        numbers = [number for group in state["param_groups"] for number in group["params"]]
        by_number = dict(zip(numbers, names, strict=False))
        elementwise = {name for name, (_, _, entry) in self._entries.items() if entry.elementwise}
        return {
            number: {
                key: convert(name, value) if (name := f"{by_number.get(number)}.{key}") in elementwise else value
                for key, value in entries.items()
            }
            for number, entries in state["state"].items()
        }


def _named(captured: Captured) -> dict[str, Node]:
    return captured.parameters | captured.buffers | captured.state


def _replace(module: nn.Module, optimizer: torch.optim.Optimizer, before: torch.Tensor, after: torch.Tensor) -> None:
    """Let a module and its optimizer have another tensor instead of a parameter or buffer."""
    for child in module.modules():
        for tensors in (child._parameters, child._buffers):
            tensors.update({name: after for name, x in tensors.items() if x is before})  # type: ignore[misc, arg-type]
    for group in optimizer.param_groups:
        group["params"] = [after if p is before else p for p in group["params"]]
    if before in optimizer.state:
        optimizer.state[after] = optimizer.state.pop(before)


def _initialised(
    module: nn.Module, named: Mapping[str, torch.Tensor], device: torch.device
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and buffers by name; of layers on the meta device, one layer is initialised at a time."""
    for prefix, child in module.named_modules():
        tensors: Iterable[tuple[str, torch.Tensor]] = [
            *child.named_parameters(prefix, recurse=False),
            *child.named_buffers(prefix, recurse=False),
        ]
        if any(x.is_meta for _, x in tensors):
            reset = getattr(child, "reset_parameters", None)
            if reset is None:
                raise DGLError(f"module {prefix!r} is on the meta device and has no reset_parameters to initialise it")
            layer = copy.deepcopy(child).to_empty(device=device, recurse=False)
            layer.reset_parameters()
            tensors = [*layer.named_parameters(prefix, recurse=False), *layer.named_buffers(prefix, recurse=False)]
        yield from ((name, x.detach()) for name, x in tensors if name in named)


def _in_own_memory(x: torch.Tensor, owned: set[int]) -> torch.Tensor:
    """Return a gradient that may be changed in place: one that shares no memory with itself or with another."""
    pointer = x.untyped_storage().data_ptr()
    dense = x.untyped_storage().nbytes() == x.nbytes and x.is_contiguous()
    if not dense or pointer in owned:
        x = x.clone(memory_format=torch.contiguous_format)
        pointer = x.untyped_storage().data_ptr()
    owned.add(pointer)
    return x
