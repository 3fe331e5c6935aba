"""What a data set's ``metadata.yaml`` says, as objects: fields by name, with their kinds and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from .base import shown
from .errors import DescriptionError

__all__ = [
    "OnDiskFeatureData",
    "OnDiskFeatureDataDomain",
    "OnDiskFeatureDataFormat",
    "OnDiskGraphTopology",
    "OnDiskGraphTopologyType",
    "OnDiskMetaData",
    "OnDiskTVTSet",
    "OnDiskTVTSetData",
    "OnDiskTaskData",
]

_REQUIRED = object()
_WORDS = {str: "a text", int: "a number from 0 on", bool: "true or false"}


class OnDiskFeatureDataFormat(StrEnum):
    """How an array is written."""

    TORCH = "torch"
    NUMPY = "numpy"


class OnDiskFeatureDataDomain(StrEnum):
    """What has a feature."""

    NODE = "node"
    EDGE = "edge"
    GRAPH = "graph"


class OnDiskGraphTopologyType(StrEnum):
    """How a graph is written."""

    FUSED_CSC_SAMPLING = "FusedCSCSamplingGraph"


class _EdgeFormat(StrEnum):
    """How edges are written."""

    NUMPY = "numpy"
    CSV = "csv"


class Described:
    """Base of descriptions, with the fields of :attr:`FIELDS` as attributes.

    ``FIELDS`` has a kind and a default for each name: str, int, bool, an enumeration, another description, or a list of
    one of those. ``place`` says in errors where the description is. Other names are ignored, or kept in
    ``extra_fields`` if that is among ``FIELDS``.

    Raises DGLError: a field is missing or of another kind.
    """

    FIELDS: ClassVar[dict[str, tuple[Any, Any]]] = {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, place: str | None = None, /, **content: Any) -> None:
        self.place = type(self).__name__ if place is None else place
        for name, (kind, default) in self.FIELDS.items():
            setattr(self, name, self._value(name, content.get(name), kind, default))
        if "extra_fields" in self.FIELDS:
            more = {name: x for name, x in content.items() if name not in self.FIELDS}
            self.extra_fields = {**(content.get("extra_fields") or {}), **more}

    def __repr__(self) -> str:
        return shown(type(self).__name__, {name: getattr(self, name) for name in self.FIELDS})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, x) == getattr(other, x) for x in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def _value(self, name: str, value: Any, kind: Any, default: Any) -> Any:
        if value is None and default is not _REQUIRED:
            return [] if default == () else default
        if isinstance(kind, list):
            if not isinstance(value, list | tuple):
                raise DescriptionError(f"{self.place} needs {name}, a list; got {value!r:.80}")
            return [kind[0].described_by(x, f"{name}[{i}] in {self.place}") for i, x in enumerate(value)]
        if issubclass(kind, Described):
            if not isinstance(value, Mapping | kind):
                raise DescriptionError(f"{self.place} needs {name}, names and values; got {value!r:.80}")
            return kind.described_by(value, f"{name} in {self.place}")
        if issubclass(kind, StrEnum):
            if value not in list(kind):
                raise DescriptionError(
                    f"{self.place} needs {name}, one of {[x.value for x in kind]}; got {value!r:.80}"
                )
            return kind(value)
        negative = isinstance(value, int) and value < 0
        if not isinstance(value, kind) or negative or (kind is int and isinstance(value, bool)):
            raise DescriptionError(f"{self.place} needs {name}, {_WORDS[kind]}; got {value!r:.80}")
        return value

    @classmethod
    def described_by(cls, content: Any, place: str) -> Any:
        """Return the description for names and values; a description as it is."""
        if isinstance(content, cls):
            return content
        if not isinstance(content, Mapping):
            raise DescriptionError(f"{place} is {content!r:.80}; expected names and values")
        return cls(place, **{str(name): x for name, x in content.items()})


class OnDiskTVTSetData(Described):
    """A file of items."""

    FIELDS: ClassVar = {
        "name": (str, None),
        "format": (OnDiskFeatureDataFormat, _REQUIRED),
        "in_memory": (bool, True),
        "path": (str, _REQUIRED),
    }


class OnDiskTVTSet(Described):
    """Items of a type: the files that they are read from."""

    FIELDS: ClassVar = {"type": (str, None), "data": ([OnDiskTVTSetData], _REQUIRED)}


class OnDiskFeatureData(Described):
    """A feature's file."""

    FIELDS: ClassVar = {
        "domain": (OnDiskFeatureDataDomain, _REQUIRED),
        "type": (str, None),
        "name": (str, _REQUIRED),
        "format": (OnDiskFeatureDataFormat, _REQUIRED),
        "path": (str, _REQUIRED),
        "in_memory": (bool, True),
        "extra_fields": (dict, None),
    }


class OnDiskGraphTopology(Described):
    """A graph's file."""

    FIELDS: ClassVar = {"type": (OnDiskGraphTopologyType, _REQUIRED), "path": (str, _REQUIRED)}


class OnDiskTaskData(Described):
    """A task's item sets, and what else is said of it."""

    FIELDS: ClassVar = {
        "train_set": ([OnDiskTVTSet], ()),
        "validation_set": ([OnDiskTVTSet], ()),
        "test_set": ([OnDiskTVTSet], ()),
        "extra_fields": (dict, None),
    }


class _NodeCount(Described):
    """The number of nodes of a type."""

    FIELDS: ClassVar = {"type": (str, None), "num": (int, _REQUIRED)}


class _Edges(Described):
    """A file of edges."""

    FIELDS: ClassVar = {"type": (str, None), "format": (_EdgeFormat, _REQUIRED), "path": (str, _REQUIRED)}


class GraphFiles(Described):
    """Nodes and edges of a graph, and features that are sampled by."""

    FIELDS: ClassVar = {"nodes": ([_NodeCount], ()), "edges": ([_Edges], ()), "feature_data": ([OnDiskFeatureData], ())}


class OnDiskMetaData(Described):
    """All that a data set's YAML file says; ``graph`` before it is preprocessed, ``graph_topology`` after it."""

    FIELDS: ClassVar = {
        "dataset_name": (str, None),
        "graph": (GraphFiles, None),
        "graph_topology": (OnDiskGraphTopology, None),
        "feature_data": ([OnDiskFeatureData], ()),
        "tasks": ([OnDiskTaskData], ()),
    }
