"""The generators of random numbers that torch's functions on a device may draw from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def generator_states(device: torch.device) -> list[tuple[Callable[[Any], None], torch.Tensor]]:
    """Return the states of the CPU's generator and of a device's, with what sets them again."""
    states: list[tuple[Callable[[Any], None], torch.Tensor]] = [(torch.set_rng_state, torch.get_rng_state())]
    there: Any = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(there, "get_rng_state"):
        states.append((partial(there.set_rng_state, device=device), there.get_rng_state(device)))
    return states
