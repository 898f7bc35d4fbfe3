"""Splats to a point-cloud object in the scene, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import bpy
import numpy as np

from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats

from . import ellipsoids, encoding, point_cloud, transforms

_PROPERTY_PREFIX = "splatfit_"
_OBJECT_NAMES = _PROPERTY_PREFIX + "object_names"
_NO_NATIVE_SPLATS = (
    "This Blender draws no splats itself (5.3 and later do): they are shown as ellipsoids of their constant "
    "colour. For Cycles, raise Render > Light Paths > Max Bounces > Transparent to 128 or more."
)
_CLASSIC = (
    'These splats were fitted to web viewers (look "classic"): Blender blends in linear light and shows '
    "translucent parts differently."
)


@dataclass(frozen=True)
class Provenance:
    """Which run made a splat object; kept as the object's custom properties ``splatfit_...``.

    Attributes:
        run: The run's directory, or the PLY file.
        formation: "blender" or "classic": what the splats were fitted to look right in; "" if unknown.
        version: Splatfit's version.
        splats: Number of splats when it was made.
        psnr_db: On held-out views by the engine; None if unknown.
    """

    run: str = ""
    formation: str = ""
    version: str = ""
    splats: int = 0
    psnr_db: float | None = None


@dataclass(frozen=True)
class Added:
    """What ``add_splats`` made, or ``replace_splats`` filled anew.

    Attributes:
        object: The object.
        count: How many splats it has.
        dropped: How many splats were left out, because they are not finite.
        notes: What a person should know.
    """

    object: Any
    count: int
    dropped: int
    notes: tuple[str, ...]


def add_splats(
    splats: Splats,
    scene: bpy.types.Scene,
    name: str = "Splats",
    provenance: Provenance | None = None,
) -> Added:
    """Adds splats to a scene as one point-cloud object, in place: its transform is the identity.

    Nothing else in the file changes: not the selection, the active object, the mode or other objects.

    Args:
        splats: The cloud, in world coordinates.
        scene: Where the object goes: into the scene's own collection.
        name: The object's name; Blender numbers it if it is taken.
        provenance: Which run made it.

    Raises:
        UserError: No splat is left that could be drawn.
    """
    drawable, notes = _drawable(splats)
    object = new_splat_object(name, encoding.attributes_of(drawable))
    scene.collection.objects.link(object)
    return _finished(object, splats, drawable, provenance, notes)


def _finished(
    object: Any, splats: Splats, drawable: Splats, provenance: Provenance | None, notes: list[str]
) -> Added:
    """Gives an object that holds ``drawable`` what else belongs to it, and puts the notes together."""
    far = encoding.count_far(drawable)
    if far:
        notes.append(_far_note(far))
    if not point_cloud.has_native_splats():
        notes.append(_NO_NATIVE_SPLATS)
    formation = (provenance.formation if provenance else "") or splats.metadata.get("formation", "")
    if formation == "classic":
        notes.append(_CLASSIC)
    if provenance is not None:
        set_provenance(object, provenance)
    _set_object_names(object, drawable)
    return Added(object, len(drawable), len(splats) - len(drawable), tuple(notes))


def replace_splats(object: Any, splats: Splats, provenance: Provenance | None = None) -> Added:
    """Replaces the splats of an object that ``add_splats`` made; its transform and materials stay.

    Args:
        object: A point-cloud object.
        splats: The new cloud, in the object's own space.
        provenance: Which run made it; None: what the object says stays.

    Raises:
        UserError: The object is no local point cloud, or no splat is left that could be drawn.
    """
    if not is_own_point_cloud(object):
        raise UserError(
            f"{object.name!r} is not a point cloud of this file.", "Select a splat object of this file."
        )
    drawable, notes = _drawable(splats)
    refill(object, encoding.attributes_of(drawable))
    return _finished(object, splats, drawable, provenance, notes)


def new_splat_object(name: str, attributes: Mapping[str, encoding.Float32]) -> Any:
    """Returns a new object that shows splats as this Blender can; it is linked to no scene.

    Args:
        name: Of the object and its data.
        attributes: By name, as ``encoding.attributes_of`` gives them.
    """
    object = point_cloud.new_object(name, attributes)
    if not point_cloud.has_native_splats():
        ellipsoids.show(object)
    return object


def refill(object: Any, attributes: Mapping[str, encoding.Float32]) -> None:
    """Gives an object other splats; its transform, materials, modifiers and provenance stay.

    Args:
        object: A point cloud of this file, in object mode.
        attributes: By name, as ``encoding.attributes_of`` gives them.
    """
    if point_cloud.can_resize():
        point_cloud.fill(object.data, attributes)
    else:
        _swap_data(object, attributes)


def is_own_point_cloud(object: Any) -> bool:
    """Tells whether an object is a point cloud whose data this file holds, and may change."""
    return object.type == "POINTCLOUD" and object.data.library is None


def read_splats(
    object: bpy.types.Object,
    *,
    depsgraph: bpy.types.Depsgraph | None = None,
    world: bool = False,
) -> Splats:
    """Returns the splats of an object.

    Args:
        object: A point cloud, or a mesh made of one, with the attributes of native splats.
        depsgraph: Read the object as its modifiers leave it; None: as it is stored.
        world: Apply the object's transform: to centres, scales, rotations and SH.

    Returns:
        The cloud, with the object's provenance as metadata. Means and SH are exactly what is stored;
        opacities and scales passed through the activated float32 values that Blender keeps.

    Raises:
        UserError: The object holds no splats.
    """
    with _data_of(object, depsgraph) as (data, matrix):
        splats = encoding.splats_of(point_cloud.read(data, object.name), object_names_of(object))
    splats.metadata = {k: str(v) for k, v in _provenance_values(object).items() if v != ""}
    return transforms.transform(splats, np.array(matrix)) if world else splats


def is_splat_object(object: bpy.types.Object | None) -> bool:
    """Tells whether an object holds splats, without reading them."""
    if object is None or object.type not in ("POINTCLOUD", "MESH"):
        return False
    attributes: Any = object.data.attributes  # type: ignore[union-attr]
    return all(name in attributes for name in encoding.REQUIRED)


def set_provenance(object: Any, provenance: Provenance) -> None:
    """Writes which run made an object into its custom properties."""
    for name, value in asdict(provenance).items():
        key = _PROPERTY_PREFIX + name
        if value is not None:
            object[key] = value
        elif key in object:
            del object[key]


def object_names_of(object: Any) -> tuple[str, ...] | None:
    """Returns the names behind the attribute object_index: i is name i - 1. None: the object has none."""
    names = object.get(_OBJECT_NAMES)
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_list else None


def _set_object_names(object: Any, splats: Splats) -> None:
    if splats.object_names:
        object[_OBJECT_NAMES] = list(splats.object_names)
    elif _OBJECT_NAMES in object:
        del object[_OBJECT_NAMES]


def get_provenance(object: bpy.types.Object) -> Provenance:
    """Returns which run made an object; defaults for what it does not say."""
    return Provenance(**_provenance_values(object))


def _provenance_values(object: bpy.types.Object) -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "run": str,
        "formation": str,
        "version": str,
        "splats": int,
        "psnr_db": (int, float),
    }
    values = {name: object.get(_PROPERTY_PREFIX + name) for name in kinds}
    return {name: value for name, value in values.items() if isinstance(value, kinds[name])}


def _drawable(splats: Splats) -> tuple[Splats, list[str]]:
    """Returns the splats that can be drawn, and what is to be told of the others."""
    drawable, dropped = encoding.drop_undrawable(splats)
    if not len(drawable):
        reason = f"none of its {dropped} splats is finite" if dropped else "it holds no splats"
        raise UserError(f"There is nothing to draw: {reason}.", "Choose other splats, or fit anew.")
    notes = [f"Left out {dropped} of {len(splats)} splats that are not finite."] if dropped else []
    return drawable, notes


def _far_note(far: int) -> str:
    return (
        f"{far} splat{'s lie' if far > 1 else ' lies'} far from all others. Blender's viewport rounds positions to the object's range, so the "
        "others may look coarse: delete those."
    )


def _swap_data(object: bpy.types.Object, attributes: Mapping[str, encoding.Float32]) -> None:
    """Gives the object new data with the old one's name and materials; the new data's own object goes.

    Raises:
        UserError: It is being edited: Blender would keep its old data.
    """
    if object.mode == "EDIT":
        raise UserError(f"{object.name!r} is being edited.", "Leave its edit mode first.")
    old: Any = object.data
    made = point_cloud.new_object(old.name, attributes)
    new: Any = made.data
    for material in old.materials:
        new.materials.append(material)
    object.data = new
    bpy.data.objects.remove(made)
    if old.users == 0:
        name = old.name
        bpy.data.pointclouds.remove(old)
        new.name = name


@contextmanager
def _data_of(object: bpy.types.Object, depsgraph: bpy.types.Depsgraph | None) -> Iterator[tuple[Any, Any]]:
    """Yields the datablock to read and world_from_object."""
    if object.type not in ("POINTCLOUD", "MESH"):
        raise UserError(
            f"{object.name!r} is not a splat object: it is of the type {object.type}.",
            "Select a splat point cloud.",
        )
    if object.type == "MESH" and object.mode == "EDIT":
        with _edited_mesh(object) as mesh:
            yield mesh, object.matrix_world
    elif depsgraph is None:
        yield object.data, object.matrix_world
    else:
        evaluated = object.evaluated_get(depsgraph)
        yield _evaluated_data(object, evaluated), evaluated.matrix_world


@contextmanager
def _edited_mesh(object: bpy.types.Object) -> Iterator[Any]:
    """Yields the mesh as edit mode has it: its attributes can be read from a copy alone."""
    object.update_from_editmode()
    mesh: Any = object.data.copy()  # type: ignore[union-attr]
    try:
        yield mesh
    finally:
        bpy.data.meshes.remove(mesh)


def _evaluated_data(object: bpy.types.Object, evaluated: bpy.types.Object) -> Any:
    display = ellipsoids.modifier_of(object)
    if display is None:
        return evaluated.data
    if len(object.modifiers) == 1:
        return object.data
    raise UserError(
        f"The modifiers of {object.name!r} cannot be read through its display modifier.",
        f"Apply the modifiers in front of {display.name!r}, or read the object without modifiers.",
    )
