"""What a user's function does, seen by running it on columns that are computed later.

``deferred`` has the columns and the tape that they belong to, ``operations`` the operations that they understand,
``mailbox`` the reductions over messages; ``purity`` says which functions may be run in this way at all.
"""

from .deferred import Column, Deferred, Source, Tape, Unrecordable, is_deferred, realised
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES, is_truth
from .purity import captures_of, code_of, constants_of, refusal

__all__ = [
    "MAILBOX",
    "MESSAGES",
    "Column",
    "Deferred",
    "Mailbox",
    "Reduced",
    "Source",
    "Tape",
    "Unrecordable",
    "captures_of",
    "code_of",
    "constants_of",
    "is_deferred",
    "is_truth",
    "realised",
    "refusal",
]
