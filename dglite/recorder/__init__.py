"""Records what a user's function computes, by calling it with deferred columns.

``deferred`` has the columns and the tape that they belong to, ``combine`` makes expressions of them; ``operations`` are
those that they understand, ``mailbox`` those over messages; ``purity`` says which functions may be run in this way.
"""

from .bytecode import Called, called, code_of, constants_of
from .combine import is_truth
from .deferred import Deferred, EdgeColumn, Source, Tape, Unrecordable, is_deferred, realised
from .dependencies import Dependencies
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES
from .purity import may_write, purity_check, refusal
from .reads import captured, read_of_modules, repeats
from .rows import NodeColumn, is_rows

__all__ = [
    "MAILBOX",
    "MESSAGES",
    "Called",
    "Deferred",
    "Dependencies",
    "EdgeColumn",
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
    "may_write",
    "purity_check",
    "read_of_modules",
    "realised",
    "refusal",
    "repeats",
]
