"""The structure of graphs, without features: relations as sparse matrices, their types, and ids. Arrays only."""

from .adjacency import Adjacency, Compressed, EdgeSubset
from .ids import ALL, is_all
from .metagraph import Metagraph
