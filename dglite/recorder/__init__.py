"""What a user's function does, seen by running it on columns that are computed later.

``deferred`` has the columns and the tape that they belong to, ``combine`` makes expressions of them; ``operations`` are
those that they understand, ``mailbox`` those over messages; ``purity`` says which functions may be run in this way.
"""

from .bytecode import code_of, constants_of
from .combine import is_truth
from .deferred import Column, Deferred, Source, Tape, Unrecordable, is_deferred, realised
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES
from .purity import may_write, refusal
from .reads import Reads, captured, holds, read_of_modules, reads_of
from .rows import Rows, is_rows

__all__ = [
    "MAILBOX",
    "MESSAGES",
    "Column",
    "Deferred",
    "Mailbox",
    "Reads",
    "Reduced",
    "Rows",
    "Source",
    "Tape",
    "Unrecordable",
    "captured",
    "code_of",
    "constants_of",
    "holds",
    "is_deferred",
    "is_rows",
    "is_truth",
    "may_write",
    "read_of_modules",
    "reads_of",
    "realised",
    "refusal",
]
