"""The splats under optimisation, with everything that is kept for each of them.

``SplatState`` is the one place where rows come and go: parameters, Adam's moments and other per-splat values are
changed together, so a strategy cannot forget one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from splat_engine.fit.morton import morton_order
from splat_engine.formats.conventions import sh_count, sh_degree
from splat_engine.formats.splats import ARRAY_NAMES, Splats

PARAMETER_NAMES = ARRAY_NAMES
"""means, log_scales, quats_wxyz, opacity_logits, sh: the parameter groups."""


class SplatState:
    """N splats: parameters, optimiser moments, and values that are kept but not optimised.

    The spherical harmonics hold only the coefficients in use and grow with ``raise_sh_degree``, which saves the time
    of optimising zeros.

    Attributes:
        params: Group name to a float32 tensor, [N, ...], contiguous. Autograd does not follow them.
        moments: Name to Adam's two moments, [N, ...] each; zero in new rows.
        buffers: Name to [N, ...]; new rows take their parent's.
    """

    def __init__(
        self,
        params: Mapping[str, Tensor],
        moments: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        buffers: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.params = {name: _plain(params[name]) for name in PARAMETER_NAMES}
        self.moments = dict(moments or {})
        self.buffers = dict(buffers or {})

    @classmethod
    def from_splats(cls, splats: Splats) -> SplatState:
        """Returns the state of a cloud, without its metadata."""
        return cls({name: torch.from_numpy(getattr(splats, name)).clone() for name in PARAMETER_NAMES})

    def __len__(self) -> int:
        """Returns N."""
        return int(self.params["means"].shape[0])

    @property
    def device(self) -> torch.device:
        """Where everything lies."""
        return self.params["means"].device

    @property
    def sh_degree(self) -> int:
        """The degree in use."""
        return sh_degree(self.params["sh"].shape[1])

    def to_splats(self, metadata: Mapping[str, str] | None = None, sh_degree: int | None = None) -> Splats:
        """Returns a copy as a cloud, its SH filled with zeros up to ``sh_degree`` if that is given."""
        arrays: dict[str, Any] = {name: value.cpu().numpy().copy() for name, value in self.params.items()}
        splats = Splats(**arrays, metadata=dict(metadata or {}))
        return splats if sh_degree is None else splats.with_sh_degree(max(sh_degree, splats.sh_degree))

    def add_moments(self, name: str, like: Tensor) -> tuple[Tensor, Tensor]:
        """Returns a group's moments, made of zeros when first asked for."""
        if name not in self.moments:
            self.moments[name] = (torch.zeros_like(like), torch.zeros_like(like))
        return self.moments[name]

    @torch.no_grad()
    def rearrange(self, kept: Tensor, parents: Tensor, changed: Mapping[str, Tensor]) -> None:
        """Drops and adds rows of everything; where memory runs out half-way, the state ``is_whole`` no more.

        Args:
            kept: [M] indices of the rows that stay, in their new order.
            parents: [A] indices of the rows that new rows are copies of; they come behind the kept ones.
            changed: Group name to [A, ...] values in which the new rows differ from their parents.
        """
        source = torch.cat((kept, parents))
        for name, value in self.params.items():
            rows = value[source]
            if name in changed:
                rows[len(kept) :] = changed[name]
            self.params[name] = _plain(rows)
        self.buffers = {name: value[source].contiguous() for name, value in self.buffers.items()}
        for name, pair in self.moments.items():
            rows_of_pair = [value[source] for value in pair]
            for rows in rows_of_pair:
                rows[len(kept) :] = 0
            self.moments[name] = (rows_of_pair[0], rows_of_pair[1])

    def begin(self, params: Mapping[str, Tensor]) -> None:
        """Takes other splats in place of all; moments and buffers begin anew."""
        self.params = {name: _plain(params[name]) for name in PARAMETER_NAMES}
        self.moments.clear()
        self.buffers.clear()

    def sort_by_place(self) -> None:
        """Puts the rows of everything into Morton's order of the means: what is near in space is near in memory."""
        order = morton_order(self.params["means"])
        self.rearrange(order, order[:0], {})

    def is_whole(self) -> bool:
        """Tells whether everything has the same rows, which a ``rearrange`` that was broken off leaves untrue."""
        moments = [value for pair in self.moments.values() for value in pair]
        everything = [*self.params.values(), *moments, *self.buffers.values()]
        same_sh = all(value.shape == self.params["sh"].shape for value in self.moments.get("sh", ()))
        return same_sh and all(len(value) == len(self) for value in everything)

    @torch.no_grad()
    def overwrite(self, name: str, values: Tensor) -> None:
        """Sets a whole group, and its moments to zero."""
        self.params[name].copy_(values)
        for moment in self.moments.get(name, ()):
            moment.zero_()

    @torch.no_grad()
    def raise_sh_degree(self, degree: int) -> None:
        """Adds SH coefficients up to a degree, as zeros; a lower degree than the present changes nothing."""
        missing = sh_count(degree) - self.params["sh"].shape[1]
        if missing <= 0:
            return

        def widen(values: Tensor) -> Tensor:
            return torch.cat((values, values.new_zeros(len(self), missing, 3)), dim=1)

        self.params["sh"] = _plain(widen(self.params["sh"]))
        if "sh" in self.moments:
            first, second = self.moments["sh"]
            self.moments["sh"] = (widen(first), widen(second))

    def to(self, device: torch.device) -> SplatState:
        """Returns the state on a device; tensors that lie there already are shared."""
        return SplatState(
            {name: value.to(device) for name, value in self.params.items()},
            {name: (first.to(device), second.to(device)) for name, (first, second) in self.moments.items()},
            {name: value.to(device) for name, value in self.buffers.items()},
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns everything, for a checkpoint: in the processor's memory, so that it can be read without a card."""
        state = self.to(torch.device("cpu"))
        return {"params": state.params, "moments": state.moments, "buffers": state.buffers}

    @classmethod
    def from_state_dict(cls, values: Mapping[str, Any]) -> SplatState:
        """Returns the state that ``state_dict`` described, in the processor's memory."""
        moments = {name: (pair[0], pair[1]) for name, pair in values["moments"].items()}
        return cls(values["params"], moments, values["buffers"])


def _plain(values: Tensor) -> Tensor:
    return values.detach().contiguous()
