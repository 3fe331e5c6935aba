"""What a user's function does, seen by running it on columns that are computed later.

``deferred`` has the columns and the tape that they belong to, ``combine`` makes expressions of them; ``operations`` are
those that they understand, ``mailbox`` those over messages; ``purity`` says which functions may be run in this way.
"""

from .bytecode import Called, called, code_of, constants_of
from .combine import is_truth
from .deferred import Deferred, EdgeColumn, Source, Tape, Unrecordable, is_deferred, realised
from .found import Found
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES
from .purity import judgement, may_write, refusal
from .reads import captured, read_of_modules, repeats
from .rows import NodeColumn, is_rows

__all__ = [
    "MAILBOX",
    "MESSAGES",
    "Called",
    "Deferred",
    "EdgeColumn",
    "Found",
    "Mailbox",
    "NodeColumn",
    "Reduced",
    "Source",
    "Tape",
    "Unrecordable",
    "called",
    "captured",
    "code_of",
    "constants_of",
    "is_deferred",
    "is_rows",
    "is_truth",
    "judgement",
    "may_write",
    "read_of_modules",
    "realised",
    "refusal",
    "repeats",
]
