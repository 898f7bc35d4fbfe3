"""The scene's settings, recorded before a capture changes them, and put back exactly."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import bpy

log = logging.getLogger(__name__)

_PLAIN = {"BOOLEAN", "INT", "FLOAT", "STRING", "ENUM"}
_SCENE_STRUCTS = ("render", "cycles", "cycles_curves", "eevee", "view_settings", "display_settings")
_LAYER_STRUCTS = ("cycles", "eevee")
_PASSES_OVER_SETTINGS = 5
"""One setting's allowed values may hang on another's (colour depth on the file format on the media type)."""


def plain_properties(struct: Any) -> Iterator[bpy.types.Property]:
    """Yields what can be written to a struct: numbers, words, enumerations, and pointers to data-blocks."""
    for prop in struct.bl_rna.properties:
        if prop.is_readonly or getattr(prop, "is_deprecated", False):
            continue
        if prop.type in _PLAIN or (prop.type == "POINTER" and _points_to_id(prop)):
            yield prop


def _points_to_id(prop: Any) -> bool:
    base = prop.fixed_type
    while base is not None:
        if base.identifier == "ID":
            return True
        base = base.base
    return False


def nested_structs(struct: Any) -> Iterator[tuple[str, Any]]:
    """Yields name and value of the settings that a struct holds as part of itself."""
    unused = () if getattr(struct, "has_linear_colorspace", False) else ("linear_colorspace_settings",)
    for prop in struct.bl_rna.properties:
        if prop.identifier in ("rna_type", *unused):
            continue  # Blender complains on the console when the unused one is read
        if prop.type == "POINTER" and not _points_to_id(prop):
            value = getattr(struct, prop.identifier)
            if value is not None:
                yield prop.identifier, value


def value_of(struct: Any, name: str) -> Any:
    """Returns a property's value as something that does not change with it."""
    value = getattr(struct, name)
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    if hasattr(value, "__len__") and not isinstance(value, str):
        return tuple(value)
    return value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


@dataclass
class _Record:
    """One struct's values, and which of them stood at their default without having been set."""

    struct: Any
    values: dict[str, Any] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()

    @classmethod
    def of(cls, struct: Any) -> _Record:
        names = [prop.identifier for prop in plain_properties(struct)]
        unset: frozenset[str] = frozenset()
        if isinstance(struct, bpy.types.PropertyGroup):
            unset = frozenset(
                prop.identifier
                for prop in plain_properties(struct)
                if prop.type != "POINTER" and not struct.is_property_set(prop.identifier)
            )  # Blender calls a pointer set as soon as any of its group is
        return cls(struct, {name: value_of(struct, name) for name in names}, unset)

    def differing(self) -> list[str]:
        names = [n for n, value in self.values.items() if not _same(value, value_of(self.struct, n))]
        return names + [n for n in self.unset if self.struct.is_property_set(n) and n not in names]

    def put_back(self) -> None:
        for name in self.differing():
            if name in self.unset:
                self.struct.property_unset(name)
                continue
            value = self.values[name]
            try:
                setattr(self.struct, name, set(value) if isinstance(value, frozenset) else value)
            except (TypeError, ValueError, AttributeError) as error:
                log.debug("%s.%s cannot be put back yet: %s", self.struct.bl_rna.identifier, name, error)


class SettingAside:
    """Records a scene on entering, and puts all of it back on leaving, whatever happened in between.

    Covers the scene's own settings, render and engine settings, every view layer, the cameras bound to timeline
    markers, the objects' pass indices and render visibility, the shown render slot, and removes the data-blocks made meanwhile that were
    given to ``own``. What is not changed is not written, so animation and handlers are not disturbed.

    Args:
        scene: The scene.
        view_layer: The only view layer that is to render.
    """

    def __init__(self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> None:
        self.scene, self.view_layer = scene, view_layer
        self._records: list[_Record] = []
        self._markers: list[tuple[bpy.types.TimelineMarker, bpy.types.Object]] = []
        self._pass_indices: list[tuple[bpy.types.Object, int]] = []
        self._hidden: list[bpy.types.Object] = []
        self._owned: list[bpy.types.ID] = []
        self._slot: int | None = None

    def __enter__(self) -> SettingAside:
        scene = self.scene
        self._record(scene, _SCENE_STRUCTS)
        for layer in scene.view_layers:
            self._record(layer, _LAYER_STRUCTS)
        for marker in scene.timeline_markers:
            if marker.camera is not None:
                self._markers.append((marker, marker.camera))
        return self

    def _record(self, struct: Any, names: tuple[str, ...]) -> None:
        self._records.append(_Record.of(struct))
        for name in names:
            if getattr(struct, name, None) is not None:
                self._record_whole(getattr(struct, name))

    def _record_whole(self, struct: Any) -> None:
        self._records.append(_Record.of(struct))
        for _, nested in nested_structs(struct):
            self._record_whole(nested)

    def release_markers(self) -> None:
        """Unbinds the cameras of all markers: Blender switches to them whenever it renders."""
        for marker, _ in self._markers:
            marker.camera = None

    def use_last_render_slot(self) -> None:
        """Lets the capture draw into the last render slot, so that the picture that is shown stays."""
        image: Any = bpy.data.images.get("Render Result")
        if image is not None and len(image.render_slots) > 1:
            self._slot = image.render_slots.active_index
            image.render_slots.active_index = len(image.render_slots) - 1

    def set_pass_index(self, obj: bpy.types.Object, index: int) -> None:
        """Gives an object a pass index until the end."""
        if obj.pass_index != index:
            self._pass_indices.append((obj, obj.pass_index))
            obj.pass_index = index

    def hide_from_renders(self, obj: bpy.types.Object) -> None:
        """Hides an object from renders until the end."""
        if not obj.hide_render:
            self._hidden.append(obj)
            obj.hide_render = True

    def own(self, block: bpy.types.ID) -> None:
        """Has a data-block removed at the end."""
        self._owned.append(block)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for left in self.put_back():
                log.error("The scene's setting %s could not be put back.", left)
        except ReferenceError:  # another file was loaded meanwhile: nothing is left to put back to
            log.warning("The captured scene is gone; its settings went with it.")

    def put_back(self) -> list[str]:
        """Puts everything back.

        Returns:
            Names of what could not be put back; empty but for a defect of ours or of Blender.
        """
        for marker, camera in self._markers:
            if marker.camera != camera:
                marker.camera = camera
        for obj, index in reversed(self._pass_indices):
            obj.pass_index = index
        for obj in self._hidden:
            obj.hide_render = False
        for _ in range(_PASSES_OVER_SETTINGS):
            for record in self._records:
                record.put_back()
            if not any(record.differing() for record in self._records):
                break
        left = [f"{r.struct.bl_rna.identifier}.{name}" for r in self._records for name in r.differing()]
        _check_compositor_links()
        if self._owned:
            bpy.data.batch_remove(self._owned)
        image: Any = bpy.data.images.get("Render Result")
        if self._slot is not None and image is not None:
            image.render_slots.active_index = self._slot
        self._markers, self._pass_indices, self._owned, self._slot = [], [], [], None
        self._hidden = []
        return left


def _check_compositor_links() -> None:
    """Has Blender before 5.0 look again which links of its compositors are valid: a pass that was off made some not."""
    for scene in bpy.data.scenes:
        tree: Any = getattr(scene, "node_tree", None)
        for node in tree.nodes if tree is not None else ():
            if node.bl_idname == "CompositorNodeRLayers":
                node.mute = node.mute  # writing is what makes it look
                break
