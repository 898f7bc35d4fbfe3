"""Where a fit computes: the processor, or one card. It is decided once, by ``choose_place``, and handed down.

Everything else follows from where the splats and the views lie. What is drawn at random is always drawn on the processor
and sent, so that one seed gives the same numbers everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from splat_engine import native
from splat_engine.formats.errors import UserError
from splat_engine.ops import check_card

logger = logging.getLogger(__name__)

VIEWS_SHARE = 0.25
"""Share of a card's free memory that views may take: a step of the fit needs several times its splats' memory."""


@dataclass(frozen=True)
class Place:
    """A device and the ops that compute there.

    Attributes:
        device: Where tensors lie.
        backend: Of the ops: "cpu", "cuda" or "reference".
    """

    device: torch.device
    backend: str

    def __str__(self) -> str:
        """Returns the device in words, for the records."""
        if self.device.type != "cuda":
            return f"cpu, {native.isa()}, {native.get_num_threads()} threads"
        card = torch.cuda.get_device_properties(self.device)
        return f"{self.device}, {card.name}, {card.total_memory / 2**30:.0f} GiB"

    def memory_bytes(self) -> tuple[int, int] | None:
        """Returns (free, total) bytes of a card's memory; None on the processor, whose system shares and swaps."""
        return torch.cuda.mem_get_info(self.device) if self.device.type == "cuda" else None

    def views_bytes(self) -> int:
        """Returns how much of a card's memory views may take; 0 on the processor, where nothing is sent."""
        memory = self.memory_bytes()
        return 0 if memory is None else int(VIEWS_SHARE * memory[0])


CPU = Place(torch.device("cpu"), "cpu")


def choose_place(name: str, warn: Callable[[str], None] = logger.warning) -> Place:
    """Returns the place that the setting ``device`` names.

    Args:
        name: "cpu"; "cuda", the first card; "cuda:N"; "auto", the first card if torch sees one, else the processor.
        warn: Told in a sentence why "auto" leaves a card alone.

    Raises:
        UserError: The card does not exist, or its kernels cannot be had.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return CPU
    if name != "auto":
        return _card(name)
    try:
        return _card("cuda")
    except UserError as error:
        warn(f"The card is left alone, and the fit is on the processor. {error}")
        return CPU


def _card(name: str) -> Place:
    """The card of a name; its kernels are known to be at hand."""
    if not torch.cuda.is_available():
        built = torch.version.cuda
        raise UserError(
            f"torch sees no NVIDIA card, so the fit cannot be on {name}.",
            "Fit on the processor: --device cpu."
            + ("" if built else " (This torch is built without CUDA: with a card, install another.)"),
        )
    index, count = int(name.partition(":")[2] or 0), torch.cuda.device_count()
    if index >= count:
        raise UserError(
            f"There is no card {name}: torch sees {count}.", f"Choose cuda:0 to cuda:{count - 1}, or cpu."
        )
    device = torch.device("cuda", index)
    check_card(device)
    return Place(device, "cuda")


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor of the processor's memory on a device, without waiting for a card; as it is if it lies there."""
    if tensor.device == device:
        return tensor
    # Only out of pinned memory does a card copy by itself; torch keeps it until the copy is made.
    return tensor.pin_memory().to(device, non_blocking=True)
