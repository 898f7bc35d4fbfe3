"""Splats moved, cropped, cleaned, selected and split.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from ..edit import measures, placing, points, surfaces, volumes
from ..scene import splat_object
from ..scene.results import KEPT_KEY
from .words import in_words

_DIALOG_WIDTH_PX = 320
_ACTIONS = (
    ("DELETE", "Delete", "Take these splats away"),
    ("SELECT", "Select", "Only select these splats: Edit Mode shows which they are"),
)
UNKNOWN = "(unknown)"
"""What stands for splats of which nobody knows what they show."""


class _OfSplats:
    """An operator on the active splat object."""

    bl_options: Any = {"REGISTER", "UNDO"}
    report: Any
    layout: Any

    @classmethod
    def poll(cls, context: Any) -> bool:
        """A splat object must be active."""
        if not splat_object.is_splat_object(context.object):
            cls.poll_message_set("Select a splat object")  # type: ignore[attr-defined]
            return False
        return True


class _Choosing(_OfSplats):
    """An operator that finds splats, and deletes or selects them."""

    action: Any
    found: Any
    among: Any

    def choose(self, context: Any, object: Any) -> points.Mask:
        """Returns [N] the splats it is about."""
        raise NotImplementedError

    @in_words
    def execute(self, context: Any) -> Any:
        """Deletes or selects what is found; the count is reported, and shown in the redo panel."""
        object = points.editable(context.object)
        chosen = self.choose(context, object)
        self.found, self.among = int(chosen.sum()), len(chosen)
        if self.action == "SELECT":
            points.select(object, chosen)
        else:
            points.keep(object, ~chosen)
        done = "selected" if self.action == "SELECT" else "deleted"
        self.report({"INFO"}, f"{self.found:,} of {self.among:,} splats {done}")
        return {"FINISHED"}

    def draw(self, context: Any) -> None:
        """Draws the settings, and how many splats they are about."""
        self.layout.use_property_split = True
        self.draw_settings(context)
        self.layout.prop(self, "action", expand=True)
        if self.among:
            self.layout.label(text=f"{self.found:,} of {self.among:,} splats", icon="POINTCLOUD_DATA")

    def draw_settings(self, context: Any) -> None:
        """Draws what the operator itself asks for."""
        raise NotImplementedError


def _action() -> Any:
    return bpy.props.EnumProperty(name="Action", items=_ACTIONS, default="DELETE")


def _count() -> Any:
    return bpy.props.IntProperty(options={"HIDDEN", "SKIP_SAVE"})


class SPLATFIT_OT_apply_transform(_OfSplats, bpy.types.Operator):
    """Put the selected objects' location, rotation and scale into their splats; Blender's own Apply breaks splats"""

    bl_idname = "splatfit.apply_transform"
    bl_label = "Apply Transform"

    @in_words
    def execute(self, context: Any) -> Any:
        """Applies it."""
        selected = [item for item in context.selected_objects if splat_object.is_splat_object(item)]
        objects = {item.name: points.editable(item) for item in (context.object, *selected)}
        placing.apply_transforms(objects.values())
        self.report({"INFO"}, f"Applied to the splats of {', '.join(objects)}")
        return {"FINISHED"}


class SPLATFIT_OT_crop(_Choosing, bpy.types.Operator):
    """Delete the splats outside, or inside, of another object: a closed mesh, or an empty shown as cube or sphere"""

    bl_idname = "splatfit.crop"
    bl_label = "Crop by Object"

    volume: bpy.props.StringProperty(  # type: ignore[valid-type]
        name="Object", description="What to crop by; empty: the other selected object", options={"SKIP_SAVE"}
    )
    side: bpy.props.EnumProperty(  # type: ignore[valid-type]
        name="Keep",
        items=(
            ("INSIDE", "Inside", "Keep what is inside the object"),
            ("OUTSIDE", "Outside", "Keep what is outside the object"),
        ),
    )
    whole: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Whole Splats",
        description="A splat is inside only with all that one sees of it; else its centre decides",
    )
    as_box: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Bounding Box", description="Crop by the object's box in place of its shape"
    )
    action: _action()  # type: ignore[valid-type]
    found: _count()  # type: ignore[valid-type]
    among: _count()  # type: ignore[valid-type]

    def choose(self, context: Any, object: Any) -> points.Mask:
        """Returns what is on the other side."""
        other = _volume_object(context, object, self.volume)
        self.volume = other.name
        volume = volumes.volume_of(other, context.evaluated_depsgraph_get(), as_box=self.as_box)
        splats = points.bare_splats(object)
        inside = volume.contains_whole(splats) if self.whole else volume.contains(splats.means)
        return ~inside if self.side == "INSIDE" else inside

    def draw_settings(self, context: Any) -> None:
        """Draws object and side."""
        self.layout.prop_search(self, "volume", bpy.data, "objects")
        self.layout.prop(self, "side", expand=True)
        self.layout.prop(self, "whole")
        self.layout.prop(self, "as_box")


def _volume_object(context: Any, splats: Any, name: str) -> Any:
    if name:
        named = context.scene.objects.get(name)
        if named is None or named == splats:
            raise UserError(f"{name!r} is no other object of this scene.", "Choose the object to crop by.")
        return named
    others = [item for item in context.selected_objects if item != splats]
    if len(others) != 1:
        raise UserError(
            "There is no object to crop by.",
            "Select the object to crop by, then the splats with Shift, and try again.",
        )
    return others[0]


class SPLATFIT_OT_filter(_Choosing, bpy.types.Operator):
    """Delete splats that are faint, too small, too large, or needles"""

    bl_idname = "splatfit.filter"
    bl_label = "Delete by Opacity or Size"

    opacity_min: bpy.props.FloatProperty(  # type: ignore[valid-type]
        name="Opacity below", description="Fainter splats go", default=0.05, min=0, max=1, subtype="FACTOR"
    )
    width_min: bpy.props.FloatProperty(  # type: ignore[valid-type]
        name="Narrower than",
        description="Splats go whose longest side is shorter; 0: none",
        min=0,
        subtype="DISTANCE",
        precision=4,
    )
    width_max: bpy.props.FloatProperty(  # type: ignore[valid-type]
        name="Wider than",
        description="Splats go whose longest side is longer; 0: none",
        min=0,
        subtype="DISTANCE",
        precision=4,
    )
    aspect_max: bpy.props.FloatProperty(  # type: ignore[valid-type]
        name="Needles over",
        description="Splats go that are so many times longer than wide; 0: none",
        min=0,
        soft_max=100,
    )
    action: _action()  # type: ignore[valid-type]
    found: _count()  # type: ignore[valid-type]
    among: _count()  # type: ignore[valid-type]

    def invoke(self, context: Any, event: Any) -> Any:
        """Opens a dialog that counts while one drags the limits."""
        self._measured = _measured(context.object)
        return context.window_manager.invoke_props_dialog(self, width=_DIALOG_WIDTH_PX)

    def choose(self, context: Any, object: Any) -> points.Mask:
        """Returns what is beyond the limits."""
        opacities, scales = _measured(object)
        return measures.beyond_limits(opacities, scales, self._limits())

    def _limits(self) -> measures.Limits:
        return measures.Limits(self.opacity_min, self.width_min, self.width_max, self.aspect_max)

    def draw_settings(self, context: Any) -> None:
        """Draws the limits, and counts if the dialog is open."""
        for name in ("opacity_min", "width_min", "width_max", "aspect_max"):
            self.layout.prop(self, name)
        known = getattr(self, "_measured", None)
        if known is not None:
            opacities, scales = known
            self.found = int(measures.beyond_limits(opacities, scales, self._limits()).sum())
            self.among = len(opacities)


def _measured(object: Any) -> tuple[Any, Any]:
    """Returns opacities [N] and scales [N, 3] in the world."""
    splats = points.bare_splats(object)
    return splats.opacities(), splats.scales()


class SPLATFIT_OT_remove_floaters(_Choosing, bpy.types.Operator):
    """Delete splats that hang in the air, far from the objects they were made from, or from all other splats"""

    bl_idname = "splatfit.remove_floaters"
    bl_label = "Remove Floaters"

    with_objects: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Compare with Objects",
        description="Splats go that are far from the objects they were made from, hidden ones too. "
        "Off: small groups of splats go that are far from all others",
        default=True,
    )
    distance: bpy.props.FloatProperty(  # type: ignore[valid-type]
        name="Distance",
        description="From the objects' surface, or between groups of splats; 0: by the splats' size",
        min=0,
        subtype="DISTANCE",
        precision=4,
        options={"SKIP_SAVE"},
    )
    group_min: bpy.props.IntProperty(  # type: ignore[valid-type]
        name="Smallest Group", description="Splats in smaller groups go", default=10, min=2
    )
    action: _action()  # type: ignore[valid-type]
    found: _count()  # type: ignore[valid-type]
    among: _count()  # type: ignore[valid-type]

    def choose(self, context: Any, object: Any) -> points.Mask:
        """Returns what floats."""
        splats = points.bare_splats(object)
        distance = self.distance or measures.default_distance(splats)
        self.distance = distance
        if distance <= 0:
            raise UserError("The splats have no size to measure by.", "Give a distance.")
        if not self.with_objects:
            return measures.small_groups(splats.means, distance, self.group_min)
        bodies = surfaces.source_bodies(context, splat_object.object_names_of(object))
        near = surfaces.near_bodies(splats.means, bodies, distance)
        if not near.any():
            raise UserError(
                "All splats are far from the objects that they were made from.",
                "If one of the two was moved, move it back, or turn off Compare with Objects.",
            )
        return ~near

    def draw_settings(self, context: Any) -> None:
        """Draws what is compared."""
        self.layout.prop(self, "with_objects")
        self.layout.prop(self, "distance")
        if not self.with_objects:
            self.layout.prop(self, "group_min")


_items: list[tuple[str, str, str, int]] = []
"""Blender keeps no reference to what an enumeration's callback returns."""


def _object_items(operator: Any, context: Any) -> list[tuple[str, str, str, int]]:
    """Returns the names of the captured objects, for the menu; called by Blender."""
    object = getattr(context, "object", None)
    names = (splat_object.object_names_of(object) or ()) if splat_object.is_splat_object(object) else ()
    wanted = [(name, name, "", number + 1) for number, name in enumerate(names)]
    wanted.append((UNKNOWN, UNKNOWN, "Splats of which no view tells what they show", 0))
    if wanted != _items:
        _items[:] = wanted
    return _items


class SPLATFIT_OT_select_by_source(_OfSplats, bpy.types.Operator):
    """Select the splats that show one of the captured objects"""

    bl_idname = "splatfit.select_by_source"
    bl_label = "Select by Object"
    bl_property = "object"

    object: bpy.props.EnumProperty(  # type: ignore[valid-type]
        name="Object", description="What the splats show", items=_object_items, options={"SKIP_SAVE"}
    )
    extend: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Extend", description="What is selected already stays so", options={"SKIP_SAVE"}
    )

    def invoke(self, context: Any, event: Any) -> Any:
        """Opens a list that one can type into; Shift extends."""
        self.extend = event.shift
        context.window_manager.invoke_search_popup(self)
        return {"RUNNING_MODAL"}

    @in_words
    def execute(self, context: Any) -> Any:
        """Selects the splats of that object."""
        edited = points.editable(context.object)
        indices = points.object_indices(edited)
        name = self.properties.object
        chosen = indices == next(
            number for item, _, _, number in _object_items(self, context) if item == name
        )
        points.select(edited, chosen, extend=self.extend)
        self.report({"INFO"}, f"{int(chosen.sum()):,} splats show {name}")
        return {"FINISHED"}


class SPLATFIT_OT_delete_selected(_OfSplats, bpy.types.Operator):
    """Delete the selected splats, in Object Mode too"""

    bl_idname = "splatfit.delete_selected"
    bl_label = "Delete Selected Splats"

    @in_words
    def execute(self, context: Any) -> Any:
        """Deletes them."""
        object = points.editable(context.object)
        chosen = points.selected(object)
        points.keep(object, ~chosen)
        self.report({"INFO"}, f"{int(chosen.sum()):,} of {len(chosen):,} splats deleted")
        return {"FINISHED"}


class SPLATFIT_OT_separate_selected(_OfSplats, bpy.types.Operator):
    """Make the selected splats an object of their own, in Object Mode too"""

    bl_idname = "splatfit.separate_selected"
    bl_label = "Separate Selected Splats"

    @in_words
    def execute(self, context: Any) -> Any:
        """Separates them."""
        object = points.editable(context.object)
        chosen = points.selected(object)
        part = points.split_off(object, chosen)
        part[KEPT_KEY] = True  # the run's next result is for the other part
        self.report({"INFO"}, f"{int(chosen.sum()):,} splats are now {part.name}")
        return {"FINISHED"}


CLASSES = (
    SPLATFIT_OT_apply_transform,
    SPLATFIT_OT_crop,
    SPLATFIT_OT_filter,
    SPLATFIT_OT_remove_floaters,
    SPLATFIT_OT_select_by_source,
    SPLATFIT_OT_delete_selected,
    SPLATFIT_OT_separate_selected,
)
