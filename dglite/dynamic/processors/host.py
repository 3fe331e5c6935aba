"""Where persistent processors run, as a layout and an update ask for it: here threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from ...errors import DGLError
from ...expr import Expr
from ...kernels.cpu.dynamic.matrix import matrix_kernel
from ...kernels.cpu.dynamic.processors import (
    Job,
    submit,
    wait_for_all,
)
from ...kernels.cpu.dynamic.rowwise import rowwise_kernel
from ...kernels.cpu.dynamic.script import WORTH_SHARING
from ...kernels.cpu.dynamic.steps import step_kernel
from ..batching.execution.arena import Arena
from ..batching.execution.matrices import Product
from ..batching.recording.signatures import Signature
from ..batching.session import before_computing

__all__ = ["HOST", "HostThreads", "check_device"]


def check_device(tensors: Sequence[Tensor], device: torch.device) -> None:
    """Raise if a tensor that operations use is not where processors are."""
    for tensor in tensors:
        if tensor.device != device:
            raise DGLError(
                f"a weight of shape {list(tensor.shape)} on {tensor.device} is used in a step of processors on "
                f"{device}; move the model there before its handle is made"
            )


@final
class HostThreads:
    """Threads, as many as torch has unless ``processors`` says so. Operations are addresses of kernels."""

    def __init__(self, processors: int | None = None) -> None:
        self._processors = processors

    device = torch.device("cpu")
    rowwise, matrix = staticmethod(rowwise_kernel), staticmethod(matrix_kernel)
    arena, job, submit = Arena, Job, staticmethod(submit)
    again = True
    """Whether a plan can be filled in again."""

    def product(self, product: Product, forms: Sequence[str], dtype: str) -> list[int]:
        """Return the operations that multiply by a product's weight."""
        return [matrix_kernel(form, dtype) for form in forms]

    def step(
        self,
        formulas: tuple[Expr, ...],
        spread: tuple[bool, ...],
        add: bool,
        total: bool,
        dtype: str,
        late: bool = True,
    ) -> int:
        """Return the operation of formulas, of an update unless it is not ``late``."""
        return step_kernel(formulas, spread, add, total, dtype)

    def check(self, signature: Signature, tensors: Sequence[Tensor]) -> None:
        """Raise for an operation that there is none for here (``Unsupported``), or for tensors that are elsewhere."""
        check_device(tensors, self.device)

    def give(self, job: Job, kept: Sequence[Any], layout: Any, loss: Any) -> None:
        """Hand scripts, with all that they refer to, over to a job."""
        job.give(*kept[0])

    def lacks(self, what: str) -> None:
        """Take note that processors lack an operation: steps with it are done by lazy batching."""

    def bring(self, layout: Any) -> None:
        """Bring what was given to where processors read it: it is there."""

    def fuse(self, listing: Any, trained: Any, rule: Any, parts: Sequence[Any]) -> bool:
        """List a rule together with the sum that it needs; return whether there is an operation for both."""
        return False

    @property
    def sharing(self) -> tuple[int, int, int]:
        """How many processors there are, how many scripts, and up to which work one of them does it all."""
        processors = self._processors or torch.get_num_threads()
        return processors, processors, WORTH_SHARING


HOST = HostThreads()

before_computing.append(wait_for_all)  # a step may be changing the parameters
