"""Everything that the check of a function for side effects has read, to be compared with its values at a later call.

A cached result of the check is valid while all of it is unchanged. Objects, layers and functions are held by weak
references, so that no model is kept alive; when one of them is freed, the result is dropped. Numbers, strings and
tensors are compared by type, everything else by identity. See
docs/decisions/0099-purity-checks-of-user-functions-are-cached.md.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..backend import active as backend
from .bytecode import CallTarget, analyse

MISSING = object()
CONTAINERS = (list, dict, set, tuple, frozenset)
LONGEST = 256
"""How many elements a captured container may have to be checked."""
_DEEPEST = 4
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_SIMPLE = (int, float, bool, str, bytes, type(None))
_CONSTANT_TYPES = {
    ("torch", "dtype"),
    ("torch", "device"),
    ("torch", "Size"),
    ("numpy", "ndarray"),
    ("numpy", "float64"),
}


def is_simple(value: Any) -> bool:
    """Whether a value is a number, a string, a tensor or the like, of which only the type is compared."""
    kind = type(value)
    return kind in _SIMPLE or (kind.__module__, kind.__name__) in _CONSTANT_TYPES or backend.is_tensor(value)


_Mark = tuple[type, Any]
"""How a value is compared: its type and, where identity counts, a weak reference, or ``_Inside`` for a container."""


class _Inside:
    """The marks of a container's elements. It is called like a weak reference, and answers like a dead one."""

    def __init__(self, marks: tuple[_Mark, ...]) -> None:
        self.marks = marks

    def __call__(self) -> None:
        return None


def _elements(container: Any) -> Collection[Any]:
    """Return the elements of a list, set or tuple, or the values of a dict."""
    return container.values() if isinstance(container, dict) else container  # type: ignore[no-any-return]


class _ObjectReads:
    """What was read of the attributes of one object."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.present: dict[tuple[str | None, str], _Mark] = {}
        self.absent: dict[tuple[str | None, str], None] = {}
        self.same: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}

    def sealed(self) -> tuple[Any, ...]:
        """Return it as tuples, attributes grouped by the table that they are in."""
        tables = dict.fromkeys(table for table, _ in (*self.present, *self.absent))
        parts = [
            (
                table,
                tuple([(name, *mark) for (at, name), mark in self.present.items() if at == table]),
                tuple([name for at, name in self.absent if at == table]),
            )
            for table in tables
        ]
        empty = tuple([table for table, size in self.sizes.items() if not size])
        sizes = tuple([(table, size) for table, size in self.sizes.items() if size])
        return self.ref, tuple(parts), tuple(self.same.items()), empty, sizes


class Dependencies:
    """What a check has read: its methods look things up and note what they found.

    ``complete`` is False once something was read that cannot be noted, such as an object without weak references, and
    once a noted object was freed. Then nothing counts as unchanged.
    """

    def __init__(self) -> None:
        self.complete = True
        self._present: dict[Any, tuple[Mapping[str, Any], str, Any]] = {}
        self._absent: dict[Any, tuple[Mapping[str, Any], str]] = {}
        self._orders: dict[type, tuple[type, ...]] = {}
        self._functions: list[tuple[Any, ...]] = []
        self._holders: dict[int, _ObjectReads] = {}
        self._refs: dict[int, Any] = {}
        self._sealed: tuple[Any, ...] | None = None

    # -- looking ------------------------------------------------------------------------------------------------
    def captured(self, target: CallTarget, outermost: bool = True) -> list[tuple[str, Any]]:
        """Return the names and values that a function captures: closure, defaults, arguments of a partial, globals.

        A name without a value has ``MISSING``. ``outermost`` is for the function that is checked: the result holds for
        any function of the same code that captures the same.
        """
        plain, owner, arguments = target
        code = analyse(plain.__code__)
        captured = [
            (name, _content(cell))
            for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
        ]
        captured += [("a default", value) for value in plain.__defaults__ or ()]
        captured += [("a default", value) for value in (plain.__kwdefaults__ or _NOTHING).values()]
        marks = [self._mark(value) for _, value in captured]
        if outermost:
            marks += [self._mark(value) for value in arguments]
            marks += [] if owner is None else [self._mark(owner)]
        captured += [("an argument", value) for value in arguments]
        names, hidden = [], []
        for name in code.global_names:
            if name in plain.__globals__:
                names.append((name, plain.__globals__[name]))
            else:
                hidden.append((name, plain.__builtins__.get(name, MISSING)))  # type: ignore[attr-defined]
                self.complete = self.complete and hidden[-1][1] is not MISSING
        ref = None if outermost else self._ref(plain)
        current = tuple([(name, *self._mark(value)) for name, value in names])
        self._functions.append((ref, plain.__code__, tuple(marks), current, tuple(hidden)))
        return captured + names + hidden

    def of_class(self, kind: type, name: str) -> Any:
        """Return the attribute of a class or of its base classes, without binding it."""
        self._orders[kind] = kind.__mro__
        for base in kind.__mro__:
            value = self.of_namespace(base.__dict__, name, base)
            if value is not MISSING:
                return value
        return MISSING

    def of_namespace(self, namespace: Mapping[str, Any], name: str, owner: Any) -> Any:
        """Return what a class or a module has under a name."""
        key = id(owner), name
        if name not in namespace:
            if owner is not object:  # nothing can be added to it
                self._absent[key] = namespace, name
            return MISSING
        value = namespace[name]
        self._present[key] = namespace, name, value
        return value

    def of_object(self, owner: Any, table: str | None, name: str, exactly: bool = False) -> Any:
        """Return an attribute of an object, or of one of its tables; with ``exactly`` a simple value counts, too."""
        holder, attributes = self._holder(owner)
        space = attributes if table is None else attributes.get(table, _NOTHING)
        value = space.get(name, MISSING)
        if value is MISSING:
            holder.absent[table, name] = None
        elif exactly and is_simple(value):
            holder.same[name] = value
        else:
            holder.present[table, name] = self._mark(value)
        return value

    def values_of(self, owner: Any, table: str) -> list[Any]:
        """Return all values of a table of an object, none where it has no such table."""
        holder, attributes = self._holder(owner)
        if table not in attributes:
            holder.absent[None, table] = None
            return []
        holder.sizes[table] = len(attributes[table])
        return [self.of_object(owner, table, name) for name in attributes[table]]

    def _holder(self, owner: Any) -> tuple[_ObjectReads, Mapping[str, Any]]:
        holder = self._holders.get(id(owner))
        if holder is None:
            holder = self._holders[id(owner)] = _ObjectReads(self._ref(owner))
        attributes = getattr(owner, "__dict__", None)
        self.complete = self.complete and attributes is not None
        return holder, attributes or {}

    def _mark(self, value: Any, depth: int = 0) -> _Mark:
        """Return how a value is compared: its type and its identity, for a container its elements."""
        if is_simple(value):
            return type(value), None
        if not isinstance(value, CONTAINERS):
            return type(value), self._ref(value)
        if len(value) > LONGEST or depth > _DEEPEST:
            self.complete = False
            return type(value), None
        return type(value), _Inside(tuple([self._mark(element, depth + 1) for element in _elements(value)]))

    def _ref(self, value: Any) -> Any:
        ref = self._refs.get(id(value))
        if ref is None:
            try:
                ref = self._refs[id(value)] = weakref.ref(value, self._end)
            except TypeError:
                self.complete = False
        return ref

    def _end(self, ref: Any) -> None:
        """Drop everything: an object was freed. It may happen at any time, so nothing is cleared in place."""
        self.complete, self._sealed = False, None

    # -- comparing ----------------------------------------------------------------------------------------------
    def seal(self) -> Dependencies:
        """Prepare for comparing; nothing is looked up any more."""
        holders = [reads.sealed() for reads in self._holders.values()]
        sealed = self._functions, self._present.values(), self._absent.values(), self._orders.items(), holders
        self._sealed = tuple(map(tuple, sealed))
        self._present, self._absent, self._orders, self._functions, self._holders = {}, {}, {}, [], {}
        if not self.complete:
            self._sealed = None
        return self

    def unchanged(self, target: CallTarget) -> bool:
        """Whether a function of the same code would read the same now."""
        if self._sealed is None:
            return False
        functions, present, absent, orders, holders = self._sealed
        try:
            for ref, code, marks, names, hidden in functions:
                plain = target[0] if ref is None else ref()
                if plain is None or (ref is not None and plain.__code__ is not code):
                    return False
                has_values = marks or plain.__defaults__ is not None or plain.__kwdefaults__ is not None
                if has_values and not _have_marks(_values_of(plain, target if ref is None else None), marks):
                    return False
                space, builtins = plain.__globals__, plain.__builtins__  # type: ignore[union-attr]
                for name, kind, same in names:
                    value = space[name]
                    if type(value) is not kind or (same is not None and same() is not value and not _in(value, same)):
                        return False
                for name, value in hidden:
                    if name in space or builtins[name] is not value:
                        return False
            for space, name, value in present:
                if space[name] is not value:
                    return False
            for space, name in absent:
                if name in space:
                    return False
            for kind, order in orders:
                if kind.__mro__ is not order:
                    return False
            for ref, parts, same, empty, sizes in holders:
                if not _object_unchanged(ref(), parts, same, empty, sizes):
                    return False
        except (KeyError, ValueError):  # an attribute is gone, a variable of an enclosing function has no value
            return False
        return True


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Ellipsis


def _have_marks(values: Collection[Any], marks: Sequence[_Mark]) -> bool:
    """Whether values have these marks."""
    if len(values) != len(marks):
        return False
    for value, (kind, same) in zip(values, marks, strict=True):
        if type(value) is not kind or (same is not None and same() is not value and not _in(value, same)):
            return False
    return True


def _in(value: Any, same: Any) -> bool:
    """Whether a container has elements of the same marks."""
    return type(same) is _Inside and _have_marks(_elements(value), same.marks)


def _values_of(plain: types.FunctionType, target: CallTarget | None) -> list[Any]:
    """Return the values in the closure and defaults of a function, and what ``called`` passes to it."""
    values = [cell.cell_contents for cell in plain.__closure__ or ()]
    values += plain.__defaults__ or ()
    values += (plain.__kwdefaults__ or _NOTHING).values()
    if target is not None:
        values += target[2]
        if target[1] is not None:
            values.append(target[1])
    return values


def _object_unchanged(holder: Any, parts: Any, same: Any, empty: Any, sizes: Any) -> bool:
    """Whether the attributes of an object have the same marks."""
    if holder is None:
        return False
    attributes = holder.__dict__
    for table, present, absent in parts:
        space = attributes if table is None else attributes[table]
        for name, kind, ref in present:
            value = space[name]
            if type(value) is not kind or (ref is not None and ref() is not value and not _in(value, ref)):
                return False
        for name in absent:
            if name in space:
                return False
    for name, value in same:
        if attributes[name] is not value:
            return False
    for table in empty:
        if attributes[table]:
            return False
    return not sizes or all(len(attributes[table]) == size for table, size in sizes)
