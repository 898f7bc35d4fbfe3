"""One view's camera."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from splat_engine.formats.conventions import (
    CAMERA_MODELS,
    OPENGL_FROM_OPENCV,
    CameraModel,
    Float,
    is_rigid,
)
from splat_engine.formats.errors import FormatError


@dataclass(frozen=True)
class Camera:
    """A pinhole or orthographic camera.

    Attributes:
        width, height: Image size, pixels.
        fx, fy: Focal lengths in pixels; for an orthographic camera pixels per scene unit.
        cx, cy: Principal point in pixels from the image's upper left corner, so that the
            centre of the first pixel is (0.5, 0.5).
        world_from_camera: [4, 4] pose, OpenCV axes (x right, y down, z forward), no scale.
        model: ``"perspective"`` or ``"orthographic"``.
        near, far: Clip distances in scene units.
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
            FormatError: A size is not positive, a number is not finite, or the pose is not rigid.
        """
        label = f"Camera {self.name!r}" if self.name else "Camera"
        if self.width < 1 or self.height < 1:
            raise FormatError(
                f"{label} has the image size {self.width} x {self.height}.", "Give it at least one pixel."
            )
        numbers = (self.fx, self.fy, self.cx, self.cy, self.near, self.far)
        if not np.isfinite(numbers).all() or self.fx == 0 or self.fy == 0:
            raise FormatError(
                f"{label} has intrinsics that are zero or not finite: fx {self.fx}, fy {self.fy}, cx {self.cx}, cy {self.cy}.",
                "Check the camera's lens and sensor.",
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
            plane = local[:, :2] / np.where(depth == 0, np.finfo(np.float64).tiny, depth)[:, None]
        return plane * [self.fx, self.fy] + [self.cx, self.cy], depth

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


_MODELS: dict[str, CameraModel] = {
    "PINHOLE": "perspective",
    "SIMPLE_PINHOLE": "perspective",
    "OPENCV": "perspective",
    "PERSPECTIVE": "perspective",
    "ORTHOGRAPHIC": "orthographic",
    "ORTHOPHOTO": "orthographic",
}
_DISTORTION_KEYS = ("k1", "k2", "k3", "k4", "p1", "p2")


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

    def value(key: str) -> Any:
        return frame.get(key, shared.get(key))

    name = str(value("camera_model") or "PINHOLE").upper()
    if name not in _MODELS:
        raise FormatError(
            f"{where} has the camera model {name}.", "Render or undistort the views as pinhole images."
        )
    distortion = {key: value(key) for key in _DISTORTION_KEYS if value(key)}
    if distortion:
        raise FormatError(f"{where} has lens distortion {distortion}.", "Undistort the images first.")
    width, height = _size(value, where, image_size)
    fx, fy = _focal_px(value, where, width, height)
    cx, cy = value("cx"), value("cy")
    return Camera(
        width=width,
        height=height,
        fx=fx,
        fy=fy,
        cx=width / 2 if cx is None else float(cx),
        cy=height / 2 if cy is None else float(cy),
        world_from_camera=_pose(frame, where),
        model=_MODELS[name],
        name=str(frame.get("file_path", "")),
    )


def _size(value: Any, where: str, image_size: tuple[int, int] | None) -> tuple[int, int]:
    width, height = value("w"), value("h")
    if width is None or height is None:
        if image_size is None:
            raise FormatError(f"{where} has no image size (w, h).", "Add w and h to the file.")
        return image_size
    return int(width), int(height)


def _focal_px(value: Any, where: str, width: int, height: int) -> tuple[float, float]:
    fx, fy = value("fl_x"), value("fl_y")
    if fx is None and value("camera_angle_x") is not None:
        fx = 0.5 * width / np.tan(0.5 * float(value("camera_angle_x")))
    if fy is None and value("camera_angle_y") is not None:
        fy = 0.5 * height / np.tan(0.5 * float(value("camera_angle_y")))
    if fx is None and fy is None:
        raise FormatError(
            f"{where} has no focal length.", "Add fl_x and fl_y (pixels) or camera_angle_x (radians)."
        )
    return float(fy if fx is None else fx), float(fx if fy is None else fy)


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
