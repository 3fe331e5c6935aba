"""Descriptions of operators, by family."""

from ..operator import RULES
from . import attention, conv, factories, graph, indexing, matmul, norm, reduce, views, windows
