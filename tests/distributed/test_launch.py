"""``python -m dglite.distributed launch``, with the arguments of DGL's launcher."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from dglite import DGLError
from dglite.distributed.__main__ import main
from dglite.distributed.launch import add_arguments, commands
from tests.ports import free_port


def parsed(folder: Path, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([f"--workspace={folder}", "--ip_config=ip.txt", *words])


def test_each_machine_has_a_command_of_torchrun(tmp_path) -> None:
    (tmp_path / "ip.txt").write_text("10.0.0.1 30050\n10.0.0.2\n")
    words = (
        "--num_trainers=4",
        "--num_samplers=2",
        "--num_servers=1",
        "--part_config=parts/g.json",
        "--extra_envs",
        "A=b=c",
    )
    (first, _, _), (second, environment, command) = commands(parsed(tmp_path, "python3 train.py --lr '0 1'", *words))
    assert (first, second) == ("10.0.0.1", "10.0.0.2")
    assert environment == {
        "DGL_NUM_SAMPLER": "2",
        "DGL_IP_CONFIG": "ip.txt",
        "DGL_CONF_PATH": "parts/g.json",
        "A": "b=c",
    }
    assert command[:3] == ["python3", "-m", "torch.distributed.run"]
    assert {"--nproc_per_node=4", "--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.1"} <= set(command)
    assert command[-5:] == ["-m", "dglite.compat", "train.py", "--lr", "0 1"]


def test_arguments_that_do_not_fit(tmp_path, capsys) -> None:
    with pytest.raises(DGLError, match=r"ip\.txt cannot be read"):
        commands(parsed(tmp_path, "python3 train.py", "--num_trainers=1"))
    (tmp_path / "ip.txt").write_text("\n")
    with pytest.raises(DGLError, match="is empty"):
        commands(parsed(tmp_path, "python3 train.py", "--num_trainers=1"))
    (tmp_path / "ip.txt").write_text("127.0.0.1\n")
    for words, error in (
        (("bash train.sh", "--num_trainers=1"), "begins with python"),
        (("python3 train.py", "--num_trainers=0"), "1 or more"),
        (("python3 train.py", "--num_trainers=1", "--extra_envs", "A"), "NAME=VALUE"),
    ):
        with pytest.raises(DGLError, match=error):
            commands(parsed(tmp_path, *words))
    assert main(["launch", "bash x", "--num_trainers=1", f"--workspace={tmp_path}", "--ip_config=ip.txt"]) == 1
    assert "begins with python" in capsys.readouterr().err


def test_ranks_run_under_the_alias(tmp_path) -> None:
    (tmp_path / "ip.txt").write_text("127.0.0.1\n")
    (tmp_path / "train.py").write_text(
        "import os, sys, dgl, torch.distributed as dist\n"
        "dgl.distributed.initialize('ip.txt')\n"
        "dist.init_process_group('gloo')\n"
        "open(f'rank{dgl.distributed.rpc.get_rank()}', 'w').write(f'{dist.get_world_size()} {sys.argv[1]}')\n"
    )
    words = f"--workspace={tmp_path}", "--ip_config=ip.txt", "--num_trainers=2", f"--master_port={free_port()}"
    assert main(["launch", *words, f"{sys.executable} train.py hello"]) == 0
    assert [(tmp_path / f"rank{rank}").read_text() for rank in range(2)] == ["2 hello"] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="a script of the shell stands for Python")
def test_a_machine_whose_ranks_fail_is_no_success(tmp_path) -> None:
    (tmp_path / "ip.txt").write_text("127.0.0.1\n")
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho "$@" > arguments\nexit 3\n')
    python.chmod(0o755)
    words = f"--workspace={tmp_path}", "--ip_config=ip.txt", "--num_trainers=1"
    assert main(["launch", *words, f"{python} train.py hello"]) != 0
    assert (tmp_path / "arguments").read_text().endswith("-m dglite.compat train.py hello\n")
