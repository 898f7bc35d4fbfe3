"""How far along a fit is: the one clock of everything that changes with the steps, and when it may end early.

    learning    the clock goes from 0 towards 1 in equal steps
    finishing   from a plateau on, what is left of the clock passes within a share of the steps made so far: learning
                rates fall to their end, and the number of splats stays

A plateau of a fit whose rates still fall is not its best: most of what is left to gain comes when the rates come down. So
an early end is never abrupt.

Source: warmup-stable-decay schedules, Hu et al. 2024 (MiniCPM), section 4: the decay may begin at any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

FINISHING_SHARE = 0.25
"""Steps of the finishing phase, as a share of the steps before it."""
LOOKS = 40
"""Times the views kept aside are looked at in a fit of all its steps."""
PATIENCE = 4
"""Looks, a tenth of the steps, in which a fit must gain: one look alone is chance."""
VIEWS_MIN = 12
"""Of fewer training views none is kept aside: each of them shows what no other does."""
ASIDE_MIN = 3
"""Views aside: of one alone it is chance which part of the scene it shows."""


class Schedule:
    """The clock of a fit.

    Args:
        steps: Of the fit, if it does not end early.

    Attributes:
        steps: As given.
        plateau_step: The last step before the finishing phase; None while there is none.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.plateau_step: int | None = None

    @property
    def is_finishing(self) -> bool:
        """Whether the steps from now on are the last phase of a fit that ends early."""
        return self.plateau_step is not None

    @property
    def finishing_step(self) -> int:
        """The step before the finishing phase of a fit that met no plateau: its clock goes on as before."""
        return int(self.steps / (1.0 + FINISHING_SHARE))

    @property
    def last_step(self) -> int:
        """The step after which the fit ends."""
        if self.plateau_step is None:
            return self.steps
        return min(self.steps, self.plateau_step + math.ceil(FINISHING_SHARE * self.plateau_step))

    def share(self, step: int) -> float:
        """Returns how far the schedules are at a step, from 1: 0 at the first step and 1 at the last."""
        whole = min(1.0, (step - 1) / max(1, self.steps - 1))
        if self.plateau_step is None or step <= self.plateau_step:
            return whole
        first = (self.plateau_step - 1) / max(1, self.steps - 1)
        passed = (step - self.plateau_step) / max(1, self.last_step - self.plateau_step)
        return first + (1.0 - first) * min(1.0, passed)


class Plateau:
    """Tells from looks at the views kept aside when a fit hardly improves any more.

    Args:
        steps: Of the fit.
        gain_db: What ``PATIENCE`` looks must gain.
    """

    def __init__(self, steps: int, gain_db: float) -> None:
        self._interval = max(1, steps // LOOKS)
        self._gain_db = gain_db
        self._seen_db: list[float] = []

    def is_due(self, step: int) -> bool:
        """Whether it is time to look after a step."""
        return step % self._interval == 0

    def add(self, psnr_db: float) -> bool:
        """Takes in a look; returns whether the best of the last looks is hardly better than the best before them."""
        self._seen_db.append(psnr_db)
        before, last = self._seen_db[:-PATIENCE], self._seen_db[-PATIENCE:]
        return bool(before) and max(last) < max(before) + self._gain_db

    def state_dict(self) -> dict[str, Any]:
        """Returns what a resume needs."""
        return {"seen_db": list(self._seen_db)}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Goes back to what ``state_dict`` returned."""
        self._seen_db = [float(value) for value in values["seen_db"]]


def views_aside(count: int, share: float) -> list[int]:
    """Returns which of ``count`` training views are kept aside, evenly spread; none where they are fewer than 12."""
    if count < VIEWS_MIN:
        return []
    number = max(ASIDE_MIN, round(share * count))
    return sorted({int((place + 0.5) * count / number) for place in range(number)})
