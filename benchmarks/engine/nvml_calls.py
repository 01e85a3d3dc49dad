"""One GPU as NVML answers for it. Each call may be refused on its own, for good or just this time; the refusal is words,
and a call that was refused for good is not made again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

NO_DRIVER = "no NVIDIA driver on this host"
NO_GPU = "no NVIDIA GPU on this host"
NOT_SUPPORTED = "not supported by this GPU"
NO_PERMISSION = "this worker has no right to ask the GPU for it"
NO_FUNCTION = "the driver is too old to say"
LOST = "the GPU is lost: the driver cannot reach it any more"

# pynvml is untyped, and which library it loads is the seam: tests lay a stub libnvidia-ml.so.1 in its way.
Nvml = Any
Handle = Any
T = TypeVar("T")


class Silence(msgspec.Struct, frozen=True):
    """Why there is no value."""

    reason: str


class Gpu:
    """A card and what it has refused so far. `uuid` names it: an index may mean another card after the next start."""

    def __init__(self, library: Nvml, handle: Handle, uuid: str, unreachable: str = "") -> None:
        """`unreachable`: why it cannot be asked anything."""
        self.nvml, self.handle, self.uuid = library, handle, uuid
        self._unreachable = unreachable
        self._refused: dict[str, Silence] = {}
        self._works: dict[str, int] = {}

    def ask(self, what: str, *calls: Callable[[], T]) -> T | Silence:
        """The answer of the first call that this driver and card know; `what` is under which name a refusal is kept."""
        if self._unreachable:
            return Silence(self._unreachable)
        if kept := self._refused.get(what):
            return kept
        silence = Silence(NOT_SUPPORTED)
        for place in range(self._works.get(what, 0), len(calls)):
            try:
                answer = calls[place]()
            except self.nvml.NVMLError as error:
                silence, final = self._refusal(error)
                if final:
                    continue
                return silence
            self._works[what] = place
            return answer
        self._refused[what] = silence
        return silence

    @property
    def lost(self) -> bool:
        return self._unreachable == LOST

    def _refusal(self, error: Exception) -> tuple[Silence, bool]:
        """In words, and whether asking in the same way again would never help."""
        nvml = self.nvml
        if isinstance(error, nvml.NVMLError_GpuIsLost):
            self._unreachable = LOST
            return Silence(LOST), False
        if isinstance(error, nvml.NVMLError_NotSupported):
            return Silence(NOT_SUPPORTED), True
        if isinstance(error, nvml.NVMLError_NoPermission):
            return Silence(NO_PERMISSION), True
        if isinstance(error, nvml.NVMLError_FunctionNotFound | nvml.NVMLError_ArgumentVersionMismatch):
            return Silence(NO_FUNCTION), True
        return Silence(f"NVML: {error}"), False


class Cards(msgspec.Struct, frozen=True):
    """Every GPU of this host in the driver's order; `unavailable` says why there is none."""

    gpus: tuple[Gpu, ...]
    unavailable: str = ""


def open_cards(library: Nvml) -> Cards:
    """Starts NVML. A card that is lost already is among them, named by its index, since it cannot say its UUID."""
    try:
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
    except library.NVMLError_LibraryNotFound:
        return Cards((), NO_DRIVER)
    except library.NVMLError as error:
        return Cards((), f"NVML did not start: {error}")
    return Cards(tuple(_card(library, index) for index in range(count)), "" if count else NO_GPU)


def close_cards(library: Nvml) -> None:
    """Lets go of NVML in a process that lives on; it may be opened again, after a new driver too."""
    with contextlib.suppress(library.NVMLError):
        library.nvmlShutdown()


def _card(library: Nvml, index: int) -> Gpu:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        return Gpu(library, handle, _text(library.nvmlDeviceGetUUID(handle)))
    except library.NVMLError as error:
        lost = isinstance(error, library.NVMLError_GpuIsLost)
        return Gpu(library, None, f"GPU {index}", LOST if lost else f"NVML: {error}")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
