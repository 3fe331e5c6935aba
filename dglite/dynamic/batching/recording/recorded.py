"""A vertex program that is called with lazy inputs: one operation of their session, whatever the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ...execution.script import CallAddresses, FilledScript, ProgramScript, stacked_rows
from ...execution.sweep import VertexCall
from ...options import current_options
from ..execution.matrices import TorchCall
from .generic import made_operation, only
from .kinds import TensorKind, kind_of
from .pointwise import as_lazy
from .tensor import LazyTensor


class ProgramCall(TorchCall):
    """A vertex program on one graph. By batches it runs as it does outside of a session, with its own gradient."""

    def __init__(self, call: VertexCall, kinds: Sequence[TensorKind], results: Sequence[TensorKind]) -> None:
        super().__init__(kinds, results, self._run)
        self._call = call
        self.shared = call.traced.shared_values()
        self.tensors = [x for x in self.shared if x is not None]

    def again(self, inputs: list[Tensor], stand_ins: Mapping[int, Tensor]) -> list[Tensor]:
        """Run the program with other tensors in the places of those that all vertices share."""
        return self._run(*inputs, stand_ins=stand_ins)

    def _run(self, *values: Tensor, stand_ins: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """Run the program for stacked inputs, of which there is one each: no other operation is of this signature."""
        pushed = self._call.run([x[0] for x in values], stand_ins)
        return [x.unsqueeze(0) for x in (pushed if isinstance(pushed, tuple) else (pushed,))]

    # -- for processors -----------------------------------------------------------------------------------------
    def script(self, pulls: Sequence[bool], trained: set[int]) -> ProgramScript:
        """Return what runs it, with the gradients of some inputs and of some parameters, by their ids."""
        return self._call.script(self.shared, pulls, [x is not None and id(x) in trained for x in self.shared], False)

    def filled(
        self, script: ProgramScript, addresses: CallAddresses, processors: int, teams: np.ndarray | None = None
    ) -> FilledScript:
        """Return its script with addresses; ``teams`` is where the words of its kernels are to be."""
        call = self._call
        rows = stacked_rows([p.rows for p in call.pulled], call.order.num_nodes)
        lengths = np.array([kind.shape[0] for kind in self.kinds], np.int64)
        return script.fill(call.order, self.shared, rows, lengths, addresses, processors, teams)


def record_program(call: VertexCall, like: LazyTensor) -> Any:
    """Record a call of a program with lazy inputs, and return what it pushes."""
    session, num_nodes = like._session, call.order.num_nodes
    values = [as_lazy(p.values, like) for p in call.pulled]
    kinds = [x._kind for x in values]
    results = [kind_of((num_nodes, *shape), dtype) for shape, dtype in call.traced.pushed]
    assemble: Any = only if len(results) == 1 else tuple
    matrices = ProgramCall(call, kinds, results)
    recorded = made_operation(session, f"{call.name}[{num_nodes} vertices]", matrices, assemble)
    signature = recorded.signature
    everywhere = tuple([p.rows is None for p in call.pulled])
    alike = "program", id(call.traced), call.order.filled, everywhere, current_options()
    signature.key = *alike, num_nodes, *kinds
    if len(results) == 1:
        lengths = [kind.shape[0] for kind in kinds]
        signature.form, signature.lengths = (*alike, *[k.shape[1:] for k in kinds]), (num_nodes, *lengths)
    return recorded.record(session, values)
