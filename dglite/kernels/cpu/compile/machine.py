"""Machine code from LLVM assembly, addresses of compiled functions, and the sizes of this CPU's caches."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding

from ..lanes.target import target_machine


@cache
def cache_level(level: int) -> tuple[int, int]:
    """Return how many bytes a cache has, 0 where the system does not tell, and how many of its threads share it."""
    folder = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}")
    try:
        size, shared = ((folder / name).read_text().strip() for name in ("size", "shared_cpu_map"))
        return int(size.removesuffix("K")) * 1024, int(shared.replace(",", ""), 16).bit_count() or 1
    except (OSError, ValueError):
        return 0, 1


def data_layout() -> str:
    """Return LLVM's text on the sizes of things in memory."""
    return str(_target().target_data)


_target = cache(target_machine)


def assemble(assembly: str) -> bytes:
    """Return the optimised object code of LLVM assembly."""
    module = binding.parse_assembly(assembly)
    module.verify()
    # Level 3 unrolls more: twice the time to compile, a third more code, and no kernel that was timed is faster.
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    builder = binding.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = _target().emit_object(module)
    return code


@cache
def _engine() -> Any:
    # With a new target: an engine frees its target when it ends.
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())


def load(code: bytes, names: list[str]) -> list[int]:
    """Take object code into the process; return the addresses of functions in it."""
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return [int(engine.get_function_address(name)) for name in names]
