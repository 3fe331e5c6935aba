"""A GPU for tests: a device of torch's whose memory the host cannot touch, with the emulated CUDA kernels.

``device.cpp`` is the device, compiled here: real tensors of torch on ``fake_device:0``, whose autograd, allocator,
streams and pinned memory are torch's as on a GPU. It writes down each copy between host and device and each time that
the host would wait for a GPU. dglite's kernels are started on it as on a GPU, and run by the emulator.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np
import torch
from torch.utils import cpp_extension

from dglite.backend import active
from dglite.errors import DGLError
from dglite.kernels import store
from dglite.kernels.cuda.run.emulate import Emulator
from dglite.kernels.cuda.run.program import CudaProgram, Memory
from dglite.ops import devices

__all__ = ["DEVICE", "KIND", "Events", "install", "limited_memory", "recorded"]

KIND = "fake_device"
DEVICE = f"{KIND}:0"
EMULATOR = Emulator()


# -- the device --------------------------------------------------------------------------------------------------------
def _built() -> Path:
    """Return the library, compiled where it is not in the cache."""
    source = Path(__file__).with_name("device.cpp")
    key = hashlib.sha256(f"{torch.__version__}\n{source.read_text(encoding='utf-8')}".encode()).hexdigest()[:20]
    folder = store.folder("emulated") or Path(tempfile.mkdtemp())
    path = folder / f"fake_device_{key}.so"
    with open(folder / "fake_device.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            _compile(source, path)
    return path


def _compile(source: Path, path: Path) -> None:
    include = [f"-I{folder}" for folder in cpp_extension.include_paths()]
    libraries = [f"-L{folder}" for folder in cpp_extension.library_paths()]
    half = path.with_suffix(".half")
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", *include, str(source), "-o", str(half), *libraries]
    subprocess.run([*command, "-lc10", "-ltorch_cpu", "-ltorch"], check=True)
    half.rename(path)


@functools.cache
def install() -> Any:
    """Add the device to torch, before anything has run backward, and its kernels to dglite; return its functions."""
    torch.utils.rename_privateuse1_backend(KIND)
    path = str(_built())
    torch.ops.load_library(path)
    library = ctypes.CDLL(path)
    library.fake_events.restype = ctypes.c_char_p
    for name in ("fake_base", "fake_used", "fake_live"):
        getattr(library, name).restype = ctypes.c_size_t
    module: Any = ModuleType(f"torch.{KIND}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count, module.current_device = (lambda: 1), (lambda: 0)
    module._is_in_bad_fork, module.manual_seed_all = (lambda: False), (lambda seed: None)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    torch._register_device_module(KIND, module)
    devices.RUNNERS[KIND] = _Fake()
    type(active).stream = lambda self, device: int(library.fake_stream())  # type: ignore[method-assign]
    return library


@final
class _Fake:
    """The fake device's kernels."""

    def why_unavailable(self) -> str:
        return ""

    def runner(self, number: int, stream: int, allocator: Any) -> FakeRunner:
        return FakeRunner(allocator)


@final
class FakeRunner:
    """Runs kernels on the emulator while the device's memory is open to it; no address of the host's may reach one."""

    blocks = 2

    def __init__(self, allocator: Any) -> None:
        self._allocator, self._library = allocator, install()

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        self._check(program.name(kernel), words)
        with self._opened():
            EMULATOR.launch(program, kernel, grid, words)

    def bind(self, program: CudaProgram, kernel: str, grid: tuple[int, int], count: int) -> Callable[[Any], None]:
        def start(arguments: Any) -> None:
            assert len(arguments) == count
            self.launch(program, kernel, grid, arguments)

        return start

    def launch_together(self, program: CudaProgram, kernel: str, blocks: int, words: Sequence[int | float]) -> None:
        self._check(program.name(kernel), words)
        with self._opened():
            EMULATOR.launch_together(program, kernel, blocks, words)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._library.fake_open()
        try:
            yield
        finally:
            self._library.fake_close()

    def _check(self, kernel: str, words: Sequence[int | float]) -> None:
        first = self._library.fake_base()
        for place, word in enumerate(words):
            is_address = isinstance(word, int) and 1 << 40 <= word < 1 << 47
            if is_address and not first <= word < first + self._library.fake_used():
                raise DGLError(f"{kernel}: word {place} is an address in the host's memory")

    def empty(self, num_bytes: int) -> Memory:
        return self._allocator.empty(num_bytes)

    def upload(self, array: np.ndarray) -> Memory:
        return self._allocator.upload(array)

    def write(self, address: int, array: np.ndarray) -> None:
        self._library.fake_note(f"copy: to device {array.nbytes}".encode())
        self._library.fake_note(b"wait: copy to device")
        with self._opened():
            EMULATOR.write(address, array)

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        self._library.fake_note(f"copy: to host {count * np.dtype(dtype).itemsize}".encode())
        self._library.fake_note(b"wait: copy to host")
        with self._opened():
            return EMULATOR.download(address, count, dtype)


# -- what has happened -------------------------------------------------------------------------------------------------
class Events(list[str]):
    """What the device has noted: ``copy: to device <bytes>``, ``copy: to host <bytes>``, ``wait: <why>``."""

    @property
    def waits(self) -> list[str]:
        """Why the host waited for the device, each time."""
        return [event.removeprefix("wait: ") for event in self if event.startswith("wait: ")]

    @property
    def copies(self) -> list[str]:
        """Copies between host and device."""
        return [event.removeprefix("copy: ") for event in self if event.startswith("copy: ")]


@contextmanager
def recorded() -> Iterator[Events]:
    """Give the list of what happens meanwhile, filled at the end."""
    library, events = install(), Events()
    library.fake_events()
    yield events
    events += library.fake_events().decode().splitlines()


@contextmanager
def limited_memory(num_bytes: int) -> Iterator[None]:
    """Let the device have so much more memory than is in use, and no more."""
    library = install()
    library.fake_limit(ctypes.c_size_t(library.fake_live() + num_bytes))
    try:
        yield
    finally:
        library.fake_limit(ctypes.c_size_t(0))
