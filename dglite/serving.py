"""Models as programs that run in other processes, without Python, or without dglite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .backend import active

__all__ = ["dynamic_shapes", "export", "load_program"]


def export(
    model: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    portable: bool = False,
    strict: bool = False,
) -> Any:
    """Record what ``model(*args, **kwargs)`` computes as a program for graphs of any size.

    ``torch.export.save(program, path)`` writes it to a file; :func:`load_program` reads it, in a process that has
    imported dglite, and is called with another graph and its features. Gradients are not part of it. Dropout and the
    like are as the model has them: call ``model.eval()`` first.

    Raises DGLError: the model holds a graph, reads values of ids or features, or is for one number of nodes, edges or
    graphs only; or the backend is not torch, or torch is older than 2.7.

    Parameters
    ----------
    model
        a module, or a function of graphs and tensors.
    args, kwargs
        example inputs: graphs, blocks and batches, tensors, and lists, tuples and dictionaries of these. The program
        takes graphs of the same types and with the same features, and batches where the example is a batch.
    dynamic_shapes
        as in ``torch.export.export``, for ``args`` or for the arguments by name. By default the first dimension of each
        tensor is dynamic: numbers of nodes, edges and graphs, and rows of features.
    portable
        compose the program of torch's own operations, so that it runs where dglite is not installed, and is compiled by
        ``torch._inductor.aoti_compile_and_package`` and ``torch.onnx.export``. It takes :func:`dglite.to_tensors` of a
        graph in the graph's place. Messages are stored.
    strict
        read the program by Dynamo instead of running it, as ``torch.export.export`` has it.

    Returns
    -------
    torch.export.ExportedProgram

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite.nn import SAGEConv
    >>> g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    >>> program = export(SAGEConv(4, 2, "mean"), g, torch.ones(3, 4))
    >>> load_program(program)(dglite.graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])), torch.ones(5, 4)).shape
    torch.Size([5, 2])
    """
    return active.export(model, args, dict(kwargs or {}), dynamic_shapes, strict, portable)


def dynamic_shapes(*args: Any) -> Any:
    """Return what ``torch.export.export`` and ``torch.onnx.export`` take as ``dynamic_shapes`` for these arguments.

    The first dimension of each tensor is dynamic, in graphs the numbers of nodes, edges and members.
    """
    return active.dynamic_shapes(args)


def load_program(source: Any) -> Any:
    """Return an exported program as a function that is called as the model is, without gradients.

    A call takes less time than one of torch's ``torch.export.load(path).module()``, and checks as much: types and
    features of graphs, and dtypes, devices and shapes of tensors. Where torch looks on (its compilers, transforms and
    modes), and for programs that write to their inputs or buffers, it calls that module.

    Raises DGLError: ``source`` is neither a file nor a program, or the backend is not torch.

    Parameters
    ----------
    source
        path of a file that ``torch.export.save`` wrote, an open file, or what :func:`dglite.export` and
        ``torch.export.export`` return.

    Examples
    --------
    >>> import torch, dglite
    >>> from dglite.nn import SumPooling
    >>> g = dglite.batch([dglite.rand_graph(3, 5), dglite.rand_graph(4, 5)])
    >>> serve = load_program(dglite.export(SumPooling(), g, torch.ones(7, 2)))
    >>> serve(dglite.batch([dglite.rand_graph(4, 6)]), torch.ones(4, 2))
    tensor([[4., 4.]])
    """
    return active.load_program(source)
