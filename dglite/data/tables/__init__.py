"""Tables of nodes and edges, in memory or in files of any size, as graphs in memory or on disk."""

from .convert import convert_tables
from .database import database_tables, relbench_tables
from .estimate import ConversionEstimate, estimate_conversion
from .folder import GraphFolder
from .ids import NodeIds
from .load import from_tables
from .plan import ROW, Table

__all__ = [
    "ROW",
    "ConversionEstimate",
    "GraphFolder",
    "NodeIds",
    "Table",
    "convert_tables",
    "database_tables",
    "estimate_conversion",
    "from_tables",
    "relbench_tables",
]
