"""``dgl.distributed.partition_graph``: also with the files that programs read and replace in DGL's partitions."""

from __future__ import annotations

import inspect
from typing import Any

from ...distributed import partition_graph as partition
from ...distributed.dgl_parts import read_config
from ...distributed.feature_files import write_feature_files
from ...io.container import local_path


def partition_graph(*args: Any, **kwargs: Any) -> Any:
    """Partition a graph as :func:`dglite.distributed.partition_graph` does, with ``node_feat.dgl`` for each part.

    That file and ``edge_feat.dgl`` have the part's features by ``"type/name"``. Where a program writes them again, the
    graph has the new features when it is opened next.
    """
    arguments = inspect.signature(partition).bind(*args, **kwargs).arguments
    mapping = partition(*args, **kwargs)
    write_feature_files(read_config(local_path(arguments["out_path"]) / f"{arguments['graph_name']}.json"))
    return mapping
