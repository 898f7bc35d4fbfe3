"""Cameras and a target as lines, to be drawn into the viewport. Pure numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float

Lines = NDArray[np.float32]
"""[2 L, 3] ends of lines, two a line."""

_SIZE = 0.12
"""Depth of a drawn camera, as a share of its distance from the target's middle ..."""
_SIZE_LEAST, _SIZE_MOST = 0.03, 0.25
"""... and at least and at most these shares of the target's radius."""
_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1), (4, 2), (4, 3), (5, 6), (6, 7), (7, 5))
"""Of a camera: the picture's rim, the rays to its corners, and a triangle over its upper edge."""
_BOX_EDGES = [(a, b) for a in range(8) for b in range(a + 1, 8) if (a ^ b) in (1, 2, 4)]


@dataclass(frozen=True)
class RigLines:
    """What is drawn of a rig.

    Attributes:
        training, held_out: Cameras whose views are learned from, and those that only judge.
        box: The target's box.
    """

    training: Lines
    held_out: Lines
    box: Lines

    @classmethod
    def of_nothing(cls) -> RigLines:
        """Returns no line."""
        empty = np.zeros((0, 3), np.float32)
        return cls(empty, empty, empty)


def camera_lines(cameras: Sequence[Camera], middle: Float, radius: float) -> Lines:
    """Returns each camera as the pyramid that it sees, with a triangle that points up.

    Args:
        cameras: Any number; an orthographic one has its picture's true size.
        middle: [3] the target's.
        radius: The target's, scene units.
    """
    if not cameras:
        return np.zeros((0, 3), np.float32)
    return np.concatenate([_camera(camera, middle, radius) for camera in cameras]).astype(np.float32)


def _camera(camera: Camera, middle: Float, radius: float) -> Float:
    distance = float(np.linalg.norm(camera.position - middle))
    depth = min(max(_SIZE * distance, _SIZE_LEAST * radius), _SIZE_MOST * radius)
    spread = depth if camera.model == "perspective" else 1.0
    left, right = (x * spread / camera.fx for x in (-camera.cx, camera.width - camera.cx))
    top, bottom = (y * spread / camera.fy for y in (-camera.cy, camera.height - camera.cy))
    center, wide, high = (left + right) / 2, right - left, bottom - top
    local = np.array(
        [
            (left, top, depth),
            (right, top, depth),
            (right, bottom, depth),
            (left, bottom, depth),
            (0, 0, 0),
            (center - 0.3 * wide, top - 0.1 * high, depth),
            (center + 0.3 * wide, top - 0.1 * high, depth),
            (center, top - 0.4 * high, depth),
        ]
    )
    pose = camera.world_from_camera
    world = local @ pose[:3, :3].T + pose[:3, 3]
    ends: Float = world[np.array(_EDGES).ravel()]
    return ends


def box_lines(low: Float, high: Float) -> Lines:
    """Returns the twelve edges of a box."""
    corners = np.array([[(low, high)[(n >> axis) & 1][axis] for axis in range(3)] for n in range(8)])
    ends: Lines = corners[np.array(_BOX_EDGES).ravel()].astype(np.float32)
    return ends
