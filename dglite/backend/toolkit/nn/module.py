"""``Module``: a function with parameters, which are found through its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, final

import numpy as np

from ....errors import DGLError
from ...autograd import Tensor, as_array
from ...grad_mode import no_grad


@final
class Parameter(Tensor):
    """A tensor that a module trains."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.data if isinstance(data, Tensor) else data, requires_grad)


class Module:
    """A function with parameters. Subclasses call ``super().__init__()`` first, set attributes, and define ``forward``.

    Attributes that are parameters, tensors registered as buffers, or modules are found by :meth:`parameters`,
    :meth:`state_dict` and the like, in the order in which they were set.
    """

    training: bool

    def __init__(self) -> None:
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise DGLError(f"{type(self).__name__}.{name} is set before super().__init__()")
        table: dict[str, Any] | None = None
        if isinstance(value, Parameter) or (value is None and name in self._parameters):
            table = self._parameters
        elif isinstance(value, Module):
            table = self._modules
        elif name in self._buffers and (value is None or isinstance(value, Tensor)):
            table = self._buffers
        self._forget(name)
        if table is not None:
            table[name] = value
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._forget(name)
        object.__delattr__(self, name)

    def _forget(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            table.pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Set an attribute that is a parameter or None."""
        self._parameters[name] = param
        object.__setattr__(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Set an attribute that is a tensor which belongs to the state but is not trained."""
        self._buffers[name] = tensor
        object.__setattr__(self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set an attribute that is a module."""
        self._modules[name] = module
        object.__setattr__(self, name, module)

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    # -- run ----------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def train(self, mode: bool = True) -> Self:
        """Put this module and those inside into training mode, or out of it; return self."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Leave training mode; return self."""
        return self.train(False)

    # -- what is inside -----------------------------------------------------------------------------------------
    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield each module once, this one first, with the path to it."""
        visited: set[int] = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            path, module = waiting.pop()
            if id(module) in visited:
                continue
            visited.add(id(module))
            yield path, module
            inside = [(f"{path}.{name}" if path else name, x) for name, x in module._modules.items() if x is not None]
            waiting += reversed(inside)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all inside, each once."""
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        """Yield the modules that are attributes of this one."""
        return (module for module in self._modules.values() if module is not None)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter once, with the path to it."""
        return _once(self, "_parameters")

    def parameters(self) -> Iterator[Parameter]:
        """Yield each parameter once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each buffer once, with the path to it."""
        return _once(self, "_buffers")

    def buffers(self) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (buffer for _, buffer in self.named_buffers())

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function on every module, the innermost first; return self."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, *targets: Any, dtype: Any = None, device: Any = None) -> Self:
        """Convert floating parameters and buffers to a dtype; a device must be theirs; return self."""
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dtype.kind == "f":
                tensor.data = tensor.detach().to(*targets, dtype=dtype, device=device).data  # type: ignore[attr-defined]
        return self

    def float(self) -> Self:
        """Convert parameters and buffers to float32; return self."""
        return self.to("float32")

    def double(self) -> Self:
        """Convert parameters and buffers to float64; return self."""
        return self.to("float64")

    # -- state --------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by path, sharing memory with the module."""
        state = {}
        for path, module in _all_paths(self):
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    state[f"{path}.{name}" if path else name] = tensor.detach()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Write tensors or arrays, by path, into parameters and buffers; nothing is written when one does not fit.

        Raises ``DGLError``: a shape differs; with ``strict``, a name is missing or unknown.
        """
        state = self.state_dict()
        missing, unknown = state.keys() - state_dict.keys(), state_dict.keys() - state.keys()
        if strict and (missing or unknown):
            raise DGLError(
                f"the state of {type(self).__name__} lacks {sorted(missing) or 'nothing'} and has "
                f"{sorted(unknown) or 'nothing'} that is unknown; pass strict=False to load what fits"
            )
        common = {name: state_dict[name] for name in state if name in state_dict}
        # NumPy makes arrays of what torch has trained; as_array refuses tensors of torch's.
        values = {name: as_array(x if isinstance(x, Tensor) else np.asarray(x)) for name, x in common.items()}
        for name, value in values.items():
            if value.shape != state[name].shape:
                raise DGLError(f"{name} has shape {state[name].shape}, but the state's is {value.shape}")
        with no_grad():
            for name, value in values.items():
                state[name].copy_(value)  # type: ignore[attr-defined]

    # -- print --------------------------------------------------------------------------------------------------
    def extra_repr(self) -> str:
        """Describe the module's settings; subclasses may."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        return "\n  ".join([f"{type(self).__name__}({self.extra_repr()}", *lines]) + "\n)"


def _all_paths(module: Module, path: str = "") -> Iterator[tuple[str, Module]]:
    """Yield modules with every path to them, shared ones several times: so torch writes their state."""
    yield path, module
    for name, inner in module._modules.items():
        if inner is not None:
            yield from _all_paths(inner, f"{path}.{name}" if path else name)


def _once(module: Module, table: str) -> Iterator[tuple[str, Any]]:
    visited: set[int] = set()
    for path, inner in module.named_modules():
        for name, tensor in getattr(inner, table).items():
            if tensor is not None and id(tensor) not in visited:
                visited.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor


# -- containers --------------------------------------------------------------------------------------------------------
class Sequential(Module):
    """Modules run one after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, number: int) -> Any:
        return list(self._modules.values())[number]

    def forward(self, x: Any) -> Any:
        """Return the last module's result."""
        for module in self:
            x = module(x)
        return x


@final
class ModuleList(Sequential):
    """Modules in a list."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__(*modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end; return self."""
        self.add_module(str(len(self)), module)
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a list does not say how its modules are run."""
        raise NotImplementedError("ModuleList has no forward(); run its modules")


@final
class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Return the names and modules."""
        return self._modules.items()


@final
class ParameterList(Module):
    """Parameters in a list; tensors become parameters."""

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        super().__init__()
        for value in values:
            self.append(value)

    def append(self, value: Tensor) -> Self:
        """Add a parameter at the end; return self."""
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, number: int) -> Any:
        return list(self._parameters.values())[number]

    def extra_repr(self) -> str:
        """Describe the parameters when a model is printed."""
        return ", ".join(f"{parameter.dtype} {tuple(parameter.shape)}" for parameter in self)
