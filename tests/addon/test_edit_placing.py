"""addon.edit.placing: the object's transform goes into the splats, and the picture stays."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Matrix

from addon.edit.placing import apply_transforms
from addon.scene import point_cloud, splat_object, transforms
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats
from splat_engine.native.project import project, sh_colors
from splat_engine.native.rasterize import Rasterization
from tests.addon.clouds import cloud

TRANSFORMS = {
    "moved": ((1, 2, 3), (0, 0, 0), (1, 1, 1)),
    "turned": ((0, 0, 0), (0.4, 1.1, -0.6), (1, 1, 1)),
    "scaled": ((1, 0, 0), (0.3, 0, 0), (2.5, 2.5, 2.5)),
    "stretched": ((0, 1, 0), (0.4, 1.1, -0.6), (0.5, 2, 3)),
    "mirrored": ((0, 1, 0), (0.4, 0.1, -0.6), (-1, 1, 1)),
    "mirrored and stretched": ((0, 0, 1), (0.4, 1.1, 0.6), (-1.5, 1, 0.5)),
}


def add(placed: Any = TRANSFORMS["stretched"], splats: Splats | None = None) -> Any:
    object = splat_object.add_splats(cloud(60) if splats is None else splats, bpy.context.scene).object
    object.location, object.rotation_euler, object.scale = placed
    bpy.context.view_layer.update()
    return object


def covariances(splats: Splats) -> np.ndarray:
    axes = transforms.rotations_of(splats.quats_wxyz) * splats.scales()[:, None, :]
    return axes @ axes.transpose(0, 2, 1)


def colors(splats: Splats) -> np.ndarray:
    """Returns the colours from a few directions."""
    directions = np.random.default_rng(0).normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.einsum("mk,nkc->nmc", transforms.sh_basis(directions, splats.sh_degree), splats.sh)


def assert_same_picture(found: Splats, expected: Splats) -> None:
    np.testing.assert_allclose(found.means, expected.means, atol=2e-5)
    np.testing.assert_allclose(covariances(found), covariances(expected), rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(colors(found), colors(expected), atol=2e-5)
    np.testing.assert_array_equal(found.opacity_logits, expected.opacity_logits)


@pytest.mark.parametrize("placed", TRANSFORMS.values(), ids=TRANSFORMS)
def test_the_picture_stays(placed):
    """In the world every splat has the place, the shape and the colour that it had; the object's transform is none."""
    object = add(placed)
    before = splat_object.read_splats(object, world=True)
    apply_transforms([object])
    bpy.context.view_layer.update()
    assert object.matrix_world == Matrix.Identity(4)
    assert_same_picture(splat_object.read_splats(object, world=True), before)
    assert np.abs(splat_object.read_splats(object).means - before.means).max() < 2e-5


def draw(splats: Splats) -> np.ndarray:
    """Returns [64, 64, 3] the splats seen along Y from a distance of 12, at degree 3."""
    viewmat = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 12], [0, 0, 0, 1]], np.float32)
    seen = project(
        *(getattr(splats, name) for name in ("means", "log_scales", "quats_wxyz", "opacity_logits")),
        viewmat,
        np.array([64, 64, 32, 32], np.float32),
        64,
        64,
    )
    shades = sh_colors(splats.means, splats.sh, viewmat, degree=3)
    drawn = Rasterization(seen.means2d, seen.conics, seen.opacities, shades, seen.depths, 64, 64)
    return drawn.image


@pytest.mark.parametrize("placed", [TRANSFORMS["turned"], TRANSFORMS["mirrored"]], ids=["turned", "mirrored"])
def test_the_rendered_picture_stays(placed):
    """The engine draws the same image before and after."""
    object = add(placed)
    before = draw(splat_object.read_splats(object, world=True))
    apply_transforms([object])
    bpy.context.view_layer.update()
    after = draw(splat_object.read_splats(object, world=True))
    assert before.std() > 0.05 and np.abs(after - before).max() < 2e-3


def test_delta_transform_and_parent():
    """The object's own transform goes, deltas too; the parent's stays, and the world sees no change."""
    parent = bpy.data.objects.new("Parent", None)
    parent.location, parent.rotation_euler = (3, 0, 1), (0, 0.5, 0)
    bpy.context.scene.collection.objects.link(parent)
    object = add()
    object.parent, object.delta_location, object.delta_scale = parent, (0.5, 0, 0), (1, 2, 1)
    bpy.context.view_layer.update()
    before = splat_object.read_splats(object, world=True)
    apply_transforms([object])
    bpy.context.view_layer.update()
    np.testing.assert_allclose(object.matrix_world, parent.matrix_world, atol=1e-6)
    assert_same_picture(splat_object.read_splats(object, world=True), before)


def test_children_keep_their_place():
    """As with Blender's own Apply."""
    object = add()
    child = bpy.data.objects.new("Child", None)
    bpy.context.scene.collection.objects.link(child)
    child.parent, child.location = object, (1, 2, 3)
    bpy.context.view_layer.update()
    before = child.matrix_world.copy()
    apply_transforms([object])
    bpy.context.view_layer.update()
    np.testing.assert_allclose(child.matrix_world, before, atol=1e-5)


def refuse(object: Any, words: str) -> None:
    before = splat_object.read_splats(object).means
    with pytest.raises(UserError, match=words):
        apply_transforms([object])
    np.testing.assert_array_equal(splat_object.read_splats(object).means, before)
    assert object.location.y == 1


def test_shared_splats_are_refused():
    """The other object would jump."""
    object = add()
    bpy.data.objects.new("Twin", object.data)
    refuse(object, "2 objects use")


def test_animated_and_constrained_objects_are_refused():
    """They would move again by what is taken into the splats; a muted constraint does nothing."""
    object = add()
    object.constraints.new("LIMIT_LOCATION")
    refuse(object, "constraints")
    object.constraints[0].mute = True
    object.keyframe_insert("location", frame=1)
    refuse(object, "animated")
    object.animation_data_clear()
    apply_transforms([object])


def test_one_that_is_refused_stops_all():
    """Of two objects neither is changed if the second cannot be."""
    good, bad = add(), add()
    bad.constraints.new("LIMIT_LOCATION")
    with pytest.raises(UserError, match="constraints"):
        apply_transforms([good, bad])
    assert good.location.y == 1


def test_flattening_transform_is_refused():
    """Splats of no thickness cannot be drawn."""
    refuse(add(((0, 1, 0), (0, 0, 0), (1, 0, 1))), "flattens")


def test_objects_and_selection_stay():
    """What is not geometry is not touched, to the last bit."""
    object = add()
    own = object.data.attributes.new("mine", "FLOAT", "POINT")
    own.data.foreach_set("value", np.arange(60, dtype=np.float32))
    base = point_cloud.read(object.data, "x")["radiance:base"]
    apply_transforms([object])
    values = np.empty(60, np.float32)
    object.data.attributes["mine"].data.foreach_get("value", values)
    np.testing.assert_array_equal(values, np.arange(60))
    np.testing.assert_array_equal(point_cloud.read(object.data, "x")["radiance:base"], base)
