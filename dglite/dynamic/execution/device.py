"""A call of a vertex program on a GPU: the script's lines as launches, one for each level's chain of row kernels.

Products are the tensor library's. Tables and words of both directions are copied to the GPU once, by one copy, and
nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...expr import Expr
from ...kernels import compiled
from ...kernels.cuda.dynamic.chains import Chain, RowFormulas, RowReduction, chain_of
from ...kernels.render.rows import RowAccess
from ...ops import devices
from ..program.ir import NodeKind
from ..program.recipe import DenseOp, PointwiseKernel
from ..program.traced import ClassPlan, TracedProgram
from .memory import Arena
from .parcel import ArrayParcel
from .run import SweepRun
from .script import CallAddresses, FilledScript, ProgramScript
from .stages import SweepCall, run_stage


class RowKernels:
    """Numbers the row kernels of a script, in the place of :mod:`dglite.kernels.cpu.dynamic.kernels`."""

    def __init__(self) -> None:
        self.kernels: list[RowFormulas | RowReduction] = []

    def formula_kernel(self, formulas: tuple[Expr, ...], rows: tuple[RowAccess, ...], dtype: str, width: int) -> int:
        """Return the number of a new kernel of formulas."""
        return self._numbered(RowFormulas(formulas, rows, dtype, width))

    def reduce_kernel(self, rows: RowAccess, dtype: str, width: int, reducer: str = "sum") -> int:
        """Return the number of a new kernel of a reduction."""
        return self._numbered(RowReduction(rows, dtype, width, reducer))

    def _numbered(self, kernel: RowFormulas | RowReduction) -> int:
        self.kernels.append(kernel)
        return len(self.kernels) - 1


class DeviceScript(ProgramScript):
    """A script whose chains of row kernels are programs of a GPU, by the place of their words: ``chains``."""

    most_rows = 0

    def __init__(
        self,
        traced: TracedProgram,
        plans: Mapping[int, ClassPlan],
        num_classes: int,
        strides: Sequence[tuple[int, ...]],
    ) -> None:
        numbered = RowKernels()
        super().__init__(traced, plans, num_classes, strides, True, numbered)
        constants, self.chains = self._table.constants, dict[int, Chain]()
        for start, *_ in self._table.rows:
            if start >= 0:
                numbers = constants[start + 1 : start + 1 + 2 * constants[start] : 2]
                self.chains[start] = chain_of(tuple([numbered.kernels[number] for number in numbers]))
        # The host cannot write to the device's memory: what is to be 0 is listed for the call.
        kernels, memory = compiled("dynamic.fill"), self._tables.memory.reshape(-1, 3)
        listed = enumerate(memory.tolist(), len(self._bases) - len(memory))
        self._zeros = [(base, row, action == kernels.ZERO) for base, (_, row, action) in listed if action]
        memory[:, 2] = kernels.AS_IT_IS

    def reason(self, stage: PointwiseKernel | DenseOp) -> str:
        """Return why there is no kernel for a stage, "" if there is one; products are the tensor library's."""
        product = isinstance(stage, DenseOp) and stage.node.kind is NodeKind.MATMUL
        return "" if product else super().reason(stage)

    def clear(self, filled: FilledScript, num_nodes: int) -> None:
        """Set to 0 what has to be: the state of no vertex, and gradients of inputs that not all vertices have."""
        for number, row, whole in self._zeros:
            at, size = int(filled.bases[number]), num_nodes * row if whole else row
            filled.lease.clear(size, at if whole else at + num_nodes * row)


class DeviceRun(SweepRun):
    """One call of a program on a GPU."""

    _script: DeviceScript

    def _filled_in(self, addresses: CallAddresses, lease: Any) -> FilledScript:
        """Fill the script in with addresses of the device, and copy all that its kernels read there."""
        script, order, kernels = self._script, self._order, compiled("dynamic.fill")
        if lease is None:
            lease = Arena(script.needed_bytes(order), script.device)
        filled = script.fill(order, self._shared, self._rows_of, self._lengths, addresses, 1, None, lease)
        words, left, by_slot, *_, inverse = filled.keep[2]
        parcel = ArrayParcel()
        number = parcel.add(words)
        for array in (left, by_slot, inverse, filled.picked, *order.tables[: len(kernels.TABLES_OF_ORDER)]):
            parcel.add(array)
        parcel.stage(script.device)
        parcel.change(parcel.view(number))
        self._there, self._words = parcel.send(), parcel.address(number)
        script.clear(filled, order.num_nodes)
        return filled

    def _go(self, filled: FilledScript, direction: int) -> SweepCall:
        """Go through the lines of a direction: a launch for each, but for stages of torch's."""
        call = SweepCall(self._values, self._shared, self._script, filled)
        runner: Any = devices.device_on(self._script.device).queue
        chains, stages, words = self._script.chains, self._script.python_stages[direction], self._words
        for start, first, last, number in filled.lines[direction].tolist():
            if number >= 0:
                run_stage(stages[number], call, first, last)
            else:
                chain = chains[start]
                runner.launch(chain.program, "run", chain.grid(last - first), (words + 8 * start, first, last))
        return call
