"""A rank that fails, or that is killed at any moment, ends all others with an error that names it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import kills
import pytest

from dglite import DGLError
from dglite.distributed import start
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def run(*command: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each rank of each case wrote to the error output."""
    done = run("-m", "tests.distributed.failing", tmp_path_factory.mktemp("messages"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


GONE = "rank 1 is gone: killed, or ended without an error of its own"
MISSING = r"ranks \[1\] of 3 did not come in time"


@pytest.mark.parametrize(
    ("case", "expected"),
    {
        "raises": {0: "RankError: rank 1: ValueError: no more", 1: "ValueError: no more", 2: "rank 1: ValueError"},
        "raises_beside_torch": {0: "RuntimeError(.|\n)*rank 1: ValueError: no more"},
        "leaves": {0: GONE},
        "is_killed_while_others_compute": {0: GONE, 2: GONE},
        "is_busy": {0: (busy := "RankError: rank 1 did not take part in barrier in time"), 1: busy},
        "stops": {0: "rank 1 has stopped, or its machine cannot be reached"},
        "is_killed_before_a_read": {0: f"RankError: {GONE}"},
        "is_killed_between_reads": {0: f"RankError: {GONE}"},
        "stops_before_a_read": {0: "RankError: rank 1 did not answer while writing table, for 10 s"},
        "is_killed_before_a_request": {0: f"RankError: {GONE}"},
        "stops_before_a_request": {0: "rank 1 did not answer while processing a request of service 1, for 10 s"},
        "is_busy_and_is_read": {0: r"\[\[0.0, 0.0, 0.0\], \[1.0, 1.0, 1.0\]\]"},
        "leaves_before_the_end": {0: GONE},
        "does_not_come": {0: MISSING, 2: MISSING},
        "is_there_twice": {0: r"ranks \[2\] of 3 did not come in time"},
        "has_another_number_of_ranks": {
            0: (worlds := "DGLError: rank 0 was started with WORLD_SIZE=2, rank 1 with 3; it must be the same on all"),
            1: worlds,
        },
        "is_too_many": {0: "RANK=2, but WORLD_SIZE=2", 1: "RANK=3, but WORLD_SIZE=2"},
    }.items(),
)
def test_others_say_who_failed(messages: dict[str, list[str]], case: str, expected: dict[int, str]) -> None:
    for rank, text in expected.items():
        assert re.search(text, messages[case][rank]), f"rank {rank}: {messages[case][rank]}"


def test_of_two_processes_of_one_rank_the_second_says_so(messages: dict[str, list[str]]) -> None:
    assert sum("DGLError: two processes have RANK=1" in text for text in messages["is_there_twice"][1:]) == 1


class StoreOfDeadRank:
    """A store whose process ends once this rank has read its entry."""

    add, set = staticmethod(lambda key, count: 1), staticmethod(lambda key, value: None)

    def wait(self, keys: list[str], timeout: object) -> None:
        if keys != ["rank 0"]:
            raise RuntimeError("Connection reset by peer")

    def get(self, key: str) -> str:
        return json.dumps([2, ["127.0.0.1", 1, "", ""]])

    def check(self, keys: list[str]) -> bool:
        raise RuntimeError("Broken pipe")


def test_a_store_that_is_gone_is_not_a_rank_that_is_late() -> None:
    with pytest.raises(DGLError, match="rank 0 is gone"):
        start._meet(StoreOfDeadRank(), 1, 2, SimpleNamespace(address=("127.0.0.1", 2, "", "")), time.monotonic() + 60)


def test_a_rank_that_left_before_it_met_the_others_is_named_beside_the_killed_one() -> None:
    """Ranks that still meet lose their store with rank 0, and end too soon to tell the others why."""
    assert kills.names_victim("RankError: ranks 0, 2 are gone: killed, or ended", 0, 3)
    assert kills.names_victim("RankError: ranks 0, 2, 12 are gone: killed, or ended", 2, 13)
    assert kills.names_victim("RankError: rank 0 is gone: killed", 0, 3)
    for message in ("ranks 1, 2 are gone", "rank 10 is gone", "ranks 10, 12 are gone", "ranks 0, 2 do something else"):
        assert not kills.names_victim(message, 0, 13)


def test_killed_ranks_are_named_and_jobs_go_on() -> None:
    """A job is killed in each place; see benchmarks/kills.py."""
    runs = 200 if FULL else 5
    done = run("benchmarks/kills.py", "--quick", f"--runs={runs}", "--timeout=40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f'"kills": {runs}' in done.stdout
