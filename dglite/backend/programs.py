"""What a backend answers about operations that do not run at once: deferred tensors, compiled and exported programs.

The answers here are those of a library that has neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import DGLError
from .protocols import MakeOp, Recipe, RunAgain, Tensor, TransformedOp, Watch

Unread = TypeVar("Unread", bound=Callable[..., Any])


class ProgramInterface(ABC):
    """The part of :class:`.base.Backend` for what is computed later, or recorded and run elsewhere."""

    # -- deferred tensors ---------------------------------------------------------------------------------------
    def can_defer(self, x: Tensor) -> bool:
        """Whether a tensor that is computed from ``x`` may be deferred until something reads it."""
        return False

    def defer(self, recipe: Recipe) -> Tensor:
        """Return the recipe's tensor, computed when something reads it. Nobody else may write to its sources."""
        return recipe.compute(*recipe.sources)

    def any_deferred(self, *xs: Tensor) -> bool:
        """Whether one of ``xs`` may be a tensor that has not been read: see :meth:`recipe_of`."""
        return False

    def recipe_of(self, x: Tensor) -> Recipe | None:
        """Return how ``x`` is computed if something may be made of that now; None once it has been: most tensors."""
        return None

    def pass_by(self, x: Tensor) -> None:
        """Note that another recipe consumed the recipe of ``x``: the recipe's watch then sees its gradient."""
        return

    def watched(self, x: Tensor, watch: Watch) -> Tensor:
        """Return ``x``, whose gradient ``watch`` will see and may change."""
        return x

    # -- compilers and programs ------ --------------------------------------------------------------------------
    def compiling(self) -> bool:
        """Whether a compiler is reading the program now, so that operations have to be registered ones."""
        return False

    def exporting(self) -> bool:
        """Whether a program is recorded for other processes, in which no structure of this one exists."""
        return False

    def is_symbol(self, value: Any) -> bool:
        """Whether a number may stand for any: a program is recorded, and comparing it would narrow the program."""
        return False

    def register(self, name: str, make: MakeOp, run_again: RunAgain | None = None) -> None:
        """Make an operation known to the library's compiler, under ``name``; ``run_again`` needs no checks."""
        return

    def left_to_python(self, function: Unread) -> Unread:
        """Return ``function``, which the library's compiler leaves out of programs, as it reads values of ids."""
        return function

    def compiled_within_others(self, function: Unread) -> Unread:
        """Return ``function``, which the library's compiler reads as a part of others, and compiles not by itself."""
        return function

    def needs_operator(self, xs: Sequence[Tensor]) -> bool:
        """Whether the library traces, transforms or wraps what is computed of ``xs``: operations are registered ones.

        Kernels read memory by its address, which a compiler does not notice, or which a fake tensor does not have.
        """
        return False

    def is_forward_mode(self, xs: Sequence[Tensor]) -> bool:
        """Whether operations on ``xs`` have to be composed of the library's own, which know more transforms."""
        return False

    def are_read(self, xs: Sequence[Tensor]) -> bool:
        """Whether the values of ``xs`` may be read: no program is recorded of them, and none is wrapped."""
        return True

    def ids_of(self, x: Tensor) -> Tensor:
        """Return ids out of the wrappers of transforms of functions, except for batches, whose ids differ."""
        return x

    def register_container(
        self,
        kind: type,
        flatten: Callable[[Any], tuple[list[Any], Any]],
        unflatten: Callable[[Any, Any], Any],
        from_json: Callable[[Any], Any],
    ) -> None:
        """Let the library find the tensors in objects of a class, where it has a notion of this.

        ``flatten(x)`` returns the values that ``x`` holds, a list that nobody changes, and a description in tuples of
        text, the last one of which names the values. ``unflatten`` makes it again of both. ``from_json`` makes the
        description of what JSON makes of it.
        """
        return

    def dynamic_shapes(self, args: Any) -> Any:
        """Return which dimensions of the tensors in ``args`` are dynamic in a program: the first of each.

        Raises ``DGLError``: the library exports no programs.
        """
        raise DGLError("programs are exported by torch; start the process with DGLITE_BACKEND=torch")

    def export(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, strict: bool, portable: bool
    ) -> Any:
        """Return a program of ``model``, composed of the library's own operations if it is ``portable``.

        Raises ``DGLError``: the library exports no programs, or the program would depend on something else than its
        inputs.
        """
        raise DGLError("programs are exported by torch; start the process with DGLITE_BACKEND=torch")

    def load_program(self, source: Any) -> Any:
        """Return an exported program, or that of a file, as a function.

        Raises ``DGLError``: the library exports no programs.
        """
        raise DGLError("programs are exported by torch; start the process with DGLITE_BACKEND=torch")

    def transformed(self, op: TransformedOp, inputs: Sequence[Tensor]) -> Tensor | None:
        """Run ``op`` where the library transforms functions (vmap, grad, ...); None where it does not."""
        return None

    @abstractmethod
    def call(
        self, name: str, inputs: Sequence[Tensor], tensors: Sequence[Tensor], counts: Sequence[int], recipe: str
    ) -> Tensor:
        """Run a registered operation on the structure of ``tensors``, the ends of every edge, between ``counts`` nodes.

        Raises ``DGLError``: inputs do not fit the structure, ids are out of range, or a tensor's class does not know
        the operation.
        """

    def arrays_on(self, device: Any) -> Any:
        """Return what makes arrays of ids in a device's memory, as :mod:`dglite.structure.arrays` uses it.

        None where structure is made on the host: for the CPU, and by a backend without this.
        """
        return None

    @abstractmethod
    def structure_tensors(self, src: Any, dst: Any, owner: Any, num_src: int, num_dst: int) -> tuple[Tensor, Tensor]:
        """Return the ends of every edge, arrays or tensors, as tensors in their memory.

        :meth:`structure_of` finds ``owner`` by them.
        """

    def structure_of(self, src: Tensor, dst: Tensor, counts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the structure whose tensors these are; one that ``make`` makes is kept while they and values last."""
        return make()

    @abstractmethod
    def require(self, condition: Tensor, message: str) -> None:
        """Stop with ``message`` when a compiled program runs and ``condition``, one boolean, is false."""
