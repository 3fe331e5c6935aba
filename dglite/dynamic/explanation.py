"""What a vertex program or a session of lazy tensors will run: stages or batches, their kernels, bytes and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import DGLError
from ..graph import DGLGraph
from ..kernels.cpu.dynamic.batching import PLACE_BITS, needed_nodes
from ..tables import bytes_text, html_card, html_table, text_table
from .batching.execution.instructions import has_kernel
from .batching.execution.matrices import TorchCall, WeightProduct
from .batching.execution.placement import BatchPlacement
from .batching.recording.signatures import Signature
from .batching.recording.tensor import LazyTensor
from .evaluate import prepared_calls
from .execution.script import ProgramScript
from .execution.sweep import VertexCall
from .program.ir import GRADIENT_KINDS, NodeKind, RowDomain
from .program.layout import function_name
from .program.recipe import DenseOp, PointwiseKernel, StagePhase
from .propagation import propagate_as_program
from .vertex import ByKind, VertexFunction

_PHASES = {StagePhase.EAGER: "before the sweep", StagePhase.SWEEP: "each level", StagePhase.LATE: "after the sweep"}
_MOST_LEVELS = 24


class StageLine(NamedTuple):
    """A stage of a class of vertices: what it computes, how often, where, and why not by a kernel if it is not.

    ``rows``, ``bytes`` and ``products`` are those of all vertices of the class together.
    """

    direction: str
    vertices: str
    phase: str
    name: str
    runs_by: str
    reason: str
    rows: int
    bytes: int
    products: int


class LevelLine(NamedTuple):
    """Vertices of one class that run together in the sweep, and what their stages move and multiply, forward."""

    vertices: str
    rows: int
    bytes: int
    products: int


@dataclass(frozen=True)
class ProgramExplanation:
    """The stages of a vertex program on a graph; ``str()`` of it is a table, and a notebook shows it as HTML."""

    title: str
    stages: tuple[StageLine, ...]
    levels: tuple[LevelLine, ...]

    @property
    def by_torch(self) -> tuple[StageLine, ...]:
        """The stages that run by torch, from Python, since there is no kernel for them."""
        return tuple([stage for stage in self.stages if stage.reason])

    def _tables(self) -> list[tuple[str, Sequence[str], list[Sequence[Any]], list[int], list[str]]]:
        stages: list[Sequence[Any]] = [(*s[:5], s.rows, bytes_text(s.bytes), s.products) for s in self.stages]
        levels: list[Sequence[Any]] = [(v, rows, bytes_text(size), products) for v, rows, size, products in self.levels]
        if len(levels) > _MOST_LEVELS:
            hidden = len(levels) - _MOST_LEVELS
            levels = [*levels[: _MOST_LEVELS // 2], (f"... {hidden} more", "", "", ""), *levels[-_MOST_LEVELS // 2 :]]
        head = "direction", "vertices", "when", "stage", "runs by", "rows", "bytes", "products"
        notes = [stage.reason for stage in self.stages]
        level_head = "level of", "rows", "bytes", "products"
        return [
            ("stages", head, stages, [5, 6, 7], notes),
            ("levels of the forward sweep", level_head, levels, [1, 2, 3], [""] * len(levels)),
        ]

    def __str__(self) -> str:
        text = [self.title]
        for title, columns, lines, numbers, notes in self._tables():
            head, *rows = text_table(columns, lines, numbers)
            text += ["", title, f"  {head}"]
            for row, note in zip(rows, notes, strict=True):
                text += [f"  {row}", f"      {note}"] if note else [f"  {row}"]
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [html_table(head, rows, numbers, notes) for _, head, rows, numbers, notes in self._tables()]
        return html_card(self.title, [], *parts)


def explain_program(call: VertexCall) -> ProgramExplanation:
    """Explain a call of a vertex program: as it is run forward, and backward where gradients are enabled."""
    grad, shared, order = torch.is_grad_enabled(), call.traced.shared_values(), call.order
    trained = [grad and x is not None and x.requires_grad for x in shared]
    script = call.script(shared, [grad and p.values.requires_grad for p in call.pulled], trained, True)
    edges, sizes, rows = np.diff(order.bounds[order.classes]), np.diff(order.classes), order.class_rows
    segments, stages = order.segments.tolist(), list[StageLine]()
    counts = [(c, int(order.bounds[last] - order.bounds[first]), last - first) for c, first, last in segments]
    most = {c: [max((line[i] for line in counts if line[0] == c), default=0) for i in (1, 2)] for c in script.plans}
    for direction in ("forward", "backward"):
        for c, plan in script.plans.items():
            sweep = plan.forward if direction == "forward" else plan.backward
            for phase, stage in [(p, s) for p in StagePhase for s in (sweep.stages.get(p, ()) if sweep else ())]:
                count = int(edges[c] if stage.domain is RowDomain.EDGE else sizes[c])
                together = most[c][stage.domain is not RowDomain.EDGE] if phase is StagePhase.SWEEP else count
                by, reason = _runner(stage, phase, together, script)
                amount = [x * count for x in _cost(stage)]
                line = direction, _class_name(call, c), _PHASES[phase], _stage_name(stage), by, reason, count
                stages.append(StageLine(*line, *amount))
    levels = _levels(call, script)
    title = (
        f"{call.name}: {rows[-1]} vertices of {len(order.filled)} classes in {len(levels)} runs of rows, "
        f"{int(order.bounds[-1])} edges; {len([s for s in stages if s.reason])} of {len(stages)} stages run by torch"
    )
    return ProgramExplanation(title, tuple(stages), tuple(levels))


def _levels(call: VertexCall, script: ProgramScript) -> list[LevelLine]:
    levels, bounds = list[LevelLine](), call.order.bounds
    for c, first, last in call.order.segments.tolist():
        per_row = [(stage, _cost(stage)) for stage in script.plans[c].forward.stages.get(StagePhase.SWEEP, ())]
        here = {RowDomain.VERTEX: last - first, RowDomain.EDGE: int(bounds[last] - bounds[first])}
        amounts = [sum(here[stage.domain] * cost[i] for stage, cost in per_row) for i in range(2)]
        levels.append(LevelLine(_class_name(call, c), last - first, *amounts))
    return levels


def _class_name(call: VertexCall, c: int) -> str:
    kind, mask = divmod(c // 2, 1 << len(call.pulled))
    absent = [str(i) for i in range(len(call.pulled)) if mask >> i & 1]
    parts = [f"kind {kind}"] if len(call.traced.programs) > 1 else []
    parts += ["with children" if c & 1 else "without children"]
    parts += [f"without input {', '.join(absent)}"] if absent else []
    return ", ".join(parts)


def _runner(stage: PointwiseKernel | DenseOp, phase: StagePhase, rows: int, script: ProgramScript) -> tuple[str, str]:
    """Return where a stage runs on some rows at a time, and why it returns to Python, "" if it does not."""
    reason = script.reason(stage)
    summed_later = isinstance(stage, DenseOp) and stage.node.kind in GRADIENT_KINDS and phase is not StagePhase.SWEEP
    if reason and not summed_later:
        return "torch", f"no kernel for {reason.removesuffix(' in a vertex program')}"
    return ("GEMM" if _is_product(stage) and rows > script.most_rows else "kernel"), ""


def _is_product(stage: PointwiseKernel | DenseOp) -> bool:
    return isinstance(stage, DenseOp) and stage.node.kind in (NodeKind.MATMUL, NodeKind.WEIGHT_GRAD)


def _stage_name(stage: PointwiseKernel | DenseOp) -> str:
    if isinstance(stage, PointwiseKernel):
        names = sorted({op for formula in stage.formulas for op in _operators(formula)})
        return f"{', '.join(names) or 'copy'} -> {len(stage.formulas)} x {stage.width}"
    node = stage.node
    if node.kind in (NodeKind.MATMUL, NodeKind.WEIGHT_GRAD):
        left, right = node.inputs[0].width, node.inputs[1]
        return f"product {left} -> {node.width}" if node.kind is NodeKind.MATMUL else f"gradient {left} x {right.width}"
    if node.kind is NodeKind.REDUCE:
        return f"{node.attr} over children of {node.width}"
    return function_name(node) or f"{node.kind.value} of {node.width}"


def _operators(formula: Any) -> set[str]:
    args = getattr(formula, "args", None)
    return set() if args is None else {formula.op.name}.union(*map(_operators, args))


def _cost(stage: PointwiseKernel | DenseOp) -> tuple[int, int]:
    """Return the bytes that are read and written for a row, weights apart, and the multiplications of products."""
    if isinstance(stage, PointwiseKernel):
        return (len(stage.readings) + len(stage.places)) * stage.width * stage.dtype.itemsize, 0
    node = stage.node
    moved = [x for x in (*node.inputs, node) if x.domain is not RowDomain.SHARED]
    products = 0
    if node.kind is NodeKind.MATMUL:
        products = node.inputs[0].width * node.width
    elif node.kind in GRADIENT_KINDS:
        products = node.inputs[0].width * node.inputs[-1].width if len(node.inputs) == 2 else 0
    return sum(x.width * x.dtype.itemsize for x in moved), products


# -- sessions ----------------------------------------------------------------------------------------------------------
class BatchLine(NamedTuple):
    """A batch of recorded operations: which, how many, where it runs, bytes of operands and results, products."""

    name: str
    operations: int
    runs_by: str
    bytes: int
    products: int


@dataclass(frozen=True)
class SessionExplanation:
    """The batches that ``run`` would compute, in their order; ``str()`` of it is a table, in notebooks HTML."""

    title: str
    batches: tuple[BatchLine, ...]

    def _rows(self) -> list[Sequence[Any]]:
        return [(b.name, b.operations, b.runs_by, bytes_text(b.bytes), b.products) for b in self.batches]

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in text_table(_HEAD, self._rows(), [1, 3, 4]))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_card(self.title, [], html_table(_HEAD, self._rows(), [1, 3, 4]))


_HEAD = "batch", "operations", "runs by", "bytes", "products"


def explain_session(lazies: Sequence[LazyTensor], strategy: str = "agenda") -> SessionExplanation:
    """Explain what ``dynamic.run(lazies, strategy)`` would compute. Nothing is computed; recording may go on."""
    session = lazies[0]._session
    session.settle()
    targets = np.array([x._ref for x in lazies], np.int64) >> PLACE_BITS
    nodes = needed_nodes(targets, session.graph)
    placement, batches = BatchPlacement(session, nodes, strategy), list[BatchLine]()
    for number, count in zip(placement.batch_kinds.tolist(), np.diff(placement.bounds).tolist(), strict=True):
        signature = placement.signatures[number]
        size, products = _cost_of(signature)
        batches.append(BatchLine(signature.name, count, _runs_by(signature), count * size, count * products))
    title = f"{len(nodes)} operations in {len(batches)} batches ({strategy})"
    return SessionExplanation(title, tuple(batches))


def _runs_by(signature: Signature) -> str:
    if signature.matrices is None:
        return "kernel"
    if isinstance(signature.matrices, WeightProduct):
        return "kernel for few rows, else a GEMM"
    if has_kernel(signature.matrices):
        return "kernel"
    return "torch, on stacked tensors" if type(signature.matrices) is TorchCall else type(signature.matrices).__name__


def _cost_of(signature: Signature) -> tuple[int, int]:
    matrices, size = signature.matrices, signature.nbytes
    if matrices is None:
        formulas = signature.formulas
        return size + (len(formulas.parts) * formulas.width * formulas.dtype.itemsize if formulas else 0), 0
    size += sum(kind.nbytes for kind in matrices.kinds)
    if isinstance(matrices, WeightProduct):
        rows = matrices.kinds[0].numel // matrices.matrix.shape[0]
        return size, rows * matrices.matrix.numel()
    return size, 0


# -- what is explained -------------------------------------------------------------------------------------------------
def explain_dynamic(x: Any, *args: Any, **options: Any) -> ProgramExplanation | SessionExplanation | None:
    """Explain a vertex function with the arguments of its call, lazy tensors, or a propagation that is a program.

    None for anything else.
    """
    if isinstance(x, DGLGraph):
        return _explain_propagation(x, *args)
    if isinstance(x, VertexFunction | ByKind):
        if not args:
            raise DGLError(f"explain({type(x).__name__}) got no graph; give it what the call takes: graph, *inputs")
        functions = [x] if isinstance(x, VertexFunction) else list(x.functions)
        call = x._evaluator.prepared(args[0], args[1:], functions, options.get("kinds"))
        return explain_program(call)
    lazies = [x] if type(x) is LazyTensor else x
    if isinstance(lazies, list | tuple) and lazies and all(type(y) is LazyTensor for y in lazies):
        return explain_session(lazies, *args, **options)
    return None


def _explain_propagation(graph: DGLGraph, *functions: Any) -> ProgramExplanation | None:
    """Run a propagation on a copy of the graph, and explain its call of a program; None where it is message passing."""
    calls = list[VertexCall]()
    token = prepared_calls.set(calls)
    try:
        propagate_as_program(graph.local_var(), *functions)
    finally:
        prepared_calls.reset(token)
    return explain_program(calls[-1]) if calls else None
