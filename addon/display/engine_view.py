"""The engine's picture of a view, in an image that an Image Editor can show.

While a fit runs the engine draws it, between two steps; else Blender's own copy of the engine's kernels does, from a splat
object: the picture the fit is about, also where Blender itself draws no splats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import (
    CLASSIC_DILATION_PX2,
    PIXEL_FILTER_VARIANCE_PX2,
    srgb_from_linear,
)
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats
from splat_engine.native.project import project, sh_colors
from splat_engine.native.rasterize import Rasterization

from .. import blender
from ..capture.cameras import camera_of, image_frame, rigid_pose
from ..runs.session import Session, State
from ..scene import splat_object
from .picture_icon import PictureIcon, framed
from .test_view import pixels_of, small

IMAGE_NAME = "Splatfit Preview"
LONGEST_SIDE_PX = 1280
"""Of a picture: larger ones are drawn smaller, so that a fit hardly waits for them."""
FOLLOW_INTERVAL_S = 3.0
ENGINE_SHARE = 0.02
"""Of the fit's time that pictures may take while the view is followed."""
_MARK = "splatfit_preview"
"""Custom property by which the image is found."""
_ALPHA_FLOOR = 1e-6
ICON_SIDE_PX = 320


icon = PictureIcon()
"""The picture as the panel shows it: what is in it, filling the square."""


class Requests:
    """Asks the engine of a session for pictures, and shows them when they come.

    Args:
        session: The session.
        clock: Seconds; for tests.
    """

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self.session = session
        self._clock = clock
        self._seen = session.report.previews
        self._waits = False
        self._next_s = clock()

    def ask(self, camera: Camera) -> bool:
        """Asks for a picture; False if nothing is being fitted."""
        self._waits = self.session.preview(camera.to_frame())
        engine_s = self.session.report.file_seconds.get("preview", 0.0)
        self._next_s = self._clock() + max(FOLLOW_INTERVAL_S, engine_s / ENGINE_SHARE)
        return self._waits

    def tick(self, *, follows: bool) -> None:
        """Shows a picture that has come, and asks for the next if the view is followed."""
        if self.session.report.previews != self._seen:
            self._seen = self.session.report.previews
            if self._waits or follows:
                self._waits = False
                show_file(self.session.run.preview)
        if not follows or self._clock() < self._next_s or self.session.state is not State.FITTING:
            return
        try:
            self.ask(camera_to_draw(bpy.context))
        except UserError:  # no view that can be drawn now: the next time, perhaps
            self._next_s = self._clock() + FOLLOW_INTERVAL_S


def camera_to_draw(context: Any) -> Camera:
    """Returns the camera of what a person looks at: the viewport's, or the scene's where that is looked through.

    Args:
        context: With the viewport as its area, or any: then the largest viewport is taken; without one the scene's camera.

    Raises:
        UserError: There is no viewport and no camera, or the camera is of a kind that the engine does not draw.
    """
    area = context.area if _is_viewport(context.area) else _largest_viewport(context)
    view = None if area is None else area.spaces.active.region_3d
    if view is None or view.view_perspective == "CAMERA":
        camera = _scene_camera(context)
    else:
        region = next(item for item in area.regions if item.type == "WINDOW")
        camera = viewport_camera(view, area.spaces.active, region.width, region.height)
    return camera.scaled(min(1.0, LONGEST_SIDE_PX / max(camera.width, camera.height)))


def viewport_camera(view: Any, space: Any, width: int, height: int) -> Camera:
    """Returns a viewport's camera, perspective or orthographic, from its matrices.

    Args:
        view: A RegionView3D: its window_matrix is OpenGL's projection.
        space: The SpaceView3D, for the clip distances.
        width, height: Of the region, pixels.

    Raises:
        UserError: The view makes no picture.
    """
    projection = np.array(view.window_matrix, dtype=np.float64)
    pose, _ = rigid_pose(Matrix(view.view_matrix).inverted(), "viewport")
    is_orthographic = projection[3, 3] == 1.0
    # In a perspective the third column shifts the picture, against depth's sign; else the fourth.
    shift_x, shift_y = projection[:2, 3] if is_orthographic else -projection[:2, 2]
    camera = Camera(
        width=width,
        height=height,
        fx=projection[0, 0] * width / 2,
        fy=projection[1, 1] * height / 2,
        cx=width / 2 * (1 + shift_x),
        cy=height / 2 * (1 - shift_y),
        world_from_camera=pose,
        model="orthographic" if is_orthographic else "perspective",
        near=0.0 if is_orthographic else space.clip_start,
        far=2 * space.clip_end,
        name="viewport",
    )
    if not is_orthographic:
        return camera
    # Blender draws an orthographic view on both sides of its centre; the camera stands before all of it.
    pose = camera.world_from_camera.copy()
    pose[:3, 3] -= camera.forward * space.clip_end
    return replace(camera, world_from_camera=pose)


def _scene_camera(context: Any) -> Camera:
    chosen = context.scene.camera
    if chosen is None:
        raise UserError(
            "There is no view to draw: the scene has no camera.", "Add one, or open a 3D viewport."
        )
    evaluated = chosen.evaluated_get(context.evaluated_depsgraph_get())
    frame = image_frame(context.scene.render)
    camera, _ = camera_of(evaluated.data, evaluated.matrix_world, frame, chosen.name)
    return camera


def _is_viewport(area: Any) -> bool:
    return area is not None and area.type == "VIEW_3D"


def _largest_viewport(context: Any) -> Any:
    areas = [a for window in context.window_manager.windows for a in window.screen.areas if _is_viewport(a)]
    return max(areas, key=lambda area: area.width * area.height, default=None)


def draw_splats(splats: Splats, camera: Camera, *, is_classic: bool) -> NDArray[np.float32]:
    """Draws splats by the native kernels.

    Args:
        splats: The cloud, in the world.
        camera: The view.
        is_classic: Whether encoded colours are blended, as web viewers do; else linear light, as Blender does.

    Returns:
        [H, W, 4] encoded colour, 0 to 1, and straight alpha.

    Raises:
        UserError: The kernels cannot be loaded, or there is no memory.
    """
    is_orthographic = camera.model == "orthographic"
    viewmat = camera.viewmat.astype(np.float32)
    screen = project(
        splats.means,
        splats.log_scales,
        splats.quats_wxyz,
        splats.opacity_logits,
        viewmat,
        camera.intrinsics,
        camera.width,
        camera.height,
        orthographic=is_orthographic,
        dilation_px2=CLASSIC_DILATION_PX2 if is_classic else PIXEL_FILTER_VARIANCE_PX2,
        antialiased=not is_classic,
        near=max(camera.near, 1e-5),
        with_depth_slopes=not is_classic,
    )
    colors = sh_colors(
        splats.means,
        splats.sh,
        viewmat,
        degree=splats.sh_degree,
        orthographic=is_orthographic,
        decode=not is_classic,
    )
    drawn = Rasterization(
        screen.means2d,
        screen.conics,
        screen.opacities,
        colors,
        screen.depths,
        camera.width,
        camera.height,
        depth_slopes=screen.depth_slopes,
    )
    straight = drawn.image / np.maximum(drawn.alpha, _ALPHA_FLOOR)[..., None]
    picture = straight if is_classic else srgb_from_linear(straight)
    whole: NDArray[np.float32] = np.dstack([picture, drawn.alpha]).astype(np.float32)
    return whole.clip(0, 1)


def draw_object(object: Any, camera: Camera) -> Any:
    """Draws a splat object by the native kernels into the image; returns the image.

    Raises:
        UserError: The object holds no splats, or they cannot be drawn.
    """
    splats = splat_object.read_splats(object, world=True)
    is_classic = splat_object.get_provenance(object).formation == "classic"
    return show_pixels(draw_splats(splats, camera, is_classic=is_classic))


def preview_image() -> Any:
    """Returns the image that pictures are shown in; None before the first."""
    return next((image for image in bpy.data.images if image.get(_MARK) and image.library is None), None)


def show_file(path: Path) -> Any:
    """Loads a picture into the one image, in place, and into Image Editors that show nothing; returns the image.

    Raises:
        UserError: There is no such picture.
    """
    if not path.is_file():
        raise UserError(f"There is no picture {path}.", "The engine may not have been able to write it.")
    image = preview_image()
    if image is None:
        image = bpy.data.images.load(str(path))
        image.name, image[_MARK] = IMAGE_NAME, True
    else:
        image.filepath = str(path)
        image.reload()
    icon.show(small(framed(pixels_of(image)), ICON_SIDE_PX))
    _show_in_editors(image)
    return image


def show_pixels(pixels: NDArray[np.float32]) -> Any:
    """Shows [H, W, 4] encoded colour and straight alpha in the image, by way of a file in Blender's temporary folder."""
    path = Path(bpy.app.tempdir) / "splatfit-preview.png"
    height, width = pixels.shape[:2]
    made: Any = bpy.data.images.new(path.name, width, height, alpha=True)
    try:
        made.pixels.foreach_set(np.ascontiguousarray(pixels[::-1]).reshape(-1))
        made.filepath_raw, made.file_format = str(path), "PNG"
        made.save()
    finally:
        bpy.data.images.remove(made)
    return show_file(path)


def _show_in_editors(image: Any) -> None:
    for area in blender.areas("IMAGE_EDITOR"):
        if area.spaces.active.image is None:
            area.spaces.active.image = image
        area.tag_redraw()
