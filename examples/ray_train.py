"""Train GraphSAGE on a graph in parts with processes that Ray Train starts, instead of torchrun.

    pip install "ray[train]"
    python examples/several_machines.py --partition 2 --folder parts
    python examples/ray_train.py --folder parts --workers 2

Ray joins its workers into a group of torch.distributed, which dglite.distributed finds; the rest is that of
several_machines.py. Every machine needs the folder of parts under the same path. Prints what
several_machines.py prints; Ray puts the worker's name before each line.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ray
import several_machines
from ray.train import ScalingConfig, report
from ray.train.torch import TorchConfig, TorchTrainer

from dglite.distributed import DistGraph, initialize


def work(arguments: dict[str, Any]) -> None:
    """Train in one of Ray's workers, of which there is one for each part."""
    initialize()  # Ray has made the group, and ends it
    g = DistGraph(several_machines.NAME, Path(arguments["folder"]) / f"{several_machines.NAME}.json")
    model, history = several_machines.train(g, arguments["epochs"], arguments["batch_size"])
    accuracy = several_machines.accuracy(model, g, "test_mask")
    report({"loss": history[-1][0], "test_accuracy": accuracy})
    if g.rank() == 0:  # Ray hands the driver only metrics that come with a checkpoint
        print(f"test accuracy {accuracy:.3f}")


def main() -> None:
    """Train with Ray's workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="parts", help="where the parts are; default: %(default)s")
    parser.add_argument("--workers", type=int, default=2, help="as many as there are parts; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training data; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=100, help="nodes of a training step, for each worker; default: %(default)s"
    )
    arguments = parser.parse_args()
    ray.init(runtime_env={"working_dir": str(Path(__file__).parent)})  # for several_machines.py
    trainer = TorchTrainer(
        work,
        train_loop_config={**vars(arguments), "folder": str(Path(arguments.folder).resolve())},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=arguments.workers),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
