"""``dgl.distributed.role``: every process is a trainer."""

from __future__ import annotations

from . import rpc

get_num_trainers = rpc.get_num_client
get_trainer_rank = get_global_rank = rpc.get_rank


def init_role(role: str) -> None:
    """Do nothing: there are no processes of other roles."""


def get_role() -> str:
    """Return ``"default"``, the role of trainers."""
    return "default"


def get_rank(role: str) -> int:
    """Return the number of this process."""
    return rpc.get_rank()
