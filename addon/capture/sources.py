"""Which cameras and frames of the scene become views."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from .cameras import ImageFrame, camera_of
from .render import Stage
from .survey import survey

_RANGE = re.compile(r"(-?\d+)(?:-(-?\d+)(?::(\d+))?)?")
_MAX_FRAMES = 1_000_000
_AT_REST = 1e-4
"""Change of a matrix entry between two frames above which an object moves."""


@dataclass
class SceneViews:
    """Views that the scene's own cameras give.

    Attributes:
        views: (camera, frame) pairs in the order of the frames.
        notes: What was left out or changed, for the user.
        motion: Objects that are not in the same place at all the frames.
    """

    views: list[tuple[Camera, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    motion: list[str] = field(default_factory=list)


def parse_frames(text: str) -> list[int]:
    """Returns the frames that a text such as ``"1-100:5, 120"`` names, in its order, each once.

    Raises:
        UserError: The text is not a list of frames and ranges.
    """
    frames: list[int] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        match = _RANGE.fullmatch(piece.replace(" ", ""))
        if match is None or match[3] == "0":
            raise UserError(
                f"Frames are given as {piece!r}, which is neither a frame nor a range.",
                "Write frames as 1,7,9 and ranges as 1-100 or 1-100:5.",
            )
        first = int(match[1])
        last = int(match[2]) if match[2] is not None else first
        step = int(match[3] or 1)
        if last < first:
            raise UserError(f"The range of frames {piece} ends before it begins.", "Write it as first-last.")
        if (last - first) // step >= _MAX_FRAMES:
            raise UserError(f"The range of frames {piece} is too long.", "Take a larger step.")
        frames += range(first, last + 1, step)
    return list(dict.fromkeys(frames))


@dataclass(frozen=True)
class _Found:
    """A camera met in a dependency graph, copied out of it."""

    key: tuple[object, ...]
    label: str
    data: Any
    matrix: Matrix


def scene_views(
    stage: Stage, rig: str, frames: Sequence[int], frame_image: ImageFrame, given: GivenCameras
) -> SceneViews:
    """Collects the views of the scene's own cameras.

    Args:
        stage: The scene set aside.
        rig: "scene": every camera, in instances too; "selected": the selected ones; "active": the active one, as
            markers switch it; "markers": each marker's camera at its frame.
        frames: Frames to visit; for "markers" they choose among the markers. Empty: the present one, or all markers.
        frame_image: The picture's size, taken before the scene was set aside.
        given: Cameras that the scene named before it was set aside.

    Returns:
        The views; names are unique and the same from call to call.

    Raises:
        UserError: There is no camera of that kind, or none of them can be used.
    """
    collector = _Collector(stage, frame_image, watch_motion=rig == "markers" or len(frames) > 1)
    present = stage.scene.frame_current
    if rig == "markers":
        visits = [(f, c) for f, c in given.markers if not frames or f in frames]
        if not visits:
            raise UserError(
                "No timeline marker has a camera bound to it.",
                "Bind cameras to markers, or choose another rig.",
            )
        for frame, camera in visits:
            collector.visit(frame, partial(_is_object, camera), camera)
    elif rig == "active":
        for frame in frames or [present]:
            camera = given.at(frame)
            if camera is None:
                raise _no_camera(stage.scene, "no active camera")
            collector.visit(frame, partial(_is_object, camera), camera)
    else:
        chosen = None if rig == "scene" else given.selected
        for frame in frames or [present]:
            collector.visit(frame, partial(_is_among, chosen), given.active)
    if not collector.views:
        if collector.refusals:
            raise collector.refusals[0]
        raise _no_camera(stage.scene, "no camera" if rig == "scene" else "no selected camera")
    return collector.result()


@dataclass(frozen=True)
class GivenCameras:
    """The cameras that a scene names: recorded before it is set aside.

    Attributes:
        active: The scene's camera.
        markers: (frame, camera) of the markers with a bound camera that is not hidden from renders, by frame.
        selected: The selected objects.
    """

    active: bpy.types.Object | None
    markers: tuple[tuple[int, bpy.types.Object], ...]
    selected: tuple[bpy.types.Object, ...]

    @classmethod
    def of(cls, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> GivenCameras:
        """Records them."""
        markers = [(m.frame, m.camera) for m in scene.timeline_markers]
        bound = [
            (frame, camera) for frame, camera in markers if camera is not None and not camera.hide_render
        ]
        bound.sort(key=lambda pair: (pair[0], pair[1].name_full))
        selected = [obj for obj in view_layer.objects if obj.select_get(view_layer=view_layer)]
        return cls(scene.camera, tuple(bound), tuple(selected))

    def at(self, frame: int) -> bpy.types.Object | None:
        """Returns the camera that is active at a frame: the last marker's before it, else the first's, else the scene's.

        Source: Blender, ``BKE_scene_camera_switch_find``.
        """
        passed = [camera for marker_frame, camera in self.markers if marker_frame <= frame]
        if passed:
            return passed[-1]
        return self.markers[0][1] if self.markers else self.active


class _Collector:
    def __init__(self, stage: Stage, frame_image: ImageFrame, *, watch_motion: bool) -> None:
        self.stage, self.image, self.watch_motion = stage, frame_image, watch_motion
        self.views: list[tuple[Camera, int, tuple[object, ...]]] = []
        self.notes: list[str] = []
        self.refusals: list[UserError] = []
        self.places: dict[tuple[object, ...], Float] = {}
        self.moved: set[str] = set()

    def visit(self, frame: int, wanted: Callable[[_Found], bool], camera: bpy.types.Object | None) -> None:
        """Looks at the scene at a frame and keeps the wanted cameras.

        ``camera`` is evaluated even where it is hidden or in no collection.
        """
        stage = self.stage
        stage.set_frame(frame)
        stage.scene.camera = camera or stage.camera
        try:
            survey(stage.scene, stage.view_layer, lambda graph: self._look(graph, frame, wanted))
        finally:
            stage.scene.camera = stage.camera

    def _look(self, graph: bpy.types.Depsgraph, frame: int, wanted: Callable[[_Found], bool]) -> None:
        for found in _cameras_in(graph, self.stage.camera):
            if wanted(found):
                self._keep(found, frame)
        if self.watch_motion:
            self._note_motion(graph)

    def _keep(self, found: _Found, frame: int) -> None:
        try:
            camera, notes = camera_of(found.data, found.matrix, self.image, found.label)
        except UserError as refusal:
            self.refusals.append(refusal)
            note = f"{refusal.headline} It is left out."
            self.notes += [note] if note not in self.notes else []
            return
        self.views.append((camera, frame, found.key))
        self.notes += [note for note in notes if note not in self.notes]

    def _note_motion(self, graph: bpy.types.Depsgraph) -> None:
        for instance in graph.object_instances:
            obj = instance.object
            if obj.type in ("CAMERA", "EMPTY", "ARMATURE", "SPEAKER"):
                continue
            key = _key_of(instance)
            matrix = np.array(instance.matrix_world)
            before = self.places.setdefault(key, matrix)
            if np.abs(before - matrix).max() > _AT_REST:
                self.moved.add(obj.original.name)

    def result(self) -> SceneViews:
        several_frames = len({frame for _, frame, _ in self.views}) > 1
        names = _unique_names([(camera.name, key) for camera, _, key in self.views])
        views = []
        for (camera, frame, _), name in zip(self.views, names, strict=True):
            label = f"{name} @ {frame}" if several_frames else name
            views.append((replace(camera, name=label), frame))
        return SceneViews(views, self.notes, sorted(self.moved))


def _unique_names(labels: Sequence[tuple[str, tuple[object, ...]]]) -> list[str]:
    """Returns a name for each (label, key); different keys with the same label are numbered in their order."""
    numbers: dict[str, dict[tuple[object, ...], int]] = {}
    names = []
    for label, key in labels:
        known = numbers.setdefault(label, {})
        number = known.setdefault(key, len(known))
        names.append(label if number == 0 else f"{label} ({number + 1})")
    return names


def _cameras_in(graph: bpy.types.Depsgraph, ours: bpy.types.Object) -> Iterator[_Found]:
    """Yields the cameras of a dependency graph, those inside instances too, but ours."""
    seen = set()
    for instance in graph.object_instances:
        obj = instance.object
        if obj.type != "CAMERA" or obj.original == ours:
            continue
        label = obj.original.name
        if instance.is_instance and instance.parent is not None:
            label = f"{instance.parent.original.name}/{label}"
        found = _Found(_key_of(instance), label, obj.data, instance.matrix_world.copy())
        seen.add(found.key)
        yield found
    active = graph.scene.camera
    if active is not None and active.original != ours:
        key = (active.original.name_full,)
        if key not in seen:
            yield _Found(key, active.original.name, active.data, active.matrix_world.copy())


def _key_of(instance: bpy.types.DepsgraphObjectInstance) -> tuple[object, ...]:
    name = instance.object.original.name_full
    if not instance.is_instance:
        return (name,)
    parent = instance.parent.original.name_full if instance.parent is not None else ""
    numbers: Any = instance.persistent_id
    return (name, parent, *numbers)


def _is_object(camera: bpy.types.Object, found: _Found) -> bool:
    return found.key == (camera.name_full,)


def _is_among(chosen: Sequence[bpy.types.Object] | None, found: _Found) -> bool:
    """A camera counts as selected when it, or the object that instances it, is; every one does without a choice."""
    if chosen is None:
        return True
    names = {obj.name_full for obj in chosen}
    return found.key[0] in names and len(found.key) == 1 or (len(found.key) > 1 and found.key[1] in names)


def _no_camera(scene: bpy.types.Scene, what: str) -> UserError:
    missing = [library.filepath for library in bpy.data.libraries if library.is_missing]
    hint = "Add a camera, or choose a rig around the target (sphere, dome, ring)."
    if missing:
        hint += f" The linked file {missing[0]} is missing; a camera may be in it."
    return UserError(f"The scene {scene.name!r} has {what}.", hint)
