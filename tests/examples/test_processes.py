"""The examples of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import forked
from tests.patience import PATIENCE
from tests.ports import free_port

ROOT = Path(__file__).parents[2]


def run(example: str, *options: str, **environment: str) -> forked.Done:
    """Run the example in one process."""
    path = str(ROOT / "examples" / example)
    return forked.run(forked.script, path, *options, OMP_NUM_THREADS="1", **environment)


def run_together(folder: Path, example: str, *options: str) -> list[forked.Done]:
    """Run the example in two processes, with the environment that torchrun gives them."""
    meet = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    path = str(ROOT / "examples" / example)
    ranks = [
        forked.Started(folder, f"rank{i}", forked.script, path, *options, OMP_NUM_THREADS="1", RANK=str(i), **meet)
        for i in range(2)
    ]
    return [rank.wait() for rank in ranks]


def launched(example: str, processes: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the example in this many processes by torchrun, as it says."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.run(
        [*launch, ROOT / "examples" / example, *options],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_a_large_model_trains_in_two_processes(tmp_path: Path) -> None:
    first, second = run_together(tmp_path, "large_model.py", "--width=32", "--steps=2")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.count("loss") == 2 and not second.stdout
    assert "2 workers in steps of 2" in first.stdout


def test_one_process_has_too_little_memory() -> None:
    alone = {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = run("large_model.py", "--width=2048", "--limit=100", **alone)
    assert done.returncode
    assert "can't allocate memory" in done.stderr


def test_a_llama_goes_on_in_another_number_of_processes(tmp_path: Path) -> None:
    folder, text = tmp_path / "checkpoints", tmp_path / "dev.txt"
    text.write_text("".join(f"w{i % 7}|O w{i % 7 + 1}|O w{i * i % 5}|O .|O\n" for i in range(120)))
    size = "--length=8 --width=16 --layers=1 --heads=4 --batch-size=8 --learning-rate=0.02".split()
    options = [*size, f"--raw-dir={tmp_path}"]
    alone = {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    whole = run("llama.py", *options, "--epochs=3", f"--folder={tmp_path / 'whole'}", "--expect=4", **alone)
    assert whole.returncode == 0, whole.stderr
    ranks = run_together(tmp_path, "llama.py", *options, "--epochs=2", f"--folder={folder}")
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    again = run("llama.py", *options, "--epochs=3", f"--folder={folder}", "--resume", **alone)
    assert again.returncode == 0, again.stderr
    lines = [ranks[0].stdout.splitlines()[:2], again.stdout.splitlines()[:1]]
    assert [line for part in lines for line in part] == whole.stdout.splitlines()[:3]


def test_a_whole_graph_trains_in_two_processes() -> None:
    done = launched("full_graph.py", 2, "--synthetic=200", "--epochs=30", "--expect=0.9")
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stdout


def test_a_graph_in_parts_trains_in_two_processes(tmp_path: Path) -> None:
    cut = run("several_machines.py", "--partition=2", f"--folder={tmp_path}")
    assert cut.returncode == 0, cut.stderr
    ranks = run_together(tmp_path, "several_machines.py", f"--folder={tmp_path}", "--epochs=3", "--expect=0.7")
    assert [rank.returncode for rank in ranks] == [0, 0], ranks
    assert ranks[0].stdout.count("validation accuracy") == 3 and "MiB of features" in ranks[0].stdout
    wrong = run("several_machines.py", f"--folder={tmp_path}")
    assert wrong.returncode and "2 parts, but there are 1 processes" in wrong.stderr


RAY = """
def init(runtime_env):
    assert "working_dir" in runtime_env
"""
RAY_TRAIN = """
from types import SimpleNamespace

reported = []

def report(metrics):
    reported.append(metrics)

class ScalingConfig(SimpleNamespace):
    pass
"""
RAY_TORCH = """
from types import SimpleNamespace

from torch import distributed

from . import reported

class TorchConfig(SimpleNamespace):
    pass

class TorchTrainer(SimpleNamespace):
    def __init__(self, work, train_loop_config, torch_config, scaling_config):
        assert scaling_config.num_workers == 1
        self.work, self.options, self.backend = work, train_loop_config, torch_config.backend

    def fit(self):
        distributed.init_process_group(self.backend, store=distributed.HashStore(), rank=0, world_size=1)
        self.work(self.options)
        distributed.destroy_process_group()
        return SimpleNamespace(metrics=reported[-1])
"""


def with_ray(folder: Path, *options: str) -> None:
    sys.path.insert(0, str(folder))
    forked.script(str(ROOT / "examples" / "ray_train.py"), *options)


def test_a_worker_of_ray_trains(tmp_path: Path) -> None:
    """Ray itself is not needed: a stand-in with the names that the example takes from it runs the one worker."""
    (tmp_path / "ray" / "train").mkdir(parents=True)
    for name, text in (("__init__", RAY), ("train/__init__", RAY_TRAIN), ("train/torch", RAY_TORCH)):
        (tmp_path / "ray" / f"{name}.py").write_text(text)
    assert run("several_machines.py", "--partition=1", f"--folder={tmp_path}").returncode == 0
    options = f"--folder={tmp_path}", "--workers=1", "--epochs=2"
    done = forked.run(with_ray, tmp_path, *options, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert "test accuracy 0." in done.stdout
