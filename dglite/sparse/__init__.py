"""Sparse matrices with DGL's API: values are tensors with gradients, and products run on the kernels of graphs.

A matrix is a relation from its columns to its rows with a value on each edge; ``A @ X`` is a g-SpMM, ``sddmm`` a
g-SDDMM.
"""

from . import graphs as graphs
from .create import diag, from_coo, from_csc, from_csr, identity, spmatrix, val_like
from .elementwise import add, div, inv, mul, neg, power, sp_add_v, sp_broadcast_v, sp_div_v, sp_mul_v, sp_sub_v, sub
from .exchange import from_torch_sparse, to_torch_sparse_coo, to_torch_sparse_csc, to_torch_sparse_csr
from .matrix import SparseMatrix
from .products import bsddmm, bspmm, matmul, sddmm, spmm, spspmm
from .reduction import reduce, smax, smean, smin, softmax, sprod, sum

__all__ = [
    "SparseMatrix",
    "add",
    "bsddmm",
    "bspmm",
    "diag",
    "div",
    "from_coo",
    "from_csc",
    "from_csr",
    "from_torch_sparse",
    "identity",
    "inv",
    "matmul",
    "mul",
    "neg",
    "power",
    "reduce",
    "sddmm",
    "smax",
    "smean",
    "smin",
    "softmax",
    "sp_add_v",
    "sp_broadcast_v",
    "sp_div_v",
    "sp_mul_v",
    "sp_sub_v",
    "spmatrix",
    "spmm",
    "sprod",
    "spspmm",
    "sub",
    "sum",
    "to_torch_sparse_coo",
    "to_torch_sparse_csc",
    "to_torch_sparse_csr",
    "val_like",
]
