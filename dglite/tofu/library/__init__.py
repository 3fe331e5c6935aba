"""Descriptions of operators, by family."""

from ..operator import RULES
from . import conv, factories, indexing, loss, matmul, norm, reduce, views

__all__ = ["RULES", "conv", "factories", "indexing", "loss", "matmul", "norm", "reduce", "views"]
