"""DGL 2.1's distributed sampling beside dglite's: a server and a client for each part, on this machine.

    python benchmarks/distributed_dgl.py partition EDGES FOLDER PARTS METHOD    cut the graph of a .npz file
    python benchmarks/distributed_dgl.py rank ADDRESSES CONFIG MACHINE BATCH EPOCHS OUT

DGL finds its part by the machine that it runs on, and shares memory by name with all processes there. So each part has
an address of the loopback network and a folder for shared memory of its own, which Linux gives to a process that may
mount (``unshare``). GraphBolt has no compiled part for this torch: DGL's own sampling is measured.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import load_dgl
from distributed_ranks import FANOUTS, NAME

SECONDS = 120


def load() -> Any:
    """Return DGL with what its distributed package asks of GraphBolt: a class that no graph is of."""
    dgl = load_dgl()
    if dgl is not None and not getattr(sys.modules["dgl.graphbolt"], "__file__", None):
        sys.modules["dgl.graphbolt"].FusedCSCSamplingGraph = type("Absent", (), {})  # type: ignore[attr-defined]
    return dgl


def partition(path: str, folder: str, parts: str, method: str) -> None:
    """Cut a graph with features for DGL."""
    dgl, arrays = load(), np.load(path)
    g = dgl.graph((torch.from_numpy(arrays["src"]), torch.from_numpy(arrays["dst"])), num_nodes=len(arrays["train"]))
    g.ndata["x"] = torch.from_numpy(arrays["x"])
    g.ndata["train"] = torch.from_numpy(arrays["train"])
    dgl.distributed.partition_graph(g, NAME, int(parts), folder, part_method=method)


def rank(addresses: str, config: str, machine: str, batch_size: str, epochs: str, out: str) -> None:
    """Serve a part, or train on it, as DGL_ROLE says; write seconds per batch."""
    dgl = load()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ["DGL_NUM_CLIENT"])))
    rpc = importlib.import_module("dgl.distributed.rpc_client")
    rpc.get_local_machine_id = lambda book: int(machine)  # type: ignore[attr-defined]
    dgl.distributed.initialize(addresses)
    g = dgl.distributed.DistGraph(NAME, part_config=config)
    nodes = dgl.distributed.node_split(g.ndata["train"], g.get_partition_book(), force_even=True)
    sampler = dgl.dataloading.NeighborSampler(FANOUTS)
    loader = dgl.dataloading.DistNodeDataLoader(g, nodes, sampler, batch_size=int(batch_size), shuffle=True)
    seconds, rows = [], 0
    for _ in range(int(epochs) + 1):
        g.barrier()
        start, count = time.perf_counter(), 0
        for inputs, _, _ in loader:
            rows += len(g.ndata["x"][inputs])
            count += 1
        seconds.append((time.perf_counter() - start) / count)
    results = {"seconds": statistics.median(seconds[1:]), "rows": rows / count / len(seconds)}
    Path(out, machine).write_text(json.dumps(results))


# -- from outside ------------------------------------------------------------------------------------------------------
def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def time_dgl(edges: Path, parts: int, method: str, batch_size: int, epochs: int) -> list[dict[str, Any]] | str:
    """Return seconds per batch and rows of each rank, or why DGL does not run."""
    if load_dgl() is None:
        return "not installed"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        return "its parts need memory of their own to share, which this system does not allow"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, __file__, "partition", str(edges), name, str(parts), method]
        subprocess.run(command, check=True, capture_output=True)
        addresses = folder / "addresses"
        addresses.write_text("".join(f"127.0.0.{machine + 1} {_free_port()}\n" for machine in range(parts)))
        environment = os.environ | {
            "DGL_DIST_MODE": "distributed",
            "DGL_IP_CONFIG": str(addresses),
            "DGL_NUM_SERVER": "1",
            "DGL_NUM_CLIENT": str(parts),
            "DGL_CONF_PATH": str(folder / f"{NAME}.json"),
            "DGL_NUM_SAMPLER": "0",
            "DGL_GRAPH_FORMAT": "csc",
            "OMP_NUM_THREADS": "1",
        }
        started = []
        for machine in range(parts):
            work = [str(addresses), str(folder / f"{NAME}.json"), str(machine), str(batch_size), str(epochs), name]
            both = 'mount -t tmpfs none /dev/shm; (DGL_ROLE=server "$@" &); sleep 2; DGL_ROLE=client exec "$@"'
            command = ["unshare", "-m", "bash", "-c", both, "rank", sys.executable, __file__, "rank", *work]
            started.append(
                subprocess.Popen(
                    command,
                    env=environment | {"DGL_SERVER_ID": str(machine)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,
                )
            )
        return _outcome(started, folder)


def _outcome(started: list[subprocess.Popen[str]], folder: Path) -> list[dict[str, Any]] | str:
    until = time.monotonic() + SECONDS
    messages = []
    try:
        for process in started:
            messages.append(process.communicate(timeout=until - time.monotonic())[0])
    except subprocess.TimeoutExpired:
        return f"it did not end in {SECONDS} s"
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    results = [folder / str(machine) for machine in range(len(started))]
    if not all(path.exists() for path in results):
        return next(
            text.strip().splitlines()[-1] for path, text in zip(results, messages, strict=True) if not path.exists()
        )
    return [json.loads(path.read_text()) for path in results]


if __name__ == "__main__":
    {"partition": partition, "rank": rank}[sys.argv[1]](*sys.argv[2:])
