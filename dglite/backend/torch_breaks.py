"""Functions that torch's compiler leaves to Python.

What reads ids computes with NumPy, and Dynamo would trace that as programs on tensors: into SciPy and kernels, and
fail. So it is told where to stop, with all that is called from there, by the marks of ``torch.compiler.disable``; that
itself would import the compiler and put a wrapper around each function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WHY = "it reads ids, of which a program has no values; call it before, or compile without fullgraph=True"


def left_to_python(function: _Function) -> _Function:
    """Mark a function of Python's, and return it."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = _WHY  # type: ignore[attr-defined]
    if hasattr(eval_frame, "set_code_exec_strategy"):  # older ones compile what it calls, each function on its own
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return function
