"""``dgl.distributed.role``: every process is a trainer."""

from __future__ import annotations

from . import rpc


def init_role(role: str) -> None:
    """Do nothing: there are no processes of other roles."""


def get_role() -> str:
    """Return ``"default"``, the role of trainers."""
    return "default"


def get_num_trainers() -> int:
    """Return the number of processes."""
    return rpc.get_num_client()


def get_trainer_rank() -> int:
    """Return the number of this process."""
    return rpc.get_rank()


def get_global_rank() -> int:
    """Return the number of this process."""
    return rpc.get_rank()


def get_rank(role: str) -> int:
    """Return the number of this process."""
    return rpc.get_rank()
