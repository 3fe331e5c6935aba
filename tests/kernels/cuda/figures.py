"""Registers, spilled registers and shared memory of the GPU's kernels, as NVRTC's assembler counts them.

``python -m tests.kernels.cuda.figures`` writes them to docs/gpu.md; it needs NVRTC, and no GPU.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from dglite.kernels.cuda.run.launch import OPTIONS
from dglite.kernels.cuda.run.nvrtc import Nvrtc, find_nvrtc
from dglite.kernels.cuda.run.program import CudaProgram
from tests.kernels.cuda.programs import programs

__all__ = ["Figures", "figures_of"]

ARCHS = (80, 90, 100)
PAGE = Path(__file__).parents[3] / "docs" / "gpu.md"
_COUNTS = r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem"
BEGIN, END = "<!-- figures -->\n", "<!-- end figures -->\n"


@dataclass(frozen=True)
class Figures:
    """What one kernel takes: registers of a thread, bytes of them that are spilled, bytes of shared memory."""

    kernel: str
    registers: int
    spilled: int
    shared: int


def figures_of(compiler: Nvrtc, program: CudaProgram, arch: int) -> list[Figures]:
    """Return the figures of every kernel of a program."""
    options = (*OPTIONS, f"-arch=sm_{arch}", "--ptxas-options=-v")
    _, log = compiler.compile_with_log(program.text, "program.cu", options, real=True)
    return [
        Figures(part.split("'")[1].removeprefix(program.prefix + "_"), *(_number(pattern, part) for pattern in _COUNTS))
        for part in log.split("Compiling entry function ")[1:]
    ]


def _number(pattern: str, text: str) -> int:
    count = re.search(pattern, text)
    return int(count[1]) if count else 0


def _table(compiler: Nvrtc) -> str:
    rows: dict[str, list[str]] = defaultdict(list)
    for arch in ARCHS:
        kinds: dict[str, list[Figures]] = defaultdict(list)
        for program in programs():
            kinds[program.prefix.rsplit("_", 1)[0]] += figures_of(compiler, program, arch)
        for kind, figures in kinds.items():
            most = (max(getattr(kernel, name) for kernel in figures) for name in ("registers", "spilled", "shared"))
            rows[kind].append(" / ".join(map(str, most)))
    head = "".join(f" sm_{arch} |" for arch in ARCHS)
    lines = [f"| kernels |{head}", f"|---|{'---:|' * len(ARCHS)}"]
    lines += [f"| {kind} | {' | '.join(cells)} |" for kind, cells in rows.items()]
    return "\n".join([*lines, "", f"NVRTC {'.'.join(map(str, compiler.version))}.", ""])


if __name__ == "__main__":
    compiler = find_nvrtc(99)
    assert compiler is not None, "pip install nvidia-cuda-nvrtc"
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(before + _table(compiler) + after, encoding="utf-8")
