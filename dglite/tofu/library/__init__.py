"""Descriptions of operators, by family."""

from ..operator import RULES
from . import attention, conv, factories, graph, indexing, loss, matmul, norm, pool, reduce, views, windows
