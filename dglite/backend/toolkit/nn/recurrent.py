"""Recurrent networks, with torch's parameter names and initial values."""

from __future__ import annotations

from typing import Any, final

from ....errors import DGLError
from ...autograd import Tensor, apply
from ...library import library
from . import functional, init
from .module import Module, Parameter

State = tuple[Tensor, Tensor]


class _Recurrent(Module):
    """A network with a state of ``hidden_size``."""

    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw all parameters from -1/sqrt(hidden_size) to 1/sqrt(hidden_size)."""
        bound = self.hidden_size**-0.5 if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)


@final
class LSTM(_Recurrent):
    """Layers of long short-term memory: Hochreiter and Schmidhuber, 1997.

    Sequences are (steps, batch, input_size), or (batch, steps, input_size) with ``batch_first``; ``bidirectional``
    reads them from both ends. States are (num_layers * directions, batch, hidden_size).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(num_layers, bool) or num_layers < 1:
            raise DGLError(f"LSTM: num_layers={num_layers!r}; expected a number from 1 up")
        if not bias:
            raise DGLError("LSTM without bias is torch's only; set DGLITE_BACKEND=torch")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self._ends = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            for end in self._ends:
                width = hidden_size * len(self._ends) if layer else input_size
                for name, shape in {
                    "weight_ih": (4 * hidden_size, width),
                    "weight_hh": (4 * hidden_size, hidden_size),
                    "bias_ih": (4 * hidden_size,),
                    "bias_hh": (4 * hidden_size,),
                }.items():
                    self.register_parameter(f"{name}_l{layer}{end}", Parameter(library.xp.empty(shape, "float32")))
        self.reset_parameters()

    def forward(self, x: Any, states: State | None = None) -> tuple[Tensor, State]:
        """Return the last layer's states of all steps, and all layers' last states and cells; from ``states`` or 0."""
        if self.batch_first:
            x = x.transpose(0, 1)
        if states is None:
            shape = (self.num_layers * len(self._ends), x.shape[1], self.hidden_size)
            states = (Tensor(library.xp.zeros(shape, x.dtype)),) * 2
        last: list[tuple[Any, Any]] = []
        for layer in range(self.num_layers):
            outputs = []
            for end in self._ends:
                first = states[0][len(last)], states[1][len(last)]  # type: ignore[index]
                steps, *state = self._run(x, f"_l{layer}{end}", *first)
                outputs.append(steps)
                last.append((state[0].unsqueeze(0), state[1].unsqueeze(0)))
            x = outputs[0] if len(outputs) == 1 else apply("concat", *outputs, axis=2)
            if layer + 1 < self.num_layers:
                x = functional.dropout(x, self.dropout, self.training)
        ends = [apply("concat", *parts, axis=0) for parts in zip(*last, strict=True)]
        return (x.transpose(0, 1) if self.batch_first else x), (ends[0], ends[1])

    def _run(self, x: Any, suffix: str, state: Any, cell: Any) -> tuple[Any, Any, Any]:
        """Return the states of all steps (steps, batch, hidden), and the last state and cell, of one layer and end."""
        weight_ih, weight_hh, bias_ih, bias_hh = (
            getattr(self, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        inputs: Any = functional.linear(x, weight_ih, bias_ih)
        size, states = self.hidden_size, []
        order = range(x.shape[0])
        backwards = suffix.endswith("_reverse")
        for step in reversed(order) if backwards else order:
            gates = inputs[step] + functional.linear(state, weight_hh, bias_hh)
            write, forget, read = (gates[:, at * size : (at + 1) * size].sigmoid() for at in (0, 1, 3))
            cell = forget * cell + write * gates[:, 2 * size : 3 * size].tanh()
            state = read * cell.tanh()
            states.append(state.unsqueeze(0))
        if not states:
            return Tensor(library.xp.zeros((0, *state.shape), state.dtype)), state, cell
        return apply("concat", *(reversed(states) if backwards else states), axis=0), state, cell

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        named: dict[str, tuple[float, float]] = {"num_layers": (self.num_layers, 1)}
        named |= {"batch_first": (self.batch_first, False)}
        named |= {"dropout": (self.dropout, 0.0), "bidirectional": (self.bidirectional, False)}
        changed = [f", {name}={value}" for name, (value, default) in named.items() if value != default]
        return f"{self.input_size}, {self.hidden_size}" + "".join(changed)


@final
class GRUCell(_Recurrent):
    """One step of a gated recurrent unit: Cho et al., 2014.

    (batch, input_size) and the state (batch, hidden_size), 0 unless given -> the next state; or all without ``batch``.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = 3 * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size), "bias_ih": (rows,)}
        for name, shape in (shapes | {"bias_hh": (rows,)}).items():
            exists = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(library.xp.empty(shape, "float32")) if exists else None)
        self.reset_parameters()

    def forward(self, x: Any, hx: Any = None) -> Tensor:
        """Return the next state."""
        size = self.hidden_size
        if hx is None:
            hx = Tensor(library.xp.zeros((*x.shape[:-1], size), x.dtype))
        from_input: Any = functional.linear(x, self.weight_ih, self.bias_ih)  # type: ignore[attr-defined]
        from_state: Any = functional.linear(hx, self.weight_hh, self.bias_hh)  # type: ignore[attr-defined]
        both = (from_input[..., : 2 * size] + from_state[..., : 2 * size]).sigmoid()
        reset, keep = both[..., :size], both[..., size:]
        new = (from_input[..., 2 * size :] + reset * from_state[..., 2 * size :]).tanh()
        return new + keep * (hx - new)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
