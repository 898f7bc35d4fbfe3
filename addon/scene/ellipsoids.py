"""Shows a splat point cloud as coloured ellipsoids in a Blender that draws no splats itself (before 5.3).

A geometry-nodes modifier instances a sphere of ``RADIUS_SIGMAS`` on every point, turned and stretched by
the attributes ``rotation`` and ``scale``. Its material gives each pixel the splat's constant colour, in
linear light, and the alpha o exp(-b^2 / 2), where b is the least distance, in standard deviations,
between the splat's centre and the pixel's ray: Blender 5.3's own formation, without the directional colour.
"""

from __future__ import annotations

from typing import Any

import bpy

from splat_engine.formats.conventions import SH_C0

from . import encoding

RADIUS_SIGMAS = 3.0
"""The Gaussian has fallen to 1.1 % there."""
GROUP_NAME = "Splatfit Ellipsoids"
MATERIAL_NAME = "Splatfit Splat"
MODIFIER_NAME = "Splatfit Ellipsoids"
VERSION = 1
"""Raised when the node trees change, so that an old file's trees are not taken for these."""
_VERSION_KEY = "splatfit_version"


def show(object: bpy.types.Object) -> None:
    """Gives a point cloud object the modifier that shows its points as ellipsoids, once."""
    if modifier_of(object) is None:
        modifier: Any = object.modifiers.new(MODIFIER_NAME, "NODES")
        modifier.node_group = _node_group()


def modifier_of(object: bpy.types.Object) -> bpy.types.Modifier | None:
    """Returns the modifier that ``show`` made, or None."""
    for modifier in object.modifiers:
        group = getattr(modifier, "node_group", None)
        if group is not None and group.get(_VERSION_KEY) is not None:
            return modifier
    return None


def _node_group() -> Any:
    """Returns the geometry-nodes group, made if this file has none."""
    for known in bpy.data.node_groups:
        if known.get(_VERSION_KEY) == VERSION and known.library is None:
            return known
    group: Any = bpy.data.node_groups.new(GROUP_NAME, "GeometryNodeTree")
    group[_VERSION_KEY] = VERSION
    _fill_group(group)
    return group


def _material() -> Any:
    """Returns the material of the ellipsoids, made if this file has none."""
    for known in bpy.data.materials:
        if known.get(_VERSION_KEY) == VERSION and known.library is None:
            return known
    material: Any = bpy.data.materials.new(MATERIAL_NAME)
    material[_VERSION_KEY] = VERSION
    if material.node_tree is None:  # Blender 5 makes it itself
        material.use_nodes = True
    _fill_material(material.node_tree)
    return material


def _fill_group(group: Any) -> None:
    group.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    group.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    tree = _Tree(group)
    points = tree.node("NodeGroupInput").outputs[0]
    sphere = tree.node("GeometryNodeMeshIcoSphere", Radius=1.0, Subdivisions=2)
    painted = tree.node("GeometryNodeSetMaterial", Geometry=sphere.outputs["Mesh"], Material=_material())
    size = tree.vector("SCALE", tree.named(encoding.SCALE, "FLOAT_VECTOR"), Scale=RADIUS_SIGMAS)
    instances = tree.node(
        "GeometryNodeInstanceOnPoints",
        Points=points,
        Instance=painted.outputs["Geometry"],
        Rotation=tree.named(encoding.ROTATION, "QUATERNION"),
        Scale=size,
    )
    tree.link(instances.outputs[0], tree.node("NodeGroupOutput").inputs[0])


def _fill_material(node_tree: Any) -> None:
    node_tree.nodes.clear()
    tree = _Tree(node_tree)
    base = tree.node("ShaderNodeAttribute", attribute_type="INSTANCER", attribute_name=encoding.BASE)
    encoded = tree.vector("MULTIPLY_ADD", base.outputs["Color"], (SH_C0,) * 3, (0.5,) * 3)
    glow = tree.node("ShaderNodeEmission", Color=_linear_from_srgb(tree, encoded))
    alpha = tree.math("MULTIPLY", base.outputs["Alpha"], _falloff(tree))
    mix = tree.node("ShaderNodeMixShader")
    clear = tree.node("ShaderNodeBsdfTransparent")
    for source, target in zip((alpha, clear.outputs[0], glow.outputs[0]), mix.inputs, strict=True):
        tree.link(source, target)
    tree.link(mix.outputs[0], tree.node("ShaderNodeOutputMaterial").inputs["Surface"])


def _linear_from_srgb(tree: _Tree, encoded: Any) -> Any:
    """Returns the socket of the decoded colour; Source: IEC 61966-2-1, as ``conventions.linear_from_srgb``."""
    split = tree.node("ShaderNodeSeparateXYZ", Vector=encoded)
    joined = tree.node("ShaderNodeCombineXYZ")
    for channel, target in zip(split.outputs, joined.inputs, strict=True):
        value = tree.math("MAXIMUM", channel, 0.0)
        low = tree.math("DIVIDE", value, 12.92)
        high = tree.math("POWER", tree.math("MULTIPLY_ADD", value, 1 / 1.055, 0.055 / 1.055), 2.4)
        is_high = tree.math("GREATER_THAN", value, 0.04045)
        tree.link(tree.math("MULTIPLY_ADD", is_high, tree.math("SUBTRACT", high, low), low), target)
    return joined.outputs[0]


def _falloff(tree: _Tree) -> Any:
    """Returns the socket of exp(-b^2 / 2) on the sphere's near side, 0 on its far side.

    In the instance's own space the splat is a unit sphere of RADIUS_SIGMAS standard deviations, so the
    point of the ray nearest to the centre is the one of greatest density.
    """
    geometry = tree.node("ShaderNodeNewGeometry")
    point = tree.to_object_space(geometry.outputs["Position"], "POINT")
    ray = tree.vector("NORMALIZE", tree.to_object_space(geometry.outputs["Incoming"], "VECTOR"))
    along = tree.vector("DOT_PRODUCT", point, ray)
    distance_2 = tree.math(
        "SUBTRACT", tree.vector("DOT_PRODUCT", point, point), tree.math("MULTIPLY", along, along)
    )
    exponent = tree.math("MULTIPLY", distance_2, -0.5 * RADIUS_SIGMAS**2)
    near = tree.math("SUBTRACT", 1.0, geometry.outputs["Backfacing"])
    return tree.math("MULTIPLY", tree.math("EXPONENT", exponent), near)


class _Tree:
    """A node tree under construction: a node's inputs and properties are given by name."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def node(self, kind: str, **values: Any) -> Any:
        node = self._tree.nodes.new(kind)
        for name, value in values.items():
            if name in node.inputs:
                self._set(node.inputs[name], value)
            else:
                setattr(node, name, value)
        return node

    def link(self, source: Any, target: Any) -> None:
        self._tree.links.new(source, target)

    def _set(self, socket: Any, value: Any) -> None:
        if isinstance(value, bpy.types.NodeSocket):
            self.link(value, socket)
        else:
            socket.default_value = value

    def _operation(self, kind: str, operation: str, operands: tuple[Any, ...], **values: Any) -> Any:
        node = self.node(kind, operation=operation, **values)
        for socket, operand in zip(node.inputs, operands, strict=False):
            self._set(socket, operand)
        return next(socket for socket in node.outputs if socket.enabled)

    def math(self, operation: str, *operands: Any) -> Any:
        return self._operation("ShaderNodeMath", operation, operands)

    def vector(self, operation: str, *operands: Any, **values: Any) -> Any:
        return self._operation("ShaderNodeVectorMath", operation, operands, **values)

    def named(self, name: str, data_type: str) -> Any:
        node = self.node("GeometryNodeInputNamedAttribute", data_type=data_type, Name=name)
        return next(socket for socket in node.outputs if socket.enabled)

    def to_object_space(self, vector: Any, vector_type: str) -> Any:
        node = self.node(
            "ShaderNodeVectorTransform",
            vector_type=vector_type,
            convert_from="WORLD",
            convert_to="OBJECT",
            Vector=vector,
        )
        return node.outputs[0]
