"""Processes of a job on this machine, which run functions together, one after the other."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.forked import CONTEXT
from tests.patience import PATIENCE


def _serve(rank: int, world: int, store: str, pipe: Connection) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=PATIENCE))
    while (work := pipe.recv()) is not None:
        function, args = work
        try:
            pipe.send((function(rank, *args), None))
        except BaseException as error:
            pipe.send((None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    dist.destroy_process_group()


class Workers:
    """``world`` processes."""

    def __init__(self, world: int, folder: Path) -> None:
        self.pipes, self.processes = [], []
        for rank in range(world):
            mine, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=_serve, args=(rank, world, str(folder / "store"), theirs), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Let all run ``function(rank, *args)``."""
        for pipe in self.pipes:
            pipe.send((function, args))

    def outcomes(self) -> list[tuple[Any, str | None]]:
        """Return of each what the function returned, and the error that it raised; of one that has died, why."""
        results = []
        for pipe in self.pipes:
            try:
                results.append(pipe.recv() if pipe.poll(PATIENCE) else (None, "no answer"))
            except EOFError:
                results.append((None, "died"))
        return results

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what the function returned in each process; an error is raised here."""
        self.start(function, *args)
        outcomes = self.outcomes()
        assert not any(error for _, error in outcomes), "\n".join(str(error) for _, error in outcomes)
        return [value for value, _ in outcomes]

    def stop(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            try:
                pipe.send(None)
            except (BrokenPipeError, OSError):
                continue
            process.join(5)
        for process in self.processes:
            if process.is_alive():
                process.kill()
