"""Settings of a capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splat_engine.formats.settings.declare import setting

Rig = Literal["scene", "selected", "active", "markers", "sphere", "dome", "ring"]


@dataclass(frozen=True)
class CaptureSettings:
    """How views of the scene are chosen and rendered."""

    rig: Rig = setting(
        "sphere",
        "Cameras",
        "Where the views come from: all cameras of the scene, the selected ones, the active one, each camera bound "
        "to a timeline marker at its frame, or a rig around the target.",
    )
    views: int = setting(100, "Views", "Number of views of a rig.", minimum=1, maximum=100000)
    adaptive: bool = setting(
        False,
        "Adaptive Views",
        "Render two thirds of a rig's views, fit to them briefly, and place the others where the fit is wrong. Needs the "
        "engine.",
    )
    target: str = setting(
        "", "Target", "Object or collection the rig looks at; empty: everything that renders."
    )
    frames: str = setting(
        "", "Frames", "Frames to visit with the scene's cameras, as 1-100:5 or 1,7,9; empty: the present one."
    )
    hold_out: int = setting(
        8, "Hold Out", "Every how many-th view is held out for testing; 0: none.", minimum=0, maximum=1000
    )
    resolution: int = setting(
        0, "Resolution", "Longer side of a view; 0: the scene's resolution for its cameras, 512 for a rig.", unit="px",
        minimum=0, maximum=16384,
    )  # fmt: skip
    lens_mm: float = setting(
        50.0, "Lens", "Focal length of a rig's cameras on a 36 mm sensor.", unit="mm", minimum=1, maximum=5000
    )
    distance: float = setting(
        0.0,
        "Distance",
        "Distance of a rig's cameras from the target; 0: so that it fits.",
        unit="scene units",
        minimum=0,
    )
    elevation_deg: float = setting(
        20.0, "Elevation", "Height of a ring's cameras over the target's middle.", unit="degrees", minimum=-89, maximum=89
    )  # fmt: skip
    margin: float = setting(
        1.1, "Margin", "Room around the target where the distance is automatic.", minimum=0.1, maximum=100
    )
    engine: Literal["CYCLES", "EEVEE", "scene"] = setting("CYCLES", "Engine", "Render engine of the views.")
    samples: int = setting(
        16, "Samples", "Render samples of a training view; 0: the scene's.", minimum=0, maximum=65536
    )
    test_samples: int = setting(
        0,
        "Test Samples",
        "Render samples of a held-out view; 0: as a training view.",
        minimum=0,
        maximum=65536,
    )
    denoise: bool = setting(
        True,
        "Denoise",
        "Denoise the views: few samples are enough then. Strands thinner than a pixel are smeared.",
    )
    test_denoise: bool = setting(
        False,
        "Denoise Tests",
        "Denoise the held-out views though the others are not, so that what a fit is measured against is clean.",
    )
    transparent: bool = setting(
        True, "Transparent World", "Render the world as transparent, so that only objects become splats."
    )
    pictures: bool = setting(
        False, "Pictures", "Also write an 8-bit picture a view with the scene's look, for other trainers."
    )
    render: bool = setting(True, "Render", "Render the views; off: write the cameras alone.")
    points: int = setting(100000, "Start Points", "Most points of init.ply.", minimum=0, maximum=100000000)
    seed: int = setting(0, "Seed", "Seed of everything random in the capture.", minimum=0, maximum=2**31 - 1)
