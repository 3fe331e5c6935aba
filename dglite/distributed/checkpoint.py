"""Checkpoints of all ranks' state by torch.distributed.checkpoint, which any number of ranks can load."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlan

from ..backend import Tensor
from ..backend.torch_dtensor import DTensor, Shard
from ..errors import DGLError
from ..io.atomic import replacing
from .book import Ranges
from .collectives import TIMEOUT, Collectives, RankError
from .tensor import DistTensor, PartitionPolicy

_LIST = "checkpoints.json"
_FOLDER = re.compile(r"\d{8,}-[0-9a-f]{8}")
_WHAT = "a checkpoint"


# -- rows, whatever the partition --------------------------------------------------------------------------------------
def in_original_order(table: DistTensor, rows: Tensor) -> DTensor:
    """Return a row for each node in the order before partitioning, of which each rank has a range; all ranks call it.

    ``rows`` are those of this rank's part of ``table``.
    """
    shards = _shards(table, rows.dtype, tuple(rows.shape[1:]), None)
    shards[_original(table)] = rows
    stride = torch.empty(shards.shape, device="meta").stride()
    return DTensor.from_local(
        shards.local, table.exchange.mesh, [Shard(0)], run_check=False, shape=torch.Size(shards.shape), stride=stride
    )


def from_original_order(table: DistTensor, saved: Tensor) -> Tensor:
    """Return the rows of this rank's part of ``table`` from what :func:`in_original_order` gave; all ranks call it.

    A plain tensor is a row for each node, alike on all ranks.
    """
    if tuple(saved.shape[:1]) != (len(table),):
        raise DGLError(f"{table.name} has {len(table)} rows; the state has shape {tuple(saved.shape)}")
    if not isinstance(saved, DTensor):
        return saved[_original(table)]
    local = saved.to_local()
    return _shards(table, local.dtype, tuple(local.shape[1:]), local)[_original(table)]


def _original(table: DistTensor) -> Tensor:
    original = table.part_policy.original
    return torch.arange(*table.ranges.range_of(table.exchange.rank)) if original is None else original


def _shards(table: DistTensor, dtype: Any, width: tuple[int, ...], local: Tensor | None) -> DistTensor:
    """Return a tensor that is cut as torch.chunk cuts, of zeros or of what there is."""
    count, world = len(table), table.exchange.world
    size = -(-count // world)
    ranges = Ranges([min(rank * size, count) for rank in range(world + 1)], table.ranges.label)
    policy = PartitionPolicy(table.exchange, ranges)
    fill = None if local is None else lambda shape, dtype: local
    return DistTensor((count, *width), dtype, f"{table.name} in {_WHAT}", fill, policy)


# -- files -------------------------------------------------------------------------------------------------------------
def save_checkpoint(state: Mapping[str, Any], folder: Any, step: int, keep: int = 2, timeout: float = TIMEOUT) -> Path:
    """Write a checkpoint; all ranks call it. If it is interrupted, earlier checkpoints stay valid.

    Files are written to a new folder and synced to the disk; then ``checkpoints.json`` is replaced by one that names
    it first. The folder is what ``torch.distributed.checkpoint`` writes and reads.

    Raises RankError: on any rank: files cannot be written, or names and steps differ.

    Parameters
    ----------
    state
        by name, what is saved: modules, optimizers, loaders, :class:`DistEmbedding`, sparse optimizers, or whatever
        else has ``state_dict`` and ``load_state_dict``, and tensors and numbers. The same names on all ranks.
    folder
        where checkpoints are, the same place for all ranks.
    step
        what :func:`load_checkpoint` returns, such as the number of steps done.
    keep
        checkpoints that stay, this one included; older ones are removed.
    timeout
        seconds to wait for the slowest rank.

    Returns
    -------
    Path
        the checkpoint's own folder.
    """
    place = Path(folder)
    with _exchange(timeout) as exchange:
        exchange.together(f"saving {_WHAT}", lambda: _checked(step, keep))
        exchange.same(f"what is in {_WHAT}", (step, keep, sorted(state)))
        name = exchange.gather_objects(f"saving {_WHAT}", f"{step:08d}-{secrets.token_hex(4)}")[0]
        target = place / name
        exchange.together(f"making the folder of {_WHAT}", lambda: _first(exchange, lambda: target.mkdir(parents=True)))
        exchange.together(f"finding the folder of {_WHAT}", lambda: _check_folder(target))
        with _errors(exchange, f"writing {_WHAT}"):
            dcp.save(dict(sorted(state.items())), checkpoint_id=target, process_group=exchange.group)
        exchange.together(f"keeping {_WHAT}", lambda: _first(exchange, lambda: _commit(place, name, keep)))
    return target


def load_checkpoint(state: dict[str, Any], folder: Any, timeout: float = TIMEOUT) -> int | None:
    """Read the last checkpoint that is complete into modules, optimizers, loaders and tables; all ranks call it.

    Another number of ranks than wrote it may read it: rows of tables find the nodes that they were of before
    partitioning, and a loader that was made with ``shared=True`` goes on with the same batches.

    Raises RankError: on any rank: a file is missing or damaged, or something that ``state`` has was not saved or has
    another shape. What has been read by then stays changed.

    Parameters
    ----------
    state
        what was saved, made as it was then; changed in place, and numbers are replaced.
    folder, timeout
        as for :func:`save_checkpoint`.

    Returns
    -------
    int or None
        its step; None where there is no checkpoint, and nothing was changed.
    """
    place = Path(folder)
    with _exchange(timeout) as exchange:
        exchange.same(f"what is read of {_WHAT}", sorted(state))
        names = exchange.together(f"finding {_WHAT}", lambda: _first(exchange, lambda: _complete_names(place)))
        names = exchange.gather_objects(f"finding {_WHAT}", names)[0]
        if names:
            source = place / names[0]
            exchange.together(f"finding {_WHAT}", lambda: _prepare(state, source))
            with _errors(exchange, f"reading {source}"):
                dcp.load(state, checkpoint_id=source, planner=_SameSizes(), process_group=exchange.group)
    return int(names[0].partition("-")[0]) if names else None


_exchanges: dict[tuple[Any, float], Collectives] = {}
"""The exchange of checkpoints by the group of all ranks and the timeout. It is kept: with torch 2.4 the end of a group
may wait forever, for a thread that waits for the GIL."""


@contextmanager
def _exchange(timeout: float) -> Iterator[Collectives]:
    """Give the exchange of the last call if it serves, and else a new one; after an error it serves no more."""
    everyone = dist.group.WORLD if dist.is_initialized() else None
    exchange = _exchanges.pop((everyone, timeout), None) or Collectives(timeout)
    yield exchange
    _exchanges[everyone, timeout] = exchange


class _SameSizes(DefaultLoadPlanner):
    """Refuses tensors of another size than was saved, of which torch 2.4 reads a part."""

    def create_local_plan(self) -> LoadPlan:
        """Return what this rank reads."""
        assert self.metadata is not None
        for name, current in self.state_dict.items():
            saved = getattr(self.metadata.state_dict_metadata.get(name), "size", None)
            if saved is not None and isinstance(current, torch.Tensor) and saved != current.size():
                raise ValueError(f"Size mismatch between saved {saved} and current: {current.size()} for {name}")
        return super().create_local_plan()


def _checked(step: Any, keep: Any) -> None:
    for value, name, least in ((step, "step", 0), (keep, "keep", 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DGLError(f"{name}={value!r}; expected an integer of at least {least}")


def _first(exchange: Collectives, call: Any) -> Any:
    return call() if exchange.rank == 0 else None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise DGLError(f"{folder} is not there, but the first rank has made it; give a folder that all ranks share")


def _complete_names(place: Path) -> list[str]:
    """Return the names of the checkpoints that are complete, newest first."""
    path = place / _LIST
    if not path.exists():
        return []
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
        if not names or not all(_FOLDER.fullmatch(name) for name in names):
            raise ValueError("no list of checkpoints")
    except (ValueError, TypeError) as error:
        raise DGLError(f"{path} is damaged ({error}); checkpoints are the folders beside it") from error
    return list(names)


def _commit(place: Path, name: str, keep: int) -> None:
    """Make a checkpoint the last one, and remove those that are too old or were interrupted."""
    names = [name, *_complete_names(place)][:keep]
    _sync(place / name)
    with replacing(place / _LIST) as part, part.open("w", encoding="utf-8") as file:
        json.dump(names, file)
        file.flush()
        os.fsync(file.fileno())
    _sync(place)
    for other in place.iterdir():
        if _FOLDER.fullmatch(other.name) and other.name not in names:
            shutil.rmtree(other, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Have the disk write down the names in a folder."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _errors(exchange: Collectives, step: str) -> Iterator[None]:
    """Raise `RankError` for what torch.distributed.checkpoint raises, on all ranks alike."""
    try:
        with exchange.watched(step):
            yield
    except CheckpointException as error:
        rank, (reason, _) = min(error.failures.items())
        raise RankError(f"rank {rank}: {step}: {type(reason).__name__}: {reason}") from error


# -- optimizers --------------------------------------------------------------------------------------------------------
def _prepare(state: Mapping[str, Any], folder: Path) -> None:
    """Let optimizers have what they have after a step, where the checkpoint has it: it is read into that."""
    _check_folder(folder)
    saved = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    for name, value in state.items():
        if isinstance(value, torch.optim.Optimizer) and not value.state:
            prefix = f"{name}.state."
            _step_without_change(value, {int(k[len(prefix) :].split(".")[0]) for k in saved if k.startswith(prefix)})


def _step_without_change(optimizer: torch.optim.Optimizer, numbers: set[int]) -> None:
    """Make the state of some parameters, counted over all groups."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    rates = [group["lr"] for group in optimizer.param_groups]
    for i, param in enumerate(params):
        param.grad = torch.zeros_like(param) if i in numbers else None
    try:
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
        if numbers:
            optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        optimizer.zero_grad()
