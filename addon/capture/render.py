"""One view into one multilayer EXR: the scene set up for it once, and one camera moved from view to view."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import bpy

from splat_engine.formats.cameras import Camera
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.exr import check_exr

from .cameras import apply_camera
from .setting_aside import SettingAside
from .survey import call_render

log = logging.getLogger(__name__)

PASS_PROPERTIES = {
    "depth": "use_pass_z",
    "normal": "use_pass_normal",
    "position": "use_pass_position",
    "object_index": "use_pass_object_index",
}
"""Pass of a capture to the view layer's switch."""
EEVEE_NAMES = ("BLENDER_EEVEE", "BLENDER_EEVEE_NEXT")
_PASS_SWITCHES = ("use_pass_", "pass_", "denoising_store_")
MAX_PASS_INDEX = 32767
_TEMPORARY_NAME = "Splatfit Capture"
_FILTER_WIDTH_PX = 1.5
"""Blender's default in both engines; what it means has ``conventions.PIXEL_FILTER_VARIANCE_PX2``."""
_EEVEE_BOX_PX = 1.042
"""EEVEE has no box: its window of this half width has the variance of one, 1/12 px^2."""
_LOW_DISK_BYTES = 1 << 20


@dataclass(frozen=True)
class RenderOptions:
    """How views are rendered.

    Attributes:
        engine: "CYCLES", "EEVEE", or "scene" for the scene's own.
        samples: 0 for the scene's own sampling.
        denoise: Whether Cycles denoises.
        transparent: Whether the world is left out.
        passes: Names out of ``PASS_PROPERTIES``.
        persistent: Keep the scene between two views; costs memory, saves its loading.
    """

    engine: str = "CYCLES"
    samples: int = 32
    denoise: bool = False
    transparent: bool = True
    passes: tuple[str, ...] = tuple(PASS_PROPERTIES)
    persistent: bool = True


class Stage:
    """A scene set aside, with one camera of ours in it; put back exactly on leaving.

    Args:
        scene: The scene.
        view_layer: The only view layer that renders.
        options: How views are rendered.
    """

    def __init__(
        self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, options: RenderOptions | None = None
    ) -> None:
        self.scene, self.view_layer, self.options = scene, view_layer, options or RenderOptions()
        self.aside = SettingAside(scene, view_layer)
        self.film_exposure = 1.0

    def __enter__(self) -> Stage:
        self.aside.__enter__()
        try:
            self._set_up()
        except BaseException:
            self.aside.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.aside.__exit__(kind, error, trace)

    def _set_up(self) -> None:
        self.aside.release_markers()
        self.aside.use_last_render_slot()
        data = bpy.data.cameras.new(_TEMPORARY_NAME)
        self.camera = bpy.data.objects.new(_TEMPORARY_NAME, data)
        self.aside.own(self.camera)
        self.aside.own(data)
        self.scene.camera = self.camera  # a render finds its camera though no collection holds it
        self._quiet_render()
        set_engine(self.scene, self.options.engine)
        self._set_passes()
        if engine_of(self.scene) == "CYCLES":
            self._set_up_cycles()
        self._scene_sampling = scene_sampling(self.scene, self.view_layer)

    def _quiet_render(self) -> None:
        """Turns off all that changes, adds to or diverts the picture."""
        render = self.scene.render
        for name in (
            *("use_border", "use_crop_to_border", "use_motion_blur", "use_compositing", "use_sequencer"),
            *("use_multiview", "use_stamp", "use_freestyle", "use_single_layer", "use_render_cache"),
            *("use_placeholder", "use_file_extension"),
        ):
            setattr(render, name, False)
        render.use_overwrite = True
        if hasattr(render, "save_output"):
            render.save_output = True
        for name in _properties_starting(render, "use_stamp_"):
            setattr(render, name, False)  # date, host and file names have no place in a training view
        render.metadata_input = "SCENE"
        render.film_transparent = self.options.transparent
        render.use_persistent_data = self.options.persistent

    def _set_file_format(self) -> None:
        image = self.scene.render.image_settings
        if hasattr(image, "media_type"):
            image.media_type = "MULTI_LAYER_IMAGE"
        image.file_format = "OPEN_EXR_MULTILAYER"
        image.color_depth, image.exr_codec = "16", "ZIP"  # colours; Blender keeps data passes at 32 bit
        image.color_management = "FOLLOW_SCENE"
        image.use_preview = False

    def _set_passes(self) -> None:
        for layer in self.scene.view_layers:
            layer.use = layer == self.view_layer
        layer = self.view_layer
        for name in _properties_starting(layer, "use_pass_"):
            setattr(layer, name, False)
        for group in (layer.eevee, getattr(layer, "cycles", None)):
            for name in (
                _properties_starting(group, ("use_pass_", "pass_", "denoising_store_")) if group else ()
            ):
                setattr(group, name, False)
        layer.use_pass_combined = True
        layer.use_freestyle = False
        for item in self.options.passes:
            setattr(layer, PASS_PROPERTIES[item], True)

    def _set_up_cycles(self) -> None:
        scene: Any = self.scene
        cycles = scene.cycles
        cycles.use_animated_seed = False
        cycles.use_camera_cull = cycles.use_distance_cull = False  # they would drop objects from some views
        self.film_exposure = float(cycles.film_exposure)
        cycles.film_exposure = 1.0  # Blender applies it again when it draws the splats
        if hasattr(cycles, "use_sample_subset"):
            cycles.use_sample_subset = False

    @property
    def scene_samples(self) -> int:
        """The samples that the scene itself asks for; 0 for an engine that has none."""
        return self._scene_sampling[0]

    def number_objects(self, objects: list[bpy.types.Object]) -> tuple[str, ...]:
        """Gives objects the pass indices 1, 2, 3 ... in their order.

        Returns:
            The objects' full names. Those beyond Blender's highest index keep 0 and have no name here.
        """
        for number, obj in enumerate(objects):
            self.aside.set_pass_index(obj, number + 1 if number < MAX_PASS_INDEX else 0)
        return tuple(obj.name_full for obj in objects[:MAX_PASS_INDEX])

    def set_frame(self, frame: int) -> None:
        """Goes to a frame; the present one is not visited anew, which would undo unkeyed changes."""
        if self.scene.frame_current != frame or self.scene.frame_subframe != 0:
            self.scene.frame_current = frame
            self.scene.frame_subframe = 0.0

    def render_view(
        self,
        camera: Camera,
        path: Path,
        *,
        samples: int | None = None,
        seed: int = 0,
        denoise: bool | None = None,
        box_filter: bool = False,
    ) -> None:
        """Renders a view at the present frame into a multilayer EXR, whole or not at all.

        Args:
            camera: The view.
            path: The file; its folder must exist.
            samples: Render samples; None for the stage's, 0 for the scene's own.
            seed: Seed of Cycles' noise.
            denoise: Whether Cycles denoises; None for the stage's choice.
            box_filter: A pixel is the mean over it; else it is filtered as Blender does by default.

        Raises:
            UserError: Blender cannot render, or the file cannot be written.
        """
        render = self.scene.render
        self.scene.camera = self.camera
        apply_camera(camera, self.camera, render)
        self._set_samples(self.options.samples if samples is None else samples, seed)
        self._set_denoising(self.options.denoise if denoise is None else denoise)
        self._set_filter(box_filter)
        part = path.with_name(f".{path.name}.part")
        render.filepath = str(part).replace("{", "{{").replace("}", "}}")  # Blender fills in braces
        self._set_file_format()
        try:
            part.unlink(missing_ok=True)
            call_render(self.scene, write=True)
            check_exr(part)
            os.replace(part, path)
        except (UserError, OSError) as error:
            raise _explained(error, path) from error
        finally:
            part.unlink(missing_ok=True)

    def _set_filter(self, box_filter: bool) -> None:
        """The scene's own filter does not count: splats are drawn by what these two let through."""
        scene: Any = self.scene
        if engine_of(scene) == "CYCLES":
            scene.cycles.pixel_filter_type = "BOX" if box_filter else "BLACKMAN_HARRIS"
            scene.cycles.filter_width = _FILTER_WIDTH_PX  # a box is a pixel wide, whatever this says
        elif engine_of(scene) in EEVEE_NAMES:
            scene.render.filter_size = _EEVEE_BOX_PX if box_filter else _FILTER_WIDTH_PX

    def _set_denoising(self, denoise: bool) -> None:
        if engine_of(self.scene) != "CYCLES":
            return
        scene: Any = self.scene
        layer: Any = self.view_layer
        scene.cycles.use_denoising = denoise
        if denoise:
            layer.cycles.use_denoising = True

    def _set_samples(self, samples: int, seed: int) -> None:
        scene: Any = self.scene
        if engine_of(scene) == "CYCLES":
            cycles = scene.cycles
            cycles.seed = seed
            own = (samples, False, 0.0, 0) if samples else self._scene_sampling
            cycles.samples, cycles.use_adaptive_sampling, cycles.time_limit, self.view_layer.samples = own
        elif engine_of(scene) in EEVEE_NAMES:
            scene.eevee.taa_render_samples = samples or self._scene_sampling[0]


def _properties_starting(struct: Any, start: str | tuple[str, ...]) -> list[str]:
    """Names of the switches that begin so."""
    return [
        p.identifier
        for p in struct.bl_rna.properties
        if p.identifier.startswith(start) and p.type == "BOOLEAN" and not p.is_readonly and not p.is_array
    ]


def engine_of(scene: bpy.types.Scene) -> str:
    """Returns Blender's name of a scene's render engine."""
    return str(scene.render.engine)


def scene_sampling(scene: Any, view_layer: bpy.types.ViewLayer) -> tuple[int, bool, float, int]:
    """Returns the samples a scene asks for, whether Cycles adapts them, its time limit in s, and the layer's samples.

    The first is 0 for an engine that has none.
    """
    if engine_of(scene) == "CYCLES":
        cycles = scene.cycles
        return cycles.samples, cycles.use_adaptive_sampling, cycles.time_limit, view_layer.samples
    eevee = engine_of(scene) in EEVEE_NAMES
    return (scene.eevee.taa_render_samples if eevee else 0), False, 0.0, 0


def set_engine(scene: bpy.types.Scene, engine: str) -> None:
    """Selects a render engine by the settings' word for it, whatever this Blender calls it.

    Raises:
        UserError: This Blender does not have it.
    """
    render: Any = scene.render  # engines register themselves: their names are no closed list
    if engine == "scene":
        return
    for name in EEVEE_NAMES if engine == "EEVEE" else (engine,):
        try:
            render.engine = name
            return
        except TypeError:
            continue
    raise UserError(
        f"This Blender has no render engine {engine}.",
        "Enable its add-on in the preferences, or choose another.",
    )


def _explained(error: UserError | OSError, path: Path) -> UserError:
    """Says what kept a view from being written."""
    folder = path.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return UserError(f"Cannot write {path}: the folder is gone.", "Choose another folder.", error)
    cause = str(error.cause) if isinstance(error, UserError) and error.cause else str(error)
    if free < _LOW_DISK_BYTES or "No space left" in cause:
        hint = "The disk is full: free some space, or choose another folder."
        return UserError(f"Cannot write {path}: no space left.", hint, error)
    if not os.access(folder, os.W_OK):
        hint = "You may not write there: choose another folder, or change its permissions."
        return UserError(f"Cannot write {path}: permission denied.", hint, error)
    if isinstance(error, FormatError):  # Blender 4.5 only grumbles on the console when a file cannot grow
        hint = "The disk or your quota may be full: free some space, or choose another folder."
        return UserError(f"Cannot write {path}: Blender left it incomplete.", hint, error)
    if isinstance(error, UserError) and "cannot save" not in cause:
        return error
    return UserError(f"Cannot write {path}: {cause.strip()}", "Check the folder and the disk.", error)
