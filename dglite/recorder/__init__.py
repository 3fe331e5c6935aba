"""What a user's function does, seen by running it on columns that are computed later.

``deferred`` has the columns and the tape that they belong to, ``combine`` makes expressions of them; ``operations`` are
those that they understand, ``mailbox`` those over messages; ``purity`` says which functions may be run in this way.
"""

from .combine import is_truth
from .deferred import Column, Deferred, Source, Tape, Unrecordable, is_deferred, realised
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES
from .purity import Modules, captured, code_of, constants_of, modules_of, reads_only, refusal

__all__ = [
    "MAILBOX",
    "MESSAGES",
    "Column",
    "Deferred",
    "Mailbox",
    "Modules",
    "Reduced",
    "Source",
    "Tape",
    "Unrecordable",
    "captured",
    "code_of",
    "constants_of",
    "is_deferred",
    "is_truth",
    "modules_of",
    "reads_only",
    "realised",
    "refusal",
]
