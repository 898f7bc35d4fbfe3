"""The plan of a capture: cameras, frames, names and splits of all views, before anything is rendered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import bpy
import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import View, mark_held_out
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import PLACED_RIGS, CaptureSettings

from .bounds import INVISIBLE, Bodies, collect_bodies, target_test
from .cameras import ImageFrame
from .faces import camera_mesh, face_cameras, faces_of
from .inside import inside_cameras
from .render import Stage
from .rigs import Framing, frame_target, rig_cameras, spread_held_out
from .seeing import unseeing_notes
from .sources import GivenCameras, parse_frames, scene_views
from .survey import survey
from .useful import Rays, Verdict, caster, judge_views, useful_cameras

RIG_SIZE_PX = 512
LENS_MM = 50.0
"""Of a rig around the target, unless one is asked for."""
SURROUNDINGS = "Taken as surroundings"
"""How the note begins that says what is not framed."""
_MOST_TRIED = 4
"""Where cameras are dropped, a rig of up to so many times the views is looked at for others."""


@dataclass(frozen=True)
class Plan:
    """What is going to be captured.

    Attributes:
        views: All views with the names of their files, training and test.
        notes: What a person should know, a sentence each.
        framing: The target, or None where nothing has a surface.
        objects: What can be seen, in the order of the object index pass.
    """

    views: tuple[View, ...]
    notes: tuple[str, ...]
    framing: Framing | None
    objects: tuple[bpy.types.Object, ...]


@dataclass(frozen=True)
class SceneFacts:
    """What the scene says before it is set aside.

    Attributes:
        image: The picture its render settings ask for.
        given: The cameras it names.
        fps: Frames a second.
    """

    image: ImageFrame
    given: GivenCameras
    fps: float


def make_plan(
    stage: Stage,
    settings: CaptureSettings,
    facts: SceneFacts,
    extra_cameras: Sequence[Camera] = (),
    held_out_cameras: Sequence[Camera] = (),
) -> Plan:
    """Chooses the views.

    Args:
        stage: The scene set aside.
        settings: What is asked for.
        facts: What the scene said before.
        extra_cameras: More training views at the present frame; they come last, so that adding some changes no other.
        held_out_cameras: More held-out views at the present frame.

    Raises:
        UserError: There is no target, no camera, or no training view.
    """
    belongs = target_test(settings.target)
    present = stage.scene.frame_current
    if settings.rig in PLACED_RIGS:
        placed = _place(stage, belongs, settings)
        bodies, framing, notes = placed.bodies, placed.framing, placed.notes
        views = [View(camera, frame=present) for camera in placed.cameras]
    else:
        scene_own = scene_views(stage, settings.rig, parse_frames(settings.frames), facts.image, facts.given)
        stage.set_frame(present)
        bodies = _look(stage, belongs)
        chosen = belongs is not None
        framing = _framing(bodies, stage.scene, chosen=chosen) if len(bodies.points) else None
        views = [View(_resized(camera, settings), frame=frame) for camera, frame in scene_own.views]
        notes = scene_own.notes + _motion_notes(scene_own.motion)
        if framing is not None and not scene_own.motion:
            notes += unseeing_notes([camera for camera, _ in scene_own.views], bodies)
        if framing is None:
            notes.append("Nothing in the scene has a surface that renders.")
    views = list(mark_held_out(views, settings.hold_out))
    views += [View(camera, split="test", frame=present) for camera in held_out_cameras]
    views += [View(camera, frame=present) for camera in extra_cameras]
    if not any(view.split == "train" for view in views):
        raise UserError(
            f"No training view is left: {len(views)} views, every {settings.hold_out}. held out.",
            "Ask for more views, or hold out fewer.",
        )
    objects = tuple(bodies.objects[name] for name in sorted(bodies.objects))
    return Plan(_named(views, settings, facts.fps), tuple(notes), framing, objects)


@dataclass(frozen=True)
class Offer:
    """Cameras of a rig that an adaptive capture may use beside its first ones.

    Attributes:
        candidates: Many, evenly placed, none inside geometry or with nothing in its view; each has a name of its own.
        held_out: Even by themselves.
    """

    candidates: tuple[Camera, ...]
    held_out: tuple[Camera, ...]


def offer_cameras(stage: Stage, settings: CaptureSettings, candidates: int, held_out: int) -> Offer:
    """Places the cameras among which an adaptive capture chooses.

    Args:
        stage: The scene set aside.
        settings: Names a generated rig.
        candidates: How many places are looked at.
        held_out: How many views are held out.

    Raises:
        UserError: There is no target.
    """
    belongs = target_test(settings.target)
    bodies = _look(stage, belongs)
    framing = _framing(bodies, stage.scene, chosen=belongs is not None)
    offered = _called(place_names(candidates), _even_rig(framing, settings, candidates))
    useful = survey(
        stage.scene, stage.view_layer, lambda graph: useful_cameras(Rays(graph, bodies.objects), offered)
    )
    turned = replace(settings, seed=settings.seed + 1)
    tests = _even_rig(framing, turned, held_out) if held_out else []
    return Offer(tuple(useful), tuple(_called([f"held out {n + 1}" for n in range(held_out)], tests)))


def place_names(count: int) -> list[str]:
    """Returns the names of candidates, in the order of their even rig; no camera of the first round has such a name."""
    return [f"place {number}" for number in range(1, count + 1)]


def _called(names: Sequence[str], cameras: Sequence[Camera]) -> list[Camera]:
    return [replace(camera, name=name) for name, camera in zip(names, cameras, strict=True)]


@dataclass(frozen=True)
class _Placed:
    """A rig's cameras in the order of the capture, and what was met while they were placed."""

    bodies: Bodies
    framing: Framing
    cameras: list[Camera]
    notes: list[str]


def _place(stage: Stage, belongs: object, settings: CaptureSettings) -> _Placed:
    """Places a rig's cameras, in one look at the scene."""
    stage.scene.camera = stage.camera
    faces = None
    if settings.rig == "faces":
        mesh = camera_mesh(settings.faces)
        faces = faces_of(mesh, bpy.context.evaluated_depsgraph_get())
        stage.aside.hide_from_renders(mesh)

    def visit(graph: bpy.types.Depsgraph) -> _Placed:
        bodies = collect_bodies(graph, belongs)  # type: ignore[arg-type]
        framing = _framing(bodies, stage.scene, chosen=belongs is not None)
        notes = _rig_notes(framing, settings)
        rays = Rays(graph, bodies.objects)
        if faces is not None:
            cameras = _on_faces(rays, framing, faces, settings, notes)
        elif settings.rig == "inside":
            cameras = inside_cameras(
                framing,
                caster(rays),
                settings.views,
                size_px=settings.resolution or RIG_SIZE_PX,
                lens_mm=settings.lens_mm,
                seed=settings.seed,
            )
        else:
            cameras = _around(rays, framing, settings, notes)
        outward = np.array([-camera.forward for camera in cameras])
        order = spread_held_out(outward, settings.hold_out)
        return _Placed(bodies, framing, [cameras[number] for number in order], notes)

    return survey(stage.scene, stage.view_layer, visit)


def _around(rays: Rays, framing: Framing, settings: CaptureSettings, notes: list[str]) -> list[Camera]:
    """Returns a rig's cameras; others, of a denser rig, stand in for those that see nothing of the target."""
    cameras = _even_rig(framing, settings, settings.views)
    verdict = judge_views(rays, cameras, framing)
    if not verdict.dropped:
        return cameras
    count = math.ceil(settings.views * min(_MOST_TRIED, settings.views / len(verdict.clear)))
    denser = _even_rig(framing, settings, count)
    kept = [denser[number] for number in judge_views(rays, denser, framing).clear]
    if len(kept) < len(verdict.clear):
        kept = [cameras[number] for number in verdict.clear]
    even = np.unique(np.linspace(0, len(kept) - 1, min(settings.views, len(kept))).round().astype(int))
    notes.append(_dropped_note(verdict, len(cameras), len(even) == len(cameras)))
    return [kept[int(number)] for number in even]


def _on_faces(
    rays: Rays,
    framing: Framing,
    faces: tuple[Float, Float],
    settings: CaptureSettings,
    notes: list[str],
) -> list[Camera]:
    centers, normals = faces
    cameras = face_cameras(
        centers,
        normals,
        settings.faces_look,
        framing,
        settings.views,
        size_px=settings.resolution or RIG_SIZE_PX,
        lens_mm=settings.lens_mm,
    )
    if len(centers) > settings.views:
        notes.append(
            f"The camera mesh has {len(centers)} faces; {settings.views} of them are used. Raise the views for more."
        )
    if settings.faces_look != "target":
        return cameras
    verdict = judge_views(rays, cameras, framing)
    if verdict.dropped:
        notes.append(_dropped_note(verdict, len(cameras), replaced=False))
    return [cameras[number] for number in verdict.clear]


def _dropped_note(verdict: Verdict, count: int, replaced: bool) -> str:
    reasons = []
    if verdict.inside:
        reasons.append(f"{verdict.inside} of {count} cameras would stand inside something")
    if verdict.blocked:
        whose = "" if verdict.inside else f" of {count} cameras"
        reasons.append(f"{verdict.blocked}{whose} have the target behind a wall")
    ending = "others stand in for them" if replaced else "they are left out"
    return f"{', and '.join(reasons)}; {ending}."


def _look(stage: Stage, belongs: object) -> Bodies:
    stage.scene.camera = stage.camera
    return survey(stage.scene, stage.view_layer, lambda graph: collect_bodies(graph, belongs))  # type: ignore[arg-type]


def _framing(bodies: Bodies, scene: bpy.types.Scene, *, chosen: bool) -> Framing:
    try:
        return frame_target(bodies.points, bodies.names, chosen=chosen)
    except UserError as error:
        hint = error.hint
        others = [other.name for other in bpy.data.scenes if other != scene and _has_geometry(other)]
        missing = [library.filepath for library in bpy.data.libraries if library.is_missing]
        if others and not chosen:
            hint = f"This is the scene {scene.name!r}; there is geometry in {', '.join(others[:5])}. {hint}"
        if missing:
            hint = f"The linked file {missing[0]} is missing; the geometry may be in it. {hint}"
        raise UserError(error.headline, hint, error.cause) from error


def _has_geometry(scene: bpy.types.Scene) -> bool:
    return any(obj.type not in INVISIBLE and not obj.hide_render for obj in scene.objects)


def around_views(framing: Framing, settings: CaptureSettings) -> list[View]:
    """Returns the views of a rig around a target, as if no camera were in the way of anything."""
    cameras = _even_rig(framing, settings, settings.views)
    order = spread_held_out(np.array([-camera.forward for camera in cameras]), settings.hold_out)
    return list(mark_held_out([View(cameras[number]) for number in order], settings.hold_out))


def _even_rig(framing: Framing, settings: CaptureSettings, count: int) -> list[Camera]:
    return rig_cameras(
        framing,
        settings.rig,
        count,
        size_px=settings.resolution or RIG_SIZE_PX,
        lens_mm=settings.lens_mm or LENS_MM,
        distance=settings.distance,
        margin=settings.margin,
        elevation_deg=settings.elevation_deg,
        seed=settings.seed,
    )


def _rig_notes(framing: Framing, settings: CaptureSettings) -> list[str]:
    notes = []
    if framing.backdrops:
        listed = ", ".join(framing.backdrops[:5]) + (" and more" if len(framing.backdrops) > 5 else "")
        notes.append(f"{SURROUNDINGS}, not as what the cameras frame: {listed}. Set a target to change that.")
    if framing.ground_z is not None and settings.rig == "sphere":
        notes.append("The target stands on a ground, so the cameras stay above it.")
    if settings.frames:
        notes.append("Frames are for the scene's cameras; a rig captures the present frame.")
    return notes


def _motion_notes(moving: Sequence[str]) -> list[str]:
    if not moving:
        return []
    listed = ", ".join(moving[:5]) + (" and more" if len(moving) > 5 else "")
    return [f"Not at rest over the captured frames, so the splats will blur there: {listed}."]


def _resized(camera: Camera, settings: CaptureSettings) -> Camera:
    if not settings.resolution:
        return camera
    return camera.scaled(settings.resolution / max(camera.width, camera.height))


def _named(views: Sequence[View], settings: CaptureSettings, fps: float) -> tuple[View, ...]:
    digits = max(4, len(str(len(views))))
    named = []
    for number, view in enumerate(views, start=1):
        stem = f"{number:0{digits}d}"
        named.append(
            replace(
                view,
                exr=f"views/{stem}.exr" if settings.render else None,
                image=f"images/{stem}.png" if settings.render and settings.pictures else None,
                time_s=view.frame / fps,
            )
        )
    return tuple(named)
