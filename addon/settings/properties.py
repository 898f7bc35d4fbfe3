"""Blender properties for every setting, generated from the declarations in ``splat_engine.formats.settings``."""

from __future__ import annotations

import math
from typing import Any

import bpy

from splat_engine.formats.settings import (
    CaptureSettings,
    Declaration,
    RunSettings,
    declarations,
    from_dict,
    preset_values,
    run_groups,
)

from ..scene import compare
from . import choices

GROUPS: dict[str, type] = {"capture": CaptureSettings, **run_groups()}
"""Name of the pointer in ``scene.splatfit`` to the settings class behind it."""
_INT_LIMIT = 2**31 - 1
_FLOAT32_DIGITS = 7
"""Blender keeps float32: so many digits give back the number that was meant."""


def property_of(name: str, kind: Any, default: Any, declared: Declaration) -> Any:
    """Returns the Blender property of one setting.

    Args:
        name: The setting's name.
        kind: Its type: bool, int, float, str or a Literal.
        default: Its default.
        declared: What is said of it.
    """
    texts = {"name": declared.label, "description": _description(declared), "default": default}
    if name == "preset":
        texts["update"] = _take_preset
    if declared.choices:
        return bpy.props.EnumProperty(items=_items(declared), **texts)
    if kind is bool:
        return bpy.props.BoolProperty(**texts)
    if kind is str:
        return bpy.props.StringProperty(**texts)
    limits: dict[str, Any] = {}
    if not math.isinf(declared.minimum):
        limits["min"] = kind(declared.minimum)
    if not math.isinf(declared.maximum):
        limits["max"] = kind(min(declared.maximum, _INT_LIMIT))
    if not math.isinf(declared.soft_minimum):
        limits["soft_min"] = kind(declared.soft_minimum)
    if not math.isinf(declared.soft_maximum):
        limits["soft_max"] = kind(declared.soft_maximum)
    limits.update(_subtype(declared))
    if kind is int:
        return bpy.props.IntProperty(**texts, **limits)
    return bpy.props.FloatProperty(**texts, **limits, precision=_decimals(default), step=_step(default))


def _items(declared: Declaration) -> list[tuple[str, str, str]]:
    plain = {choice: (choice.replace("_", " ").title(), "") for choice in declared.choices}
    return [(choice, *declared.choice_words.get(choice, words)) for choice, words in plain.items()]


def _subtype(declared: Declaration) -> dict[str, str]:
    """How Blender shows a number. Angles stay plain numbers: Blender would keep them in radians, the settings are in degrees."""
    if declared.shape == "share":
        return {"subtype": "FACTOR"}
    if declared.unit == "scene units":
        return {"subtype": "DISTANCE", "unit": "LENGTH"}
    if declared.unit == "mm":
        return {"subtype": "DISTANCE_CAMERA", "unit": "CAMERA"}
    return {"subtype": "PIXEL"} if declared.unit == "px" else {}


def _step(default: float) -> int:
    """A click on an arrow is a hundredth of this."""
    return 100 if abs(default) >= 10 else 10 if abs(default) >= 1 else 1


def _description(declared: Declaration) -> str:
    """Blender ends a tooltip with a full stop of its own."""
    text = declared.help.rstrip(".")
    return f"{text} ({declared.unit})" if declared.unit else text


def _decimals(default: float) -> int:
    """Two digits behind the first that is not zero; Blender shows six at most."""
    return 2 if default == 0 or abs(default) >= 0.1 else min(6, 2 - math.floor(math.log10(abs(default))))


def _take_preset(group: Any, context: Any) -> None:
    """Sets what the chosen preset is about; called by Blender."""
    chosen = group.id_data.splatfit
    for name, values in preset_values(group.preset).items():
        for item, value in values.items():
            setattr(getattr(chosen, name), item, value)


def _group_class(name: str, settings: type) -> Any:
    group = type(f"SPLATFIT_PG_{name}", (bpy.types.PropertyGroup,), {"__doc__": settings.__doc__})
    group.__annotations__ = {
        item: property_of(item, kind, default, declared)
        for item, (kind, default, declared) in declarations(settings).items()
    }
    return group


def preview_properties() -> dict[str, Any]:
    """Returns the properties of the preview, by name; they are no settings of the fit."""
    return {
        "live_preview": bpy.props.BoolProperty(
            name="Live Preview",
            description="Show the splats in the viewport while they are fitted",
            default=True,
        ),
        "follow_view": bpy.props.BoolProperty(
            name="Follow the View",
            description="Have the engine draw the view anew every few seconds while it fits",
            default=False,
        ),
        "preview_run": bpy.props.StringProperty(options={"HIDDEN"}),
    }


def make_classes() -> list[Any]:
    """Returns fresh classes to register: one a group, and last the one behind ``scene.splatfit``."""
    groups = {name: _group_class(name, settings) for name, settings in GROUPS.items()}
    root: Any = type("SPLATFIT_PG_scene", (bpy.types.PropertyGroup,), {"__doc__": "All that a scene says."})
    root.__annotations__ = {name: bpy.props.PointerProperty(type=group) for name, group in groups.items()}
    folder: dict[str, Any] = {"subtype": "DIR_PATH", "default": ""}
    root.__annotations__["capture_directory"] = bpy.props.StringProperty(
        name="Capture Folder", description="Where the views go; empty: beside the .blend file", **folder
    )
    root.__annotations__["run_directory"] = bpy.props.StringProperty(
        name="Run Folder", description="Where the fit goes; empty: beside the .blend file", **folder
    )
    root.__annotations__["render_in_place"] = bpy.props.BoolProperty(
        name="Render in Place", description="Render the views in this Blender, which waits for them; off: a Blender in "
        "the background renders a copy of the file, and you go on working", default=False
    )  # fmt: skip
    root.__annotations__ |= preview_properties()
    remembered = compare.make_class()
    root.__annotations__.update(choices.annotations(remembered))
    return [*groups.values(), remembered, root]


def group_values(group: Any, settings: type) -> dict[str, Any]:
    """Returns a group's values, with float32's rounding taken back."""
    values = {name: getattr(group, name) for name in declarations(settings)}
    return {
        name: float(f"{value:.{_FLOAT32_DIGITS}g}") if isinstance(value, float) else value
        for name, value in values.items()
    }


def capture_settings(scene: Any) -> CaptureSettings:
    """Returns a scene's capture settings.

    Raises:
        UserError: A value is outside its limits, or something that is pointed at is gone.
    """
    values = group_values(scene.splatfit.capture, CaptureSettings) | choices.named_choices(scene.splatfit)
    return from_dict(CaptureSettings, values, where="The capture's settings")


def run_settings(scene: Any) -> RunSettings:
    """Returns a scene's settings of the fit.

    Raises:
        UserError: A value is outside its limits.
    """
    values = {
        name: group_values(getattr(scene.splatfit, name), group) for name, group in run_groups().items()
    }
    return from_dict(RunSettings, values, where="The fit's settings")
