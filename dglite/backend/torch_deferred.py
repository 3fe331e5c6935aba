"""Deferred torch tensors: their values are computed when something reads them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from .protocols import Recipe, Watch
from .torch_recipes import CHANGES, FACTS, ORDINARY, SUMS

_hooks: Callable[[bool], Any] | None = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
"""What autograd does now with what it saves, which torch tells from version 2.8 on. Nothing is deferred before."""


@dataclass(slots=True, eq=False)
class _Deferred:
    """The state of a tensor that has not been read.

    ``hooks``: the saved-tensor hooks under which it was created. ``consumed``: another recipe consumed this one, so no
    gradient passes this tensor. ``computed``: the values of a tensor that could not become an ordinary one, because
    autograd holds it or because it was consumed before. ``watched``: the recipe's watch sees their gradient.
    """

    recipe: Recipe
    hooks: Any
    consumed: bool = False
    computed: torch.Tensor | None = None
    watched: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def usable(self) -> bool:
        """Whether another recipe may consume this one now.

        A region of ``torch.utils.checkpoint`` runs twice and must do the same both times. What was made outside of it
        is read there, so that it does not matter whether it has been read in between.
        """
        return self.computed is None and _is_plain() and _same(self.hooks, _top())


class DeferredTensor(torch.Tensor):
    """A tensor with a recipe of its values, which a few functions consume; all others get the values.

    It has shape, dtype, device and a gradient, but no memory until something reads it. It becomes an ordinary tensor
    then, the same object: changes in place, hooks and gradients are torch's own from there on.
    """

    deferred: _Deferred

    @staticmethod
    def make(recipe: Recipe, dtype: torch.dtype) -> DeferredTensor:
        """Return the tensor of a recipe. Made where gradients are not taken it never has one."""
        if any(x.requires_grad for x in recipe.sources):
            if torch.is_grad_enabled():
                linked: DeferredTensor = _Link.apply(recipe, dtype, *recipe.sources)
                return linked
            recipe = recipe.on([x.detach() for x in recipe.sources])
        return _wrapper(recipe, dtype)

    def as_subclass(self, cls: Any) -> Any:
        """Return the values as a tensor of another class: torch's method does not ask ``__torch_function__``."""
        return _read(self).as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in SUMS and len(args) == 2 and not kwargs and deferred_of(args[0]) is None:
            args = args[::-1]  # scores may come second
        deferred = deferred_of(args[0]) if args else None
        if deferred is not None:
            if func in FACTS and deferred.computed is None:
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **kwargs)
            change = CHANGES.get(func)
            recipe = change(deferred.recipe, *args[1:], **kwargs) if change is not None and deferred.usable() else None
            if recipe is deferred.recipe:
                return args[0]
            if recipe is not None:
                deferred.consumed = True
                return DeferredTensor.make(recipe, args[0].dtype)
        if func in _WATCHES:
            targets = args[1] if func is torch.autograd.grad else args[:1]
            if any(map(_passed_by, targets)):
                return _watch(func, args, kwargs)
        result = func(*values(args), **values(kwargs))
        return result if deferred is None else _settled(args[0], result)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Serve what reaches torch's own operations past its functions, as autograd does: with values."""
        return func(*values(args), **values(kwargs or {}))


def can_defer(x: torch.Tensor) -> bool:
    """Whether a tensor that is computed from ``x`` may be deferred: it is an ordinary one, and nothing looks on."""
    return _hooks is not None and type(x) in ORDINARY and _is_plain()


def deferred_of(x: Any) -> _Deferred | None:
    """Return the state of a tensor that is still deferred, None of ordinary ones."""
    # None, too, once another thread has read it.
    return x.__dict__.get("deferred") if type(x) is DeferredTensor else None


def values(x: Any) -> Any:
    """Return ``x``, an argument or a collection of them, with ordinary tensors in place of deferred ones."""
    kind = type(x)
    if kind is DeferredTensor:
        return _read(x)
    if kind is tuple or kind is list:
        return kind([values(element) for element in x])
    if kind is dict:
        return {key: values(element) for key, element in x.items()}
    return _values_in(x) if isinstance(x, tuple | list | dict) else x


def _values_in(x: Any) -> Any:
    """Return :func:`values` of a user's kind of collection, such as a named tuple; itself if none is deferred.

    torch reads the elements of any subclass of tuple, list and dict. Named tuples, and those that torch's functions
    return, stay what they are; of other classes, whose constructors take what they like, the elements are left.
    """
    if isinstance(x, dict):
        replaced = {key: values(element) for key, element in x.items()}
        return replaced if any(replaced[key] is not x[key] for key in replaced) else x
    elements = [values(element) for element in x]
    if all(new is old for new, old in zip(elements, x, strict=True)):
        return x
    if hasattr(x, "_fields"):
        return type(x)._make(elements)
    return elements if isinstance(x, list) else tuple(elements)


def _read(x: DeferredTensor) -> torch.Tensor:
    """Return the ordinary tensor that ``x`` is or stands for, which has the gradient of what it is computed from."""
    deferred = deferred_of(x)
    if deferred is None:
        return x
    with deferred.lock:
        if deferred_of(x) is None:
            return x
        computed = deferred.computed
        if computed is None:
            with _original_recording(deferred.hooks):
                computed = deferred.recipe.compute(*deferred.recipe.sources)
        elif _changed(x):
            with torch.enable_grad():
                computed = _Through.apply(x, computed)
        if not deferred.consumed and _become(x, computed):
            return x
        deferred.computed = computed
        return computed


def _settled(x: DeferredTensor, result: Any) -> Any:
    """Return what a function has given for ``x``, which becomes an ordinary tensor if it was changed in place."""
    deferred = deferred_of(x)
    if deferred is None or deferred.computed is None or torch.compiler.is_compiling():
        return result
    computed = deferred.computed
    if result is computed or computed._version:
        _become(x, computed)
    return x if result is computed else result


def _changed(x: DeferredTensor) -> bool:
    """Whether a user's ``torch.autograd.Function`` has declared that it changed ``x`` in place."""
    with torch._C.DisableTorchFunctionSubclass():
        return not x.is_inference() and x._version > 0  # an inference tensor has no version


def _become(x: DeferredTensor, computed: torch.Tensor) -> bool:
    """Make an ordinary tensor of ``x``; return whether it could be done, which it cannot while autograd holds ``x``."""
    if torch.compiler.is_compiling():  # its compiler reads this, too
        return False
    with torch._C.DisableTorchFunctionSubclass():
        if x._use_count() > 1 or computed._use_count() > 1:  # type: ignore[attr-defined]
            return False
        torch._C._swap_tensor_impl(x, computed)  # first: from here on whatever another thread does with x is right
    x.__class__, computed.__class__ = torch.Tensor, DeferredTensor  # type: ignore[assignment]
    del x.deferred
    return True


def _top() -> Any:
    """Return the innermost hooks for tensors that autograd saves, or None."""
    return None if _hooks is None else _hooks(True)


def _same(a: Any, b: Any) -> bool:
    return a is b is None or (a is not None and b is not None and a[0] is b[0])


def _is_plain() -> bool:
    """Whether operations run as they are: no functional transform, no dual numbers, no mode that sees each of them."""
    return (
        torch._C._functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        and not torch._C._len_torch_dispatch_stack()
    )


@contextmanager
def _original_recording(hooks: Any) -> Iterator[None]:
    """Let autograd record as when the deferred tensor was created: with these hooks, or none if they ended."""
    autograd, popped = torch._C._autograd, list[Any]()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if not _is_plain():
            stack.enter_context(temporarily_clear_interpreter_stack())
            stack.enter_context(_disable_current_modes())
        if _same(hooks, _top()):
            yield
            return
        while (top := _top()) is not None:
            autograd._pop_saved_tensors_default_hooks()
            popped.append(top)
        active = any(_same(hooks, top) for top in popped)
        try:
            if active:
                autograd._push_saved_tensors_default_hooks(*hooks)
            yield
        finally:
            if active:
                autograd._pop_saved_tensors_default_hooks()
            for top in reversed(popped):
                autograd._push_saved_tensors_default_hooks(*top)


def _wrapper(recipe: Recipe, dtype: torch.dtype) -> DeferredTensor:
    tensor: DeferredTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        DeferredTensor, tuple(recipe.shape), dtype=dtype, device=recipe.sources[0].device
    )
    tensor.deferred = _Deferred(recipe, _top())
    return tensor


class _Link(torch.autograd.Function):
    """Leads the gradient to the sources where autograd meets the deferred tensor itself.

    Functions of torch never do: they get the values. A user's own ``torch.autograd.Function`` does.
    """

    @staticmethod
    def forward(ctx: Any, recipe: Recipe, dtype: torch.dtype, *sources: torch.Tensor) -> torch.Tensor:
        ctx.recipe = recipe
        return _wrapper(recipe, dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        recipe, needs, again = ctx.recipe, ctx.needs_input_grad[2:], torch.is_grad_enabled()
        with torch.enable_grad():
            sources = [x for x, needed in zip(recipe.sources, needs, strict=True) if needed]
            copies = iter([x.view_as(x) for x in sources])
            inputs = [next(copies) if needed else x for x, needed in zip(recipe.sources, needs, strict=True)]
            targets = [x for x, needed in zip(inputs, needs, strict=True) if needed]
            grads = iter(torch.autograd.grad(recipe.compute(*inputs), targets, grad, create_graph=again))
        return (None, None, *[next(grads) if needed else None for needed in needs])


class _Through(torch.autograd.Function):
    """Gives the values of a deferred tensor that tensor's history."""

    @staticmethod
    def forward(ctx: Any, x: DeferredTensor, computed: torch.Tensor) -> torch.Tensor:
        return computed.detach()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        return grad, None


# -- gradients of what has been passed by ------------------------------------------------------------------------------
_WATCHES = frozenset([torch.autograd.grad, torch.Tensor.register_hook, torch.Tensor.retain_grad])
"""What asks for the gradient of a tensor itself."""


def _watch(func: Any, args: Any, kwargs: Any) -> Any:
    """Do what ``func`` does where tensors have been passed by, whose recipes' watches see the gradient then."""
    if func is torch.autograd.grad:
        return _grad(*args, **kwargs)
    x, *others = args
    deferred, computed = deferred_of(x), _watchable(x)
    assert deferred is not None
    watch = deferred.recipe.watch
    if not computed.requires_grad:
        return func(computed, *others, **kwargs)  # raises
    if func is torch.Tensor.retain_grad:
        watch.keep = partial(_keep, weakref.ref(computed))
        return computed.retain_grad()
    return _hooked(watch, *others, **kwargs)


def _grad(
    outputs: Any, inputs: Any, *, allow_unused: bool | None = None, materialize_grads: bool = False, **options: Any
) -> tuple[torch.Tensor | None, ...]:
    """Return what ``torch.autograd.grad`` does. Gradients of what was passed by are seen on the way to the sources."""
    parts_of: dict[int, list[torch.Tensor]] = {}
    handles, sources = [], []
    for place, x in enumerate(inputs):
        deferred = _passed_by(x)
        if deferred is not None and _watchable(x).requires_grad:
            parts_of[place] = []
            handles.append(_hooked(deferred.recipe.watch, parts_of[place].append))
            sources += [source for source in deferred.recipe.sources if source.requires_grad]
    others = [values(x) for place, x in enumerate(inputs) if place not in parts_of]
    try:
        grads = iter(torch.autograd.grad(values(outputs), [*others, *sources], allow_unused=True, **values(options)))
    finally:
        for handle in handles:
            handle.remove()
    results = []
    for place, x in enumerate(inputs):
        parts = parts_of.get(place)
        result = next(grads) if parts is None else sum(parts[1:], parts[0]) if parts else None
        results.append(torch.zeros_like(values(x)) if result is None and materialize_grads else result)
    if not allow_unused and any(result is None for result in results):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior."
        )
    return tuple(results)


def _passed_by(x: Any) -> _Deferred | None:
    """Return the state of a deferred tensor whose recipe another recipe already consumed, else None."""
    deferred = deferred_of(x)
    return deferred if deferred is not None and deferred.consumed else None


def _watchable(x: DeferredTensor) -> torch.Tensor:
    """Return the values of a tensor that has been passed by; the watch's hooks see the gradient of these, too."""
    computed, deferred = _read(x), deferred_of(x)
    assert deferred is not None
    if not deferred.watched and computed.requires_grad:
        deferred.watched = True
        computed.register_hook(deferred.recipe.watch.hooked)
    return computed


def _hooked(watch: Watch, hook: Callable[[torch.Tensor], torch.Tensor | None]) -> RemovableHandle:
    handle = RemovableHandle(watch.hooks)
    watch.hooks[handle.id] = hook
    return handle


def _keep(reference: weakref.ref[torch.Tensor], grad: torch.Tensor) -> None:
    """Add to the ``grad`` of a tensor that a user has not let go of."""
    computed = reference()
    if computed is not None:
        computed.grad = grad.clone() if computed.grad is None else computed.grad + grad
