"""What ranks check of requests to each other, by ``dgl.distributed.rpc``; see test_requests.py."""

from __future__ import annotations

import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from dglite.compat.distributed import DistGraph, rpc
from dglite.compat.distributed.context import initialize
from dglite.errors import DGLError
from tests.distributed.checks import rank, world
from tests.patience import PATIENCE

NAMES = [
    "each_rank_answers",
    "responses_come_in_any_order",
    "a_request_answers_several_ranks",
    "machines_are_asked_by_number",
    "requests_that_fail_name_the_rank",
    "requests_that_do_not_fit",
]
_waiting: list[int] = []


class Rows(rpc.Request):
    """Asks a rank for its share of some rows, and which rank it is."""

    def __init__(self, ids: torch.Tensor) -> None:
        self.ids = ids

    def process_request(self, server_state: Any) -> Answer | None:
        if len(self.ids) == 0:
            return None
        book = server_state.partition_book
        local_ids = self.ids[book.nid2partid(self.ids) == book.partid]
        return Answer(server_state.graph.rank(), server_state.kv_store.pull("node~_N~x", local_ids))


class Answer(rpc.Response):
    """With a state of its own, as DGL's classes have."""

    def __init__(self, asked: int, rows: torch.Tensor) -> None:
        self.asked, self.rows = asked, rows

    def __getstate__(self) -> Any:
        return self.asked, self.rows

    def __setstate__(self, state: Any) -> None:
        self.asked, self.rows = state


class Meeting(rpc.Request):
    """Answered, to all ranks, when all have sent it."""

    def __init__(self, sender: int) -> None:
        self.sender = sender

    def process_request(self, server_state: Any) -> Any:
        _waiting.append(self.sender)
        if len(_waiting) < world():
            return None
        return [(each, Answer(each, torch.ones(1))) for each in _waiting]


class Failing(rpc.Request):
    def process_request(self, server_state: Any) -> Any:
        raise ValueError(f"not here {threading.current_thread().name[:14]}")


class Unknown(rpc.Request):
    pass


@cache
def opened(folder: Path) -> DistGraph:
    (folder / "ip_config.txt").write_text("127.0.0.1\n" * world())
    os.environ.update(RANK=str(rank()), WORLD_SIZE=str(world()))
    initialize(folder / "ip_config.txt")
    for number, classes in {1: (Rows, Answer), 2: (Meeting, Answer), 3: (Failing, None)}.items():
        rpc.register_service(number, *classes)
    return DistGraph("g", part_config=folder / "g" / "g.json", timeout=PATIENCE)


def each_rank_answers(folder: Path) -> None:
    g, ids = opened(folder), torch.arange(60)
    if rank() == 0:  # no other rank takes part
        answers = rpc.remote_call([(target, Rows(ids)) for target in range(rpc.get_num_server())])
        assert [answer.asked for answer in answers] == list(range(world()))
        assert torch.equal(torch.cat([answer.rows for answer in answers]), g.ndata["x"][ids])
    g.barrier()


def responses_come_in_any_order(folder: Path) -> None:
    g = opened(folder)
    for _ in range(3):
        for target in range(world()):
            rpc.send_request(target, Rows(torch.arange(10)))
    asked = [rpc.recv_response().asked for _ in range(3 * world())]
    assert sorted(asked) == sorted(list(range(world())) * 3)
    with pytest.raises(DGLError, match="no request was sent"):
        rpc.recv_response()
    g.barrier()


def a_request_answers_several_ranks(folder: Path) -> None:
    g = opened(folder)
    rpc.send_request(world() - 1, Meeting(rank()))
    assert rpc.recv_response().asked == rank()
    g.barrier()


def machines_are_asked_by_number(folder: Path) -> None:
    g = opened(folder)
    assert rpc.get_num_machines() == world() and rpc.get_machine_id() == rank()
    rpc.send_request_to_machine(world() - 1, Rows(torch.arange(5)))
    assert rpc.recv_response(timeout=60_000).asked == world() - 1
    (answer,) = rpc.remote_call_to_machine([(0, Rows(torch.arange(5)))])
    assert answer.asked == 0
    with pytest.raises(DGLError, match=f"there is no machine {world()}"):
        rpc.send_request_to_machine(world(), Rows(torch.arange(5)))
    g.barrier()


def requests_that_fail_name_the_rank(folder: Path) -> None:
    g = opened(folder)
    with pytest.raises((DGLError, ValueError), match="not here"):
        rpc.remote_call([(0, Failing())])
    if rank():
        rpc.send_request(0, Failing())
        with pytest.raises(DGLError, match="rank 0: ValueError: not here dglite-request"):
            rpc.recv_response()
    g.barrier()


def requests_that_do_not_fit(folder: Path) -> None:
    g = opened(folder)
    with pytest.raises(DGLError, match="Unknown is of no registered service"):
        rpc.send_request(0, Unknown())
    with pytest.raises(DGLError, match=f"there is no rank {world()}; there are {world()}"):
        rpc.send_request(world(), Rows(torch.arange(1)))
    rpc.send_request(0, Rows(torch.arange(0)))  # which has no response
    assert rpc.recv_response(timeout=50) is None
    rpc.reset()
    assert rpc.remote_call([(world() - 1, Rows(torch.arange(0)))]) == [None]
    g.barrier()
    distributed.barrier()
