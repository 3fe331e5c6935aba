"""The dispatch mode that records ATen operators as they run, on tensors that have shapes only.

The tensors are `SymbolicTensor`: memory of the meta device that says it is of the device where the step will run, so
that modules make tensors there and autocast takes effect. Operators whose operands all have values, as a mask made of
``torch.tensor`` has, are run at once: their results are constants of the graph.

It does what `make_fx` with functionalization does, for this one purpose: several times faster, which users of unrolled
networks feel, and it keeps the tensors, so that gradients are paired with their forward values exactly.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils._python_dispatch import TorchDispatchMode

from ..backend.torch_dtensor import DTensor
from ..errors import DGLError
from .decompositions import (
    MetaOutputs,
    always,
    decompositions,
    depends_on_data,
    functional_form,
    is_composite,
    known_value,
    operator_name,
    tensors_in,
)
from .graphs import by_number
from .partitioned import PartAccess, is_partitioned
from .strided import strided_view
from .symbolic import SAME, SourceTensors, SymbolicTensor, shapes_of, users_line
from .views import RecordedView, unpermuted

aten = torch.ops.aten

_DROPPED = ("device", "pin_memory", "layout", "memory_format")


class StepRecorder(TorchDispatchMode):
    """Write operators into a graph while it is entered.

    A tensor stands for the node that its id is listed with; in-place operators list it with another one. A view is
    written anew when it is read after its base has changed. ``recorded`` is called after each operator.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.device = torch.device(device)
        self.graph = Graph()
        self.phase = "forward"
        self.modules = [""]
        self.constants: dict[str, Node] = {}
        self.constant_values: dict[str, torch.Tensor] = {}
        self.pairs: list[tuple[Node, Node]] = []
        self.sources = SourceTensors()
        self._nodes: dict[int, Node] = {}
        self._alive: list[torch.Tensor] = []
        self._views: dict[int, RecordedView] = {}
        self._outputs: list[tuple[torch.Tensor, int]] = []
        self._forward_of: dict[Any, Node] = {}
        self._first: Node | None = None
        self._draws: dict[Any, Node] = {}
        self._depth = 0
        self.recorded: Callable[[], Any] = lambda: None
        self._table, self._outputs_of = decompositions(), MetaOutputs()

    # -- tensors and nodes ---------------------------------------------------------------------------------------------
    def placeholder(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Return a tensor without values that stands for a new input of the graph."""
        if is_partitioned(like):
            access: PartAccess = like.access  # type: ignore[attr-defined]
            shapes = access.whole
        elif isinstance(like, DTensor):
            shapes = torch.empty(like.shape, dtype=like.dtype, device="meta")
        else:
            shapes = torch.empty_like(like, device="meta", requires_grad=False)
        tensor = self._symbolic(shapes)
        self._bind(tensor, self._input(name, shapes))
        return tensor

    def _symbolic(self, shapes: torch.Tensor) -> SymbolicTensor:
        return SymbolicTensor(shapes, self.device)

    def _input(self, name: str, value: torch.Tensor) -> Node:
        with self.graph.inserting_before(self._first or self.graph._root):
            node = self.graph.placeholder(name.replace(".", "_"))
        node.meta.update(val=value, phase="input", module="", forward=None)
        return node

    def node_of(self, tensor: torch.Tensor) -> Node:
        """Return the node whose value a tensor has now."""
        view = self._views.get(id(tensor))
        if view is not None and self.node_of(view.base) is not view.source:
            self._renew(tensor, view)
        node = self._nodes.get(id(tensor))
        return self._constant(tensor) if node is None else node

    def _bind(self, tensor: torch.Tensor, node: Node) -> None:
        if id(tensor) not in self._nodes:
            self._alive.append(tensor)
        self._nodes[id(tensor)] = node

    def _constant(self, tensor: torch.Tensor) -> Node:
        self.sources.note(tensor)
        name = f"constant.{len(self.constants)}"
        node = self._input(name, shapes_of(tensor.detach()))
        self.constants[name], self.constant_values[name] = node, tensor.detach().clone()
        self._bind(tensor, node)
        return node

    def _renew(self, tensor: torch.Tensor, view: RecordedView) -> None:
        view.source = self.node_of(view.base)
        if view.func is None:
            self._nodes[id(tensor)] = view.source
            return
        node = self.emit(view.func, (view.source, *view.rest), view.kwargs, view.values)
        self._nodes[id(tensor)] = node if view.index is None else self._item(node, view.index, shapes_of(tensor))

    # -- operators -----------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].claimed if isinstance(args[0], SymbolicTensor) else args[0].device
        self._depth += 1
        try:
            out = self._call(func, args, kwargs)
        except DGLError as error:
            if self._depth == 1:
                error.args = (f"{self._where()}{error}",)
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            self.recorded()
        if not self._depth and self.phase == "forward":
            self._outputs += [(x, x._version + func._schema.is_mutable) for x in tensors_in(out)]
        return out

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self._has_values(args, kwargs):
            return self.sources.compute(func, args, kwargs)
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        func, args = by_number(func, args)
        if func in _INDEXED:
            args = (args[0], self._without_masks(args[1]), *args[2:])
        if depends_on_data(func, args):
            if func is aten._local_scalar_dense.default:
                value = always(self.node_of(args[0]))
                value = known_value(self.node_of(args[0]), self.constant_values) if value is None else value
                if value is not None:
                    return value
            self._refuse(func)
        if func in SAME and self._is_symbolic(args[0]):
            out = self._symbolic(func(shapes_of(args[0])))
            self._bind(out, self.node_of(args[0]))
            self._views[id(out)] = RecordedView(args[0], self.node_of(args[0]), None, (), {}, None, out.shapes)
            return out
        if func is aten.permute.default and (before := unpermuted(self.node_of(args[0]), args[1])) is not None:
            out = self._symbolic(func(shapes_of(args[0]), args[1]))
            self._bind(out, before)
            return out
        if (
            func is aten.as_strided.default
            and (view := strided_view(shapes_of(args[0]), *args[1:], **kwargs)) is not None
        ):
            with self:
                return view(args[0])
        if func in _MUTATED_STATISTICS:
            return self._batch_norm(args, kwargs)
        if func._schema.is_mutable:
            return self._mutate(func, args, kwargs)
        written = self._table.get(func)
        if written is not None:
            with self:
                out = written(*args, **kwargs)
            if out is not NotImplemented:
                self._forget_views(func, out)
                return out
        elif is_composite(func) and func not in self._table:
            with self:
                return func.decompose(*args, **kwargs)
        return self._run(func, args, kwargs)

    def _is_symbolic(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor stands for a node: it has no values, or its values have been changed since."""
        return isinstance(tensor, SymbolicTensor) or id(tensor) in self._nodes

    def _has_values(self, args: Any, kwargs: Any) -> bool:
        """Return whether an operator reads tensors, all of which have values."""
        tensors = tensors_in((args, *kwargs.values()))
        return bool(tensors) and not any(map(self._is_symbolic, tensors))

    def _without_masks(self, indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Replace boolean masks that have values by the rows that they select, dimension by dimension."""
        rows: list[torch.Tensor | None] = []
        for x in indices:
            if x is None or x.dtype != torch.bool or self._is_symbolic(x):
                rows.append(x)
            else:
                rows += self.sources.compute(aten.nonzero_numpy.default, (x,), {})
        return rows

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs = kwargs | {"device": torch.device("meta")}
        shapes = self._outputs_of(func, [shapes_of(a) for a in args], {k: shapes_of(v) for k, v in kwargs.items()})
        if shapes is None:
            return None
        node = self.emit(func, self._read(args, func), {k: self._read(v, func) for k, v in kwargs.items()}, shapes)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self._note_draw(node)
        if isinstance(shapes, torch.Tensor):
            out: Any = self._symbolic(shapes)
            self._bind(out, node)
        else:
            out = type(shapes)(self._symbolic(x) if isinstance(x, torch.Tensor) else x for x in shapes)
            for i, x in enumerate(out):
                if isinstance(x, torch.Tensor):
                    self._bind(x, self._item(node, i, shapes_of(x)))
        if any(x.layout != torch.strided for x in tensors_in(shapes)):
            raise DGLError(
                f"{func} makes a sparse tensor: let the module have sparse=False, or compute with dense ones"
            )
        if func.is_view:
            self._note_view(func, args, kwargs, out, shapes)
        return out

    def emit(self, func: Any, args: Any, kwargs: Any, out: Any) -> Node:
        """Append an operator whose value is ``out``."""
        kwargs = {k: v for k, v in kwargs.items() if k not in _DROPPED}
        node = self.graph.call_function(func, tuple(args), kwargs)
        self._first = self._first or node
        node.meta.update(val=out, phase=self.phase, module=self.modules[-1], forward=None)
        if self.phase == "backward":
            node.meta["forward"] = source = self._forward_of.get(torch._C._current_autograd_node())
            node.meta["module"] = "" if source is None else source.meta["module"]
        return node

    def _note_draw(self, node: Node) -> None:
        """Note a random operator by the state of torch's generator, which it advances, and the first of equal state.

        ``torch.utils.checkpoint`` sets the state back before it computes a block again.
        """
        state = torch.get_rng_state().numpy().tobytes()
        first = self._draws.setdefault((state, node.target), node)
        if first is not node:
            node.meta["drawn_as"] = first
        torch.rand(1)

    def _item(self, node: Node, index: int, value: torch.Tensor) -> Node:
        return self.emit(operator.getitem, (node, index), {}, value)

    def _read(self, arg: Any, func: Any = None) -> Any:
        """Return nodes for tensors, numbers for those with a value and no dimensions if ``func`` takes them."""
        if isinstance(arg, torch.Tensor):
            number = not self._is_symbolic(arg) and arg.device.type != "meta" and not arg.dim()
            if number and func is not None and torch._C._should_allow_numbers_as_tensors(operator_name(func)):
                return arg.item()
            return self.node_of(arg)
        if isinstance(arg, list | tuple):
            return type(arg)(self._read(a, func) for a in arg)
        return arg

    def _refuse(self, func: Any) -> None:
        raise DGLError(
            f"{func} needs the values of a tensor (an `if`, a loop, `.item()` or an output whose shape"
            " depends on data), but a plan is made from shapes alone: use torch.where, a mask, or a number known"
            " beforehand"
        )

    def _where(self) -> str:
        """Return the user's line that runs, and its module, as the beginning of a message."""
        line = users_line(traceback.walk_stack(None)) if self.phase == "forward" else "the backward pass"
        module = f"in module {self.modules[-1]!r}" if self.modules[-1] else ""
        return "".join(f"{part}: " for part in [", ".join(filter(None, (line, module)))] if part)

    # -- in-place operators --------------------------------------------------------------------------------------------
    def _mutate(self, func: Any, args: Any, kwargs: Any) -> Any:
        name, functional = operator_name(func), functional_form(func)
        target = kwargs.get("out", args[0] if args else None)
        if not isinstance(target, torch.Tensor) or not (name.endswith("_") or "out" in kwargs):
            raise DGLError(f"{func} writes into its arguments in a way that cannot be planned: use the functional form")
        if name == "copy_":
            new = self._copied(target, args[1])
        elif name in ("zero_", "fill_"):
            with self:
                new = torch.full_like(target, 0 if name == "zero_" else args[1])
        else:
            if functional is None:
                raise DGLError(f"{func} has no functional form to plan with: write {name[:-1]} without in-place")
            if func is aten.bernoulli_.float:
                args, kwargs = (target,), {"p": 0.5, **dict(zip("p", args[1:], strict=False)), **kwargs}
            with self:
                new = functional(*args, **{key: value for key, value in kwargs.items() if key != "out"})
                if new.dtype != target.dtype:
                    new = aten._to_copy.default(new, dtype=target.dtype)
            if torch.Tag.inplace_view in func.tags:
                return self._reshape(func, args, new)
        self._rebind(target, self.node_of(new))
        return target

    def _reshape(self, func: Any, args: Any, new: torch.Tensor) -> torch.Tensor:
        """Let an operator change the shape of a tensor in place; ``new`` is what its functional form returns."""
        target = args[0]
        before = self._symbolic(shapes_of(target))
        self._bind(before, self.node_of(target))
        if id(target) in self._views:
            self._views[id(before)] = self._views.pop(id(target))
        for view in self._views.values():
            view.base = before if view.base is target else view.base
        if id(new) in self._views:
            self._views[id(target)] = self._views[id(new)]
        with torch._C._DisableTorchDispatch():
            func(*args)
        target.shapes = shapes_of(new)
        self._bind(target, self.node_of(new))
        return target

    def _copied(self, target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        with self:
            if source.shape != target.shape:
                source = aten.expand.default(source, list(target.shape))
            if source.dtype != target.dtype:
                source = aten._to_copy.default(source, dtype=target.dtype)
        return source

    def _batch_norm(self, args: Any, kwargs: Any) -> Any:
        x, weight, bias, mean, var, training, momentum, eps = args[:8]
        if mean is None:
            with self:
                return self._table[aten._native_batch_norm_legit.no_stats](x, weight, bias, training, momentum, eps)
        written = self._table[aten._native_batch_norm_legit_functional.default]
        with self:
            out, saved_mean, saved_var, new_mean, new_var = written(x, weight, bias, mean, var, training, momentum, eps)
        if training:
            self._rebind(mean, self.node_of(new_mean))
            self._rebind(var, self.node_of(new_var))
        return out, saved_mean, saved_var

    def _note_view(self, func: Any, args: Any, kwargs: Any, out: Any, shapes: Any) -> None:
        base, source = args[0], self.node_of(args[0])
        rest = tuple(self._read(a) for a in args[1:])
        for index, x in [(None, out)] if isinstance(out, torch.Tensor) else list(enumerate(out)):
            self._views[id(x)] = RecordedView(base, source, func, rest, kwargs, index, shapes)

    def _forget_views(self, func: Any, out: Any) -> None:
        """Let the outputs of an operator that promises not to alias its input, though it may, be no views."""
        if func.name().startswith("aten::unsafe_"):
            for x in tensors_in(out):
                self._views.pop(id(x), None)

    def _rebind(self, tensor: torch.Tensor, node: Node) -> None:
        """Let a tensor stand for another node, and its base for one that holds it."""
        view = self._views.get(id(tensor))
        if view is not None:
            base = view.base_with(node, self.node_of(view.base), self.emit)
            self._rebind(view.base, base)
            view.source = base
        self._bind(tensor, node)

    # -- gradients -----------------------------------------------------------------------------------------------------
    def differentiable(self) -> list[tuple[torch.Tensor, Node]]:
        """Return the forward tensors that have a gradient, and note which autograd node each comes from.

        Those that have changed since, themselves or with their base, are no longer the values that they were.
        """
        nodes = []
        for x, version in self._outputs:
            if x._version == version and x.requires_grad and x.grad_fn is not None:
                node = self.node_of(x)
                self._forward_of.setdefault(x.grad_fn, node)
                nodes.append((x, node))
        self._outputs = []
        return nodes

    @contextmanager
    def pairing(self, forward: Sequence[tuple[torch.Tensor, Node]]) -> Iterator[None]:
        """Note the gradient of each forward tensor while the backward pass runs."""

        def noted(node: Node) -> Callable[[torch.Tensor | None], None]:
            def note(gradient: torch.Tensor | None) -> None:
                if gradient is not None:
                    self.pairs.append((node, self.node_of(gradient)))

            return note

        hooks = [x.register_hook(noted(node)) for x, node in forward]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


_INDEXED = {aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten.index_put_.default}
_MUTATED_STATISTICS = {aten.native_batch_norm.default, aten._native_batch_norm_legit.default}
