"""Launches kernels on a card: loads its modules once, and gives each kernel to the stream that torch is using.

The driver's own context stack is the device guard, not ``torch.cuda.device``: a thread of autograd's that has not touched
the card yet has no context at all, and torch's guard makes none where the index is the current one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p

import torch

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda.driver import Driver, load_driver
from splat_engine.ops._cuda.kernels import KernelSet, find_kernels

SHARED_BYTES_UNASKED = 48 << 10
"""Shared memory that every card gives a block without being asked."""

_Parameters = c_void_p * 1


class Card:
    """One card, as ``launch.Launcher`` wants it; safe for several threads.

    Args:
        driver: NVIDIA's driver.
        index: the card's number, as in "cuda:1".
        current_stream: gives the stream to launch on, as the driver's handle.
        find: gives the kernels for a compute capability and a driver's CUDA version.
    """

    def __init__(
        self,
        driver: Driver,
        index: int,
        current_stream: Callable[[], int],
        find: Callable[[tuple[int, int], int], KernelSet] = find_kernels,
    ) -> None:
        device = driver.device(index)
        self.name = f"cuda:{index}, {driver.device_name(device)}"
        self._driver = driver
        self._get_current = driver.library.cuCtxGetCurrent
        self._launch_kernel = driver.library.cuLaunchKernel
        self._current_stream = current_stream
        self._kernels = find(driver.capability(device), driver.cuda)
        self._context = driver.primary_context(device)
        self._lock = threading.Lock()
        self._modules: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._shared_bytes: dict[str, int] = {}

    def launch(
        self, entry: str, arguments: ctypes.Structure, *, grid: tuple[int, int], block: int, shared_bytes: int
    ) -> None:
        """Launches one kernel on the current stream; see ``launch.Launcher``.

        Raises:
            UserError: no such kernel, or the driver refused, perhaps for a failure of an earlier kernel.
        """
        function = self._functions.get(entry)
        if function is None:
            function = self._load(entry)
        if shared_bytes > SHARED_BYTES_UNASKED:
            self._allow_shared(function, shared_bytes, entry)
        stream = self._current_stream()
        parameters = _Parameters(ctypes.addressof(arguments))
        entered = self._enter()
        code = self._launch_kernel(
            function, grid[0], grid[1], 1, block, 1, 1, shared_bytes, stream, parameters, None
        )
        if entered:
            self._leave()
        if code != 0:
            self._driver.check(code, f"launching {entry} on {self.name}")

    def _enter(self) -> bool:
        """Makes this card's context current; returns False if it was."""
        current = c_void_p()
        self._get_current(byref(current))
        if current.value == self._context:
            return False
        code = self._driver.library.cuCtxPushCurrent_v2(self._context)
        self._driver.check(code, f"turning to {self.name}")
        return True

    def _leave(self) -> None:
        """Makes the context current that was before ``_enter`` returned True."""
        self._driver.library.cuCtxPopCurrent_v2(byref(c_void_p()))

    @contextmanager
    def _current(self) -> Iterator[None]:
        entered = self._enter()
        try:
            yield
        finally:
            if entered:
                self._leave()

    def _load(self, entry: str) -> int:
        """A kernel's handle; its module is loaded if need be."""
        module = self._kernels.module_of.get(entry)
        if module is None:
            raise UserError(
                f"There is no CUDA kernel {entry} in {self._kernels.origin}.", "Please report this."
            )
        with self._lock, self._current():
            if module not in self._modules:
                doing = f"loading {module} ({self._kernels.origin}) on {self.name}"
                self._modules[module] = self._driver.load(self._kernels.modules[module], doing)
            self._functions[entry] = self._driver.function(self._modules[module], entry)
        return self._functions[entry]

    def _allow_shared(self, function: int, shared_bytes: int, entry: str) -> None:
        with self._lock, self._current():
            if shared_bytes > self._shared_bytes.get(entry, SHARED_BYTES_UNASKED):
                self._driver.allow_shared(function, shared_bytes, entry)
                self._shared_bytes[entry] = shared_bytes


_cards: dict[int, Card] = {}
_lock = threading.Lock()


def card_launcher(device: torch.device) -> Card:
    """The card of a torch device, opened once.

    Args:
        device: "cuda", which is torch's current one, or "cuda:1".

    Raises:
        UserError: no driver, no such card, or no kernels for it.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    card = _cards.get(index)
    if card is None:
        with _lock:
            if index not in _cards:
                _cards[index] = Card(load_driver(), index, _stream_of(torch.device("cuda", index)))
            card = _cards[index]
    return card


def _stream_of(device: torch.device) -> Callable[[], int]:
    def current_stream() -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    return current_stream
