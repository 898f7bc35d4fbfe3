"""Where the scene is and how large: what random splats, learning rates and densification are relative to."""

from __future__ import annotations

import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture
from splat_engine.formats.conventions import Float

EXTENT_MARGIN = 1.1
"""3DGS multiplies the cameras' radius by this."""


def scene_bounds(capture: Capture, positions: Float | None = None) -> tuple[Float, float]:
    """Returns a sphere around what the views look at.

    Args:
        capture: Its own bounds count first, then the points.
        positions: [N, 3] points on the scene, or None.

    Returns:
        (centre [3], radius), scene units; the radius is positive.
    """
    info = capture.info
    if info.bounds_min is not None and info.bounds_max is not None:
        low, high = np.array(info.bounds_min, np.float64), np.array(info.bounds_max, np.float64)
        if np.isfinite([low, high]).all() and (high > low).any():
            return (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    if positions is not None and len(positions) > 1:
        low, high = np.percentile(positions.astype(np.float64), [1, 99], axis=0)
        if (high > low).any():
            return (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    return _looked_at([view.camera for view in capture.of_split("train")])


def _looked_at(cameras: list[Camera]) -> tuple[Float, float]:
    """The point nearest to all cameras' axes (weakly drawn to the origin), and the radius their pictures cover there."""
    normal_equations, right_side = 1e-3 * np.eye(3), np.zeros(3)
    for camera in cameras:
        across = np.eye(3) - np.outer(camera.forward, camera.forward)
        normal_equations += across
        right_side += across @ camera.position
    centre = np.linalg.solve(normal_equations, right_side)
    radii = []
    for camera in cameras:
        half_px = min(camera.width, camera.height) / 2
        distance = abs(float((centre - camera.position) @ camera.forward))
        radii.append(half_px / abs(camera.fx) * (1.0 if camera.model == "orthographic" else distance))
    radius = float(np.median(radii))
    return centre, radius if radius > 0 else 1.0


def scene_extent(capture: Capture, positions: Float | None = None) -> float:
    """Returns the length that learning rates and densification are relative to, scene units, positive.

    It is 3DGS's: 1.1 times the largest distance of a training camera from the cameras' centre. Where that says nothing
    (a single camera, orthographic cameras, cameras in one spot) it is the radius of the scene's bounds.
    """
    cameras = [view.camera for view in capture.of_split("train")]
    _, bounds_radius = scene_bounds(capture, positions)
    if any(camera.model == "orthographic" for camera in cameras):
        return bounds_radius
    centres = np.array([camera.position for camera in cameras])
    radius = EXTENT_MARGIN * float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).max())
    return radius if radius > 0.1 * bounds_radius else bounds_radius
