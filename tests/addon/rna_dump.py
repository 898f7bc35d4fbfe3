"""A dump of everything Blender tells about a scene, to compare before and after."""

from __future__ import annotations

from typing import Any

import bpy

SKIPPED = {
    *("rna_type", "bl_rna", "depsgraph", "preview", "id_data", "session_uid", "deep_hash", "original"),
    *("vertices", "edges", "loops", "polygons", "loop_triangles", "loop_triangle_polygons", "attributes"),
    *("linear_colorspace_settings", "active_operator", "execution_time"),
}
"""Runtime state, bulk geometry, and what Blender itself complains about when it is read."""
NOISY = {"ViewLayer": {"objects"}, "Scene": {"objects", "keying_sets_all", "display", "unit_settings"}}


def dump_scene(scene: bpy.types.Scene) -> dict[str, str]:
    """Returns path to value for the scene, its view layers, objects, their data, the world, and all names in the file."""
    found: dict[str, str] = {}
    _walk(scene, "scene", found, 8)
    for block in [
        *bpy.data.objects,
        *bpy.data.cameras,
        *bpy.data.worlds,
        *bpy.data.materials,
        *bpy.data.collections,
    ]:
        _walk(block, f"{block.bl_rna.identifier}:{block.name_full}", found, 3)
    for prop in bpy.data.bl_rna.properties:
        if prop.type == "COLLECTION":
            names = [
                item.name_full for item in getattr(bpy.data, prop.identifier) if not _render_result(item)
            ]
            found[f"names/{prop.identifier}"] = repr(names)
    return found


def _render_result(block: Any) -> bool:
    """Any render makes this image; it is no part of a scene."""
    return isinstance(block, bpy.types.Image) and block.type in ("RENDER_RESULT", "COMPOSITING")


def _walk(struct: Any, path: str, found: dict[str, str], depth: int) -> None:
    skipped = SKIPPED | NOISY.get(struct.bl_rna.identifier, set())
    for prop in struct.bl_rna.properties:
        name = prop.identifier
        if name in skipped or getattr(prop, "is_deprecated", False):
            continue
        key = f"{path}.{name}"
        try:
            value = getattr(struct, name)
        except (AttributeError, RuntimeError, ValueError, TypeError):
            continue
        if prop.type == "POINTER":
            if (
                value is None
                or isinstance(value, bpy.types.ID)
                and not getattr(value, "is_embedded_data", False)
            ):
                found[key] = "None" if value is None else value.name_full
            elif depth:
                _walk(value, key, found, depth - 1)
        elif prop.type == "COLLECTION":
            _walk_items(name, value, key, found, depth)
        else:
            found[key] = repr(_flat(value))
            if isinstance(struct, bpy.types.PropertyGroup):
                found[key] += f" set={struct.is_property_set(name)}"


def _walk_items(name: str, items: Any, key: str, found: dict[str, str], depth: int) -> None:
    if name in ("inputs", "outputs"):  # 4.5 sorts the unavailable outputs of Render Layers anew at a whim
        items = [socket for socket in items if getattr(socket, "enabled", True)]
    found[key] = str(len(items))
    for number, item in enumerate(items if depth and len(items) < 200 else ()):
        if isinstance(item, bpy.types.ID):
            found[f"{key}[{number}]"] = item.name_full
        elif isinstance(item, bpy.types.NodeLink):
            ends = (item.from_node.name, item.from_socket.name, item.to_node.name, item.is_valid)
            found[f"{key}[{number}]"] = repr(ends)
        elif item is not None:
            _walk(item, f"{key}[{number}]", found, depth - 1)


def _flat(value: Any) -> Any:
    if isinstance(value, set):
        return sorted(value)
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        return [_flat(item) for item in value]
    return value


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Returns a line for each path whose value is not the same."""
    return [
        f"{path}: {before.get(path)} -> {after.get(path)}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]
