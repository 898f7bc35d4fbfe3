"""The point-cloud datablock that holds splats: made, refilled and read.

What Blender can do is asked of Blender, not derived from its version: ``PointCloud.resize`` makes points
without an operator, ``PointCloud.type`` draws them as splats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bpy
import numpy as np

from splat_engine.formats.errors import UserError

from . import encoding
from .encoding import Float32

NATIVE_TYPE = "GAUSSIAN_SPLAT"
_TYPES = {
    encoding.POSITION: (3, ("FLOAT_VECTOR",)),
    encoding.SCALE: (3, ("FLOAT_VECTOR",)),
    encoding.ROTATION: (4, ("QUATERNION", "FLOAT4", "FLOAT_COLOR")),
    encoding.BASE: (4, ("FLOAT4", "FLOAT_COLOR")),
    encoding.OBJECT_INDEX: (1, ("INT",)),
}
"""Components and possible data types of each attribute, the best first."""
_SH_TYPE = (3, ("FLOAT_VECTOR",))
_KEYS = {
    "FLOAT_VECTOR": "vector",
    "FLOAT4": "vector",
    "QUATERNION": "value",
    "FLOAT_COLOR": "color",
    "INT": "value",
}


def has_native_splats() -> bool:
    """Tells whether this Blender draws point clouds as Gaussian splats (5.3 and later)."""
    kind: Any = bpy.types.PointCloud.bl_rna.properties.get("type")
    return kind is not None and NATIVE_TYPE in kind.enum_items


def can_resize() -> bool:
    """Tells whether this Blender can give a point cloud its number of points (5.1 and later)."""
    rna: Any = bpy.types.PointCloud.bl_rna
    return "resize" in rna.functions


def new_object(name: str, attributes: Mapping[str, Float32]) -> Any:
    """Returns a new point-cloud object, linked to no scene, with these attributes.

    Args:
        name: Of the object and of its data.
        attributes: By name, as ``encoding.attributes_of`` gives them.
    """
    if can_resize():
        cloud: Any = bpy.data.pointclouds.new(name)
        fill(cloud, attributes)
        return bpy.data.objects.new(name, cloud)
    return _converted_from_mesh(name, attributes)


def fill(cloud: Any, attributes: Mapping[str, Float32]) -> None:
    """Replaces everything in a point cloud; splat attributes that are not given go."""
    for attribute in [a for a in cloud.attributes if _is_splat(a.name) and a.name not in attributes]:
        cloud.attributes.remove(attribute)
    cloud.resize(len(attributes[encoding.POSITION]))
    if has_native_splats():
        cloud.type = NATIVE_TYPE
    _write(cloud, attributes)
    cloud.update_tag()


def read(data: Any, name: str) -> encoding.Attributes:
    """Returns the splat attributes of a point cloud or mesh, by name.

    Args:
        data: A PointCloud or Mesh datablock.
        name: The object's name, for messages.

    Raises:
        UserError: An attribute is missing, on another domain, or of another type.
    """
    missing = [needed for needed in encoding.REQUIRED if needed not in data.attributes]
    if missing:
        raise UserError(
            f"{name!r} is not a splat object: it lacks the attribute {', '.join(missing)}.",
            "Select an object that Splatfit or Blender imported from splats.",
        )
    found: encoding.Attributes = {}
    for attribute in data.attributes:
        if _is_splat(attribute.name):
            width, types = _TYPES.get(attribute.name, _SH_TYPE)
            if attribute.name == encoding.OBJECT_INDEX:
                found |= _object_indices(attribute)
                continue
            if attribute.domain != "POINT" or attribute.data_type not in types:
                raise UserError(
                    f"{name!r} is not a splat object: its attribute {attribute.name} is "
                    f"{attribute.data_type} on {attribute.domain}.",
                    f"It must be {types[0]} on POINT.",
                )
            values = np.empty((len(attribute.data), width), np.float32)
            attribute.data.foreach_get(_KEYS[attribute.data_type], values.reshape(-1))
            found[attribute.name] = values
    return found


def _object_indices(attribute: Any) -> encoding.Attributes:
    """Returns the object indices; nothing if the attribute of that name is somebody else's."""
    if (attribute.domain, attribute.data_type) != ("POINT", "INT"):
        return {}
    values = np.empty(len(attribute.data), np.int32)
    attribute.data.foreach_get("value", values)
    return {attribute.name: values}


def _is_splat(name: str) -> bool:
    return name in _TYPES or name in encoding.sh_names(3)


def _write(data: Any, attributes: Mapping[str, Float32]) -> None:
    for name, values in attributes.items():
        attribute = data.attributes.get(name)
        types = _TYPES.get(name, _SH_TYPE)[1]
        if attribute is not None and (attribute.domain != "POINT" or attribute.data_type not in types):
            data.attributes.remove(attribute)
            attribute = None
        if attribute is None:
            attribute = data.attributes.new(name, _first_known(types), "POINT")
        attribute.data.foreach_set(_KEYS[attribute.data_type], values.reshape(-1))


def _first_known(types: tuple[str, ...]) -> str:
    data_type: Any = bpy.types.Attribute.bl_rna.properties["data_type"]
    return next(kind for kind in types if kind in data_type.enum_items)


def _converted_from_mesh(name: str, attributes: Mapping[str, Float32]) -> Any:
    """Makes the points as a mesh and has Blender convert it, in a scene of its own.

    The operator works on a context: it is given that scene, so that selection, mode and active object
    of the user's scene never enter.
    """
    mesh: Any = bpy.data.meshes.new(name)
    mesh.vertices.add(len(attributes[encoding.POSITION]))
    _write(mesh, attributes)
    object: Any = bpy.data.objects.new(name, mesh)
    scene: Any = bpy.data.scenes.new("Splatfit Conversion")
    try:
        scene.collection.objects.link(object)
        layer = scene.view_layers[0]
        layer.objects.active = object
        object.select_set(True, view_layer=layer)
        chosen: dict[str, Any] = {"object": object, "active_object": object}
        chosen |= {"selected_objects": [object], "selected_editable_objects": [object]}
        with bpy.context.temp_override(scene=scene, view_layer=layer, **chosen):
            bpy.ops.object.convert(target="POINTCLOUD")
        object.select_set(False, view_layer=layer)  # or it would be selected where it is linked next
    finally:
        bpy.data.scenes.remove(scene)
        if mesh.users == 0:
            bpy.data.meshes.remove(mesh)
    selection = object.data.attributes.get(".select_vert")
    if selection is not None:
        object.data.attributes.remove(selection)
    return object
