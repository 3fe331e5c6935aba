"""``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` on lazy sequences: those of one length are a batch of torch's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ....errors import DGLError
from ...autocast import without_autocast
from ..execution.matrices import TorchCall
from .generic import made_operation
from .kinds import kind_of
from .pointwise import as_lazy
from .tensor import LazyTensor, UntraceableBody, install


class _RecurrentLayer(TorchCall):
    """A recurrent layer on the sequences of a batch, whose own batch axes of every sample become one."""

    def __init__(self, function: Callable[..., Any], lazies: Sequence[LazyTensor], weights: Any, options: Any) -> None:
        self._function, self._weights, self._options = function, list(weights), options
        self._axis = 0 if options[-1] else 1  # batch_first
        kinds = [x._kind for x in lazies]
        with torch.no_grad(), without_autocast():
            returned = self._run(*[torch.zeros((1, *kind.shape), dtype=kind.dtype) for kind in kinds])
        super().__init__(kinds, [kind_of(x.shape[1:], x.dtype) for x in returned], self._run)
        self.tensors = self._weights

    def _run(self, x: Tensor, *states: Tensor) -> list[Tensor]:
        """Return (samples, *) for inputs (samples, *)."""
        count = len(x)
        merged = [self._merged(x, self._axis), *(self._merged(state, 1) for state in states)]
        hx = merged[1:] if len(states) > 1 else merged[1]
        output, *last = self._function(merged[0], hx, self._weights, *self._options)
        return [self._split(output, self._axis, count), *(self._split(state, 1, count) for state in last)]

    def _merged(self, x: Tensor, axis: int) -> Tensor:
        """Return (samples, *) with the samples as part of the ``axis`` of one."""
        return x.movedim(0, axis).flatten(axis, axis + 1)

    def _split(self, x: Tensor, axis: int, count: int) -> Tensor:
        return x.unflatten(axis, (count, -1)).movedim(axis, 0)


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__

    def call(input: Any, hx: Any, weights: Any, *options: Any) -> Any:
        if isinstance(options[0], list | tuple):  # (data, batch sizes, states, weights, ...)
            raise DGLError(f"{name} of a packed sequence is not recorded; a lazy tensor is one sample, without padding")
        states = list(hx) if isinstance(hx, tuple | list) else [hx]
        like = next(x for x in (input, *states) if type(x) is LazyTensor)
        session = like._session
        if session.tracing:
            raise UntraceableBody(f"the body calls {name}")
        lazies = [as_lazy(x, like) for x in (input, *states)]
        key = name, *[x._kind for x in lazies], *map(id, weights), *options
        operation = session.caches.get(key)
        if operation is None:
            operation = session.caches[key] = made_operation(
                session, name, _RecurrentLayer(function, lazies, weights, options), tuple
            )
        return operation.record(session, lazies)

    return call


install({f.__name__: _recorded(f) for f in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)})
