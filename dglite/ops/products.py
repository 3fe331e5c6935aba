"""The linear part of a layer, with bias and ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import RESULT, Tensor, active
from ..errors import DGLError
from ..kernels.spec import ITEM_BYTES
from .biases import bias_gradient
from .devices import HOST, device_of
from .operands import to_common_dtype
from .traced import GraphOp, registered, traced


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU: large ones in memory of the pool."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    if not active.is_pooled(*operands):
        if is_in_program(x) and not active.requires_grad(*operands):
            return _in_program((x, weight), bias, relu)
        return active.product(x, weight, bias, relu)
    needs = active.needs_grad(operands)
    return active.apply(_Product(needs, relu), *operands) if any(needs) else product_forward(x, weight, bias, relu)


def product_forward(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return a product in memory of the pool, of which nothing is recorded."""
    sizes, dtype = active.shape(weight), active.dtype(x)
    if not _is_ours(sizes, dtype) or active.shape(x)[1] != sizes[0]:
        return active.product(x, weight, bias, relu)
    out = active.new_empty(x, (active.shape(x)[0], sizes[1]))
    _multiply(x, weight, bias, out, relu)
    return out


def sum_of_products(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, other: Tensor) -> Tensor:
    """Return ``x @ weight + bias + y @ other`` of matrices: large ones in memory of the pool."""
    operands = (x, weight, y, other) if bias is None else (x, weight, y, other, bias)
    if not active.is_pooled(*operands):
        if is_in_program(x) and not active.requires_grad(*operands):
            return _in_program((x, weight, y, other), bias, False)
        return active.product(x, weight, bias) + active.product(y, other, None)
    return active.apply(_SumOfProducts(active.needs_grad(operands)), *operands)


def product_gradients(
    x: Any, weight: Any, grad: Tensor, needs: Sequence[bool], result: Tensor | None = None
) -> list[Tensor | None]:
    """Return the gradients of a product's operands by ``needs``; ``grad`` is the gradient of its result.

    ``result`` is that of the ReLU, where there was one. ``x`` is read for the weight's gradient, ``weight`` for that of
    x. Where our kernels do it, it is a pass over the rows, unless gradients of gradients may follow.
    """
    summed = len(needs) > 2 and needs[2]
    inner = active.shape(weight)[0] if weight is not None else active.shape(x)[1] if x is not None else 0
    (rows, outer), dtype = active.shape(grad), active.dtype(grad)
    shape = rows, inner, outer
    turned: Any = None if weight is None else active.swap_last(weight)
    tensors = [y for y in (grad, x, turned) if y is not None]
    if not (active.is_pooled(*tensors) and _is_ours(shape[1:], dtype)) or active.requires_grad(*tensors):
        grad, sums = bias_gradient(grad, result, summed)
        grads = [product(grad, turned) if needs[0] else None]
        return [*grads, product(active.swap_last(x), grad) if needs[1] else None, sums][: len(needs)]
    operands = grad, result, x if needs[1] else None, turned if needs[0] else None
    return _gradients(shape, operands, (*needs[:2], summed))[: len(needs)]


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Return the transpose of ``x`` times ``grad``, of which no gradient is recorded."""
    sizes, dtype = (active.shape(x)[1], active.shape(grad)[1]), active.dtype(x)
    if not (active.is_pooled(x, grad) and _is_ours(sizes, dtype)):
        return active.swap_last(x) @ grad
    return _gradients((active.shape(x)[0], *sizes), (grad, None, x, None), (False, True, False))[1]


def _multiply(x: Tensor, weight: Tensor, start: Tensor | None, out: Tensor, relu: bool = False) -> None:
    """Write ``x @ weight + start`` by our kernels; ``start`` is a bias or rows, such as ``out`` itself."""
    dense, addresses = active.dense((x, weight, start))
    (rows, inner), outer, dtype, device = active.shape(x), active.shape(out)[1], active.dtype(x), device_of(x)
    of_start = 0 if start is None or len(active.shape(start)) == 1 else outer
    places = _places(dtype, (*addresses, active.address(out)), (inner, outer, of_start, outer))
    device.kernels("rows.products").product(dtype, (rows, inner, outer), places, relu, device.queue)
    del dense  # the kernel has read it


def _gradients(shape: tuple[int, int, int], operands: Sequence[Tensor | None], needs: Sequence[bool]) -> list[Any]:
    """Return the needed gradients of x, weight and bias, computed by our kernels.

    ``operands`` are the gradient of the result, the result of the ReLU, x and the transposed weight, or None.
    """
    (rows, inner, outer), dtype, (dense, addresses) = shape, active.dtype(operands[0]), active.dense(operands)
    shapes = ((rows, inner), (inner, outer), (outer,))
    out = [active.new_empty(dense[0], shape) if needed else None for shape, needed in zip(shapes, needs, strict=True)]
    device, written = device_of(dense[0]), [0 if y is None else active.address(y) for y in out]
    places = _places(dtype, addresses, (outer, outer, inner, inner)), _places(dtype, written, (inner, outer, outer))
    device.kernels("rows.products").gradients(dtype, shape, *places, device.queue)
    return out


def _places(dtype: str, addresses: Sequence[int], widths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (address, bytes from row to row) of matrices whose rows follow each other; 0 bytes of a vector's."""
    return [(address, width * ITEM_BYTES[dtype]) for address, width in zip(addresses, widths, strict=True)]


def _is_ours(sizes: Sequence[int], dtype: str) -> bool:
    """Whether our kernels take the product of pooled rows with a matrix of ``sizes``."""
    return bool(HOST.kernels("rows.products").is_faster(dtype, *sizes))


class _Product:
    """The autograd function of a product. Of ReLU it saves the result, which is 0 where the gradient is."""

    def __init__(self, needs: Sequence[bool], relu: bool) -> None:
        self.relu = relu
        self.saved = (*((1,) if needs[0] else ()), *((0,) if needs[1] else ()), *((RESULT,) if relu else ()))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return product_forward(x, weight, bias, self.relu)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return product_gradients(inputs[0], inputs[1], grad, needs, inputs[RESULT] if self.relu else None)


class _SumOfProducts:
    """``x @ weight + y @ other``, with a bias: the second product is added to the first where that lies."""

    def __init__(self, needs: Sequence[bool]) -> None:
        self.saved = tuple([i ^ 1 for i in range(4) if needs[i]])

    def forward(self, x: Tensor, weight: Tensor, y: Tensor, other: Tensor, bias: Tensor | None = None) -> Tensor:
        total, sizes = product_forward(x, weight, bias), active.shape(other)
        fits = (*active.shape(y), sizes[1]) == (active.shape(total)[0], sizes[0], active.shape(total)[1])
        if not (fits and _is_ours(sizes, active.dtype(y))):
            return active.add_product(total, y, other)  # or raises torch's error
        _multiply(y, other, total, total)
        return total

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, weight, y, other = inputs[:4]
        of_x, of_weight, *of_bias = product_gradients(x, weight, grad, (*needs[:2], *needs[4:]))
        return [of_x, of_weight, *product_gradients(y, other, grad, needs[2:4]), *of_bias]


# -- in exported programs ----------------------------------------------------------------------------------------------
def is_in_program(x: Tensor) -> bool:
    """Whether ``x`` is a matrix of an exported program, of any number of rows, whose product is in its own dtype."""
    exported = type(x.shape[0]) is not int and x.ndim == 2 and active.exporting()
    return exported and active.autocast_dtype() is None


def _in_program(factors: Sequence[Tensor], bias: Tensor | None, relu: bool) -> Tensor:
    """Return the sum of products of two factors each as part of a program that is recorded without gradients."""
    inputs = to_common_dtype((*factors, *([] if bias is None else [bias])))
    recipe = f"{len(factors) // 2} {int(bias is not None)} {int(relu)}"
    return traced(_Products.name, _NoStructure(factors[1]), recipe, inputs)


class _NoStructure:
    """What takes the place of a relation where an operation has none: operators have two tensors of it."""

    num_src = num_dst = 0

    def __init__(self, like: Tensor) -> None:
        self.tensors = like, like


@registered
class _Products(GraphOp):
    """``relu(x @ weight + y @ other + bias)`` in memory of the pool. A gradient is that of torch's operations."""

    name = "products"

    def __init__(self, structure: _NoStructure, count: int, bias: bool, relu: bool, needs: Sequence[bool]) -> None:
        self.adj, self.count, self.bias, self.relu, self.saved = structure, count, bias, relu, range(len(needs))

    @staticmethod
    def structure(src: Tensor, dst: Tensor, num_src: int, num_dst: int, real: bool) -> _NoStructure:
        return _NoStructure(src)

    @classmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> _Products:
        count, bias, relu = map(int, recipe.split())
        return cls(adj, count, bool(bias), bool(relu), needs)

    def recipe(self) -> str:
        return f"{self.count} {int(self.bias)} {int(self.relu)}"

    def with_relu(self) -> str:
        return f"{self.count} {int(self.bias)} 1"

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        to_common_dtype(inputs)
        shapes = [tuple(active.shape(x)) for x in inputs]
        if len(shapes[0]) != 2 or len(shapes[1]) != 2:
            raise DGLError(f"got factors of shapes {shapes[:2]}; expected (rows, in) and (in, out)")
        rows, out = shapes[0][0], shapes[1][1]
        for left, right in zip(shapes[: 2 * self.count : 2], shapes[1 : 2 * self.count : 2], strict=True):
            if len(left) != 2 or left[0] != rows or left[1:] != right[:1] or right[1:] != (out,):
                raise DGLError(
                    f"got factors of shapes {shapes}; expected (rows, in) and (in, out) with one rows and out"
                )
        if self.bias and shapes[-1] != (out,):
            raise DGLError(f"got a bias of shape {shapes[-1]}; expected ({out},)")
        return ((rows, out), active.dtype(inputs[0])), None

    def forward(self, *inputs: Tensor) -> Tensor:
        bias = inputs[-1] if self.bias else None
        if self.count == 1:
            return product(inputs[0], inputs[1], bias, self.relu)
        result = sum_of_products(inputs[0], inputs[1], bias, inputs[2], inputs[3])
        return result.relu_() if self.relu else result

    def composed(self, *inputs: Tensor) -> Tensor:
        result = active.product(inputs[0], inputs[1], inputs[-1] if self.bias else None)
        if self.count == 2:
            result = result + active.product(inputs[2], inputs[3], None)
        return result.relu() if self.relu else result

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return active.gradients(self.composed, inputs[:-1], grad, needs)
