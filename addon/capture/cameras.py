"""A Blender camera as the engine's ``Camera``, and a ``Camera`` as Blender's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import bpy
import numpy as np
from mathutils import Matrix

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import OPENGL_FROM_OPENCV, Float
from splat_engine.formats.errors import UserError

SENSOR_MM = 36.0
"""Sensor width that the temporary camera and the rigs have."""
_LEAST_LENS_MM = 1.0
"""Blender accepts no shorter lens; below, the sensor grows instead."""
_SHEAR_TOLERANCE = 1e-4


@dataclass(frozen=True)
class ImageFrame:
    """The picture that a scene's render settings ask for.

    Attributes:
        width, height: Full size, pixels, percentage applied.
        aspect_x, aspect_y: Pixel aspect.
        crop: (left, top, right, bottom) in pixels from the upper left corner where the render border crops the
            picture, else None. A border that does not crop only hides pixels, and is not one of the camera's facts.
    """

    width: int
    height: int
    aspect_x: float = 1.0
    aspect_y: float = 1.0
    crop: tuple[int, int, int, int] | None = None


def image_frame(render: bpy.types.RenderSettings) -> ImageFrame:
    """Returns the picture's size and crop.

    Source: Blender, ``BKE_render_resolution`` (integer percentage) and ``render_init_from_main`` (border).
    """
    width = int(render.resolution_x) * int(render.resolution_percentage) // 100
    height = int(render.resolution_y) * int(render.resolution_percentage) // 100
    width, height = max(width, 1), max(height, 1)
    crop = None
    if render.use_border and render.use_crop_to_border:
        left, right = (_edge(share, width) for share in (render.border_min_x, render.border_max_x))
        bottom, top = (_edge(share, height) for share in (render.border_min_y, render.border_max_y))
        if right > left and top > bottom:
            crop = (left, height - top, right, height - bottom)
    return ImageFrame(width, height, float(render.pixel_aspect_x), float(render.pixel_aspect_y), crop)


def _edge(share: float, size: int) -> int:
    """Blender multiplies in single precision and cuts."""
    return int(np.float32(share) * np.float32(size))


def rigid_pose(matrix: Matrix | Sequence[Sequence[float]], name: str) -> tuple[Float, list[str]]:
    """Strips scale, mirror and shear from a camera's world matrix.

    The direction of view stays exactly; the vertical stays in its plane. Blender itself draws a mirrored picture
    under a negative scale and a slanted one under shear; neither is a camera that splats can be fitted to, so the
    view is rendered without, and a note says so.

    Args:
        matrix: [4, 4] Blender's matrix_world, OpenGL axes.
        name: The camera's name, for messages.

    Returns:
        [4, 4] world_from_camera with OpenCV axes, and notes for the user.

    Raises:
        UserError: The matrix is not finite, or flat so that no direction of view is left.
    """
    values = np.array(matrix, dtype=np.float64)
    if not np.isfinite(values).all():
        raise UserError(
            f"The camera {name!r} has a position or rotation that is not a number.",
            "Check its transform, drivers and constraints.",
        )
    lengths = np.linalg.norm(values[:3, :3], axis=0)
    if lengths[2] <= 0 or not (lengths[:2] > 0).any():
        raise UserError(f"The camera {name!r} is scaled to nothing.", "Give it and its parents a scale.")
    x, y, z = (values[:3, i] / lengths[i] if lengths[i] > 0 else np.zeros(3) for i in range(3))
    up = y - (y @ z) * z if lengths[1] > 0 else np.cross(z, x)
    if np.linalg.norm(up) < 1e-9:
        raise UserError(f"The camera {name!r} is scaled flat.", "Give it and its parents a scale.")
    up /= np.linalg.norm(up)
    right = np.cross(up, z)
    notes = []
    if max(abs(x @ y), abs(x @ z), abs(y @ z)) > _SHEAR_TOLERANCE:
        notes.append(f"The camera {name!r} is sheared by its parents; its view is rendered without shear.")
    if np.linalg.det(values[:3, :3]) < 0:
        notes.append(f"The camera {name!r} is mirrored by a negative scale; its view is rendered unmirrored.")
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, up, z], axis=1)
    pose[:3, 3] = values[:3, 3]
    return pose @ OPENGL_FROM_OPENCV, notes


def camera_of(
    data: bpy.types.Camera, matrix: Matrix, frame: ImageFrame, name: str
) -> tuple[Camera, list[str]]:
    """Returns the engine's camera of an evaluated Blender camera.

    Args:
        data: The evaluated camera data.
        matrix: The evaluated object's, or instance's, world matrix.
        frame: The picture.
        name: Name of the view.

    Returns:
        The camera, and notes for the user.

    Raises:
        UserError: The camera is panoramic, or its numbers make no picture.

    Source: Blender, ``BKE_camera_params_compute_viewplane``; FACTS.md section 4.
    """
    if data.type not in ("PERSP", "ORTHO"):
        kind = {"PANO": "panoramic", "CUSTOM": "a custom (OSL) camera"}.get(data.type, data.type.lower())
        raise UserError(
            f"The camera {name!r} is {kind}; splats are fitted to perspective and orthographic views.",
            "Set its type to Perspective or Orthographic, or choose a rig around the target.",
        )
    pose, notes = rigid_pose(matrix, name)
    aspect = frame.aspect_x / frame.aspect_y
    horizontal = data.sensor_fit == "HORIZONTAL" or (
        data.sensor_fit == "AUTO" and frame.aspect_x * frame.width >= frame.aspect_y * frame.height
    )
    view_px = frame.width if horizontal else frame.height / aspect
    if data.type == "ORTHO":
        focal_px = view_px / data.ortho_scale
    else:
        sensor_mm = data.sensor_height if data.sensor_fit == "VERTICAL" else data.sensor_width
        focal_px = data.lens / sensor_mm * view_px
    camera = Camera(
        width=frame.width,
        height=frame.height,
        fx=focal_px,
        fy=focal_px * aspect,
        cx=frame.width / 2 - data.shift_x * view_px,
        cy=frame.height / 2 + data.shift_y * view_px * aspect,
        world_from_camera=pose,
        model="orthographic" if data.type == "ORTHO" else "perspective",
        near=data.clip_start,
        far=data.clip_end,
        name=name,
    )
    return _cropped(camera, frame), notes


def _cropped(camera: Camera, frame: ImageFrame) -> Camera:
    if frame.crop is None:
        return camera
    left, top, right, bottom = frame.crop
    return replace(camera, width=right - left, height=bottom - top, cx=camera.cx - left, cy=camera.cy - top)


def apply_camera(camera: Camera, target: bpy.types.Object, render: bpy.types.RenderSettings) -> None:
    """Gives a Blender camera object and the render settings exactly the view of ``camera``.

    The object must have no parent, constraint or animation; the render settings lose their percentage, border and
    pixel aspect to the view. No depth of field.
    """
    render.resolution_x, render.resolution_y, render.resolution_percentage = camera.width, camera.height, 100
    render.use_border = render.use_crop_to_border = False
    aspect = camera.fy / camera.fx  # aspect_x / aspect_y; Blender takes neither below 1
    render.pixel_aspect_x, render.pixel_aspect_y = max(aspect, 1.0), max(1.0 / aspect, 1.0)
    data = target.data
    assert isinstance(data, bpy.types.Camera)
    data.sensor_fit = "HORIZONTAL"
    if camera.model == "orthographic":
        data.type = "ORTHO"
        data.ortho_scale = camera.width / camera.fx
    else:
        data.type = "PERSP"
        stretch = max(1.0, _LEAST_LENS_MM * camera.width / (camera.fx * SENSOR_MM))
        data.sensor_width = SENSOR_MM * stretch
        data.lens = camera.fx * data.sensor_width / camera.width
    data.shift_x = (camera.width / 2 - camera.cx) / camera.width
    data.shift_y = (camera.cy - camera.height / 2) / (camera.width * aspect)
    data.clip_start, data.clip_end = camera.near, camera.far
    if data.dof is not None:
        data.dof.use_dof = False
    target.matrix_world = Matrix((camera.world_from_camera @ OPENGL_FROM_OPENCV).tolist())
