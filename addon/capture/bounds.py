"""What a rig looks at: points around everything that renders, for each object and instance.

Geometry is taken from the dependency graph of a render, so that instances, particles, hair, geometry nodes,
curves, text and metaballs count as they will be drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

INVISIBLE = {"EMPTY", "LIGHT", "CAMERA", "SPEAKER", "LIGHT_PROBE", "ARMATURE", "LATTICE"}
_MESHABLE = {"CURVE", "SURFACE", "FONT", "META"}
FARTHEST = 1e9
"""Coordinates beyond are no place: Blender stores an infinite one as 3.4e38."""
_MAX_HAIRS = 4000
_DIRECTIONS: NDArray[np.float32] = np.array(
    [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)],
    np.float32,
)
"""26 directions; the points of a shape that reach farthest along them stand for it."""


@dataclass
class Bodies:
    """Everything in a scene that has a surface or a volume.

    Attributes:
        names: Full name of the object each body was made from; an instance has the name of what it shows.
        points: [N, 26, 3] world points, float32, that reach farthest from each body.
        objects: The original objects, each once, by full name; for the object index pass.
    """

    names: list[str] = field(default_factory=list)
    points: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((0, len(_DIRECTIONS), 3), np.float32)
    )
    objects: dict[str, bpy.types.Object] = field(default_factory=dict)


def collect_bodies(
    depsgraph: bpy.types.Depsgraph, belongs: Callable[[bpy.types.DepsgraphObjectInstance], bool] | None = None
) -> Bodies:
    """Collects what renders.

    Args:
        depsgraph: The dependency graph of a render.
        belongs: Tells whether an instance is part of the target; None: all are.

    Returns:
        The bodies. Lights, cameras and empties, what the camera does not see, holdouts and shadow catchers,
        geometry without faces, and what has no finite place are left out.
    """
    bodies = Bodies()
    shapes: dict[tuple[int, int], NDArray[np.float32] | None] = {}
    matrices: dict[tuple[int, int], list[Float]] = {}
    names: dict[tuple[int, int], list[str]] = {}
    loose: list[tuple[str, NDArray[np.float32]]] = []
    for instance in depsgraph.object_instances:
        obj = instance.object
        if obj.type in INVISIBLE or not _seen(instance):
            continue
        original = obj.original
        bodies.objects[original.name_full] = original
        if belongs is not None and not belongs(instance):
            continue
        if instance.show_self:
            key = (original.as_pointer(), obj.data.as_pointer() if obj.data is not None else 0)
            if key not in shapes:
                shapes[key] = _support_points(_local_points(obj))
            if shapes[key] is not None:
                matrices.setdefault(key, []).append(np.array(instance.matrix_world, dtype=np.float64))
                names.setdefault(key, []).append(original.name_full)
        if instance.show_particles and not instance.is_instance:
            loose += [(original.name_full, strands) for strands in _hair_points(obj)]
    chunks = [p[None] for _, p in loose]
    bodies.names = [name for name, _ in loose]
    for key, placed in matrices.items():
        stack = np.stack(placed)
        shape = shapes[key]
        assert shape is not None
        world = np.einsum("nij,kj->nki", stack[:, :3, :3], shape) + stack[:, None, :3, 3]
        finite = (np.abs(world) < FARTHEST).all(axis=(1, 2))
        chunks.append(world[finite].astype(np.float32))
        bodies.names += [name for name, good in zip(names[key], finite, strict=True) if good]
    if chunks:
        bodies.points = np.concatenate(chunks)
    return bodies


def _seen(instance: bpy.types.DepsgraphObjectInstance) -> bool:
    obj = instance.object
    holder = instance.parent if instance.is_instance and instance.parent is not None else obj
    return obj.visible_camera and holder.visible_camera and not obj.is_holdout and not obj.is_shadow_catcher


def _local_points(obj: bpy.types.Object) -> NDArray[np.float32]:
    """Returns [N, 3] points of an evaluated object in its own frame; N = 0 where it draws nothing."""
    data: Any = obj.data
    if obj.type == "MESH":
        return _mesh_points(data)
    if obj.type in _MESHABLE:
        mesh = obj.to_mesh()
        try:
            return _mesh_points(mesh) if mesh is not None else np.zeros((0, 3), np.float32)
        finally:
            obj.to_mesh_clear()
    if obj.type in ("CURVES", "POINTCLOUD"):
        attribute = data.attributes.get("position")
        return _vectors(attribute.data, "vector") if attribute is not None else np.zeros((0, 3), np.float32)
    box = np.array(obj.bound_box, np.float32)
    return box if np.ptp(box, axis=0).max() > 0 else np.zeros((0, 3), np.float32)


def _mesh_points(mesh: bpy.types.Mesh) -> NDArray[np.float32]:
    if len(mesh.polygons) == 0:
        return np.zeros((0, 3), np.float32)
    return _vectors(mesh.vertices, "co")


def _vectors(collection: Any, name: str) -> NDArray[np.float32]:
    values = np.empty(len(collection) * 3, np.float32)
    collection.foreach_get(name, values)
    return values.reshape(-1, 3)


def _support_points(points: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Returns [26, 3] those of the points that reach farthest along each direction, or None without any."""
    points = points[(np.abs(points) < FARTHEST).all(axis=1)]
    if not len(points):
        return None
    return points[np.argmax(points @ _DIRECTIONS.T, axis=0)]


def _hair_points(obj: bpy.types.Object) -> list[NDArray[np.float32]]:
    """Returns world points of the tips of hair that is drawn as strands, a body for each system."""
    found = []
    for system in obj.particle_systems:
        settings = system.settings
        if settings.type != "HAIR" or settings.render_type != "PATH":
            continue
        count = len(system.particles) + len(system.child_particles)
        steps = 2**settings.render_step
        chosen = np.unique(np.linspace(0, max(count - 1, 0), min(count, _MAX_HAIRS)).astype(int))
        tips = [system.co_hair(obj, particle_no=int(n), step=steps) for n in chosen]
        points = _support_points(np.array(tips, np.float32).reshape(-1, 3))
        if points is not None:
            found.append(points)
    return found


def target_test(name: str) -> Callable[[bpy.types.DepsgraphObjectInstance], bool] | None:
    """Returns the test whether an instance belongs to the target.

    Args:
        name: An object (its children and instances belong to it) or a collection; "" for all that renders.

    Raises:
        UserError: Nothing has that name.
    """
    if not name:
        return None
    obj: Any = bpy.data.objects.get(name)
    collection: Any = bpy.data.collections.get(name)
    if obj is not None:
        members = {obj, *obj.children_recursive}
    elif collection is not None:
        members = set(collection.all_objects)
    else:
        known = ", ".join(sorted(item.name for item in bpy.data.objects if item.type not in INVISIBLE)[:8])
        raise UserError(
            f"There is no object or collection {name!r} to look at.",
            f"Objects in this file: {known}." if known else "This file has no objects to look at.",
        )

    def belongs(instance: bpy.types.DepsgraphObjectInstance) -> bool:
        if instance.object.original in members:
            return True
        return instance.is_instance and instance.parent is not None and instance.parent.original in members

    return belongs
