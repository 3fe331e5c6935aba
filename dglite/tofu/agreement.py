"""What all processes of a partitioned step need alike, and the numbers by which they compare it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..errors import DGLError
from .capture import Captured
from .checkpoint import whole_tensor
from .library.graph import edges_of
from .links import Links
from .plan import PartitionPlan


def require_equal(links: Links, numbers: dict[str, int], device: torch.device, problem: str = "") -> None:
    """Raise in all processes if a number is not the same in all; the keys say what differs.

    ``problem`` is an error of this process, which all others raise, too; empty if there is none.
    """
    if links.world > 1:
        row = torch.tensor([bool(problem), *numbers.values()], dtype=torch.int64, device=device)
        flags, *columns = links.gather(row, "the comparison of inputs and settings").unbind(1)
    if problem:
        raise DGLError(problem)
    if links.world == 1:
        return
    failed = flags.nonzero().flatten().tolist()
    if failed:
        raise DGLError(f"the workers {failed} cannot run this step: see their messages")
    rows = torch.stack(columns, 1)
    if bool((rows == rows[0]).all()):
        return
    for column, name in enumerate(numbers):
        others = [j for j in range(links.world) if rows[j, column] != rows[0, column]]
        if others:
            raise DGLError(f"the workers {others} have other {name} than worker 0: all of them need the same")


def checksum(tensors: Sequence[torch.Tensor]) -> int:
    """Return a number of the values of tensors, at the speed of memory.

    The bits, as whole numbers, are summed with weights that depend on their places, so that tensors whose elements are
    in another order differ, too.
    """
    total = 0
    for number, x in enumerate(tensors):
        bits = x.detach().contiguous().view(-1).view(torch.uint8)
        words, rest = bits.numel() // 8, bits.numel() % 8
        total += (number + 1) * _weighted(bits[: 8 * words].view(torch.int64))
        total += _weighted(bits[bits.numel() - rest :].long())
    return total % 2**62


_ROW = 4096


def _weighted(words: torch.Tensor) -> int:
    if not words.numel():
        return 0
    weights = torch.arange(1, _ROW + 1, device=words.device) * 0x9E3779B97F4A7C1
    rows, rest = words.numel() // _ROW, words.numel() % _ROW
    # weights are odd multiples of row numbers, so equal sums of rows do not hide their order
    parts = [words[: rows * _ROW].view(rows, _ROW), words[rows * _ROW :].view(1, rest)]
    total = 0
    for first, part in zip((0, rows), parts, strict=True):
        if part.numel():
            by_row = (part * weights[: part.shape[1]]).sum(1)
            order = torch.arange(first, first + len(by_row), device=words.device)
            total += int((by_row * (2 * order + 1)).sum())
    return total


def digest(tensors: Any) -> int:
    """Return a number that distinguishes tensors by shape, dtype and values."""
    hashed = hashlib.blake2b(digest_size=7)
    for x in map(whole_tensor, tensors):
        hashed.update(f"{tuple(x.shape)} {x.dtype}".encode())
        if not x.is_meta:
            hashed.update(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return int.from_bytes(hashed.digest(), "little")


def module_tensors(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield what has to be equal in all processes before a module is split."""
    yield from module.parameters()
    yield from module.buffers()
    if any(p.is_meta for p in module.parameters()):
        yield torch.get_rng_state()


def text_digest(text: str) -> int:
    """Return a number that distinguishes texts."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")


def options_text(optimizer: torch.optim.Optimizer) -> str:
    """Return the kind and the options of an optimizer as text: what schedulers and users change."""
    groups = [
        {key: _plain(value) for key, value in group.items() if key not in ("params", "param_names")}
        | {"params": len(group["params"])}
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__qualname__} {groups}"


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__qualname__


def plan_text(plan: PartitionPlan) -> str:
    """Return a plan as text: how each value and operator is split."""
    return str(
        [
            (step.k, *step.placements.values(), *(s and (s.index, s.combine) for s in step.strategies.values()))
            for step in plan.steps
        ]
    )


def graph_digest(captured: Captured) -> int:
    """Return a number that distinguishes captured steps: operators, arguments, constants and dglite's graphs."""
    number = {node: f"%{i}" for i, node in enumerate(captured.graph.nodes)}
    graphs: dict[tuple[int, ...], str] = {}
    lines: list[Any] = []
    for node in number:
        mapped, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), number.__getitem__)
        args = list(mapped)
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        if "structure" in names:
            # programs name a graph by a number that is each process's own
            structure = tuple(args[names.index("structure")][:1])
            if structure not in graphs:
                graphs[structure] = f"graph {digest(map(torch.from_numpy, edges_of(structure)))}"
            args[names.index("structure")] = graphs[structure]
        lines.append((str(node.target), args, kwargs))
    return text_digest(f"{lines} {digest(captured.constant_values.values())}")
