"""NVIDIA's driver, called through ``ctypes``: kernels are loaded, started, and memory is copied, on torch's context.

A device has one *primary* context, which torch and CuPy work in; :class:`CudaDevice` joins it. Its memory and its
streams are theirs.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property
from threading import Lock, local
from typing import Any, final

from ....errors import DGLError
from .program import BLOCK

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
"""The library that is installed with the driver."""
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
_ARGUMENTS, _SIZE_OF_ARGUMENTS = 1, 2
"""What says that the address of all arguments follows, and of their size: one piece costs less than many addresses."""
_REFUSED = (200, 209, 218, 222)
"""Errors of a module that is no image, has no code for the device, is invalid PTX, or PTX of a newer version."""
_EARLIER = (700, 702, 714, 715, 716, 717, 718, 719)
"""Errors that a kernel left behind: wrong addresses, time-outs, wrong instructions, failed launches."""
_INT, _UINT, _SIZE, _WORD = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_WORD,),
    "cuDeviceGet": (_WORD, _INT),
    "cuDeviceGetAttribute": (_WORD, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_WORD, _INT),
    "cuCtxGetCurrent": (_WORD,),
    "cuCtxPushCurrent_v2": (_WORD,),
    "cuCtxPopCurrent_v2": (_WORD,),
    "cuModuleLoadData": (_WORD, ctypes.c_char_p),
    "cuModuleGetFunction": (_WORD, _WORD, ctypes.c_char_p),
    "cuLaunchKernel": (_WORD, *(_UINT,) * 7, _WORD, _WORD, _WORD),
    "cuLaunchCooperativeKernel": (_WORD, *(_UINT,) * 7, _WORD, _WORD),
    "cuMemcpyHtoDAsync_v2": (_WORD, _WORD, _SIZE, _WORD),
    "cuMemcpyDtoHAsync_v2": (_WORD, _WORD, _SIZE, _WORD),
    "cuStreamSynchronize": (_WORD,),
}

_HERE = nullcontext()


def _numbers(kind: Any, *values: int) -> tuple[Any, ...]:
    return tuple([kind(value) for value in values])


class DriverError(DGLError):
    """A call that the driver answered with an error, by its number."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


@final
class Driver:
    """The driver's functions; one that fails raises :class:`DriverError`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._functions: dict[str, Any] = {}
        for name, arguments in _SIGNATURES.items():
            function = self._functions[name] = getattr(library, name)
            function.argtypes = arguments
        self._current, self._answer = self._functions["cuCtxGetCurrent"], local()
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function."""
        number = self._functions[name](*arguments)
        if number:
            raise self.error(name, number)

    def ask(self, name: str, *arguments: Any, kind: Any = _INT) -> int:
        """Call a function that writes a number of type ``kind`` to its first argument; return the number."""
        answer = kind()
        self.call(name, ctypes.byref(answer), *arguments)
        return answer.value or 0

    @cached_property
    def launcher(self) -> Any:
        """Return ``cuLaunchKernel`` for arguments that are numbers of C: Python's would be converted at each call."""
        return ctypes.CFUNCTYPE(_INT)(ctypes.cast(self._functions["cuLaunchKernel"], _WORD).value or 0)

    def current_context(self) -> int:
        """Return the context that this thread works in, or 0."""
        try:
            context, place = self._answer.context
        except AttributeError:
            context = _WORD()
            place = ctypes.byref(context)
            self._answer.context = context, place
        number = self._current(place)
        if number:
            raise self.error("cuCtxGetCurrent", number)
        return context.value or 0

    @cached_property
    def version(self) -> tuple[int, int]:
        """The newest CUDA version that the driver supports."""
        number = self.ask("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def error(self, name: str, number: int) -> DriverError:
        """Return the error for a function that answered ``number``."""
        parts = []
        for describe in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if not getattr(self._library, describe)(number, ctypes.byref(text)) and text.value:
                parts.append(text.value.decode())
        message = f"{name}: {', '.join(parts) or f'error {number}'}"
        if number in _EARLIER:
            message += (
                ". A kernel that was started before this call has failed, of dglite or of another library; "
                "CUDA_LAUNCH_BLOCKING=1 shows which, and this process has to be started again"
            )
        return DriverError(number, message)


@cache
def find_driver() -> Driver | str:
    """Return the driver, or why there is none."""
    try:
        return Driver(ctypes.CDLL(LIBRARY))
    except OSError:
        return f"no NVIDIA driver is installed ({LIBRARY} is not there)"
    except (AttributeError, DGLError) as error:
        return f"the NVIDIA driver cannot be used ({error})"


@final
class CudaDevice:
    """One GPU, and the kernels that were loaded on it, which all streams share."""

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver, self._lock = driver, Lock()
        self._device = driver.ask("cuDeviceGet", number)
        self._context = driver.ask("cuDevicePrimaryCtxRetain", self._device, kind=_WORD)
        self.functions: dict[str, int] = {}
        """Handles of the kernels that are loaded, by name."""

    @cached_property
    def arch(self) -> int:
        """The compute capability; 90 is 9.0."""
        return 10 * self._attribute(_MAJOR) + self._attribute(_MINOR)

    @cached_property
    def multiprocessors(self) -> int:
        """How many multiprocessors there are."""
        return self._attribute(_MULTIPROCESSORS)

    def _attribute(self, number: int) -> int:
        return self._driver.ask("cuDeviceGetAttribute", number, self._device)

    def bind(self, function: int, grid: tuple[int, int], stream: int, count: int) -> Callable[[array], None]:
        """Return what starts a kernel with ``count`` arguments, any number of times, in any thread."""
        start, size = self._driver.launcher, array("q", (8 * count,))
        shape = *_numbers(_WORD, function), *_numbers(_UINT, *grid, 1, BLOCK, 1, 1, 0), *_numbers(_WORD, stream, 0)
        size_at, current, context = size.buffer_info()[0], self._driver.current_context, self._context

        def launch(arguments: array, _read_by_driver: array = size) -> None:
            # The driver copies the arguments before it returns.
            whole = array("q", (_ARGUMENTS, arguments.buffer_info()[0], _SIZE_OF_ARGUMENTS, size_at, 0))
            place = whole.buffer_info()[0]
            if current() == context:
                number = start(*shape, _WORD(place))
            else:
                with self._moved():
                    number = start(*shape, _WORD(place))
            if number:
                raise self._driver.error("cuLaunchKernel", number)

        return launch

    def launch_together(self, function: int, blocks: int, stream: int, arguments: array) -> None:
        """Start a kernel with all blocks at once, which the driver refuses if they are too many."""
        first, count = arguments.buffer_info()
        pointers = array("q", range(first, first + 8 * count, 8))
        with self._entered():
            shape = (function, blocks, 1, 1, BLOCK, 1, 1, 0, stream)
            self._driver.call("cuLaunchCooperativeKernel", *shape, pointers.buffer_info()[0])

    def load(self, names: Sequence[str], make: Callable[[], bytes], compiler: Any) -> None:
        """Load the kernels called ``names`` from the code that ``make`` gives, unless they are there.

        ``compiler`` made the code; its ``version`` and its name are for the error if the driver refuses it.
        """
        with self._lock:
            if names[0] not in self.functions:
                self.functions.update(self._loaded(names, make(), compiler))

    def _loaded(self, names: Sequence[str], code: bytes, compiler: Any) -> dict[str, int]:
        # From memory: a file could be another one by the time that the driver reads it.
        driver = self._driver
        with self._entered():
            try:
                module = driver.ask("cuModuleLoadData", code, kind=_WORD)
            except DriverError as error:
                if error.number in _REFUSED:
                    raise DGLError(self._refusal(error, compiler)) from error
                raise
            return {name: driver.ask("cuModuleGetFunction", module, name.encode(), kind=_WORD) for name in names}

    def _refusal(self, error: DriverError, compiler: Any) -> str:
        driver = ".".join(map(str, self._driver.version))
        message = f"the driver, for CUDA {driver}, refuses code that {compiler} made for sm_{self.arch}: {error}"
        if compiler.version <= self._driver.version:
            return message
        return (
            f"{message}. The compiler is newer than the driver: update the driver, or install a torch or an "
            f"nvidia-cuda-nvrtc of CUDA {driver} or older"
        )

    def copy_to_device(self, address: int, source: int, num_bytes: int, stream: int) -> None:
        """Copy from the host in the order of a stream; returns when the source may be changed."""
        if num_bytes:
            with self._entered():
                self._driver.call("cuMemcpyHtoDAsync_v2", address, source, num_bytes, stream)

    def copy_to_host(self, address: int, source: int, num_bytes: int, stream: int) -> None:
        """Copy to the host, and wait until all that was started on the stream has run."""
        with self._entered():
            if num_bytes:
                self._driver.call("cuMemcpyDtoHAsync_v2", address, source, num_bytes, stream)
            self._driver.call("cuStreamSynchronize", stream)

    def _entered(self) -> AbstractContextManager[None]:
        """Work in this device's context, and leave the thread in the one that it was in: torch's current device."""
        return _HERE if self._driver.current_context() == self._context else self._moved()

    @contextmanager
    def _moved(self) -> Iterator[None]:
        self._driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.ask("cuCtxPopCurrent_v2", kind=_WORD)
