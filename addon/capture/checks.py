"""What a person should know before trusting a capture: missing files, volumes, motion, denoising."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import bpy

_LISTED = 5


def scene_warnings(scene: bpy.types.Scene) -> list[str]:
    """Returns what is missing or is not captured, a sentence each."""
    found = [
        *_missing_libraries(),
        *_missing_pictures(),
        *_missing_data(),
        *_volumes(scene),
        *_compositing(scene),
    ]
    return list(dict.fromkeys(found))


def can_denoise() -> bool:
    """Tells whether this Blender has Open Image Denoise; some distributions' own builds lack it."""
    cycles = sys.modules.get("_cycles")  # Cycles' own module, loaded with its add-on
    return bool(getattr(cycles, "with_openimagedenoise", False))


def _listed(names: Iterable[str]) -> str:
    names = sorted(set(names))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _missing_libraries() -> Iterator[str]:
    for library in bpy.data.libraries:
        path = bpy.path.abspath(library.filepath, library=library.parent)
        if library.is_missing or not (library.packed_file or os.path.exists(path)):
            yield f"The linked file {path} is missing; what it holds is not captured."


def _missing_data() -> Iterator[str]:
    for kind in ("collections", "objects", "meshes", "materials", "node_groups"):
        names = [b.name for b in getattr(bpy.data, kind) if b.is_missing and not b.library.is_missing]
        if names:
            yield f"Missing in their linked files: {kind.replace('_', ' ')} {_listed(names)}."


def _missing_pictures() -> Iterator[str]:
    gone = []
    for image in bpy.data.images:
        if image.source not in ("FILE", "SEQUENCE", "TILED") or image.packed_file or not image.users:
            continue
        path = bpy.path.abspath(image.filepath, library=image.library)
        path = path.replace("<UDIM>", "1001")
        if not path or not os.path.exists(path):
            gone.append(f"{image.name} ({path or 'no path'})")
    if gone:
        yield f"Pictures are missing, their surfaces render pink: {_listed(gone)}."


def _volumes(scene: bpy.types.Scene) -> Iterator[str]:
    names = [obj.name for obj in scene.objects if obj.type == "VOLUME" and not obj.hide_render]
    for obj in scene.objects:
        if not obj.hide_render and any(_has_volume(slot.material) for slot in obj.material_slots):
            names.append(obj.name)
    if names:
        yield f"Volumes have no surface, so no depth and no start points: {_listed(names)}."
    if scene.world is not None and _has_volume(scene.world):
        yield "The world has a volume: fog between the camera and the target becomes part of the splats."


def _has_volume(block: Any) -> bool:
    tree = block.node_tree if block is not None else None
    if tree is None:
        return False
    outputs = [
        node for node in tree.nodes if node.bl_idname in ("ShaderNodeOutputMaterial", "ShaderNodeOutputWorld")
    ]
    return any(socket.name == "Volume" and socket.is_linked for node in outputs for socket in node.inputs)


def _compositing(scene: bpy.types.Scene) -> Iterator[str]:
    if scene.render.use_compositing and any(
        _changes_the_picture(node) for tree in _compositor_trees(scene) for node in tree.nodes
    ):
        yield "The compositor's effects are not captured: views are what the renderer gives."


def _compositor_trees(scene: Any) -> list[Any]:
    """Node trees of the compositor: several from 5.3 on, one in 5.0, one that can be off before."""
    if hasattr(scene, "compositor_effects"):
        trees = [effect.node_group for effect in scene.compositor_effects if effect.enable_for_render]
    elif hasattr(scene, "compositing_node_group"):
        trees = [scene.compositing_node_group]
    else:
        trees = [scene.node_tree] if scene.use_nodes else []
    return [tree for tree in trees if tree is not None]


def _changes_the_picture(node: bpy.types.Node) -> bool:
    plain = ("RLayers", "Composite", "Viewer", "OutputFile", "GroupOutput", "GroupInput", "Frame", "Reroute")
    return not node.bl_idname.endswith(plain)


def reads_object_index() -> bool:
    """Tells whether a material or driver of this file depends on pass indices: then they cannot be lent out."""
    return any(_tree_reads_index(tree) for tree in _node_trees()) or any(_drivers_read_index())


def _node_trees() -> Iterator[Any]:
    yield from bpy.data.node_groups
    for kind in ("materials", "worlds", "lights"):
        for block in getattr(bpy.data, kind):
            if block.node_tree is not None:
                yield block.node_tree


def _tree_reads_index(tree: Any) -> bool:
    for node in tree.nodes:
        if node.bl_idname == "ShaderNodeObjectInfo" and node.outputs["Object Index"].is_linked:
            return True
        if node.bl_idname == "ShaderNodeAttribute" and "pass_index" in node.attribute_name:
            return True
    return False


def _drivers_read_index() -> Iterator[bool]:
    for kind in ("objects", "materials", "meshes", "node_groups", "lights", "worlds"):
        for block in getattr(bpy.data, kind):
            animation = block.animation_data
            for curve in animation.drivers if animation is not None else ():
                for variable in curve.driver.variables:
                    yield any("pass_index" in target.data_path for target in variable.targets)
