"""Records what a user's function computes, by calling it with deferred columns.

``deferred`` has the columns and the tape that they belong to, ``combine`` makes expressions of them; ``operations`` are
those that they understand, ``mailbox`` those over messages; ``purity`` says which functions may be run in this way.
"""

from .bytecode import CallTarget, call_target, code_of, constants_of
from .combine import is_boolean
from .deferred import Deferred, EdgeColumn, Source, Tape, Unrecordable, is_deferred, realised
from .dependencies import Dependencies
from .mailbox import MAILBOX, Mailbox, Reduced
from .operations import MESSAGES
from .purity import may_write, purity_check, refusal
from .reads import captured, literals_of, read_of_modules, repeats
from .rows import NodeColumn, is_rows
