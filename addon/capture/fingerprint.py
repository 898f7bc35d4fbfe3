"""Has the scene changed since a view was rendered? A digest of what a render depends on.

It walks the settings and data-blocks of the file as they are stored, so it costs far less than a view. What a
render depends on outside the file is covered by path, size and time of the linked files. Painted vertex
weights, and what changes with no trace in any property (a driver that reads the clock), are not covered.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np

from .setting_aside import nested_structs, plain_properties, value_of

_BLOCKS = (
    *(
        "scenes",
        "worlds",
        "materials",
        "node_groups",
        "lights",
        "textures",
        "images",
        "objects",
        "collections",
    ),
    *("meshes", "curves", "hair_curves", "pointclouds", "volumes", "metaballs", "lattices", "armatures"),
    *(
        "particles",
        "shape_keys",
        "actions",
        "cache_files",
        "fonts",
        "libraries",
        "grease_pencils_v3",
        "lightprobes",
    ),
)
_BULK_FROM = 16
"""Longer collections are read array by array, not item by item."""
_UNSEEN_START = (
    "show_",
    "preview_",
    "is_",
    "active_",
    "use_fake",
    "select",
    "color_tag",
    "ui_",
    "use_preview",
)
_UNSEEN = {
    *(
        "name_full",
        "select",
        "hide",
        "location_absolute",
        "width",
        "height",
        "dimensions",
        "tag",
        "filepath_raw",
    ),
    *(
        "library_weak_reference",
        "users",
        "frame_current",
        "frame_subframe",
        "frame_float",
        "annotation",
        "lock",
    ),
    *(
        "tool_settings",
        "cursor",
        "transform_orientation_slots",
        "rna_type",
        "original",
        "id_data",
        "preview",
        "parent",
    ),
    *(
        "asset_data",
        "override_library",
        "library",
        "depsgraph",
        "bl_rna",
        "objects",
        "all_objects",
        "layer_collection",
    ),
    *(
        "users_collection",
        "children_recursive",
        "animation_visualization",
        "pose",
        "internal_links",
        "motion_path",
    ),
    *(
        "safe_areas",
        "display",
        "unit_settings",
        "panel_states",
        "grease_pencil_settings",
        "hydra",
        "interface",
        "ffmpeg",
        "bake",
        "stereo_views",
        "render_slots",
    ),
    *(
        "packed_file",
        "packed_files",
        "stamp_note_text",
        "filepath",
        "image_settings",
        "timeline_markers",
        "texspace",
    ),
    *(
        "motion_blur_shutter_curve",
        "keying_sets",
        "keying_sets_all",
        "sequence_editor",
        "edit_mesh",
        "id_root",
    ),
    *("vertices", "edges", "loops", "polygons", "loop_triangles", "loop_triangle_polygons", "vertex_normals"),
    *("polygon_normals", "corner_normals", "uv_layers", "vertex_colors", "color_attributes", "skin_vertices"),
    *(
        "particles",
        "child_particles",
        "pixels",
        "curve_offset_data",
        "normals",
        "position_data",
        "texture_paint_images",
    ),
    *(
        "warning_propagation",
        "location_node",
        "bl_width_default",
        "bl_height_default",
        "dynamic_paint",
        "uv_layer_stencil",
    ),
}
_OWN = "splatfit"
"""Our own settings in a scene: what of them decides pixels is in a view's fingerprint."""
_BULK = {"data", "points", "bezier_points", "keyframe_points", "elements", "sampled_points"}
"""Collections of like items with nothing but numbers that matter."""
_REACHED_OTHERWISE = (
    bpy.types.Node,
    bpy.types.NodeSocket,
    bpy.types.NodeLink,
    bpy.types.Bone,
    bpy.types.PoseBone,
)
_NUMBERS = {"FLOAT": np.float32, "INT": np.int32, "BOOLEAN": np.bool_}
_NODE_LAYOUT = {"location", "color", "use_custom_color", "parent", "label"}
_DEPTH = 7


def scene_fingerprint(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> str:
    """Returns a hexadecimal digest of everything stored that a render of the scene depends on.

    Taken before the scene is set aside. Selection, layout, names of output files and the present frame do not
    count; a view's frame is in its own fingerprint.
    """
    digest = hashlib.sha256()
    digest.update(repr((scene.name_full, view_layer.name, bpy.app.version)).encode())
    for kind in _BLOCKS:
        for block in getattr(bpy.data, kind, ()):
            if _counts(kind, block, scene):
                digest.update(f"{kind}/{block.name_full}".encode())
                for piece in _pieces(block, _DEPTH):
                    digest.update(piece)
    for line in _outside_files():
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _counts(kind: str, block: Any, scene: bpy.types.Scene) -> bool:
    if kind == "scenes":
        return block == scene or block == scene.background_set
    return kind != "images" or block.source != "VIEWER"  # the render result is not an ingredient of itself


def _pieces(struct: Any, depth: int) -> Iterator[bytes]:
    """Yields the values of a struct and of what is part of it."""
    node = isinstance(struct, bpy.types.Node)
    for prop in plain_properties(struct):
        name = prop.identifier
        if not _skipped(name) and not (node and name in _NODE_LAYOUT):
            yield f"{name}={_plain(_placed(struct, value_of(struct, name)))}\n".encode(
                "utf-8", "surrogatepass"
            )
    yield _custom_properties(struct)
    if depth == 0:
        return
    for name, part in (*nested_structs(struct), *_embedded_trees(struct)):
        if not _skipped(name) and not isinstance(part, _REACHED_OTHERWISE):
            yield name.encode()
            yield from _pieces(part, depth - 1)
    for prop in struct.bl_rna.properties:
        if prop.type == "COLLECTION" and not _skipped(prop.identifier):
            yield from _collection_pieces(prop, getattr(struct, prop.identifier), depth)


def _embedded_trees(struct: Any) -> Iterator[tuple[str, Any]]:
    """Yields the node tree that a material, light or world has as a part of itself; the compositor's does not count."""
    tree = None if isinstance(struct, bpy.types.Scene) else getattr(struct, "node_tree", None)
    if tree is not None and tree.is_embedded_data:
        yield "node_tree", tree


def _custom_properties(struct: Any) -> bytes:
    """Inputs of geometry nodes, and what drivers may read; the settings of engines are properties like any other."""
    if not isinstance(struct, (bpy.types.ID, bpy.types.Modifier, bpy.types.PropertyGroup)):
        return b""
    try:
        known = {*struct.bl_rna.properties.keys(), _OWN}
        names = sorted(name for name in struct.keys() if name not in known)  # noqa: SIM118
    except TypeError:  # this kind of struct takes none
        return b""
    return repr([(name, _plain_custom(struct[name])) for name in names]).encode("utf-8", "surrogatepass")


def _placed(struct: Any, value: Any) -> Any:
    """Returns a value, a relative path as an absolute one: a copy of the file elsewhere names the same file by another."""
    if isinstance(value, str) and value.startswith("//"):
        owner = struct.id_data
        return os.path.normpath(bpy.path.abspath(value, library=owner.library if owner else None))
    return value


def _plain_custom(value: Any) -> str:
    if hasattr(value, "to_dict"):
        return repr(sorted((name, _plain_custom(item)) for name, item in value.items()))
    return _plain(value.to_list() if hasattr(value, "to_list") else value)


def _skipped(name: str) -> bool:
    return name in _UNSEEN or name == _OWN or name.startswith(_UNSEEN_START)


def _collection_pieces(prop: Any, items: Any, depth: int) -> Iterator[bytes]:
    yield f"{prop.identifier}[{len(items)}]".encode()
    if len(items) > _BULK_FROM and prop.identifier in _BULK:
        yield from _arrays(items)
        return
    for item in items:
        if isinstance(item, bpy.types.ID):
            yield item.name_full.encode("utf-8", "surrogatepass")
        elif isinstance(item, bpy.types.NodeLink):
            ends = (
                item.from_node.name,
                item.from_socket.identifier,
                item.to_node.name,
                item.to_socket.identifier,
            )
            yield repr(ends).encode("utf-8", "surrogatepass")
        elif item is not None:
            yield item.bl_rna.identifier.encode()
            yield from _pieces(item, depth - 1)


def _arrays(items: Any) -> Iterator[bytes]:
    """Yields the numbers of like items, one property after the other."""
    properties: Iterator[Any] = plain_properties(items[0])
    for prop in properties:
        kind = _NUMBERS.get(prop.type)
        if kind is not None and not _skipped(prop.identifier):
            width = max(prop.array_length, 1)
            values = np.empty(len(items) * width, kind)
            items.foreach_get(prop.identifier, values)
            yield prop.identifier.encode() + values.tobytes()


def _plain(value: Any) -> str:
    if isinstance(value, bpy.types.ID):
        return value.name_full
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, frozenset):
        return repr(sorted(value))
    return repr(value)


def _outside_files() -> Iterator[str]:
    """Yields path, size and time of the pictures, libraries and caches that the file names."""
    for block in (*bpy.data.images, *bpy.data.libraries, *bpy.data.volumes, *bpy.data.cache_files):
        if not block.filepath:
            continue
        path = os.path.normpath(bpy.path.abspath(block.filepath, library=block.library))
        try:
            state = os.stat(path)
        except OSError:
            continue
        yield f"{path} {state.st_size} {state.st_mtime_ns}\n"
