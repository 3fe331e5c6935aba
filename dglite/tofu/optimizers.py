"""Which optimizers can update parts of parameters, and what state they keep: learnt by running them on small tensors.

A step runs ``optimizer.step()`` of torch on each worker's parts. That gives what it gives on whole parameters if the
optimizer is element-wise: an element's new value depends on that element, its gradient and its state alone.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import DGLError
from .partitioned import local_part

_ROWS, _COLUMNS = 4, 6
_STEPS = 2


@dataclass(frozen=True)
class StateEntry:
    """An entry of an optimizer's state, as ``exp_avg`` of Adam's.

    Attributes
    ----------
    elementwise : bool
        Whether it has an element for each of the parameter's, so that it is split as the parameter is.
    dtype : torch.dtype or None
        None is the parameter's.
    number : type or None
        ``int`` or ``float`` where it is a Python number instead of a tensor.
    shape : tuple of int
        Of an entry that is not element-wise.
    """

    elementwise: bool
    dtype: torch.dtype | None = None
    number: type | None = None
    shape: tuple[int, ...] = ()


def check_optimizer(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
    """Raise if an optimizer has parameters that are not the module's, or does not update element by element.

    ``names`` are the module's parameters by id.
    """
    for group in optimizer.param_groups:
        strange = [p for p in group["params"] if id(p) not in names]
        if strange:
            shapes = ", ".join(str(tuple(p.shape)) for p in strange[:3])
            raise DGLError(
                f"the optimizer has {len(strange)} parameters, of shapes {shapes}, that the module does not have: build"
                " it from module.parameters() of this module"
            )
        state_entries(optimizer, group)


def state_entries(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> dict[str, StateEntry]:
    """Return the state that an optimizer keeps for each parameter of a group, after its first step.

    Raises ``DGLError``: if parts of a parameter are not updated as the whole is.
    """
    whole, state = _updated(optimizer, group, [(slice(None), slice(None))])
    half = (
        [(slice(0, 2), slice(None)), (slice(2, None), slice(None))],
        [(slice(None), slice(0, 3)), (slice(None), slice(3, None))],
    )
    for dim, cuts in enumerate(half):
        parts, _ = _updated(optimizer, group, cuts)
        if not torch.allclose(torch.cat(parts, dim), whole[0], rtol=1e-9, atol=1e-12):
            raise DGLError(
                f"{type(optimizer).__name__} does not update element by element, so a worker cannot update its part of"
                " a parameter alone: use one that does, as torch.optim's SGD, Adam, AdamW, Adagrad or RMSprop"
            )
    return {key: _entry(value) for key, value in state.items() if value is not None}


def _updated(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], cuts: Sequence[tuple[slice, slice]]
) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """Return pieces of a small matrix after some steps with the options of a group, and the first one's state."""
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(_ROWS, _COLUMNS, generator=generator, dtype=torch.float64) for _ in range(_STEPS + 1)]
    pieces = [draws[0][cut].clone().requires_grad_() for cut in cuts]
    trial = object.__new__(type(optimizer))
    trial.__dict__.update(optimizer.__dict__)
    trial.__dict__.pop("step", None)  # schedulers wrap it
    options = {"capturable": False} if group.get("capturable") else {}
    trial.param_groups = [{**group, **options, "params": pieces}]
    trial.state = defaultdict(dict)
    trial._optimizer_step_pre_hooks, trial._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
    begun = next((p for p in group["params"] if optimizer.state.get(p)), None)
    first: dict[str, Any] = {} if begun is None else optimizer.state[begun]
    shape = () if begun is None else tuple(local_part(begun).shape)
    for piece in pieces:
        trial.state[piece] = {key: _like(value, shape, piece) for key, value in first.items()}
    for gradient in draws[1:]:
        for piece, cut in zip(pieces, cuts, strict=True):
            piece.grad = gradient[cut].clone()
        try:
            type(optimizer).step(trial)  # type: ignore[call-arg]
        except Exception as error:
            raise DGLError(
                f"{type(optimizer).__name__} cannot update a small matrix from its gradient alone ({error}): use an"
                " element-wise optimizer of torch.optim, as Adam"
            ) from error
    return [piece.detach() for piece in pieces], trial.state[pieces[0]]


def _like(value: Any, shape: tuple[int, ...], piece: torch.Tensor) -> Any:
    """Return an entry of a parameter's state for a piece of the small matrix."""
    if not isinstance(value, torch.Tensor):
        return value
    if tuple(value.shape) != shape or not shape:
        return value.clone()
    start = 0.0 if value.is_meta else float(value.flatten()[0])
    dtype = value.dtype if value.dtype not in (torch.float32, torch.float16, torch.bfloat16) else torch.float64
    return torch.full_like(piece, start, dtype=dtype, requires_grad=False)


def _entry(value: Any) -> StateEntry:
    if not isinstance(value, torch.Tensor):
        return StateEntry(False, torch.float64, type(value))
    if value.shape == (_ROWS, _COLUMNS):
        return StateEntry(True, None if value.dtype == torch.float64 else value.dtype)
    return StateEntry(False, value.dtype, None, tuple(value.shape))


def named_state(
    optimizer: torch.optim.Optimizer, names: dict[int, str], frozen: bool = False
) -> dict[str, tuple[torch.nn.Parameter, str, StateEntry]]:
    """Return parameter, key and kind of each entry of an optimizer's state by name, as ``"0.weight.exp_avg"``.

    ``frozen`` says whether to include parameters that require no gradient.
    """
    entries_of: dict[str, tuple[torch.nn.Parameter, str, StateEntry]] = {}
    for group in optimizer.param_groups:
        entries = state_entries(optimizer, group)
        for p in group["params"]:
            if frozen or p.requires_grad:
                entries_of |= {f"{names[id(p)]}.{key}": (p, key, entry) for key, entry in entries.items()}
    return entries_of
