"""Copying batches to a GPU: from page-locked memory, on a stream beside the training stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ..backend import active, framework
from ..graph import DGLGraph
from ..graph.storage import canonical_device


def on_gpu(device: Any) -> bool:
    """Whether a device is a GPU that torch copies to."""
    if active.name != "torch" or device is None:
        return False
    try:
        return framework.device(device).type == "cuda"
    except (RuntimeError, TypeError):
        return canonical_device(device).type == "cuda"  # which says what a device is


def moved(x: Any, device: Any) -> Any:
    """Return graphs and tensors, in whatever lists, tuples and dictionaries, on a device."""
    if isinstance(x, DGLGraph):
        return x.to(device)
    if active.is_tensor(x):
        return active.to_device(x, device)
    if isinstance(x, Mapping):
        return {key: moved(value, device) for key, value in x.items()}
    if isinstance(x, list | tuple):
        parts = [moved(value, device) for value in x]
        return parts if isinstance(x, list) else type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x


@final
class Transfer:
    """Copies batches to a GPU on one stream, in worker threads, while kernels of the trainer's stream run.

    A worker waits for its copies, so whoever gets a batch need not, and the memory that it was copied from is free. The
    memory that it was copied to belongs to this stream: the trainer's is entered as a user of it in :meth:`received`,
    or a later batch could be written there while kernels that were started still read it.
    """

    def __init__(self, device: Any) -> None:
        self._device, self._stream = device, framework.cuda.Stream(device)

    def begin(self) -> None:
        """Make copies wait for the trainer's work so far: it may have computed features of the graph."""
        self._stream.wait_stream(framework.cuda.current_stream(self._device))

    def copy(self, x: Any) -> Any:
        """Return a batch on the GPU, all of it copied."""
        with framework.cuda.stream(self._stream):
            result = moved(x, self._device)
            self._stream.synchronize()
        return result

    def received(self, x: Any) -> None:
        """Keep the memory of a batch from being used again before the trainer's stream, of this thread, is done."""
        stream = framework.cuda.current_stream(self._device)
        for tensor in _tensors(x):
            if tensor.device.type == framework.device(self._device).type:
                tensor.record_stream(stream)


def _tensors(x: Any) -> Iterator[Any]:
    """Yield the tensors of a batch and of its graphs' features."""
    if isinstance(x, DGLGraph):
        frames = [frame for frame in (*x.node_frames, *x.edge_frames) if frame is not None]
        x = [column for frame in frames for column in frame.values()]
    if active.is_tensor(x):
        yield x
    elif isinstance(x, Mapping | list | tuple):
        for value in x.values() if isinstance(x, Mapping) else x:
            yield from _tensors(value)
