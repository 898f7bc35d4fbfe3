"""Settings of what is kept in order, whatever the strategy: shapes, colours and strays that Blender draws badly or slowly."""

from __future__ import annotations

from dataclasses import dataclass

from splat_engine.formats.settings.declare import setting


@dataclass(frozen=True)
class TidySettings:
    """Limits on shape and colour, and splats that nobody sees."""

    aspect: float = setting(
        8.0,
        "Longest Needle",
        "No splat becomes longer than this many times its middle width: Blender draws needles slowly. 0: no limit.",
        minimum=0,
        maximum=1e6,
    )
    largest: float = setting(
        0.05,
        "Largest Splat",
        "No splat becomes larger than this share of the scene's extent. 0: no limit.",
        minimum=0,
        maximum=1e3,
    )
    sh_limit: float = setting(
        1.0,
        "Colour Limit",
        "No directional coefficient of a colour goes beyond this: Cycles cuts at 1. 0: no limit.",
        minimum=0,
        maximum=1e6,
    )
    unseen_px: float = setting(
        0.1,
        "Unseen",
        "Splats that cover less than this area in every training view are removed at the end. 0: none are.",
        unit="px",
        minimum=0,
        maximum=1e6,
    )
    stray: float = setting(
        10.0,
        "Strays",
        "Splats farther out than this many times the size of all the others are removed at the end. 0: none are.",
        minimum=0,
        maximum=1e6,
    )
