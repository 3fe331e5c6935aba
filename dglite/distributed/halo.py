"""Exchange of halo rows, and of their gradients in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..errors import DGLError
from ..ops.rows import RowIndex, take_rows
from .collectives import Collectives


class Route:
    """Which rows of a node type go to which process, and come from which."""

    def __init__(
        self, exchange: Collectives, num_rows: int, rows: np.ndarray, send_counts: list[int], receive_counts: list[int]
    ) -> None:
        self.exchange, self.num_rows, self.rows = exchange, num_rows, RowIndex(rows)
        self.send_counts, self.receive_counts = send_counts, receive_counts

    def send(self, x: torch.Tensor) -> Flight:
        """Begin to send rows of ``x`` (owned nodes, *feat) to the ranks that need them."""
        if x.ndim == 0 or len(x) != self.num_rows:
            raise DGLError(f"got features of shape {tuple(x.shape)}; expected {self.num_rows} rows, one per owned node")
        flight = Flight(self)
        flight.rows = _SendHalo.apply(take_rows(x, self.rows), flight)
        return flight


class Flight:
    """An exchange in progress: rows that are being sent, and later their gradients.

    Autograd runs operations in the reverse order of their making. What is computed between :meth:`Route.send` and
    :meth:`land` is therefore computed while rows travel, and its gradient while gradients do.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self.rows: torch.Tensor
        self.returned: torch.Tensor
        self.wait: Callable[[], None]

    def land(self) -> torch.Tensor:
        """Wait for the rows of the halo and return them."""
        rows = self.rows
        del self.rows  # their gradient refers to this flight: a circle that Python cannot see, and would keep
        return _ReceiveHalo.apply(rows, self)  # type: ignore[no-any-return]


class _SendHalo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, flight: Flight) -> torch.Tensor:  # type: ignore[override]
        ctx.flight, route = flight, flight.route
        received, flight.wait = route.exchange.start(
            "the exchange of halos", "halos", rows, route.send_counts, route.receive_counts
        )
        return received

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.flight.wait()
        return ctx.flight.returned, None


class _ReceiveHalo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, flight: Flight) -> torch.Tensor:  # type: ignore[override]
        ctx.flight = flight
        flight.wait()
        return rows.view_as(rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        flight, route = ctx.flight, ctx.flight.route
        flight.returned, flight.wait = route.exchange.start(
            "the exchange of gradients", "gradients", grad, route.receive_counts, route.send_counts
        )
        return grad, None
