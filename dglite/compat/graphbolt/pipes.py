"""The chain of pipes that a pipe reads from, as torch describes it, and changes of it."""

from __future__ import annotations

from typing import Any

from torch.utils.data import IterDataPipe

from .stages import source_of

__all__ = ["datapipe_graph_to_adjlist", "find_dps", "replace_dp", "to_graph", "traverse_dps"]

DataPipeGraph = dict[int, tuple[Any, Any]]


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """Return ``{id(pipe): (pipe, the same of the pipes that it reads from)}``."""
    sources = [x for x in vars(datapipe).values() if isinstance(x, IterDataPipe)]
    return {id(datapipe): (datapipe, {key: x for source in sources for key, x in traverse_dps(source).items()})}


def datapipe_graph_to_adjlist(datapipe_graph: DataPipeGraph) -> dict[int, tuple[Any, list[int]]]:
    """Return for each pipe of :func:`traverse_dps`, by id, the pipe and the ids of those that it reads from."""
    listed: dict[int, tuple[Any, list[int]]] = {}
    for key, (pipe, sources) in datapipe_graph.items():
        listed[key] = pipe, list(sources)
        listed.update(datapipe_graph_to_adjlist(sources))
    return listed


def find_dps(graph: DataPipeGraph, dp_type: type) -> list[Any]:
    """Return the pipes of a type, each once."""
    return [pipe for pipe, _ in datapipe_graph_to_adjlist(graph).values() if type(pipe) is dp_type]


def replace_dp(graph: DataPipeGraph, old_datapipe: Any, new_datapipe: Any) -> DataPipeGraph:
    """Let the pipes that read from a pipe read from another one, and return the new graph."""
    (last, _), *_ = graph.values()
    if last is old_datapipe:
        return traverse_dps(new_datapipe)
    for pipe, _ in datapipe_graph_to_adjlist(graph).values():
        for name, value in list(vars(pipe).items()):
            if value is old_datapipe and pipe is not new_datapipe:
                setattr(pipe, name, new_datapipe)
    return traverse_dps(last)


def to_graph(dp: Any, *, debug: bool = False) -> Any:
    """Return a picture of the chain of pipes, a ``graphviz.Digraph``.

    Raises ImportError: graphviz is not installed.
    """
    import graphviz  # type: ignore[import-not-found]  # optional

    picture = graphviz.Digraph()
    while dp is not None:
        source = source_of(dp)
        picture.node(str(id(dp)), type(dp).__name__)
        if source is not None:
            picture.edge(str(id(source)), str(id(dp)))
        dp = source
    return picture
