"""Which splats lie near the objects that they were made from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from numpy.typing import NDArray

from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from ..capture.bounds import FARTHEST, INVISIBLE
from ..scene import splat_object

Mask = NDArray[np.bool_]

_MESHABLE = {"CURVE", "SURFACE", "FONT", "META"}


@dataclass(frozen=True)
class Triangles:
    """A surface.

    Attributes:
        vertices: [V, 3].
        corners: [T, 3] vertices of each triangle; at least one.
    """

    vertices: Float
    corners: NDArray[np.int32]

    def mapped(self, matrix: Float) -> Triangles:
        """Returns the surface as an affine map [4, 4] leaves it, its front in front also when mirrored."""
        mirrored = np.linalg.det(matrix[:3, :3]) < 0
        corners = np.ascontiguousarray(self.corners[:, ::-1]) if mirrored else self.corners
        return Triangles(self.vertices @ matrix[:3, :3].T + matrix[:3, 3], corners)

    def tree(self) -> BVHTree:
        """Returns it ready to be searched."""
        return BVHTree.FromPolygons(self.vertices.tolist(), self.corners.tolist(), all_triangles=True)


def triangles_of(evaluated: Any) -> Triangles | None:
    """Returns the surface of an evaluated object in its own frame, or None where it has none."""
    if evaluated.type == "MESH":
        return _triangles(evaluated.data)
    if evaluated.type not in _MESHABLE:
        return None
    mesh = evaluated.to_mesh()
    try:
        return None if mesh is None else _triangles(mesh)
    finally:
        evaluated.to_mesh_clear()


def _triangles(mesh: Any) -> Triangles | None:
    mesh.calc_loop_triangles()
    vertices = np.empty((len(mesh.vertices), 3), np.float32)
    corners = np.empty((len(mesh.loop_triangles), 3), np.int32)
    mesh.vertices.foreach_get("co", vertices.reshape(-1))
    mesh.loop_triangles.foreach_get("vertices", corners.reshape(-1))
    placed: Mask = np.all(np.abs(vertices) < FARTHEST, axis=1)
    corners = corners[placed[corners].all(axis=1)]
    return Triangles(vertices.astype(np.float64), corners) if len(corners) else None


@dataclass(frozen=True)
class Body:
    """One placed object.

    Attributes:
        tree: Its surface in a frame of its own; None: all of its box counts as near.
        tree_from_world: [4, 4] into that frame, a similarity.
        scale: Lengths in that frame by lengths in the world.
        low, high: [3] its box, world.
    """

    tree: BVHTree | None
    tree_from_world: Float
    scale: float
    low: Float
    high: Float

    def reaches(self, points: Float, distance: float) -> Mask:
        """Returns [N] which world points [N, 3] lie within a distance of the surface."""
        inside: Mask = np.all((points >= self.low - distance) & (points <= self.high + distance), axis=1)
        if self.tree is None:
            return inside
        rows = np.flatnonzero(inside)
        local = points[rows] @ self.tree_from_world[:3, :3].T + self.tree_from_world[:3, 3]
        find, most = self.tree.find_nearest, distance * self.scale
        inside[rows] = [find(Vector(point), most)[0] is not None for point in local.tolist()]
        return inside


def near_bodies(points: Float, bodies: Collection[Body], distance: float) -> Mask:
    """Returns [N] which world points [N, 3] lie within a distance of any of the bodies; the largest is asked first."""
    far = np.arange(len(points))
    for body in sorted(bodies, key=lambda body: -float(np.prod(body.high - body.low))):
        if not len(far):
            break
        reached = body.reaches(points[far].astype(np.float64), distance)
        far = far[~reached]
    near = np.ones(len(points), np.bool_)
    near[far] = False
    return near


def source_bodies(context: Any, names: Collection[str] | None) -> list[Body]:
    """Returns what of a scene splats can be from, where it stands now, instances and modifiers included.

    What is hidden by its eye, as a fit's originals are, counts: it is shown to Blender for a moment.

    Args:
        context: Its view layer is looked at.
        names: Full names of the objects that were captured; None: nobody knows, all but splats count.

    Raises:
        UserError: There is none.
    """
    bodies: list[Body] = []
    with _shown(context.view_layer):
        trees: dict[tuple[int, int], tuple[BVHTree, Triangles] | None] = {}
        for instance in context.evaluated_depsgraph_get().object_instances:
            shown = instance.object
            is_source = names is None or shown.original.name_full in names
            if not is_source or shown.type in INVISIBLE or splat_object.is_splat_object(shown.original):
                continue
            body = _body(instance, trees)
            if body is not None:
                bodies.append(body)
    if not bodies:
        raise UserError(
            "None of the objects that these splats were made from is in this view layer.",
            "Turn off Compare with Objects, or bring them back.",
        )
    return bodies


@contextmanager
def _shown(view_layer: Any) -> Iterator[None]:
    """Opens the eyes of hidden originals, for Blender computes no object that is hidden in the view layer."""
    hidden = [
        item
        for item in view_layer.objects
        if item.hide_get(view_layer=view_layer)
        and (item.type not in INVISIBLE or item.instance_type != "NONE")
        and not splat_object.is_splat_object(item)
    ]
    try:
        for item in hidden:
            item.hide_set(False, view_layer=view_layer)
        yield
    finally:
        for item in hidden:
            item.hide_set(True, view_layer=view_layer)


def _body(instance: Any, trees: dict[tuple[int, int], tuple[BVHTree, Triangles] | None]) -> Body | None:
    """Returns one instance; equal objects that are only moved, turned and scaled share their tree."""
    shown = instance.object
    matrix = np.array(instance.matrix_world, np.float64)
    key = (shown.original.as_pointer(), shown.data.as_pointer() if shown.data is not None else 0)
    if key not in trees:
        found = triangles_of(shown)
        trees[key] = None if found is None else (found.tree(), found)
    known = trees[key]
    if known is None:
        return _box_body(shown, matrix)
    tree, triangles = known
    low, high = _box_of(triangles.vertices, matrix)
    if not np.isfinite(high - low).all():
        return None
    scale = np.cbrt(abs(np.linalg.det(matrix[:3, :3])))
    turn = matrix[:3, :3] / scale if scale > 0 else np.zeros((3, 3))
    if np.allclose(turn @ turn.T, np.eye(3), atol=1e-4):
        return Body(tree, np.linalg.inv(matrix), 1 / scale, low, high)
    return Body(triangles.mapped(matrix).tree(), np.eye(4), 1.0, low, high)


def _box_of(vertices: Float, matrix: Float) -> tuple[Float, Float]:
    """Returns the world's box around the local box of vertices [V, 3]."""
    ends = np.stack((vertices.min(axis=0), vertices.max(axis=0)))
    corners = np.stack([ends[[i, j, k], [0, 1, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    world = corners @ matrix[:3, :3].T + matrix[:3, 3]
    return world.min(axis=0), world.max(axis=0)


def _box_body(shown: Any, matrix: Float) -> Body | None:
    """Returns the box of what has no surface: hair, volumes, Grease Pencil."""
    low, high = _box_of(np.array(shown.bound_box, np.float64), matrix)
    is_placed = np.isfinite(high - low).all() and float((high - low).max()) > 0
    return Body(None, np.eye(4), 1.0, low, high) if is_placed else None
