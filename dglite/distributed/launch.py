"""``python -m dglite.distributed launch``: start ranks by torchrun, with the arguments of DGL's launcher."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import DGLError

_PORT = 29500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the launcher's arguments. Those about servers are accepted: there are none."""
    parser.add_argument("command", help='what each rank runs, such as "python3 train.py --lr 0.01"')
    parser.add_argument("--ip_config", required=True, help="a line 'address [port]' for each machine")
    parser.add_argument("--num_trainers", type=int, required=True, help="ranks on each machine")
    parser.add_argument("--workspace", default=".", help="folder that the command runs in, the same on all machines")
    parser.add_argument("--part_config", help="the partition's JSON file, in the workspace")
    parser.add_argument("--num_samplers", type=int, default=0, help="threads that sample, for each rank")
    parser.add_argument("--num_omp_threads", type=int, help="threads of each rank")
    parser.add_argument("--extra_envs", nargs="+", default=[], help="environment variables, NAME=VALUE")
    parser.add_argument("--ssh_port", type=int, default=22)
    parser.add_argument("--ssh_username", default="")
    parser.add_argument("--master_port", type=int, default=_PORT, help="port of the first machine for torchrun")
    for name in ("--num_servers", "--num_server_threads", "--graph_format"):
        parser.add_argument(name, help="accepted: there are no servers")


def _machines(path: Path) -> list[str]:
    """Return the addresses of ``ip_config``."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DGLError(f"{path} cannot be read: {error}; it has a line 'address [port]' for each machine") from error
    if not lines:
        raise DGLError(f"{path} is empty; expected a line 'address [port]' for each machine")
    return [line[0] for line in lines]


def _python_command(text: str) -> tuple[str, list[str]]:
    """Return the interpreter of a command, and the script or ``-m module`` with its arguments."""
    words = shlex.split(text)
    if not words or not Path(words[0]).name.startswith("python"):
        raise DGLError(f"the command is {text!r}; expected one that begins with python, such as 'python3 train.py'")
    return words[0], words[1:]


def commands(args: argparse.Namespace) -> list[tuple[str, dict[str, str], list[str]]]:
    """Return for each machine its address, environment variables, and the words of its command.

    The script runs under the alias, so that ``import dgl`` imports dglite.

    Raises ``DGLError``: ``ip_config`` cannot be read, the command is not one of Python, or ``extra_envs`` are not
    NAME=VALUE.
    """
    workspace = Path(args.workspace)
    addresses = _machines(workspace / args.ip_config)
    if args.num_trainers < 1:
        raise DGLError(f"--num_trainers {args.num_trainers}: expected 1 or more for each machine")
    if any("=" not in pair for pair in args.extra_envs):
        raise DGLError(f"--extra_envs {args.extra_envs}: expected NAME=VALUE")
    python, rest = _python_command(args.command)
    environment = {"DGL_NUM_SAMPLER": str(args.num_samplers), "DGL_IP_CONFIG": args.ip_config}
    if args.part_config:
        environment["DGL_CONF_PATH"] = args.part_config
    if args.num_omp_threads:
        environment["OMP_NUM_THREADS"] = str(args.num_omp_threads)
    environment |= dict(pair.split("=", 1) for pair in args.extra_envs)
    commands = []
    for rank, address in enumerate(addresses):
        torchrun = [
            *(python, "-m", "torch.distributed.run"),
            *(f"--nproc_per_node={args.num_trainers}", f"--nnodes={len(addresses)}", f"--node_rank={rank}"),
            *(f"--master_addr={addresses[0]}", f"--master_port={args.master_port}", "-m", "dglite.compat"),
        ]
        commands.append((address, environment, [*torchrun, *rest]))
    return commands


def _is_local(address: str) -> bool:
    if address in ("localhost", "127.0.0.1", "::1", socket.gethostname()):
        return True
    try:
        with socket.socket(socket.getaddrinfo(address, 0)[0][0], socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))  # only an address of this machine
        return True
    except OSError:
        return False


def launch(args: argparse.Namespace) -> int:
    """Start the command on all machines and return 0, or the first exit status that is not 0. Others then end, too.

    This machine's ranks are started directly, others by ssh. Errors are those of :func:`commands`.
    """
    started: list[tuple[str, subprocess.Popen[Any]]] = []
    for address, environment, words in commands(args):
        if _is_local(address):
            process = subprocess.Popen(words, cwd=args.workspace, env={**os.environ, **environment})
        else:
            exports = " ".join(f"export {name}={shlex.quote(value)};" for name, value in environment.items())
            remote = f"cd {shlex.quote(str(Path(args.workspace).resolve()))}; {exports} {shlex.join(words)}"
            user = f"{args.ssh_username}@{address}" if args.ssh_username else address
            options = ["-o", "StrictHostKeyChecking=no", "-tt", "-p", str(args.ssh_port)]
            process = subprocess.Popen(["ssh", *options, user, remote])
        started.append((address, process))
    status = 0
    try:
        for address, process in started:
            code = process.wait()
            if code and not status:
                status = code
                print(f"error: the ranks on {address} ended with status {code}", file=sys.stderr)
    finally:
        for _, process in started:
            if process.poll() is None:
                process.terminate()
    return status
