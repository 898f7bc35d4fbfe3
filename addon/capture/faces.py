"""A camera on each face of a mesh."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from .rigs import Framing, look_at, square_camera

LENS_MM = 50.0
_SENSOR_MM = 36.0


def camera_mesh(name: str) -> Any:
    """Returns the mesh object of a name.

    Raises:
        UserError: None is named, or it is no mesh.
    """
    if not name:
        raise UserError(
            "No mesh is chosen for the cameras.", "Choose a mesh: a camera stands on each of its faces."
        )
    obj: Any = bpy.data.objects.get(name)
    if obj is None or obj.type != "MESH":
        what = "There is no object" if obj is None else "No mesh is the object"
        raise UserError(f"{what} {name!r} whose faces could be cameras.", "Choose a mesh object.")
    return obj


def faces_of(obj: Any, depsgraph: Any) -> tuple[Float, Float]:
    """Returns the centres [F, 3] and unit normals [F, 3] of a mesh object's faces in the world, modifiers applied.

    Faces without an area are left out.
    """
    evaluated = obj.evaluated_get(depsgraph)
    mesh = evaluated.to_mesh()
    try:
        centers, normals = (np.empty(len(mesh.polygons) * 3, np.float32) for _ in range(2))
        mesh.polygons.foreach_get("center", centers)
        mesh.polygons.foreach_get("normal", normals)
    finally:
        evaluated.to_mesh_clear()
    world = np.array(evaluated.matrix_world, dtype=np.float64)
    if abs(np.linalg.det(world[:3, :3])) < 1e-30:
        return np.zeros((0, 3)), np.zeros((0, 3))
    turned = normals.reshape(-1, 3) @ np.linalg.inv(world[:3, :3])
    length = np.linalg.norm(turned, axis=1)
    good = (length > 0) & np.isfinite(length)
    placed = centers.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]
    return placed[good], turned[good] / length[good, None]


def face_cameras(
    centers: Float,
    normals: Float,
    look: str,
    framing: Framing,
    count: int,
    *,
    size_px: int,
    lens_mm: float = 0.0,
) -> list[Camera]:
    """Returns square views from faces.

    Args:
        centers, normals: [F, 3] of the faces.
        look: "outward" along the normals, "inward" against them, or "target".
        framing: The target.
        count: At most so many views: with more faces, evenly chosen ones.
        size_px: Side of a view.
        lens_mm: Focal length on a 36 mm sensor; 0: ``LENS_MM``.

    Raises:
        UserError: There is no face, or all of them lie in the target's middle.
    """
    even = np.unique(np.linspace(0, len(centers) - 1, min(count, len(centers))).round().astype(int))
    forward = {
        "outward": normals,
        "inward": -normals,
        "target": framing.sphere.center - centers,
    }[look]
    chosen = [int(number) for number in even if np.linalg.norm(forward[number]) > 0]
    if not chosen:
        raise UserError("The camera mesh has no face to stand on.", "Choose a mesh with faces.")
    focal_px = (lens_mm or LENS_MM) / _SENSOR_MM * size_px
    reach = np.linalg.norm(centers - framing.sphere.center, axis=1) + framing.sphere.radius
    digits = len(str(len(centers)))
    return [
        square_camera(
            size_px,
            focal_px,
            look_at(centers[number], centers[number] + forward[number]),
            near=framing.sphere.radius * 1e-3,
            far=float(reach[number]) + 1000 * framing.sphere.radius,
            name=f"face {number + 1:0{digits}d}",
        )
        for number in chosen
    ]
