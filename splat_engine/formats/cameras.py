"""One view's camera."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import (
    CAMERA_MODELS,
    OPENGL_FROM_OPENCV,
    CameraModel,
    Float,
    is_rigid,
)
from splat_engine.formats.errors import FormatError


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole or orthographic camera. Two are equal when every attribute is, the pose to the last bit.

    Attributes:
        width, height: Image size, pixels.
        fx, fy: Focal lengths in pixels, positive; for an orthographic camera pixels per scene unit.
        cx, cy: Principal point in pixels from the image's upper left corner, so that the
            centre of the first pixel is (0.5, 0.5).
        world_from_camera: [4, 4] pose, OpenCV axes (x right, y down, z forward), no scale.
        model: ``"perspective"`` or ``"orthographic"``.
        near, far: Clip distances in scene units, 0 <= near < far.
        name: The camera's name in its scene, or the rig's name and number.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    world_from_camera: Float
    model: CameraModel = "perspective"
    near: float = 0.01
    far: float = 1e6
    name: str = ""

    def __post_init__(self) -> None:
        """Checks that the camera can see.

        Raises:
            FormatError: A size or focal length is not positive, a number is not finite, or the pose is not rigid.
        """
        label = f"Camera {self.name!r}" if self.name else "Camera"
        if self.width < 1 or self.height < 1:
            raise FormatError(
                f"{label} has the image size {self.width} x {self.height}.", "Give it at least one pixel."
            )
        numbers = (self.fx, self.fy, self.cx, self.cy, self.near, self.far)
        if not np.isfinite(numbers).all() or self.fx <= 0 or self.fy <= 0:
            raise FormatError(
                f"{label} has intrinsics that are not finite, or no positive focal length: "
                f"fx {self.fx}, fy {self.fy}, cx {self.cx}, cy {self.cy}.",
                "Check the camera's lens and sensor.",
            )
        if not 0 <= self.near < self.far:
            raise FormatError(
                f"{label} has the clip distances {self.near} to {self.far}.",
                "The start must lie before the end.",
            )
        if self.model not in CAMERA_MODELS:
            raise FormatError(
                f"{label} is of the model {self.model!r}.", f"Known models: {', '.join(CAMERA_MODELS)}."
            )
        pose = np.array(self.world_from_camera, dtype=np.float64)
        if not is_rigid(pose):
            raise FormatError(
                f"{label} has a pose that is not a rotation and a translation: {pose.tolist()}.",
                "Remove scale and shear from the camera, or drop the view.",
            )
        pose.setflags(write=False)
        object.__setattr__(self, "world_from_camera", pose)
        for name, kind in _SCALARS.items():
            object.__setattr__(self, name, kind(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Camera) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, item.name) for item in fields(self))
        return tuple(tuple(value.ravel()) if isinstance(value, np.ndarray) else value for value in values)

    @property
    def viewmat(self) -> Float:
        """[4, 4] camera_from_world, OpenCV axes."""
        rotation = self.world_from_camera[:3, :3].T
        viewmat = np.eye(4)
        viewmat[:3, :3] = rotation
        viewmat[:3, 3] = -rotation @ self.world_from_camera[:3, 3]
        return viewmat

    @property
    def intrinsics(self) -> Float:
        """[4] fx, fy, cx, cy."""
        return np.array([self.fx, self.fy, self.cx, self.cy])

    @property
    def position(self) -> Float:
        """[3] the camera's centre in the world."""
        return self.world_from_camera[:3, 3]

    @property
    def forward(self) -> Float:
        """[3] the unit vector in the world along which the camera looks."""
        return self.world_from_camera[:3, 2]

    def project(self, points: Float) -> tuple[Float, Float]:
        """Projects world points to pixels.

        Args:
            points: [N, 3] world coordinates.

        Returns:
            pixels [N, 2] and planar depths [N]. Behind a perspective camera depth is negative and
            the pixels mean nothing.
        """
        local = np.asarray(points, dtype=np.float64) @ self.viewmat[:3, :3].T + self.viewmat[:3, 3]
        depth = local[:, 2]
        if self.model == "orthographic":
            plane = local[:, :2]
        else:
            with np.errstate(over="ignore"):
                plane = local[:, :2] / np.where(depth == 0, 1e-300, depth)[:, None]
        return plane * [self.fx, self.fy] + [self.cx, self.cy], depth

    def unproject(self, pixels: Float, depth: Float) -> NDArray[np.float64]:
        """Returns the world points [N, 3] at ``pixels`` [N, 2] and planar depths [N]: the inverse of ``project``.

        Args:
            pixels: Columns and rows; a pixel's centre is at +0.5.
            depth: Scene units.
        """
        plane = (pixels - [self.cx, self.cy]) / [self.fx, self.fy]
        if self.model == "perspective":
            plane *= depth[:, None]
        world: NDArray[np.float64] = np.c_[plane, depth] @ self.world_from_camera[:3, :3].T + self.position
        return world

    def scaled(self, factor: float) -> Camera:
        """Returns the same view at ``factor`` times the resolution (sizes rounded, at least 1 pixel)."""
        width, height = max(1, round(self.width * factor)), max(1, round(self.height * factor))
        x, y = width / self.width, height / self.height
        return replace(
            self, width=width, height=height, fx=self.fx * x, fy=self.fy * y, cx=self.cx * x, cy=self.cy * y
        )

    def to_frame(self) -> dict[str, Any]:
        """Returns the camera as the keys of a frame in transforms.json (OpenGL axes)."""
        return {
            "camera_model": "PINHOLE" if self.model == "perspective" else "ORTHOGRAPHIC",
            "w": self.width,
            "h": self.height,
            "fl_x": self.fx,
            "fl_y": self.fy,
            "cx": self.cx,
            "cy": self.cy,
            "transform_matrix": (self.world_from_camera @ OPENGL_FROM_OPENCV).tolist(),
        }


_SCALARS: dict[str, Callable[[Any], Any]] = {"width": int, "height": int}
_SCALARS |= {name: float for name in ("fx", "fy", "cx", "cy", "near", "far")}

_MODELS: dict[str, CameraModel] = {
    "PINHOLE": "perspective",
    "SIMPLE_PINHOLE": "perspective",
    "OPENCV": "perspective",
    "PERSPECTIVE": "perspective",
    "ORTHOGRAPHIC": "orthographic",
    "ORTHOPHOTO": "orthographic",
}
_DISTORTION_KEYS = ("k1", "k2", "k3", "k4", "p1", "p2")
_SIZE_MAX_PX = 1 << 20


_Number = Callable[[str], "float | None"]


def camera_from_frame(
    frame: dict[str, Any], shared: dict[str, Any], *, where: str, image_size: tuple[int, int] | None = None
) -> Camera:
    """Reads a camera from a frame of transforms.json.

    Understands nerfstudio's keys (fl_x, fl_y, cx, cy, w, h per frame or shared by all) and
    NeRF-synthetic's ``camera_angle_x``. Missing principal points are the image's centre.

    Args:
        frame: The frame's keys.
        shared: The file's top level, looked at for what the frame does not say.
        where: File and frame, for messages.
        image_size: (width, height) of the picture, for files that do not state it.

    Returns:
        The camera in the engine's axes. A pose with a uniform positive scale loses it.

    Raises:
        FormatError: A key is missing or out of range, or the model is one we do not draw.
    """

    def number(key: str) -> float | None:
        value = frame.get(key, shared.get(key))
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300:
            return float(value)
        raise FormatError(
            f"{where} has {key} {value!r}, which is not a finite number.", "Write the data set anew."
        )

    name = str(frame.get("camera_model") or shared.get("camera_model") or "PINHOLE").upper()
    if name not in _MODELS:
        raise FormatError(
            f"{where} has the camera model {name}.", "Render or undistort the views as pinhole images."
        )
    distortion = {key: number(key) for key in _DISTORTION_KEYS if number(key)}
    if distortion:
        raise FormatError(f"{where} has lens distortion {distortion}.", "Undistort the images first.")
    width, height = _size_px(number, where, image_size)
    fx, fy = _focal_px(number, where, width, height)
    cx, cy = number("cx"), number("cy")
    try:
        return Camera(
            width=width,
            height=height,
            fx=fx,
            fy=fy,
            cx=width / 2 if cx is None else cx,
            cy=height / 2 if cy is None else cy,
            world_from_camera=_pose(frame, where),
            model=_MODELS[name],
            name=str(frame.get("file_path", "")),
        )
    except FormatError as error:
        if error.headline.startswith(where):
            raise
        raise FormatError(f"{where}: {error.headline}", error.hint, error.cause) from error


def _size_px(number: _Number, where: str, image_size: tuple[int, int] | None) -> tuple[int, int]:
    width, height = number("w"), number("h")
    if width is None or height is None:
        if image_size is None:
            raise FormatError(f"{where} has no image size (w, h).", "Add w and h to the file.")
        return image_size
    if any(size != round(size) or not 1 <= size <= _SIZE_MAX_PX for size in (width, height)):
        raise FormatError(
            f"{where} has the image size {width:g} x {height:g}.",
            "Give w and h as whole, positive numbers of pixels.",
        )
    return round(width), round(height)


def _focal_px(number: _Number, where: str, width: int, height: int) -> tuple[float, float]:
    fx = _focal_of(number, "fl_x", "camera_angle_x", width, where)
    fy = _focal_of(number, "fl_y", "camera_angle_y", height, where)
    if fx is None and fy is None:
        raise FormatError(
            f"{where} has no focal length.", "Add fl_x and fl_y (pixels) or camera_angle_x (radians)."
        )
    return float(fy if fx is None else fx), float(fx if fy is None else fy)  # type: ignore[arg-type]


def _focal_of(number: _Number, key: str, angle_key: str, size_px: int, where: str) -> float | None:
    focal_px, angle_rad = number(key), number(angle_key)
    if focal_px is not None or angle_rad is None:
        return focal_px
    if not 0 < angle_rad < math.pi:
        raise FormatError(
            f"{where} has {angle_key} {angle_rad:g}.", "An angle of view in radians lies between 0 and pi."
        )
    return 0.5 * size_px / math.tan(0.5 * angle_rad)


def _pose(frame: dict[str, Any], where: str) -> Float:
    try:
        matrix = np.array(frame["transform_matrix"], dtype=np.float64)
    except KeyError as error:
        raise FormatError(f"{where} has no transform_matrix.", "Write the data set anew.", error) from error
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"{where} has a transform_matrix that is not a table of numbers.", "", error
        ) from error
    if matrix.shape == (3, 4):
        matrix = np.vstack([matrix, [0, 0, 0, 1]])
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise FormatError(
            f"{where} has a transform_matrix that is not 4 x 4 or not finite.",
            "Write the data set anew, or drop the view.",
        )
    determinant = float(np.linalg.det(matrix[:3, :3]))
    if determinant <= 1e-18:
        raise FormatError(
            f"{where} has a singular or mirrored transform_matrix (determinant {determinant:.3g}).",
            "Remove negative or zero scale from the camera, or drop the view.",
        )
    matrix[:3, :3] /= np.cbrt(determinant)
    return matrix @ OPENGL_FROM_OPENCV
