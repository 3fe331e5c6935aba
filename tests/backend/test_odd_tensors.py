"""Tensors that no kernel reads: of layouts, dtypes and classes that have no rows of floats in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dglite
import dglite.function as fn
from dglite import DGLError, ops
from dglite.nn import EdgeConv, GraphConv, PNAConv, SAGEConv

G = dglite.graph(([0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 2]))


def _jagged(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 3)], layout=layout)


ODD: dict[str, Callable[[], torch.Tensor]] = {
    "nested": lambda: _jagged(torch.strided),
    "jagged": lambda: _jagged(torch.jagged),
    "coo": lambda: torch.eye(4, 3).to_sparse(),
    "csr": lambda: torch.eye(4, 3).to_sparse_csr(),
    "csc": lambda: torch.eye(4, 3).to_sparse_csc(),
    "bsr": lambda: torch.eye(4, 2).to_sparse_bsr((1, 1)),
    "float8": lambda: torch.ones(4, 3).to(torch.float8_e4m3fn),
    "uint16": lambda: torch.ones(4, 3).to(torch.uint16),
    "complex": lambda: torch.ones(4, 3, dtype=torch.complex64).conj(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4, 3), 0.1, 0, torch.qint8),
    "zeros": lambda: torch._efficientzerotensor((4, 3)),
}


def _update_all(x: torch.Tensor) -> Any:
    with G.local_scope():
        G.ndata["x"] = x
        G.update_all(fn.copy_u("x", "m"), fn.sum("m", "out"))
        return G.ndata["out"]


CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "copy_u_sum": lambda x: ops.copy_u_sum(G, x),
    "copy_u_max": lambda x: ops.copy_u_max(G, x),
    "u_add_v": lambda x: ops.u_add_v(G, x, x),
    "segment_reduce": lambda x: ops.segment_reduce(torch.tensor([2, 2]), x),
    "update_all": _update_all,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ODD)
def test_operations_refuse_them(kind: str, call: str) -> None:
    with pytest.raises(DGLError, match=r"layout|nested|dtype|zeros without memory|shape \(2, j"):
        CALLS[call](ODD[kind]())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["float8", "uint16", "complex", "quantized"])
def test_layers_name_the_dtype(kind: str) -> None:
    x = ODD[kind]()
    with pytest.raises(DGLError, match=f"dtype {str(x.dtype).removeprefix('torch.')}|dtype {x.dtype}"):
        GraphConv(3, 2)(G, x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [EdgeConv(3, 2), PNAConv(3, 2, ["mean"], ["identity"], 1.0)])
def test_layers_that_compute_with_a_weight_refuse_a_quantized_one(layer: nn.Module) -> None:
    quantized = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(DGLError, match="does not hold as a tensor"):
        quantized(G, torch.ones(4, 3))


@pytest.mark.filterwarnings("ignore")
def test_layers_that_call_a_quantized_module_run() -> None:
    torch.manual_seed(0)
    layer, x = SAGEConv(3, 2, "mean"), torch.randn(4, 3)
    quantized = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
    torch.testing.assert_close(quantized(G, x), layer(G, x), atol=0.05, rtol=0.05)


def test_a_tensor_that_outlives_its_transform_is_read() -> None:
    x, leaked = torch.randn(4, 3), list[torch.Tensor]()
    torch.func.grad(lambda y: (leaked.append(y * 2), y.sum())[1])(x)
    torch.testing.assert_close(ops.copy_u_sum(G, leaked[0]).detach(), ops.copy_u_sum(G, 2 * x))
