"""Executable plans, kept by what they are plans of: the second call with the same functions only runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..function import MessageFunction, ReduceFunction
from .lower import lower_update, message_signature, reduce_signature
from .plan import Plan, UserFunction
from .rewrite import rewrite

__all__ = ["compiled", "update_plan"]

_PAIRS: dict[tuple[int, int], tuple[Any, Any, Plan]] = {}
"""Plans of built-in pairs by identity, with the pair, which keeps the identities from being used again."""
_MAX_PAIRS = 1024


@lru_cache(maxsize=4096)
def compiled(lower: Callable[..., Plan], *signatures: Any) -> Plan:
    """Return the executable plan of a verb, kept by the values of its functions.

    User's functions are all alike here (see ``UserFunction``), so none is kept alive and a new closure costs nothing.
    """
    return rewrite(lower(*signatures))


def update_plan(message: Any, reduce: Any, apply: Any) -> Plan:
    """Return the plan of send, reduce and apply over one relation; its functions are numbers 0, 1 and 2 of the call.

    A pair of built-ins is looked up by identity before it is by value: hashing the values takes 5 microseconds, a
    third of what the whole call takes on a small graph, and built-ins of equal arguments are one object anyway.
    """
    if apply is None:
        known = _PAIRS.get((id(message), id(reduce)))
        if known is not None:
            return known[2]
    applied = None if apply is None else UserFunction(2)
    plan = compiled(lower_update, message_signature(message, 0), reduce_signature(reduce, 1), applied)
    if apply is None and isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction):
        if len(_PAIRS) >= _MAX_PAIRS:
            _PAIRS.clear()
        _PAIRS[id(message), id(reduce)] = message, reduce, plan
    return plan
