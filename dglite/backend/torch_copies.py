"""Copies of torch's tensors between the host and a device, none of which waits where it need not.

A copy from ordinary memory of the host to a GPU makes the host wait for the GPU. From page-locked memory it does not:
torch keeps such memory and hands it out again when the copies out of it have been made.
"""

from __future__ import annotations

import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ..config import debug_level
from .torch_plain import PLAIN, is_recorded, is_watched

_STAGED_BYTES = 1 << 26
"""Larger tensors are copied as they are: torch keeps page-locked memory, rounded up to a power of two, for good."""
_PACKAGE = f"{Path(__file__).parents[1]}"


def to_device(x: torch.Tensor, device: Any, non_blocking: bool) -> torch.Tensor:
    """Return ``x`` on ``device``. With ``non_blocking`` the host waits for no GPU, and may change ``x`` afterwards."""
    target = torch.device(device)
    if x.device == target:
        return x
    if target.type == "cpu" and not is_recorded():
        report_wait(x.device, x.numel() * x.itemsize)
    if is_recorded() or type(x) not in PLAIN:  # a program has no page-locked memory
        return x.to(target, non_blocking=non_blocking and target.type != "cpu")
    if not non_blocking or not x.is_cpu or not _is_staged(target.type) or not _is_plain(x):
        return x.to(target)
    if x.is_pinned():
        return x.to(target, non_blocking=True)
    return x.contiguous().pin_memory().to(target, non_blocking=True)


def report_wait(device: Any, num_bytes: int) -> None:
    """Print, with ``DGLITE_DEBUG=1``, that the host waits for a device, and which line of the program is the cause."""
    if debug_level() < 1 or torch.device(device).type in ("cpu", "meta"):
        return
    frames = traceback.extract_stack()[:-1]
    outside = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    inside = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    caller, function = (outside or frames)[-1], inside[-3:][0].name if inside else ""
    print(
        f"dglite: {caller.filename}:{caller.lineno} waits for {device}: {num_bytes} bytes are copied to the host "
        f"({function})",
        file=sys.stderr,
    )


@cache
def _is_staged(kind: str) -> bool:
    """Whether copies to a type of devices are faster from page-locked memory."""
    if kind == "cuda":
        return True
    accelerator: Any = getattr(torch, "accelerator", None)  # torch 2.4 has none
    current = accelerator.current_accelerator() if accelerator is not None else None
    return current is not None and current.type == kind and kind != "mps"  # memory of MPS is the host's


def _is_plain(x: torch.Tensor) -> bool:
    return (
        0 < x.numel() * x.itemsize <= _STAGED_BYTES
        and x.layout is torch.strided
        and not (x.requires_grad and torch.is_grad_enabled())
        and not is_watched()
    )
