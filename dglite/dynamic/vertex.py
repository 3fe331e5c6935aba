"""Vertex programs: a function of one vertex, evaluated for every vertex of a graph in the order that its edges ask for.

Xu et al., "Cavs: an efficient runtime system for dynamic neural networks", USENIX ATC 2018.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from ..errors import DGLError
from ..graph import DGLGraph
from .evaluate import ProgramEvaluator
from .program.ir import Node, NodeKind, RowDomain
from .program.lower import stop_gradient
from .program.trace import FunctionRecorder
from .program.traced import active_recorder

if TYPE_CHECKING:

    class TensorOrTuple(torch.Tensor, tuple[torch.Tensor, ...]):  # type: ignore[misc]
        """A tensor or, of a program with several inputs, states or results, a tuple of tensors."""

        def __getitem__(self, key: Any) -> torch.Tensor: ...  # type: ignore[override]
        def __iter__(self) -> Iterator[torch.Tensor]: ...

    class State(TensorOrTuple):  # type: ignore[misc]
        """The state of a vertex: a tensor, a tuple of tensors, or one with names."""

        def __getattr__(self, name: str) -> torch.Tensor: ...
else:
    TensorOrTuple = State = torch.Tensor


class Partial(NamedTuple):
    """Input of some vertices only: row i of ``values`` is for vertex ``nodes[i]``. The others pull zeros.

    Work that would only give zeros is left out for them.
    """

    nodes: torch.Tensor
    values: torch.Tensor


class VertexFunction(nn.Module):
    """Base of vertex programs. A subclass writes ``forward(self)``, the function F of a vertex.

    Calling the module with a graph and the vertices' inputs evaluates F for every vertex, children before parents, and
    returns what the vertices pushed, in the order of the graph's nodes. A vertex's children are the sources of its
    in-edges, in the order of their ids.

    Inside F use :meth:`pull`, :meth:`gather`, :meth:`gather_all`, :meth:`scatter`, :meth:`push`, and torch functions
    and modules. Tensors are (vertices, features): F is run once on a few made-up vertices to see what it does, then for
    all vertices of a level together, so it must treat each row by itself and must not look at values (no ``if``).

    Parameters
    ----------
    state
        What a vertex scatters: the size of one vector, several sizes, or sizes by name.

    Examples
    --------
    >>> import dglite
    >>> class Height(VertexFunction):
    ...     def forward(self):
    ...         height = self.pull() + self.gather_all().sum()
    ...         self.scatter(height)
    ...         self.push(height)
    >>> tree = dglite.graph(([0, 1, 2, 3], [2, 2, 4, 4]))
    >>> Height(state=1)(tree, torch.ones(5, 1)).flatten().tolist()
    [1.0, 1.0, 3.0, 1.0, 5.0]
    """

    def __init__(self, state: int | Sequence[int] | Mapping[str, int]) -> None:
        super().__init__()
        self._state_names = tuple(state) if isinstance(state, Mapping) else None
        self._single = isinstance(state, int)
        sizes = [state] if isinstance(state, int) else list(state.values() if isinstance(state, Mapping) else state)
        if any(not isinstance(size, int) or size < 0 for size in sizes):
            raise DGLError(
                f"state is {state!r}; expected the size of a vertex's state, several sizes, or sizes by name"
            )
        self.state_sizes = sizes
        self._evaluator = ProgramEvaluator()

    def __call__(self, graph: DGLGraph | Sequence[DGLGraph], *inputs: torch.Tensor | Partial) -> TensorOrTuple:
        """Evaluate F for every vertex of a graph, or of several graphs as one batch.

        Parameters
        ----------
        graph
            A graph of one node type without cycles, or a list of them, which is batched.
        inputs
            What the vertices pull: tensors (num_nodes, *feat), or :class:`Partial` for input of some vertices.

        Returns
        -------
        What F pushes, (num_nodes, *feat), a tuple where it pushes several values.

        Raises
        ------
        DGLError
            The graph has a cycle or several node types, a vertex has more children than F gathers, an input does not
            fit, or F does what it must not.
        """
        return self._evaluator(graph, inputs, [self])

    def forward(self) -> None:
        """Compute one vertex; to be written by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(self): write the function of a vertex there")

    # -- inside of F --------------------------------------------------------------------------------------------
    def pull(self) -> TensorOrTuple:
        """Return the vertex's input, a tuple where the program is called with several."""
        recorder = active_recorder("pull")
        if not recorder.pulls:
            raise DGLError("F pulls an input, but the program was called without any: program(graph, x)")
        return _one_or_all([recorder.value(node, boolean) for node, boolean in recorder.pulls])

    def gather(self, k: int) -> State:
        """Return the state of the vertex's k-th child, zeros where it has fewer: a tensor, or a tuple of all states.

        A vertex with more children than F gathers is an error; :meth:`gather_all` takes any number.
        """
        recorder = active_recorder("gather")
        if not isinstance(k, int) or k < 0:
            raise DGLError(f"gather({k!r}): expected the number of a child, 0 for the first")
        recorder.program.slots = max(recorder.program.slots, k + 1)
        slots = [(k, j) for j in range(len(self.state_sizes))]
        return self._packed(*self._states(recorder, NodeKind.GATHER, RowDomain.VERTEX, slots))

    def gather_all(self) -> Children:
        """Return the states of all children, to compute with each and to add up."""
        recorder = active_recorder("gather_all")
        recorder.program.gathers_all = True
        numbers = range(len(self.state_sizes))
        return Children(recorder, self._states(recorder, NodeKind.CHILD, RowDomain.EDGE, numbers), self._packed)

    def _packed(self, *states: torch.Tensor) -> Any:
        """Return states as F sees them: one tensor, a tuple, or a tuple with names."""
        if self._single:
            return states[0]
        return states if self._state_names is None else _state_class(self._state_names)(*states)

    def _states(
        self, recorder: FunctionRecorder, kind: NodeKind, domain: RowDomain, attributes: Sequence[Any]
    ) -> list[torch.Tensor]:
        make, pairs = recorder.builder.make, zip(attributes, self.state_sizes, strict=True)
        return [recorder.value(make(kind, (), attr, domain, (size,), recorder.dtype)) for attr, size in pairs]

    def scatter(self, *states: torch.Tensor, **named: torch.Tensor) -> None:
        """Give the vertex its state, which its parents gather: in the order, or by the names, of ``state``."""
        recorder = active_recorder("scatter")
        values = [*states, *(named[name] for name in self._state_names or [] if name in named)]
        if len(values) != len(self.state_sizes) or len(states) + len(named) != len(values):
            expected = list(self._state_names or ()) or f"{len(self.state_sizes)} tensors"
            raise DGLError(f"scatter got {len(states)} tensors and {list(named)}; the state is {expected}")
        if recorder.program.states:
            raise DGLError("F scatters twice; a vertex has one state")
        for x, size in zip(values, self.state_sizes, strict=True):
            node = recorder.numbers(x, "scatter")
            if node.domain is not RowDomain.VERTEX or node.shape != (size,) or node.dtype != recorder.dtype:
                raise DGLError(
                    f"scatter got {_described(node)}; the state that {type(self).__name__} declares is ({size},) of "
                    f"{recorder.dtype} for each vertex"
                )
            recorder.program.states.append(node)

    def push(self, *values: torch.Tensor) -> None:
        """Return values of the vertex to whoever called the program."""
        recorder = active_recorder("push")
        if recorder.program.pushes or not values:
            raise DGLError("F pushes twice, or nothing; push all values of a vertex in one call")
        for x in values:
            node = recorder.numbers(x, "push")
            if node.domain is not RowDomain.VERTEX:
                raise DGLError(f"push got {_described(node)}; expected a value of each vertex")
            if node.dtype != recorder.dtype:
                raise DGLError(f"push got {_described(node)}; expected {recorder.dtype}")
            recorder.program.pushes.append(node)


class Children:
    """The states of a vertex's children, any number of them, with reductions over them.

    Tensors are (children of all vertices, features).

    ``states`` has them all; by number, or by name where they have names, single ones.
    """

    def __init__(self, recorder: FunctionRecorder, states: Sequence[torch.Tensor], pack: Any) -> None:
        self._recorder, self._every, self._packed, self.states = recorder, states, pack, pack(*states)

    def __getitem__(self, state: int | str) -> torch.Tensor:
        """Return one of several states."""
        return getattr(self.states, state) if isinstance(state, str) else self._every[state]

    def sum(self, x: torch.Tensor | None = None) -> State:
        """Return, for each vertex, the sum of ``x`` over its children, 0 without; of each state when ``x`` is None."""
        return self._reduced(x, "sum")

    def max(self, x: torch.Tensor | None = None) -> State:
        """Return the maximum in the same way, 0 without children. Children that have it share its gradient."""
        return self._reduced(x, "max")

    def min(self, x: torch.Tensor | None = None) -> State:
        """Return the minimum in the same way, 0 without children. Children that have it share its gradient."""
        return self._reduced(x, "min")

    def mean(self, x: torch.Tensor | None = None) -> State:
        """Return the mean in the same way, 0 without children."""
        if x is None:
            return self._packed(*map(self.mean, self._every))
        builder, node = self._recorder.builder, self._edge(x, "mean")
        number = builder.pointwise("maximum", builder.reduce(builder.full(1.0, node)), 1.0)
        mean: Any = self._recorder.value(builder.pointwise("div", builder.reduce(node), number))
        return mean  # type: ignore[no-any-return]

    def softmax(self, x: torch.Tensor) -> torch.Tensor:
        """Return the softmax of ``x``, a value of each child, over the children of each vertex, column by column.

        Attention is ``children.sum(children.softmax(scores) * children["h"])`` with scores (children, 1).
        """
        builder, node = self._recorder.builder, self._edge(x, "softmax")
        highest = stop_gradient(builder, builder.each(builder.reduce(node, "max")))
        power = builder.pointwise("exp", builder.pointwise("sub", node, highest))
        return self._recorder.value(builder.pointwise("div", power, builder.each(builder.reduce(power))))

    def _reduced(self, x: torch.Tensor | None, reducer: str) -> Any:
        if x is None:
            return self._packed(*[self._reduced(state, reducer) for state in self._every])
        return self._recorder.value(self._recorder.builder.reduce(self._edge(x, reducer), reducer))

    def _edge(self, x: torch.Tensor, verb: str) -> Node:
        node = self._recorder.node(x)
        if node.domain is not RowDomain.EDGE:
            raise DGLError(f"children.{verb} got {_described(node)}; expected a value of each child")
        return node

    def each(self, x: torch.Tensor) -> torch.Tensor:
        """Return a value of the vertex once for each of its children, to be combined with their states."""
        node = self._recorder.node(x)
        if node.domain is not RowDomain.VERTEX:
            raise DGLError(f"children.each got {_described(node)}; expected a value of each vertex")
        return self._recorder.value(self._recorder.builder.each(node))


class ByKind(nn.Module):
    """Vertex programs for several kinds of vertices, which gather each other's states.

    Called as one program, and with the kind of each vertex: the number of its function. A heterogeneous graph becomes
    such a graph by :func:`dglite.to_homogeneous`, where ``ndata[dglite.NTYPE]`` has the kinds.

    Parameters
    ----------
    functions
        vertex functions of the same state sizes, that push values of the same shapes.
    """

    def __init__(self, *functions: VertexFunction) -> None:
        super().__init__()
        if not functions or any(f.state_sizes != functions[0].state_sizes for f in functions):
            raise DGLError(
                f"ByKind got functions with states {[f.state_sizes for f in functions]}; they gather each other's "
                "states, which must have the same sizes"
            )
        self.functions = nn.ModuleList(functions)
        self._evaluator = ProgramEvaluator()

    def forward(
        self, graph: DGLGraph | Sequence[DGLGraph], *inputs: torch.Tensor | Partial, kinds: torch.Tensor
    ) -> TensorOrTuple:
        """Evaluate every vertex by the function of its kind. ``kinds``: (num_nodes,) integers.

        Inputs, result and errors are those of :class:`VertexFunction`.
        """
        return self._evaluator(graph, inputs, list(self.functions), kinds)


@cache
def _state_class(names: tuple[str, ...]) -> Any:
    return namedtuple("State", names)  # type: ignore[misc]


def _one_or_all(values: list[torch.Tensor]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _described(node: Node) -> str:
    return f"{node.shape} of {node.dtype} for each {node.domain.value}"
