"""The scheduler: a message-passing call becomes a plan, rules rewrite the plan, a loop runs it.

``record`` sees what users' functions do, ``lower`` makes semantic plans, ``rewrite`` makes them executable, ``execute``
runs them over a ``Relation``; ``bucket`` serves users' functions by degree, ``inbox`` keeps what ``send`` left,
``explain`` shows a plan.
"""

from .cache import compiled, update_plan
from .execute import execute
from .explain import Explanation, explain
from .inbox import Inbox, Sent
from .lower import (
    CROSS_REDUCERS,
    MessageSignature,
    RelationUpdate,
    cross_signature,
    lower_edges,
    lower_group,
    lower_message,
    lower_multi,
    lower_nodes,
    message_signature,
    reduce_signature,
)
from .plan import Plan, UserFunction
from .record import Refused, applier_of, messages_of, reducer_of, run
from .relation import Relation, node_batch
