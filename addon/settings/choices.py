"""What a person chooses in the panel beside the settings: target, quality, result. Each of them fills the settings.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from functools import cache
from typing import Any

import bpy

from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import PRESETS, CaptureSettings, FitSettings, declarations, preset_values

from ..scene.originals import is_replaceable
from . import target_size

TARGETS = (
    ("SCENE", "Scene", "Everything that renders", "SCENE_DATA", 0),
    ("OBJECT", "Object", "One object with its children", "OBJECT_DATA", 1),
    ("COLLECTION", "Collection", "The objects of a collection", "OUTLINER_COLLECTION", 2),
)
CUSTOM = "custom"
QUALITIES = (
    ("draft", "Draft", "A first look: few views, few splats", 0),
    ("standard", "Standard", "Good for most things", 1),
    ("high", "High", "More views, more splats, more steps: slower", 2),
    (CUSTOM, "Custom", "Views, samples, steps and splats as you set them", 3),
)
RESULTS = (
    ("REPLACE", "Replace Earlier", "The splats of an earlier fit of this run are replaced"),
    ("NEW", "New Object", "The splats of earlier fits stay as they are"),
)


def annotations(remembered: Any) -> dict[str, Any]:
    """Returns the properties of ``scene.splatfit`` that are no settings.

    Args:
        remembered: The registered class of what ``compare`` remembers of an object.
    """
    pointer: Any = bpy.props.PointerProperty
    return {
        "target_kind": bpy.props.EnumProperty(
            name="Target", description="What the cameras look at", items=TARGETS, update=_retarget
        ),
        "target_object": pointer(type=bpy.types.Object, name="Object", poll=_can_be_target, update=_retarget),
        "target_collection": pointer(type=bpy.types.Collection, name="Collection", update=_retarget),
        "faces_object": pointer(
            type=bpy.types.Object,
            name="Camera Mesh",
            description="A camera stands on each of its faces; it is not rendered",
            poll=lambda _, item: item.type == "MESH",
        ),
        "quality": bpy.props.EnumProperty(
            name="Quality",
            description="How good, and how long it may take",
            items=[(key, label, text, "NONE", number) for key, label, text, number in QUALITIES],
            get=_quality,
            set=_set_quality,
        ),
        "is_custom": bpy.props.BoolProperty(options={"HIDDEN"}),
        "result_mode": bpy.props.EnumProperty(
            name="Result", description="What becomes of earlier splats", items=RESULTS
        ),
        "hide_originals": bpy.props.BoolProperty(
            name="Hide the Originals",
            description="Once the splats are there, hide what they were made from, in the viewport and in renders",
            default=False,
        ),
        "originals_hidden": bpy.props.BoolProperty(options={"HIDDEN"}),
        "compared": bpy.props.EnumProperty(
            name="Compared",
            items=[(name, name.title(), "") for name in ("OFF", "SPLATS", "ORIGINALS")],
            options={"HIDDEN"},
        ),
        "remembered": bpy.props.CollectionProperty(type=remembered, options={"HIDDEN"}),
    }


def _can_be_target(_: Any, item: Any) -> bool:
    return is_replaceable(item) or bool(item.children)


def _retarget(chosen: Any, context: Any) -> None:
    """Writes the chosen target's name into the capture's settings; called by Blender."""
    found = chosen_target(chosen)
    chosen.capture.target = found.name if found is not None else ""
    target_size.forget()


def chosen_target(chosen: Any) -> Any:
    """Returns the object or collection that is the target, or None: the whole scene, or none is chosen or left in the file."""
    scene = chosen.id_data
    if chosen.target_kind == "OBJECT":
        item = chosen.target_object
        return item if item is not None and scene.objects.get(item.name) == item else None
    return chosen.target_collection if chosen.target_kind == "COLLECTION" else None


def named_choices(chosen: Any) -> dict[str, str]:
    """Returns the capture's settings that the pointers stand for: names of now, also where something was renamed since.

    Raises:
        UserError: An object or collection is to be chosen and is not, or its name is ambiguous.
    """
    named = {}
    if chosen.target_kind != "SCENE":
        kind = chosen.target_kind.lower()
        found = chosen_target(chosen)
        if found is None:
            lost = chosen.target_object if kind == "object" else None
            raise UserError(
                f"The target {lost.name!r} is not in this scene."
                if lost
                else f"No {kind} is chosen as the target.",
                f"Choose the {kind}, or fit the whole scene.",
            )
        if kind == "collection" and found.name in bpy.data.objects:
            raise UserError(
                f"The target {found.name!r} is a collection, and an object has the same name.",
                "Rename one of the two.",
            )
        named["target"] = found.name
    if chosen.capture.rig == "faces":
        named.update(_named_faces(chosen))
    return named


def _named_faces(chosen: Any) -> dict[str, str]:
    if chosen.faces_object is not None:
        return {"faces": chosen.faces_object.name}
    if not chosen.capture.faces:
        raise UserError(
            "No mesh is chosen for the cameras.", "Choose a mesh: a camera stands on each of its faces."
        )
    return {}


def _quality(chosen: Any) -> int:
    """Which quality the settings are; called by Blender at each draw."""
    numbers = {key: number for key, _, _, number in QUALITIES}
    if not chosen.is_custom:
        for name in PRESETS:
            if all(_value(chosen, place) == value for place, value in _governed(name)):
                return numbers[name]
    return numbers[CUSTOM]


def _set_quality(chosen: Any, number: int) -> None:
    name = QUALITIES[number][0]
    chosen.is_custom = name == CUSTOM
    if name != CUSTOM:
        chosen.fit.preset = name  # which sets what it is about


@cache
def _governed(preset: Any) -> tuple[tuple[tuple[str, str], Any], ...]:
    table = preset_values(preset)
    return tuple(((group, name), value) for group, values in table.items() for name, value in values.items())


def _value(chosen: Any, place: tuple[str, str]) -> Any:
    return getattr(getattr(chosen, place[0]), place[1])


def governed_settings() -> list[tuple[str, str]]:
    """Returns (group, name) of the settings that a quality is about, as they are declared, the capture's first."""
    about = {place for place, _ in _governed("standard")}
    groups = (("capture", CaptureSettings), ("fit", FitSettings))
    return [(group, name) for group, cls in groups for name in declarations(cls) if (group, name) in about]


def quality_lines(chosen: Any) -> tuple[str, str]:
    """Returns in two short lines what the present quality comes to."""
    fit, capture = chosen.fit, chosen.capture
    views = f"{capture.views:,} views of {capture.samples} samples"
    return views, f"{fit.steps:,} steps, {short_number(fit.max_splats)} splats"


def short_number(number: int) -> str:
    """Returns a number as a person says it: 200k, 1.5M."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)
