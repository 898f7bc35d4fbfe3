"""Points of a splat object: deleted, split off, selected. Every attribute stays with its point, the user's own too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats

from ..scene import encoding, point_cloud, splat_object, transforms

Mask = NDArray[np.bool_]
Columns = dict[str, tuple[str, NDArray[Any]]]
"""Attribute's name to its data type and its values, [N, ...]."""

SELECTION = ".selection"
"""What Blender's edit mode of point clouds reads: a bool a point; where it is absent, all are selected."""
_KINDS: dict[str, tuple[tuple[int, ...], str, type]] = {
    "FLOAT": ((), "value", np.float32),
    "INT": ((), "value", np.int32),
    "INT8": ((), "value", np.int8),
    "BOOLEAN": ((), "value", np.bool_),
    "FLOAT2": ((2,), "vector", np.float32),
    "FLOAT_VECTOR": ((3,), "vector", np.float32),
    "FLOAT4": ((4,), "vector", np.float32),
    "FLOAT_COLOR": ((4,), "color", np.float32),
    "BYTE_COLOR": ((4,), "color_srgb", np.float32),
    "QUATERNION": ((4,), "value", np.float32),
    "FLOAT4X4": ((16,), "value", np.float32),
    "INT16_2D": ((2,), "value", np.int16),
    "INT32_2D": ((2,), "value", np.int32),
}
"""Data type to the shape of one value, the key of foreach_get, and the type in numpy."""


def editable(object: Any) -> Any:
    """Returns the object if its splats can be changed.

    Raises:
        UserError: It is no point cloud of splats, or it or its data are linked.
    """
    if not splat_object.is_splat_object(object):
        raise UserError("No splat object is active.", "Select a splat object.")
    if object.type != "POINTCLOUD":
        raise UserError(
            f"{object.name!r} is a mesh with the attributes of splats.", "Convert it to a point cloud first."
        )
    if not object.is_editable or not object.data.is_editable:
        raise UserError(
            f"{object.name!r} is linked from another file.",
            "Make it local: Object > Relations > Make Local > All.",
        )
    return object


def bare_splats(object: Any) -> Splats:
    """Returns the splats where they stand in the world, without their directional colour: that is the slow part."""
    columns = _read(object.data, encoding.REQUIRED)
    splats = encoding.splats_of({name: values for name, (_, values) in columns.items()})
    return transforms.transform(splats, np.array(object.matrix_world))


def _read(data: Any, names: Iterable[str]) -> Columns:
    """Returns attributes of a point cloud.

    Raises:
        UserError: One has a type that cannot be copied.
    """
    columns: Columns = {}
    for name in names:
        attribute = data.attributes[name]
        if attribute.data_type not in _KINDS:
            raise UserError(
                f"The attribute {name!r} is of the type {attribute.data_type}, which cannot be kept.",
                "Remove or convert it in Object Data > Attributes.",
            )
        shape, key, kind = _KINDS[attribute.data_type]
        values: NDArray[Any] = np.empty((len(attribute.data), *shape), kind)
        attribute.data.foreach_get(key, values.reshape(-1))
        columns[name] = attribute.data_type, values
    return columns


def write(data: Any, columns: Columns) -> None:
    """Writes attributes of a point cloud, made if they are not there; each has a value a point."""
    for name, (data_type, values) in columns.items():
        attribute = data.attributes.get(name)
        if attribute is not None and (attribute.domain, attribute.data_type) != ("POINT", data_type):
            data.attributes.remove(attribute)
            attribute = None
        if attribute is None:
            attribute = data.attributes.new(name, data_type, "POINT")
        attribute.data.foreach_set(_KINDS[data_type][1], np.ascontiguousarray(values).reshape(-1))
    data.update_tag()


def keep(object: Any, kept: Mask) -> None:
    """Deletes all other points of an object; users of the same data follow.

    Args:
        object: One that is ``editable``.
        kept: [N]; all of them changes nothing.

    Raises:
        UserError: None would be left, or an attribute cannot be kept; nothing has changed.
    """
    if kept.all():
        return
    if not kept.any():
        raise UserError(f"All {len(kept):,} splats would go.", "Delete the object, or choose fewer.")
    if not point_cloud.can_resize() and object.mode == "EDIT":
        raise UserError("This Blender cannot do that in Edit Mode.", "Leave Edit Mode first.")
    data = object.data
    columns = _read(data, [attribute.name for attribute in data.attributes])
    columns = {name: (kind, values[kept]) for name, (kind, values) in columns.items()}
    if point_cloud.can_resize():
        data.resize(int(kept.sum()))
        write(data, columns)
    else:
        _swap(data, columns)


def _swap(old: Any, columns: Columns) -> None:
    """Has all users of a point cloud use a new one with these attributes; before Blender 5.1 none can be shortened."""
    made = point_cloud.new_object(old.name, {encoding.POSITION: columns[encoding.POSITION][1]})
    new: Any = made.data
    write(new, columns)
    for material in old.materials:
        new.materials.append(material)
    for key, value in old.items():
        new[key] = value
    bpy.data.objects.remove(made)
    old.user_remap(new)
    name = old.name
    bpy.data.pointclouds.remove(old)
    new.name = name


def split_off(object: Any, part: Mask) -> Any:
    """Makes some points an object of their own, in the same collections, with the same transform and properties.

    It is named after the captured object that all of them show, if they do.

    Args:
        object: One that is ``editable``.
        part: [N] the points that go; neither none nor all.

    Returns:
        The new object, which is not selected.

    Raises:
        UserError: No point or all are to go, or an attribute cannot be kept; nothing has changed.
    """
    if not part.any() or part.all():
        amount = "All" if part.any() else "No"
        raise UserError(f"{amount} splats are selected.", "Select some of them, in Edit Mode or by object.")
    _read(object.data, [attribute.name for attribute in object.data.attributes])
    name = _name_of(object, part)
    copy = object.copy()
    copy.data = object.data.copy()
    copy.name = copy.data.name = name
    for collection in object.users_collection:
        collection.objects.link(copy)
    copy.select_set(False)
    keep(copy, part)
    keep(object, ~part)
    return copy


def _name_of(object: Any, part: Mask) -> str:
    """Returns what a part is called."""
    known = _known_objects(object)
    if known is not None:
        indices, names = known
        shown = np.unique(indices[part])
        if len(shown) == 1 and 0 < shown[0] <= len(names):
            return f"{names[shown[0] - 1]} Splats"
    return f"{object.name} Part"


def _known_objects(object: Any) -> tuple[NDArray[np.int32], tuple[str, ...]] | None:
    """Returns each point's object and the names behind; None where the object does not say."""
    attribute, names = object.data.attributes.get(encoding.OBJECT_INDEX), splat_object.object_names_of(object)
    if names is None or attribute is None or (attribute.domain, attribute.data_type) != ("POINT", "INT"):
        return None
    return _read(object.data, [encoding.OBJECT_INDEX])[encoding.OBJECT_INDEX][1], names


def object_indices(object: Any) -> NDArray[np.int32]:
    """Returns [N] which captured object each point shows; 0 is unknown.

    Raises:
        UserError: The object does not say.
    """
    known = _known_objects(object)
    if known is None:
        raise UserError(
            f"{object.name!r} does not say which object its splats show.",
            "Fits by Splatfit do, of captures with Cycles that hold the pass Object Index.",
        )
    return known[0]


def has_selection(object: Any) -> bool:
    """Tells whether Blender keeps a selection of an object's points; else all count as selected."""
    return object is not None and object.type == "POINTCLOUD" and SELECTION in object.data.attributes


def selected(object: Any) -> Mask:
    """Returns [N] which points are selected; all where Blender keeps no selection."""
    attribute = object.data.attributes.get(SELECTION)
    chosen = np.ones(len(object.data.points), np.bool_)
    if attribute is not None and (attribute.domain, attribute.data_type) == ("POINT", "BOOLEAN"):
        attribute.data.foreach_get("value", chosen)
    return chosen


def select(object: Any, chosen: Mask, *, extend: bool = False) -> None:
    """Selects points [N], and no others unless ``extend``."""
    if extend and SELECTION in object.data.attributes:
        chosen = chosen | selected(object)
    write(object.data, {SELECTION: ("BOOLEAN", chosen)})
