"""Which of the scene's own cameras see anything of the target at all: a capture of the empty sky takes as long as any."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from .bounds import Bodies

_LISTED = 5


def unseeing_notes(cameras: Sequence[Camera], bodies: Bodies) -> list[str]:
    """Returns a note about the views that see nothing of the target.

    Args:
        cameras: The views.
        bodies: What the target is made of, where it is in all of the views.

    Raises:
        UserError: None of them sees anything.
    """
    blind = [camera.name for camera in cameras if not may_see(camera, bodies.points)]
    if not blind:
        return []
    if len(blind) == len(cameras):
        raise UserError(
            "No camera sees the target: all of them look elsewhere.",
            "Turn a camera to it, choose another target, or choose a rig, which places cameras around it.",
        )
    names = sorted(set(blind))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return [
        f"{len(blind)} of {len(cameras)} views see nothing of the target: {', '.join(names[:_LISTED])}{more}."
    ]


def may_see(camera: Camera, points: Float) -> bool:
    """Tells whether any of some bodies can be in a camera's picture, whatever is in front of it.

    A body is out of the picture if its box lies beyond one of the picture's edges, or behind the camera. A box can be
    judged to be in it that is not, and never the other way round.

    Args:
        camera: The view.
        points: [N, P, 3] points of each body, in the world, its extremes along the axes among them.
    """
    low, high = points.min(axis=1).astype(np.float64), points.max(axis=1).astype(np.float64)
    steps = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1]), axis=-1).reshape(-1, 3)
    corners = low[:, None] + steps * (high - low)[:, None]  # [N, 8, 3]
    local = corners @ camera.viewmat[:3, :3].T + camera.viewmat[:3, 3]
    x, y, depth = np.moveaxis(local, -1, 0)
    size = depth if camera.model == "perspective" else np.ones_like(depth)
    column, row = camera.fx * x + camera.cx * size, camera.fy * y + camera.cy * size
    inside = (
        depth - camera.near,
        camera.far - depth,
        column,
        camera.width * size - column,
        row,
        camera.height * size - row,
    )
    can_be = np.ones(len(points), bool)
    for distance in inside:
        can_be &= (distance > 0).any(axis=1)
    return bool(can_be.any())
