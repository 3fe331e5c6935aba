"""Functions that torch's compiler leaves to Python.

What reads ids computes with NumPy, and Dynamo would trace that as programs on tensors: into SciPy and kernels, and
fail. So it is told where to stop, with all that is called from there, by the marks of ``torch.compiler.disable``; that
itself would import the compiler and put a wrapper around each function.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

_Function = TypeVar("_Function", bound=Callable[..., Any])

_skip_code: Any = getattr(eval_frame, "skip_code", None)  # in older torch
_WHY = "it reads ids, of which a program has no values; call it before, or compile without fullgraph=True"


def left_to_python(function: _Function) -> _Function:
    """Mark a function of Python's, and return it."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = _WHY  # type: ignore[attr-defined]
    if hasattr(eval_frame, "set_code_exec_strategy"):
        compiled_within_others(function)
    elif _skip_code is not None:
        _replace_code(function)
    return function


def compiled_within_others(function: _Function) -> _Function:
    """Mark a function that Dynamo reads where a compiled one calls it, and does not compile by itself; return it."""
    if hasattr(eval_frame, "set_code_exec_strategy"):
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    elif _skip_code is not None:
        _skip_code(function.__code__)
    return function


def _replace_code(function: Any) -> None:
    """Have a function switch Dynamo off while its body runs: torch before 2.7 would compile what that calls.

    The function's code is replaced, since it has been imported under several names. Its new code reads no globals,
    which are those of the function's module: what it calls is a constant of it.
    """
    body = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
    body.__defaults__, body.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    uncompiled = _Uncompiled(body)
    constants = tuple(uncompiled if constant == _CALLED else constant for constant in _calls.__code__.co_consts)
    names = {"co_name": function.__name__, "co_freevars": function.__code__.co_freevars}
    function.__wrapped__, function.__code__ = body, _calls.__code__.replace(co_consts=constants, **names)
    _skip_code(function.__code__)


_CALLED = "what is called"


def _calls(*args: Any, **kwargs: Any) -> Any:
    called: Any = "what is called"
    return called(*args, **kwargs)


class _Uncompiled:
    """A function during which Dynamo is off."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = eval_frame.set_eval_frame(None)
        try:
            return self._function(*args, **kwargs)
        finally:
            eval_frame.set_eval_frame(before)


if _skip_code is not None:
    _skip_code(_Uncompiled.__call__.__code__)
