"""Persistent processors on a GPU: the blocks of one kernel that is made for the model and keeps weights in registers.

A step is planned as for threads, with the GPU's addresses where there are any. What refers to memory of the host, the
script, its words and lists of addresses, is put together in one parcel, in which addresses are changed to the GPU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast, final

import numpy as np
from torch import Tensor

from ...errors import DGLError
from ...kernels.cpu.dynamic.kernels import CLEAR as HOST_CLEAR
from ...kernels.cpu.dynamic.kernels import TOTALS, step_of
from ...kernels.cpu.dynamic.script import ALONGSIDE
from ...kernels.cuda.dynamic import persistent as cuda
from ...kernels.cuda.run.program import CudaProgram, Memory, Runner
from ...kernels.render.rows import StepSpec
from ...ops import devices
from ...structure.distinct import numbered
from ..batching.execution.matrices import WeightProduct
from ..batching.recording.kinds import DTYPES
from ..batching.session import ExternalTensor
from ..execution.parcel import ArrayParcel
from .rules import TrainedParameter
from .update import OperationList

CANDIDATES = (1, 2, 4)
"""Rows of a matrix that a warp multiplies at a time."""
_TURNS = 2
SMALL = 8192
"""Multiplications up to which one block does them all: about as long as blocks take to wait for each other."""
_FIRST_ADDRESS = 1 << 20


def gpu_of(parameters: Sequence[Tensor], processors: int | None, rows_per_warp: int | None) -> GpuBlocks | None:
    """Return the GPU that parameters are on, None if they are on the CPU."""
    device = parameters[0].device
    reason = devices.why_no_kernels(device)
    if reason:
        raise DGLError(f"persistent processors cannot run on {device}: {reason}")
    if not isinstance(devices.HOST if device.type == "cpu" else devices.device_of(parameters[0]), devices.Gpu):
        if rows_per_warp is not None:
            raise DGLError("rows_per_warp is for processors on a GPU; the parameters are on the CPU: leave it out")
        return None
    if rows_per_warp is not None and not 1 <= rows_per_warp <= 32:
        raise DGLError(
            f"rows_per_warp is the number of rows that a warp multiplies at a time, 1 to 32; got {rows_per_warp}"
        )
    return GpuBlocks(parameters, processors, rows_per_warp)


class Profile:
    """Chooses rows per warp by what steps take: each candidate has some turns, and its best one counts."""

    def __init__(self, candidates: Sequence[int]) -> None:
        self._best = dict.fromkeys(candidates, float("inf"))
        self._turns = [rows for rows in candidates for _ in range(_TURNS)] if len(candidates) > 1 else []

    @property
    def rows(self) -> int:
        """What the next step is to use."""
        return self._turns[0] if self._turns else min(self._best, key=self._best.__getitem__)

    def note(self, rows: int, cost: float) -> None:
        """Note what a step with this many rows for a warp took, for each of its operations."""
        if self._turns and self._turns[0] == rows:
            self._best[rows] = min(self._best[rows], cost)
            del self._turns[0]


class _InboundBuffer(NamedTuple):
    """Values from the host, and memory of the GPU for them."""

    values: np.ndarray
    memory: Memory


@final
class GpuBlocks:
    """The blocks of a GPU. Operations are numbers of cases of the model's program, which grows with what is used.

    ``ticks`` of its clock are what the last step took.
    """

    again = falls_back = takes_programs = False
    """See :class:`.host.HostThreads`."""

    def __init__(self, parameters: Sequence[Tensor], processors: int | None, rows_per_warp: int | None) -> None:
        self.device, self._like = parameters[0].device, parameters[0]
        self._there = {id(x) for x in parameters}
        self.profile = Profile(CANDIDATES if rows_per_warp is None else (rows_per_warp,))
        self._processors = processors
        self._numbers: dict[cuda.Case, int] = {}
        self._cases: tuple[cuda.Case, ...] = ()
        self._of_address: dict[int, int] = {}
        self.weights: dict[int, tuple[Tensor, cuda.Matrix]] = {}
        self._scratch: Memory | None = None
        self.small, self.ticks = SMALL, 0

    @property
    def runner(self) -> Runner:
        """What starts kernels on torch's current stream."""
        device: Any = devices.HOST if self.device.type == "cpu" else devices.device_of(self._like)
        return cast(Runner, device.queue)

    @property
    def processors(self) -> int:
        """How many blocks a step runs on."""
        most = self.runner.blocks
        return most if self._processors is None else min(self._processors, most)

    @property
    def scratch(self) -> Memory:
        """Memory for what blocks find of one product."""
        if self._scratch is None:
            self._scratch = self.runner.empty(cuda.SCRATCH_BYTES)
        return self._scratch

    @property
    def sharing(self) -> tuple[bool, int]:
        """Whether rows are shared out by elements, and up to which work one block does it all."""
        return True, self.small

    # -- operations ---------------------------------------------------------------------------------------------
    def number(self, case: cuda.Case) -> int:
        """Return the number of a case, in the order of their first use."""
        return self._numbers.setdefault(case, cuda.FIRST_CASE + len(self._numbers))

    def operations(self, listed: np.ndarray) -> tuple[np.ndarray, tuple[cuda.Case, ...]]:
        """Return a script's operations by the order of the program's cases, and these; some are addresses before.

        Cases come in an order of their own, so that the same model is the same program, whatever was met first.
        """
        operations, inverse = numbered(listed)
        numbers = [self._number_of(operation) for operation in operations.tolist()]
        if len(self._cases) < len(self._numbers):
            self._cases = tuple(sorted(self._numbers, key=repr))
            self._places = [self._cases.index(case) + cuda.FIRST_CASE for case in self._numbers]
        first = cuda.FIRST_CASE
        places = [number if number < first else self._places[number - first] for number in numbers]
        return np.array(places, np.int64)[inverse], self._cases

    def _number_of(self, operation: int) -> int:
        if operation < _FIRST_ADDRESS:
            return operation
        number = self._of_address.get(operation)
        if number is None:
            case: cuda.Case
            if operation == HOST_CLEAR:
                case = cuda.CLEAR
            elif operation == TOTALS:
                case = cuda.LOSSES
            else:
                case = cuda.FormulaStep(**vars(step_of(operation)))
            number = self._of_address[operation] = self.number(case)
        return number

    def step(self, spec: StepSpec, late: bool = True) -> int:
        """Return the operation of formulas, of an update unless it is not ``late``."""
        return self.number(cuda.FormulaStep(**vars(spec), late=late))

    def rowwise(self, form: str, gradient: bool, dtype: str) -> int:
        """Return the operation of a softmax or a loss."""
        return self.number(cuda.Rowwise(form, gradient, dtype))

    def matrix(self, form: str, dtype: str) -> int:
        """Return the operation that adds a sum to what is kept of a parameter or a gradient."""
        return self.number(cuda.Summed(form, cuda.KEPT, 0, dtype))

    def product(self, product: WeightProduct, forms: Sequence[str], dtype: str) -> list[int]:
        """Return the operations that multiply by a product's weight."""
        weight = product.weight
        if id(weight) not in self.weights:
            self.weights[id(weight)] = weight, cuda.Matrix(weight.shape[0], weight.shape[1], dtype)
        place = list(self.weights).index(id(weight))
        return [self.number(cuda.Times(form, place)) for form in forms]

    def fuse(self, listing: OperationList, trained: TrainedParameter, parts: Sequence[Any], numbers: int) -> bool:
        """List a rule, its numbers at an address, together with the sum of a gradient in registers, if one sum is all
        of the gradient."""
        if len(parts) != 1 or parts[0].form not in ("outer", "totals"):
            return False
        (part,), parameter, rule = parts, trained.parameter, trained.rule
        height, width = parameter.shape if part.form == "outer" else (1, parameter.numel())
        dtype = DTYPES[parameter.dtype]
        operation = self.number(cuda.Summed(part.form, tuple(rule.formulas), len(rule.states), dtype))
        matrix = parameter.data_ptr(), parameter.stride(0) * parameter.element_size()
        states = [x.data_ptr() for x in rule.states]
        words = [operation, part.rows, height, width, *part.x, *matrix, *part.y, numbers, *states]
        listing.add(words, part.rows * height * width, ALONGSIDE)
        return True

    def program(self, cases: tuple[cuda.Case, ...], rows: int) -> CudaProgram:
        """Return the program of some cases and the matrices that have been met."""
        matrices = tuple(matrix for _, matrix in self.weights.values())
        return cuda.persistent_program(cases, matrices, rows, cuda.slots_of(matrices, rows, self.processors))

    # -- memory -------------------------------------------------------------------------------------------------
    def arena(self, num_bytes: int) -> Memory:
        """Return memory for results."""
        return self.runner.empty(num_bytes)

    def bring(self, layout: Any) -> None:
        """Note where on the GPU what was given on the host will lie."""
        external = [x for x in layout.session.external.values() if not self._is_there(x)]
        arrays = [*((x.node, x.values.view(-1).numpy()) for x in external), *layout.pools]
        parcel = ArrayParcel()
        numbers = [(node, parcel.add(array)) for node, array in arrays]
        layout.inbound = _InboundBuffer(*parcel.pack(self.runner))
        for node, number in numbers:
            layout.where[node] = parcel.address(number)

    def _is_there(self, external: ExternalTensor) -> bool:
        return external.values.device.type != "cpu" or id(external.tensor) in self._there

    # -- steps --------------------------------------------------------------------------------------------------
    def job(self) -> GpuJob:
        """Return a job that scripts are to be given to."""
        return GpuJob(self)


@final
class GpuJob:
    """A step on a GPU. When :meth:`wait` has returned, ``error`` is known, and the loss is where it was to be."""

    def __init__(self, gpu: GpuBlocks) -> None:
        self._gpu, self._runner = gpu, gpu.runner
        self._status = np.zeros(cuda.STATUS_WORDS, np.int64)
        self.error_address = self._status.ctypes.data + 8 * cuda.ERROR
        self.error = 0

    def load(self, scripts: Sequence[Any], layout: Any, loss: np.ndarray) -> None:
        """Take over a script, the arrays that it refers to, and the memory that it works in."""
        (instructions, words), forward, backward, lists, more_lists, *listings = scripts
        parcel, gpu = ArrayParcel(), self._gpu
        parcel.add(self._status)
        parcel.add(loss)
        script = parcel.add(instructions)
        batches = parcel.add(words)
        sweeps = [(parcel.add(x.words), parcel.add(listed)) for x, listed in ((forward, lists), (backward, more_lists))]
        listed = [parcel.add(array) for listing in listings for array in listing.arrays]
        listed += [parcel.add(lookup.addresses) for lookup in layout.lookups.values()]
        weights = [(x.data_ptr(), x.stride(0) * x.element_size()) for x, _ in gpu.weights.values()]
        matrices = parcel.add(np.array(weights or [(0, 0)], np.int64))
        self._packed, self._memory = parcel.pack(self._runner)
        instructions = parcel.view(script).reshape(-1, 4)
        instructions[:, 0], self._cases = gpu.operations(instructions[:, 0])
        parcel.change(instructions[:, 1])
        for sweep, of_sweep in sweeps:
            parcel.change_into(of_sweep, parcel.view(sweep))
        for number in (batches, *listed):
            if parcel.view(number).dtype == np.int64:
                parcel.change(parcel.view(number))
        self._words = [parcel.address(script), len(instructions), parcel.address(0), parcel.address(matrices)]
        self._words += [gpu.scratch.address, cuda.SCRATCH_BYTES]
        self._loss, self._size, self._layout = loss, len(layout.nodes), layout

    def start(self) -> None:
        """Start it; returns when it has been handed to the GPU."""
        gpu, inbound = self._gpu, self._layout.inbound
        self._rows = gpu.profile.rows
        self._runner.write(inbound.memory.address, inbound.values)
        self._runner.write(self._memory.address, self._packed)
        self._runner.launch_together(gpu.program(self._cases, self._rows), "run", gpu.processors, self._words)

    def wait(self) -> None:
        """Wait for its end."""
        status = self._runner.download(self._memory.address, cuda.STATUS_WORDS + 1, "int64")
        self.error, self._loss[0] = int(status[cuda.ERROR]), status[cuda.STATUS_WORDS :].view(np.float64)[0]
        self._gpu.ticks = int(status[cuda.ELAPSED])
        self._gpu.profile.note(self._rows, self._gpu.ticks / self._size)
        del self._layout, self._packed
