"""A mailbox inside of a vertex program: the messages of a vertex lie side by side in its row."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..errors import DGLError
from .program.ir import RowDomain
from .program.trace import FunctionRecorder


def side_by_side(recorder: FunctionRecorder, messages: list[torch.Tensor]) -> torch.Tensor:
    """Return tensors of the vertices, all of one shape, as (vertices, how many, *feat)."""
    builder, nodes = recorder.builder, [recorder.node(x) for x in messages]
    if any(node.shape != nodes[0].shape or node.domain is not RowDomain.VERTEX for node in nodes):
        raise DGLError("messages differ in shape, or are no values of the nodes")
    flat = [builder.reshaped(node, (node.width,)) for node in nodes]
    return recorder.value(builder.reshaped(builder.cat(flat), (len(nodes), *nodes[0].shape)))


class EachMessage(TorchFunctionMode):
    """Multiplies a mailbox (vertices, messages, feat) by a matrix message by message.

    torch multiplies (vertices * messages, feat) instead, in which a row is no vertex any more.
    """

    def __init__(self, recorder: FunctionRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS and self._is_product(*args[:2]):
            return side_by_side(self._recorder, [func(x, *args[1:], **(kwargs or {})) for x in args[0].unbind(1)])
        return func(*args, **(kwargs or {}))

    def _is_product(self, x: Any = None, matrix: Any = None) -> bool:
        tensors = isinstance(x, torch.Tensor) and isinstance(matrix, torch.Tensor)
        return tensors and x.dim() == 3 and matrix.dim() == 2 and len(x) == self._recorder.rows[RowDomain.VERTEX]


_PRODUCTS = {torch.nn.functional.linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}
