"""Settings of how a fit goes: from coarse to fine, and when it is good enough."""

from __future__ import annotations

from dataclasses import dataclass

from splat_engine.formats.settings.declare import setting


@dataclass(frozen=True)
class ScheduleSettings:
    """How a fit goes, from coarse to fine, and when it is good enough."""

    coarse_share: float = setting(
        0.0,
        "Coarse Until",
        "Share of the steps in which views are compared at a quarter and then half of their resolution: faster where "
        "splats are few at first, and worse where they are dense; 0: never.",
        minimum=0,
        maximum=1,
        shape="share",
    )
    own_order_from: float = setting(
        0.9,
        "Blender's Order From",
        "Share of the steps after which each pixel blends splats by their depths there, as Cycles does; before that all take "
        "the order of the centres, which is faster; 1: never. Not in the web viewers' image formation.",
        minimum=0,
        maximum=1,
        shape="share",
    )
    early_stop: bool = setting(
        False,
        "Stop When Good",
        "Go in stages of twice the steps, and finish early when a stage hardly improves a few training views kept aside.",
    )
    stop_gain_db: float = setting(
        0.3,
        "Least Gain",
        "The fit is finished early once doubling its steps improves the views kept aside by less than this.",
        unit="dB",
        minimum=0,
        maximum=10,
    )
    stop_share: float = setting(
        0.05,
        "Views Aside",
        "Share of the training views that is kept aside until the fit is being finished; at least three views.",
        minimum=0,
        maximum=0.5,
        shape="share",
    )
