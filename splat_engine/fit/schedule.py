"""How far along a fit is: the one clock of everything that changes with the steps, and when it may end early.

A fit that may end early goes in stages, each twice as long as all before it together but the first:

    stage       1       2       3        4
    ends at     1/8     1/4     1/2      1      of the steps
    clock       0 - 1   0.4 - 1 0.4 - 1  0.4 - 1

At the end of a stage the rates have come down and the fit is as good as it can be in so many steps, so what two stages reach
on views kept aside tells what doubling the steps brings. If that is too little, a short last phase learns from the views
kept aside too, and the fit ends. Looks within one long fall of the rates tell nothing: most of the gain comes when they come
down, and a fit in the middle of it looks as if it stood still (docs/schedules.md).

Source: warm restarts with doubled periods, Loshchilov and Hutter 2017 (SGDR), section 3.
"""

from __future__ import annotations

import bisect

RESTART = 0.4
"""Where the clock begins again in a later stage: rates half of the first, those of the means a quarter."""
SETTLING = 0.7
"""Where, in each stage, the number of splats comes to rest: new ones would not be learned by its end."""
FINISHING_SHARE = 0.1
"""Steps of the last phase, as a share of the steps before it."""
FINISHING_FROM = 0.8
"""Where the clock is set for it."""
VIEWS_MIN = 12
"""Of fewer training views none is kept aside: each of them shows what no other does."""
ASIDE_MIN = 3
"""Views aside: of one alone it is chance which part of the scene it shows."""


class Schedule:
    """The clock of a fit.

    Args:
        steps: Of the fit, if it does not end early.
        in_stages: Whether it may.

    Attributes:
        steps, in_stages: As given.
        plateau_step: The last step before the last phase of a fit that ends early; None while that is not decided.
    """

    def __init__(self, steps: int, *, in_stages: bool = False) -> None:
        self.steps = steps
        self.in_stages = in_stages
        self.plateau_step: int | None = None
        self.stage_ends = sorted({steps // 8, steps // 4, steps // 2, steps} - {0}) if in_stages else [steps]

    @property
    def last_step(self) -> int:
        """The step after which the fit ends."""
        if self.plateau_step is None:
            return self.steps
        return min(self.steps, self.plateau_step + max(1, round(FINISHING_SHARE * self.plateau_step)))

    @property
    def all_views_from(self) -> int:
        """The step after which no view is kept aside any more."""
        return round(self.steps / (1 + FINISHING_SHARE)) if self.plateau_step is None else self.plateau_step

    def share(self, step: int) -> float:
        """Returns where the clock is at a step, from 1: 0 at the first step and 1 at the last, and at the end of a stage."""
        if self.plateau_step is not None and step > self.plateau_step:
            return _between(FINISHING_FROM, self.plateau_step, self.last_step, step)
        stage = min(bisect.bisect_left(self.stage_ends, step), len(self.stage_ends) - 1)
        begin = self.stage_ends[stage - 1] if stage else 0
        return _between(RESTART if stage else 0.0, begin, self.stage_ends[stage], step)

    def may_densify(self, step: int) -> bool:
        """Whether the number of splats may change at a step, as far as stages are concerned."""
        finishing = self.plateau_step is not None and step > self.plateau_step
        return not self.in_stages or not (finishing or self.share(step) > SETTLING)

    def is_stage_end(self, step: int) -> bool:
        """Whether a stage but the last ends with a step, so that the fit may end early."""
        return self.plateau_step is None and step in self.stage_ends[:-1]


def _between(first: float, begin: int, end: int, step: int) -> float:
    """From ``first`` at the step after ``begin`` to 1 at the step ``end`` and beyond."""
    passed = (step - begin - 1) / max(1, end - begin - 1)
    return first + (1.0 - first) * min(1.0, passed)


def views_aside(count: int, share: float) -> list[int]:
    """Returns which of ``count`` training views are kept aside, evenly spread; none where they are fewer than 12."""
    if count < VIEWS_MIN:
        return []
    number = max(ASIDE_MIN, round(share * count))
    return sorted({int((place + 0.5) * count / number) for place in range(number)})
