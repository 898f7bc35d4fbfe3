"""An object's transform goes into its splats, as Blender's Apply does it for meshes: the picture stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from mathutils import Matrix

from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats

from ..scene import encoding, splat_object, transforms
from . import points


def apply_transforms(objects: Iterable[Any]) -> None:
    """Moves, turns, scales and mirrors splats as their objects are, and takes the transforms from the objects.

    The parent's transform and the constraints' stay; children keep their place.

    Args:
        objects: ``points.editable`` ones.

    Raises:
        UserError: Others use the same data, something else moves an object, or its transform flattens it; nothing
            has changed.
    """
    chosen = list(objects)
    for object in chosen:
        _check(object)
    for object in chosen:
        _apply(object)


def _apply(object: Any) -> None:
    basis = object.matrix_basis.copy()
    splats = transforms.transform(splat_object.read_splats(object), np.array(basis))
    moved = encoding.attributes_of(splats)
    data = object.data
    placed = {name: moved[name] for name in moved if name not in (encoding.BASE, encoding.OBJECT_INDEX)}
    points.write(data, {name: (data.attributes[name].data_type, placed[name]) for name in placed})
    for child in object.children:
        child.matrix_parent_inverse = basis @ child.matrix_parent_inverse
    object.matrix_basis = Matrix.Identity(4)


def _check(object: Any) -> None:
    if object.data.users > 1:
        raise UserError(
            f"{object.data.users} objects use the splats of {object.name!r}.",
            "Give it splats of its own: Object > Relations > Make Single User > Object & Data.",
        )
    animation = object.animation_data
    if animation is not None and (animation.action is not None or len(animation.drivers)):
        raise UserError(f"{object.name!r} is animated.", "Clear its animation first: it would move again.")
    if any(not constraint.mute for constraint in object.constraints):
        raise UserError(f"{object.name!r} has constraints.", "Apply or remove them first.")
    transforms.transform(Splats.empty(), np.array(object.matrix_basis))  # tells whether it can be
