"""Settings of a capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splat_engine.formats.settings.declare import setting

Rig = Literal["sphere", "dome", "ring", "inside", "faces", "scene", "selected", "active", "markers"]
FacesLook = Literal["outward", "inward", "target"]
AROUND_RIGS: tuple[Rig, ...] = ("sphere", "dome", "ring")
"""Rigs that stand around the target and look at its middle."""
PLACED_RIGS: tuple[Rig, ...] = (*AROUND_RIGS, "inside", "faces")
"""Rigs whose cameras are made for the capture; the others are the scene's own."""

_RIG_WORDS = {
    "sphere": ("Sphere", "Cameras all around, above and below, looking at the target"),
    "dome": ("Dome", "Cameras all around and above, looking at the target"),
    "ring": ("Ring", "Cameras in a circle at one height, looking at the target"),
    "inside": (
        "Inside, Looking Out",
        "For rooms: cameras in the free space inside the target look all around",
    ),
    "faces": ("Faces of a Mesh", "A camera on each face of a mesh of yours"),
    "scene": ("All Scene Cameras", "Every camera of the scene"),
    "selected": ("Selected Cameras", "The selected cameras"),
    "active": ("Active Camera", "The scene's active camera, at the chosen frames"),
    "markers": ("Marker Cameras", "Each camera that is bound to a timeline marker, at its frame"),
}


@dataclass(frozen=True)
class CaptureSettings:
    """How views of the scene are chosen and rendered."""

    rig: Rig = setting(
        "sphere",
        "Cameras",
        "Where the views come from: a rig around the target, the free space inside it, the faces of a mesh, all cameras "
        "of the scene, the selected ones, the active one, or each camera bound to a timeline marker at its frame.",
        choice_words=_RIG_WORDS,
    )
    views: int = setting(100, "Views", "Number of views of a rig.", minimum=1, maximum=100000, soft=(10, 500))
    faces: str = setting(
        "",
        "Camera Mesh",
        "Rig 'faces': the mesh object with a camera on each face, at most as many as there are views; it is not rendered.",
    )
    faces_look: FacesLook = setting(
        "outward",
        "Look",
        "Rig 'faces': where the cameras look.",
        choice_words={
            "outward": ("Outward", "Along each face's normal"),
            "inward": ("Inward", "Against each face's normal"),
            "target": ("At the Target", "At the target's middle"),
        },
    )
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
        8,
        "Hold Out",
        "Every how many-th view is held out for testing; 0: none.",
        minimum=0,
        maximum=1000,
        soft=(0, 20),
    )
    resolution: int = setting(
        0, "Resolution", "Longer side of a view; 0: the scene's resolution for its cameras, 512 for a rig.", unit="px",
        minimum=0, maximum=16384, soft=(0, 2048),
    )  # fmt: skip
    lens_mm: float = setting(
        0.0,
        "Lens",
        "Focal length of a rig's cameras on a 36 mm sensor; 0: 50 mm, and 24 mm inside a room.",
        unit="mm",
        minimum=0,
        maximum=5000,
        soft=(0, 200),
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
        1.1,
        "Margin",
        "Room around the target where the distance is automatic.",
        minimum=0.1,
        maximum=100,
        soft=(0.5, 3),
    )
    engine: Literal["CYCLES", "EEVEE", "scene"] = setting("CYCLES", "Engine", "Render engine of the views.")
    samples: int = setting(
        16,
        "Samples",
        "Render samples of a training view; 0: the scene's.",
        minimum=0,
        maximum=65536,
        soft=(0, 512),
    )
    test_samples: int = setting(
        0,
        "Test Samples",
        "Render samples of a held-out view; 0: as a training view.",
        minimum=0,
        maximum=65536,
        soft=(0, 512),
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
    box_filter: bool = setting(
        True,
        "Narrow Filter",
        "Render training views with a pixel filter narrower than Blender's, which filters again when it draws the splats: "
        "they become sharper. Held-out views, and all where 8-bit pictures are written, keep Blender's.",
    )
    transparent: bool = setting(
        True, "Transparent World", "Render the world as transparent, so that only objects become splats."
    )
    pictures: bool = setting(
        False, "Pictures", "Also write an 8-bit picture a view with the scene's look, for other trainers."
    )
    render: bool = setting(True, "Render", "Render the views; off: write the cameras alone.")
    points: int = setting(
        100000, "Start Points", "Most points of init.ply.", minimum=0, maximum=100000000, soft=(0, 1e6)
    )
    seed: int = setting(0, "Seed", "Seed of everything random in the capture.", minimum=0, maximum=2**31 - 1)
