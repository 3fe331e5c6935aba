"""Steps of lazy batches on a GPU, a launch each; what they read of the host's is copied there once for each sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ....errors import DGLError
from ....kernels.cpu.dynamic.batching import PLACE_BITS
from ....kernels.cpu.dynamic.kernels import step_of
from ....kernels.cuda.dynamic.chains import step_grid, step_program
from ....kernels.render.rows import FIRST_PLACE, WORDS_PER_PLACE
from ....kernels.spec import ITEM_BYTES
from ....ops import devices
from ...execution.parcel import ArrayParcel

if TYPE_CHECKING:
    from ..session import Session

_UPLOADS = "what was copied to the GPU"


def bring(session: Session) -> None:
    """Copy what the host gave to a session to its device, unless it is there, and note where it lies."""
    device, uploads = session.device, session.caches.setdefault(_UPLOADS, {})
    if device.type == "cpu":
        return
    _check_devices(session)
    host_values = {node: x.view(-1).numpy() for node, x in session.given_at.items() if x.is_cpu and node not in uploads}
    pools = {ref >> PLACE_BITS: np.array(pool) for pool, ref in session.pools.values()}
    host_values |= {node: x for node, x in pools.items() if node not in uploads or len(uploads[node][1]) != len(x)}
    if host_values:
        parcel = ArrayParcel()
        numbers = {node: parcel.add(array) for node, array in host_values.items()}
        parcel.stage(device)
        there = parcel.send()
        uploads |= {node: (parcel.address(number), host_values[node], there) for node, number in numbers.items()}
    for node, (address, *_) in uploads.items():
        session.where[node] = address


def _check_devices(session: Session) -> None:
    """Raise where something that wants a gradient, or a weight, is not on the session's device."""
    external = [x.tensor for x in session.external.values() if x.tensor.requires_grad]
    for x in (*external, *(tensor for tensor, _ in session.parameters.values())):
        if x.device != session.device:
            raise DGLError(
                f"a tensor of shape {list(x.shape)} that is a parameter or wants a gradient is on {x.device}, but "
                f"others of what was recorded are on {session.device}: move the whole model there"
            )


def perform(device: torch.device, work: tuple[Any, ...], by_torch: Callable[[int], None]) -> None:
    """Run a sweep: steps as launches, batches of operations on matrices ``by_torch``."""
    words, starts, lists, rows, _ = work
    runner, (memory, address) = _runner(device), _sent(device, words, lists)
    for heavy, first, last, _, apart in rows.tolist():
        if heavy:
            by_torch(first)
            continue
        for at in starts[first:last].tolist():
            of_step = words[at : at + FIRST_PLACE + WORDS_PER_PLACE]
            _launch(runner, of_step, address + 8 * at, bool(apart) or _is_apart(of_step, lists))
    del memory  # in the order of the stream: the kernels above have read it


def run_step(device: torch.device, words: np.ndarray, addresses: np.ndarray) -> None:
    """Run one step, whose words may have the address of the list ``addresses``."""
    memory, address = _sent(device, words, addresses)
    spec, width = step_of(int(words[0])), int(words[2])
    apart = not spec.add or _are_apart(addresses, width * ITEM_BYTES[spec.dtype])
    _launch(_runner(device), words, address, apart)
    del memory


def _sent(device: torch.device, words: np.ndarray, lists: np.ndarray) -> tuple[torch.Tensor, int]:
    """Copy words, and lists whose addresses they have, to a device; return that memory and where the words are."""
    parcel = ArrayParcel()
    number, listed = parcel.add(words), parcel.add(lists)
    parcel.stage(device)
    parcel.change_into(listed, parcel.view(number))
    return parcel.send(), parcel.address(number)


def _launch(runner: Any, words: np.ndarray, address: int, apart: bool) -> None:
    kernel, rows, width = words[:FIRST_PLACE].tolist()
    spec = step_of(kernel)
    runner.launch(step_program(spec), "run", step_grid(spec, rows, width, apart), (address, int(apart)))


def _is_apart(words: np.ndarray, lists: np.ndarray) -> bool:
    """Return whether no two rows of a step's only result overlap; of several results that is not looked for."""
    spec, (_, rows, width, begin, distance, listed) = step_of(int(words[0])), words.tolist()
    if rows == 1 or len(spec.formulas) > 1:
        return bool(rows == 1)
    size = (1 if spec.total else width) * ITEM_BYTES[spec.dtype]
    if not listed:
        return not begin or abs(distance) >= size
    first = (listed - lists.ctypes.data) // 8
    return _are_apart(lists[first : first + rows], size)


def _are_apart(addresses: np.ndarray, size: int) -> bool:
    gaps = np.diff(np.sort(addresses[addresses != 0]))
    return bool(gaps.min(initial=size) >= size)


def _runner(device: torch.device) -> Any:
    return devices.device_on(device).queue
