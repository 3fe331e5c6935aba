"""Where everything that a step computes lies, and what its batches are: from a session's graph to arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import DGLError
from ...kernels.cpu.dynamic import batching, program
from ...kernels.cpu.dynamic.placement import active_nodes
from ...kernels.cpu.dynamic.schedule import LINES
from ...kernels.cpu.dynamic.script import Batches, Stage
from ...kernels.render.rows import StepSpec
from ..batching.execution.instructions import Word, batch_words, has_kernel, words_of
from ..batching.execution.matrices import EmbeddingLookup, WeightProduct
from ..batching.execution.placement import BatchPlacement
from ..batching.recording.kinds import DTYPES
from ..batching.recording.recorded import ProgramCall
from ..batching.recording.signatures import Signature, operand, places_of
from ..batching.session import Session
from ..execution.script import CallAddresses, FilledScript, ProgramScript
from ..program.layout import UnsupportedOperation


class PlacedProgram(NamedTuple):
    """A vertex program, its script, where its inputs and results lie, and the script for its graph."""

    call: ProgramCall
    script: ProgramScript
    addresses: CallAddresses
    filled: FilledScript


def place_rows(places: np.ndarray, rows: np.ndarray, address: int, row_bytes: int) -> None:
    """Write the addresses of rows, 0 for row -1."""
    np.multiply(rows, row_bytes, out=places)
    places += address
    places[rows < 0] = 0


class LookupCopy:
    """Rows of a table that are copied: the rows, their addresses, and where the gradient lies."""

    def __init__(self, lookup: EmbeddingLookup, refs: Sequence[tuple[int, int]], row_bytes: int, grad: int) -> None:
        """``refs`` are where the numbers are: node, and element."""
        self.lookup, self._refs, self._row_bytes, self.grad = lookup, refs, row_bytes, grad
        self._rows, self.addresses = np.empty((2, len(refs) * lookup.kinds[0].numel), np.int64)

    def read(self, session: Session, lookup: EmbeddingLookup) -> None:
        """Take the numbers from a session, as many as there were at first, or fewer."""
        each = lookup.kinds[0].numel
        self.rows = rows = self._rows[: len(self._refs) * each]
        for i, (node, first) in enumerate(self._refs):
            numbers = session.given_at[node].numpy().reshape(-1)
            rows[i * each : (i + 1) * each] = numbers[first : first + each]
        place_rows(self.addresses[: len(rows)], rows, self.lookup.table.data_ptr(), self._row_bytes)

    @property
    def counted(self) -> np.ndarray:
        """The rows, -1 where a gradient does not count."""
        padding = self.lookup.padding
        return self.rows if padding is None else np.where(self.rows == padding, -1, self.rows)


class StepLayout(BatchPlacement):
    """Batches of the nodes that ``targets`` need, with places for results, inputs, and the gradients of both.

    They run on ``machine`` (see :class:`.host.HostThreads`), whose memory they lie in.
    """

    inbound: Any = None

    def __init__(self, session: Session, targets: np.ndarray, stays: Collection[int] | None, machine: Any) -> None:
        """With ``stays``, the given nodes that are where they are in every session, others are copied; see refill."""
        self.session, self.machine = session, machine
        # What x.value() has computed is computed again: its results went to another place, and are few.
        graph = session.graph._replace(done=session.graph.sigs == batching.EXTERNAL)
        nodes = batching.needed_nodes(targets, graph)
        super().__init__(session, nodes, check=self._check)
        self.where = session.where.copy()
        # Copies: what is recorded in an ended session may move these.
        self.pools = [(ref >> batching.PLACE_BITS, np.array(pool)) for pool, ref in session.pools.values()]
        self.copies = None if stays is None else _copied(session, stays)
        for node, values in (*self.pools, *(self.copies or ())):
            self.where[node] = values.ctypes.data
        machine.bring(self)
        self.lay_out(self.where, lambda num_bytes: machine.arena(max(num_bytes, 8)), integers_anywhere=True)
        self.grad_arena = machine.arena(max(self.num_bytes, 8))
        self.shift = self.grad_arena.address - self.arena.address

    def _check(self, signature: Signature) -> None:
        why = _unsupported(signature, self.machine.takes_programs)
        if why is not None:
            raise UnsupportedOperation(why)
        for tensor in signature.tensors:
            if tensor.device != self.machine.device:
                raise DGLError(
                    f"a weight of shape {list(tensor.shape)} on {tensor.device} is used in a step of processors on "
                    f"{self.machine.device}; move the model there before its handle is made"
                )

    # -- gradients ----------------------------------------------------------------------------------------------
    def find_gradients(self, targets: np.ndarray, trained: dict[int, int], trained_ids: set[int]) -> None:
        """Note where gradients lie that lead from ``targets`` to given nodes or to products with tensors.

        ``trained`` has the address of the gradient of each external node; ``trained_ids`` are those of weights and
        biases.
        """
        session = self.session
        by_signature = [any(id(x) in trained_ids for x in signature.tensors) for signature in session.own_signatures]
        active = active_nodes(targets, session.graph, list(trained), by_signature)
        self.grads = np.zeros(len(self.where), np.int64)
        for node, address in trained.items():
            self.grads[node] = address if active[node] else 0
        self.grads[self.nodes] = np.where(active[self.nodes], self.where[self.nodes] + self.shift, 0)
        self.reached = np.bincount(self.kind, active[self.nodes], len(self.signatures)) > 0

    def stage(self, backward: bool) -> tuple[Stage, Any]:
        """Return a sweep, and what must be kept as long as it runs."""
        words, starts, lists, rows, _ = program.build(self.sweep(backward))
        return Stage(rows, words, starts), lists

    def sweep(self, backward: bool) -> program.BatchPlan:
        """Return what a sweep is made from."""
        return self.plan(backward, self.where, self.grads, self.shift)

    def batches(self, error: int) -> Batches:
        """Return what both sweeps are of; errors are reported at an address."""
        operations, columns = np.zeros((len(self.signatures), 2, 3), np.int64), dict[int, Any]()
        for number in np.flatnonzero(self.heavy).tolist():
            if number in self.programs:
                teams, has_backward = self.programs[number].filled[:2]
                for direction in range(1 + has_backward):
                    operations[number, direction] = LINES, teams[direction:].ctypes.data, _MUCH_WORK
                continue
            work, columns[number] = self._words(number, error)
            operations[number] = [(words[0], 0, work) for words in columns[number]]
        words = batch_words(columns, self.batch_kinds, self.first_ranks, self.batch_sizes)
        return Batches(self.sweep(True), operations, words)

    # -- vertex programs and lookups ----------------------------------------------------------------------------
    def prepare(self, processors: int, trained_ids: set[int]) -> None:
        """Fill vertex programs and lookups in. ``cleared`` are addresses and bytes of what must be zeros."""
        self.programs, self.lookups = dict[int, PlacedProgram](), dict[int, LookupCopy]()
        self.processors = processors
        self.cleared: list[tuple[int, int]] = []
        for number, signature in enumerate(self.signatures):
            if isinstance(signature.matrices, ProgramCall):
                self.programs[number] = self._program(number, signature.matrices, trained_ids)
            elif isinstance(signature.matrices, EmbeddingLookup):
                self.lookups[number] = self._lookup(number, signature.matrices)

    def read_with_gradient(self) -> set[int]:
        """Return the ids of the tensors that operations read besides their inputs and that a gradient reaches.

        Of what a vertex program reads these are some: on a graph of leaves nothing reaches what combines children.
        """
        ids: set[int] = set()
        for number, signature in enumerate(self.signatures):
            if self.reached[number] and number in self.programs:
                program = self.programs[number]
                ids |= {id(program.call.shared[part.shared]) for part in program.script.parts}
            elif self.reached[number]:
                ids |= {id(x) for x in signature.tensors}
        return ids

    def refill(self, session: Session) -> None:
        """Take values, vertex programs and lookups over from another session of the same operations."""
        for node, copy in self.copies or ():
            values = session.given_at[node].numpy().reshape(-1)
            copy.reshape(-1)[: len(values)] = values
        for node, copy in self.pools:
            copy[...] = next(pool for pool, ref in session.pools.values() if ref >> batching.PLACE_BITS == node)
        for number, placed in self.programs.items():
            call = session.signature(self.signatures[number].number).matrices
            assert isinstance(call, ProgramCall)
            filled = call.filled(placed.script, placed.addresses, self.processors, placed.filled.teams)
            self.programs[number] = placed._replace(call=call, filled=filled)
        for number, lookup_copy in self.lookups.items():
            lookup = session.signature(self.signatures[number].number).matrices
            assert isinstance(lookup, EmbeddingLookup)
            lookup_copy.read(session, lookup)

    def rest(self) -> None:
        """Give memory of vertex programs back."""
        for number, placed in self.programs.items():
            self.programs[number] = placed._replace(filled=placed.filled._replace(lease=None, keep=None))

    def _program(self, number: int, call: ProgramCall, trained_ids: set[int]) -> PlacedProgram:
        """Return the script of a vertex program, which is one operation."""
        session, inputs = self.session, self.inputs(number)
        (node,) = self.members(number).tolist()
        active, first, pulls = bool(self.grads[node]), int(session.graph.argptr[node]), []
        for i, x in enumerate(inputs):
            at = int(session.graph.args[first + i]) >> batching.PLACE_BITS
            pulls.append(active and x.kind.dtype in DTYPES and bool(self.grads[at]))
            if pulls[i] and self.input_at[self.first_input[number] + i]:
                self.cleared.append((x.address + self.shift, (x.kind.nbytes + 7) // 8 * 8))
        results = [int(self.starts[number]) + at for at in places_of(call.results)[:-1]]
        values = [x.address for x in inputs]
        shifted = [[x + self.shift for x in places] for places in (values, results)]
        script = call.script(pulls, trained_ids if active else set())
        addresses = CallAddresses(values, shifted[0], results, shifted[1])
        return PlacedProgram(call, script, addresses, call.filled(script, addresses, self.processors))

    def _lookup(self, number: int, lookup: EmbeddingLookup) -> LookupCopy:
        """Return what copies rows of a table, which all uses of it read at once."""
        table, session, refs = lookup.table, self.session, list[tuple[int, int]]()
        if table.dim() != 2 or table.stride(1) != 1 or table.dtype not in DTYPES:
            raise UnsupportedOperation(f"{self.signatures[number].name} of a table that does not lie by rows")
        for node in self.members(number).tolist():
            at, place = divmod(int(session.graph.args[session.graph.argptr[node]]), 1 << batching.PLACE_BITS)
            if at not in session.given_at:
                raise UnsupportedOperation(f"{self.signatures[number].name} with computed numbers")
            refs.append((at, place // session.given_at[at].itemsize))
        lookup_copy = LookupCopy(
            lookup, refs, table.stride(0) * table.element_size(), int(self.starts[number]) + self.shift
        )
        lookup_copy.read(session, lookup)
        return lookup_copy

    def _words(self, number: int, error: int) -> tuple[int, list[list[Word]]]:
        """Return the work for each node of an operation on batches, and the words of its kernels in both directions."""
        inputs, matrices, start = self.inputs(number), self.signatures[number].matrices, int(self.starts[number])
        assert matrices is not None
        if not isinstance(matrices, EmbeddingLookup):
            return words_of(matrices, inputs, start, self.shift, self.adds(number), self.machine, error)
        each, (width, item) = inputs[0].kind.numel, (matrices.table.shape[1], matrices.table.element_size())
        spec = StepSpec((operand(0),), (False,), False, False, DTYPES[matrices.table.dtype])
        result, addresses = (start, matrices.results[0].nbytes, 0), self.lookups[number].addresses.ctypes.data
        kernel, count, source = self.machine.step(spec, late=False), (0, 0, each), (addresses, 8 * each, 0)
        return each * width, [[kernel, count, width, result, width * item, 0, 0, 0, source], [0]]


_MUCH_WORK = 1 << 20


def _copied(session: Session, stays: Collection[int]) -> list[tuple[int, np.ndarray]] | None:
    """Return copies of values from outside, apart from nodes that stay, with their nodes; None if they are large."""
    external = [(node, values) for node, values in session.given_at.items() if node not in stays]
    if sum(values.numel() * values.itemsize for _, values in external) > _MOST_COPIED:
        return None
    return [(node, values.numpy().copy()) for node, values in external]


_MOST_COPIED = 1 << 17


def _unsupported(signature: Signature, takes_programs: bool) -> str | None:
    """Return what there is no instruction for, None if there is one for the signature."""
    name, matrices = signature.name, signature.matrices
    if isinstance(matrices, ProgramCall):
        computed = [x for x in matrices.tensors if x.requires_grad and not x.is_leaf]
        if computed:
            return f"{name} with a tensor of shape {list(computed[0].shape)} made of parameters"
        return None if takes_programs else name
    if isinstance(matrices, WeightProduct) and not (has_kernel(matrices) and matrices.weight.stride(1) == 1):
        return f"{name} with a weight that does not lie by rows"
    if matrices is None or isinstance(matrices, EmbeddingLookup) or has_kernel(matrices):
        return None
    return name
