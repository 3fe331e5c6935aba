"""What F computes, seen by running it once on a few made-up vertices.

Every torch operation ends in ATen operators, of which there are few; a dispatch mode turns each into nodes. What is
made from parameters alone is not part of the program: it is replayed by torch at each call, with torch's own gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...backend import active
from ...errors import DGLError
from .ir import Builder, Node, NodeKind, OpaqueCall, RowDomain
from .lower import (
    ELEMENTWISE,
    FACTORIES,
    FUSED,
    LOWERINGS,
    TAKES_BOOLEANS,
    TRANSPOSES,
    check_independent,
    mixing,
    stop_gradient,
)
from .replay import (
    INNER,
    SharedTensor,
    TracedFunction,
    batch_filler,
    converted,
    expanded,
    filler,
    inner_rows_alike,
    is_tensor,
    on_copy,
    outputs_of,
)
from .views import overlap, part_of_row, start_in_row


class FunctionRecorder(TorchDispatchMode):
    """Records what runs inside of it. ``rows`` of a value tell its domain: made-up numbers that nothing else has."""

    def __init__(self, builder: Builder, avoid: set[int], dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        free = (n for n in itertools.count(5, 2) if n not in avoid)
        self.builder, self.dtype, self.device = builder, dtype, device
        self.rows = {RowDomain.VERTEX: next(free), RowDomain.EDGE: next(free)}
        self.domains = {rows: domain for domain, rows in self.rows.items()}
        self.program = TracedFunction()
        self.pulls: list[tuple[Node, bool]] = []
        """The inputs of F, and whether each is a boolean."""
        self._nodes: dict[int, Node] = {}
        self._alive: list[torch.Tensor] = []
        self._states_and_inputs: list[torch.Tensor] = []
        """Made-up states and inputs."""
        self._refused: dict[int, DGLError] = {}
        self._tokens = itertools.count()
        self._numbers: dict[Node, float] = {}
        self._turned: dict[int, torch.Tensor] = {}
        """Values with a column for each vertex, by their ids: what they are the transpose of."""
        self._ones: dict[tuple[int, int], Node] = {}
        builder.ones = self._ones_of

    # -- values -------------------------------------------------------------------------------------------------
    def value(self, node: Node, boolean: bool = False) -> torch.Tensor:
        """Return a made-up tensor that stands for a node, whose values may be booleans."""
        rows = self.rows[node.domain]
        with torch.utils._python_dispatch._disable_current_modes():
            tensor = torch.zeros((rows, *node.shape), dtype=torch.bool if boolean else node.dtype)
            if not boolean and node.dtype.is_floating_point:
                tensor.uniform_(0.1, 0.9, generator=torch.Generator().manual_seed(0))
            tensor = active.to_device(tensor, self.device, True)
        if node.kind in (NodeKind.GATHER, NodeKind.CHILD, NodeKind.PULL):
            self._states_and_inputs.append(tensor)
        return self.bind(tensor, node)

    def bind(self, tensor: torch.Tensor, node: Node) -> torch.Tensor:
        """Remember that a tensor stands for a node."""
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)
        self._refused.pop(id(tensor), None)
        return tensor

    def node(self, tensor: torch.Tensor) -> Node:
        """Return the node that a tensor stands for; a tensor from outside is shared by all vertices."""
        if id(tensor) in self._refused:
            raise self._refused[id(tensor)]
        if id(tensor) not in self._nodes:
            if tensor.device != self.device and tensor.dim():
                raise DGLError(
                    f"a parameter or tensor that F reads is {tuple(tensor.shape)} on {tensor.device}, but the graph is "
                    f"on {self.device}: move the whole module, program.to({str(self.device)!r})"
                )
            self.bind(tensor, self._shared(SharedTensor(tensor=tensor), tensor.shape, tensor.dtype))
        return self._nodes[id(tensor)]

    def has_rows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has a row for each vertex or child."""
        node = self._nodes.get(id(tensor))
        return node is not None and node.domain is not RowDomain.SHARED

    def numbers(self, tensor: torch.Tensor, verb: str) -> Node:
        """Return the node of a tensor of numbers that F gives to ``verb``."""
        if not is_tensor(tensor):
            raise DGLError(f"{verb} got {type(tensor).__name__}; expected tensors")
        if tensor.dtype is torch.bool:
            raise DGLError(f"{verb} got booleans; give it numbers, x.to({self.dtype})")
        return self.node(tensor)

    def _shared(self, shared: SharedTensor, shape: Sequence[int], dtype: torch.dtype) -> Node:
        self.program.shared.append(shared)
        index = len(self.program.shared) - 1
        return self.builder.make(NodeKind.SHARED, (), index, RowDomain.SHARED, shape, dtype)

    # -- operators ----------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        check_independent(name)
        if name in FUSED:
            with self:
                return FUSED[name](*args)
        flat, spec = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in flat if is_tensor(x)]
        if name == "index" and any(x.dtype is torch.bool for x in tensors[1:]):
            check_independent("masked_select")
        refused = next((self._refused[id(x)] for x in tensors if id(x) in self._refused), None)
        if refused is not None:
            return self._refuse(func(*args, **kwargs), refused)
        if name in TRANSPOSES or any(id(x) in self._turned for x in tensors):
            turned = self._of_turned(func, name, args, kwargs, tensors)
            if turned is not NotImplemented:
                return turned
        nodes = [self.node(x) for x in tensors]
        if len({node.domain for node in nodes} - {RowDomain.SHARED}) > 1:
            raise DGLError(
                f"F combines values of vertices with values of their children ({name}); repeat a vertex's value for "
                "its children with children.each(x), or add up its children's with children.sum(x)"
            )
        written = args[0] if func._schema.is_mutable and tensors else None
        if written is not None:
            self._check_write(written, name, kwargs)
            tensors = [x.clone() if x is written else x for x in tensors]
        result = func(*args, **kwargs)
        constant = self._factory(name, args, kwargs, result)
        if constant is not None:
            return self.bind(result, constant)
        if not any(node.domain is not RowDomain.SHARED for node in nodes):
            return self._without_rows(func, name, (args, kwargs), nodes, result)
        lowered = self._lower(name.rstrip("_"), flat, spec, nodes, result)
        if lowered is NotImplemented and written is None and len(nodes) == 1:
            lowered = self._viewed(tensors[0], nodes[0], result)
        if lowered is NotImplemented:
            lowered = self._opaque(func, name, (args, kwargs), tensors, nodes, result)
        if lowered is None:
            return self._refuse(result, mixing(name))
        results = lowered if isinstance(lowered, list) else [lowered]
        for tensor, node in zip(outputs_of(result), results, strict=True):
            if isinstance(tensor, torch.Tensor) and node is not None:
                self.bind(tensor, node)
        if written is not None:
            self._note_write(written, self._nodes[id(written)])
        return result

    def _of_turned(self, func: Any, name: str, args: Any, kwargs: Any, tensors: list) -> Any:
        """Compute with transposes (features, vertices), by turning what an operator does: ``(W @ h.T).T``."""
        if name in TRANSPOSES:
            x = args[0]
            result = func(*args, **kwargs)
            if x.dim() != 2 or result.shape != x.shape[::-1] or not (id(x) in self._turned or self.has_rows(x)):
                return NotImplemented
            if id(x) in self._turned:
                return self._turned[id(x)]
            self._turned[id(result)] = x
            self._alive.append(result)
            return result
        is_product = name == "mm" and id(args[1]) in self._turned and not self.has_rows(args[0])
        fits = all(x.dim() == 2 if id(x) in self._turned or x.dim() else True for x in tensors)
        with self:
            if is_product:
                return torch.mm(self._turned[id(args[1])], args[0].t()).t()
            if fits and name in ELEMENTWISE and not any(map(self.has_rows, tensors)):
                args, kwargs = pytree.tree_map_only(torch.Tensor, self._upright, (args, kwargs))
                return func(*args, **kwargs).t()
        return self._refuse(func(*args, **kwargs), mixing(name))

    def _upright(self, x: torch.Tensor) -> torch.Tensor:
        return self._turned.get(id(x), x.t() if x.dim() else x)

    def _refuse(self, result: Any, error: DGLError) -> Any:
        """Remember that a result is no value of each vertex; it is an error only where it is used as one."""
        for x in outputs_of(result):
            if isinstance(x, torch.Tensor):
                self._refused[id(x)] = error
                self._alive.append(x)
        return result

    def _check_write(self, written: torch.Tensor, name: str, kwargs: Mapping[str, Any]) -> None:
        if "out" in kwargs:
            raise DGLError(f"F calls {name} with out=; use its result instead")
        if not self.has_rows(written):
            raise DGLError(
                f"F writes to a tensor that it does not make itself ({name} on {tuple(written.shape)}), a parameter or "
                "a buffer perhaps; F must only compute. Layers that keep statistics, such as BatchNorm, do not fit"
            )
        if any(overlap(x, written) for x in self._states_and_inputs):
            raise DGLError(
                f"F changes gathered state or a pulled input in place ({name}); other vertices see the same state. "
                f"Use the operation without the underscore, {name.rstrip('_')}"
            )

    def _note_write(self, written: torch.Tensor, new: Node) -> None:
        """Change what tensors stand for that show memory which has been written, or mark them."""
        for tensor in self._alive:
            if tensor is written or not tensor.data_ptr() or not overlap(tensor, written):
                continue
            before, cut = self._nodes.get(id(tensor)), self.builder.slice
            start, stop = part_of_row(tensor, written), part_of_row(written, tensor)
            if before is not None and start is not None:  # a part of it was written
                parts = cut(before, 0, start), cut(new, 0, new.width), cut(before, start + new.width, before.width)
                self._nodes[id(tensor)] = self.builder.reshaped(self.builder.cat(parts), before.shape)
            elif before is not None and stop is not None:
                self._nodes[id(tensor)] = self.builder.reshaped(cut(new, stop, stop + before.width), before.shape)
            else:
                self._refused[id(tensor)] = DGLError(
                    "F uses a tensor after an in-place operation on another that shares its memory; write "
                    "y = x.add(1) instead of x.add_(1)"
                )

    # -- without rows -------------------------------------------------------------------------------------------
    def _without_rows(self, func: Any, name: str, call: Any, nodes: list[Node], result: Any) -> Any:
        """Record an operation on parameters and constants, which is replayed at each call."""
        arguments, inputs = filler(call, is_tensor), [node.attr for node in nodes]
        several = isinstance(result, list | tuple)
        for i, tensor in enumerate(outputs_of(result)):
            if isinstance(tensor, torch.Tensor):
                shared = SharedTensor(None, OpaqueCall(func, arguments, i if several else None), inputs)
                self.bind(tensor, self._shared(shared, tensor.shape, tensor.dtype))
                if name == "scalar_tensor":
                    self._numbers[self.node(tensor)] = float(call[0][0])
                if name == "t" and tensor.dim() == 2:
                    self.builder.transposes[self.node(tensor)] = nodes[0]
        return result

    def _factory(self, name: str, args: Any, kwargs: Any, result: Any) -> Node | None:
        """Return what ``torch.zeros(x.shape[0], 4)`` or ``parameter.expand(x.shape[0], 4)`` makes for every vertex."""
        if name in ("expand", "repeat") and result.dim() and result.shape[0] in self.domains:
            return self._repeated(args[0], result)
        if name not in FACTORIES or not result.dim() or result.shape[0] not in self.domains:
            return None
        value = FACTORIES[name]
        number = float(args[-1]) if value is None else value
        domain = self.domains[result.shape[0]]
        return self.builder.make(NodeKind.FULL, (), number, domain, result.shape[1:], result.dtype)

    def _repeated(self, x: torch.Tensor, result: torch.Tensor) -> Node | None:
        """Return a shared tensor once for every vertex or child; None where it is repeated otherwise."""
        node, shape = self.node(x), result.shape[1:]
        if node.domain is not RowDomain.SHARED or node.dtype != self.dtype or math.prod(x.shape) != math.prod(shape):
            return None
        row = self.builder.make(NodeKind.FULL, (), 0.0, self.domains[result.shape[0]], shape, result.dtype)
        return self.builder.spread(self._spread(node, shape), row)

    # -- with rows ----------------------------------------------------------------------------------------------
    def _lower(self, name: str, flat: list, spec: Any, nodes: list[Node], result: Any) -> Any:
        """Return the nodes of an operator, ``NotImplemented`` for one without nodes."""
        lower = LOWERINGS.get(name)
        tensors = [x for x in flat if is_tensor(x)]
        if name == "_to_copy" and result.dtype == self.dtype and tensors[0].dtype is torch.bool:
            return stop_gradient(self.builder, nodes[0])
        if lower is None or any(x.dtype not in (self.dtype, torch.bool) for x in outputs_of(result)):
            return NotImplemented
        if result.dtype is torch.bool and name not in TAKES_BOOLEANS:
            return NotImplemented
        if name.startswith("bitwise") and any(x.dtype is not torch.bool for x in tensors):
            return NotImplemented
        numbers: list[Any] = [self._as_number(name, x, node) for x, node in zip(tensors, nodes, strict=True)]
        if name == "addmm":
            numbers = [self._spread(numbers[0], nodes[-1].shape[-1:]), *numbers[1:]]
        elif name not in ("mm", "cat"):
            numbers = self._aligned(numbers, outputs_of(result)[0].shape[1:])
        if None in numbers:
            return NotImplemented
        replacements = iter(numbers)
        filled = [next(replacements) if is_tensor(x) else x for x in flat]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        kwargs = {key: x for key, x in kwargs.items() if key not in ("memory_format", "device", "pin_memory", "layout")}
        return lower(self.builder, *args, **kwargs)

    def _as_number(self, name: str, x: torch.Tensor, node: Node) -> Any:
        """Return an operand as numbers: booleans as 0 and 1, a constant without axes as a number of Python."""
        if node in self._numbers:
            return self._numbers[node]
        if node.dtype is torch.bool:  # it is shared
            shared = SharedTensor(None, partial(converted, dtype=self.dtype), [node.attr])
            node = self._shared(shared, node.shape, self.dtype)
        if name.startswith("logical") and x.dtype is self.dtype:
            return self.builder.boolean(self.builder.pointwise("ne", node, 0.0))
        if x.dtype is torch.bool and name not in TAKES_BOOLEANS:
            return stop_gradient(self.builder, node)
        return node

    def _viewed(self, x: torch.Tensor, node: Node, result: Any) -> Any:
        """Return parts of the rows of ``x``, if that is what an operation gives."""
        outputs = outputs_of(result)
        offsets = [start_in_row(x, y) if isinstance(y, torch.Tensor) else None for y in outputs]
        starts = [start for start in offsets if start is not None]
        if len(starts) < len(outputs):
            return NotImplemented
        shapes = [tuple(y.shape[1:]) for y in outputs]
        parts = [
            self.builder.reshaped(self.builder.slice(node, start, start + math.prod(shape)), shape)
            for start, shape in zip(starts, shapes, strict=True)
        ]
        return parts if isinstance(result, list | tuple) else parts[0]

    def _aligned(self, operands: list[Any], result: Sequence[int]) -> list[Any]:
        """Return the operands of an element-wise operation in the result's shape; numbers stay what they are.

        There is None among them where that cannot be, or they differ in dtype.
        """
        nodes = [x for x in operands if isinstance(x, Node)]
        shapes = [node.shape for node in nodes if node.domain is not RowDomain.SHARED]
        if any(node.dtype != self.dtype for node in nodes) or len({len(shape) for shape in shapes}) != 1:
            return [None]
        shape = result if len(nodes) > 1 else shapes[0]
        return [self._spread(x, shape) if isinstance(x, Node) else x for x in operands]

    def _spread(self, node: Node, shape: Sequence[int]) -> Any:
        """Return an operand in the shape of a row; None where that cannot be. Shared values become flat."""
        shape_before = node.shape
        if node.domain is not RowDomain.SHARED:
            return self._widened(node, shape)
        if len(shape_before) > len(shape) and shape_before[0] != 1:
            return None
        if len(shape) == 1 and shape_before[-1:] == tuple(shape) and math.prod(shape_before) == shape[0]:
            return self.builder.reshaped(node, shape)  # a bias, which may have a dimension in front
        shared = SharedTensor(None, partial(expanded, shape=tuple(shape)), [node.attr])
        return self._shared(shared, (math.prod(shape),), node.dtype)

    def _widened(self, node: Node, shape: Sequence[int]) -> Any:
        """Return a row of one value as a row of many that are equal: its product with ones, for which there are kernels
        in both directions."""
        if node.shape == tuple(shape):
            return node
        width = math.prod(shape)
        if node.width != 1 or not width:
            return None
        row = self.builder.matmul(self.builder.reshaped(node, (1,)), self._ones_of(1, width))
        return self.builder.reshaped(row, shape)

    def _ones_of(self, height: int, width: int) -> Node:
        """Return a matrix of ones."""
        if (height, width) not in self._ones:
            with torch.utils._python_dispatch._disable_current_modes():
                ones = torch.ones(height, width, dtype=self.dtype, device=self.device)
            self._ones[height, width] = self._shared(SharedTensor(ones, is_constant=True), ones.shape, ones.dtype)
        return self._ones[height, width]

    def _opaque(self, func: Any, name: str, call: Any, values: list, nodes: list[Node], result: Any) -> Any:
        """Return nodes of a function that runs on batches of rows, once it is known that it treats each by itself.

        None where its result has no rows.
        """
        several, outputs = isinstance(result, list | tuple), outputs_of(result)
        domain = next(node.domain for node in nodes if node.domain is not RowDomain.SHARED)
        rows = self.rows[domain]
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise DGLError(f"F draws random numbers by {name}; only dropout and bernoulli are known to the engine")
        tensors = [x for x in outputs if isinstance(x, torch.Tensor) and x.numel()]
        if any(not x.dim() or x.shape[0] != rows for x in tensors):
            return None
        arguments = batch_filler(call, nodes, rows)
        func = partial(on_copy, func) if func._schema.is_mutable else func
        few = [x if node.domain is RowDomain.SHARED else x[INNER] for x, node in zip(values, nodes, strict=True)]
        with torch.utils._python_dispatch._disable_current_modes():
            args, kwargs = arguments(few, rows - 3)
            if not inner_rows_alike(result, func(*args, **kwargs)):
                raise mixing(name)
        token = next(self._tokens)
        booleans = tuple([i for i, x in enumerate(values) if x.dtype is torch.bool and nodes[i].dtype == self.dtype])
        results: list[Node | None] = []
        for i, x in enumerate(outputs):
            if not isinstance(x, torch.Tensor) or not x.numel():
                results.append(None)
                continue
            is_boolean = x.dtype is torch.bool
            call_again = OpaqueCall(func, arguments, i if several else None, token, booleans, is_boolean)
            dtype = self.dtype if is_boolean else x.dtype
            results.append(self.builder.make(NodeKind.OPAQUE, nodes, call_again, domain, x.shape[1:], dtype))
        return results if several else results[0]
