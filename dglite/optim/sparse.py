"""Adagrad and Adam on some rows of embedding tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

from ..arguments import explain_constructors
from ..backend import Tensor, framework
from ..errors import DGLError
from ..nn import NodeEmbedding


class SparseGradOptimizer(ABC):
    """Base of both optimizers.

    :meth:`step` changes the rows that calls of the tables returned since :meth:`zero_grad`, by the gradients that they
    have now. A row that was read several times has the mean of its gradients.
    """

    def __init__(self, params: Sequence[NodeEmbedding], lr: float) -> None:
        if isinstance(params, NodeEmbedding):
            raise DGLError(f"{type(self).__name__} takes a list of tables; write [embedding]")
        self._params, self._lr = list(params), lr
        if not self._params:
            raise DGLError(f"{type(self).__name__} was given no tables; expected a list of NodeEmbedding")
        for table in self._params:
            if not isinstance(table, NodeEmbedding):
                raise DGLError(
                    f"{type(self).__name__} was given a {type(table).__name__}; expected tables of "
                    "dglite.nn.NodeEmbedding. torch.optim trains parameters"
                )
        for table in self._params:
            table.set_optm_state(self._fresh_state(table.weight))

    def step(self) -> None:
        """Change the rows that have a gradient, and forget those without one."""
        with framework.no_grad():
            for table in self._params:
                read = [(ids, rows.grad) for ids, rows in table.trace if rows.grad is not None]
                table.reset_trace([entry for entry in table.trace if entry[1].grad is not None])
                gathered = table.gathered_gradients(read)
                if gathered is not None:
                    self.update(*gathered, table)
                table.wait_for_writes()

    def zero_grad(self) -> None:
        """Forget the rows whose gradients have been computed."""
        for table in self._params:
            table.reset_trace([entry for entry in table.trace if entry[1].grad is None])

    def update(self, idx: Tensor, grad: Tensor, emb: NodeEmbedding) -> None:
        """Change the rows ``idx`` (rows,) of a table by their gradients (rows, embedding_dim)."""
        ids, place, count = framework.unique(idx, return_inverse=True, return_counts=True)
        mean = grad.new_zeros(len(ids), grad.shape[1]).index_add_(0, place, grad) / count[:, None]
        weight = emb.weight
        ids = ids.to(weight.device)
        change = self._change(ids, mean.to(weight.device), emb.optm_state or ())
        weight.index_add_(0, ids, change.to(weight.dtype), alpha=-1)

    @abstractmethod
    def _fresh_state(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Return the state of a table before the first step."""

    @abstractmethod
    def _change(self, ids: Tensor, grad: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        """Return the update to subtract from the distinct rows ``ids``; change the state."""

    # -- state --------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def param_groups(self) -> list[dict[str, Any]]:
        """The settings, as a list of one dictionary; a copy."""

    @abstractmethod
    def _set_param_groups(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Change the settings."""

    def state_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the state of each table, by its name, and the settings. Other arguments are ignored."""
        return {
            "state": {table.name: table.all_get_optm_state() for table in self._params},
            "param_groups": self.param_groups,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any], **kwargs: Any) -> None:
        """Restore what :meth:`state_dict` returned. Raises ``DGLError``, changing nothing, where a table is missing."""
        missing = [table.name for table in self._params if table.name not in state_dict["state"]]
        if missing:
            raise DGLError(f"{type(self).__name__}: the state has no {missing}; it has {list(state_dict['state'])}")
        for table in self._params:
            table.all_set_optm_state(state_dict["state"][table.name])
        self._set_param_groups(state_dict["param_groups"])


@final
@explain_constructors
class SparseAdagrad(SparseGradOptimizer):
    r"""Adagrad of Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization", 2011.

    .. math:: s \leftarrow s + g^2, \quad w \leftarrow w - \frac{\eta\, g}{\sqrt{s + \epsilon}}

    Parameters
    ----------
    params
        The tables, :class:`dglite.nn.NodeEmbedding`.
    lr, eps
        :math:`\eta` and :math:`\epsilon`.
    """

    def __init__(self, params: Sequence[NodeEmbedding], lr: float, eps: float = 1e-10) -> None:
        self._eps = eps
        super().__init__(params, lr)

    def _fresh_state(self, weight: Tensor) -> tuple[Tensor, ...]:
        return (framework.zeros_like(weight),)

    def _change(self, ids: Tensor, grad: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        (total,) = state
        total.index_add_(0, ids, grad * grad)
        return self._lr * grad / (total[ids] + self._eps).sqrt()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The settings, as a list of one dictionary; a copy."""
        return [{"lr": self._lr, "eps": self._eps}]

    def _set_param_groups(self, groups: Sequence[Mapping[str, Any]]) -> None:
        self._lr, self._eps = groups[0]["lr"], groups[0]["eps"]


@final
@explain_constructors
class SparseAdam(SparseGradOptimizer):
    r"""Adam of Kingma and Ba, "Adam: a method for stochastic optimization", 2015, each row with a clock of its own.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              w \leftarrow w - \eta\, \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    :math:`t` counts the steps of the row.

    Parameters
    ----------
    params
        The tables, :class:`dglite.nn.NodeEmbedding`.
    lr, betas, eps
        :math:`\eta`, :math:`(\beta_1, \beta_2)` and :math:`\epsilon`.
    use_uva
        Accepted for DGL's sake: how a table on the CPU is read from a GPU there.
    dtype
        Of :math:`m` and :math:`v`, ``torch.float32`` or ``torch.float16``.
    """

    def __init__(
        self,
        params: Sequence[NodeEmbedding],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        use_uva: bool | None = None,
        dtype: Any = framework.float32,
    ) -> None:
        if dtype not in (framework.float16, framework.float32):
            raise DGLError(f"SparseAdam: dtype={dtype!r}; expected torch.float32 or torch.float16")
        (self._beta1, self._beta2), self._eps, self._dtype = betas, eps, dtype
        super().__init__(params, lr)

    def _fresh_state(self, weight: Tensor) -> tuple[Tensor, ...]:
        steps = framework.zeros(weight.shape[0], dtype=framework.int32, device=weight.device)
        return steps, *(framework.zeros_like(weight, dtype=self._dtype) for _ in range(2))

    def _change(self, ids: Tensor, grad: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        steps, first, second = state
        steps[ids] += 1
        clock = steps[ids].to(grad.dtype)[:, None]
        mean = self._beta1 * first[ids].to(grad.dtype) + (1 - self._beta1) * grad
        square = self._beta2 * second[ids].to(grad.dtype) + (1 - self._beta2) * grad * grad
        first[ids], second[ids] = mean.to(self._dtype), square.to(self._dtype)
        mean, square = mean / (1 - self._beta1**clock), square / (1 - self._beta2**clock)
        return self._lr * mean / (square.sqrt() + self._eps)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The settings, as a list of one dictionary; a copy."""
        return [{"lr": self._lr, "betas": (self._beta1, self._beta2), "eps": self._eps}]

    def _set_param_groups(self, groups: Sequence[Mapping[str, Any]]) -> None:
        (self._beta1, self._beta2), self._lr, self._eps = groups[0]["betas"], groups[0]["lr"], groups[0]["eps"]
