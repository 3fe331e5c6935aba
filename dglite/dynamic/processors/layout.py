"""Where everything that a step computes lies, and what its batches are: from a session's graph to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...kernels.cpu import batching, program
from ...kernels.cpu.script import HEAVY_WORDS, PRODUCT, ROWWISE, Heavy, Stage
from ...kernels.render_rowwise import LABELLED
from ..batching.matrices import Product, TorchCall
from ..batching.session import Session
from ..batching.signatures import DTYPES, Kind, Signature, shared, template_table
from .host import HOST

__all__ = ["Layout", "Unsupported"]


class Unsupported(Exception):
    """An operation that processors have no instruction for; the message names it."""


_tables: dict[Any, tuple[Any, Any]] = {}
"""Templates of several signatures, forward and backward; a model has the same ones in most steps."""


class _Input(NamedTuple):
    """An input of an operation on batches: whose, what kind, and the address and distance of its rows."""

    number: int
    kind: Kind
    address: int
    distance: int


class Layout:
    """Batches of the nodes that ``targets`` need, with places for results, inputs, and the gradients of both.

    They run on ``machine`` (see :class:`.host.Host`), whose memory they lie in.
    """

    brought: Any = None

    def __init__(self, session: Session, targets: np.ndarray, machine: Any = HOST) -> None:
        self.session, self.machine = session, machine
        given = session.sigs[: session.num_nodes] == batching.EXTERNAL
        graph = session.argptr, session.args
        # What x.value() has computed is computed again: its results went to another place, and are few.
        self.nodes = batching.needed_nodes(targets, *graph, given, session.num_nodes)
        place, depth, kind, numbers = batching.depths_of(
            self.nodes, session.sigs, *graph, session.num_nodes, len(shared)
        )
        self.signatures = [session.signature(number) for number in numbers.tolist()]
        for signature in self.signatures:
            _check(signature)
        self.heavy = np.array([signature.matrices is not None for signature in self.signatures], np.bool_)
        order, self.bounds = batching.by_agenda(self.nodes, place, depth, kind, *graph, self.heavy)
        self.kind, self.order, self.batch_kinds = kind, self.nodes[order], kind[order[self.bounds[:-1]]]
        self._lay_out(order)
        self.templates = _templates(self.signatures)

    def _lay_out(self, order: np.ndarray) -> None:
        session, sizes = self.session, np.array([signature.nbytes for signature in self.signatures], np.int64)
        self.where = np.zeros(len(session.where), np.int64)
        self.where[: session.num_nodes] = session.where[: session.num_nodes]
        # Copies: what is recorded in an ended session may move these.
        self.pools = [(ref >> batching.PLACE_BITS, np.array(pool)) for pool, ref in session.pools.values()]
        for node, values in self.pools:
            self.where[node] = values.ctypes.data
        self.machine.bring(self)
        self.ranks, counts, self.starts, end = program.place_results(order, self.kind, self.nodes, sizes, self.where)
        self.counts, self.result_bytes = counts.tolist(), end
        places = []
        for number, signature in enumerate(self.signatures):
            for kind in signature.matrices.kinds if signature.matrices is not None else ():
                places.append((number, kind, end))
                end += (self.counts[number] * kind.nbytes + 63) // 64 * 64
        self.arena, self.grad_arena = (self.machine.arena(max(end, 8)) for _ in range(2))
        base = self.arena.address
        self.where[self.nodes] += base
        self.starts += base
        self.shift = self.grad_arena.address - base
        self._find_inputs(places, base)

    def _find_inputs(self, places: Sequence[tuple[int, Kind, int]], base: int) -> None:
        """Use inputs where they lie if all of a signature's do so in equal distances."""
        session, kinds = self.session, None
        self.inputs: list[list[_Input]] = [[] for _ in self.signatures]
        self.first_input, self.input_at = np.zeros(len(self.signatures), np.int64), np.zeros(len(places), np.int64)
        self.input_sizes = np.array([kind.nbytes for _, kind, _ in places], np.int64)
        for i, (number, kind, at) in enumerate(places):
            slot = len(self.inputs[number])
            if not slot:
                self.first_input[number] = i
            if kinds is None:
                kinds = np.repeat(self.batch_kinds, np.diff(self.bounds))
            address, distance = program.in_place(
                self.order[kinds == number], slot, kind.nbytes, session.argptr, session.args, self.where, base,
                base + self.result_bytes,
            )  # fmt: skip
            if not address or distance % kind.item or (len(kind.shape) > 1 and distance != kind.nbytes):
                address, distance = base + at, kind.nbytes
                self.input_at[i] = address
            self.inputs[number].append(_Input(number, kind, address, distance))

    # -- gradients ----------------------------------------------------------------------------------------------
    def find_gradients(self, targets: np.ndarray, trained: dict[int, int], wanted: set[int]) -> None:
        """Note where gradients lie that lead from ``targets`` to given nodes or to products with tensors.

        ``trained`` has the address of the gradient of each given node; ``wanted`` are the ids of weights and biases.
        """
        session = self.session
        given = np.zeros(session.num_nodes, np.bool_)
        given[list(trained)] = True
        own = np.array([bool(_tensors(signature) & wanted) for signature in session.own], np.bool_)
        active = program.active_nodes(
            targets, session.sigs, session.argptr, session.args, given, np.zeros(len(shared), np.bool_), own,
            session.num_nodes,
        )  # fmt: skip
        self.grads = np.zeros(len(self.where), np.int64)
        for node, address in trained.items():
            self.grads[node] = address if active[node] else 0
        self.grads[self.nodes] = np.where(active[self.nodes], self.where[self.nodes] + self.shift, 0)
        self.reached = np.bincount(self.kind, active[self.nodes], len(self.signatures)) > 0

    def stage(self, backward: bool) -> tuple[Stage, Any]:
        """Return a sweep, and what must be kept as long as it runs."""
        templates, ends = self.templates[backward]
        plan = program.Plan(
            backward, self.order, self.bounds, self.batch_kinds, self.ranks, templates, ends, self.heavy,
            self.first_input, self.input_at, self.input_sizes, self.shift,
        )  # fmt: skip
        graph = program.Graph(self.session.argptr, self.session.args, self.where, self.grads)
        words, starts, lists, rows, _ = program.build(plan, graph)
        return Stage(rows, words, starts), lists

    def heavies(self, error: int) -> Heavy:
        """Return the operations on batches; errors are reported at an address."""
        table = [self._heavy_row(number, error) for number in range(len(self.signatures))]
        return Heavy(
            np.array(table, np.int64), self.order, self.bounds, self.batch_kinds, self.ranks, self.session.argptr,
            self.session.args, self.grads, self.shift,
        )  # fmt: skip

    def _heavy_row(self, number: int, error: int) -> list[int]:
        signature, inputs = self.signatures[number], self.inputs[number]
        if signature.matrices is None:
            return [0] * HEAVY_WORDS
        kind, x = inputs[0].kind, inputs[0]
        dtype, features = DTYPES[kind.dtype], kind.shape[-1]
        result = int(self.starts[number]), signature.nbytes, int(self.input_at[self.first_input[number]] == 0), error
        if isinstance(signature.matrices, Product):
            product, weight = signature.matrices, signature.matrices.weight
            forms = ("sums", "dots") if product.turned else ("dots", "sums")
            kernels = self.machine.product(product, forms, dtype)
            bias = 0 if product.bias is None else product.bias.data_ptr()
            columns = product.results[0].shape[-1]
            matrix = (*weight.shape, weight.data_ptr(), weight.stride(0) * kind.item, bias)
            sizes = kind.numel // features, features, columns, kind.item
            return [PRODUCT, *kernels, *matrix, *sizes, x.address, x.distance, 0, 0, *result]
        assert isinstance(signature.matrices, TorchCall) and signature.matrices.form is not None
        form = signature.matrices.form
        kernels = [self.machine.rowwise(form, gradient, dtype) for gradient in (False, True)]
        labels = (inputs[1].address, inputs[1].distance) if form in LABELLED else (0, 0)
        sizes = 1, features, features, kind.item
        return [ROWWISE, *kernels, 0, 0, 0, 0, 0, *sizes, x.address, x.distance, *labels, *result]


def _tensors(signature: Signature) -> set[int]:
    product = signature.matrices
    return {id(product.weight), id(product.bias)} if isinstance(product, Product) else set()


def _check(signature: Signature) -> None:
    matrices = signature.matrices
    if isinstance(matrices, Product):
        tensors: list[Tensor] = [x for x in (matrices.weight, matrices.bias) if x is not None]
        if any(x.stride(-1) != 1 for x in tensors) or (matrices.bias is not None and matrices.bias.dim() != 1):
            raise Unsupported(f"{signature.name} with a weight that does not lie by rows")
    elif isinstance(matrices, TorchCall):
        labels = matrices.kinds[1:]
        if (
            matrices.form is None
            or matrices.kinds[0].dtype not in DTYPES
            or any(x.dtype is not torch.int64 for x in labels)
        ):
            raise Unsupported(signature.name)


def _templates(signatures: Sequence[Signature]) -> tuple[Any, Any]:
    # Of operations on batches, the templates are those of the gathers of their inputs.
    key = tuple(s.number if s.matrices is None else s.matrices.kinds for s in signatures)
    known = _tables.get(key)
    if known is None:
        if len(_tables) > 1000:
            _tables.clear()
        sweeps = [s.forward for s in signatures], [s.backward for s in signatures]
        known = _tables[key] = template_table(sweeps[0]), template_table(sweeps[1])
    return known
