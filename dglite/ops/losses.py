"""Cross-entropy over the nodes that have a label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active, framework
from ..errors import DGLError
from ..kernels.render.rowwise import IGNORED
from .devices import device_of


def cross_entropy(logits: Tensor, labels: Tensor, nodes: Tensor | None = None) -> Tensor:
    """Return the mean cross entropy of nodes, as one pass over their logits, a tensor of no axes.

    It is ``F.cross_entropy(logits[nodes], labels[nodes])``, but nothing is gathered, and the gradient is made along
    with the loss: of one matrix of the size of ``logits`` instead of three.

    Raises DGLError: shapes or dtypes do not match; IndexError: a label is no class, or an id no node.

    Parameters
    ----------
    logits
        (num_nodes, num_classes), a score per class, not normalised.
    labels
        (num_nodes,), integers from 0 to num_classes - 1. Nodes with label -100 are left out.
    nodes
        The nodes that count, all by default: a mask (num_nodes,) of bool, or ids.

    Returns
    -------
    Tensor
        A number; NaN without nodes. Differentiable any number of times; other nodes' gradients are 0.

    Examples
    --------
    >>> import dglite.nn.functional
    >>> logits, labels = torch.tensor([[0.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1])
    >>> dglite.nn.functional.cross_entropy(logits, labels, torch.tensor([True, False]))
    tensor(0.6931)
    """
    _check(logits, labels, nodes)
    if (
        active.compiling()
        or active.needs_operator((logits,))
        or not (active.on_cpu(logits) and active.dtype(logits) in ("float32", "float64"))
    ):
        return _unfused(logits, labels, nodes)
    classes = _labels_of(active.to_numpy(labels), None if nodes is None else active.to_numpy(nodes))
    if classes is None:
        return _unfused(logits, labels, nodes)
    return active.apply(_CrossEntropy(classes, active.requires_grad(logits)), logits)


def _check(logits: Tensor, labels: Tensor, nodes: Tensor | None) -> None:
    for name, x in (("logits", logits), ("labels", labels), *(() if nodes is None else (("nodes", nodes),))):
        if not active.is_tensor(x):
            raise DGLError(f"{name} is a {type(x).__name__}; expected a tensor")
    shape, rows = tuple(active.shape(logits)), tuple(active.shape(labels))
    if len(shape) != 2 or rows != shape[:1]:
        raise DGLError(f"logits are {shape} and labels {rows}; expected (num_nodes, num_classes) and (num_nodes,)")
    if "int" not in active.dtype(labels):
        raise DGLError(f"labels are {active.dtype(labels)}; expected classes, such as int64")
    if nodes is None:
        return
    dtype, node_shape = active.dtype(nodes), tuple(active.shape(nodes))
    if len(node_shape) != 1 or (dtype == "bool" and node_shape != rows) or (dtype != "bool" and "int" not in dtype):
        raise DGLError(f"nodes are {dtype} {node_shape}; expected a mask of bool {rows}, or ids of nodes")


def _labels_of(labels: np.ndarray, nodes: np.ndarray | None) -> np.ndarray | None:
    """Return a label for every node, ``IGNORED`` where it does not count; None where a node counts twice."""
    labels = np.ascontiguousarray(labels, np.int64)
    if nodes is None:
        return labels
    if nodes.dtype == bool:
        return np.where(nodes, labels, IGNORED)
    counted = np.zeros(len(labels), bool)
    counted[nodes] = True
    return np.where(counted, labels, IGNORED) if np.count_nonzero(counted) == len(nodes) else None


def _unfused(logits: Tensor, labels: Tensor, nodes: Tensor | None) -> Tensor:
    if nodes is not None:
        logits, labels = logits[nodes], labels[nodes]
    return framework.nn.functional.cross_entropy(logits, active.astype(labels, "int64"))


class _CrossEntropy:
    """The autograd function. It saves the gradient of a loss whose own is 1."""

    saved = (0,)

    def __init__(self, labels: np.ndarray, keeps: bool) -> None:
        self.labels, self.keeps = labels, keeps
        self.gradient: Any = None
        self.count = int(np.count_nonzero(labels != IGNORED))

    def forward(self, logits: Tensor) -> Tensor:
        (logits,), (address,) = active.dense((logits,))
        shape, device = tuple(active.shape(logits)), device_of(logits)
        self.gradient = active.new_empty(logits, shape) if self.keeps else None
        grad = 0 if self.gradient is None else active.address(self.gradient)
        addresses, scale = (address, self.labels.ctypes.data, grad), 1 / max(self.count, 1)
        kernel = device.kernels("rows.losses").cross_entropy
        total, wrong = kernel(active.dtype(logits), shape, *addresses, scale, device.queue)
        if wrong is not None:
            raise IndexError(f"label {wrong} is no class; logits have {shape[1]} columns")
        return active.from_numpy(np.asarray(total / (self.count or np.nan), total.dtype))

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        logits = inputs[0]
        if active.needs_operator((grad,)) and not active.requires_grad(grad, logits):
            return [self.gradient * grad]
        if active.requires_grad(grad, logits):  # a gradient of this one may follow
            return [self._differentiable(logits, grad)]
        if float(active.to_numpy(grad)) == 1.0:
            return [self.gradient]
        return [active.times(self.gradient, grad)]

    def _differentiable(self, logits: Tensor, grad: Tensor) -> Tensor:
        labelled = self.labels != IGNORED
        classes = np.zeros(tuple(active.shape(logits)), np.float32)
        classes[np.flatnonzero(labelled), self.labels[labelled]] = 1.0
        weights = (labelled / max(self.count, 1))[:, None]
        like = active.dtype(logits), active.device(logits)
        one_hot, weights = (active.asarray(x, *like) for x in (classes, weights))
        return (framework.nn.functional.softmax(logits, -1) - one_hot) * weights * grad
