"""Descriptions of what a data set's YAML file names, as objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...errors import DGLError

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


def _member(kind: Any, value: Any, name: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise DGLError(f"{name} is {value!r:.80}; expected one of {[x.value for x in kind]}") from None


@dataclass
class OnDiskFeatureData:
    """A feature's file."""

    domain: Any
    type: str | None = None
    name: str = ""
    format: Any = "numpy"
    path: str = ""
    in_memory: bool | None = True
    extra_fields: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.domain = _member(OnDiskFeatureDataDomain, self.domain, "domain")
        if not self.name or not self.path:
            raise DGLError(f"a feature needs name and path; got {self.name!r} and {self.path!r}")


@dataclass
class OnDiskTVTSetData:
    """A file of items."""

    format: Any
    path: str
    name: str | None = None
    in_memory: bool | None = True

    def __post_init__(self) -> None:
        self.format = _member(OnDiskFeatureDataFormat, self.format, "format")


@dataclass
class OnDiskTVTSet:
    """Items of a type: the files that they are read from, descriptions or dictionaries."""

    data: Sequence[Any]
    type: str | None = None

    def __post_init__(self) -> None:
        self.data = [OnDiskTVTSetData(**x) if isinstance(x, dict) else x for x in self.data]


@dataclass
class OnDiskGraphTopology:
    """A graph's file."""

    type: Any
    path: str

    def __post_init__(self) -> None:
        self.type = _member(OnDiskGraphTopologyType, self.type, "type")


@dataclass
class OnDiskTaskData:
    """A task's item sets, and what else is said of it."""

    train_set: Sequence[Any] = ()
    validation_set: Sequence[Any] = ()
    test_set: Sequence[Any] = ()
    extra_fields: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("train_set", "validation_set", "test_set"):
            listed = [OnDiskTVTSet(**x) if isinstance(x, dict) else x for x in getattr(self, name) or ()]
            setattr(self, name, listed)


@dataclass
class OnDiskMetaData:
    """All that a data set's YAML file says; parts are descriptions or dictionaries."""

    dataset_name: str | None = None
    graph_topology: Any = None
    feature_data: Sequence[Any] = ()
    tasks: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if isinstance(self.graph_topology, dict):
            self.graph_topology = OnDiskGraphTopology(**self.graph_topology)
        self.feature_data = [OnDiskFeatureData(**x) if isinstance(x, dict) else x for x in self.feature_data or ()]
        self.tasks = [OnDiskTaskData(**x) if isinstance(x, dict) else x for x in self.tasks or ()]
