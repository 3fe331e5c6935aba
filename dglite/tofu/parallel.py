"""``parallelize``: train a module with its tensors split over processes according to a plan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from ..errors import DGLError
from .capture import check_whole
from .links import Links
from .step import ParallelStep


def parallelize(
    module: nn.Module,
    loss: Callable[..., torch.Tensor] | torch.optim.Optimizer | None,
    optimizer: torch.optim.Optimizer | None = None,
    workers: int | None = None,
    *,
    memory: float | None = None,
    device: torch.device | str = "cpu",
    timeout: float = 300.0,
    seed: int = 0,
    split_batch: bool = False,
) -> ParallelStep:
    """Return a function that trains ``module`` one step, its tensors split over all processes of the job.

    Each process calls this, under torchrun for example, with an equal module, and then the step with equal inputs. The
    plan is made at the first step, from the shapes of the inputs.

    Raises DGLError if ``workers`` is not the number of processes, or torch.distributed has not been initialised.

    Parameters
    ----------
    module : nn.Module
        Equal in all processes: set the same seed before it is made. From the first step on the memory of its parameters
        and buffers is this worker's parts; other uses of them raise. A module on the meta device is initialised
        by its layers' ``reset_parameters``, one layer at a time, so that it may be larger than memory.
    loss : callable or None
        See `capture`. Left out, as in ``parallelize(module, optimizer)``, the module returns its loss.
    optimizer : torch.optim.Optimizer
        An element-wise one of the module's parameters; see `capture`. Each worker runs its ``step()`` on its parts, so
        schedules and changes of its groups work as ever.
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
    split_batch : bool
        Whether each process passes its share of the batch, as with DDP: equally many rows (the first dimension) of each
        input tensor, in the order of the processes. The loss is still that of the whole batch.
    """
    if isinstance(loss, torch.optim.Optimizer):
        if optimizer is not None:
            raise DGLError(
                "two optimizers: call parallelize(module, optimizer) or parallelize(module, loss, optimizer)"
            )
        loss, optimizer = None, loss
    if not dist.is_initialized():
        raise DGLError("call torch.distributed.init_process_group() first, in processes that torchrun starts")
    world = dist.get_world_size()
    if workers not in (None, world):
        raise DGLError(
            f"workers={workers}, but the job has {world} processes: start it with --nproc-per-node={workers}"
        )
    if optimizer is None:
        raise DGLError("an optimizer is needed to train: pass one of the module's parameters")
    check_whole(module)
    links = Links(dist.get_rank(), world, timeout=timeout)
    if world > 1:
        with links.watched("making a group of processes"):
            links.group = dist.new_group(timeout=timedelta(seconds=timeout))
    return ParallelStep(module, loss, optimizer, links, memory, torch.device(device), seed, split_batch)
