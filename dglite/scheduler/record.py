"""Recording user-defined functions: as built-in messages, or for the rule "record the reducer".

A message function is called on deferred columns, once for all active edges, and what it returns are expressions: the
plan sees built-in messages. A reduce function is called on a deferred mailbox, once for all nodes that receive; its
reductions are kernels over the relation, and the rest of it runs on their results. What cannot be recorded is executed
as written, without fusion, with the same result (see ``dglite.recorder``).

A function that reads nothing but its batch, modules, numbers and strings does the same at every call, so its messages
are kept, and neither it nor another of the same code, numbers and strings is called again while the columns that it
reads have the same shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..backend import active as backend
from ..function import MessageFunction, ReduceFunction
from ..ops.traced import is_read
from ..recorder import Unrecordable, constants_of, refusal
from ..udf import checked, ends_computation, function_name
from .execute import execute
from .learned import bucket, cached_builtins, cached_messages, is_kept, note_messages, why_bucketed
from .lower import MessageSignature, ReduceSignature, message_signature, reduce_signature
from .plan import Plan, UserFunction
from .relation import Relation, Table, has_kernels
from .tape import RelationTape

# -- message functions -------------------------------------------------------------------------------------------------
FEW_EDGES = {False: 1 << 12, True: 1 << 10}
"""Edges, for messages that are reduced or not, up to which recording a function takes longer than it saves."""
FEW_OF_SOME = {False: 1 << 13, True: 1 << 11}
"""The same of messages on some of the edges that are not reduced, by whether what the function does is kept."""


def messages_of(function: Any, slot: int, relation: Relation, reduced: bool = True) -> MessageSignature:
    """Return the signature of a message argument: a user's function as built-in messages, if it can be.

    Tensors of the function's own that take part become ``relation.captured``. On few edges a function that would be
    recorded anew at each call is executed as written, and so is one that is not ``reduced``, as in ``apply_edges``, on
    a few of the edges, which may differ at each call.
    """
    if type(function) is MessageFunction:
        return (function,)
    messages = cached_messages(function, relation)
    if messages is not None:
        return messages
    signature = message_signature(function, slot)
    if not isinstance(signature, UserFunction) or not relation.has_edges or refusal(function) is not None:
        return signature
    if is_faster_as_written(function, relation, reduced):
        return UserFunction(slot, few_edges=True)
    return _recorded(function, relation) or signature


def is_faster_as_written(function: Any, relation: Relation, reduced: bool) -> bool:
    """Whether so few edges take part that recording the function takes longer than it saves."""
    adjacency = relation.adjacency
    if is_read(adjacency):
        return False
    if reduced or relation.edge_rows is None:
        return adjacency.num_edges <= FEW_EDGES[reduced] and not is_kept(function)
    few = FEW_OF_SOME
    return adjacency.num_edges <= few[False] and (adjacency.num_edges <= few[True] or not is_kept(function))


def _recorded(function: Any, relation: Relation) -> tuple[MessageFunction, ...] | None:
    """Call the function on deferred columns; None if that does not go well."""
    tape = RelationTape(relation, constants_of(function))
    state = backend.random_state()
    try:
        result = function(tape.edge_batch())
        cacheable = tape.cacheable
        table = checked(result, (relation.adjacency.num_edges,), "edges", relation.device, function)
        name = function_name(function)
        messages = tuple(tape.message(name, field, value) for field, value in table.items())
    except Exception as error:  # whatever it is, the function raises it again when it is executed as written
        if ends_computation(error):
            raise
        backend.restore_random_state(state)
        return None
    relation.captured = tape.captured
    note_messages(function, messages, tape.scheme() if cacheable and not tape.captured else None)
    return messages


# -- reduce functions --------------------------------------------------------------------------------------------------
def reducer_of(
    function: Any, slot: int, relation: Relation, messages: MessageSignature, refused: Refused = frozenset()
) -> ReduceSignature:
    """Return the signature of a reduce argument: a user's function is marked if it is to be traced.

    One that is known to do no more than built-in reducers do is replaced by them. Functions in ``refused`` are
    executed as written, without fusion.
    """
    if type(function) is ReduceFunction:
        return (function,)
    if relation.has_edges and not relation.nodes.has_initializers:
        reducers = cached_builtins(function)
        if reducers is not None and _have_kernels(messages, relation):
            return reducers
    signature = reduce_signature(function, slot)
    if not isinstance(signature, UserFunction) or not relation.has_edges:
        return signature
    if id(function) in refused or why_bucketed(function) is not None:
        return signature
    return UserFunction(slot, recorded=True)


def _have_kernels(messages: MessageSignature, relation: Relation) -> bool:
    """Whether messages are made of columns that kernels take."""
    if not isinstance(messages, tuple):
        return False
    for message in messages:
        for side, name in message.fields:
            if not has_kernels(relation.column(side, name)):
                return False
    return True


WORTH_RECORDING = 1 << 16
"""Minimum number of receiving nodes at which fusing an apply function saves more time than recording it takes."""


def applier_of(function: Any, slot: int, relation: Relation) -> UserFunction | None:
    """Return the signature of an apply argument, marked if it is to be traced, or None without one."""
    if function is None:
        return None
    few = relation.adjacency.num_dst < WORTH_RECORDING
    return UserFunction(slot, recorded=not few and refusal(function) is None and why_bucketed(function) is None)


Refused = Collection[int]
"""Identities of reduce functions that cannot be recorded in this call."""


def run(make_plan: Callable[[Refused], Plan], relations: Sequence[Relation], functions: Sequence[Any]) -> Table:
    """Execute a plan. If a reduce function turns out not to be recordable, continue with a plan that buckets it.

    ``make_plan`` is asked again then. What the first plan has computed serves the second: their registers agree.
    """
    tables: dict[int, Table] = {}
    refused: set[int] = set()
    while True:
        try:
            return execute(make_plan(refused), relations, functions, tables)
        except Unrecordable as error:
            if id(error.function) in refused:
                raise
            refused.add(id(error.function))
            if error.lasting:
                bucket(error.function, error.reason)
