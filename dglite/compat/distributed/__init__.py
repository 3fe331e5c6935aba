"""``dgl.distributed``: DGL's names and habits over :mod:`dglite.distributed`, with one-sided reads."""

from ...distributed import PartitionBook as GraphPartitionBook
from ...distributed.partition import partition_graph
from .constants import DEFAULT_ETYPE, DEFAULT_NTYPE, MAX_QUEUE_SIZE, SERVER_EXIT
from .context import exit_client, initialize
from .graph import DistGraphServer
from .graph import NamedEmbedding as DistEmbedding
from .graph import OneSidedGraph as DistGraph
from .kvstore import KVClient
from .loaders import CollatedBatches as DistDataLoader
from .loaders import DistEdgeDataLoader, DistNodeDataLoader, _remove_kwargs_dist
from .rpc import (
    Request,
    Response,
    client_barrier,
    get_group_id,
    get_machine_id,
    get_num_client,
    get_num_machines,
    get_rank,
    read_ip_config,
    recv_response,
    register_service,
    remote_call,
    send_request,
)
from .services import (
    _etype_str_to_tuple,
    _etype_tuple_to_str,
    dgl_partition_to_graphbolt,
    find_edges,
    in_degrees,
    in_subgraph,
    out_degrees,
    sample_etype_neighbors,
    sample_neighbors,
)

RangePartitionBook = GraphPartitionBook

__all__ = [
    "DEFAULT_ETYPE",
    "DEFAULT_NTYPE",
    "MAX_QUEUE_SIZE",
    "SERVER_EXIT",
    "DistDataLoader",
    "DistEdgeDataLoader",
    "DistEmbedding",
    "DistGraph",
    "DistGraphServer",
    "DistNodeDataLoader",
    "GraphPartitionBook",
    "KVClient",
    "RangePartitionBook",
    "Request",
    "Response",
    "_etype_str_to_tuple",
    "_etype_tuple_to_str",
    "_remove_kwargs_dist",
    "client_barrier",
    "dgl_partition_to_graphbolt",
    "exit_client",
    "find_edges",
    "get_group_id",
    "get_machine_id",
    "get_num_client",
    "get_num_machines",
    "get_rank",
    "in_degrees",
    "in_subgraph",
    "initialize",
    "out_degrees",
    "partition_graph",
    "read_ip_config",
    "recv_response",
    "register_service",
    "remote_call",
    "sample_etype_neighbors",
    "sample_neighbors",
    "send_request",
]
