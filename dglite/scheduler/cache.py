"""A cache of executable plans: the second call with the same functions only runs its plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .lower import MessageSignature, ReduceSignature, lower_update
from .plan import Plan, UserFunction
from .rewrite import rewrite

_PAIRS: dict[tuple[int, int], tuple[Any, Any, Plan]] = {}
"""Plans of built-in pairs by identity, with the pair, which keeps the identities from being used again."""
_MAX_PAIRS = 1024


@lru_cache(maxsize=4096)
def compiled(lower: Callable[..., Plan], *signatures: Any) -> Plan:
    """Return the executable plan of a call, cached by the values of its functions.

    User's functions are all alike here (see ``UserFunction``), so none is kept alive and a new closure costs nothing.
    """
    return rewrite(lower(*signatures))


def update_plan(message: MessageSignature, reduce: ReduceSignature, apply: UserFunction | None) -> Plan:
    """Return the plan of send, reduce and apply over one relation; its functions are numbers 0, 1 and 2 of the call.

    A pair that has been seen is looked up by identity before it is by value: hashing the values takes 5 microseconds, a
    third of what the whole call takes on a small graph, and built-ins of equal arguments are one object anyway.
    """
    if apply is not None:
        return compiled(lower_update, message, reduce, apply)
    if not isinstance(message, tuple) or not isinstance(reduce, tuple) or len(message) > 1 or len(reduce) > 1:
        return compiled(lower_update, message, reduce, None)
    cached = _PAIRS.get((id(message[0]), id(reduce[0])))
    if cached is not None:
        return cached[2]
    plan = compiled(lower_update, message, reduce, None)
    if len(_PAIRS) >= _MAX_PAIRS:
        _PAIRS.clear()
    _PAIRS[id(message[0]), id(reduce[0])] = message[0], reduce[0], plan
    return plan
