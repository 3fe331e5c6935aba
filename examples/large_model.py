"""Train a model in four processes whose weights and momentum do not fit one. The model is not changed.

torchrun --nproc-per-node=4 examples/large_model.py

The system gives no process more than ``--limit`` MB, so with --nproc-per-node=1 it ends with "can't allocate memory".
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from dglite import tofu


def limit_memory(megabytes: int) -> None:
    """Let this process have no more memory than that beyond what it has now."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    most = int(status["VmData"].split()[0]) * 1024 + megabytes * 10**6
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> None:
    """Train within the limit of memory and print losses and the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=4096, help="size of each layer; default: %(default)s")
    parser.add_argument("--steps", type=int, default=5, help="training steps; default: %(default)s")
    parser.add_argument(
        "--limit", type=int, default=500, help="MB of memory that a process may have; default: %(default)s"
    )
    arguments = parser.parse_args()

    limit_memory(arguments.limit)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    with torch.device("meta"):  # takes no memory: each process initialises its parts
        layers = [m for _ in range(4) for m in (nn.Linear(arguments.width, arguments.width), nn.ReLU())]
        model = nn.Sequential(*layers, nn.Linear(arguments.width, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    step = tofu.parallelize(model, functional.cross_entropy, optimizer, workers=dist.get_world_size())

    x, y = torch.randn(64, arguments.width), torch.randint(10, (64,))
    for number in range(arguments.steps):
        loss = step(x, y)
        if dist.get_rank() == 0:
            print(f"step {number + 1}: loss {loss.item():.3f}, {step.bytes / 1e6:.1f} MB received by this process")
    if dist.get_rank() == 0 and step.plan is not None:
        num_bytes = sum(part.nbytes for part in step.parts().values())
        print(f"parameters and momentum in this process: {num_bytes / 1e6:.1f} MB")
        print(step.plan.summary(rows=5))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
