"""``dgl.distributed.constants``."""

MAX_QUEUE_SIZE = 20 * 1024**3
SERVER_EXIT = "server_exit"
DEFAULT_NTYPE = "_N"
DEFAULT_ETYPE = (DEFAULT_NTYPE, "_E", DEFAULT_NTYPE)
