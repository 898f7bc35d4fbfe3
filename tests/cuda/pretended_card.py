"""A device that does not exist: tensors say they lie on it, though their numbers are in the processor's memory.

Together with the emulation a whole fit runs as on a card, and two things are seen that a plain emulation hides:

* where a tensor of the processor meets one of the card (an error, as on a card);
* where the processor would have to wait for the card (listed in ``waits``, with the line that did it).

torch takes devices of other makers, also ones written in Python; the pretended card is such a device, named "pretended".
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

ROOT = Path(__file__).resolve().parents[2]
NAME = "pretended"

_ops = torch.ops.aten
SIZES_UNKNOWN = {
    _ops.nonzero.default,
    _ops.masked_select.default,
    _ops._unique2.default,
    _ops.unique_dim.default,
    _ops.unique_consecutive.default,
    _ops.bincount.default,
    _ops.repeat_interleave.Tensor,
    _ops.equal.default,
}
"""Ops whose result has a size, or is a value, that the processor must ask a card for."""
INDEXING = {_ops.index.Tensor, _ops.index_put.default, _ops.index_put_.default}
COPIES = {_ops._to_copy.default, _ops.copy_.default}


class CardTensor(Tensor):
    """A tensor on the pretended card.

    Attributes:
        host: The same memory as a plain tensor.
    """

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> CardTensor:  # noqa: D102
        made = Tensor._make_subclass(
            cls, host, host.requires_grad, dispatch_device=True, device_for_backend_keys=the_card()
        )
        made.host = host
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The pretended card."""
        return the_card()

    def numpy(self, *, force: bool = False) -> Any:
        """Refused, as for any tensor on a card."""
        raise TypeError("can't convert a tensor on the pretended card to numpy: use Tensor.cpu()")

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.prim.device.default:
            return the_card()
        raise AssertionError(f"{func} on the pretended card, outside of pretended_card()")


@cache
def the_card() -> torch.device:
    """Registers the device with torch, once a process."""
    _setup_privateuseone_for_python_backend(NAME)
    return torch.device(NAME, 0)


class Waits(TorchDispatchMode):
    """Runs every op of torch, and lists those for which the processor would wait for the card.

    Attributes:
        waits: "op at file:line" of each, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.prim.device.default:
            return args[0].device
        given = [value for value in _pytree.tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        if func is _ops._pin_memory.default:
            return _pinned(given[0])
        if func is _ops.is_pinned.default:
            return getattr(given[0], "is_pinned_for_card", False)
        self._look(func, given, args, kwargs)
        on_card = _is_for_card(func, given, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        args_there, kwargs_there = _pytree.tree_map(_host, (args, kwargs))
        with _disable_current_modes():
            out = func(*args_there, **kwargs_there)
        if func._schema.name.endswith("_"):  # in place: the same object comes back
            return args[0]
        return _pytree.tree_map(lambda v: CardTensor(v) if on_card and isinstance(v, Tensor) else v, out)

    def _look(self, func: Any, given: list[Tensor], args: Any, kwargs: dict[str, Any]) -> None:
        there = [value for value in given if isinstance(value, CardTensor)]
        if func in COPIES:
            self._look_at_copy(func, args, kwargs)
            return
        if not there:
            return
        if func is _ops._local_scalar_dense.default or func in SIZES_UNKNOWN:
            self._wait(func)
        if func in INDEXING and any(_is_mask(index) for index in args[1]):
            self._wait(func)
        strangers = [value for value in given if not isinstance(value, CardTensor) and value.dim() > 0]
        if strangers:
            shapes = [tuple(value.shape) for value in strangers]
            raise RuntimeError(
                f"{func} at {_line()}: tensors of the processor {shapes} meet tensors of the card"
            )

    def _look_at_copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if func is _ops.copy_.default:
            source, to_card = args[1], isinstance(args[0], CardTensor)
            may_run_ahead = len(args) > 2 and args[2]
        else:
            source, may_run_ahead = args[0], kwargs.get("non_blocking", False)
            wanted = kwargs.get("device")
            to_card = isinstance(source, CardTensor) if wanted is None else wanted.type == NAME
        if isinstance(source, CardTensor) == to_card or (to_card and source.dim() == 0):
            return
        if not (to_card and may_run_ahead and getattr(source, "is_pinned_for_card", False)):
            self._wait(func)

    def _wait(self, func: Any) -> None:
        self.waits.append(f"{func} at {_line()}")


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _is_for_card(func: Any, given: list[Tensor], kwargs: dict[str, Any]) -> bool:
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"]).type == NAME
    return any(isinstance(value, CardTensor) for value in given)


def _host(value: Any) -> Any:
    return value.host if isinstance(value, CardTensor) else value


def _pinned(tensor: Tensor) -> Tensor:
    with _disable_current_modes():
        copy = tensor.clone()
    copy.is_pinned_for_card = True  # type: ignore[attr-defined]
    return copy


def _line() -> str:
    """The innermost line of the product on the stack."""
    for frame in reversed(traceback.extract_stack()):
        if "splat_engine" in frame.filename:
            return f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"
    return "a test"


@contextmanager
def pretended_card() -> Iterator[tuple[torch.device, list[str]]]:
    """While it lasts there is a pretended card; gives the device and the list of waits, which the caller may clear."""
    # torch gives each device known when its engine first ran a thread for the backward; this one comes later.
    with Waits() as mode, torch.autograd.set_multithreading_enabled(False):
        yield the_card(), mode.waits


def waits_of(work: Callable[[], object], waits: list[str]) -> list[str]:
    """Returns the waits of one piece of work."""
    waits.clear()
    work()
    return list(waits)
