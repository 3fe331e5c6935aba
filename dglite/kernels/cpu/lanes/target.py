"""The CPU that code is compiled for: this one, or the one that ``DGLITE_CPU_NAME`` and ``DGLITE_CPU_FEATURES`` name.

Code for a lesser CPU runs on all machines of a cluster, which can share a cache of it then.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding

from ....config import cpu_features, cpu_name

_PROBE = """
define float @widen(half %x) {
  %y = fpext half %x to float
  ret float %y
}
define half @narrow(float %x) {
  %y = fptrunc float %x to half
  ret half %y
}
define <16 x float> @double(<16 x float> %x) {
  %y = fadd <16 x float> %x, %x
  ret <16 x float> %y
}
"""


@cache
def cpu() -> tuple[str, str]:
    """Return the name and the features of the CPU, as LLVM names them."""
    features = cpu_features()
    if features is None:
        try:
            features = binding.get_host_cpu_features().flatten()
        except RuntimeError:  # LLVM cannot ask this kind of CPU
            features = ""
    return cpu_name() or binding.get_host_cpu_name(), features


@cache
def triple() -> str:
    """Return LLVM's name of the architecture, the system and its calling convention."""
    return str(binding.get_process_triple())


def target_machine() -> Any:
    """Return a new LLVM target machine for the CPU."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    name, features = cpu()
    # Code that runs in the process that compiled it needs no other relocation on x86.
    relocation = "static" if triple().startswith("x86") else "default"
    target = binding.Target.from_triple(triple())
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=relocation, codemodel="jitdefault", jit=True
    )


@cache
def has_avx512() -> bool:
    """Whether vectors of 512 bits are one register."""
    return "-avx512f" not in cpu()[1] and "zmm" in _probe()


@cache
def converts_halves() -> bool:
    """Whether the CPU converts float16 itself (x86: F16C). Elsewhere LLVM calls functions of its run-time library,
    which is not in the process: code that needs them cannot be loaded, and LLVM ends the process."""
    return not any(name in _probe() for name in ("__extendhfsf2", "__truncsfhf2", "__gnu_h2f_ieee", "__gnu_f2h_ieee"))


@cache
def _probe() -> str:
    """Return assembly that shows which instructions the CPU has. A list of features does not tell: a CPU's name stands
    for some, and each implies others."""
    assembly: str = target_machine().emit_assembly(binding.parse_assembly(_PROBE))
    return assembly
